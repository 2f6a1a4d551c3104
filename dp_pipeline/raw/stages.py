"""Stages: the tables of a snapshot, stored once and read again whole or in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dp_pipeline.config.errors import Damaged
from dp_pipeline.raw.snapshot import Snapshot, require_prepared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dp_pipeline.config.dataset import DatasetSpec

ROWS_A_BATCH = 1 << 20
"""Rows that are in memory together, where there are more."""


def store_parts(
    snapshot: Snapshot,
    stage: str,
    parts: Iterable[pa.Table],
    *,
    compression: str = "snappy",
    rows: int = ROWS_A_BATCH,
) -> None:
    """Store tables of one schema, one or more, as one stage; they are never in memory together.

    rows   of every row group but the last, however the rows come
    """
    tables = in_batches(parts, rows)
    first = next(tables)

    def write(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, first.schema, compression=compression) as writer:
            for table in chain([first], tables):
                writer.write_table(table, row_group_size=rows)

    snapshot.store_table(stage, write)


def in_batches(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the same rows, ``rows`` a table but in the last; an empty table only if it is alone."""
    waiting: list[pa.Table] = []
    is_first = True
    for table in tables:
        waiting.append(table)
        if sum(part.num_rows for part in waiting) < rows:
            continue
        combined = pa.concat_tables(waiting)
        full = combined.num_rows // rows * rows
        yield from (combined.slice(start, rows) for start in range(0, full, rows))
        waiting, is_first = [combined.slice(full)], False
    remainder = pa.concat_tables(waiting)
    if remainder.num_rows or is_first:
        yield remainder


def public_row_count(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> int | None:
    """Return a stored stage's rows of a benchmark; None of sensitive rows, or without a copy."""
    path = snapshot.table_path(stage)
    if spec.is_release or not path.is_file():
        return None
    return int(pq.read_metadata(path).num_rows)


BatchReader = Callable[[], pa.Table]
"""Reads one batch of stored rows; plain data, so that workers can call it where the rows lie."""


@dataclass(frozen=True)
class StoredBatch:
    """A ``BatchReader`` of a row group of a stored table; of none where that has no rows.

    name   of the table, for the message where it cannot be read
    """

    name: str
    path: Path
    group: int | None

    def __call__(self) -> pa.Table:
        """Return the rows; Damaged where the file is not what was stored."""
        try:
            with pq.ParquetFile(self.path) as file:
                if self.group is None:
                    return file.schema_arrow.empty_table()
                return file.read_row_group(self.group)
        except (OSError, pa.ArrowException):
            pass
        raise _changed(self.name)


@contextmanager
def stage_batches(snapshot: Snapshot, stage: str) -> Iterator[list[BatchReader]]:
    """Give the batches that the table of one stage was stored in, at least one.

    Raises what ``read_stage`` does. The fingerprint is checked first: Damaged too where the file
    is another one when the block ends.
    """
    path, name = snapshot.checked_path(stage), f"{snapshot!r}: {stage!r}"
    mark = file_mark(path)
    try:
        groups = pq.read_metadata(path).num_row_groups
    except (OSError, pa.ArrowException):
        groups = -1
    if groups < 0:
        raise _changed(name)
    yield [StoredBatch(name, path, group) for group in range(groups) or (None,)]
    if file_mark(path) != mark:
        raise _changed(name)


def _changed(table: str) -> Damaged:
    return Damaged(f"{table}: expected the Parquet table that was stored, got another file")


def file_mark(path: Path) -> tuple[int, ...]:
    """Return numbers that change where a file is replaced or written to."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def read_stage(snapshot: Snapshot, stage: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the stored table of one stage, of all members of a snapshot, once its fingerprint was
    checked.

    columns   those that are read, in the order of the table; None: all

    Raises NotPrepared when the snapshot has not come that far, Damaged when the table is not what
    was stored.
    """
    tables = (read_with_fingerprint(member, stage, columns)[0] for member in snapshot.members)
    # Their columns are the same, but not what their schemas say of missing values.
    return pa.concat_tables(tables, promote_options="default")


def read_with_fingerprint(
    snapshot: Snapshot, stage: str, columns: Sequence[str] | None = None
) -> tuple[pa.Table, str]:
    """Return a snapshot's table, and the keyed fingerprint of the bytes it is read from."""
    content, fingerprint = snapshot.checked_content(stage)
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            return file.read(columns), fingerprint
    except (OSError, pa.ArrowException):
        pass
    raise _changed(f"{snapshot!r}: {stage!r}")


def prepared_codes(
    spec: DatasetSpec, snapshot: Snapshot, names: Iterable[str]
) -> dict[str, NDArray[Any]]:
    """Return attribute → codes of the prepared rows; NotPrepared unless there are any."""
    require_prepared(spec, snapshot)
    columns = list(names)
    stored = read_stage(snapshot, "discretized", columns)
    return {name: stored.column(name).to_numpy() for name in columns}
