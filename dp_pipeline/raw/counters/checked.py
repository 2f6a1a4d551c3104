"""CheckedRows: stored rows of which no answer is given before their files were checked.

A file is checked when a question first reads it, beside the counting: most models ask about codes
alone, and coordinates are five times as many bytes. The check is ended before an answer leaves the
engine, so before noise is drawn for it, and whatever was counted of another file is thrown away.
It is made by the process that releases, for all engines: it needs the population's key, which no
worker has. Workers look at the marks of the files behind what they counted (``StoredRows``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline.raw.counters.batch import BatchQuery
from dp_pipeline.raw.counters.fold import Fold, Partial
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.raw.snapshot import Snapshot, require_prepared

Result = TypeVar("Result")


class CheckedRows:
    """The rows of a prepared snapshot, and of those that are read together with it.

    stored        where they are
    fingerprint   of their tables as the manifest has them, and of when they were read
    """

    def __init__(
        self,
        snapshots: Sequence[Snapshot],
        stored: StoredRows,
        *,
        stages: Sequence[str],
        fingerprint: str,
    ) -> None:
        self.stored, self.fingerprint = stored, fingerprint
        self._snapshots, self._stages = tuple(snapshots), tuple(stages)
        self._known: set[str] = set()
        self._lock = Lock()

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> CheckedRows:
        """NotPrepared unless all were validated and prepared under this declaration; Damaged where
        no rows can be read.
        """
        stages = ("normalized", "discretized") if spec.domain.discrete else ("normalized",)
        # All are of one data set, and so under one lock.
        with snapshot.locked():
            require_prepared(spec, snapshot)
            prints = []
            for one in snapshot.all:
                prints.append(str(one.manifest.get("read_at", "")))
                prints += [one.fingerprint(stage) for stage in stages]
            stored = _stored(spec, snapshot, stages)
        fingerprint = combined_fingerprint(*prints)
        return cls(snapshot.all, stored, stages=stages, fingerprint=fingerprint)

    def require(self, stages: Collection[str] | None = None) -> None:
        """Damaged unless the tables of these stages are as they were stored; None: all of them.
        Each is looked at once.
        """
        with self._lock:
            asked = self._stages if stages is None else stages
            left = [stage for stage in self._stages if stage in asked and stage not in self._known]
            for stage in left:
                for one in self._snapshots:
                    one.checked_path(stage)
            # Else a file could be put back in its place after its rows were counted.
            self.stored.require_unchanged()
            self._known.update(left)

    def beside(self, work: Callable[[], Result], stages: Collection[str] | None = None) -> Result:
        """What some work makes of these stages, which are checked meanwhile. Damaged where one is
        another, whatever the work made of it or failed at.
        """
        with ThreadPoolExecutor(1) as threads:
            checked = threads.submit(self.require, stages)
            try:
                return work()
            finally:
                checked.result()

    def checked(self, fold: Fold) -> Fold:
        """An engine over these rows that gives no answer of a file before it was checked."""

        def answers(questions: Sequence[BatchQuery]) -> Partial:
            stages = frozenset[str]().union(*(one.stages for one in questions))
            # The number of rows is in all tables; one that is checked tells it.
            return self.beside(lambda: fold(questions), stages or self._stages[-1:])

        return answers


def combined_fingerprint(*readings_and_prints: str) -> str:
    """One fingerprint of all tables, and of when they were read. Rows that are read once more are
    other rows, whatever they hold: whether they have changed is a question about rows, which no
    outcome may answer.
    """
    return hashlib.sha256("\0".join(readings_and_prints).encode()).hexdigest()


def _stored(spec: DatasetSpec, snapshot: Snapshot, stages: Sequence[str]) -> StoredRows:
    """Where the rows are. What is no table at all is not the one that was stored."""
    pairs = []
    for one in snapshot.all:
        paths = [one.table_path(stage) for stage in stages]
        pairs.append((paths[0], paths[1] if paths[1:] else None))
    try:
        return StoredRows.of(spec.domain, *pairs)
    except (OSError, pa.ArrowException, Damaged):
        for one in snapshot.all:
            for stage in stages:
                one.checked_path(stage)
        raise
