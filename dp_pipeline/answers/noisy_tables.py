"""NoisyTables: the measured tables of a release, and what they say alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.config.errors import Damaged
from dp_pipeline.results.clusters import Columns, Tables


@dataclass(frozen=True)
class MeasuredTable:
    """A noisy contingency table of a release.

    attributes   in the order of its axes; none for the number of rows
    counts       noisy counts, of the table's shape
    variance     of the noise in one cell, in squared rows
    is_grouped   whether its axes are groups of levels, where the release has groups
    """

    attributes: Names
    counts: FloatArray
    variance: float
    is_grouped: bool

    def without_last_levels(
        self, names: Collection[str], groups: Mapping[str, IntArray]
    ) -> MeasuredTable:
        """Return the table without the last level of these attributes, where it is in no group of
        several.
        """
        merged = {
            name
            for name, labels in groups.items()
            if self.is_grouped and (labels == labels[-1]).sum() > 1
        }
        levels = tuple(
            slice(-1 if n in names and n not in merged else None) for n in self.attributes
        )
        return replace(self, counts=self.counts[levels])


class NoisyTables:
    """All measured tables of a release.

    tables   at least one; a last level may be left out of some, where no released row has it
    groups   attribute → group of each level, for tables over groups
    """

    def __init__(
        self,
        rows: ReleasedRows,
        tables: Sequence[MeasuredTable],
        groups: Mapping[str, IntArray],
    ) -> None:
        self._rows, self.tables, self._groups = rows, tuple(tables), groups

    @property
    def total(self) -> float:
        """The estimated number of true rows, averaged by precision; at least 1."""
        precisions = np.array([1 / (t.variance * t.counts.size) for t in self.tables])
        totals = np.array([float(t.counts.sum()) for t in self.tables])
        return float(max(1.0, precisions @ totals / precisions.sum()))

    def having(self, attributes: Names) -> list[MeasuredTable]:
        """Return the tables that contain all these attributes, by levels or groups of levels."""
        return [table for table in self.tables if set(attributes) <= set(table.attributes)]

    def groups_of(self, name: str) -> IntArray:
        """Return the group of each level of an attribute."""
        return self._groups.get(name, np.arange(self._rows.sizes[name]))

    def merged(self, attributes: Names) -> Names:
        """Return the attributes in which some group contains several levels."""
        sizes = self._rows.sizes
        return tuple(n for n in attributes if int(self.groups_of(n).max()) + 1 < sizes[n])

    def has_levels(self, attributes: Names) -> bool:
        """Return whether a table contains these attributes with all their levels."""
        tables = self.having(attributes)
        return any(not table.is_grouped for table in tables) or (
            bool(tables) and not self.merged(attributes)
        )

    def cells(self, table: MeasuredTable) -> IntArray:
        """Return the cell of a table that contains each released row: int (rows,)."""
        cells = np.zeros(len(self._rows), dtype=np.int64)
        for name, size in zip(table.attributes, table.counts.shape, strict=True):
            codes = self._rows.codes[name]
            if table.is_grouped and name in self._groups:
                codes = self._groups[name][codes]
            cells = cells * size + codes
        return cells

    def direct_sum(self, values: FloatArray, attributes: Names) -> tuple[float, float]:
        """Return a sum over rows, averaged over the tables that contain its attributes, and its
        variance.

        The average is by precision; the variance is infinite where no table separates these values.

        values       what each released row adds: float (rows,)
        attributes   on which the values depend
        """
        numerator, denominator, tables = 0.0, 0.0, self.having(attributes)
        if tables and not values.any():
            # No released row has any of it: what it may be is in the noise of a cell.
            return 0.0, min(table.variance for table in tables)
        for table in tables:
            cells = self.cells(table)
            means = self._rows.means_in(cells, table.counts.size, values)
            if table.is_grouped and self.merged(attributes) and not _is_same(means[cells], values):
                continue
            if not attributes:
                means = np.full(table.counts.size, float(means.max(initial=0.0)))
            variance = table.variance * float((means**2).sum())
            if variance > 0:
                numerator += float((means * table.counts.ravel()).sum()) / variance
                denominator += 1 / variance
        return (numerator / denominator, 1 / denominator) if denominator else (0.0, inf)

    def direct_counts(self, attributes: Names, cells: int) -> tuple[FloatArray, FloatArray]:
        """Return ``direct_sum`` of the rows in every cell: counts and variances, (cells,) each."""
        numerator, denominator = np.zeros(cells), np.zeros(cells)
        for table in self.having(attributes):
            axes = tuple(i for i, name in enumerate(table.attributes) if name not in attributes)
            order = [name for name in table.attributes if name in attributes]
            counts = table.counts.sum(axis=axes)
            counts = counts.transpose([order.index(name) for name in attributes])
            variance, is_single = table.variance * table.counts.size / counts.size, np.ones(cells)
            sizes = [
                int(self.groups_of(n).max()) + 1 if table.is_grouped else self._rows.sizes[n]
                for n in attributes
            ]
            every = np.zeros(sizes)
            every[tuple(map(slice, counts.shape))] = counts
            counts = every
            if table.is_grouped:
                groups = [self.groups_of(name) for name in attributes]
                counts = counts[np.ix_(*groups)]
                singles = [np.bincount(group)[group] == 1 for group in groups]
                is_single = np.all(np.meshgrid(*singles, indexing="ij"), axis=0).ravel()
            numerator += counts.ravel() / variance
            denominator += is_single / variance
        is_told = denominator > 0
        counts = np.divide(numerator, denominator, out=np.zeros(cells), where=is_told)
        return counts, np.divide(1, denominator, out=np.full(cells, inf), where=is_told)


def _is_same(values: FloatArray, expected: FloatArray) -> bool:
    return bool(
        np.allclose(values, expected, rtol=1e-9, atol=1e-12 * float(np.abs(expected).max()))
    )


def groups_of(tables: Tables, codes: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Return the group of each level, by attribute."""
    if "groups" not in tables:
        return {}
    names, groups = tables["groups"]["attribute"], tables["groups"]["group"]
    return {name: np.asarray(groups[names == name], np.int64) for name in codes if name in names}


def measured_tables(
    described: Columns,
    cells_of_all: Columns,
    sizes: Mapping[str, int],
    groups: Mapping[str, IntArray],
) -> list[MeasuredTable]:
    """Return the noisy tables, in the order of ``described``; Damaged for another number of
    them.

    Cells lie one table behind another."""
    counts, start, measured = cells_of_all["noisy_count"].astype(np.float64), 0, []
    for text, cells, deviation in zip(
        *(described[name].tolist() for name in ("marginal", "cells", "deviation")),
        strict=True,
    ):
        names = tuple(text.split(", ")) if text else ()
        # The pairs of successive parts are over an attribute, and the next one of the same name.
        axes = [name if name in sizes else name.removeprefix("next ") for name in names]
        is_grouped = len({*axes}) == len(axes) > 1
        shape = [
            int(groups[name].max()) + 1 if is_grouped and name in groups else sizes[name]
            for name in axes
        ]
        if prod(shape) != cells:
            raise Damaged(
                f"The noisy table of {text[:80]} must have {prod(shape)} cells, but the export "
                f"has {cells}: fetch the export again"
            )
        table = counts[start : start + cells].reshape(shape)
        measured.append(MeasuredTable(names, table, deviation**2, is_grouped))
        start += cells
    return measured


def dependence_of(tables: Tables) -> dict[Names, float]:
    """Return the likely distance from independence of each scored pair, in rows."""
    if "dependence" not in tables:
        return {}
    table = tables["dependence"]
    pairs = zip(table["first"].tolist(), table["second"].tolist(), strict=True)
    return dict(zip(pairs, table["rows"].tolist(), strict=True))
