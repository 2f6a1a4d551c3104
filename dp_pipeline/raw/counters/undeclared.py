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
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.texts import packed
from dp_pipeline.raw.contributions import keep_at_most, person_codes
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.counters.stream import combined_fingerprint
from dp_pipeline.raw.ingest import check_ingested, ingested_tables
from dp_pipeline.raw.prepare import kept_rows, of_window
from dp_pipeline.raw.snapshot import Snapshot, require_validated
from dp_pipeline.raw.values import column_of, finite_numbers, level_words, missing, valid_numbers
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.discovered import Undiscovered
from dp_pipeline.spec.domain import MISSING, Attribute, Domain
from dp_pipeline.spec.encoding import Coordinate, IntArray
from dp_pipeline.spec.errors import BoundaryViolation
from dp_pipeline.spec.formats import SAMPLE

LONGEST_TEXT = 256
"""Bytes of a level that may be discovered: a longer text is a note and no level."""


class UndeclaredRows:
    """Exact whole numbers about validated rows: ``UndeclaredCounter`` of ``gate.counter``.

    table         the declared columns of the source, as ``read_source`` gives them
    key           the population's secret key
    fingerprint   of the stored table, and of its reading; empty where there is none

    >>> from dp_pipeline.spec.discovery import find_spec
    >>> UndeclaredRows.empty(find_spec("trips"))
    UndeclaredRows(trips)
    """

    def __init__(
        self, spec: Undiscovered, table: pa.Table, key: bytes, *, fingerprint: str = ""
    ) -> None:
        table = table.select(list(dict.fromkeys(spec.columns)))
        declared = Domain(
            tuple(one for one in spec.domain if one.undeclared is None), spec.domain.constraints
        )
        table = table.filter(pa.array(kept_rows(declared, table)))
        person = spec.protection.column
        if person is not None:
            table = keep_at_most(table, column=person, at_most=spec.protection.rows, key=key)
        self._spec, self._table, self.fingerprint = spec, table, fingerprint

    @classmethod
    def empty(cls, spec: Undiscovered) -> UndeclaredRows:
        """The engine over no rows at all."""
        columns = {name: pa.array([], pa.string()) for name in spec.columns}
        return cls(spec, pa.table(columns), b"no rows")

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> UndeclaredRows:
        """The engine over a validated snapshot.

        NotPrepared unless the snapshot was validated as the file is declared now and not refused;
        Damaged when the stored table is not the one that was stored.
        """
        with snapshot.alone():
            require_validated(spec, snapshot)
            fingerprint = check_ingested(spec, snapshot)
            table = pa.concat_tables(ingested_tables(spec, snapshot))
            table = of_window(spec, table)
            reading = str(snapshot.manifest.get("read_at", ""))
        # An interrupted look does not go on over another sample of the persons' rows.
        rule = () if spec.protection.column is None else (f"sample {SAMPLE}",)
        print_ = combined_fingerprint(reading, fingerprint, *rule)
        return cls(spec, table, snapshot.key, fingerprint=print_)

    def __repr__(self) -> str:
        return f"UndeclaredRows({self._spec.name})"

    def kinds(self, attributes: tuple[str, ...]) -> Sealed:
        """Rows by what their values are, shape (3 · attributes,); see ``UndeclaredCounter``."""
        counts = []
        for name in attributes:
            one = self._open(name)
            column = column_of(one, self._table)
            values = finite_numbers(one, column)
            is_whole = values == np.rint(values)
            is_other = np.isnan(values) & ~missing(column, one.missing)
            counts += [is_whole.sum(), (~np.isnan(values) & ~is_whole).sum(), is_other.sum()]
        return Sealed(np.array(counts, dtype=np.int64))

    def magnitudes(self, attribute: str, edges: tuple[float, ...]) -> Sealed:
        """Rows of every bucket, shape (len(edges) − 1,); see ``UndeclaredCounter``."""
        one = self._open(attribute)
        values = finite_numbers(one, column_of(one, self._table))
        places = np.searchsorted(np.asarray(edges), values, side="right") - 1
        places = np.where(values == edges[-1], len(edges) - 2, places)
        # A number that is none is sorted behind the last edge, as one that is too large.
        inside = places[(places >= 0) & (places < len(edges) - 1)]
        return Sealed(np.bincount(inside, minlength=len(edges) - 1).astype(np.int64))

    def texts(self, attribute: str, weights: tuple[int, ...]) -> Sealed:
        """Texts and their weights; see ``UndeclaredCounter``.

        A text of more than LONGEST_TEXT bytes, one with control characters, and the name of
        missing values are never a level.
        """
        one = self._open(attribute)
        places, words = level_words(one, column_of(one, self._table))
        reserved = {"", *({MISSING} if one.nullable else ())}
        coded = [_level(word, reserved) for word in words]
        known = tuple(sorted({text for text in coded if text is not None}))
        codes = {text: code for code, text in enumerate(known)}
        # The last place is for missing values, whose place is −1.
        of_place = np.array([-1 if text is None else codes[text] for text in (*coded, None)])
        of_row = of_place[places]
        persons = self._persons()
        here = (of_row >= 0) & (persons >= 0)
        return Sealed(
            np.concatenate([packed(known), _sums(of_row[here], persons[here], len(known), weights)])
        )

    def within(self, attribute: str, interval: Coordinate) -> MemoryCounter:
        """Coordinates between bounds, as preparation makes them; see ``UndeclaredCounter``."""
        one = self._open(attribute)
        bounded = replace(one, coordinate=interval, cells=None, undeclared=None)
        values = valid_numbers(bounded, column_of(one, self._table))
        coordinates = interval.encode(values[~np.isnan(values)])
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

    def _persons(self) -> IntArray:
        """One number a person, a row (n,); −1 for nobody."""
        column = self._spec.protection.column
        if column is None:
            return np.arange(self._table.num_rows, dtype=np.int64)
        return person_codes(self._table, column)


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
