"""Prepared rows on disk, counted batch by batch: by threads, or by the workers of Dask and Spark.

A batch is a row group; the prepared stages have the same rows in the same row groups.

Workers get ``StoredRows``, with the places of the prepared rows, and a query; they return exact
sums over many batches. They draw no noise and write nothing. A lost or repeated task counts the
same batches again, and one of its answers is used. All workers need to read the files, and exact
sums cross the network, which has to be trusted or encrypted.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import Damaged
from dp_pipeline.raw.clusters import (
    PACKED,
    pack,
    require_all_results,
    spark_session,
    unpack,
    unwrap,
    workers_of,
)
from dp_pipeline.raw.counters.batch import MAX_ROWS, Answer, Batch, BatchQuery
from dp_pipeline.raw.counters.fold import Fold, answer_batch, merge_answers
from dp_pipeline.raw.stages import file_mark
from dp_pipeline.raw.workers import split_engine

MAX_TASKS = 64  # Tasks of one scan, at most, since their answers are added up in one place


@dataclass(frozen=True)
class StoredRows:
    """The places of prepared rows in files, which are small enough to send to workers.

    pairs    for each snapshot the file with coordinates, and the one with codes or None
    sizes    (attribute with cells, number of cells)
    groups   for each row group the index of its pair, its number there, and its number of rows
    marks    inode, size and time of each file before it was read (``file_mark``)
    """

    pairs: tuple[tuple[Path, Path | None], ...]
    sizes: tuple[tuple[str, int], ...]
    groups: tuple[tuple[int, int, int], ...]
    marks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, domain: Domain, *pairs: tuple[Path, Path | None]) -> StoredRows:
        """Return the places of the rows in pairs of files, of which only the footers are read.

        pairs   a file of coordinates, and one of codes or None

        Damaged unless the files of each pair have equal row groups, and all pairs together have
        fewer than MAX_ROWS rows.
        """
        marks = tuple(map(file_mark, _files(pairs)))
        groups: list[tuple[int, int, int]] = []
        for index, pair in enumerate(pairs):
            footers = map(pq.read_metadata, _files([pair]))
            rows, *codes_rows = (
                [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
                for footer in footers
            )
            if any(sizes != rows for sizes in codes_rows):
                raise Damaged(
                    f"The files of prepared rows in {pair[0].parent} must have equal row groups, "
                    f"but they differ: run Dagster's job {pair[0].parent.parent.name}_prepare"
                )
            groups += [(index, number, size) for number, size in enumerate(rows)]
        sizes = tuple((name, domain[name].size) for name in domain.discrete)
        stored_rows = cls(pairs, sizes, tuple(groups), marks)
        if stored_rows.row_count >= MAX_ROWS:
            raise Damaged(
                f"The prepared rows in {pairs[0][0].parent} must be fewer than {MAX_ROWS}, but "
                "they are more: declare a source of fewer rows, or `windows`"
            )
        return stored_rows

    @property
    def bytes_in_memory(self) -> int:
        """The number of bytes that all columns of integers need as arrays."""
        types = [field.type for path in _files(self.pairs[:1]) for field in pq.read_schema(path)]
        bits: int = sum(type_.bit_width for type_ in types if pa.types.is_integer(type_))
        return self.row_count * bits // 8

    @property
    def row_count(self) -> int:
        """The number of rows in all files."""
        return sum(rows for _, _, rows in self.groups)

    def answer_batches(self, query: BatchQuery, indices: Iterable[int]) -> Answer | None:
        """Return the answer to a query about the rows of these row groups together.

        It is None where they have no row. Damaged if a file has changed."""
        batches = self.batches(sorted(query.axes), sorted(query.prepared_cells), indices)
        return merge_answers(query, (answer_batch(batch, query) for batch in batches))

    def batches(
        self, axes: Sequence[str], cells: Sequence[str], indices: Iterable[int]
    ) -> Iterator[Batch]:
        """Yield a batch of some columns for each of these row groups.

        axes    attributes whose coordinates are read
        cells   attributes whose codes are read

        Damaged, after the last batch, if a file has changed."""
        for index in indices:
            pair_index, group_number, rows = self.groups[index]
            coordinates, codes = self.pairs[pair_index]
            yield Batch(
                coordinates=_arrays(coordinates, group_number, axes),
                codes=_arrays(codes, group_number, cells),
                sizes={name: size for name, size in self.sizes if name in cells},
                rows=rows,
            )
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Raise Damaged if a file was replaced or changed since these rows were opened."""
        if tuple(map(file_mark, _files(self.pairs))) != self.marks:
            raise Damaged(
                "The files of prepared rows changed while they were counted, in "
                f"{self.pairs[0][0].parent}: run again"
            )


def _files(pairs: Iterable[tuple[Path, Path | None]]) -> list[Path]:
    return [path for pair in pairs for path in pair if path is not None]


def _arrays(
    path: Path | None, group_number: int, columns: Sequence[str]
) -> dict[str, NDArray[Any]]:
    if path is None or not columns:
        return {}
    with pq.ParquetFile(path) as file:
        table = file.read_row_group(group_number, columns=columns, use_threads=False)
    # ``to_numpy`` would import pandas, which takes longer than to count a million rows.
    return {name: np.from_dlpack(table.column(name).combine_chunks()) for name in columns}


def fold_of(stored_rows: StoredRows, engine: str) -> Fold:
    """Return the function by which an engine answers a query about all rows.

    engine   name and address, see ``split_engine``; all but Dask and Spark are threads

    It raises what ``workers_of`` does.
    """
    name, address = split_engine(engine)
    groups = range(len(stored_rows.groups))
    # Local workers get few tasks, since they hand over the answer to each.
    most = MAX_TASKS if address else min(MAX_TASKS, 2 * (os.cpu_count() or 1))
    tasks = [groups[start::most] for start in groups[:most]]
    if name == "spark":
        return _spark_fold(stored_rows, address, max(1, len(tasks)))
    parallel_map = workers_of(engine)

    def fold(query: BatchQuery) -> Answer | None:
        work = partial(stored_rows.answer_batches, query)
        return merge_answers(query, parallel_map(work, tasks))

    return fold


def _spark_fold(stored_rows: StoredRows, address: str, partitions: int) -> Fold:
    session = spark_session(address)

    def fold(query: BatchQuery) -> Answer | None:
        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            indices = (index for batch in batches for index in batch.column(0).to_pylist())
            yield pack(stored_rows.answer_batches(query, indices))

        def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            contents = [content for batch in batches for content in batch.column(0).to_pylist()]
            yield pack((len(contents), merge_answers(query, map(pickle.loads, contents))))

        if not stored_rows.groups:
            return None
        # Added up on a worker, since all answers together may pass spark.driver.maxResultSize.
        indices = session.range(0, len(stored_rows.groups), 1, partitions)
        sums = indices.mapInArrow(count, PACKED).repartition(1).mapInArrow(add, PACKED)
        rows = unwrap(sums.collect)
        total: Answer | None
        results, total = unpack(rows[0]) if rows else (0, None)
        require_all_results(results, partitions)
        return total

    return fold
