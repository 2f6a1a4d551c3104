"""Writing a stage's table into a snapshot, whole or in parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dp_pipeline.raw.snapshot import Snapshot


def store(snapshot: Snapshot, stage: str, table: pa.Table) -> None:
    """Store one stage's table as Parquet."""
    store_parts(snapshot, stage, table.schema, [table])


def store_parts(
    snapshot: Snapshot, stage: str, schema: pa.Schema, parts: Iterable[pa.Table]
) -> None:
    """Store tables of one schema as one stage: they are never in memory together."""

    def write(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, schema) as writer:
            for part in parts:
                writer.write_table(part)

    snapshot.store_table(stage, write)
