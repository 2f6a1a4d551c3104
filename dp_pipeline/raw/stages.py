"""Stages: the tables of a snapshot, stored once and read again whole or in batches."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.spec.errors import Damaged

ROWS_A_BATCH = 1 << 20
"""Rows that are in memory together, where there are more."""

MOST_THREADS = 8
"""That work on batches at a time: each has one in memory."""


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


def each(work: Callable[[pa.Table], pa.Table], tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """``work`` of every table, in order; a few of them at a time, in threads."""
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[pa.Table]] = deque()
        for table in tables:
            waiting.append(pool.submit(work, table))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def stage_tables(snapshot: Snapshot, stage: str) -> Iterator[pa.Table]:
    """The stored table of one stage in the batches that it was stored in, at least one.

    Raises what ``read_stage`` does. The fingerprint is checked first: Damaged too where the file
    is another one when it has been read.
    """
    path = snapshot.checked_path(stage)
    before = file_mark(path)
    try:
        with pq.ParquetFile(path) as file:
            if not file.num_row_groups:
                yield file.schema_arrow.empty_table()
            for at in range(file.num_row_groups):
                yield file.read_row_group(at)
    except (OSError, pa.ArrowException):
        before = ()
    if file_mark(path) != before:
        raise Damaged(f"{snapshot!r}: expected a Parquet table for {stage!r}, got another file")


def file_mark(path: Path) -> tuple[int, ...]:
    """Another one where a file was replaced or written to."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def read_stage(snapshot: Snapshot, stage: str) -> pa.Table:
    """The stored table of one stage, once its fingerprint was checked.

    Of snapshots that are read together, the rows of all of them.

    Raises NotPrepared when the snapshot has not come that far, Damaged when the
    table is not what was stored.
    """
    return pa.concat_tables(read_with_fingerprint(one, stage)[0] for one in snapshot.all)


def read_with_fingerprint(snapshot: Snapshot, stage: str) -> tuple[pa.Table, str]:
    """The same table, and the keyed fingerprint of the very bytes that it was read from."""
    content, fingerprint = snapshot.checked_content(stage)
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            return file.read(), fingerprint
    except (OSError, pa.ArrowException):
        pass
    raise Damaged(f"{snapshot!r}: expected a Parquet table for {stage!r}, got another file")
