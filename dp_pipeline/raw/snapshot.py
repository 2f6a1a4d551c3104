"""Snapshot: the rows of one data set as they were on one day, immutable, private to the steward.

A snapshot is named by the calendar or by hand, never by its content: a name
that depended on the rows would tell whether they changed. Its manifest says
how far it has come (ingested, validated, prepared) and holds a keyed
fingerprint of every stored table, which is of this snapshot alone: its name,
with which that of its window begins, is part of the key. One that was retired is a manifest alone,
which keeps its name from ever being used again.

How far a snapshot has come: marks in its manifest, each bound to one declaration.

``validated``: {structural, refused, digest, checks}; ``stages``: stage → digest;
``prepared``: {digest, stages}, or null. A declaration that changed makes every mark void, and
another rule by which rows of a person are kept those of stages.

Retiring rows: every stored stage and every exact number of a population, gone for good.

The manifest goes first, replaced by one that says *retired*: a snapshot of which half is deleted
can never be read, or be mistaken for a damaged one, and whoever starts again goes on where
the last one stopped. Files are unlinked, not overwritten: what a disk keeps of them, backups and
the source itself are not reached from here.
"""

from __future__ import annotations

import hmac
import json
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.files import locked, make_private, sync, write_atomically
from dp_pipeline.raw.fingerprints import fingerprint_of, fingerprint_of_content

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MANIFEST = "manifest.json"
CURRENT = "current"
"""The file beside the snapshots that names the one that is read."""
_RETIRED = "retired"


def check_snapshot_id(text: str) -> str:
    """``text`` itself; DeclarationError unless it is a safe folder name, and free to use."""
    if not _ID.fullmatch(text) or text.lower().partition(".")[0] == CURRENT:
        raise DeclarationError(
            f"snapshot: expected letters, digits, . _ or -, and not {CURRENT!r}, got {text[:60]!r}"
        )
    return text


def write_private(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a 0600 file whole or not at all, in a folder for its owner only."""
    make_private(path.parent)
    write_atomically(path, write)


def one_at_a_time(folder: Path) -> AbstractContextManager[None]:
    """Two runs on one data set must not write, or read what the other writes: not reentrant."""
    make_private(folder)
    return locked(folder / ".lock")


def snapshot_name(spec: DatasetSpec, name: str, today: date) -> str:
    """What a snapshot is called: as asked, else by the calendar; of a window always by that first.

    >>> from dp_pipeline.config.catalogue import find_spec
    >>> snapshot_name(find_spec("trips"), "", date(2026, 11, 23))
    '2026-11-23'
    """
    if not spec.window:
        return name or today.isoformat()
    return f"{spec.window}.{name}" if name else spec.window


def preparation_hint(dataset: str) -> str:
    """What reads and prepares the rows of a data set, in Dagster or without it."""
    return f"Dagster's job {dataset}_prepare does it, or `dp-pipeline run {dataset}`"


def new_snapshot_hint(dataset: str) -> str:
    """What opens a new snapshot of a data set."""
    return f"`dp-pipeline run {dataset} --snapshot NAME`"


@dataclass(frozen=True)
class Snapshot:
    """One snapshot's folder on the raw store.

    folder   <raw store>/<data set>/<snapshot id>
    key      the population's secret key: fingerprints mean nothing to who does not hold it
    earlier  those of the windows before, oldest first, where a release of several reads them
             together with this one
    """

    folder: Path
    key: bytes
    earlier: tuple[Snapshot, ...] = ()

    def __repr__(self) -> str:
        return f"Snapshot({self.ledger_name})"

    @property
    def all(self) -> tuple[Snapshot, ...]:
        """All that are read together, each by itself, oldest first."""
        return (*self.earlier, replace(self, earlier=()))

    @property
    def names(self) -> str:
        """What a release says that it has read: the names of all of them."""
        return "+".join(one.id for one in self.all)

    @property
    def id(self) -> str:
        """Its name, given by the calendar or by hand."""
        return self.folder.name

    @property
    def dataset(self) -> str:
        """The data set that it is of."""
        return self.folder.parent.name

    @property
    def ledger_name(self) -> str:
        """Data set and id, as the ledger writes them."""
        return f"{self.dataset}/{self.id}"

    @property
    def manifest(self) -> dict[str, Any]:
        """What is known of this snapshot; NotPrepared when nothing was ever ingested here, or the
        rows were retired; Damaged where it is that of another one.
        """
        stored = self._stored_manifest()
        if _RETIRED in stored:
            raise NotPrepared(
                f"{self!r}: expected rows, got a snapshot retired on {stored[_RETIRED]}: "
                f"name a new snapshot: {new_snapshot_hint(self.dataset)}"
            )
        if stored.get("id") != self.id:
            raise Damaged(
                f"{self!r}: expected the manifest of this snapshot, got that of "
                f"{str(stored.get('id'))[:60]!r}: put it back where it was made"
            )
        return stored

    @property
    def secret(self) -> bytes:
        """The key of its fingerprints: the population's, bound to this data set and name.

        Rows in another folder have other fingerprints. Else a window would pay for the rows of
        another one, whose folder was moved or copied there by hand.
        """
        return hmac.digest(self.key, f"rows of {self.ledger_name}".encode(), "sha256")

    @property
    def claimed(self) -> tuple[str, ...]:
        """The canonical names of what it was read from; none where no whole manifest says so,
        without which no row is read.
        """
        try:
            return tuple(self._stored_manifest().get("claimed", ()))
        except (NotPrepared, Damaged):
            return ()

    def _stored_manifest(self) -> dict[str, Any]:
        try:
            stored = json.loads((self.folder / _MANIFEST).read_text())
        except FileNotFoundError:
            raise NotPrepared(
                f"{self!r}: expected an ingested snapshot, got none: "
                f"{preparation_hint(self.dataset)}"
            ) from None
        except (OSError, ValueError):
            stored = None
        if not isinstance(stored, dict):
            raise Damaged(f"{self!r}: expected a readable manifest, got a broken one")
        require_format(stored.get("format"), of=f"{self!r}: manifest")
        return stored

    def exists(self) -> bool:
        """Whether something was ingested under this name."""
        return (self.folder / _MANIFEST).is_file()

    @property
    def population(self) -> str | None:
        """Whose rows these are or were; None where no whole manifest says so. UnknownFormat where
        one of another format may say it.
        """
        try:
            found = self._stored_manifest().get("population")
        except (NotPrepared, Damaged):
            return None
        return found if isinstance(found, str) else None

    def is_retired(self) -> bool:
        """Whether the rows were retired, all of their files gone or not yet."""
        try:
            return _RETIRED in self._stored_manifest()
        except (NotPrepared, Damaged):
            return False

    def remains(self) -> tuple[Path, ...]:
        """Everything in its folder but a manifest that says it was retired."""
        kept = {_MANIFEST} if self.is_retired() else set()
        return tuple(path for path in sorted(self.folder.iterdir()) if path.name not in kept)

    def mark_retired(self, *, population: str, on: date) -> None:
        """Replace the manifest: from now on whoever asks for these rows, or for their name, is
        refused. What else lies in the folder is not touched.
        """
        facts = {
            "format": FORMAT,
            "id": self.id,
            "population": population,
            _RETIRED: on.isoformat(),
        }
        text = json.dumps(facts, indent=1, sort_keys=True)
        write_private(self.folder / _MANIFEST, lambda file: _write_text(file, text))

    def locked(self) -> AbstractContextManager[None]:
        """Nobody else writes or reads a snapshot of this data set meanwhile."""
        return one_at_a_time(self.folder.parent)

    def record(self, **facts: Any) -> None:
        """Add facts to the manifest, atomically."""
        known = self.manifest if self.exists() else {"format": FORMAT, "id": self.id}
        text = json.dumps({**known, **facts}, indent=1, sort_keys=True)
        write_private(self.folder / _MANIFEST, lambda file: _write_text(file, text))

    def table_path(self, stage: str) -> Path:
        """Where the table of one stage is stored."""
        return self.folder / f"{stage}.parquet"

    def store_table(self, stage: str, write: Callable[[BinaryIO], None]) -> None:
        """Store one stage's table and note its fingerprint in the manifest."""
        # Asked first: nothing is ever written beside a manifest that says retired.
        known = self.manifest if self.exists() else {}
        write_private(self.table_path(stage), write)
        stored = fingerprint_of(self.table_path(stage), self.secret)
        self.record(fingerprints={**known.get("fingerprints", {}), stage: stored})

    def fingerprint(self, stage: str) -> str:
        """Of the table of one stage, as the manifest has it: the table is not looked at."""
        fingerprint = self.manifest.get("fingerprints", {}).get(stage)
        if fingerprint is None:
            raise NotPrepared(
                f"{self!r}: expected the stage {stage!r}, got a snapshot without it: "
                f"{preparation_hint(self.dataset)}"
            )
        return str(fingerprint)

    def checked_path(self, stage: str) -> Path:
        """The stored table of one stage; Damaged if it is not what the manifest says."""
        expected, path = self.fingerprint(stage), self.table_path(stage)
        if not path.is_file() or not hmac.compare_digest(
            expected, fingerprint_of(path, self.secret)
        ):
            raise self._another(stage)
        return path

    def checked_content(self, stage: str) -> tuple[bytes, str]:
        """The same table and its fingerprint. It is read once: what was compared is what is given,
        whoever puts another file in its place meanwhile.
        """
        expected, path = self.fingerprint(stage), self.table_path(stage)
        content = path.read_bytes() if path.is_file() else b""
        found = fingerprint_of_content(content, self.secret)
        if not hmac.compare_digest(expected, found):
            raise self._another(stage)
        return content, found

    def _another(self, stage: str) -> Damaged:
        return Damaged(f"{self!r}: expected the table {stage!r} as it was stored, got another")


def _write_text(file: BinaryIO, text: str) -> None:
    file.write(text.encode())


def current_snapshot(store: Path, dataset: str, key: bytes, window: str = "") -> Snapshot | None:
    """The snapshot that releases read now, or None before the first one.

    window   the one that it is of, where rows are cut into windows
    """
    pointer = store / dataset / _pointer(window)
    if not pointer.is_file():
        return None
    name = pointer.read_text(encoding="utf-8", errors="replace").strip()
    is_of_window = not window or name.partition(".")[0] == window
    if not _ID.fullmatch(name) or not is_of_window:
        raise Damaged(f"{dataset}: expected the name of the current snapshot, got another text")
    return Snapshot(store / dataset / name, key)


def make_current(snapshot: Snapshot, window: str = "") -> None:
    """Let releases read this snapshot from now on; those of its window, where rows are cut."""
    pointer = snapshot.folder.parent / _pointer(window)
    write_private(pointer, lambda file: _write_text(file, snapshot.id))


def _pointer(window: str) -> str:
    return f"{CURRENT}.{window}" if window else CURRENT


def mark_validated(
    spec: DatasetSpec, snapshot: Snapshot, *, structural: bool, refused: bool
) -> None:
    """Note the outcome of a validation; a refused snapshot loses its mark ``prepared``."""
    facts = {
        "structural": structural,
        "refused": refused,
        "digest": spec.rows_digest,
        "checks": spec.checks,
    }
    if refused:
        snapshot.record(validated=facts, prepared=None)
    else:
        snapshot.record(validated=facts)


def require_validated(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """NotPrepared unless the manifest says: validated as declared now, and not refused."""
    validated = _marks(snapshot, "validated")
    if validated.get("refused"):
        raise NotPrepared(
            f"{snapshot!r}: expected a valid snapshot, got a refused one: its checks say what to "
            f"mend, then {new_snapshot_hint(spec.name)}"
        )
    declared = (spec.rows_digest, spec.checks)
    is_current = (validated.get("digest"), validated.get("checks")) == declared
    if validated.get("structural") is not True or not is_current:
        raise NotPrepared(
            f"{snapshot!r}: expected a snapshot validated as {spec.name} is declared now, "
            f"got none: {preparation_hint(spec.name)}"
        )


def forget_preparation(snapshot: Snapshot) -> None:
    """Void every stage before the first one is written anew: stages of two runs never mix."""
    snapshot.record(prepared=None, stages={})


def mark_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """Note that one stage was stored under this declaration."""
    snapshot.record(stages={**_marks(snapshot, "stages"), stage: spec.digest})


def has_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> bool:
    """Whether ``stage`` was stored under this declaration."""
    return bool(_marks(snapshot, "stages").get(stage) == spec.digest)


def require_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """NotPrepared unless ``stage`` was stored under this declaration."""
    if not has_stage(spec, snapshot, stage):
        raise NotPrepared(
            f"{snapshot!r}: expected the stage {stage!r} as {spec.name} is declared now, got none: "
            f"{preparation_hint(spec.name)}"
        )


def require_prepared(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """NotPrepared unless the manifest says: validated and prepared as declared now; of every one
    that is read together with it too.
    """
    for one in snapshot.earlier:
        require_prepared(spec, one)
    require_validated(spec, snapshot)
    prepared = _marks(snapshot, "prepared")
    if prepared.get("digest") != spec.digest:
        raise NotPrepared(
            f"{snapshot!r}: expected a snapshot prepared as {spec.name} is declared now, got none: "
            f"{preparation_hint(spec.name)}"
        )


def _marks(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """One mapping of the manifest; empty where there is none."""
    marks = snapshot.manifest.get(name)
    return marks if isinstance(marks, dict) else {}


def snapshots_of(
    store: Path, population: str, *, datasets: Collection[str]
) -> tuple[Snapshot, ...]:
    """Every snapshot of one population on a raw store of which more is left than its name.

    datasets   names of the data sets that are declared under the population

    A manifest says whose rows they are, declared or not. Where none does, because a run was
    stopped while it wrote, they are those of the data set's other snapshots.
    """
    return tuple(
        snapshot
        for folder in _folders(store)
        for snapshot in _of_one(folder, population, is_declared=folder.name in datasets)
        if snapshot.remains()
    )


def _of_one(folder: Path, population: str, *, is_declared: bool) -> list[Snapshot]:
    # Only names and manifests are read here, so no key is needed.
    stored = {one: one.population for one in (Snapshot(path, b"") for path in _folders(folder))}
    is_ours = is_declared or population in stored.values()
    return [
        one for one, whose in stored.items() if whose == population or (whose is None and is_ours)
    ]


def stored_populations(store: Path) -> Iterator[tuple[Path, str | None]]:
    """Every snapshot of a raw store, retired ones too, with whose rows its manifest says they are
    or were; None where none can be read, and for files that no snapshot has.
    """
    for folder in sorted(store.iterdir()) if store.is_dir() else ():
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        for path in sorted(folder.iterdir()):
            if path.is_dir() and any(path.iterdir()):
                yield path, Snapshot(path, b"").population
            elif path.is_file() and path.name.partition(".")[0] not in ("", CURRENT):
                yield path, None


def _folders(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return iter(())
    found = (path for path in sorted(folder.iterdir()) if not path.is_symlink())
    return (path for path in found if path.is_dir())


def retire(snapshot: Snapshot, *, population: str, on: date) -> None:
    """Delete everything of a snapshot but its name; doing it again finishes what was begun."""
    with snapshot.locked():
        if not snapshot.is_retired():
            snapshot.mark_retired(population=population, on=on)
        for path in snapshot.remains():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        sync(snapshot.folder)
