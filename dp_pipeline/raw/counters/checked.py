"""Stored rows that give no answer before the fingerprints of their files are checked.

A stage's files are checked while the first query that reads them counts: most models read codes
alone, and coordinates are five times as many bytes. The check ends before the answer leaves the
engine, and so before noise is drawn; counts of a changed file are discarded. The releasing process
checks, since it needs the population's key, which no worker has. Workers compare the marks of the
files after they have counted (``StoredRows``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline.raw.counters.batch import Answer, BatchQuery
from dp_pipeline.raw.counters.fold import Fold
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.raw.snapshot import Snapshot, require_prepared, stages_of
from dp_pipeline.raw.stages import LEFT_OUT, read_stage
from dp_pipeline.raw.workers import Result


@dataclass(eq=False, repr=False)
class CheckedRows:
    """The stored rows of a prepared snapshot, whose files are checked once, when they are counted.

    snapshots     the snapshots that are read together, one for each time window
    stages        names of the stored tables of these rows
    stored_rows   the places of the rows in the files of these tables
    fingerprint   of the stored tables and of when their rows were read from the source
    left_out      number of rows that preparation left out
    """

    snapshots: tuple[Snapshot, ...]
    stages: tuple[str, ...]
    stored_rows: StoredRows
    fingerprint: str
    left_out: int
    _checked_stages: set[str] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> CheckedRows:
        """Open the prepared rows of a snapshot and of its ``earlier`` snapshots.

        NotPrepared unless all of them are prepared, Damaged if a file cannot be read."""
        stages = tuple(stage for stage in stages_of(spec) if stage != "one_hot")
        # All members are of one data set, under one lock.
        with snapshot.locked():
            require_prepared(spec, snapshot)
            parts = []
            for member in snapshot.members:
                parts.append(str(member.manifest.get("read_at", "")))
                parts += [member.fingerprint(stage) for stage in (*stages, LEFT_OUT)]
            left_out = sum(read_stage(snapshot, LEFT_OUT).column("rows").to_pylist())
            stored_rows = _find_rows(spec, snapshot, stages)
        fingerprint = combined_fingerprint(*parts)
        return cls(snapshot.members, stages, stored_rows, fingerprint, left_out)

    def require_stages(self, stages: Collection[str] | None = None) -> None:
        """Raise Damaged unless the tables of these stages, for None all, are as they were stored.

        Fingerprints are compared once for each stage. Every call checks that no file of any stage
        was replaced since the rows were opened."""
        with self._lock:
            unchecked = [
                stage
                for stage in self.stages
                if (stages is None or stage in stages) and stage not in self._checked_stages
            ]
            for stage in unchecked:
                for snapshot in self.snapshots:
                    snapshot.checked_path(stage)
            # Otherwise a replaced file could be put back after its rows were counted.
            self.stored_rows.require_unchanged()
            self._checked_stages.update(unchecked)

    def run_checked(
        self, work: Callable[[], Result], stages: Collection[str] | None = None
    ) -> Result:
        """Return ``work()``, checking the tables of ``stages`` as ``require_stages`` while it runs.

        Damaged if one has changed, in place of the result or of any error of ``work``."""
        with ThreadPoolExecutor(1) as threads:
            check = threads.submit(self.require_stages, stages)
            try:
                return work()
            finally:
                check.result()

    def checked_fold(self, fold: Fold) -> Fold:
        """Return ``fold`` with a check: Damaged if a table that it reads is not as stored.

        For a query that reads no column, the table of the last stage is checked."""

        def checked(query: BatchQuery) -> Answer | None:
            # The number of rows is in all tables, so one checked table suffices.
            return self.run_checked(lambda: fold(query), query.stages or self.stages[-1:])

        return checked


def combined_fingerprint(*parts: str) -> str:
    """Return one SHA-256, as hex, of several texts: tables' fingerprints and times of reading.

    With the times, rows that are read again always differ: no outcome may reveal whether they
    changed.
    """
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _find_rows(spec: DatasetSpec, snapshot: Snapshot, stages: Sequence[str]) -> StoredRows:
    pairs = []
    for member in snapshot.members:
        paths = [member.table_path(stage) for stage in stages]
        pairs.append((paths[0], paths[-1] if spec.domain.discrete else None))
    try:
        return StoredRows.of(spec.counted_domain, *pairs)
    except (OSError, pa.ArrowException, Damaged):
        # An unreadable file is reported as another table than the stored one.
        for member in snapshot.members:
            for stage in stages:
                member.checked_path(stage)
        raise
