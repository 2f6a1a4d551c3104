"""A release with noise: its facts, its cost and the key of its newest draw."""

import hmac
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Protocol

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.errors import Damaged, DeclarationError, NoAnswer, OtherQuestion
from dp_pipeline.config.parameters import fact_text
from dp_pipeline.gate.noise import NoiseSource, parse_noise
from dp_pipeline.ledger.entries import DELTA
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.home import NOISE_VARIABLE
from dp_pipeline.releases.release import ROWS, Drawing, Release, ReleaseSpec
from dp_pipeline.releases.replay import ledger_row, settled_answers
from dp_pipeline.results.bundle import Bundle, Key, ReleaseKey
from dp_pipeline.results.transcript import AnswerCount, AnswersLost, Transcript

_DRY_RUN = "seeded:0"


class ReleaseCounter(Protocol):
    """A counter of the rows of a release, with their fingerprint."""

    @property
    def fingerprint(self) -> str:
        """The keyed fingerprint of the bytes that are counted."""

    def require_stored(self, rehearsed: object = None) -> None:
        """Raise Damaged if stored rows were changed.

        rehearsed   counter of a dry run: only tables that it was asked for are checked; else all
        """


@dataclass(frozen=True)
class NoisyDrawing(Drawing):
    """A draw of noisy answers, by a counter of the rows and the answers stored so far."""

    release: "NoisyRelease"
    spec: ReleaseSpec
    counter: ReleaseCounter

    @property
    def rows(self) -> str:  # type: ignore[override]
        return self.counter.fingerprint

    @property
    def _count(self) -> AnswerCount:
        return AnswerCount(self.release.home.answer_counts / self.spec.key.digest)

    @property
    def _path(self) -> Path:
        return self.release.store.transcript_path(self.spec.key)

    def dry_run(self) -> None:
        """Draw once over an empty table with seeded noise, to find faults before the charge.

        Raises what the draw would raise for its declarations, such as a table with too many cells;
        Damaged if a stored table that it reads was changed.
        """
        empty = self.release.empty_counter()
        self.release.draw_bundle(self.spec, empty, Transcript(), parse_noise(_DRY_RUN))
        self.counter.require_stored(empty)

    def create_files(self) -> None:
        """Create the file with the release's answers and the file with their number.

        Damaged if answers are stored that were never charged, as after rows of the ledger were
        removed: it is unknown which rows they are about.
        """
        key, ledger = self.spec.key, self.release.home.ledger
        # Known only to holders of the population's key, and the same in every process.
        secret = ledger.key(key.population)
        salt = hmac.digest(secret, f"transcript {key.digest}".encode(), "sha256")
        Transcript.create(self._path, key.digest, salt=salt)
        self._count.create()
        answers = len(Transcript.read(self._path))
        # The ledger is asked second: answers that another process draws meanwhile have a charge.
        if answers and ledger.state(key.digest) is None:
            raise Damaged(
                f"{self.spec.what}: the release was never charged, but {answers} answers of it "
                f"are stored: move {self._path.parent} and {self._count.path} away and run again"
            )

    def draw(self, spec: ReleaseSpec, stored: Sequence[Bundle], *, is_resumed: bool) -> Bundle:
        """Return the bundle, drawing the answers that the transcript lacks.

        AnswersLost if stored answers are lost, as they may have been seen, or if the rows changed
        since the first answer. Other damage can be repaired, and the key stays usable.
        """
        # First: one of another format is whole, and refused.
        transcript = Transcript(self._path)
        if is_resumed:
            self._require_same_rows(spec)
        transcript.require_header(spec.key.digest)
        transcript.count_answers_in(self._count)
        if any(bundle.transcript != transcript.chain for bundle in stored):
            # A bundle is stored after the last answer: where one lies, none may be missing.
            raise AnswersLost(
                f"The stored answers of {spec.what} are not those of its stored release: pay "
                "for a new draw with --new-draw"
            )
        return self.release.draw_bundle(spec, self.counter, transcript, self.release.noise)

    def _require_same_rows(self, spec: ReleaseSpec) -> None:
        """Raise AnswersLost unless the rows are those with which the release was started.

        One charge pays for answers about one data set: answers about two may reveal nearly twice as
        much. OtherQuestion where the charge does not name the rows; Damaged if other rows are a
        stored table that was changed, which can be put back.
        """
        facts = {} if spec.reserved is None else spec.reserved.facts
        if ROWS not in facts:
            reason = "the charge of the release does not name the rows with which it started"
            raise OtherQuestion(reason)
        if facts[ROWS] != self.rows:
            # First: a table that was damaged can be put back, and the release goes on.
            self.counter.require_stored()
            raise AnswersLost(
                f"{spec.what}: the rows of snapshot {spec.key.snapshot} were read or prepared "
                "again, so they are not those with which this release started: pay for a new draw "
                "with --new-draw"
            )


class NoisyRelease(Release):
    """A release of noisy answers, each of which is stored as soon as it is drawn.

    epsilon      the requested ε
    noise_name   noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    """

    epsilon: Fraction
    noise_name: str

    @property
    def level(self) -> str:
        return epsilon_text(self.epsilon)

    @property
    @abstractmethod
    def guarantee(self) -> PrivacyGuarantee: ...

    @property
    @abstractmethod
    def measuring(self) -> Mapping[str, str]:
        """The parameters that determine the questions to the rows, as texts."""

    @property
    def evaluation(self) -> Fraction | None:
        """The ε of the private quality numbers; None if there are none or no finite ε holds."""
        return None

    @cached_property
    def noise(self) -> NoiseSource:
        """The noise source; its one stream serves the whole release."""
        return parse_noise(self.noise_name)

    def label_state(self, state: str) -> str:
        return self.guarantee.label_state(state)

    def require_allowed(self) -> None:
        """Raise DeclarationError for an unknown noise source, and for seeds on sensitive rows."""
        if self.spec.is_release and not self.noise.is_releasable:
            raise DeclarationError(
                f"The noise for data set {self.spec.name} must be drawn without a seed, not by "
                f"{self.noise_name!r}, because its rows are sensitive: unset the variable "
                f"{NOISE_VARIABLE}, or leave out the argument `noise`"
            )

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> ReleaseKey:
        """Return the key of the newest draw, or of the next draw with ``new_draw``.

        A draw that was charged and not finished is finished first, also with ``new_draw``.
        """
        key = self.draw_key(snapshot.names)
        states: list[str | None] = []
        while None not in states[1:]:
            # In doubling batches: each query opens the ledger, and mostly one draw is there.
            batch = range(len(states), 2 * len(states) + 2)
            digests = [key.with_replicate(replicate).digest for replicate in batch]
            states += self.home.ledger.states(digests)
        following = states.index(None, 1)
        has_ended = states[following - 1] in ("settled", "dead")
        return key.with_replicate(following if new_draw and has_ended else following - 1)

    def draw_key(self, snapshot: str, replicate: int = 0) -> ReleaseKey:
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
    def counter(self, snapshot: Snapshot) -> ReleaseCounter: ...

    @abstractmethod
    def empty_counter(self) -> ReleaseCounter: ...

    @abstractmethod
    def draw_bundle(
        self,
        spec: ReleaseSpec,
        counter: ReleaseCounter | None,
        transcript: Transcript,
        noise: NoiseSource,
        *,
        matches_reserved: bool = True,
    ) -> Bundle:
        """Return the bundle of a draw, from the transcript's answers and new ones for it.

        counter            None draws nothing: NoAnswer if the transcript lacks an answer
        matches_reserved   False: the private evaluation, which was about the tables of another
                           post-processing, is left out
        """

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> NoisyDrawing:
        return NoisyDrawing(self, spec, self.counter(snapshot))

    def rebuild(self, key: Key) -> Bundle:
        """Return the bundle of a settled release, from its stored answers; no row is read.

        Raises Damaged if an answer is missing or was changed, and OtherQuestion if the code now
        asks another question.
        """
        settled = ledger_row("settled", key.digest, key.population, self.home.ledger)
        spec = self.resolve(key)
        assert spec.reserved is not None
        facts = spec.reserved.facts
        try:
            bundle = self.draw_bundle(
                spec,
                None,
                settled_answers(self.store, key, settled),
                self.noise,
                matches_reserved=facts["postprocessing"] == spec.facts["postprocessing"],
            )
        except (NoAnswer, OtherQuestion) as error:
            code = facts.get("code", "another version")
            raise type(error)(f"{self.what}: {error}; rebuild it with {code}") from None
        # The words of a charge may be others in a later program.
        spends = [
            replace(spend, what=row.what) if row.mechanism == spend.mechanism else spend
            for spend, row in zip(bundle.spends, settled.spends, strict=False)
        ]
        return replace(bundle, spends=(*spends, *bundle.spends[len(spends) :]))


def as_release_key(key: Key) -> ReleaseKey:
    assert isinstance(key, ReleaseKey)
    return key
