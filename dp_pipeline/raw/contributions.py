"""Contributions: keep at most a declared number of rows of every person.

Which rows stay is decided for each person by a keyed pseudo-random function of her own rows, so
no other person, no position, no file order and no batch can change it. The sample
of a neighbouring data set then differs in the rows of one person only, at most
``at_most`` of them: this is what every later sensitivity rests on.

Of many batches, each is dealt out into a file by a keyed digest of persons' ids; what lies in one
part in all files has all rows of its persons, and is bounded by itself.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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

_PURPOSE = b"contribution 2\0"
"""Keeps these digests apart from every other use of the population's key."""

_TEXT = pa.large_string()
_ROWS_A_PART = 1 << 16


def keep_at_most(table: pa.Table, *, column: str, at_most: int, key: bytes) -> pa.Table:
    """Of every person, the ``at_most`` rows with the smallest digests, in their old order.

    table     the attributes' columns, text or numbers, and the person's
    column    the person's column, text or whole numbers; spaces around a text id do not make
              another person
    at_most   rows that one person may keep, at least 1
    key       the population's secret key: who does not hold it cannot place a row in the sample

    A row is a message of whole words: the person, the other cells by their columns' names,
    and of what kind each cell is (``_Cells``). Its digest is SipHash-2-4 of that, under a key
    that is HMAC-SHA512 of the names under the population's. Of rows that are copies of each other
    all but the first have another digest each: SipHash of the digest and of how many copies
    come before. Which copy is which does not matter, for they are the same row.

    *Ties.* Two different rows of one person have one digest with probability 2^−64 a pair. Then
    they pass for copies, and their places in the table may decide which of them stays: how many
    stay does not change, and no other person's rows do, for digests are compared within a person.

    Rows without a person (null, empty or blank text) are dropped: they cannot be bounded.

    Raises DeclarationError for a column that is not there or is neither text nor
    numbers, a person's column of floating numbers or truth values, ``at_most`` below 1, or an
    empty key.

    >>> rides = pa.table({"x": [1, 2, 3, 4], "rider": ["a", "a", "a", None]})
    >>> keep_at_most(rides, column="rider", at_most=2, key=b"k" * 32).num_rows
    2
    """
    if column not in table.column_names:
        raise DeclarationError(f"person: expected a column {column!r}, got a table without it")
    if at_most < 1:
        raise DeclarationError(f"person {column!r}: expected at_most of at least 1, got {at_most}")
    return kept_at_most(table, at_most=at_most, keys=PersonKeys.of(table.column_names, column, key))


def kept_at_most(table: pa.Table, *, at_most: int, keys: PersonKeys) -> pa.Table:
    """What ``keep_at_most`` keeps, by who does not hold the population's key."""
    persons = _Persons.of(table, keys.column)
    kept = persons.codes >= 0
    sizes = np.bincount(persons.codes[kept], minlength=1)
    crowded = kept & (sizes[persons.codes] > at_most)
    if crowded.any():
        bounding = _Bounding(table, keys, persons)
        kept[bounding.surplus(np.flatnonzero(crowded), at_most)] = False
    return table.filter(pa.array(kept))


def person_codes(table: pa.Table, column: str) -> IntArray:
    """One number a person (n,), −1 for none. Numbers only group; their order means nothing."""
    return _Persons.of(table, column).codes.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Persons:
    """Who the rows are of.

    codes   one number a person (n,), −1 for none
    names   the id of every number: texts without the spaces around them, or whole numbers
    """

    codes: NDArray[np.int32]
    names: pa.Array

    @classmethod
    def of(cls, table: pa.Table, column: str) -> _Persons:
        """Never floating numbers: they are the same from 2^53 on where whole numbers are not."""
        cells = _plain(table.column(column))
        if cells.type not in WHOLE and cells.type != _TEXT and not pa.types.is_null(cells.type):
            raise DeclarationError(
                f"person {column!r}: expected text or whole numbers, got {type_word(cells.type)}: "
                "write the column as int64 or text"
            )
        if pa.types.is_null(cells.type):
            cells = cells.cast(_TEXT)
        coded = cells.dictionary_encode().combine_chunks()
        names, codes = coded.dictionary, _codes(coded.indices)
        if names.type != _TEXT:
            return cls(codes, names)
        trimmed = pc.utf8_trim_whitespace(names)
        again = pc.if_else(pc.equal(trimmed, ""), None, trimmed).dictionary_encode()
        # The last place is for rows without an id, whose number is −1.
        number = np.append(_codes(again.indices), np.int32(-1))
        return cls(number[codes], again.dictionary)


def _codes(indices: pa.Array) -> NDArray[np.int32]:
    """Places in a dictionary (n,), −1 for none."""
    return np.asarray(pc.fill_null(indices, -1))


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Cells without a dictionary, floating numbers as doubles, text as large text: one array of
    small text holds 2 GB of it.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type in REAL:
        column = column.cast(pa.float64())
    if column.type in TEXT:
        column = column.cast(_TEXT)
    return column


@dataclass(frozen=True)
class _Keys:
    """Keys of SipHash, each for one use, and for a table with these columns alone."""

    rows: bytes = field(repr=False)
    texts: bytes = field(repr=False)
    copies: bytes = field(repr=False)

    @classmethod
    def of(cls, names: list[str], key: bytes) -> _Keys:
        found = hmac.digest(key, _PURPOSE + json.dumps(names).encode(), "sha512")
        size = siphash.KEY_BYTES
        return cls(*(found[at : at + size] for at in range(0, 3 * size, size)))


@dataclass(frozen=True)
class PersonKeys:
    """What bounding the rows of persons needs to know: derived from the population's key for one
    table's columns, so that who bounds them need not hold that.

    column   the person's column
    others   the other columns, sorted: their order in a table means nothing
    persons  keys of ids alone
    rows     keys of whole rows
    """

    column: str
    others: tuple[str, ...]
    persons: _Keys
    rows: _Keys

    @classmethod
    def of(cls, names: Iterable[str], column: str, key: bytes) -> PersonKeys:
        """Those of a table with columns of these names; DeclarationError for an empty key."""
        if not key:
            raise DeclarationError(
                f"person {column!r}: expected the population's key, got an empty one"
            )
        others = tuple(sorted(name for name in names if name != column))
        return cls(column, others, _Keys.of([column], key), _Keys.of([column, *others], key))


@dataclass(frozen=True)
class _Bounding:
    """Which rows of persons with many are left out."""

    table: pa.Table
    keys: PersonKeys
    persons: _Persons

    def surplus(self, rows: IntArray, at_most: int) -> IntArray:
        """Of some row numbers, ascending, those that are not among the first of their person."""
        digests, owners = self._digests(rows), self.persons.codes[rows]
        order = _order(owners, digests)
        is_copy = _is_as_before(owners[order]) & _is_as_before(digests[order])
        if is_copy.any():
            again, before = order[is_copy], _before(is_copy)
            digests[again] = siphash.of_words([digests[again], before], self.keys.rows.copies)
            order = _order(owners, digests)
        owners = owners[order]
        surplus: IntArray = rows[order[at_most:][owners[at_most:] == owners[:-at_most]]]
        return surplus

    def _digests(self, rows: IntArray) -> Words:
        """The digest (len(rows),) of every one of some rows, as if it had no copy."""
        digests, keys = np.empty(len(rows), dtype=np.uint64), self.keys.rows
        people = _cells(self.keys.column, self.persons.names, keys.texts)
        done = 0
        for part, persons in self._parts(rows):
            cells = [people.take(persons)]
            cells += [_cells(name, part.column(name), keys.texts) for name in self.keys.others]
            here = slice(done, done + len(persons))
            digests[here] = siphash.of_words(_message(cells), keys.rows)
            done = here.stop
        return digests

    def _parts(self, rows: IntArray) -> Iterator[tuple[pa.Table, NDArray[np.int32]]]:
        """Some rows after the others, and whose they are."""
        for start in range(0, self.table.num_rows, _ROWS_A_PART):
            first, end = np.searchsorted(rows, (start, start + _ROWS_A_PART))
            here = rows[first:end]
            if len(here):
                part = self.table.slice(start, _ROWS_A_PART)
                if len(here) < part.num_rows:
                    part = part.take(pa.array(here - start))
                yield part, self.persons.codes[here]


def _order(owners: NDArray[np.int32], digests: Words) -> IntArray:
    """Row numbers in the order of person, then digest."""
    # One sort of both in one word is faster than two; what is cut off a digest rarely matters.
    bits = np.uint64(int(owners.max()).bit_length())
    both = owners.astype(np.uint64) << (np.uint64(64) - bits)
    both |= digests >> bits
    order = np.argsort(both, kind="stable")
    ties = np.flatnonzero(_is_as_before(both[order]))
    if np.array_equal(digests[order[ties]], digests[order[ties - 1]]):
        return order
    return np.asarray(np.lexsort((digests, owners)))


def _is_as_before(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each value (n,) is the one before it; n ≥ 1."""
    return np.append(False, values[1:] == values[:-1])


def _before(is_copy: NDArray[np.bool_]) -> Words:
    """How many copies of a row come before each that is one, itself not counted but the first."""
    places = np.flatnonzero(is_copy)
    starts = np.flatnonzero(np.append(True, np.diff(places) != 1))
    lengths = np.diff(starts, append=len(places))
    return (np.arange(1, len(places) + 1) - np.repeat(starts, lengths)).astype(np.uint64)


_MISSING, _WHOLE, _LARGE, _OTHER = range(4)
_KINDS_A_WORD = 32
_TOP = 2.0**63


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells as whole words: no two different numbers have the same, nor a missing one and another.

    words   (n,)
    kinds   (n,): missing, word 0; a whole number below 2^63 in size, its two's complement; one from
            2^63 to 2^64 − 1, itself; another number, the bits of its double, or a text, its hash
    """

    words: Words
    kinds: NDArray[np.uint8]

    def take(self, places: NDArray[np.int32]) -> _Cells:
        return _Cells(self.words[places], self.kinds[places])


def _message(cells: list[_Cells]) -> list[Words]:
    """The words of rows, a column a word: those of their cells, then their kinds, two bits each."""
    words = [one.words for one in cells]
    for first in range(0, len(cells), _KINDS_A_WORD):
        kinds = np.zeros(len(words[0]), dtype=np.uint64)
        for one in cells[first : first + _KINDS_A_WORD]:
            kinds <<= np.uint64(2)
            kinds |= one.kinds
        words.append(kinds)
    return words


def _cells(name: str, column: pa.ChunkedArray | pa.Array, key: bytes) -> _Cells:
    """The cells of some rows of one column."""
    cells = _plain(column)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if cells.type == _TEXT:
        return _text_cells(cells, key)
    if kind_of(cells.type) == "time":
        cells = cells.cast(pa.int32() if cells.type == pa.date32() else pa.int64())
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    if cells.type not in WHOLE and cells.type not in {pa.float64(), pa.null()}:
        raise DeclarationError(f"column {name!r}: expected text or numbers, got another type")
    is_there = np.asarray(cells.is_valid())
    if pa.types.is_null(cells.type):
        cells = cells.cast(pa.int64())
    values = np.asarray(pc.fill_null(cells, 0))
    found = _double_cells(values) if cells.type == pa.float64() else _whole_cells(values)
    # A missing one is filled with 0, whose word it keeps.
    return _Cells(found.words, np.where(is_there, found.kinds, np.uint8(_MISSING)))


def _text_cells(cells: pa.Array, key: bytes) -> _Cells:
    coded = cells.dictionary_encode()
    places = _codes(coded.indices)
    # The last place is for missing texts, whose number is −1.
    words = np.append(siphash.of_texts(coded.dictionary, key), np.uint64(0))
    kinds = np.where(places < 0, _MISSING, _OTHER).astype(np.uint8)
    return _Cells(words[places], kinds)


def _whole_cells(values: NDArray[np.integer]) -> _Cells:
    words = values.astype(np.uint64)
    kinds = np.full(len(words), _WHOLE, dtype=np.uint8)
    if values.dtype == np.uint64:
        kinds[words >= 1 << 63] = _LARGE
    return _Cells(words, kinds)


def _double_cells(values: NDArray[np.float64]) -> _Cells:
    """5.0 is the whole number 5: one missing number turns a file's integers into floats.

    Without this, adding a row with a gap would change the digests of all others. −0.0 is not 0, as
    whoever wrote it meant; all that are not a number are the same.
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
    return _Cells(words, kinds)


PARTS = 128
"""Groups of persons that are bounded one by one, where rows are in many batches."""

Parts = tuple[int, ...]
"""The parts that have rows in a file, ascending: as its batches are ordered."""


def person_parts(table: pa.Table, keys: PersonKeys) -> IntArray:
    """In which of PARTS the rows (n,) of a person go, −1 for nobody's: a keyed digest of the
    person's id, as ``keep_at_most`` compares persons.
    """
    persons, secret = _Persons.of(table, keys.column), keys.persons.rows
    words = siphash.of_words([_cells(keys.column, persons.names, secret).words], secret)
    # The last place is for rows without an id, whose number is −1.
    parts: IntArray = np.append((words % np.uint64(PARTS)).astype(np.int64), -1)[persons.codes]
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
