"""Snapshots: the rows of one data set on one day, immutable, and private to the data custodian.

A snapshot is named by the calendar or by hand, not by its content, since such a name would reveal
whether rows changed. Its manifest has a keyed fingerprint of every stored table, whose key depends
on the names of data set and snapshot. A retired snapshot is a manifest alone, which keeps its name
from being used again.

The manifest also marks the progress of a snapshot under one declaration: ``validated``:
{structural, refused, digest, checks}; ``stages``: stage → digest. A changed declaration makes all
marks void.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.config.system_errors import system_line
from dp_pipeline.files import locked, make_private, write_private
from dp_pipeline.raw.fingerprints import fingerprint_of, fingerprint_of_content

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MANIFEST = "manifest.json"
CURRENT = "current"  # File next to the snapshots with the name of the one that releases read
_RETIRED = "retired"
_MAPS = ("fingerprints", "types", "downloaded", "in_place")  # Facts of a manifest that map texts


def check_snapshot_id(text: str) -> str:
    """Return a snapshot id unchanged; DeclarationError if it is reserved or no safe folder name."""
    if not _ID.fullmatch(text):
        raise DeclarationError(
            "The name of a snapshot must have letters, digits, . _ or - alone, at most 64, and "
            f"begin with a letter or digit, but it is {text[:70]!r}: name it otherwise"
        )
    if text.lower().partition(".")[0] == CURRENT:
        raise DeclarationError(
            f"The name of a snapshot must not be {CURRENT!r}, nor begin with '{CURRENT}.', in "
            f"capital letters or not, but it is {text[:70]!r}: name it otherwise"
        )
    return text


def lock_dataset(folder: Path) -> AbstractContextManager[None]:
    """Create a data set's folder if needed, and return a context manager that locks it.

    No other run reads or writes the data set meanwhile. The lock is not reentrant."""
    make_private(folder)
    return locked(folder / ".lock")


def snapshot_name(spec: DatasetSpec, name: str, today: date) -> str:
    """Return the id of a new snapshot: the name or the date; with windows WINDOW.NAME or WINDOW.

    >>> from dp_pipeline.config.catalogue import find_spec
    >>> snapshot_name(find_spec("trips"), "", date(2026, 11, 23))
    '2026-11-23'
    """
    if not spec.window:
        return name or today.isoformat()
    return f"{spec.window}.{name}" if name else spec.window


def preparation_hint(dataset: str, window: str = "") -> str:
    """Return a hint for a data set without prepared rows: the job and the command that help."""
    option = f" --window {window}" if window else ""
    return (
        f"Dagster's job {dataset}_prepare prepares the rows, or `dp-pipeline run {dataset}{option}`"
    )


def new_snapshot_hint(dataset: str, window: str = "") -> str:
    """Return the command that opens a new snapshot of a data set, or of its window."""
    option = f" --window {window}" if window else ""
    return f"`dp-pipeline run {dataset}{option} --snapshot NAME`"


def stored_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file of a snapshot; None if the file holds something else.

    OSError if it is absent or cannot be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    return stored if isinstance(stored, dict) else None


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of rows, as a folder in the raw store.

    folder   <raw store>/<data set>/<snapshot id>
    key      the population's secret key, for fingerprints
    earlier  snapshots of the windows before, oldest first, for a release of several windows
    """

    folder: Path
    key: bytes
    earlier: tuple[Snapshot, ...] = ()

    def __repr__(self) -> str:
        return f"Snapshot({self.ledger_name})"

    @property
    def members(self) -> tuple[Snapshot, ...]:
        """The snapshots that are read together, oldest first, with this one at the end."""
        return (*self.earlier, replace(self, earlier=()))

    @property
    def names(self) -> str:
        """The ids of all ``members`` joined by +, as a release records them."""
        return "+".join(member.id for member in self.members)

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def dataset(self) -> str:
        return self.folder.parent.name

    @property
    def _window(self) -> str:
        """The window in the id; empty if no file beside the folder names its current snapshot."""
        window = self.id.partition(".")[0]
        return window if (self.folder.parent / _pointer(window)).is_file() else ""

    @property
    def new_snapshot_hint(self) -> str:
        """The command that opens a new snapshot in place of this one."""
        return new_snapshot_hint(self.dataset, self._window)

    @property
    def preparation_hint(self) -> str:
        """The ways to prepare the rows of this snapshot's window."""
        return preparation_hint(self.dataset, self._window)

    @property
    def ledger_name(self) -> str:
        """The data set and the id, as the ledger writes them."""
        return f"{self.dataset}/{self.id}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The stored facts of the snapshot.

        NotPrepared without ingested rows, or after they were retired; Damaged if the manifest
        cannot be read or is that of another snapshot."""
        stored = self._stored_manifest()
        if _RETIRED in stored:
            raise NotPrepared(
                f"{self!r}: the rows of the snapshot were removed on {stored[_RETIRED]}: name a "
                f"new snapshot: {self.new_snapshot_hint}"
            )
        if stored.get("id") != self.id:
            raise Damaged(
                f"{self!r}: the folder holds the manifest of snapshot "
                f"{str(stored.get('id'))[:60]!r}: move the folder back to its own name"
            )
        return stored

    @property
    def secret(self) -> bytes:
        """The key of the fingerprints, derived from the population's key and the snapshot's name.

        So the folder of another window cannot take its place, whose rows would be charged wrongly.
        """
        return hmac.digest(self.key, f"rows of {self.ledger_name}".encode(), "sha256")

    @property
    def claimed(self) -> tuple[str, ...]:
        """The canonical names of the sources, as the ledger's claims have them.

        Empty without a readable manifest; UnknownFormat for a manifest of another format."""
        return tuple(self._readable_manifest().get("claimed", ()))

    @property
    def types(self) -> dict[str, str]:
        """The Arrow type of each declared column of a Parquet source; {} if none is known.

        UnknownFormat for a manifest of another format."""
        types: dict[str, str] = self._readable_manifest().get("types", {})
        return types

    @property
    def population(self) -> str | None:
        """The population of the present or retired rows; None without a readable manifest.

        UnknownFormat for a manifest of another format, which may name it.
        """
        population = self._readable_manifest().get("population")
        return population if isinstance(population, str) else None

    def is_retired(self) -> bool:
        """Return whether the rows were retired, even if some files are not deleted yet.

        False without a readable manifest; UnknownFormat for one of another format."""
        return _RETIRED in self._readable_manifest()

    def _readable_manifest(self) -> dict[str, Any]:
        try:
            return self._stored_manifest()
        except (NotPrepared, Damaged):
            return {}

    def _stored_manifest(self) -> dict[str, Any]:
        try:
            stored = stored_object(self.folder / MANIFEST)
        except FileNotFoundError:
            raise NotPrepared(
                f"{self!r}: the snapshot is not ingested: {self.preparation_hint}"
            ) from None
        except OSError as error:
            line = system_line(error, self.folder / MANIFEST)
            raise Damaged(f"{self!r}: the manifest {line}") from None
        if stored is not None:
            require_format(stored.get("format"), of=f"{self!r}: manifest")
        maps = [(stored or {}).get(fact, {}) for fact in _MAPS]
        is_valid = all(
            isinstance(map_, dict) and all(isinstance(value, str) for value in map_.values())
            for map_ in maps
        )
        if stored is None or not is_valid:
            raise Damaged(
                f"{self!r}: the manifest {self.folder / MANIFEST} is not JSON of facts: restore it "
                f"from a backup, or name a new snapshot: {self.new_snapshot_hint}"
            )
        return stored

    def exists(self) -> bool:
        """Return whether rows were ever stored under this name, maybe in part, or retired since."""
        return (self.folder / MANIFEST).is_file()

    def locked(self) -> AbstractContextManager[None]:
        return lock_dataset(self.folder.parent)

    def record(self, **facts: Any) -> None:
        """Add facts to the manifest, or replace some, atomically; the first call creates it.

        NotPrepared for a retired snapshot."""
        stored = self.manifest if self.exists() else {"format": FORMAT, "id": self.id}
        self._write_manifest({**stored, **facts})

    def mark_retired(self, *, population: str, on: date) -> None:
        """Replace the manifest by one that refuses these rows and their name permanently."""
        facts = {"format": FORMAT, "id": self.id, "population": population}
        self._write_manifest({**facts, _RETIRED: on.isoformat()})

    def _write_manifest(self, facts: dict[str, Any]) -> None:
        manifest = json.dumps(facts, indent=1, sort_keys=True).encode()
        write_private(self.folder / MANIFEST, manifest)

    def table_path(self, stage: str) -> Path:
        return self.folder / f"{stage}.parquet"

    def store_table(self, stage: str, write: Callable[[BinaryIO], None]) -> None:
        """Store the table of one stage by ``write``, and record its fingerprint in the manifest.

        NotPrepared for a retired snapshot."""
        # Read first: it refuses to write anything for a retired snapshot.
        stored = self.manifest if self.exists() else {}
        write_private(self.table_path(stage), write)
        fingerprint = fingerprint_of(self.table_path(stage), self.secret)
        self.record(fingerprints={**stored.get("fingerprints", {}), stage: fingerprint})

    def fingerprint(self, stage: str) -> str:
        """Return the stored fingerprint of a stage's table; NotPrepared if there is none."""
        fingerprint = self.manifest.get("fingerprints", {}).get(stage)
        if fingerprint is None:
            raise NotPrepared(
                f"{self!r}: the snapshot has no rows of the kind {stage!r}: {self.preparation_hint}"
            )
        return str(fingerprint)

    def checked_path(self, stage: str) -> Path:
        """Check a stage's table, and return its path; Damaged if its fingerprint differs.

        NotPrepared without the stage."""
        expected, path = self.fingerprint(stage), self.table_path(stage)
        if not path.is_file() or not hmac.compare_digest(
            expected, fingerprint_of(path, self.secret)
        ):
            raise self.changed_error(stage)
        return path

    def checked_content(self, stage: str) -> bytes:
        """Return the bytes of a stage's table, after checking them as ``checked_path``.

        The file is read once, so the compared bytes are returned even if it is replaced meanwhile.
        """
        expected, path = self.fingerprint(stage), self.table_path(stage)
        content = path.read_bytes() if path.is_file() else b""
        if not hmac.compare_digest(expected, fingerprint_of_content(content, self.secret)):
            raise self.changed_error(stage)
        return content

    def changed_error(self, stage: str) -> Damaged:
        """Return the error to raise for a stage's table that is not as it was stored."""
        path = self.table_path(stage)
        gone = "" if path.exists() else f"there is no file {path}, so "
        return Damaged(
            f"{self!r}: {gone}the table {stage!r} is not as it was stored: restore it, or "
            f"name a new snapshot: {self.new_snapshot_hint}"
        )


def current_snapshot(store: Path, dataset: str, key: bytes, window: str = "") -> Snapshot | None:
    """Return the current snapshot of a data set, or of its window; None if there is none.

    Damaged if the file that names it holds another text."""
    pointer = store / dataset / _pointer(window)
    if not pointer.is_file():
        return None
    name = pointer.read_text(encoding="utf-8", errors="replace").strip()
    is_of_window = not window or name.partition(".")[0] == window
    if not _ID.fullmatch(name) or not is_of_window:
        of_window = f" of window {window}" if window else ""
        raise Damaged(
            f"{dataset}: the file {pointer} must hold the name of a snapshot{of_window}, but it "
            "does not: write the name of one into it, a folder beside it"
        )
    return Snapshot(store / dataset / name, key)


def make_current(snapshot: Snapshot, window: str = "") -> None:
    """Record a snapshot as the one that releases read, for all rows or those of a window."""
    write_private(snapshot.folder.parent / _pointer(window), snapshot.id.encode())


def _pointer(window: str) -> str:
    return f"{CURRENT}.{window}" if window else CURRENT


def mark_validated(
    spec: DatasetSpec, snapshot: Snapshot, *, structural: bool, refused: bool
) -> None:
    """Record the outcome of a validation in the manifest.

    structural   whether the stored columns are as declared
    refused      whether the rows may not be prepared
    """
    facts = {
        "structural": structural,
        "refused": refused,
        "digest": spec.rows_digest,
        "checks": spec.checks_digest,
    }
    snapshot.record(validated=facts)


def require_validated(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Raise NotPrepared unless the rows were validated under this declaration and not refused."""
    validated = _marks(snapshot, "validated")
    if validated.get("refused"):
        raise NotPrepared(
            f"{snapshot!r}: its checks refused the snapshot: mend what they report, then "
            f"{snapshot.new_snapshot_hint}"
        )
    declared = (spec.rows_digest, spec.checks_digest)
    is_current = (validated.get("digest"), validated.get("checks")) == declared
    if validated.get("structural") is not True or not is_current:
        raise _not_prepared(spec, snapshot, "is not validated")


def forget_preparation(snapshot: Snapshot) -> None:
    """Remove the marks of all stages from the manifest, so that stages of two runs never mix.

    The tables stay."""
    snapshot.record(stages={})


def stages_of(spec: DatasetSpec) -> tuple[str, ...]:
    """Return the stages that a data set needs, in order, of normalized, discretized and one_hot."""
    if spec.domain.parts is not None:
        return ("discretized",)
    stages = ["normalized"]
    if spec.domain.discrete:
        stages += ["discretized", "one_hot"] if spec.one_hot else ["discretized"]
    return tuple(stages)


def mark_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """Record in the manifest that the table of a stage was stored under this declaration."""
    snapshot.record(stages={**_marks(snapshot, "stages"), stage: spec.digest})


def has_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> bool:
    """Return whether the table of a stage was stored under this declaration.

    It raises what ``Snapshot.manifest`` does."""
    return bool(_marks(snapshot, "stages").get(stage) == spec.digest)


def require_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """Raise NotPrepared unless the table of a stage was stored under this declaration."""
    if not has_stage(spec, snapshot, stage):
        raise _not_prepared(spec, snapshot, f"has no rows of the kind {stage!r}")


def require_prepared(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Raise NotPrepared unless a snapshot was validated and prepared under this declaration.

    So must be those of earlier windows that are read with it."""
    for member in snapshot.members:
        require_validated(spec, member)
        if not all(has_stage(spec, member, stage) for stage in stages_of(spec)):
            raise _not_prepared(spec, member, "is not prepared")


def _not_prepared(spec: DatasetSpec, snapshot: Snapshot, fault: str) -> NotPrepared:
    return NotPrepared(
        f"{snapshot!r} {fault} as {spec.name} is declared now: {snapshot.preparation_hint}"
    )


def _marks(snapshot: Snapshot, name: str) -> dict[str, Any]:
    marks = snapshot.manifest.get(name)
    return marks if isinstance(marks, dict) else {}
