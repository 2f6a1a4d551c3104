"""Engines that count prepared rows. All of them give the same whole numbers, so a release does not
say which one it is from: it is a setting of the place where it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dp_pipeline.raw.workers import engine_of

if TYPE_CHECKING:
    from dp_pipeline.config.dataset import DatasetSpec
    from dp_pipeline.raw.counters.fold import FoldCounter
    from dp_pipeline.raw.snapshot import Snapshot

MOST_IN_MEMORY = 1 << 27
"""Bytes of prepared columns, above which they stay on disk where no engine is named."""


def open_counter(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> FoldCounter:
    """The rows of a prepared snapshot, counted by an engine.

    engine   as ``engine_of`` reads it; empty: ``memory``, or ``stream`` where the rows are too many
             for that

    NotPrepared unless the snapshot was validated and prepared under this declaration; Damaged when
    a stored table is not the one that was stored; DeclarationError for an engine that is none.
    """
    # Late: what an engine needs is loaded by who uses it.
    from dp_pipeline.raw.counters.checked import CheckedRows
    from dp_pipeline.raw.counters.memory import MemoryCounter
    from dp_pipeline.raw.counters.stream import StreamCounter, in_threads

    name, address = engine_of(engine)
    rows = CheckedRows.open(spec, snapshot)
    stored = rows.stored
    if engine == "memory" or (not engine and stored.bytes_in_memory <= MOST_IN_MEMORY):
        return MemoryCounter.of_stored(spec.domain, rows)
    fold = in_threads(stored)
    if name in ("dask", "spark"):
        from dp_pipeline.raw.counters.distributed import in_dask, in_spark

        fold = (in_dask if name == "dask" else in_spark)(stored, address)
    return StreamCounter(
        spec.domain,
        stored,
        fold=rows.checked(fold),
        fingerprint=rows.fingerprint,
        require=rows.require,
    )
