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


def store(snapshot: Snapshot, stage: str, table: pa.Table) -> None:
    """Store one stage's table as Parquet."""
    store_parts(snapshot, stage, [table])


def store_parts(
    snapshot: Snapshot,
    stage: str,
    parts: Iterable[pa.Table],
    *,
    compression: str = "snappy",
    rows: int = ROWS_A_BATCH,
) -> pa.Schema:
    """Store tables of one schema, one or more, as one stage; they are never in memory together.
    The schema.

    rows   of every row group but the last, however the rows come
    """
    parts = iter(parts)
    first = next(parts)

    def write(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, first.schema, compression=compression) as writer:
            for table in in_batches(chain([first], parts), rows):
                writer.write_table(table, row_group_size=rows)

    snapshot.store_table(stage, write)
    return first.schema


def public_row_count(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> int | None:
    """How many rows a stored stage of a benchmark has; None of sensitive rows, whose number nobody
    is told, and where no copy of the rows is stored.
    """
    path = snapshot.table_path(stage)
    if spec.is_release or not path.is_file():
        return None
    return int(pq.read_metadata(path).num_rows)


def in_batches(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows, so many in every table but the last, which has none only where it is alone."""
    waiting: list[pa.Table] = []
    given = False
    for table in tables:
        waiting.append(table)
        if sum(one.num_rows for one in waiting) < rows:
            continue
        whole = pa.concat_tables(waiting)
        full = whole.num_rows // rows * rows
        yield from (whole.slice(at, rows) for at in range(0, full, rows))
        waiting, given = [whole.slice(full)], True
    rest = pa.concat_tables(waiting)
    if rest.num_rows or not given:
        yield rest


Read = Callable[[], pa.Table]
"""Gives one batch of stored rows; plain data, for whoever can read where they lie."""


@dataclass(frozen=True)
class StoredBatch:
    """A ``Read`` of a row group of a stored table; of none where that has no rows.

    table   what it is called where it cannot be read
    """

    table: str
    path: Path
    group: int | None

    def __call__(self) -> pa.Table:
        """The rows; Damaged where the file is not what was stored."""
        try:
            with pq.ParquetFile(self.path) as file:
                if self.group is None:
                    return file.schema_arrow.empty_table()
                return file.read_row_group(self.group)
        except (OSError, pa.ArrowException):
            pass
        raise _another(self.table)


@contextmanager
def stage_batches(snapshot: Snapshot, stage: str) -> Iterator[list[Read]]:
    """The batches that the table of one stage was stored in, at least one.

    Raises what ``read_stage`` does. The fingerprint is checked first: Damaged too where the file
    is another one when the block ends.
    """
    path, table = snapshot.checked_path(stage), f"{snapshot!r}: {stage!r}"
    before = file_mark(path)
    try:
        groups = pq.read_metadata(path).num_row_groups
    except (OSError, pa.ArrowException):
        groups = -1
    if groups < 0:
        raise _another(table)
    yield [StoredBatch(table, path, at) for at in range(groups) or (None,)]
    if file_mark(path) != before:
        raise _another(table)


def stage_tables(snapshot: Snapshot, stage: str) -> Iterator[pa.Table]:
    """The rows of these batches, one after the other. Raises what ``stage_batches`` does."""
    with stage_batches(snapshot, stage) as batches:
        for read in batches:
            yield read()


def _another(table: str) -> Damaged:
    return Damaged(f"{table}: expected the Parquet table that was stored, got another file")


def file_mark(path: Path) -> tuple[int, ...]:
    """Another one where a file was replaced or written to."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def read_stage(snapshot: Snapshot, stage: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The stored table of one stage, once its fingerprint was checked.

    Of snapshots that are read together, the rows of all of them.

    columns   those that are read, in the order of the table; None: all

    Raises NotPrepared when the snapshot has not come that far, Damaged when the
    table is not what was stored.
    """
    tables = (read_with_fingerprint(one, stage, columns)[0] for one in snapshot.all)
    # Their columns are the same, but not what they say of missing values.
    return pa.concat_tables(tables, promote_options="default")


def prepared_codes(
    spec: DatasetSpec, snapshot: Snapshot, names: Iterable[str]
) -> dict[str, NDArray[Any]]:
    """Attribute → codes of the prepared rows. NotPrepared unless the snapshot is prepared."""
    require_prepared(spec, snapshot)
    wanted = list(names)
    stored = read_stage(snapshot, "discretized", wanted)
    return {name: stored.column(name).to_numpy() for name in wanted}


def read_with_fingerprint(
    snapshot: Snapshot, stage: str, columns: Sequence[str] | None = None
) -> tuple[pa.Table, str]:
    """The same table, and the keyed fingerprint of the very bytes that it was read from."""
    content, fingerprint = snapshot.checked_content(stage)
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            return file.read(columns), fingerprint
    except (OSError, pa.ArrowException):
        pass
    raise _another(f"{snapshot!r}: {stage!r}")
