"""Release: what a data set asks for at one level, ε or K, and what makes it the same one again.

Both kinds of release go through the one protocol of ``publish.publish``: charged or recorded, then
drawn, stored, settled; and replayed ever after.

What was released of the same persons without any ε stands beside it: every later card says so.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from typing import ClassVar, Self

from dp_pipeline import __version__
from dp_pipeline.config.amounts import Currency, nano_epsilon
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.windows import range_text
from dp_pipeline.ledger import Charge, Entry, Ledger
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import Bundle, Key

OTHER_NON_DP = "other non-DP releases"
"""The fact of a bundle that names them."""


def other_non_dp_releases(
    spec: DatasetSpec, ledger: Ledger, *, before: str | None = None, exclude_key: str | None = None
) -> list[str]:
    """One text a release, oldest first, reserved or finished; none on benchmarks: their rows are
    public.

    before   key of a release: those that were recorded before it; all of them where it is not
             recorded yet, or None
    but      key of a release that is not told
    """
    if not spec.is_release:
        return []
    past = () if before is None else ledger.history(before)
    own = past[0].sequence if past else None
    return [
        _named(one)
        for one in ledger.not_dp_releases(spec.population)
        if one.key != exclude_key and (own is None or one.sequence < own)
    ]


def _named(entry: Entry) -> str:
    snapshot = entry.facts.get("snapshot")
    return entry.what if snapshot is None else f"{entry.what}, snapshot {snapshot}"


ROWS = "rows"
"""The fact of a ledger row that holds the keyed fingerprint of the tables that are counted; in no
bundle, and never exported.
"""
TRANSCRIPT = "transcript"
"""The fact of a settled ledger row that holds the digest of the answers."""
_MEASURING = ("config", "gate", "inference", "models", "results", "raw/counters")


@cache
def code_version(rooms: tuple[str, ...] = _MEASURING) -> str:
    """The package's version and a digest of the code that measures; recorded with a release, not a
    part of its key. Templates of pages are code.

    FileNotFoundError for a room without code: its changes would be no other version.
    """
    digest = hashlib.sha256()
    package = Path(str(resources.files("dp_pipeline")))
    for room in rooms:
        files = sorted(package.joinpath(room).rglob("*"))
        code = [file for file in files if file.suffix in (".py", ".j2", ".css")]
        if not code:
            raise FileNotFoundError(f"code version: expected a room with code, got {room}")
        for file in code:
            digest.update(file.read_bytes())
    return f"dp_pipeline {__version__} {digest.hexdigest()[:12]}"


def program_code() -> str:
    """Of evaluations, comparisons and budget reports: the code that measures, writes and draws."""
    return code_version(("raw", "metrics", "reporting", "ledger", "releases", "orchestration"))


@dataclass(frozen=True)
class ReleaseSpec:
    """One draw of a release, as declarations and ledger say it when somebody asks for it.

    facts    written into the ledger and the bundle: declarations and versions, no rows
    what     the words for messages and the ledger
    price    of a first draw, in the population's currency; 0 where no finite ε holds
    delta    its own δ
    windows  those that are charged, where rows are cut
    reserved    the row that charged it; None before
    """

    key: Key
    facts: Mapping[str, str]
    what: str
    currency: Currency
    price: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    windows: tuple[str, ...] = ()
    reserved: Entry | None = None

    def charge(self, run: Mapping[str, str], *, rows: str) -> Charge:
        """What the ledger reserves or records before anyone looks.

        run    what the ledger notes of the run: run id, asset
        rows   fingerprint of the tables that its answers are of; may be empty
        """
        return Charge(
            key=self.key.digest,
            population=self.key.population,
            kind=self.facts["kind"],
            nano_epsilon=nano_epsilon(self.price),
            what=self.what,
            facts={**self.facts, **run, **({ROWS: rows} if rows else {})},
            currency=self.currency,
            delta=self.delta,
            blocks=self.windows,
        )


class Drawing(ABC):
    """The rows of one release, opened before it is charged and drawn from afterwards.

    rows   keyed fingerprint of the tables that are counted; empty where no answer about them is
           ever stored alone, so that a run that was killed begins from nothing
    """

    rows: str

    @abstractmethod
    def dry_run(self) -> None:
        """A dry run on an empty table: what cannot be drawn is refused here, at no cost."""

    def begin(self) -> None:  # noqa: B027
        """Make everything on disk that a charged release must have."""

    @abstractmethod
    def draw(self, spec: ReleaseSpec, stored: Sequence[Bundle], *, is_resumed: bool) -> Bundle:
        """The bundle.

        spec         the release as it was charged
        stored       bundles of it that a run left which was killed before it settled
        is_resumed   whether an earlier run charged it

        AnswersLost where stored answers are missing, or are of other rows than these.
        """

    def texts(self, bundle: Bundle) -> dict[str, str]:  # noqa: ARG002
        """File name → what a person reads beside a bundle, sealed with it."""
        return {}

    def end(self) -> None:  # noqa: B027
        """Take away what was kept for a run that goes on: it is settled, or dead."""


class Release(ABC):
    """One release that a data set asks for.

    name   of the model or method
    run    what the ledger notes of the run: run id, asset
    """

    SYMBOL: ClassVar[str]
    """What its level is called: ``ε`` or ``K``."""
    FOLDER: ClassVar[tuple[str, ...]] = ()
    """Between data set and name, in the released store and in asset keys."""
    ROOMS: ClassVar[tuple[str, ...]] = _MEASURING
    """Folders of the code that measures."""

    spec: DatasetSpec
    name: str
    home: Home
    run: Mapping[str, str]

    @staticmethod
    @abstractmethod
    def names(spec: DatasetSpec) -> tuple[str, ...]:
        """Declared models or methods of a data set."""

    @staticmethod
    @abstractmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:
        """Declared levels of a data set, ascending, as keys of partitions."""

    @classmethod
    @abstractmethod
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
        """A declared release; DeclarationError for a level that is not declared."""

    @classmethod
    def version(cls) -> str:
        """Version of the code that measures, as it is now."""
        return code_version(cls.ROOMS)

    @property
    @abstractmethod
    def level(self) -> str:
        """Its ε or K, as the key of its partition."""

    @property
    @abstractmethod
    def what(self) -> str:
        """The words for messages and the ledger."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What the model or method does, in a line."""

    @property
    def path(self) -> tuple[str, ...]:
        """Data set, folder and name: of its asset, and of its place in the store."""
        return (self.spec.name, *self.FOLDER, self.name)

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows whose rows it is of, where rows are cut; else none."""
        return self.spec.blocks

    @property
    def partition(self) -> tuple[str, ...]:
        """Its windows, where rows are cut, and its level: what files of it are called."""
        return (*filter(None, [range_text(self.windows)]), self.level)

    @property
    def store(self) -> BundleStore:
        """Where bundles are."""
        return BundleStore(self.home.released)

    @property
    def postprocessing(self) -> dict[str, str]:
        """Parameters and declarations that need no further look at the rows."""
        return {}

    @abstractmethod
    def label_state(self, state: str) -> str:
        """A state, with what a reader has to know of a release that has not the ε it names."""

    @abstractmethod
    def require_allowed(self) -> None:
        """DeclarationError for what the data set file, or the noise, does not allow."""

    @abstractmethod
    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> Key:
        """Its key: of the newest draw, or with ``new_draw`` of one more."""

    @abstractmethod
    def resolve(self, key: Key) -> ReleaseSpec:
        """The draw with this key, as declarations and ledger say it now."""

    @abstractmethod
    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> Drawing:
        """Its rows, ready to be drawn from; NotPrepared where they are not prepared."""

    @abstractmethod
    def remade(self, key: Key, settled: Entry) -> Bundle:
        """A settled release, made again from what is stored of it without a look at the rows;
        Damaged where that cannot be.
        """


def digest_of(*parts: object) -> str:
    """A short digest of texts and declarations, to compare versions by."""
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]
