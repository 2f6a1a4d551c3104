"""Bounding contributions: at most a declared number of rows of each person is used.

A keyed pseudo-random function of a person's own rows selects them, independent of other persons,
positions, files and batches. So the samples of neighbouring data sets differ by at most ``at_most``
rows of one person: every later sensitivity rests on this.

Several batches are each split into a file with one batch for each group of persons, by a keyed
digest of their ids. The rows of one group from all files are bounded alone.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.raw import siphash
from dp_pipeline.raw.siphash import Words
from dp_pipeline.raw.values import REAL, TEXT, WHOLE, kind_of, type_word
from dp_pipeline.raw.workers import write_tables

_PURPOSE = b"contribution 2\0"  # Separates these digests from other uses of the population's key
_TEXT = pa.large_string()
_ROWS_A_BLOCK = 1 << 16


@dataclass(frozen=True)
class PersonKeys:
    """The keys for bounding the rows of each person, derived from the population's key.

    column         the person's column
    other_columns  the other columns, sorted, so that their order in a table does not matter
    ids            key of SipHash for ids alone
    rows, texts, copies   keys of SipHash for whole rows, for texts in them, and for equal rows
    """

    column: str
    other_columns: tuple[str, ...]
    ids: bytes = field(repr=False)
    rows: bytes = field(repr=False)
    texts: bytes = field(repr=False)
    copies: bytes = field(repr=False)

    @classmethod
    def of(cls, columns: Iterable[str], person: str | None, key: bytes) -> PersonKeys | None:
        """Return the keys for tables with these columns; None if no column identifies persons.

        key   the population's secret key; DeclarationError if it is empty"""
        if person is None:
            return None
        if not key:
            raise DeclarationError(
                f"The persons of column {person!r} are hashed with their population's key, "
                "but the key is empty: report this fault"
            )
        other_columns = tuple(sorted(set(columns) - {person}))
        row_keys = _sip_keys([person, *other_columns], key)
        return cls(person, other_columns, _sip_keys([person], key)[0], *row_keys)


def _sip_keys(columns: list[str], key: bytes) -> list[bytes]:
    digest = hmac.digest(key, _PURPOSE + json.dumps(columns).encode(), "sha512")
    size = siphash.KEY_BYTES
    return [digest[start : start + size] for start in range(0, 3 * size, size)]


def keep_at_most(table: pa.Table, *, at_most: int, keys: PersonKeys | None) -> pa.Table:
    """Return the ``at_most`` rows of each person with the smallest digests, in the table's order.

    table     the attributes' columns, text or numbers, and the person's, text or whole numbers;
              white space around a text id does not make another person
    at_most   rows that one person may keep, at least 1
    keys      keys for this table's columns; None: rows are not of persons, and all are returned

    A row is a message of 64-bit words: the person, the other cells in the order of their columns'
    names, and the kind of each cell (``_Cells``). Its digest is SipHash-2-4 of that, under a key
    that is HMAC-SHA512 of the names under the population's. Equal rows get different digests: all
    but the first that of the digest and the number of copies before it.

    *Ties.* Two different rows of one person have one digest with probability 2^−64 a pair. Then
    they count as copies, and their positions in the table may decide which of them stays; how many
    stay does not change, nor do other persons' rows, since digests are compared within a person.

    Rows without a person (null, empty or blank text) are dropped, as they cannot be bounded.

    DeclarationError for a column that is neither text nor numbers, and for a person's column of
    floating numbers or truth values.

    >>> rides = pa.table({"x": [1, 2, 3, 4], "rider": ["a", "a", "a", None]})
    >>> keys = PersonKeys.of(rides.column_names, "rider", b"k" * 32)
    >>> keep_at_most(rides, at_most=2, keys=keys).num_rows
    2
    """
    if keys is None:
        return table
    persons, ids = _persons(table, keys.column)
    is_kept = persons >= 0
    sizes = np.bincount(persons[is_kept], minlength=1)
    is_crowded = is_kept & (sizes[persons] > at_most)
    if is_crowded.any():
        rows = np.flatnonzero(is_crowded)
        digests, codes = _row_digests(table, keys, rows, persons, ids), persons[rows]
        order = _order(codes, digests)
        is_copy = _equals_previous(codes[order]) & _equals_previous(digests[order])
        if is_copy.any():
            copies, counts = order[is_copy], _copies_before(is_copy)
            digests[copies] = siphash.of_words([digests[copies], counts], keys.copies)
            order = _order(codes, digests)
        codes = codes[order]
        # Rows that are not among the first ``at_most`` of their person.
        is_kept[rows[order[at_most:][codes[at_most:] == codes[:-at_most]]]] = False
    return table.filter(pa.array(is_kept))


def count_omitted_rows(
    rows: pa.Table, kept: pa.Table, *, at_most: int, keys: PersonKeys | None
) -> int:
    """Return how many dropped rows could have been kept, had they been valid.

    rows   the dropped rows; of each person at most ``at_most`` less her kept rows are counted
    kept   the valid rows that are used, as ``keep_at_most`` returns them
    keys   None: rows are not of persons, and all are counted; else one without an id is not

    >>> rides = pa.table({"rider": ["a", "a", "a", "b", None]})
    >>> keys = PersonKeys.of(rides.column_names, "rider", b"k" * 32)
    >>> count_omitted_rows(rides, rides.slice(0, 1), at_most=3, keys=keys)  # two of a, one of b
    3
    """
    if keys is None:
        return int(rows.num_rows)
    column, count = keys.column, kept.num_rows
    both = pa.concat_tables([kept.select([column]), rows.select([column])])
    codes = person_codes(both, column)
    persons = int(codes.max(initial=-1)) + 1
    free_rows = at_most - np.bincount(codes[:count], minlength=persons)
    codes_of_offered = codes[count:]
    offered_rows = np.bincount(codes_of_offered[codes_of_offered >= 0], minlength=persons)
    return int(np.minimum(free_rows, offered_rows).sum())


def person_codes(table: pa.Table, column: str) -> IntArray:
    """Return a number from 0 for the person of each row (n,); −1 for a row without a person."""
    return _persons(table, column)[0].astype(np.int64)


def _persons(table: pa.Table, column: str) -> tuple[NDArray[np.int32], pa.Array]:
    """Return the number of the person of each row (n,), −1 for none, and the id of each number.

    An id is a text without white space around it, or a whole number."""
    # Floating ids are refused: from 2^53 on two of them may be equal for different persons.
    cells = _plain(table.column(column))
    if cells.type not in WHOLE and cells.type != _TEXT and not pa.types.is_null(cells.type):
        raise DeclarationError(
            f"The person's column {column!r} must hold text or whole numbers, not "
            f"{type_word(cells.type)}: write it as int64 or text"
        )
    if pa.types.is_null(cells.type):
        cells = cells.cast(_TEXT)
    encoded = cells.dictionary_encode().combine_chunks()
    ids, codes = encoded.dictionary, _codes(encoded.indices)
    if ids.type != _TEXT:
        return codes, ids
    trimmed = pc.utf8_trim_whitespace(ids)
    merged = pc.if_else(pc.equal(trimmed, ""), None, trimmed).dictionary_encode()
    # The last entry is for rows without an id, whose code is −1.
    merged_codes = np.append(_codes(merged.indices), np.int32(-1))
    return merged_codes[codes], merged.dictionary


def _codes(indices: pa.Array) -> NDArray[np.int32]:
    return np.asarray(pc.fill_null(indices, -1))


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return a column without dictionary encoding, with reals as doubles and text as large text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type in REAL:
        column = column.cast(pa.float64())
    if column.type in TEXT:
        column = column.cast(_TEXT)
    return column


def _row_digests(
    table: pa.Table, keys: PersonKeys, rows: IntArray, persons: NDArray[np.int32], ids: pa.Array
) -> Words:
    """Return the digests of the rows with these indices (len(rows),), equal for equal rows."""
    digests = np.empty(len(rows), dtype=np.uint64)
    id_words, id_kinds = _cells(keys.column, ids, keys.texts)
    for start in range(0, table.num_rows, _ROWS_A_BLOCK):
        span = slice(*np.searchsorted(rows, (start, start + _ROWS_A_BLOCK)))
        block_rows = rows[span]
        if not len(block_rows):
            continue
        block = table.slice(start, _ROWS_A_BLOCK)
        if len(block_rows) < block.num_rows:
            block = block.take(pa.array(block_rows - start))
        codes = persons[block_rows]
        cells = [(id_words[codes], id_kinds[codes])]
        cells += [_cells(name, block.column(name), keys.texts) for name in keys.other_columns]
        digests[span] = siphash.of_words(_message(cells), keys.rows)
    return digests


def _order(codes: NDArray[np.int32], digests: Words) -> IntArray:
    """Return the row indices (n,) sorted by person, then by digest."""
    # One sort of both in one word is faster than two; the lost bits of a digest rarely matter.
    bits = np.uint64(int(codes.max()).bit_length())
    sort_keys = codes.astype(np.uint64) << (np.uint64(64) - bits)
    sort_keys |= digests >> bits
    order = np.argsort(sort_keys, kind="stable")
    ties = np.flatnonzero(_equals_previous(sort_keys[order]))
    if np.array_equal(digests[order[ties]], digests[order[ties - 1]]):
        return order
    return np.asarray(np.lexsort((digests, codes)))


def _equals_previous(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.append(False, values[1:] == values[:-1])


def _copies_before(is_copy: NDArray[np.bool_]) -> Words:
    """Return the number of equal rows before each sorted row that equals its predecessor."""
    positions = np.flatnonzero(is_copy)
    starts = np.flatnonzero(np.append(True, np.diff(positions) != 1))
    lengths = np.diff(starts, append=len(positions))
    return (np.arange(1, len(positions) + 1) - np.repeat(starts, lengths)).astype(np.uint64)


_MISSING, _WHOLE, _LARGE, _OTHER = range(4)
_KINDS_A_WORD = 32
_TOP = 2.0**63


_Cells = tuple[Words, NDArray[np.uint8]]
"""The values of a column as 64-bit words (n,) with kinds (n,): different values stay different.

The kinds are: missing; a whole number below 2^63 in size; one from 2^63 to 2^64 − 1; any other
number, or a text. The words are, by kind: 0; its two's complement; itself; the bits of its double,
or its hash.
"""


def _message(columns: list[_Cells]) -> list[Words]:
    """Return the words to hash of some rows, by column: values, then kinds, 32 in a word."""
    words = [column for column, _ in columns]
    for first in range(0, len(columns), _KINDS_A_WORD):
        kinds = np.zeros(len(words[0]), dtype=np.uint64)
        for _, column_kinds in columns[first : first + _KINDS_A_WORD]:
            kinds <<= np.uint64(2)
            kinds |= column_kinds
        words.append(kinds)
    return words


def _cells(name: str, column: pa.ChunkedArray | pa.Array, key: bytes) -> _Cells:
    cells = _plain(column)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if cells.type == _TEXT:
        encoded = cells.dictionary_encode()
        codes = _codes(encoded.indices)
        # The last entry is for missing texts, whose code is −1.
        words = np.append(siphash.of_texts(encoded.dictionary, key), np.uint64(0))
        return words[codes], np.where(codes < 0, _MISSING, _OTHER).astype(np.uint8)
    if kind_of(cells.type) == "time":
        cells = cells.cast(pa.int32() if cells.type == pa.date32() else pa.int64())
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    if cells.type not in WHOLE and cells.type not in {pa.float64(), pa.null()}:
        raise DeclarationError(
            f"The column {name!r} must hold text or numbers, not {type_word(cells.type)}: write it "
            "as text, int64 or float64"
        )
    is_present = np.asarray(cells.is_valid())
    if pa.types.is_null(cells.type):
        cells = cells.cast(pa.int64())
    values = np.asarray(pc.fill_null(cells, 0))
    if cells.type == pa.float64():
        words, kinds = _double_cells(values)
    else:
        words = values.astype(np.uint64)
        kinds = np.where(values >= 1 << 63, _LARGE, _WHOLE).astype(np.uint8)
    # A missing cell is filled with 0 and has the word of 0.
    return words, np.where(is_present, kinds, np.uint8(_MISSING))


def _double_cells(values: NDArray[np.float64]) -> _Cells:
    """Return the cells of doubles, in which 5.0 equals the integer 5.

    A missing number may turn a file's integers into floats, and must not change the digests of
    other rows. −0.0 differs from 0; all NaN are equal.
    """
    is_whole = (np.trunc(values) == values) & ~((values == 0) & np.signbit(values))
    is_small = is_whole & (values >= -_TOP) & (values < _TOP)
    is_large = is_whole & (values >= _TOP) & (values < 2 * _TOP)
    words = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    words[is_small] = values[is_small].astype(np.int64).view(np.uint64)
    words[is_large] = values[is_large].astype(np.uint64)
    kinds = np.full(len(values), _OTHER, dtype=np.uint8)
    kinds[is_small] = _WHOLE
    kinds[is_large] = _LARGE
    return words, kinds


GROUP_COUNT = 128  # Groups of persons that are bounded one by one, for rows of several batches
SplitFile = tuple[Path, tuple[int, ...]]
"""A file, and the groups of persons that have rows in it, in the order of its batches."""


def assign_groups(table: pa.Table, keys: PersonKeys) -> IntArray:
    """Return the number of the group of persons of each row (n,), below GROUP_COUNT.

    It is a keyed digest of the person's id; −1 for a row without an id."""
    persons, ids = _persons(table, keys.column)
    words = siphash.of_words([_cells(keys.column, ids, keys.ids)[0]], keys.ids)
    # The last entry is for rows without an id, whose code is −1.
    group_of_code = np.append((words % np.uint64(GROUP_COUNT)).astype(np.int64), -1)
    return np.asarray(group_of_code[persons])


def split_by_person(table: pa.Table, keys: PersonKeys, path: Path) -> SplitFile:
    """Write the rows that have an id to a file, one batch for each group of persons.

    The groups are those of ``assign_groups``, ascending."""
    # First of all, since a file has one dictionary a column.
    table = table.unify_dictionaries()
    groups = assign_groups(table, keys)
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(GROUP_COUNT + 1)).tolist()
    rows = table.take(pa.array(order))
    tables = {
        group: rows.slice(start, end - start).combine_chunks()
        for group, (start, end) in enumerate(pairwise(ends))
        if end > start
    }
    write_tables(path, tables.values() if tables else [table.slice(0, 0)])
    return path, tuple(tables)


def group_readers(files: Sequence[SplitFile]) -> list[Callable[[], pa.Table]]:
    """Return functions that each read all rows of one group of persons; they can be pickled.

    files   at least one, by ``split_by_person``, of one schema

    Where no row has an id, it is one function, which reads no rows."""
    groups = {group for _, groups in files for group in groups} or {-1}
    return [partial(_read_group, files, group) for group in sorted(groups)]


def _read_group(files: Sequence[SplitFile], group: int) -> pa.Table:
    batches = []
    for path, groups in files:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            schema = reader.schema
            if group in groups:
                batches.append(reader.get_batch(groups.index(group)))
    return pa.Table.from_batches(batches, schema)


def tables_by_person(
    tables: Iterable[pa.Table], keys: PersonKeys, scratch: Path
) -> Iterator[pa.Table]:
    """Yield the rows of tables regrouped, so that all rows of a person are in one table.

    tables    at least one, all of one schema
    scratch   folder to which the tables are written, split by person

    Rows without an id are left out. There is at least one table.
    """
    files = [
        split_by_person(table, keys, scratch / f"split {number}.arrow")
        for number, table in enumerate(tables)
    ]
    yield from (read() for read in group_readers(files))
