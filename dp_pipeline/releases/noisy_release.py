"""A release with noise: which draw of it is the newest, what it says and what it costs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import fact_text
from dp_pipeline.gate.noise import NoiseSource, parse_noise
from dp_pipeline.ledger import Entry
from dp_pipeline.ledger.entries import DELTA
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.home import NOISE_VARIABLE
from dp_pipeline.releases.noisy_drawing import Counted, NoisyDrawing, Questions
from dp_pipeline.releases.release import OTHER_NON_DP, Release, ReleaseSpec, other_non_dp_releases
from dp_pipeline.releases.replay import settled_answers
from dp_pipeline.results.bundle import Bundle, Key, ReleaseKey


class NoisyRelease(Release):
    """A release whose answers are noisy, and are stored one by one.

    epsilon      that is asked
    noise_name   of the noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    """

    SYMBOL = "ε"

    epsilon: Fraction
    noise_name: str

    @property
    def level(self) -> str:
        """Its ε, as the key of its partition."""
        return epsilon_text(self.epsilon)

    @property
    @abstractmethod
    def guarantee(self) -> PrivacyGuarantee:
        """What holds for the noisy answers at this ε."""

    @property
    @abstractmethod
    def measuring(self) -> Mapping[str, str]:
        """Parameters that decide what is asked, as text."""

    @property
    @abstractmethod
    def cost(self) -> Fraction:
        """What it costs the population by itself, in what that pays in."""

    @property
    def evaluation(self) -> Fraction | None:
        """ε of private quality numbers; None where there are none."""
        return None

    @property
    def delta(self) -> Fraction:
        """Its own δ, beside that of its population's conversion."""
        return Fraction(0)

    @cached_property
    def noise(self) -> NoiseSource:
        """Where the noise comes from: one stream for the whole release."""
        return parse_noise(self.noise_name)

    def label_state(self, state: str) -> str:
        """A state, with what its guarantee is where that is not the ε that was asked."""
        return self.guarantee.label_state(state)

    def require_allowed(self) -> None:
        """DeclarationError for a noise source that does not exist, or a seed on release data."""
        fit = self.noise.is_releasable
        if self.spec.is_release and not fit:
            raise DeclarationError(
                f"{self.spec.name}: noise: expected a source fit for sensitive data, "
                f"got a seeded one: unset {NOISE_VARIABLE}"
            )

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """The key of the newest draw of this release, or with ``new_draw`` of one more.

        A draw that was charged and not finished is finished first, new draw or not.
        """
        key = self.draw_key(snapshot.names)
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
            measuring=self.measuring,
            epsilon=self.epsilon,
            evaluation=self.evaluation,
            noise=self.noise_name,
            replicate=replicate,
        )

    def resolve(self, key: Key) -> ReleaseSpec:
        """The draw with this key, as declarations and ledger say it now."""
        reserved = next(iter(self.home.ledger.history(key.digest)), None)
        return ReleaseSpec(
            key=key,
            facts=self._facts(own(key)),
            what=self.what,
            currency=self.spec.currency,
            price=self.cost,
            delta=self.delta,
            windows=self.windows,
            reserved=reserved,
        )

    def _facts(self, key: ReleaseKey) -> dict[str, str]:
        spec, guarantee = self.spec, self.guarantee
        is_fit = self.noise.is_releasable and guarantee.is_plain
        beside = other_non_dp_releases(spec, self.home.ledger, before=key.digest)
        facts = {
            "population": spec.population,
            "dataset": spec.name,
            "model": self.name,
            "epsilon": self.level,
            "kind": guarantee.kind,
            "composed": guarantee.composed,
            "reason": guarantee.reason,
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
            "releasable": "yes" if is_fit else "no",
            "code": self.version(),
        }
        facts |= {DELTA: str(self.delta)} if self.delta else {}
        facts |= {OTHER_NON_DP: "; ".join(beside)} if beside else {}
        if spec.delta is not None:
            facts |= {"delta": delta_text(spec.delta), "currency": guarantee.currency.name}
        return facts

    @abstractmethod
    def questions(self, spec: ReleaseSpec) -> Questions:
        """What is asked of the rows, whichever they are."""

    @abstractmethod
    def counter(self, snapshot: Snapshot) -> Counted:
        """The counter of its rows."""

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> NoisyDrawing:
        """The counter over its rows, before it is charged."""
        counter = self.counter(snapshot)
        return NoisyDrawing(self.home, self.questions, spec, counter, self.noise)

    def remade(self, key: Key, settled: Entry) -> Bundle:
        """The bundle of a settled release, made again from its stored answers; no row is read.

        Raises Damaged where an answer is missing, or they are not those that were settled;
        OtherQuestion where another question is asked than was answered.
        """
        answers, spec = settled_answers(self.store, key, settled), self.resolve(key)
        assert spec.reserved is not None
        again = self.questions(spec).bundle(
            None,
            answers,
            self.noise,
            matches_reserved=spec.reserved.facts["postprocessing"] == spec.facts["postprocessing"],
        )
        # A later program may say its charges otherwise.
        said = [
            replace(spend, what=row.what) if row.mechanism == spend.mechanism else spend
            for spend, row in zip(again.spends, settled.spends, strict=False)
        ]
        return replace(again, spends=(*said, *again.spends[len(said) :]))


def own(key: Key) -> ReleaseKey:
    """A key as one of a release with noise."""
    assert isinstance(key, ReleaseKey)
    return key
