"""The engine for tables that do not fit in memory: stored batches, one after the other, in threads.

A batch is a row group of the prepared stages, which have the same rows in the same row groups. What
is in memory at a time is a batch a thread, and the answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import Damaged
from dp_pipeline.raw.counters.batch import MOST_ROWS, Batch, BatchQuery
from dp_pipeline.raw.counters.fold import Fold, FoldCounter, Partial, Require, added, answered
from dp_pipeline.raw.stages import file_mark
from dp_pipeline.raw.workers import MOST_THREADS


@dataclass(frozen=True)
class StoredRows:
    """Prepared rows on disk, as plain data: where they are, and what they have to be.

    pairs    of every snapshot the file with coordinates, and the one with codes, None where no
             attribute has cells
    sizes    attribute with cells → number of them
    groups   of every row group the pair that it is in, its number there, and its rows
    marks    of the files, as they were when they were found, before anything of them was read
    """

    pairs: tuple[tuple[Path, Path | None], ...]
    sizes: tuple[tuple[str, int], ...]
    groups: tuple[tuple[int, int, int], ...]
    marks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, domain: Domain, *pairs: tuple[Path, Path | None]) -> StoredRows:
        """Damaged unless the files of a snapshot have the same row groups, and all of them fewer
        than MOST_ROWS rows.
        """
        marks = tuple(map(file_mark, _files(pairs)))
        groups: list[tuple[int, int, int]] = []
        for place, pair in enumerate(pairs):
            rows = [_rows(one) for one in _files([pair])]
            if any(one != rows[0] for one in rows):
                raise Damaged("counter: expected rows as preparation writes them, got others")
            groups += [(place, at, number) for at, number in enumerate(rows[0])]
        sizes = tuple((name, domain[name].size) for name in domain.discrete)
        found = cls(pairs, sizes, tuple(groups), marks)
        if found.number >= MOST_ROWS:
            raise Damaged("counter: expected rows as preparation writes them, got others")
        return found

    @property
    def bytes_in_memory(self) -> int:
        """Of all columns as arrays."""
        return self.number * sum(_width(one) for one in _files(self.pairs[:1]))

    @property
    def number(self) -> int:
        """Of all rows."""
        return sum(rows for _, _, rows in self.groups)

    def answered(self, batches: Iterable[int], questions: Sequence[BatchQuery]) -> Partial:
        """The answers about some batches together. Damaged where a file is not what it was."""
        axes = sorted(frozenset().union(*(one.axes for one in questions)))
        cells = sorted(frozenset().union(*(one.prepared_cells for one in questions)))
        read = self.batches(axes, cells, batches)
        return added(questions, (answered(batch, questions) for batch in read))

    def batches(
        self, axes: Sequence[str], cells: Sequence[str], places: Iterable[int] | None = None
    ) -> Iterator[Batch]:
        """Some columns of all batches, or of some. Damaged behind the last of them where a file is
        not what it was.
        """
        for at in range(len(self.groups)) if places is None else places:
            yield self._batch(at, axes, cells)
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Damaged where a file was replaced or written to since these rows were found."""
        if tuple(map(file_mark, _files(self.pairs))) != self.marks:
            raise Damaged("counter: expected rows as they were stored, got others")

    def _batch(self, at: int, axes: Sequence[str], cells: Sequence[str]) -> Batch:
        """Some columns of one row group."""
        place, group, rows = self.groups[at]
        normalized, discretized = self.pairs[place]
        return Batch(
            coordinates=_arrays(normalized, group, axes),
            codes=_arrays(discretized, group, cells),
            sizes={name: size for name, size in self.sizes if name in cells},
            rows=rows,
        )


class StreamCounter(FoldCounter):
    """Exact whole numbers about prepared rows that stay on disk; read once a round of questions.

    stored    where the rows are
    fold      who counts them; threads of this process where nothing is said
    require   as ``FoldCounter`` has it
    """

    def __init__(
        self,
        domain: Domain,
        stored: StoredRows,
        *,
        fold: Fold | None = None,
        fingerprint: str = "",
        require: Require | None = None,
    ) -> None:
        fold = fold or in_threads(stored)
        super().__init__(domain, fold, fingerprint=fingerprint, require=require)


def in_threads(stored: StoredRows) -> Fold:
    """The engine of this machine: a thread a core, each with its own sums."""

    def fold(questions: Sequence[BatchQuery]) -> Partial:
        # Whoever is ready takes the next batch: an iterator gives each number to one of them.
        batches = iter(range(len(stored.groups)))
        threads = min(len(stored.groups), os.cpu_count() or 1, MOST_THREADS)
        if threads <= 1:
            return stored.answered(batches, questions)
        with ThreadPoolExecutor(threads) as pool:
            shares = [pool.submit(stored.answered, batches, questions) for _ in range(threads)]
            return added(questions, (share.result() for share in shares))

    return fold


def _files(pairs: Iterable[tuple[Path, Path | None]]) -> list[Path]:
    return [one for pair in pairs for one in pair if one is not None]


def _width(path: Path) -> int:
    """Bytes of the whole numbers of a row."""
    schema = pq.read_schema(path)
    return sum(one.type.bit_width // 8 for one in schema if pa.types.is_integer(one.type))


def _rows(path: Path) -> tuple[int, ...]:
    about = pq.read_metadata(path)
    return tuple(about.row_group(at).num_rows for at in range(about.num_row_groups))


def _arrays(path: Path | None, at: int, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
    if path is None or not columns:
        return {}
    with pq.ParquetFile(path) as file:
        table = file.read_row_group(at, columns=columns, use_threads=False)
    return {name: _numbers(table.column(name)) for name in columns}


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Not by ``to_numpy``, which loads pandas: longer than it takes to count a million rows."""
    return np.from_dlpack(column.combine_chunks())
