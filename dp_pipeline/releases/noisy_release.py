"""A release with noise: its facts, its cost and the key of its newest draw."""

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
from dp_pipeline.releases.noisy_drawing import NoisyDrawing, Questions, ReleaseCounter
from dp_pipeline.releases.release import Release, ReleaseSpec
from dp_pipeline.releases.replay import settled_answers
from dp_pipeline.results.bundle import Bundle, Key, ReleaseKey


class NoisyRelease(Release):
    """A release of noisy answers, which are stored one by one.

    epsilon      the requested ε
    noise_name   noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    """

    SYMBOL = "ε"

    epsilon: Fraction
    noise_name: str

    @property
    def level(self) -> str:
        """The ε, as the key of its partition."""
        return epsilon_text(self.epsilon)

    @property
    @abstractmethod
    def guarantee(self) -> PrivacyGuarantee:
        """The privacy guarantee of its noisy answers."""

    @property
    @abstractmethod
    def measuring(self) -> Mapping[str, str]:
        """The parameters that determine its questions to the rows, as text."""

    @property
    def evaluation(self) -> Fraction | None:
        """The ε of its private quality numbers; None where there are none."""
        return None

    @cached_property
    def noise(self) -> NoiseSource:
        """The noise source: one stream for the whole release."""
        return parse_noise(self.noise_name)

    def label_state(self, state: str) -> str:
        """Return a state, with a label if the requested ε is not guaranteed."""
        return self.guarantee.label_state(state)

    def require_allowed(self) -> None:
        """Raise DeclarationError for an unknown noise source, or a seed on release data."""
        fit = self.noise.is_releasable
        if self.spec.is_release and not fit:
            raise DeclarationError(
                f"{self.spec.name}: noise: expected a source for sensitive data, "
                f"got a seeded one: unset {NOISE_VARIABLE}"
            )

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """Return the key of the newest draw, or with ``new_draw`` of the next one.

        A draw that was charged and not finished is finished first, also with ``new_draw``.
        """
        key = self.draw_key(snapshot.names)
        states: list[str | None] = []
        while None not in states[1:]:
            # In doubling batches: each query opens the ledger, and mostly there is one draw or
            # none.
            batch = range(len(states), 2 * len(states) + 2)
            digests = [key.with_replicate(replicate).digest for replicate in batch]
            states += self.home.ledger.states(digests)
        following = states.index(None, 1)
        has_ended = states[following - 1] in ("settled", "dead")
        return key.with_replicate(following if new_draw and has_ended else following - 1)

    def draw_key(self, snapshot: str, replicate: int = 0) -> ReleaseKey:
        """Return the key of one draw on a snapshot, charged or not."""
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

    def facts(self, key: Key) -> dict[str, str]:
        """Return the facts of the release for the ledger and its bundle."""
        key, spec, guarantee = as_release_key(key), self.spec, self.guarantee
        is_releasable = self.noise.is_releasable and guarantee.is_plain
        facts = super().facts(key) | {
            "epsilon": self.level,
            "kind": guarantee.kind,
            "composed": guarantee.composed,
            "reason": guarantee.reason,
            "evaluation": "none" if self.evaluation is None else epsilon_text(self.evaluation),
            "replicate": str(key.replicate),
            "measuring": fact_text(key.measuring),
            "postprocessing": fact_text(self.postprocessing),
            "relation": spec.relation,
            "noise": self.noise_name,
            "releasable": "yes" if is_releasable else "no",
        }
        facts |= {DELTA: str(self.delta)} if self.delta else {}
        if spec.delta is not None:
            facts |= {"delta": delta_text(spec.delta), "currency": guarantee.currency.name}
        return facts

    @abstractmethod
    def questions(self, spec: ReleaseSpec) -> Questions:
        """Return the questions of one draw."""

    @abstractmethod
    def counter(self, snapshot: Snapshot) -> ReleaseCounter: ...

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> NoisyDrawing:
        counter = self.counter(snapshot)
        return NoisyDrawing(self.home, self.questions, spec, counter, self.noise)

    def rebuild(self, key: Key, settled: Entry) -> Bundle:
        """Return the bundle of a settled release, rebuilt from its stored answers without reading a
        row.

        Raises Damaged if an answer is missing or was changed, and OtherQuestion if the code now
        asks another question.
        """
        spec = self.resolve(key)
        assert spec.reserved is not None
        bundle = self.questions(spec).bundle(
            None,
            settled_answers(self.store, key, settled),
            self.noise,
            matches_reserved=spec.reserved.facts["postprocessing"] == spec.facts["postprocessing"],
        )
        # The words of a charge may be others in a later program.
        spends = [
            replace(spend, what=row.what) if row.mechanism == spend.mechanism else spend
            for spend, row in zip(bundle.spends, settled.spends, strict=False)
        ]
        return replace(bundle, spends=(*spends, *bundle.spends[len(spends) :]))


def as_release_key(key: Key) -> ReleaseKey:
    assert isinstance(key, ReleaseKey)
    return key
