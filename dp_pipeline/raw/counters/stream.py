"""The engine for tables that do not fit in memory: stored batches, one after the other, in threads.

A batch is a row group of the prepared stages, which have the same rows in the same row groups. What
is in memory at a time is a batch a thread, and the answers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_pipeline.raw.counters.batch import MOST_ROWS, Batch, Question
from dp_pipeline.raw.counters.fold import Fold, FoldCounter, Partial, added, answered
from dp_pipeline.raw.snapshot import Snapshot, require_prepared
from dp_pipeline.raw.stages import file_mark
from dp_pipeline.raw.workers import MOST_THREADS
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.errors import Damaged


@dataclass(frozen=True)
class StoredRows:
    """Prepared rows on disk, as plain data: where they are, and what they have to be.

    normalized    the file with coordinates
    discretized   the file with codes, None where no attribute has cells
    sizes         attribute with cells → number of them
    rows          of every row group
    marks         of the files, as they were when their fingerprints were checked
    """

    normalized: Path
    discretized: Path | None
    sizes: tuple[tuple[str, int], ...]
    rows: tuple[int, ...]
    marks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, domain: Domain, normalized: Path, discretized: Path | None) -> StoredRows:
        """Damaged unless all files have the same row groups, and fewer than MOST_ROWS rows."""
        files = [one for one in (normalized, discretized) if one is not None]
        marks, rows = tuple(map(file_mark, files)), [_rows(one) for one in files]
        if any(one != rows[0] for one in rows) or sum(rows[0]) >= MOST_ROWS:
            raise Damaged("counter: expected rows as preparation writes them, got others")
        sizes = tuple((name, domain[name].size) for name in domain.discrete)
        return cls(normalized, discretized, sizes, rows[0], marks)

    @property
    def bytes_in_memory(self) -> int:
        """Of all columns as arrays."""
        a_row = [_width(one) for one in (self.normalized, self.discretized) if one is not None]
        return self.number * sum(a_row)

    @property
    def number(self) -> int:
        """Of all rows."""
        return sum(self.rows)

    def answered(self, batches: Iterable[int], questions: Sequence[Question]) -> Partial:
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
        for at in range(len(self.rows)) if places is None else places:
            yield self._batch(at, axes, cells)
        files = [one for one in (self.normalized, self.discretized) if one is not None]
        if tuple(map(file_mark, files)) != self.marks:
            raise Damaged("counter: expected rows as they were stored, got others")

    def _batch(self, at: int, axes: Sequence[str], cells: Sequence[str]) -> Batch:
        """Some columns of one row group."""
        return Batch(
            coordinates=_arrays(self.normalized, at, axes),
            codes=_arrays(self.discretized, at, cells),
            sizes={name: size for name, size in self.sizes if name in cells},
            rows=self.rows[at],
        )


class StreamCounter(FoldCounter):
    """Exact whole numbers about prepared rows that stay on disk; read once a round of questions.

    stored   where the rows are
    fold     who counts them; threads of this process where nothing is said
    """

    def __init__(
        self,
        domain: Domain,
        stored: StoredRows,
        *,
        fold: Fold | None = None,
        fingerprint: str = "",
    ) -> None:
        super().__init__(domain, fold or in_threads(stored), fingerprint=fingerprint)

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> StreamCounter:
        """The engine over a prepared snapshot; raises what ``MemoryCounter.open`` does."""
        stored, fingerprint = stored_rows(spec, snapshot)
        return cls(spec.domain, stored, fingerprint=fingerprint)


def stored_rows(spec: DatasetSpec, snapshot: Snapshot) -> tuple[StoredRows, str]:
    """Where the rows of a prepared snapshot are, once they are known to be what was stored, and
    their fingerprint.
    """
    stages = ("normalized", "discretized") if spec.domain.discrete else ("normalized",)
    with snapshot.alone():
        require_prepared(spec, snapshot)
        paths = [snapshot.checked_path(stage) for stage in stages]
        stored = StoredRows.of(spec.domain, paths[0], paths[1] if paths[1:] else None)
        reading = str(snapshot.manifest.get("read_at", ""))
        prints = [str(snapshot.manifest["fingerprints"][stage]) for stage in stages]
    return stored, combined_fingerprint(reading, *prints)


def combined_fingerprint(reading: str, *fingerprints: str) -> str:
    """One fingerprint of all tables. Rows that are read once more are other rows, whatever they
    hold: whether they have changed is a question about rows, which no outcome may answer.
    """
    return hashlib.sha256("\0".join((reading, *fingerprints)).encode()).hexdigest()


def in_threads(stored: StoredRows) -> Fold:
    """The engine of this machine: a thread a core, each with its own sums."""

    def fold(questions: Sequence[Question]) -> Partial:
        # Whoever is ready takes the next batch: an iterator gives each number to one of them.
        batches = iter(range(len(stored.rows)))
        threads = min(len(stored.rows), os.cpu_count() or 1, MOST_THREADS)
        if threads <= 1:
            return stored.answered(batches, questions)
        with ThreadPoolExecutor(threads) as pool:
            shares = [pool.submit(stored.answered, batches, questions) for _ in range(threads)]
            return added(questions, (share.result() for share in shares))

    return fold


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
    return {name: table.column(name).to_numpy() for name in columns}
