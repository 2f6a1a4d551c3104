"""Storing and reading stages, the tables of a snapshot, whole or in batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline.raw.snapshot import Snapshot, require_prepared
from dp_pipeline.raw.units import parts_of_units

ROWS_A_BATCH = 1 << 20  # Rows of a batch, which are in memory together
LEFT_OUT = "left_out"  # The table with the number of rows that are left out of ``normalized``


def store_parts(
    snapshot: Snapshot,
    stage: str,
    parts: Iterable[pa.Table],
    *,
    compression: str = "snappy",
    rows: int = ROWS_A_BATCH,
) -> None:
    """Store tables of one schema as the table of one stage, without all of them in memory.

    parts  at least one table
    rows   rows of every row group but the last
    """
    tables = in_batches(parts, rows)
    snapshot.store_table(stage, partial(write_row_groups, tables, compression=compression))


def write_row_groups(tables: Iterator[pa.Table], file: BinaryIO, *, compression: str) -> None:
    """Write tables of one schema, at least one, to a Parquet file, each as one row group."""
    first = next(tables)
    with pq.ParquetWriter(file, first.schema, compression=compression) as writer:
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=max(1, table.num_rows))


def in_batches(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of one or more tables as tables of ``rows`` rows, and one with the rest.

    Without rows it is one table."""
    remainder: Any = None
    is_first = True
    for table in tables:
        remainder = table if remainder is None else pa.concat_tables([remainder, table])
        while remainder.num_rows >= rows:
            yield remainder.slice(0, rows)
            remainder, is_first = remainder.slice(rows), False
    if remainder.num_rows or is_first:
        yield remainder


def public_row_count(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> int | None:
    """Return the number of rows of a stored stage; None for sensitive rows, or if it is missing."""
    path = snapshot.table_path(stage)
    if spec.is_release or not path.is_file():
        return None
    return int(pq.read_metadata(path).num_rows)


BatchReader = Callable[[], pa.Table]  # Reads one batch of stored rows; can be pickled for workers


@dataclass(frozen=True)
class StoredBatch:
    """A function that reads one row group of a stored table, and can be sent to workers.

    path     the Parquet file of the table
    groups   number of the row group; none for a table without rows
    fault    error to raise if the file cannot be read; no worker has the snapshot's key
    """

    path: Path
    groups: tuple[int, ...]
    fault: Damaged

    def __call__(self) -> pa.Table:
        try:
            with pq.ParquetFile(self.path) as file:
                return file.read_row_groups(self.groups)
        except (OSError, pa.ArrowException):
            pass
        raise self.fault


@contextmanager
def stage_batches(snapshot: Snapshot, stage: str) -> Iterator[list[BatchReader]]:
    """Yield functions that each read one row group of a stage's table, for use inside the block.

    The ``earlier`` snapshots are not read. A table without rows has one function. NotPrepared
    without the stage; Damaged if the table is not as it was stored, which is checked before the
    block, or if its file changes during the block.
    """
    path, fault = snapshot.checked_path(stage), snapshot.changed_error(stage)
    mark = file_mark(path)
    try:
        groups = pq.read_metadata(path).num_row_groups
    except (OSError, pa.ArrowException):
        groups = -1
    if groups < 0:
        raise fault
    yield [StoredBatch(path, (n,), fault) for n in range(groups)] or [StoredBatch(path, (), fault)]
    if file_mark(path) != mark:
        raise fault


def file_mark(path: Path) -> tuple[int, ...]:
    """Return the inode, size and time of a file: one changes if it is replaced or written."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def read_stage(snapshot: Snapshot, stage: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the stored table of one stage: the ``earlier`` snapshots' rows, then its own.

    columns   columns that are read, in the order of the table; None: all

    Fingerprints are checked: Damaged if a table is not as it was stored; NotPrepared without one.
    """
    tables = (_read_table(member, stage, columns) for member in snapshot.members)
    # Their schemas may differ in whether a column has missing values.
    return pa.concat_tables(tables, promote_options="default")


def _read_table(snapshot: Snapshot, stage: str, columns: Sequence[str] | None) -> pa.Table:
    content = snapshot.checked_content(stage)
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            return file.read(columns)
    except (OSError, pa.ArrowException):
        pass
    raise snapshot.changed_error(stage)


def prepared_codes(
    spec: DatasetSpec, snapshot: Snapshot, names: Iterable[str]
) -> dict[str, NDArray[Any]]:
    """Return attribute → codes (rows,) of the prepared rows, in the order of ``names``.

    Where units have parts, a row is a part, or a unit without one. NotPrepared unless the snapshot
    is prepared, Damaged if its rows are not as they were stored.
    """
    require_prepared(spec, snapshot)
    columns = list(names)
    read = columns if spec.domain.parts is None else spec.counted_domain.names
    stored = read_stage(snapshot, "discretized", read)
    codes = {name: stored.column(name).to_numpy() for name in read}
    if spec.domain.parts is not None:
        codes = parts_of_units(spec.domain, codes)
    return {name: codes[name] for name in columns}
