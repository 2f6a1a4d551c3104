"""Contributions: keep at most a declared number of rows of every person.

Which rows stay is decided for each person by a keyed digest of her own rows, so
no other person, no position, no file order and no batch can change it. The sample
of a neighbouring data set then differs in the rows of one person only, at most
``at_most`` of them: this is what every later sensitivity rests on.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_pipeline.raw.values import REAL, TEXT, WHOLE, kind_of, type_word
from dp_pipeline.spec.errors import DeclarationError

_PURPOSE = b"contribution\0"
"""Keeps these digests apart from every other use of the population's key."""

_TEXT = pa.large_string()


def keep_at_most(table: pa.Table, *, column: str, at_most: int, key: bytes) -> pa.Table:
    """Of every person, the ``at_most`` rows with the smallest digests, in their old order.

    table     the attributes' columns, text or numbers, and the person's
    column    the person's column, text or whole numbers; spaces around a text id do not make
              another person
    at_most   rows that one person may keep, at least 1
    key       the population's secret key: who does not hold it cannot place a row in the sample

    The digest is HMAC-SHA256(key, person, row content, ordinal), where the row
    content is the canonical text of all other columns, by column name, and the
    ordinal counts identical rows of one person. Rows without a person (null, empty or
    blank text) are dropped: they cannot be bounded.

    Raises DeclarationError for a column that is not there or is neither text nor
    numbers, a person's column of floating numbers or truth values, ``at_most`` below 1, or an
    empty key.

    >>> rides = pa.table({"x": [1, 2, 3, 4], "rider": ["a", "a", "a", None]})
    >>> keep_at_most(rides, column="rider", at_most=2, key=b"k" * 32).num_rows
    2
    """
    _check(table, column, at_most, key)
    persons = person_codes(table, column)
    kept = persons >= 0
    sizes = np.bincount(persons[kept], minlength=1)
    crowded = kept & (sizes[persons] > at_most)
    if crowded.any():
        rows = table.filter(pa.array(crowded))
        kept[crowded] = _ranks(rows, column, persons[crowded], key) < at_most
    return table.filter(pa.array(kept))


def _check(table: pa.Table, column: str, at_most: int, key: bytes) -> None:
    if column not in table.column_names:
        raise DeclarationError(f"person: expected a column {column!r}, got a table without it")
    if at_most < 1:
        raise DeclarationError(f"person {column!r}: expected at_most of at least 1, got {at_most}")
    if not key:
        raise DeclarationError(
            f"person {column!r}: expected the population's key, got an empty one"
        )


def person_codes(table: pa.Table, column: str) -> NDArray[np.int64]:
    """One number a person (n,), −1 for none. Numbers only group; their order means nothing."""
    persons = _person_cells(table, column)
    if persons.type == _TEXT:
        persons = pc.if_else(pc.equal(persons, ""), None, persons)
    codes = persons.dictionary_encode().indices
    return np.asarray(pc.fill_null(codes, -1)).astype(np.int64)


def _person_cells(table: pa.Table, column: str) -> pa.Array:
    """Whole numbers as they are, texts without the spaces around them.

    Never floating numbers: they are the same from 2^53 on where whole numbers are not.
    """
    cells = _one_chunk(table.column(column))
    if cells.type in WHOLE:
        return cells
    if cells.type == _TEXT or pa.types.is_null(cells.type):
        return pc.utf8_trim_whitespace(cells.cast(_TEXT))
    raise DeclarationError(
        f"person {column!r}: expected text or whole numbers, got {type_word(cells.type)}: "
        "write the column as int64 or text"
    )


def _ranks(
    rows: pa.Table, column: str, persons: NDArray[np.int64], key: bytes
) -> NDArray[np.int64]:
    """The place (n,) of every row among its person's rows, by digest, from 0."""
    high, low = _digests(_messages(rows, column), key)
    order = np.lexsort((low, high, persons))
    starts = np.flatnonzero(np.diff(persons[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    return ranks


def _messages(rows: pa.Table, column: str) -> list[bytes]:
    """Person and content of every row, each cell behind its own length: no two rows collide.

    A cell is ``length:text`` and a missing one is ``-``.
    """
    contents = sorted(name for name in rows.column_names if name != column)
    cells = [_texts(column, _person_cells(rows, column))]
    cells += [_texts(name, _one_chunk(rows.column(name))) for name in contents]
    colon, nothing = pa.scalar(":", _TEXT), pa.scalar("", _TEXT)
    prefixed = [
        pc.fill_null(
            pc.binary_join_element_wise(pc.binary_length(cell).cast(_TEXT), cell, colon),
            pa.scalar("-", _TEXT),
        )
        for cell in cells
    ]
    joined = pc.binary_join_element_wise(*prefixed, nothing)
    messages: list[bytes] = joined.cast(pa.large_binary()).to_pylist()
    return messages


def _digests(messages: list[bytes], key: bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first 128 bits of every row's HMAC, as two words (n,) each."""
    seen: dict[bytes, int] = {}
    words = bytearray()
    for message in messages:
        ordinal = seen.get(message, 0)
        seen[message] = ordinal + 1
        text = _PURPOSE + message + ordinal.to_bytes(8, "big")
        words += hmac.digest(key, text, "sha256")[:16]
    pairs = np.frombuffer(words, dtype=">u8").reshape(-1, 2).astype(np.uint64)
    return pairs[:, 0], pairs[:, 1]


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Cells (n,) without a dictionary, floating numbers as doubles, text as large text: one array
    of text holds 2 GB of it.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type in REAL:
        column = column.cast(pa.float64())
    if column.type in TEXT:
        column = column.cast(_TEXT)
    return column.combine_chunks()


def _texts(name: str, cells: pa.Array) -> pa.Array:
    """Canonical texts (n,) of one column; null stays null."""
    kind = cells.type
    if kind == pa.float64():
        return pa.array([_number_text(value) for value in cells.to_pylist()], _TEXT)
    if kind_of(kind) == "time":
        cells = cells.cast(pa.int32() if kind == pa.date32() else pa.int64())
        kind = cells.type
    if kind not in WHOLE | {_TEXT, pa.bool_(), pa.null()}:
        raise DeclarationError(f"column {name!r}: expected text or numbers, got another type")
    return cells.cast(_TEXT)


def _number_text(value: float | None) -> str | None:
    """5.0 is written 5: one missing number turns a file's integers into floats.

    Without this, adding a row with a gap would change the digests of all others.
    """
    if value is None:
        return None
    return str(int(value)) if value.is_integer() and repr(value) != "-0.0" else repr(value)


PARTS = 128
"""Files that rows are put into by their person, where they are many."""


def parts_by_person(
    tables: Iterable[pa.Table], column: str, key: bytes, folder: Path
) -> Iterator[pa.Table]:
    """The rows of some tables in other tables: all rows of one person are in the same one.

    folder   a private one for files, which are deleted here when they have been read

    So each of these tables is bounded by itself. Rows without a person are left out.
    """
    writers: dict[Path, pq.ParquetWriter] = {}
    with ExitStack() as open_files:
        for table in tables:
            for part, rows in _by_part(table, person_parts(table, column, key)):
                path = folder / f"{part}.parquet"
                if path not in writers:
                    writer = pq.ParquetWriter(path, table.schema)
                    writers[path] = open_files.enter_context(writer)
                writers[path].write_table(rows)
    for path in writers:
        yield pq.read_table(path)
        path.unlink()


def person_parts(table: pa.Table, column: str, key: bytes) -> NDArray[np.int64]:
    """In which of PARTS the rows (n,) of a person go, −1 for nobody's: a keyed digest of the
    person's id, as ``keep_at_most`` compares persons.
    """
    coded = _person_cells(table, column).dictionary_encode()
    of_person = [_part(person, key) for person in coded.dictionary.to_pylist()]
    # The last place is for missing ids, whose place is −1.
    places = np.asarray(pc.fill_null(coded.indices, -1))
    parts: NDArray[np.int64] = np.array([*of_person, -1], dtype=np.int64)[places]
    return parts


def _part(person: str | int | None, key: bytes) -> int:
    if person is None or person == "":
        return -1
    text = str(person).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8, key=key[:64], person=b"part").digest()[0] % PARTS


def _by_part(table: pa.Table, parts: NDArray[np.int64]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of every part that has some, in their old order."""
    order = np.argsort(parts, kind="stable")
    turned = table.take(pa.array(order))
    ends = np.searchsorted(parts[order], np.arange(PARTS + 1))
    for part, (start, end) in enumerate(pairwise(ends.tolist())):
        if end > start:
            yield part, turned.slice(start, end - start)
