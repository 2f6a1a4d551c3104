"""Engines that count prepared rows; all give the same integers, so releases do not record them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dp_pipeline.raw.workers import split_engine

if TYPE_CHECKING:
    from dp_pipeline.config.dataset import DatasetSpec
    from dp_pipeline.raw.counters.fold import FoldCounter
    from dp_pipeline.raw.snapshot import Snapshot

MAX_BYTES_IN_MEMORY = 1 << 27
"""Bytes of prepared columns up to which the default engine is ``memory``."""


def open_counter(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> FoldCounter:
    """Return a counter of a prepared snapshot that counts by the named engine.

    engine   see ``split_engine``; empty: ``memory``, or ``stream`` for larger tables

    It raises what ``CheckedRows.open`` and ``split_engine`` do; Damaged if a stored table has
    changed.
    """
    # Imported late: each engine needs libraries that the others do not.
    from dp_pipeline.raw.counters.checked import CheckedRows
    from dp_pipeline.raw.counters.engines import threaded_fold
    from dp_pipeline.raw.counters.fold import FoldCounter
    from dp_pipeline.raw.counters.memory import MemoryCounter

    name, address = split_engine(engine)
    rows = CheckedRows.open(spec, snapshot)
    stored_rows = rows.stored_rows
    if name == "memory" or (not name and stored_rows.bytes_in_memory <= MAX_BYTES_IN_MEMORY):
        return MemoryCounter.of_stored(spec.counted_domain, rows)
    fold = threaded_fold(stored_rows)
    if name in ("dask", "spark"):
        from dp_pipeline.raw.counters.engines import dask_fold, spark_fold

        fold = (dask_fold if name == "dask" else spark_fold)(stored_rows, address)
    return FoldCounter(
        spec.counted_domain,
        rows.checked_fold(fold),
        fingerprint=rows.fingerprint,
        require_stages=rows.require_stages,
        left_out=rows.left_out,
    )
