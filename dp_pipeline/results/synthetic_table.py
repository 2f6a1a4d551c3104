"""A synthetic table: rows drawn from a released model, as text levels and numbers inside bins."""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from math import prod

import numpy as np

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Attribute, Domain, Parts, Pieces
from dp_pipeline.config.encoding import Bins, FloatArray, IntArray, Names
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.results.clusters import (
    ROWS_A_BATCH,
    Batches,
    Columns,
    LongColumns,
    Tables,
    batches_of,
)
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyCounts, NoisyMarginal, is_over_groups


def decode_columns(
    codes: IntArray, attributes: tuple[str, ...], domain: Domain, rng: np.random.Generator
) -> Columns:
    """Return synthetic columns (rows,) in declared order, under their names in the source.

    codes        integers (rows, attributes), each 0..size−1 of its attribute
    attributes   names of the columns of ``codes``, in any order
    rng          draws the numbers: the same state gives the same columns

    A level becomes its text. A number is drawn inside its bin: float64, or int64 where the
    attribute has integers. A date is datetime64 in days, a time in seconds on the clock of its
    zone; both are texts where a format is declared. Each value has the code it came from, except in
    a bin without an integer, which gives the nearest one inside the bounds. A column with missing
    values is an object array with None, or has NaT. Attributes that share a source column get their
    own names. Columns of more rows than a batch are drawn again at each access.
    """
    columns = {
        name: _Decoding(attribute, codes[:, attributes.index(attribute.name)])
        for name, attribute in _source_columns(attributes, domain).items()
    }
    if len(codes) <= ROWS_A_BATCH:
        return {name: next(column.sample(rng)) for name, column in columns.items()}
    return LongColumns({name: column.repeatable(rng) for name, column in columns.items()})


def _source_columns(attributes: Names, domain: Domain) -> dict[str, Attribute]:
    """Return column of the source → attribute, in declared order."""
    declared = [domain[name] for name in domain.names if name in attributes]
    sources = [attribute.column for attribute in declared]
    names = [a.name if sources.count(a.column) > 1 else a.column for a in declared]
    if len(set(names)) < len(names):
        # The name of one attribute is the column of another.
        names = [attribute.name for attribute in declared]
    return dict(zip(names, declared, strict=True))


@dataclass(frozen=True, eq=False)
class _Decoding:
    attribute: Attribute
    codes: IntArray

    @cached_property
    def has_missing(self) -> bool:
        attribute = self.attribute
        return attribute.nullable and bool((self.codes == attribute.missing_code).any())

    def repeatable(self, rng: np.random.Generator) -> Batches:
        """Return a sampler that gives the same column at each call; advance ``rng`` past it."""
        start = copy.deepcopy(rng)
        if isinstance(self.attribute.cells, Bins):
            for _ in self.sample(rng):
                pass
        return lambda: self.sample(copy.deepcopy(start))

    def sample(self, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the decoded column in batches."""
        for start in range(0, max(1, len(self.codes)), ROWS_A_BATCH):
            codes = self.codes[start : start + ROWS_A_BATCH]
            yield _column(self.attribute, codes, rng, has_missing=self.has_missing)


def _column(
    attribute: Attribute, codes: IntArray, rng: np.random.Generator, *, has_missing: bool
) -> np.ndarray:
    if not has_missing:
        return _values(attribute, codes, rng)
    missing = codes == attribute.missing_code
    # A missing value gets a number as well: every row takes one draw.
    values = _values(attribute, np.where(missing, 0, codes), rng)
    if values.dtype.kind == "M":
        values[missing] = np.datetime64("NaT")
        return values
    objects = values.astype(object)
    objects[missing] = None
    return objects


def _values(attribute: Attribute, codes: IntArray, rng: np.random.Generator) -> np.ndarray:
    if isinstance(attribute.cells, Bins):
        sample = _sample_integers if attribute.is_integer or attribute.clock else _sample_numbers
        values = sample(attribute.cells, codes, rng, attribute.pieces)
        if attribute.decimals is not None and values.dtype.kind == "f":
            # The nearest number comes last, so that it wins where it is in the bin.
            step, unrounded = 10.0**-attribute.decimals, np.asarray(values, dtype=np.float64)
            for distance in (-step, step, 0.0):
                numbers = np.round(unrounded, attribute.decimals) + distance
                numbers = np.round(numbers, attribute.decimals)
                values = np.where(attribute.cells.encode(numbers) == codes, numbers, values)
        return values if attribute.clock is None else attribute.clock.release_values(values)
    return np.array(attribute.labels(), dtype=np.str_)[codes]


def _sample_numbers(
    bins: Bins, codes: IntArray, rng: np.random.Generator, pieces: Pieces = ()
) -> FloatArray:
    """Return a number (n,) in [edge, next edge) of each code; the last bin has both edges.

    pieces   parts of the bins, in which numbers are as frequent as their rows; uniform without any
    """
    edges = np.asarray(bins.edges)
    low, high = edges[:-1], edges[1:]
    last = np.append(np.nextafter(high[:-1], -np.inf), high[-1])
    share = rng.random(len(codes))
    values = low[codes] + share * (high - low)[codes]
    if pieces:
        # The quantile of the share among the rows of the bin; uniform where a bin has no rows.
        starts, rows = np.array(pieces).T
        places = np.append(starts, edges[-1])
        cumulative = np.concatenate([[0.0], np.cumsum(rows)])
        at_edges = np.interp(edges, places, cumulative)
        first, bin_rows = at_edges[:-1][codes], np.diff(at_edges)[codes]
        inside = np.interp(first + share * bin_rows, cumulative, places)
        values = np.where(bin_rows > 0, np.clip(inside, low[codes], high[codes]), values)
    return np.asarray(np.minimum(values, last[codes]))


def _sample_integers(
    bins: Bins, codes: IntArray, rng: np.random.Generator, pieces: Pieces = ()
) -> IntArray:
    """Return a random integer in [edge, next edge) of each code; the last bin has both edges.

    A bin without an integer gives the nearest one inside the bounds. ``pieces`` are those of
    ``_sample_numbers``."""
    edges = np.asarray(bins.edges)
    low, high = edges[:-1], edges[1:]
    ends = np.ceil(low), np.append(np.ceil(high[:-1]) - 1, np.floor(high[-1]))
    # A bin without an integer has the nearest one inside the bounds.
    nearest = np.clip(np.rint((low + high) / 2), np.ceil(edges[0]), np.floor(edges[-1]))
    first, last = (np.where(ends[0] > ends[1], nearest, end).astype(np.int64) for end in ends)
    if pieces:
        values = np.floor(_sample_numbers(bins, codes, rng, pieces)).astype(np.int64)
        return np.clip(values, first[codes], last[codes])
    return rng.integers(first[codes], last[codes], endpoint=True, dtype=np.int64)


def _join_columns(*tables: Columns) -> Columns:
    if not any(isinstance(table, LongColumns) for table in tables):
        return {name: values for table in tables for name, values in table.items()}
    return LongColumns(
        {name: partial(batches_of, table, name) for table in tables for name in table}
    )


def noisy_table_names(tables: Collection[str]) -> tuple[str, str]:
    """Return the names of two stored tables: that of all noisy tables, and that of their cells.

    tables   names of all stored tables of a release
    """
    return ("weighted", "weighted_cells") if "units" in tables else ("measured", "cells")


def described_tables(tables: Tables) -> list[tuple[Names, int, float]]:
    """Return (attributes, number of cells, deviation of a cell's noise) of stored noisy tables."""
    described = tables[noisy_table_names(tables)[0]]
    texts, *numbers = (described[name].tolist() for name in ("marginal", "cells", "deviation"))
    names = [tuple(text.split(", ")) if text else () for text in texts]
    return list(zip(names, *numbers, strict=True))


def stored_groupings(tables: Tables) -> dict[str, Grouping]:
    """Return attribute → groups of its levels in tables of several; {} where none are stored."""
    if "groups" not in tables:
        return {}
    names, groups = tables["groups"]["attribute"], tables["groups"]["group"]
    return {
        name: Grouping(tuple(groups[names == name].tolist()))
        for name in dict.fromkeys(names.tolist())
    }


def flat_noisy_tables(tables: Tables) -> list[NoisyCounts]:
    """Return the noisy tables that a release stored, in their order, each with counts (cells,).

    DeclarationError for a release whose counts were too many to be stored."""
    described, of_cells = described_tables(tables), noisy_table_names(tables)[1]
    if of_cells not in tables:
        raise DeclarationError(
            "The release must store its noisy counts for an interval, but it has more than "
            f"{MOST_CELLS_SHOWN:,}, which are not stored: fit with a smaller `clique_cells`"
        )
    counts = tables[of_cells]["noisy_count"]
    ends = accumulate(cells for _, cells, _ in described)
    return [
        NoisyCounts(names, counts[end - cells : end], deviation, is_grouped=is_over_groups(names))
        for (names, cells, deviation), end in zip(described, ends, strict=True)
    ]


def read_noisy_tables(tables: Tables, sizes: Mapping[str, int]) -> list[NoisyCounts]:
    """Return the noisy tables that a release stored, in their order.

    sizes   attribute → number of its levels

    Damaged where a table has another number of cells than its attributes have."""
    groupings, shaped = stored_groupings(tables), []
    for flat in flat_noisy_tables(tables):
        # Pairs of successive parts are over an attribute, and the next one of the same name.
        axes = [name if name in sizes else name.removeprefix("next ") for name in flat.attributes]
        groups = groupings if flat.is_grouped else {}
        shape = [groups[name].size if name in groups else sizes.get(name, 0) for name in axes]
        if prod(shape) != flat.table.size:
            raise Damaged(
                f"The noisy table of {', '.join(flat.attributes)[:80] or 'all rows'} must have "
                f"{prod(shape)} cells, but the export has {flat.table.size}: fetch the export again"
            )
        shaped.append(replace(flat, table=flat.table.reshape(shape)))
    return shaped


MOST_CELLS_SHOWN = 200_000
"""Cells up to which the measured tables of a release are stored; else the transcript has them."""

UNIT, PART = "unit", "part"
"""The columns that are the key of a unit, and with it that of its part."""


def first_parts(sizes: IntArray) -> IntArray:
    """Return the index of the first row of each unit (units,), where rows are ordered by unit.

    sizes   number of parts of the unit of each row: int (rows,)

    >>> first_parts(np.array([2, 2, 1, 3, 3, 3])).tolist()
    [0, 2, 3]
    """
    firsts, row, steps = list[int](), 0, sizes.tolist()
    while row < len(steps):
        firsts.append(row)
        row += steps[row]
    return np.array(firsts, dtype=np.int64)


@dataclass(frozen=True)
class SyntheticTable:
    """The release of a table model: synthetic rows, and the noisy tables from which they come.

    attributes   in declared order
    codes        synthetic rows: integers (rows, attributes) of any type
    measured     the noisy tables that were paid for
    cliques      attributes of the model graph's nodes
    links        (parent, child) positions in ``cliques`` of nodes that share attributes
    domain       declared attributes, for levels and bins
    seed         of the numbers inside the bins
    groupings    attribute → groups of its levels in measured tables of several attributes
    dependence   scored pair of attributes → its likely L1 distance from independence, in rows
    weighted     the noisy tables that were paid for, where units have parts: each unit counts
                 ``UNIT_WEIGHT``; tables that name an attribute twice are of pairs of parts

    >>> from dp_pipeline.config.domain import Attribute
    >>> from dp_pipeline.config.encoding import Levels
    >>> domain = Domain((Attribute("sex", "sex", "drop", cells=Levels(("f", "m"))),))
    >>> codes = np.array([[0], [1], [1], [1]])
    >>> table = SyntheticTable(("sex",), codes, (), (("sex",),), (), domain, seed=1)
    >>> table.probabilities(("sex",)).tolist(), table.tables()["synthetic"]["sex"].tolist()
    ([0.25, 0.75], ['f', 'm', 'm', 'm'])
    """

    attributes: Names
    codes: IntArray
    measured: tuple[NoisyMarginal, ...]
    cliques: tuple[Names, ...]
    links: tuple[tuple[int, int], ...]
    domain: Domain
    seed: int
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    dependence: Mapping[tuple[str, str], float] = field(default_factory=dict)
    weighted: tuple[NoisyMarginal, ...] = ()

    @property
    def noisy_counts(self) -> tuple[NoisyCounts, ...]:
        """The noisy tables that were paid for, in rows, or in units where they have parts."""
        if self.domain.parts is None:
            return tuple(map(NoisyCounts.of, self.measured))
        return tuple(
            replace(
                NoisyCounts.of(_with_next(noisy, self.domain.parts)),
                table=noisy.table / UNIT_WEIGHT,
                deviation=noisy.variance**0.5 / UNIT_WEIGHT,
            )
            for noisy in self.weighted
        )

    def counts(self, attributes: Names) -> IntArray:
        """Return the number of synthetic rows in every cell over some attributes, one axis each.

        Of attributes of units alone it is the number of units; of others that of parts, so a unit
        without parts is in no cell.
        """
        shape, parts = self.domain.shape(attributes), self.domain.parts
        is_counted = np.ones(len(self.codes), dtype=np.bool_)
        if parts is not None and {*parts.attributes}.isdisjoint(attributes):
            is_counted[:] = False
            is_counted[first_parts(parts.row_counts(self._column[SIZE]))] = True
        elif parts is not None and not parts.fewest:
            is_counted = np.asarray(self._column[SIZE] > 0)
        counts = np.zeros(int(np.prod(shape, dtype=np.int64)), dtype=np.int64)
        # In parts: keys are eight times as large as codes.
        for start in range(0, len(self.codes), ROWS_A_BATCH):
            batch = slice(start, start + ROWS_A_BATCH)
            is_row = is_counted[batch]
            keys = np.zeros(int(is_row.sum()), dtype=np.int64)
            for name, size in zip(attributes, shape, strict=True):
                keys = keys * size + self._column[name][batch][is_row]
            counts += np.bincount(keys, minlength=counts.size)
        return counts.reshape(shape)

    def probabilities(self, attributes: Names) -> FloatArray:
        """Return the share of synthetic rows in each cell over attributes; uniform without rows."""
        counts = self.counts(attributes)
        rows = counts.sum()
        return counts / rows if rows else np.full(counts.shape, 1 / counts.size)

    @cached_property
    def _column(self) -> dict[str, IntArray]:
        return dict(zip(self.attributes, np.ascontiguousarray(self.codes.T), strict=True))

    def tables(self) -> Tables:
        """Return the tables to store, by name.

        ``synthetic``: the source's columns; ``codes``: a column for each attribute; ``marginals``:
        a row for each level; ``cliques``, ``measured``: a row each; ``cells``: a row for each noisy
        count, if they are not too many; ``groups``: a row for each level, where levels were
        grouped; ``dependence``: a row for each scored pair of attributes. Where units have parts,
        ``units`` has a row for each unit, and ``weighted`` and ``weighted_cells`` stand for
        ``measured`` and ``cells``, with counts of units.
        """
        rng, parts = np.random.default_rng(self.seed), self.domain.parts
        if parts is None:
            rows = {"synthetic": decode_columns(self.codes, self.attributes, self.domain, rng)}
        else:
            rows = self._units_and_parts(parts, rng)
        return {**rows, "codes": dict(self._column), **self.tables_without_rows()}

    def clocks(self) -> dict[str, Clock]:
        """Return column → clock, for each column whose dates are texts in a declared format."""
        of_parts = self.domain.parts.attributes if self.domain.parts is not None else ()
        of_units = tuple(name for name in self.attributes if name not in (SIZE, *of_parts))
        return {
            column: attribute.clock
            for names in (of_units, of_parts)
            for column, attribute in _source_columns(names, self.domain).items()
            if attribute.clock is not None and attribute.clock.format
        }

    def tables_without_rows(self) -> dict[str, Columns]:
        """Return the tables to store, without those that list every synthetic row."""
        tables: dict[str, Columns] = {"marginals": self._marginals(), "cliques": self._cliques()}
        parts = self.domain.parts
        if parts is None:
            tables |= _noisy_tables(self.measured, "measured", "cells")
        else:
            weighted = [_with_next(marginal, parts) for marginal in self.weighted]
            tables |= _noisy_tables(weighted, "weighted", "weighted_cells", UNIT_WEIGHT)
        if self.groupings:
            levels = {name: self.domain[name].labels() for name in self.groupings}
            pairs = [(name, label) for name, labels in levels.items() for label in labels]
            groups = [grouping.group_of_level for grouping in self.groupings.values()]
            tables["groups"] = {
                "attribute": np.array([name for name, _ in pairs], dtype=np.str_),
                "level": np.array([label for _, label in pairs], dtype=np.str_),
                "group": np.concatenate(groups),
            }
        if self.dependence:
            first, second = zip(*self.dependence, strict=True)
            scores = np.array(list(self.dependence.values()), dtype=np.float64)
            tables["dependence"] = {
                "first": np.array(first, dtype=np.str_),
                "second": np.array(second, dtype=np.str_),
                "rows": scores if parts is None else scores / UNIT_WEIGHT,
            }
        return tables

    def _units_and_parts(self, parts: Parts, rng: np.random.Generator) -> dict[str, Columns]:
        """Return ``units``: a row for each; and ``synthetic``: each part with its unit's number."""
        sizes = self._column[SIZE].astype(np.int64) + parts.fewest
        firsts = first_parts(parts.row_counts(self._column[SIZE]))
        count = sizes[firsts]
        of_units = tuple(name for name in self.attributes if name not in (SIZE, *parts.attributes))
        codes = self.codes[firsts][:, [self.attributes.index(name) for name in of_units]]
        units = decode_columns(codes, of_units, self.domain, rng)
        of_parts = tuple(name for name in self.attributes if name in parts.attributes)
        codes = self.codes[sizes > 0][:, [self.attributes.index(name) for name in of_parts]]
        values = decode_columns(codes, of_parts, self.domain, rng)
        numbers = np.arange(1, len(firsts) + 1)
        keys = {
            UNIT: np.repeat(numbers, count),
            PART: np.flatnonzero(sizes > 0) - np.repeat(firsts, count) + 1,
        }
        return {
            "units": _join_columns({UNIT: numbers}, units, {SIZE: count}),
            "synthetic": _join_columns(keys, values),
        }

    def _marginals(self) -> dict[str, np.ndarray]:
        labels = [self.domain[name].labels() for name in self.attributes]
        sizes = [len(levels) for levels in labels]
        return {
            "attribute": np.repeat(np.array(self.attributes, np.str_), sizes),
            "level": np.array([label for levels in labels for label in levels], dtype=np.str_),
            "probability": np.concatenate(
                [self.probabilities((name,)) for name in self.attributes]
            ),
        }

    def _cliques(self) -> dict[str, np.ndarray]:
        parents = {child: parent for parent, child in self.links}
        parent = np.array([parents.get(i, -1) for i in range(len(self.cliques))], np.int64)
        separators = [
            [name for name in clique if i in parents and name in self.cliques[parents[i]]]
            for i, clique in enumerate(self.cliques)
        ]
        cells = [self.domain.cell_count(clique) for clique in self.cliques]
        return {
            "attributes": _comma_lists(self.cliques),
            "cells": np.array(cells, dtype=np.int64),
            "parent": parent,
            "separator": _comma_lists(separators),
        }


def _with_next(marginal: NoisyMarginal, parts: Parts) -> NoisyMarginal:
    """Return a table, its last attribute named ``next …`` if it is of pairs of successive parts."""
    *names, last = marginal.attributes or ("",)
    is_successive = bool(parts.order) and last in names
    return replace(marginal, attributes=(*names, f"next {last}")) if is_successive else marginal


def _noisy_tables(
    measured: Sequence[NoisyMarginal], name: str, of_cells: str, weight: int = 0
) -> dict[str, Columns]:
    """Return a table with a row for each measured table and, if not too long, one for each cell.

    name       of the first table
    of_cells   name of the second table
    weight     divisor of the counts; 0: they are integers, in rows
    """
    names = _comma_lists([marginal.attributes for marginal in measured])
    sizes = np.array([marginal.table.size for marginal in measured], dtype=np.int64)
    deviations = [marginal.variance**0.5 / (weight or 1) for marginal in measured]
    tables: dict[str, Columns] = {
        name: {"marginal": names, "cells": sizes, "deviation": np.array(deviations, np.float64)}
    }
    if sizes.sum() <= MOST_CELLS_SHOWN:
        empty = np.zeros(0, np.int64)
        counts = np.concatenate([empty, *(marginal.table.ravel() for marginal in measured)])
        tables[of_cells] = {
            "marginal": np.repeat(names, sizes),
            "cell": np.concatenate([empty, *map(np.arange, sizes)]).astype(np.int64),
            "noisy_count": counts / weight if weight else counts,
        }
    return tables


def _comma_lists(tables: Sequence[Sequence[str]]) -> np.ndarray:
    names = [", ".join(attributes) for attributes in tables]
    return np.array(names, dtype=np.str_) if names else np.zeros(0, dtype="<U1")
