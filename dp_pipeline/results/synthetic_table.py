"""SyntheticTable: rows drawn from a released model of a table, and what they were drawn from.

Codes → the columns of the source: levels as text, numbers drawn inside their bins.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dp_pipeline.config.domain import Attribute, Domain, Pieces
from dp_pipeline.config.encoding import Bins, FloatArray, IntArray, Names
from dp_pipeline.results.clusters import ROWS_A_BATCH, Batches, Columns, LongColumns, Tables
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal


def decode_columns(
    codes: IntArray, attributes: tuple[str, ...], domain: Domain, rng: np.random.Generator
) -> Columns:
    """Synthetic columns (rows,) in declared order, under their names in the source; of more rows
    than a batch has, each is made anew at every look.

    codes        whole numbers (rows, attributes), each 0..size−1 of its attribute
    attributes   names of the columns of ``codes``, in any order
    rng          draws the numbers: the same state gives the same columns

    A level is its text and a number is drawn uniformly inside its bin: float64, or
    int64 from the whole numbers of the bin where the attribute is ``whole``. A date is
    datetime64 in days, a time in seconds of a clock in its zone, or either a text where a format
    is declared. Each has the code it came from, but for a bin without a whole number: its values
    are the nearest one inside the bounds. A column with a missing value is an object array
    with None there, or has NaT; without one, or if not nullable, it has the plain type.
    Attributes that share a source column go by their own names.
    """
    declared = [name for name in domain.names if name in attributes]
    names = _column_names([domain[name] for name in declared])
    columns = {
        column: _Decoding(domain[name], codes[:, attributes.index(name)])
        for name, column in zip(declared, names, strict=True)
    }
    if len(codes) <= ROWS_A_BATCH:
        return {name: next(one.drawn(rng)) for name, one in columns.items()}
    return LongColumns({name: one.begun(rng) for name, one in columns.items()})


def _column_names(attributes: list[Attribute]) -> list[str]:
    """A name each: the source's, or the attribute's own where the source's is not its alone."""
    columns = [one.column for one in attributes]
    names = [one.name if columns.count(one.column) > 1 else one.column for one in attributes]
    # The name of one attribute may be the column of another.
    return names if len(set(names)) == len(names) else [one.name for one in attributes]


@dataclass(frozen=True, eq=False)
class _Decoding:
    """A column, and the codes that it is made of."""

    attribute: Attribute
    codes: IntArray

    @cached_property
    def misses(self) -> bool:
        """Whether a value is missing anywhere."""
        one = self.attribute
        return one.nullable and bool((self.codes == one.missing_code).any())

    def begun(self, rng: np.random.Generator) -> Batches:
        """The column from here on, as often as it is asked for; ``rng`` is led to its end."""
        start = copy.deepcopy(rng)
        if isinstance(self.attribute.cells, Bins):
            for _ in self.drawn(rng):
                pass
        return lambda: self.drawn(copy.deepcopy(start))

    def drawn(self, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """The column, some rows at a time."""
        for start in range(0, max(1, len(self.codes)), ROWS_A_BATCH):
            codes = self.codes[start : start + ROWS_A_BATCH]
            yield _column(self.attribute, codes, rng, misses=self.misses)


def _column(
    attribute: Attribute, codes: IntArray, rng: np.random.Generator, *, misses: bool
) -> np.ndarray:
    """Some rows of a column; an array of objects where ``misses`` says that any may need it."""
    if not misses:
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
        draw = _whole_numbers if attribute.is_integer or attribute.clock else _numbers
        drawn = draw(attribute.cells, codes, rng, attribute.pieces)
        return drawn if attribute.clock is None else attribute.clock.release_values(drawn)
    return np.array(attribute.labels(), dtype=np.str_)[codes]


def _numbers(
    bins: Bins, codes: IntArray, rng: np.random.Generator, pieces: Pieces = ()
) -> FloatArray:
    """Uniform in [edge, next edge), or as its pieces have rows: a sum that was rounded up to the
    next edge is taken back.
    """
    edges = np.asarray(bins.edges)
    low, high = edges[:-1], edges[1:]
    last = np.append(np.nextafter(high[:-1], -np.inf), high[-1])
    part = rng.random(len(codes))
    drawn = low[codes] + part * (high - low)[codes]
    if pieces:
        # The number below which that part of the rows of its bin are; even where a bin has none.
        starts, rows = np.array(pieces).T
        places, upto = np.append(starts, edges[-1]), np.concatenate([[0.0], np.cumsum(rows)])
        at_edges = np.interp(edges, places, upto)
        first, held = at_edges[:-1][codes], np.diff(at_edges)[codes]
        inside = np.clip(np.interp(first + part * held, upto, places), low[codes], high[codes])
        drawn = np.where(held > 0, inside, drawn)
    return np.asarray(np.minimum(drawn, last[codes]))


def _whole_numbers(
    bins: Bins, codes: IntArray, rng: np.random.Generator, pieces: Pieces = ()
) -> IntArray:
    """Uniform over the whole numbers of [edge, next edge), the last bin with its upper edge; or as
    its pieces have rows.
    """
    first, last = _whole_ends(bins)
    if pieces:
        drawn = np.floor(_numbers(bins, codes, rng, pieces)).astype(np.int64)
        return np.clip(drawn, first[codes], last[codes])
    return rng.integers(first[codes], last[codes], endpoint=True, dtype=np.int64)


def _whole_ends(bins: Bins) -> tuple[IntArray, IntArray]:
    """The first and last whole number of every bin; twice the nearest one where it has none."""
    edges = np.asarray(bins.edges)
    low, high = edges[:-1], edges[1:]
    first = np.ceil(low)
    last = np.ceil(high) - 1
    last[-1] = np.floor(high[-1])
    inside = np.clip(np.rint((low + high) / 2), np.ceil(edges[0]), np.floor(edges[-1]))
    is_empty = first > last
    first, last = np.where(is_empty, inside, first), np.where(is_empty, inside, last)
    return first.astype(np.int64), last.astype(np.int64)


MOST_CELLS_SHOWN = 200_000
"""Cells of measured tables that are stored one by one; larger tables are in the transcript."""


@dataclass(frozen=True)
class SyntheticTable:
    """What a model of a table releases.

    attributes   in declared order
    codes        whole numbers (rows, attributes), of any type: synthetic rows
    measured     the noisy tables that were paid for
    cliques      attributes of the model graph's nodes
    links        (parent, child) places in ``cliques``; the separator is what they share
    domain       declared attributes, for levels and bins
    seed         of the numbers inside the bins
    groupings    attribute → groups of its levels in measured tables of several attributes

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

    def counts(self, attributes: Names) -> IntArray:
        """Synthetic rows in every cell over ``attributes``, of their marginal's shape."""
        shape = self.domain.shape(attributes)
        counts = np.zeros(int(np.prod(shape, dtype=np.int64)), dtype=np.int64)
        # In parts: keys are eight times as large as codes.
        for start in range(0, len(self.codes), ROWS_A_BATCH):
            part = slice(start, start + ROWS_A_BATCH)
            keys = np.zeros(len(self.codes[part]), dtype=np.int64)
            for name, size in zip(attributes, shape, strict=True):
                keys = keys * size + self._column[name][part]
            counts += np.bincount(keys, minlength=counts.size)
        return counts.reshape(shape)

    def probabilities(self, attributes: Names) -> FloatArray:
        """The synthetic distribution over ``attributes``; uniform where there is no row."""
        counts = self.counts(attributes)
        rows = len(self.codes)
        return counts / rows if rows else np.full(counts.shape, 1 / counts.size)

    @cached_property
    def _column(self) -> dict[str, IntArray]:
        return dict(zip(self.attributes, np.ascontiguousarray(self.codes.T), strict=True))

    def tables(self) -> Tables:
        """``synthetic``, in the source's columns; ``codes``, one column an attribute;
        ``marginals``, one row a level; ``cliques`` and ``measured``, one row each; ``cells``,
        one row a noisy count, where they are not too many; ``groups``, one row a level, where
        levels were grouped.
        """
        rng = np.random.default_rng(self.seed)
        tables = {
            "synthetic": decode_columns(self.codes, self.attributes, self.domain, rng),
            "codes": dict(self._column),
            "marginals": self._marginals(),
            "cliques": self._cliques(),
            "measured": {
                "marginal": _text([one.attributes for one in self.measured]),
                "cells": np.array([one.table.size for one in self.measured], dtype=np.int64),
                "deviation": np.array(
                    [one.variance**0.5 for one in self.measured], dtype=np.float64
                ),
            },
        }
        cells = self._cells()
        if cells:
            tables["cells"] = cells
        if self.groupings:
            tables["groups"] = self._groups()
        return tables

    def _groups(self) -> dict[str, np.ndarray]:
        """The group of every level: cells of tables of several attributes are over groups."""
        levels = {name: self.domain[name].labels() for name in self.groupings}
        pairs = [(name, label) for name, labels in levels.items() for label in labels]
        return {
            "attribute": np.array([name for name, _ in pairs], dtype=np.str_),
            "level": np.array([label for _, label in pairs], dtype=np.str_),
            "group": np.concatenate([one.labels for one in self.groupings.values()]),
        }

    def _marginals(self) -> dict[str, np.ndarray]:
        labels = [self.domain[name].labels() for name in self.attributes]
        names = np.repeat(np.array(self.attributes, np.str_), [len(one) for one in labels])
        return {
            "attribute": names,
            "level": np.array([label for one in labels for label in one], dtype=np.str_),
            "probability": np.concatenate([self.probabilities((n,)) for n in self.attributes]),
        }

    def _cliques(self) -> dict[str, np.ndarray]:
        parents = {child: parent for parent, child in self.links}
        shared = [
            [name for name in clique if name in self.cliques[parents[at]]] if at in parents else []
            for at, clique in enumerate(self.cliques)
        ]
        return {
            "attributes": _text(self.cliques),
            "cells": np.array([self.domain.cell_count(c) for c in self.cliques], dtype=np.int64),
            "parent": np.array([parents.get(at, -1) for at in range(len(self.cliques))], np.int64),
            "separator": _text(shared),
        }

    def _cells(self) -> dict[str, np.ndarray] | None:
        """The noisy counts, cell by cell in the order of the tables; None where there are many."""
        if sum(one.table.size for one in self.measured) > MOST_CELLS_SHOWN:
            return None
        sizes = [one.table.size for one in self.measured]
        return {
            "marginal": np.repeat(_text([one.attributes for one in self.measured]), sizes),
            "cell": np.concatenate([np.arange(size) for size in sizes]).astype(np.int64)
            if sizes
            else np.zeros(0, np.int64),
            "noisy_count": np.concatenate([one.table.ravel() for one in self.measured])
            if sizes
            else np.zeros(0, np.int64),
        }


def _text(cliques: object) -> np.ndarray:
    names = [", ".join(clique) for clique in cliques]  # type: ignore[attr-defined]
    return np.array(names, dtype=np.str_) if names else np.zeros(0, dtype="<U1")
