"""The engine for looks at validated rows whose domain is still to be discovered.

*Distance.* Rows that break what is declared of the attributes that leave nothing open go first,
each by itself, as preparation drops them. Of the rest, at most ``protection.rows`` of one person
are kept, chosen by her own rows alone (``raw.contributions``). So the rows of one person more are
at most so many rows more here, and no other row changes; where one person replaces another, twice
as many differ: ``spec.distance``. Every look below is a sum over rows, or over persons who are
known as preparation knows them, by whole numbers or texts. A row that has no number, or no text, of
the attribute that is looked at is left out by that look alone.

Preparation drops rows more, when what was discovered has been declared, and may keep other rows of
a person: that is another sample with the same distance, and no look here depends on it.

*Parts.* Each part of the rows has all rows of its persons, so what looks find in parts adds up. Of
more rows than a batch has, the parts lie in a file without a name, which nobody else can open and
which is gone with the counter; a look has one of them in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import MISSING, Attribute, Domain
from dp_pipeline.config.encoding import Coordinate, IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.files import temporary_folder, write_atomically
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.texts import packed
from dp_pipeline.raw.contributions import (
    PersonKeys,
    deal,
    kept_at_most,
    person_codes,
    rows_of_part,
)
from dp_pipeline.raw.counters.checked import combined_fingerprint
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import check_ingested, ingested_batches
from dp_pipeline.raw.prepare import kept_rows, of_window
from dp_pipeline.raw.snapshot import Snapshot, require_validated
from dp_pipeline.raw.stages import Read
from dp_pipeline.raw.values import column_of, finite_numbers, level_words, missing, valid_numbers

LONGEST_TEXT = 256
"""Bytes of a level that may be discovered: a longer text is a note and no level."""


Parts = Callable[[], Iterator[pa.Table]]
"""The rows that are looked at, at every look anew: one part or more, none of them whose persons
have rows in another one.
"""


class UndeclaredRows:
    """Exact whole numbers about validated rows: ``UndeclaredCounter`` of ``gate.counter``.

    parts         the rows that are looked at
    fingerprint   of the stored table, and of its reading; empty where there is none

    >>> from dp_pipeline.config.catalogue import find_spec
    >>> UndeclaredRows.empty(find_spec("trips"))
    UndeclaredRows(trips)
    """

    def __init__(self, spec: DatasetSpec, parts: Parts, *, fingerprint: str = "") -> None:
        self._spec, self._parts, self.fingerprint = spec, parts, fingerprint

    @classmethod
    def of_table(
        cls, spec: DatasetSpec, table: pa.Table, key: bytes, *, fingerprint: str = ""
    ) -> UndeclaredRows:
        """The engine over rows in memory.

        table   the declared columns of the source, as ``read_source`` gives them
        key     the population's secret key
        """
        kept = _bounded(spec, _as_declared(spec, table), _person_keys(spec, key))
        return cls(spec, lambda: iter([kept]), fingerprint=fingerprint)

    @classmethod
    def empty(cls, spec: DatasetSpec) -> UndeclaredRows:
        """The engine over no rows at all."""
        columns = {name: pa.array([], pa.string()) for name in spec.columns}
        return cls.of_table(spec, pa.table(columns), b"no rows")

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> UndeclaredRows:
        """The engine over a validated snapshot.

        NotPrepared unless the snapshot was validated as the file is declared now and not refused;
        Damaged when the stored table is not the one that was stored.
        """
        with snapshot.locked():
            require_validated(spec, snapshot)
            fingerprint = check_ingested(spec, snapshot)
            reading = str(snapshot.manifest.get("read_at", ""))
            print_ = combined_fingerprint(reading, fingerprint)
            with ingested_batches(spec, snapshot) as batches:
                if len(batches) > 1:
                    return cls(spec, _kept_parts(spec, batches, snapshot), fingerprint=print_)
                table = of_window(spec, batches[0]())
        return cls.of_table(spec, table, snapshot.key, fingerprint=print_)

    def __repr__(self) -> str:
        return f"UndeclaredRows({self._spec.name})"

    def require_stored(self, rehearsed: object = None) -> None:
        """Nothing is left to check: the one stored table was, when it was opened."""

    def kinds(self, attributes: tuple[str, ...]) -> Sealed:
        """Rows by what their values are, shape (3 · attributes,); see ``UndeclaredCounter``."""
        asked = [self._open(name) for name in attributes]
        counts = np.zeros(3 * len(asked), dtype=np.int64)
        for table in self._parts():
            counts += np.concatenate(
                [np.zeros(0, np.int64), *(_kinds(one, table) for one in asked)]
            )
        return Sealed(counts)

    def magnitudes(self, attribute: str, edges: tuple[float, ...]) -> Sealed:
        """Rows of every bucket, shape (len(edges) − 1,); see ``UndeclaredCounter``."""
        one = self._open(attribute)
        counts = np.zeros(len(edges) - 1, dtype=np.int64)
        for table in self._parts():
            values = finite_numbers(one, column_of(one, table))
            places = np.searchsorted(np.asarray(edges), values, side="right") - 1
            places = np.where(values == edges[-1], len(edges) - 2, places)
            # A number that is none is sorted behind the last edge, as one that is too large.
            inside = places[(places >= 0) & (places < len(edges) - 1)]
            counts += np.bincount(inside, minlength=len(edges) - 1)
        return Sealed(counts)

    def texts(self, attribute: str, weights: tuple[int, ...]) -> Sealed:
        """Texts and their weights; see ``UndeclaredCounter``.

        A text of more than LONGEST_TEXT bytes, one with control characters, and the name of
        missing values are never a level.
        """
        one, sums = self._open(attribute), Counter[bytes]()
        for table in self._parts():
            sums.update(_weights(one, table, self._persons(table), weights))
        known = tuple(sorted(sums))
        found = np.array([sums[text] for text in known], dtype=np.int64)
        return Sealed(np.concatenate([packed(known), found]))

    def within(self, attribute: str, interval: Coordinate) -> MemoryCounter:
        """Coordinates between bounds, as preparation makes them; see ``UndeclaredCounter``."""
        one = self._open(attribute)
        bounded = replace(one, coordinate=interval, cells=None, undeclared=None)
        found = [np.zeros(0, dtype=np.int32)]
        for table in self._parts():
            values = valid_numbers(bounded, column_of(one, table))
            found.append(interval.encode(values[~np.isnan(values)]).astype(np.int32))
        coordinates = np.concatenate(found)
        axis = Attribute(one.name, one.column, one.on_invalid, coordinate=interval)
        return MemoryCounter(
            Domain((axis,)), coordinates={one.name: coordinates}, codes={}, rows=len(coordinates)
        )

    def _open(self, name: str) -> Attribute:
        """An attribute that leaves something open: others are looked at when they are prepared."""
        attribute = self._spec.domain[name]
        if attribute.undeclared is None:
            raise BoundaryViolation(f"attribute {name}: expected one to be discovered, got another")
        return attribute

    def _persons(self, table: pa.Table) -> IntArray:
        """One number a person, a row of a part (n,); −1 for nobody."""
        column = self._spec.protection.column
        if column is None:
            return np.arange(table.num_rows, dtype=np.int64)
        return person_codes(table, column)


def _as_declared(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The rows that keep what is declared of the attributes that leave nothing open."""
    table = table.select(list(dict.fromkeys(spec.columns)))
    declared = tuple(one for one in spec.domain if one.undeclared is None)
    return table.filter(pa.array(kept_rows(Domain(declared, spec.domain.constraints), table)))


def _person_keys(spec: DatasetSpec, key: bytes) -> PersonKeys | None:
    person = spec.protection.column
    return None if person is None else PersonKeys.of(dict.fromkeys(spec.columns), person, key)


def _bounded(spec: DatasetSpec, table: pa.Table, keys: PersonKeys | None) -> pa.Table:
    """Of every person, the rows that are kept; all rows where they are not of persons."""
    return table if keys is None else kept_at_most(table, at_most=spec.protection.rows, keys=keys)


def _kept_parts(spec: DatasetSpec, batches: Sequence[Read], snapshot: Snapshot) -> Parts:
    """What is kept of many batches, in a file that has no name any more when this returns."""
    keys = _person_keys(spec, snapshot.key)
    with temporary_folder(snapshot.folder / "undeclared") as scratch:
        return _written(_kept_tables(spec, keys, batches, scratch), scratch / "kept.parquet")


def _kept_tables(
    spec: DatasetSpec, keys: PersonKeys | None, batches: Sequence[Read], scratch: Path
) -> Iterator[pa.Table]:
    """What is kept of many batches, in tables that have all rows of their persons.

    scratch   a private folder, for rows that are put together with others of the same persons
    """
    kept = (_as_declared(spec, of_window(spec, read())) for read in batches)
    if keys is None:
        yield from kept
        return
    first, dealt = None, []
    for number, table in enumerate(kept):
        first = table.slice(0, 0) if first is None else first
        path = scratch / f"dealt {number}.arrow"
        dealt.append((path, deal(table, keys, path)))
    # A file has a table, if of no row.
    yield _bounded(spec, first, keys)
    for part in dict.fromkeys(part for _, parts in dealt for part in parts):
        yield _bounded(spec, rows_of_part(dealt, part), keys)


def _written(tables: Iterator[pa.Table], path: Path) -> Parts:
    """The same tables from a file, a row group each; it is open, and may lose its name."""
    first = next(tables)

    def write(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, first.schema, compression="lz4") as writer:
            for table in chain([first], tables):
                writer.write_table(table, row_group_size=max(1, table.num_rows))

    write_atomically(path, write)
    file = pq.ParquetFile(pa.OSFile(str(path)))

    def parts() -> Iterator[pa.Table]:
        for at in range(file.num_row_groups):
            yield file.read_row_group(at)

    return parts


def _kinds(attribute: Attribute, table: pa.Table) -> IntArray:
    """Rows with a whole number, with another one, and with neither one nor a missing value (3,)."""
    column = column_of(attribute, table)
    values = finite_numbers(attribute, column)
    is_whole = values == np.rint(values)
    is_other = np.isnan(values) & ~missing(column, attribute.missing)
    counts = [is_whole.sum(), (~np.isnan(values) & ~is_whole).sum(), is_other.sum()]
    return np.array(counts, dtype=np.int64)


def _weights(
    attribute: Attribute, table: pa.Table, persons: IntArray, weights: tuple[int, ...]
) -> dict[bytes, int]:
    """Text → weights of all persons of a part who have it."""
    places, words = level_words(attribute, column_of(attribute, table))
    reserved = {"", *({MISSING} if attribute.nullable else ())}
    coded = [_level(word, reserved) for word in words]
    known = tuple(sorted({text for text in coded if text is not None}))
    codes = {text: code for code, text in enumerate(known)}
    # The last place is for missing values, whose place is −1.
    of_place = np.array([-1 if text is None else codes[text] for text in (*coded, None)])
    of_row = of_place[places]
    here = (of_row >= 0) & (persons >= 0)
    sums = _sums(of_row[here], persons[here], len(known), weights)
    return dict(zip(known, sums.tolist(), strict=True))


def _level(word: str | None, reserved: set[str]) -> bytes | None:
    """A text as bytes, None where it can be no level whatever the rows are."""
    if word is None or word in reserved or not word.isprintable():
        return None
    text = word.encode("utf-8", "replace")
    return text if len(text) <= LONGEST_TEXT and text.decode() == word else None


def _sums(codes: IntArray, persons: IntArray, texts: int, weights: tuple[int, ...]) -> IntArray:
    """Weights of all persons who have a text, a text (texts,): each person counts once."""
    # Fewer than 2^31 persons and texts, so a pair of them is a whole number of 62 bits.
    pairs = np.unique(persons * max(1, texts) + codes)
    _, owner, different = np.unique(pairs // max(1, texts), return_inverse=True, return_counts=True)
    of_pair = np.asarray(weights, dtype=np.int64)[different[owner] - 1]
    sums = np.zeros(texts, dtype=np.int64)
    np.add.at(sums, pairs % max(1, texts), of_pair)
    return sums
