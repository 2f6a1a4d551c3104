"""A release with noise: which draw of it is the newest, and what it needs on disk before it is
charged. Whatever is drawn goes through one transcript, so that a run that was killed goes on.

NoisyDrawing: a counter that a release will be drawn from, and its answers on disk.
"""

from __future__ import annotations

import hmac
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

from dp_pipeline.gate.noise import NoiseSource, named_noise
from dp_pipeline.ledger import Entry
from dp_pipeline.publish.home import NOISE_VARIABLE
from dp_pipeline.publish.release import ROWS, Drawing, Release, not_dp_beside
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import Bundle, Key, ReleaseKey
from dp_pipeline.release.transcript import AnswerCount, AnswersLost, Transcript
from dp_pipeline.spec.errors import Damaged, DeclarationError, OtherQuestion
from dp_pipeline.spec.parameters import fact_text

if TYPE_CHECKING:
    from dp_pipeline.reporting.releases import PrivateRelease

_DRY_RUN = "seeded:0"

TRANSCRIPT = "transcript"
"""The fact of a settled ledger row that holds the digest of the answers."""


class Counted(Protocol):
    """Rows that are counted."""

    @property
    def fingerprint(self) -> str:
        """The keyed fingerprint of the very bytes that are counted."""

    def require_stored(self, rehearsed: object = None) -> None:
        """Damaged where what a dry run over ``rehearsed`` has read is not as it was stored; without
        one, where anything is not.
        """


class NoisyRelease(Release):
    """A release whose answers are noisy, and are stored one by one.

    noise_name   of the noise source: ``opendp``, ``exact`` or ``seeded:NUMBER``
    """

    noise_name: str

    @cached_property
    def noise(self) -> NoiseSource:
        """Where the noise comes from: one stream for the whole release."""
        return named_noise(self.noise_name)

    def require_allowed(self) -> None:
        """DeclarationError for a noise source that does not exist, or a seed on release data."""
        fit = self.noise.fit_for_release
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

    @abstractmethod
    def draw_key(self, snapshot: str, replicate: int = 0) -> ReleaseKey:
        """The key of one draw on the snapshot of that name, made or not."""

    @abstractmethod
    def with_noise(self, name: str) -> Self:
        """The same release from another source of noise."""

    @abstractmethod
    def nobody(self) -> Counted:
        """The counter of an empty table."""

    @abstractmethod
    def counter(self, snapshot: Snapshot) -> Counted:
        """The counter of its rows."""

    @abstractmethod
    def drawn(
        self,
        key: ReleaseKey,
        counter: Counted | None,
        transcript: Transcript,
        *,
        as_begun: bool = True,
    ) -> Bundle:
        """The bundle; spends exactly what it claims.

        counter    None draws nothing: every answer must be in the transcript
        as_begun   False for a settled release under another post-processing
        """

    def reported(self, bundle: Bundle) -> PrivateRelease:
        """The release as cards show it, beside everything ever drawn from its population."""
        from dp_pipeline.reporting.releases import PrivateRelease

        ledger = self.home.ledger
        return PrivateRelease(
            spec=self.spec,
            bundle=bundle,
            summary=self.summary,
            balance=ledger.balance(self.spec.population),
            beside=not_dp_beside(self.spec, ledger),
        )

    def open(self, key: Key, snapshot: Snapshot) -> NoisyDrawing:
        """The counter over its rows, before it is charged."""
        return NoisyDrawing(self, own(key), self.counter(snapshot))

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
        as_begun = begun == fact_text(self.postprocessing)
        again = self.drawn(own(key), None, answers, as_begun=as_begun)
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


@dataclass(frozen=True)
class NoisyDrawing(Drawing):
    """A counter that a release will be drawn from, and its answers on disk."""

    release: NoisyRelease
    key: ReleaseKey
    counter: Counted

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
        many cells or a scale too large for whole numbers; Damaged for the stored tables that it
        will read.
        """
        release, key, nobody = self.release, self.key, self.release.nobody()
        release.with_noise(_DRY_RUN).drawn(key, nobody, Transcript())
        self.counter.require_stored(nobody)

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
        return release.drawn(key, self.counter, transcript)

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
            # First: a table that was damaged can be put back, and the release goes on.
            self.counter.require_stored()
            raise AnswersLost(
                f"{'/'.join(self.release.path)}: expected the rows of snapshot "
                f"{self.key.snapshot} that this release was begun with, got rows that were read or "
                "prepared again otherwise; its ε is spent: only --new-draw goes on"
            )
