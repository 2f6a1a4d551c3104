"""A release of any kind, which ``publish.publish`` charges, draws, stores, settles and replays."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from typing import ClassVar

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
"""The fact of a bundle that names the releases of the same persons that have no ε."""
ROWS = "rows"
"""The fact of a ledger row that holds the keyed fingerprint of the counted tables; it is in no
bundle, and never exported.
"""
TRANSCRIPT = "transcript"
"""The fact of a settled ledger row that holds the digest of the answers."""
_MEASURING = ("config", "gate", "inference", "models", "results", "raw/counters")


def other_non_dp_releases(
    spec: DatasetSpec, ledger: Ledger, *, before: str | None = None, exclude_key: str | None = None
) -> list[str]:
    """Return the names of non-DP releases of the same persons, oldest first; [] for public rows.

    A name ends with the snapshot of the release, if the ledger knows it.

    before       key of a release: only those recorded before it, or all if it is not recorded
    exclude_key  key of a release to leave out
    """
    if not spec.is_release:
        return []
    history = () if before is None else ledger.history(before)
    texts = []
    for entry in ledger.not_dp_releases(spec.population):
        if entry.key != exclude_key and (not history or entry.sequence < history[0].sequence):
            snapshot = entry.facts.get("snapshot")
            texts.append(entry.what + (f", snapshot {snapshot}" if snapshot else ""))
    return texts


@cache
def code_version(folders: tuple[str, ...] = _MEASURING) -> str:
    """Return the version of the package with a digest of the code in some of its folders.

    It is recorded with each release, but not part of its key. FileNotFoundError for a folder
    without code.
    """
    digest = hashlib.sha256()
    package = Path(str(resources.files("dp_pipeline")))
    for folder in folders:
        files = sorted(package.joinpath(folder).rglob("*"))
        code = [file for file in files if file.suffix in (".py", ".j2", ".css")]
        if not code:
            fault = f"The folder {folder} has no code of the package: install it again"
            raise FileNotFoundError(fault)
        for file in code:
            digest.update(file.read_bytes())
    return f"dp_pipeline {__version__} {digest.hexdigest()[:12]}"


def program_version() -> str:
    """Return the version of the code that makes evaluations, comparisons and budget reports."""
    return code_version(("raw", "metrics", "reporting", "ledger", "releases", "orchestration"))


@dataclass(frozen=True)
class ReleaseSpec:
    """One draw of a release, with its key and facts.

    facts     declarations and versions, for the ledger and the bundle
    what      name of the release in messages and in the ledger
    price     cost of the draw, in the population's currency; 0 if no finite ε holds
    delta     δ of the release itself
    windows   time windows that are charged; empty if rows have none
    reserved  ledger row that charged it; None before the charge
    """

    key: Key
    facts: Mapping[str, str]
    what: str
    currency: Currency
    price: Fraction
    delta: Fraction
    windows: tuple[str, ...]
    reserved: Entry | None

    def charge(self, run: Mapping[str, str], *, rows: str) -> Charge:
        """Return the charge that the ledger records before any row is counted.

        run    facts of the run for the ledger: run id, asset
        rows   fingerprint of the counted tables; may be empty
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
    """The opened rows of one release, from which answers are drawn after the charge.

    rows   keyed fingerprint of the counted tables; empty where no answer is stored by itself, so
           that a resumed run draws everything again
    """

    rows: str

    def dry_run(self) -> None:  # noqa: B027
        """Draw once over an empty table, to find faults before the charge; by default nothing."""

    def create_files(self) -> None:  # noqa: B027
        """Create all files that a charged release must have; by default none."""

    @abstractmethod
    def draw(self, spec: ReleaseSpec, stored: Sequence[Bundle], *, is_resumed: bool) -> Bundle:
        """Return the bundle of the release, from the rows or from what is stored of it.

        spec         the release as it was charged
        stored       its bundles from a run that was killed before it settled
        is_resumed   whether an earlier run charged it

        AnswersLost where stored answers are missing, or are about other rows.
        """

    def texts(self, bundle: Bundle) -> dict[str, str]:  # noqa: ARG002
        """Return the texts to store and seal with a bundle, by file name; by default none."""
        return {}


class Release(ABC):
    """A release of any kind that a data set declares.

    name   of the model or method
    run    facts of the run for the ledger: run id, asset
    """

    SYMBOL: ClassVar[str] = "ε"
    """The name of its level: ``ε`` or ``K``."""
    LEVEL_FACT: ClassVar[str] = "epsilon"
    """The name of the fact with its level."""
    FOLDER: ClassVar[tuple[str, ...]] = ()
    """Between data set and name, in the released store and in asset keys."""
    ROOMS: ClassVar[tuple[str, ...]] = _MEASURING
    """Folders of the code that measures."""

    spec: DatasetSpec
    name: str
    home: Home
    run: Mapping[str, str]

    @staticmethod
    def names(spec: DatasetSpec) -> tuple[str, ...]:  # noqa: ARG004
        """Return the names of the declared models or methods of a data set; by default none."""
        return ()

    @staticmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:  # noqa: ARG004
        """Return the declared ε or K, ascending, as partition keys; by default none."""
        return ()

    @classmethod
    def version(cls) -> str:
        """Return the version of the code that makes the measurements."""
        return code_version(cls.ROOMS)

    @property
    @abstractmethod
    def level(self) -> str:
        """The ε or K as text, which is the key of its partition."""

    @property
    @abstractmethod
    def what(self) -> str:
        """The name of the release in messages and in the ledger."""

    @property
    @abstractmethod
    def summary(self) -> str: ...

    @property
    def cost(self) -> Fraction:
        """The cost of a draw and its evaluation, in the population's currency; 0 if not DP."""
        return Fraction(0)

    @property
    def delta(self) -> Fraction:
        """The δ of the release itself, in addition to the δ of its population."""
        return Fraction(0)

    @property
    def path(self) -> tuple[str, ...]:
        """The data set, folder and name: the key of the Dagster asset, and the store's path."""
        return (self.spec.name, *self.FOLDER, self.name)

    @property
    def windows(self) -> tuple[str, ...]:
        """The time windows that the release covers; empty for rows without windows."""
        return self.spec.blocks

    @property
    def partition(self) -> tuple[str, ...]:
        """The range of time windows, if any, and the level: the parts of a file name."""
        return (*filter(None, [range_text(self.windows)]), self.level)

    @property
    def level_facts(self) -> dict[str, str]:
        return {self.LEVEL_FACT: self.level}

    @property
    def store(self) -> BundleStore:
        return BundleStore(self.home.released)

    @property
    def postprocessing(self) -> dict[str, str]:
        """The parameters and declarations that affect only post-processing, as texts."""
        return {}

    @abstractmethod
    def label_state(self, state: str) -> str:
        """Return a state for people: with ``, composed`` if another ε than the requested one holds,
        with ``, not-dp`` if none does. For a k-anonymous release ``charged`` becomes ``recorded``.
        """

    @abstractmethod
    def require_allowed(self) -> None:
        """Raise DeclarationError if the data set file or the noise does not allow the release."""

    @abstractmethod
    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> Key:
        """Return the key of the newest draw, or of the next draw with ``new_draw``."""

    def resolve(self, key: Key) -> ReleaseSpec:
        """Return the draw with this key, as declarations and ledger describe it now."""
        return ReleaseSpec(
            key=key,
            facts=self.facts(key),
            what=self.what,
            currency=self.spec.currency,
            price=self.cost,
            delta=self.delta,
            windows=self.windows,
            reserved=next(iter(self.home.ledger.history(key.digest)), None),
        )

    def facts(self, key: Key) -> dict[str, str]:
        non_dp = other_non_dp_releases(self.spec, self.home.ledger, before=key.digest)
        return {
            "population": self.spec.population,
            "dataset": self.spec.name,
            "model": self.name,
            "snapshot": key.snapshot,
            "declaration": self.spec.digest,
            "unit": str(self.spec.protection),
            "purpose": self.spec.purpose,
            "code": self.version(),
            **({OTHER_NON_DP: "; ".join(non_dp)} if non_dp else {}),
        }

    @abstractmethod
    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> Drawing:
        """Return the opened rows, ready to be drawn from; NotPrepared if they are not prepared."""

    @abstractmethod
    def rebuild(self, key: Key) -> Bundle:
        """Return a settled release, rebuilt from stored answers; Damaged if that is impossible."""


def digest_of(*parts: object) -> str:
    """Return 12 hex digits that differ when one of the given texts or declarations does."""
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]
