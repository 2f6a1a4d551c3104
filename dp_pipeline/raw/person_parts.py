"""Person parts: the rows of many batches put together again, so that all rows of a person are in
one part, which is bounded by itself.

A part is chosen by a keyed digest of the person's id. Every batch is dealt out by itself into a
file, and a part is what lies in it in the files of all batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.contributions import PersonKeys, person_words
from dp_pipeline.raw.workers import write_tables
from dp_pipeline.spec.encoding import IntArray

PARTS = 128

Parts = tuple[int, ...]
"""The parts that have rows in a file, ascending: as its batches are ordered."""


def person_parts(table: pa.Table, keys: PersonKeys) -> IntArray:
    """In which of PARTS the rows (n,) of a person go, −1 for nobody's."""
    words, codes = person_words(table, keys)
    # The last place is for rows without an id, whose number is −1.
    parts: IntArray = np.append((words % np.uint64(PARTS)).astype(np.int64), -1)[codes]
    return parts


def deal(table: pa.Table, keys: PersonKeys, path: Path) -> Parts:
    """Put the rows of a table that have an id into a file, part by part, in their old order."""
    # Before anything is cut: a file has one dictionary a column.
    table = table.unify_dictionaries()
    dealt = dict(_by_part(table, person_parts(table, keys)))
    write_tables(path, dealt.values() if dealt else [table.slice(0, 0)])
    return tuple(dealt)


def rows_of_part(files: Sequence[tuple[Path, Parts]], part: int) -> pa.Table:
    """The rows of a part that one of the files has at least, file by file."""
    found = []
    for path, parts in files:
        if part in parts:
            with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as dealt:
                found.append(dealt.get_batch(parts.index(part)))
    return pa.Table.from_batches(found)


def _by_part(table: pa.Table, parts: IntArray) -> Iterator[tuple[int, pa.Table]]:
    """The rows of every part that has some, each one chunk."""
    order = np.argsort(parts, kind="stable")
    turned = table.take(pa.array(order))
    ends = np.searchsorted(parts[order], np.arange(PARTS + 1))
    for part, (start, end) in enumerate(pairwise(ends.tolist())):
        if end > start:
            yield part, turned.slice(start, end - start).combine_chunks()
