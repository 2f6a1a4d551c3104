"""Drawing the answers of a release with noise, each stored at once, so that a killed run
resumes.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dp_pipeline.config.errors import Damaged, OtherQuestion
from dp_pipeline.gate.noise import NoiseSource, parse_noise
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.release import ROWS, Drawing, ReleaseSpec
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.transcript import AnswerCount, AnswersLost, Transcript

_DRY_RUN = "seeded:0"


class ReleaseCounter(Protocol):
    """A counter of the rows of a release."""

    @property
    def fingerprint(self) -> str:
        """The keyed fingerprint of the bytes that are counted."""

    def require_stored(self, rehearsed: object = None) -> None:
        """Raise Damaged if tables that the dry run ``rehearsed`` read, or any, were changed."""


class Questions(Protocol):
    """The questions of a release to the counter of any rows."""

    def empty_counter(self) -> ReleaseCounter: ...

    def bundle(
        self,
        counter: ReleaseCounter | None,
        transcript: Transcript,
        noise: NoiseSource,
        *,
        matches_reserved: bool = True,
    ) -> Bundle:
        """Return the bundle; its spends sum to its claimed ε.

        counter            None draws nothing: every answer must be in the transcript
        matches_reserved   False for a settled release under another post-processing
        """


@dataclass(frozen=True)
class NoisyDrawing(Drawing):
    """The counter of a release's rows, with its stored answers.

    questions   returns the questions of the draw that a spec describes
    """

    home: Home
    questions: Callable[[ReleaseSpec], Questions]
    spec: ReleaseSpec
    counter: ReleaseCounter
    noise: NoiseSource

    @property
    def rows(self) -> str:  # type: ignore[override]
        """The keyed fingerprint of the bytes that are counted."""
        return self.counter.fingerprint

    @property
    def _count(self) -> AnswerCount:
        return AnswerCount(self.home.answer_counts / self.spec.key.digest)

    @property
    def _path(self) -> Path:
        return BundleStore(self.home.released).transcript_path(self.spec.key)

    def dry_run(self) -> None:
        """Draw once over an empty table in memory, with a seed, so that nothing is charged that
        cannot be drawn.

        Raises what the draw would raise for its declarations, such as a table with too many cells;
        Damaged if a stored table that it reads was changed.
        """
        questions = self.questions(self.spec)
        empty = questions.empty_counter()
        questions.bundle(empty, Transcript(), parse_noise(_DRY_RUN))
        self.counter.require_stored(empty)

    def create_files(self) -> None:
        """Create the transcript and the count of its answers.

        Damaged if answers are stored that were never charged, as after rows of the ledger were
        removed: it is unknown which rows they are about.
        """
        key = self.spec.key
        # Known only to holders of the population's key, and the same in every process.
        secret = self.home.ledger.key(key.population)
        salt = hmac.digest(secret, f"transcript {key.digest}".encode(), "sha256")
        Transcript.create(self._path, key.digest, salt=salt)
        self._count.create()
        answers = len(Transcript.read(self._path))
        # The ledger is asked second: answers that another process draws meanwhile have a charge.
        if answers and self.home.ledger.state(key.digest) is None:
            raise Damaged(
                f"{self.spec.what}: expected no stored answers of a release that was never "
                f"charged, got {answers}: move {self._path.parent} and {self._count.path} away and "
                "run again"
            )

    def draw(self, spec: ReleaseSpec, stored: Sequence[Bundle], *, is_resumed: bool) -> Bundle:
        """Draw the answers that the transcript does not have.

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
                f"transcript: expected that of the stored bundle of {spec.what}, got another"
            )
        return self.questions(spec).bundle(self.counter, transcript, self.noise)

    def remove_files(self) -> None:
        self._count.remove()

    def _require_same_rows(self, spec: ReleaseSpec) -> None:
        """Raise AnswersLost unless the rows are those with which the release started.

        One charge pays for answers about one data set: answers about two may reveal nearly twice as
        much. OtherQuestion where the charge does not name the rows.
        """
        facts = {} if spec.reserved is None else spec.reserved.facts
        if ROWS not in facts:
            raise OtherQuestion(
                "expected a release that names the rows with which it started, got none"
            )
        if facts[ROWS] != self.rows:
            # First: a table that was damaged can be put back, and the release goes on.
            self.counter.require_stored()
            raise AnswersLost(
                f"{spec.what}: expected the rows of snapshot "
                f"{spec.key.snapshot} with which this release started, got other rows, read or "
                "prepared again: its ε is spent; put the old rows back, or pay for --new-draw"
            )
