"""Rows of parts as rows of whole units, and back; and units joined to parts of another source.

A row of a unit depends on its own parts alone. All of them are given together, since persons are
bounded before. All rows of one key, of units and of parts, are one unit: what is made of them
depends on no other row, so neighbouring data sets differ by one unit after the join as before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import SIZE, Domain
from dp_pipeline.config.encoding import Codes, FloatArray, IntArray
from dp_pipeline.raw.contributions import PersonKeys, keep_at_most, person_codes, tables_by_person

OF_UNIT = "\0of unit"  # Column of whether a row is of the source of units, not of their parts
WITHOUT_PARTS = "\0without parts"  # Column of whether a joined row stands for a unit without parts


def units_of_parts(
    domain: Domain,
    codes: Codes,
    units: IntArray,
    order: FloatArray | None = None,
    is_empty: NDArray[np.bool_] | None = None,
) -> dict[str, tuple[IntArray, int]]:
    """Return one row for each unit, from rows of parts: column → (codes (units,), number of codes).

    codes     attribute → codes (n,) of each part and its unit, the size of its unit aside
    units     number of each part's unit (n,), in any order; at most ``at_most`` parts have one
    order     value of each part by which those of a unit are in order (n,), NaN last; None: a set
    is_empty  whether a row (n,) is no part, but stands for a unit without parts; None: no row is

    A unit with a part that breaks a constraint, or with two parts of which the declaration allows
    one, is left out. Parts with one value, and those of a set, are in the order of their codes, so
    the order of rows never matters. An attribute of the unit is missing where its parts have
    different values. One of parts has a column for each position, whose last code means no part.
    """
    parts = domain.parts
    assert parts is not None
    keys = [codes[name] for name in reversed(parts.attributes)]
    rows = np.lexsort([*keys, *([] if order is None else [order]), units])
    units = units[rows]
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    sizes = np.diff(starts, append=len(units))
    positions = np.arange(len(units)) - np.repeat(starts, sizes)
    columns: dict[str, tuple[IntArray, int]] = {}
    for attribute in domain:
        name, size = attribute.name, attribute.size
        if name == SIZE:
            counted = sizes if is_empty is None else sizes - is_empty[rows][starts]
            columns[name] = (counted.astype(np.int64) - parts.fewest, size)
        elif name not in parts.attributes:
            values = codes[name][rows].astype(np.int64)
            least, most = (
                ends.reduceat(values, starts) if len(starts) else values
                for ends in (np.minimum, np.maximum)
            )
            columns[name] = (np.where(least == most, least, attribute.missing_code), size)
    for position in range(parts.at_most):
        is_there = positions == position
        places = np.repeat(np.arange(len(starts)), sizes)[is_there]
        for name in parts.attributes:
            absent = domain[name].size
            column = np.full(len(starts), absent, dtype=np.int64)
            column[places] = codes[name][rows][is_there]
            columns[parts.name_in_unit(name, position)] = (column, absent + 1)
    is_kept = _keeps_constraints(domain, {name: column for name, (column, _) in columns.items()})
    for name, single in parts.single:
        have = np.isin(codes[name][rows], single).astype(np.int64)
        is_kept &= (np.add.reduceat(have, starts) if len(starts) else have) <= 1
    return {name: (column[is_kept], size) for name, (column, size) in columns.items()}


def _keeps_constraints(domain: Domain, units: Codes) -> NDArray[np.bool_]:
    is_kept = np.ones(len(units[SIZE]), dtype=np.bool_)
    if domain.constraints:
        parts = parts_of_units(domain, units)
        assert domain.parts is not None
        numbers = np.repeat(np.arange(len(is_kept)), domain.parts.row_counts(units[SIZE]))
        for cells in domain.allowed(domain.names):
            is_kept[numbers[~cells.holds(parts)]] = False
    return is_kept


def parts_of_units(domain: Domain, codes: Codes) -> dict[str, IntArray]:
    """Return attribute → codes (n,) of parts, from the codes of units by ``units_of_parts``.

    Attributes of a unit are repeated for each of its parts, which are in order. A unit without
    parts has one row too."""
    parts = domain.parts
    assert parts is not None
    sizes = parts.row_counts(codes[SIZE])
    units = np.repeat(np.arange(len(sizes)), sizes)
    positions = np.arange(len(units)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns = {}
    for name in domain.names:
        if name in parts.attributes:
            places = [codes[parts.name_in_unit(name, i)] for i in range(parts.at_most)]
            columns[name] = np.stack(places, axis=1)[units, positions].astype(np.int64)
        else:
            columns[name] = codes[name][units].astype(np.int64)
    return columns


@dataclass(frozen=True)
class PartsOfUnits:
    """Parts with the attributes of their units, and one row for each unit without parts.

    table     the declared columns, and ``WITHOUT_PARTS``
    orphans   number of parts left out, whose key no unit has, or which have none
    copies    number of rows of units left out, since another has their key, or since they have none
    """

    table: pa.Table
    orphans: int
    copies: int


def concatenate_sources(units: pa.Table, parts: pa.Table, key: str) -> pa.Table:
    """Return the rows of both sources in one table, with null in the columns of the other source.

    key   column of both; of two types in both, it becomes text
    """
    both = []
    is_alike = units.schema.field(key).type == parts.schema.field(key).type
    for table, is_of_unit in ((units, True), (parts, False)):
        ids = table.column(key) if is_alike else table.column(key).cast(pa.large_string())
        rows = table.append_column(OF_UNIT, pa.array(np.full(table.num_rows, is_of_unit)))
        both.append(rows.set_column(table.column_names.index(key), key, ids))
    return pa.concat_tables(both, promote_options="default")


def join_parts(rows: pa.Table, keys: PersonKeys) -> PartsOfUnits:
    """Return each part with the attributes of its unit, and units without parts.

    rows   of both sources, all of each key, as ``source_tables`` gives them
    keys   as ``unit_keys`` gives them; of rows of units with one id the first by digest is used

    No row raises an error. A key is compared as a whole number or as stripped text.
    """
    is_of_unit = rows.column(OF_UNIT)
    every_unit, parts = (
        rows.filter(mask).drop_columns([OF_UNIT]) for mask in (is_of_unit, pc.invert(is_of_unit))
    )
    units = keep_at_most(every_unit, at_most=1, keys=keys)
    key_column = pa.concat_tables([table.select([keys.column]) for table in (units, parts)])
    codes = person_codes(key_column, keys.column)
    of_units, of_parts = np.split(codes, [units.num_rows])
    places = np.full(int(codes.max(initial=-1)) + 2, -1, dtype=np.int64)
    places[of_units] = np.arange(units.num_rows)
    # The last entry is for parts without a key, whose code is −1.
    owners = places[of_parts]
    has_unit = owners >= 0
    members = parts.filter(pa.array(has_unit))
    for name in (keys.column, *keys.other_columns):
        cells = units.column(name).take(pa.array(owners[has_unit]))
        members = members.set_column(members.column_names.index(name), name, cells)
    is_alone = ~np.isin(np.arange(units.num_rows), owners)
    both = [(members, False), (units.filter(pa.array(is_alone)), True)]
    tables = [
        table.append_column(WITHOUT_PARTS, pa.array(np.full(table.num_rows, mark)))
        for table, mark in both
    ]
    orphans, copies = int((~has_unit).sum()), every_unit.num_rows - units.num_rows
    return PartsOfUnits(pa.concat_tables(tables), orphans, copies)


def join_batches(
    spec: DatasetSpec, tables: Iterable[pa.Table], key: bytes, scratch: Path
) -> Iterator[pa.Table]:
    """Yield the rows of ``join_parts`` in at least one table, with all parts of a unit in one.

    tables    of both sources, as ``source_tables`` gives them
    scratch   folder for rows that are split by key
    """
    keys = unit_keys(spec, key)
    for rows in tables_by_person(tables, keys, scratch):
        yield join_parts(rows, keys).table


def unit_keys(spec: DatasetSpec, key: bytes) -> PersonKeys:
    """Return the secret keys by whose digests one of several rows of a unit is chosen."""
    parts, person = spec.domain.parts, spec.protection.column
    assert parts is not None
    of_units = [each for each in spec.domain if each.name not in parts.attributes]
    keys = PersonKeys.of({column for each in of_units for column in each.inputs}, person, key)
    assert keys is not None
    return keys
