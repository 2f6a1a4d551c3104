"""Snapshot: the rows of one data set as they were on one day, immutable, private to the custodian.

A snapshot is named by the calendar or by hand, never by its content: a name that depended on the
rows would reveal whether they changed. Its manifest holds a keyed fingerprint of every stored
table, which is of this snapshot alone: the data set's name and its own are part of the key. A
retired snapshot is a manifest alone, which keeps its name from ever being used again.

The manifest also has marks of how far the snapshot has come, each bound to one declaration.
``validated``: {structural, refused, digest, checks}; ``stages``: stage → digest;
``prepared``: {digest, stages}, or null. A declaration that changed makes every mark void, and
another rule for choosing the rows of a person those of stages.
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
from dp_pipeline.files import locked, make_private, write_atomically
from dp_pipeline.raw.fingerprints import fingerprint_of, fingerprint_of_content

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MANIFEST = "manifest.json"
CURRENT = "current"
"""The file next to the snapshots that names the one that is read."""
_RETIRED = "retired"


def check_snapshot_id(text: str) -> str:
    """Return ``text``; DeclarationError unless it is a safe folder name, and not reserved."""
    if not _ID.fullmatch(text) or text.lower().partition(".")[0] == CURRENT:
        raise DeclarationError(
            f"snapshot: expected letters, digits, . _ or -, and not {CURRENT!r}, got {text[:60]!r}"
        )
    return text


def write_private(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a 0600 file whole or not at all, in a folder for its owner only."""
    make_private(path.parent)
    write_atomically(path, write)


def write_private_text(path: Path, text: str) -> None:
    """Write a text as ``write_private`` does."""
    write_private(path, lambda file: file.write(text.encode()))


def lock_dataset(folder: Path) -> AbstractContextManager[None]:
    """Keep other runs from writing or reading a data set meanwhile: not reentrant."""
    make_private(folder)
    return locked(folder / ".lock")


def snapshot_name(spec: DatasetSpec, name: str, today: date) -> str:
    """Return the id of a snapshot: ``name``, else the day's; a window's id begins with the window.

    >>> from dp_pipeline.config.catalogue import find_spec
    >>> snapshot_name(find_spec("trips"), "", date(2026, 11, 23))
    '2026-11-23'
    """
    if not spec.window:
        return name or today.isoformat()
    return f"{spec.window}.{name}" if name else spec.window


def preparation_hint(dataset: str) -> str:
    """Return what reads and prepares the rows of a data set, in Dagster or without it."""
    return f"Dagster's job {dataset}_prepare does it, or `dp-pipeline run {dataset}`"


def new_snapshot_hint(dataset: str) -> str:
    """Return the command that opens a new snapshot of a data set."""
    return f"`dp-pipeline run {dataset} --snapshot NAME`"


@dataclass(frozen=True)
class Snapshot:
    """One snapshot's folder on the raw store.

    folder   <raw store>/<data set>/<snapshot id>
    key      the population's secret key, without which fingerprints mean nothing
    earlier  those of the windows before, oldest first, where a release of several reads them
             together with this one
    """

    folder: Path
    key: bytes
    earlier: tuple[Snapshot, ...] = ()

    def __repr__(self) -> str:
        return f"Snapshot({self.ledger_name})"

    @property
    def members(self) -> tuple[Snapshot, ...]:
        """All that are read together, each by itself, oldest first."""
        return (*self.earlier, replace(self, earlier=()))

    @property
    def names(self) -> str:
        """The ids of all members, as a release records them."""
        return "+".join(member.id for member in self.members)

    @property
    def id(self) -> str:
        """Its name, given by the calendar or by hand."""
        return self.folder.name

    @property
    def dataset(self) -> str:
        """The name of its data set."""
        return self.folder.parent.name

    @property
    def ledger_name(self) -> str:
        """Data set and id, as the ledger writes them."""
        return f"{self.dataset}/{self.id}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The stored facts; NotPrepared when nothing was ever ingested here, or the rows were
        retired; Damaged where the manifest is that of another snapshot.
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
        """The key of its fingerprints: the population's, bound to this data set and name. Else a
        window would pay for the rows of another one, whose folder was moved or copied there.
        """
        return hmac.digest(self.key, f"rows of {self.ledger_name}".encode(), "sha256")

    @property
    def claimed(self) -> tuple[str, ...]:
        """The canonical names of its sources; none where no whole manifest has them."""
        return tuple(self._readable_manifest().get("claimed", ()))

    @property
    def population(self) -> str | None:
        """Whose rows these are or were; None where no whole manifest says so. UnknownFormat for a
        manifest of another format, which may say it.
        """
        population = self._readable_manifest().get("population")
        return population if isinstance(population, str) else None

    def is_retired(self) -> bool:
        """Return whether the rows were retired, all of their files gone or not yet."""
        return _RETIRED in self._readable_manifest()

    def _readable_manifest(self) -> dict[str, Any]:
        try:
            return self._stored_manifest()
        except (NotPrepared, Damaged):
            return {}

    def _stored_manifest(self) -> dict[str, Any]:
        try:
            stored = json.loads((self.folder / MANIFEST).read_text())
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
        """Return whether something was ingested under this name."""
        return (self.folder / MANIFEST).is_file()

    def locked(self) -> AbstractContextManager[None]:
        """Keep others from writing or reading a snapshot of this data set meanwhile."""
        return lock_dataset(self.folder.parent)

    def record(self, **facts: Any) -> None:
        """Add facts to the manifest, atomically."""
        stored = self.manifest if self.exists() else {"format": FORMAT, "id": self.id}
        self._write_manifest({**stored, **facts})

    def mark_retired(self, *, population: str, on: date) -> None:
        """Replace the manifest: from now on these rows, and their name, are refused."""
        facts = {"format": FORMAT, "id": self.id, "population": population}
        self._write_manifest({**facts, _RETIRED: on.isoformat()})

    def _write_manifest(self, facts: dict[str, Any]) -> None:
        write_private_text(self.folder / MANIFEST, json.dumps(facts, indent=1, sort_keys=True))

    def table_path(self, stage: str) -> Path:
        """Return the path of the table of one stage."""
        return self.folder / f"{stage}.parquet"

    def store_table(self, stage: str, write: Callable[[BinaryIO], None]) -> None:
        """Store one stage's table and note its fingerprint in the manifest."""
        # Read first: nothing is ever written next to a manifest that says retired.
        stored = self.manifest if self.exists() else {}
        write_private(self.table_path(stage), write)
        fingerprint = fingerprint_of(self.table_path(stage), self.secret)
        self.record(fingerprints={**stored.get("fingerprints", {}), stage: fingerprint})

    def fingerprint(self, stage: str) -> str:
        """Return that of the table of one stage by the manifest: the table is not read."""
        fingerprint = self.manifest.get("fingerprints", {}).get(stage)
        if fingerprint is None:
            raise NotPrepared(
                f"{self!r}: expected the stage {stage!r}, got a snapshot without it: "
                f"{preparation_hint(self.dataset)}"
            )
        return str(fingerprint)

    def checked_path(self, stage: str) -> Path:
        """Return the path of one stage's table; Damaged if that is not what the manifest says."""
        expected, path = self.fingerprint(stage), self.table_path(stage)
        if not path.is_file() or not hmac.compare_digest(
            expected, fingerprint_of(path, self.secret)
        ):
            raise self._changed(stage)
        return path

    def checked_content(self, stage: str) -> tuple[bytes, str]:
        """Return the same table's bytes and fingerprint. It is read once: the compared bytes are
        returned, even if another file is put in its place meanwhile.
        """
        expected, path = self.fingerprint(stage), self.table_path(stage)
        content = path.read_bytes() if path.is_file() else b""
        fingerprint = fingerprint_of_content(content, self.secret)
        if not hmac.compare_digest(expected, fingerprint):
            raise self._changed(stage)
        return content, fingerprint

    def _changed(self, stage: str) -> Damaged:
        return Damaged(f"{self!r}: expected the table {stage!r} as it was stored, got another")


def current_snapshot(store: Path, dataset: str, key: bytes, window: str = "") -> Snapshot | None:
    """Return the snapshot that releases read now, or None before the first one.

    window   its window, where rows are partitioned into time windows
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
    """Let releases, of this window if there is one, read this snapshot from now on."""
    write_private_text(snapshot.folder.parent / _pointer(window), snapshot.id)


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
    snapshot.record(validated=facts, **({"prepared": None} if refused else {}))


def require_validated(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Raise NotPrepared unless the snapshot was validated as declared now, and not refused."""
    validated = _marks(snapshot, "validated")
    if validated.get("refused"):
        raise NotPrepared(
            f"{snapshot!r}: expected a valid snapshot, got a refused one: its checks say what to "
            f"mend, then {new_snapshot_hint(spec.name)}"
        )
    declared = (spec.rows_digest, spec.checks)
    is_current = (validated.get("digest"), validated.get("checks")) == declared
    if validated.get("structural") is not True or not is_current:
        raise _not_prepared(spec, snapshot, "a snapshot validated")


def forget_preparation(snapshot: Snapshot) -> None:
    """Void every stage before the first one is written again: stages of two runs never mix."""
    snapshot.record(prepared=None, stages={})


def mark_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """Note that one stage was stored under this declaration."""
    snapshot.record(stages={**_marks(snapshot, "stages"), stage: spec.digest})


def has_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> bool:
    """Return whether ``stage`` was stored under this declaration."""
    return bool(_marks(snapshot, "stages").get(stage) == spec.digest)


def require_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """Raise NotPrepared unless ``stage`` was stored under this declaration."""
    if not has_stage(spec, snapshot, stage):
        raise _not_prepared(spec, snapshot, f"the stage {stage!r}")


def require_prepared(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Raise NotPrepared unless all members were validated and prepared as declared now."""
    for member in snapshot.members:
        require_validated(spec, member)
        if _marks(member, "prepared").get("digest") != spec.digest:
            raise _not_prepared(spec, member, "a snapshot prepared")


def _not_prepared(spec: DatasetSpec, snapshot: Snapshot, expected: str) -> NotPrepared:
    return NotPrepared(
        f"{snapshot!r}: expected {expected} as {spec.name} is declared now, got none: "
        f"{preparation_hint(spec.name)}"
    )


def _marks(snapshot: Snapshot, name: str) -> dict[str, Any]:
    marks = snapshot.manifest.get(name)
    return marks if isinstance(marks, dict) else {}
