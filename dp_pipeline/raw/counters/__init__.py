"""Engines that count prepared rows; all give the same integers, so releases do not record them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dp_pipeline.raw.workers import split_engine

if TYPE_CHECKING:
    from dp_pipeline.config.dataset import DatasetSpec
    from dp_pipeline.raw.counters.fold import FoldCounter
    from dp_pipeline.raw.snapshot import Snapshot

MAX_BYTES_IN_MEMORY = 1 << 27  # Bytes of prepared columns, at most, for ``memory`` by default


def open_counter(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> FoldCounter:
    """Return a counter of the rows of a prepared snapshot, which an engine counts exactly.

    engine   ``memory`` (reads all rows now), ``stream`` (from disk, by threads), ``dask`` or
             ``spark``, see ``split_engine``; empty: ``memory``, or ``stream`` for larger tables

    NotPrepared unless the snapshot is prepared, Damaged if a stored table has changed;
    DeclarationError for an engine that is unknown or not installed, PipelineError if its server
    does not answer. Tables are checked now for ``memory``, else when they are counted.
    """
    # Imported late: each engine needs libraries that the others do not.
    from dp_pipeline.raw.counters.checked import CheckedRows
    from dp_pipeline.raw.counters.fold import FoldCounter
    from dp_pipeline.raw.counters.memory import MemoryCounter
    from dp_pipeline.raw.counters.stream import fold_of

    name, _ = split_engine(engine)
    rows = CheckedRows.open(spec, snapshot)
    stored_rows = rows.stored_rows
    if name == "memory" or (not name and stored_rows.bytes_in_memory <= MAX_BYTES_IN_MEMORY):
        return MemoryCounter.of_stored(spec.counted_domain, rows)
    return FoldCounter(
        spec.counted_domain,
        rows.checked_fold(fold_of(stored_rows, engine)),
        fingerprint=rows.fingerprint,
        require_stages=rows.require_stages,
        left_out=rows.left_out,
    )
