"""A release at an ε: what makes it the same one, and how it is drawn.

The model is fitted on a curator, then its private evaluation is paid for on another. What must hold
before it is charged, or gone on with, declarations and ledger decide.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource, named_noise
from dp_pipeline.gate.quality import private_quality
from dp_pipeline.ledger import Charge, Entry
from dp_pipeline.models import build_model
from dp_pipeline.models.base import Ask, Model, PrivacyGuarantee, declared_guarantee, fit, price
from dp_pipeline.publish.home import NOISE_VARIABLE, Home
from dp_pipeline.publish.release import (
    BESIDE,
    ROWS,
    Drawing,
    Release,
    code_version,
    digest_of,
    not_dp_beside,
)
from dp_pipeline.publish.store import write_atomically
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.bundle import EARLIER_EVALUATION, Bundle, Key, ReleaseKey
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.release.transcript import AnswerCount, AnswersLost, Transcript
from dp_pipeline.spec.amounts import delta_text, epsilon_text, nano_epsilon
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import Damaged, DeclarationError, OtherQuestion
from dp_pipeline.spec.parameters import fact_text, texts_of

_DRY_RUN = "seeded:0"


@dataclass(frozen=True)
class EpsilonRelease(Release):
    """One release at an ε.

    name         of the model
    noise_name   of the noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    run          what the ledger notes of the run: run id, asset
    """

    SYMBOL = "ε"

    spec: DatasetSpec
    name: str
    epsilon: Fraction
    home: Home
    noise_name: str
    run: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def names(spec: DatasetSpec) -> tuple[str, ...]:
        """Declared models."""
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
        """A declared release; DeclarationError for an ε that is not declared."""
        return cls(spec, name, spec.partition(level), home, noise, run or {})

    @classmethod
    def description(cls, spec: DatasetSpec, name: str) -> str:
        """What the model does, whom it protects, and what every ε costs."""
        model = build_model(spec, name)
        guarantees = [declared_guarantee(spec, model, epsilon) for epsilon in spec.partitions]
        kept = f"{spec.title}: {model.summary}. Protected unit: {spec.protection}."
        if not guarantees[0].is_dp:
            return f"{kept} Not differentially private: {guarantees[0].reason}; charges nothing."
        costs = ", ".join(spec.currency.text(price(spec, one)) for one in guarantees)
        evaluated = " and its evaluation's" if spec.evaluation else ""
        why = f": {guarantees[0].reason}" if guarantees[0].reason else ""
        return (
            f"{kept} A first run of a partition charges its ε{evaluated} ({costs}{why}); "
            "a re-run replays at cost 0."
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

    @cached_property
    def noise(self) -> NoiseSource:
        """Where the noise comes from: one stream for the whole release."""
        return named_noise(self.noise_name)

    @property
    def is_fit_for_release(self) -> bool:
        """Whether it may leave: noise that nobody can draw again, and the ε that was asked."""
        return self.noise.fit_for_release and self.guarantee.is_plain

    def require_allowed(self) -> None:
        """DeclarationError for a noise source that does not exist, or a seed on release data."""
        fit = self.noise.fit_for_release
        if self.spec.is_release and not fit:
            raise DeclarationError(
                f"{self.spec.name}: noise: expected a source fit for sensitive data, "
                f"got a seeded one: unset {NOISE_VARIABLE}"
            )

    @cached_property
    def model(self) -> Model:
        """The declared model, checked."""
        return build_model(self.spec, self.name)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """What the model promises at this ε."""
        return declared_guarantee(self.spec, self.model, self.epsilon)

    @property
    def evaluation(self) -> Fraction | None:
        """ε of private quality numbers; none beside a release that has no ε itself."""
        return self.spec.evaluation if self.guarantee.is_dp else None

    @property
    def nano(self) -> int:
        """Nano-ε, or nano-ρ, that a first draw charges, with its evaluation; 0 where no finite ε
        holds.
        """
        return nano_epsilon(price(self.spec, self.guarantee))

    @property
    def postprocessing(self) -> dict[str, str]:
        """Parameters, and declarations of numbers that are whole, that need no further look."""
        whole = ", ".join(attribute.name for attribute in self.spec.domain if attribute.whole)
        declared = {"integer": whole} if whole else {}
        return {**texts_of(self.model, measuring=False), **declared}

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """The key of the newest draw of this release, or with ``new_draw`` of one more.

        A draw that was charged and not finished is finished first, new draw or not.
        """
        key = self.draw_key(snapshot.id)
        states: list[str | None] = []
        while None not in states[1:]:
            # Ever more at once: each look opens the ledger, and mostly there is one draw or none.
            more = range(len(states), 2 * len(states) + 2)
            states += self.home.ledger.states([key.with_replicate(one).digest for one in more])
        following = states.index(None, 1)
        ended = states[following - 1] in ("settled", "dead")
        return key.with_replicate(following if new_draw and ended else following - 1)

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
            nano_epsilon=self.nano,
            what=self.what,
            facts={**self.facts(_own(key)), **self.run, ROWS: rows},
            currency=self.spec.currency,
        )

    @property
    def what(self) -> str:
        """The words for messages and the ledger."""
        return f"{self.spec.name}/{self.name} at {self._price}"

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
            "fit_for_release": "yes" if self.is_fit_for_release else "no",
            "code": code_version(),
            **({BESIDE: "; ".join(beside)} if beside else {}),
        }
        if spec.delta is None:
            return facts
        paid = {"delta": delta_text(spec.delta), "currency": self.guarantee.currency.name}
        return {**facts, **paid}

    def open(self, key: Key, snapshot: Snapshot) -> EpsilonDrawing:
        """The counter over its rows, before it is charged."""
        return EpsilonDrawing(self, _own(key), MemoryCounter.open(self.spec, snapshot))

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

    def remade(self, key: Key, settled: Entry) -> Bundle:
        """The bundle of a settled release, made again from its stored answers; no row is read.

        Raises Damaged where an answer is missing, or they are not those that were settled;
        OtherQuestion where another question is asked than was answered.
        """
        answers = Transcript(self.store.transcript_path(key)).rewind()
        if answers.chain != settled.facts[TRANSCRIPT]:
            raise Damaged(
                f"transcript: expected that of {'/'.join(self.path)} as settled, got another"
            )
        begun = self.home.ledger.history(key.digest)[0].facts["postprocessing"]
        as_drawn = begun == fact_text(self.postprocessing)
        again = draw(self, _own(key), None, answers, is_evaluated=as_drawn)
        # A later program may say its charges otherwise.
        said = [
            replace(spend, what=row.what) if row.mechanism == spend.mechanism else spend
            for spend, row in zip(again.spends, settled.spends, strict=False)
        ]
        return replace(again, spends=(*said, *again.spends[len(said) :]))

    def write_card(self, bundle: Bundle, folder: Path) -> Path:  # noqa: ARG002
        """The card, made anew by every run, as the sum of all charges grows."""
        from dp_pipeline.reporting.pages import card
        from dp_pipeline.reporting.releases import PrivateRelease

        ledger, population = self.home.ledger, self.spec.population
        reported = PrivateRelease(
            spec=self.spec,
            bundle=bundle,
            summary=self.summary,
            balance=ledger.balance(population),
            beside=not_dp_beside(self.spec, ledger),
        )
        path = self.home.reports / f"{self.spec.name}.cards" / f"{self.name}.{self.level}.md"
        write_atomically(path, card(reported).encode())
        return path


def _own(key: Key) -> ReleaseKey:
    assert isinstance(key, ReleaseKey)
    return key


@dataclass(frozen=True)
class EpsilonDrawing(Drawing):
    """A counter that a release at an ε will be drawn from, and its answers on disk."""

    release: EpsilonRelease
    key: ReleaseKey
    counter: MemoryCounter

    @property
    def rows(self) -> str:  # type: ignore[override]
        """The keyed fingerprint of the very bytes that are counted."""
        return self.counter.fingerprint

    @property
    def _count(self) -> AnswerCount:
        return AnswerCount(self.release.home.answer_counts / self.key.digest)

    def dry_run(self) -> None:
        """Draw once over an empty table, in memory, with a seed: what cannot be drawn must not be
        charged.

        Raises whatever the draw would raise for declarations alone, such as a table with too
        many cells or a scale too large for whole numbers.
        """
        release, key = self.release, self.key
        nobody = MemoryCounter.empty(release.spec.domain)
        draw(replace(release, noise_name=_DRY_RUN), key, nobody, Transcript())

    def begin(self) -> None:
        """Its transcript, and the count of its answers."""
        release, key = self.release, self.key
        # Known to who holds the population's key only, and the same in every process.
        secret = release.home.ledger.key(key.population)
        salt = hmac.digest(secret, f"transcript {key.digest}".encode(), "sha256")
        Transcript.create(release.store.transcript_path(key), key.digest, salt=salt)
        self._count.begin()

    def draw(self, stored: Sequence[Bundle], *, begun: Entry | None) -> Bundle:
        """Draw what the transcript does not hold yet.

        A transcript that lost answers ends the key: they may have been seen. So do rows that are
        not those of the first answers: all of them together would be of two data sets. Damage
        elsewhere ends nothing: it can be mended, and the answers are whole.
        """
        release, key = self.release, self.key
        # First: one of another format is whole, and refused.
        transcript = Transcript(release.store.transcript_path(key))
        if begun is not None:
            self._require_same_rows(begun)
        transcript.require_begun(key.digest)
        transcript.count_in(self._count)
        if any(bundle.transcript != transcript.chain for bundle in stored):
            # A bundle is stored after the last answer: where one lies, none may be missing.
            raise AnswersLost(
                f"transcript: expected that of the stored bundle of {'/'.join(release.path)}, "
                "got another"
            )
        return draw(release, key, self.counter, transcript)

    def end(self) -> None:
        """Forget the count of the answers."""
        self._count.end()

    def _require_same_rows(self, begun: Entry) -> None:
        """One charge pays for answers about one data set: those of two, of which a person is in one
        or in both, may tell nearly twice as much of her.

        OtherQuestion where it was charged before that row said which rows it was begun with.
        """
        if ROWS not in begun.facts:
            raise OtherQuestion(
                "expected a release that says which rows it was begun with, got none"
            )
        if begun.facts[ROWS] != self.rows:
            raise AnswersLost(
                f"{'/'.join(self.release.path)}: expected the rows of snapshot "
                f"{self.key.snapshot} that this release was begun with, got rows that were read or "
                "prepared again otherwise; its ε is spent: only --new-draw goes on"
            )


TRANSCRIPT = "transcript"
"""The fact of a settled ledger row that holds the digest of the answers."""


def draw(
    release: EpsilonRelease,
    key: ReleaseKey,
    counter: Counter | None,
    transcript: Transcript,
    *,
    is_evaluated: bool = True,
) -> Bundle:
    """The bundle of one release with its evaluation; spends exactly what it claims.

    counter        None draws nothing: every answer must be in the transcript
    is_evaluated   False for a settled release under another post-processing: the evaluation that
                   was paid for was of other centres or tables, and is left out
    """
    ask, rng = _curator(release, counter, transcript), release.generator(key)
    fitted = fit(release.model, release.guarantee, ask, epsilon=release.epsilon, rng=rng)
    fitted.require_guaranteed(release.guarantee, what="/".join(release.path))
    spends, quality, facts = fitted.spends, dict[str, NoisyNumber](), release.facts(key)
    if release.evaluation is not None and is_evaluated:
        paid = Accountant(release.evaluation)
        quality = private_quality(
            ask(paid),
            fitted.released,
            epsilon=release.evaluation,
            label=release.spec.label,
            targets=release.spec.targets,
        )
        paid.require_all_spent()
        spends += paid.spends
    elif release.evaluation is not None:
        facts = {**facts, EARLIER_EVALUATION: epsilon_text(release.evaluation)}
    tables = fitted.released.tables()
    return Bundle(key.digest, facts, spends, quality, tables, transcript.chain)


def _curator(release: EpsilonRelease, counter: Counter | None, transcript: Transcript) -> Ask:
    def ask(accountant: Accountant) -> Curator:
        return Curator(
            counter,
            domain=release.spec.domain,
            distance=release.spec.distance,
            accountant=accountant,
            transcript=transcript,
            noise=release.noise,
            benchmark=not release.spec.is_release,
            relation=release.spec.relation,
        )

    return ask
