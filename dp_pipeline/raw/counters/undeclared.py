"""The engine for queries about validated rows whose domain is still to be discovered.

*Distance.* First, each row that breaks the declaration of a fully declared attribute is dropped.
Of the rest, at most ``protection.rows`` of one person are used, chosen by her own rows alone
(``raw.contributions``). So one person more is at most so many rows more, and no other row changes;
if one person replaces another, twice as many rows differ: ``spec.distance``. Every query is a sum
over rows, or over persons, who are identified as in preparation. A row without a number or text of
the queried attribute is omitted from that query alone. After a discovery, preparation may drop more
rows and use other rows of a person: that is another sample with the same distance.

*Parts.* Each part of the rows has all rows of its persons, so the sums over parts add up. For more
rows than a batch, the parts are in an unnamed file, which no other process can open and which is
deleted with the counter; a query has one part in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import MISSING, Attribute, Domain
from dp_pipeline.config.encoding import Coordinate, IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.files import temporary_folder, write_atomically
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.texts import pack_texts
from dp_pipeline.raw.contributions import PersonKeys, keep_at_most, person_codes, tables_by_person
from dp_pipeline.raw.counters.checked import combined_fingerprint
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import check_ingested, ingested_batch_readers
from dp_pipeline.raw.prepare import rows_as_declared, rows_of_window
from dp_pipeline.raw.snapshot import Snapshot, require_validated
from dp_pipeline.raw.stages import BatchReader, write_row_groups
from dp_pipeline.raw.values import column_of, finite_numbers, level_words, valid_numbers

MAX_LEVEL_BYTES = 256  # Bytes of a discovered level, at most; a longer text is a note and no level
Parts = Callable[[], Iterator[pa.Table]]  # Yields the counted rows, all of a person in one table


class UndeclaredRows:
    """A counter of validated rows whose domain is still to be discovered.

    It is a ``gate.counter.UndeclaredDomainCounter``. Texts of more than MAX_LEVEL_BYTES, with
    control characters, or equal to the name of missing values are no levels.

    parts         function that yields the counted rows, all of a person in one table
    fingerprint   of the stored table and of when it was read from the source; empty without

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
        """Return a counter of a table's rows that fit the declaration, bounded by person.

        table   the declared columns of the source, as ``read_source`` gives them
        key     the population's secret key, by which the used rows of each person are chosen
        """
        rows = keep_at_most(
            _as_declared(spec, table),
            at_most=spec.protection.rows,
            keys=PersonKeys.of(spec.columns, spec.protection.column, key),
        )
        return cls(spec, lambda: iter([rows]), fingerprint=fingerprint)

    @classmethod
    def empty(cls, spec: DatasetSpec) -> UndeclaredRows:
        """Return a counter of an empty table."""
        columns = {name: pa.array([], pa.string()) for name in spec.columns}
        return cls.of_table(spec, pa.table(columns), b"no rows")

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> UndeclaredRows:
        """Return a counter of the ingested rows of a validated snapshot, read once.

        NotPrepared unless the snapshot was validated under this declaration and not refused;
        Damaged if the stored table has changed.
        """
        with snapshot.locked():
            require_validated(spec, snapshot)
            fingerprint = combined_fingerprint(
                str(snapshot.manifest.get("read_at", "")), check_ingested(spec, snapshot)
            )
            with ingested_batch_readers(spec, snapshot) as batches:
                if len(batches) > 1:
                    keys = PersonKeys.of(spec.columns, spec.protection.column, snapshot.key)
                    # The file of the parts loses its name with this block.
                    with temporary_folder(snapshot.folder / "undeclared") as scratch:
                        tables = _tables_by_person(spec, keys, batches, scratch)
                        path = scratch / "kept.parquet"
                        write_atomically(path, partial(write_row_groups, tables, compression="lz4"))
                        file = pq.ParquetFile(pa.OSFile(str(path)))
                        parts = partial(map, file.read_row_group, range(file.num_row_groups))
                    return cls(spec, parts, fingerprint=fingerprint)
                table = rows_of_window(spec, batches[0]())
        return cls.of_table(spec, table, snapshot.key, fingerprint=fingerprint)

    def __repr__(self) -> str:
        return f"UndeclaredRows({self._spec.name})"

    def require_stored(self, rehearsed: object = None) -> None:
        """Do nothing, since the only stored table was checked when it was opened."""

    def magnitudes(self, attribute: str, edges: tuple[float, ...]) -> Sealed:
        open_attribute = self._open_attribute(attribute)
        counts = np.zeros(len(edges) - 1, dtype=np.int64)
        for table in self._parts():
            values = finite_numbers(open_attribute, column_of(open_attribute, table))
            # NaN, like a number past the edges, is in no bucket; the last edge is in the last one.
            counts += np.histogram(values, np.asarray(edges))[0]
        return Sealed(counts)

    def texts(self, attribute: str, weights: tuple[int, ...]) -> Sealed:
        open_attribute, sums = self._open_attribute(attribute), Counter[bytes]()
        column = self._spec.protection.column
        for table in self._parts():
            persons = np.arange(table.num_rows) if column is None else person_codes(table, column)
            sums.update(_weigh_texts(open_attribute, table, persons, weights))
        texts = tuple(sorted(sums))
        totals = np.array([sums[text] for text in texts], dtype=np.int64)
        return Sealed(np.concatenate([pack_texts(texts), totals]))

    def within(self, attribute: str, interval: Coordinate) -> MemoryCounter:
        # Numbers outside are clipped or left out, as declared.
        open_attribute = self._open_attribute(attribute)
        bounded = replace(open_attribute, coordinate=interval, cells=None, undeclared=None)
        arrays = [np.zeros(0, dtype=np.int32)]
        for table in self._parts():
            values = valid_numbers(bounded, column_of(open_attribute, table))
            arrays.append(interval.encode(values[~np.isnan(values)]).astype(np.int32))
        coordinates = np.concatenate(arrays)
        axis = Attribute(
            attribute, open_attribute.column, open_attribute.on_invalid, coordinate=interval
        )
        return MemoryCounter(
            Domain((axis,)), coordinates={attribute: coordinates}, codes={}, rows=len(coordinates)
        )

    def _open_attribute(self, name: str) -> Attribute:
        attribute = self._spec.domain[name]
        if attribute.undeclared is None:
            raise BoundaryViolation(f"The attribute {name} is declared, so it cannot be discovered")
        return attribute


def _as_declared(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    table = table.select(list(dict.fromkeys(spec.columns)))
    declared = tuple(attribute for attribute in spec.domain if attribute.undeclared is None)
    domain = Domain(declared, spec.domain.constraints)
    return table.filter(pa.array(rows_as_declared(domain, table)))


def _tables_by_person(
    spec: DatasetSpec, keys: PersonKeys | None, batches: Sequence[BatchReader], scratch: Path
) -> Iterator[pa.Table]:
    """Yield the rows that fit the declaration, bounded by person, all of a person in one table."""
    tables = (_as_declared(spec, rows_of_window(spec, read())) for read in batches)
    if keys is None:
        yield from tables
        return
    for table in tables_by_person(tables, keys, scratch):
        yield keep_at_most(table, at_most=spec.protection.rows, keys=keys)


def _weigh_texts(
    attribute: Attribute, table: pa.Table, persons: IntArray, weights: tuple[int, ...]
) -> dict[bytes, int]:
    places, words = level_words(attribute, column_of(attribute, table))
    reserved = {"", *({MISSING} if attribute.nullable else ())}
    levels = [_as_level(word, reserved) for word in words]
    texts = tuple(sorted({level for level in levels if level is not None}))
    codes = {text: code for code, text in enumerate(texts)}
    # The last entry is for missing values, whose place is −1.
    code_of_place = np.array([-1 if text is None else codes[text] for text in (*levels, None)])
    row_codes = code_of_place[places]
    is_counted = (row_codes >= 0) & (persons >= 0)
    # Fewer than 2^31 persons and texts, so a pair of them is an integer of 62 bits.
    radix = max(1, len(texts))
    pairs = np.unique(persons[is_counted] * radix + row_codes[is_counted])
    _, owners, text_counts = np.unique(pairs // radix, return_inverse=True, return_counts=True)
    # A person with m texts adds entry m − 1 of the weights to each of them, once.
    pair_weights = np.asarray(weights, dtype=np.int64)[text_counts[owners] - 1]
    sums = np.zeros(len(texts), dtype=np.int64)
    np.add.at(sums, pairs % radix, pair_weights)
    return dict(zip(texts, sums.tolist(), strict=True))


def _as_level(word: str | None, reserved: set[str]) -> bytes | None:
    """Return a text as UTF-8; None if it is missing, reserved, not printable or too long."""
    if word is None or word in reserved or not word.isprintable():
        return None
    text = word.encode("utf-8", "replace")
    return text if len(text) <= MAX_LEVEL_BYTES and text.decode() == word else None
