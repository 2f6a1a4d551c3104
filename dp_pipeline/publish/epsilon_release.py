"""A release at an ε: what makes it the same one, and how it is drawn.

The model is fitted on a curator, then its private evaluation is paid for on another. What must hold
before it is charged, or gone on with, declarations and ledger decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from dp_pipeline.gate.curator import Answered, Curator
from dp_pipeline.ledger import Charge
from dp_pipeline.models import build_model
from dp_pipeline.models.base import (
    Ask,
    Fitted,
    Model,
    PrivacyGuarantee,
    declared_guarantee,
    fit,
    price,
)
from dp_pipeline.publish.home import Home, engine_name
from dp_pipeline.publish.noisy_release import TRANSCRIPT, Counted, NoisyDrawing, NoisyRelease, own
from dp_pipeline.publish.refinement import (
    PublicRows,
    Refined,
    asked_key,
    earlier_tables,
    learned_facts,
    newest_key,
    public_table,
)
from dp_pipeline.publish.release import BESIDE, ROWS, code_version, digest_of, not_dp_beside
from dp_pipeline.publish.replay import exact_rows, settled_entry
from dp_pipeline.publish.store import write_atomically
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.bundle import EARLIER_EVALUATION, Bundle, Key, ReleaseKey
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.amounts import delta_text, epsilon_text, nano_epsilon
from dp_pipeline.spec.dataset import WINDOW, DatasetSpec
from dp_pipeline.spec.errors import Damaged, DeclarationError
from dp_pipeline.spec.parameters import fact_text, texts_of
from dp_pipeline.spec.windows import range_text

if TYPE_CHECKING:
    from dp_pipeline.raw.counters.fold import FoldCounter, NobodysRows
    from dp_pipeline.reporting.releases import PrivateRelease


@dataclass(frozen=True)
class EpsilonRelease(NoisyRelease):
    """One release at an ε.

    name         of the model
    noise_name   of the noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    run          what the ledger notes of the run: run id, asset
    refine       ε of the release that it is asked to refine; None: to be drawn by itself, unless
                 the newest release at its ε is a refinement
    span         how many windows it is of, where rows are cut: that of its declaration, and those
                 before it

    A release of several windows is charged to each of them. *Its noise is that of one*: the
    protected unit is a person's rows of one window, of which ``at_most`` count in each, so two
    neighbours differ in so many rows, in whichever of its windows. All rows of a person who is in m
    of them cost m times as much, which the ledger adds up (``ledger.entries.counted``).
    """

    SYMBOL = "ε"

    spec: DatasetSpec
    name: str
    epsilon: Fraction
    home: Home
    noise_name: str
    run: Mapping[str, str] = field(default_factory=dict)
    refine: Fraction | None = None
    span: int = 1

    @staticmethod
    def names(spec: DatasetSpec) -> tuple[str, ...]:
        """Declared models; where rows are cut into windows, those that are published of each."""
        if spec.windows is not None:
            return tuple(one.model for one in spec.publications)
        return tuple(spec.models)

    @staticmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:
        """Declared ε, ascending."""
        return spec.partition_keys

    @classmethod
    def at(
        cls,
        spec: DatasetSpec,
        name: str,
        level: str,
        home: Home,
        *,
        noise: str,
        run: Mapping[str, str] | None = None,
    ) -> Self:
        """A declared release, of as many windows as are published together; DeclarationError for
        an ε that is not declared.
        """
        epsilon, span = spec.partition(level), spec.span_of(name)
        return cls(spec, name, epsilon, home, noise, run or {}, span=span)

    @classmethod
    def description(cls, spec: DatasetSpec, name: str) -> str:
        """What the model does, whom it protects, and what every ε costs."""
        model = build_model(spec, name)
        guarantees = [declared_guarantee(spec, model, epsilon) for epsilon in spec.partitions]
        kept = f"{spec.title}: {model.summary}. Protected unit: {spec.protection}."
        if not guarantees[0].is_dp:
            return f"{kept} Not differentially private: {guarantees[0].reason}; charges nothing."
        if (span := spec.span_of(name)) > 1:
            kept += f" Each release is of {span} {spec.cut.every}s, and is charged to all of them."
        costs = ", ".join(spec.currency.text(price(spec, one)) for one in guarantees)
        evaluated = " and its evaluation's" if spec.evaluation else ""
        why = f": {guarantees[0].reason}" if guarantees[0].reason else ""
        return (
            f"{kept} A first run of a partition charges its ε{evaluated} ({costs}{why}); "
            "a re-run replays at cost 0."
        )

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows whose rows it is of, oldest first; DeclarationError where there are not as
        many.
        """
        if self.span == 1:
            return self.spec.blocks
        try:
            return self.spec.cut.ending_with(self.spec.window, self.span)
        except DeclarationError as refused:
            raise DeclarationError(f"{'/'.join(self.path)}: {refused}") from None

    def require_allowed(self) -> None:
        """DeclarationError also for windows that are not there, or do not add up."""
        super().require_allowed()
        if self.span > 1 and self.spec.delta is not None:
            raise DeclarationError(
                f"{'/'.join(self.path)}: expected a release of one window beside `delta`, as ρ of "
                f"windows do not add up, got one of {range_text(self.windows)}"
            )

    @property
    def level(self) -> str:
        """Its ε, as the key of its partition."""
        return epsilon_text(self.epsilon)

    @property
    def summary(self) -> str:
        """What the model does, in a line."""
        return self.model.summary

    def marked(self, state: str) -> str:
        """A state, with what its guarantee is where that is not the ε that was asked."""
        return self.guarantee.marked(state)

    @staticmethod
    def version() -> str:
        """Version of the code that measures, as it is now."""
        return code_version()

    @classmethod
    def code(cls, spec: DatasetSpec, name: str, *, drawn: str | None = None) -> str:
        """Digest of the code that measures, what is declared, and the model's parameters."""
        model = build_model(spec, name)
        whole = [attribute.name for attribute in spec.domain if attribute.whole]
        parameters = [*(texts_of(model, measuring=one) for one in (True, False)), whole]
        return digest_of(drawn or cls.version(), spec.digest, spec.evaluation, *parameters)

    @property
    def is_fit_for_release(self) -> bool:
        """Whether it may leave: noise that nobody can draw again, and the ε that was asked."""
        return self.noise.fit_for_release and self.guarantee.is_plain

    @cached_property
    def model(self) -> Model:
        """The declared model, checked."""
        return build_model(self.spec, self.name)

    @cached_property
    def public_rows(self) -> PublicRows | None:
        """Those of others that its model is declared to use."""
        return PublicRows.of(self)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """What the model promises at this ε."""
        return declared_guarantee(self.spec, self.model, self.epsilon)

    @property
    def evaluation(self) -> Fraction | None:
        """ε of private quality numbers; none beside a release that has no ε itself."""
        return self.spec.evaluation if self.guarantee.is_dp else None

    def nano(self, key: ReleaseKey) -> int:
        """Nano-ε, or nano-ρ, that a first draw charges, with its evaluation; 0 where no finite ε
        holds. What a release has paid that it refines is not paid again.
        """
        asked = price(self.spec, self.guarantee)
        return nano_epsilon(asked - self._coarse_amount(key))

    def _coarse_amount(self, key: ReleaseKey) -> Fraction:
        """What the model has spent, or would have, of the release that is refined; 0 of none."""
        if not key.refines:
            return Fraction(0)
        coarse = Refined.by(self, key) if self.home.ledger.history(key.refines) else None
        epsilon = self.refine if coarse is None else coarse.release.epsilon
        assert epsilon is not None
        return replace(self, epsilon=epsilon, refine=None).guarantee.amount

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """The key of the refinement that is asked for; else of the newest draw of this release, or
        with ``new_draw`` of one more, which refines nothing.
        """
        if self.refine is not None:
            return asked_key(self, snapshot)
        drawn = super().key(snapshot, new_draw=new_draw)
        if new_draw or not self.model.refines:
            return drawn
        return newest_key(self, snapshot, drawn)

    @property
    def postprocessing(self) -> dict[str, str]:
        """Parameters, and declarations of numbers that are whole, that need no further look."""
        whole = ", ".join(attribute.name for attribute in self.spec.domain if attribute.whole)
        declared = {"integer": whole} if whole else {}
        return {**texts_of(self.model, measuring=False), **declared}

    def draw_key(self, snapshot: str, replicate: int = 0) -> ReleaseKey:
        """The key of one draw on the snapshot of that name, made or not."""
        return ReleaseKey(
            population=self.spec.population,
            dataset=self.spec.name,
            snapshot=snapshot,
            declaration=self.spec.digest,
            model=self.name,
            measuring=texts_of(self.model, measuring=True),
            epsilon=self.epsilon,
            evaluation=self.evaluation,
            noise=self.noise_name,
            replicate=replicate,
        )

    def charge(self, key: Key, *, rows: str) -> Charge:
        """What the ledger reserves: the cost of the release and of its evaluation, at once.

        rows   fingerprint of the tables that its answers are of
        """
        return Charge(
            key=key.digest,
            population=key.population,
            kind=self.guarantee.kind,
            nano_epsilon=self.nano(own(key)),
            what=self._what(own(key)),
            facts={**self.facts(own(key)), **self.run, ROWS: rows},
            currency=self.spec.currency,
            blocks=self.windows,
        )

    @property
    def what(self) -> str:
        """The words for messages and the ledger."""
        window = f" of {range_text(self.windows)}" if self.windows else ""
        return f"{self.spec.name}/{self.name}{window} at {self._price}"

    def _what(self, key: ReleaseKey) -> str:
        coarse = Refined.by(self, key)
        return self.what if coarse is None else f"{self.what}, refined from {coarse.release.level}"

    @property
    def _price(self) -> str:
        asked = epsilon_text(self.epsilon)
        delta = self.guarantee.currency.delta
        if delta is not None:
            asked = f"{asked} at δ={delta_text(delta)}"
        if self.guarantee.is_plain:
            return f"ε={asked}"
        promised = self.guarantee
        holds = f"composed ε={promised.composed}" if promised.is_dp else promised.kind
        return f"nominal ε={asked}, {holds}"

    def generator(self, key: ReleaseKey) -> np.random.Generator:
        """Post-processing randomness: fixed by public facts, so a replay gives the same bytes."""
        text = f"{key.digest} {self.postprocessing}"
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16]))

    def facts(self, key: ReleaseKey) -> dict[str, str]:
        """What is written into the ledger and the bundle: declarations and versions, no rows."""
        spec = self.spec
        beside = not_dp_beside(spec, self.home.ledger, before=key.digest)
        facts = {
            "population": spec.population,
            "dataset": spec.name,
            "model": key.model,
            "epsilon": epsilon_text(self.epsilon),
            "kind": self.guarantee.kind,
            "composed": self.guarantee.composed,
            "reason": self.guarantee.reason,
            "evaluation": "none" if self.evaluation is None else epsilon_text(self.evaluation),
            "snapshot": key.snapshot,
            "replicate": str(key.replicate),
            "measuring": fact_text(key.measuring),
            "postprocessing": fact_text(self.postprocessing),
            "declaration": key.declaration,
            "unit": str(spec.protection),
            "relation": spec.relation,
            "purpose": spec.purpose,
            "noise": self.noise_name,
            "releasable": "yes" if self.is_fit_for_release else "no",
            "code": code_version(),
            **({BESIDE: "; ".join(beside)} if beside else {}),
        }
        facts |= spec.discovered_fact | spec.constraints_fact
        facts |= {WINDOW: range_text(self.windows)} if self.windows else {}
        facts |= learned_facts(self, key)
        coarse = Refined.by(self, key)
        facts |= {} if coarse is None else coarse.facts
        if spec.delta is None:
            return facts
        paid = {"delta": delta_text(spec.delta), "currency": self.guarantee.currency.name}
        return {**facts, **paid}

    def require_as_begun(self, key: Key) -> None:
        """DeclarationError for a release that was begun with another post-processing.

        Its evaluation asks about its own centres or tables: other ones would be other
        questions, of which the charge holds one set only. Settled, it may be changed for nothing.
        """
        ledger, now = self.home.ledger, fact_text(self.postprocessing)
        is_unfinished = ledger.state(key.digest) in ("reserved", "interrupted")
        if self.evaluation is None or not is_unfinished:
            return
        begun = ledger.history(key.digest)[0].facts["postprocessing"]
        if begun != now:
            raise DeclarationError(
                f"{'/'.join(self.path)}: expected the parameters {begun} that the charged release "
                f"was begun with, got {now}: finish it first"
            )

    def with_noise(self, name: str) -> Self:
        """The same release from another source of noise."""
        return replace(self, noise_name=name)

    def nobody(self) -> NobodysRows:
        """The counter of an empty table."""
        from dp_pipeline.raw.counters.fold import NobodysRows

        return NobodysRows(self.spec.domain)

    def open(self, key: Key, snapshot: Snapshot) -> NoisyDrawing:
        """The counter over its rows, before it is charged; DeclarationError where they are not
        those of the release that it refines, or that one is not finished.
        """
        drawing = super().open(key, snapshot)
        coarse = Refined.by(self, own(key))
        if coarse is not None:
            coarse.require_settled()
            coarse.require_same_rows(drawing.rows)
        return drawing

    def counter(self, snapshot: Snapshot) -> FoldCounter:
        """The counter of its prepared rows."""
        from dp_pipeline.raw.counters import open_counter

        return open_counter(self.spec, snapshot, engine_name())

    def drawn(
        self,
        key: ReleaseKey,
        counter: Counted | None,
        transcript: Transcript,
        *,
        as_begun: bool = True,
    ) -> Bundle:
        """The bundle with its evaluation; spends exactly what it claims.

        counter    None draws nothing: every answer must be in the transcript
        as_begun   False for a settled release under another post-processing: the evaluation that
                   was paid for was of other centres or tables, and is left out
        """
        fit_model, _ = self.fit_of(key, counter, transcript)
        fitted = fit_model()
        fitted.require_guaranteed(self.guarantee, what="/".join(self.path))
        spends, quality, facts = fitted.spends, dict[str, NoisyNumber](), self.facts(key)
        if self.evaluation is not None and as_begun:
            paid = Accountant(self.evaluation)
            from dp_pipeline.gate.quality import private_quality

            quality = private_quality(
                _curator(self, counter, transcript, {})(paid),
                fitted.released,
                epsilon=self.evaluation,
                label=self.spec.label,
                targets=self.spec.targets,
            )
            paid.require_all_spent()
            spends += paid.spends
        elif self.evaluation is not None:
            facts = {**facts, EARLIER_EVALUATION: epsilon_text(self.evaluation)}
        tables = fitted.released.tables()
        return Bundle(key.digest, facts, spends, quality, tables, transcript.chain)

    def told(self, key: ReleaseKey) -> tuple[Fitted, Answered]:
        """What a settled release was made of, from its stored answers; Damaged where they are not
        those that were settled. No row is read.
        """
        settled = settled_entry(key.digest, key.population, self.home.ledger)
        transcript = Transcript(self.store.transcript_path(key)).rewind()
        if transcript.chain != settled.facts[TRANSCRIPT]:
            raise Damaged(f"transcript: expected that of {self.what} as settled, got another")
        fit_model, answered = self.fit_of(key, None, transcript)
        return fit_model(), answered

    def fit_of(
        self, key: ReleaseKey, counter: Counted | None, transcript: Transcript
    ) -> tuple[Callable[[], Fitted], Answered]:
        """The fit of its model, to be made, and where what is answered to it will be."""
        refined = Refined.by(self, key)
        coarse, answered = (None, {}) if refined is None else refined.told()
        fit_model = partial(
            fit,
            self.model,
            self.guarantee,
            _curator(self, counter, transcript, answered),
            epsilon=self.epsilon,
            rng=self.generator(key),
            earlier=earlier_tables(self, key),
            coarse=coarse,
            public=public_table(self, key),
        )
        return fit_model, answered

    def reported(self, bundle: Bundle) -> PrivateRelease:
        """Return the release as cards show it, with its quality where its rows are public."""
        return replace(super().reported(bundle), exact=exact_rows(self, bundle))

    def write_card(self, bundle: Bundle, folder: Path) -> Path:  # noqa: ARG002
        """The card, made anew by every run, as the sum of all charges grows."""
        from dp_pipeline.reporting.pages import card

        name = ".".join((self.name, *self.partition))
        path = self.home.reports / f"{self.spec.name}.cards" / f"{name}.md"
        write_atomically(path, card(self.reported(bundle)).encode())
        return path


def _curator(
    release: EpsilonRelease, counter: Counted | None, transcript: Transcript, answered: Answered
) -> Ask:
    def ask(accountant: Accountant) -> Curator:
        return Curator(
            cast("FoldCounter | None", counter),
            domain=release.spec.domain,
            distance=release.spec.distance,
            accountant=accountant,
            transcript=transcript,
            noise=release.noise,
            benchmark=not release.spec.is_release,
            relation=release.spec.relation,
            answered=answered,
        )

    return ask
