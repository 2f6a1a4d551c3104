"""The measured tables of a release, and sums that are read from them alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.config.errors import Damaged
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.synthetic_table import is_of_pairs, noisy_table_names


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

    def margin(self, attributes: Collection[str]) -> "MeasuredTable":
        """Return the table summed over all of its attributes but ``attributes``.

        The order of its axes stays; names that it does not have are ignored."""
        axes = tuple(i for i, name in enumerate(self.attributes) if name not in attributes)
        counts = self.counts.sum(axis=axes)
        names = tuple(name for name in self.attributes if name in attributes)
        variance = self.variance * self.counts.size / counts.size
        return replace(self, attributes=names, counts=np.asarray(counts), variance=variance)

    def without_last_levels(
        self, names: Collection[str], groups: Mapping[str, IntArray]
    ) -> "MeasuredTable":
        """Return the table without the last level of each of ``names``.

        A last level stays where the table counts it in one group with other levels.

        names    of attributes
        groups   attribute → group of each level
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

    rows     released rows
    tables   at least one; a last level may be missing from some, where no released row has it
    groups   attribute → group of each level, for tables over groups
    """

    def __init__(
        self, rows: ReleasedRows, tables: Sequence[MeasuredTable], groups: Mapping[str, IntArray]
    ) -> None:
        self._rows, self.tables, self._groups = rows, tuple(tables), groups

    @property
    def total(self) -> float:
        """The estimated number of true rows: table sums, averaged by precision; at least 1."""
        precisions = np.array([1 / (t.variance * t.counts.size) for t in self.tables])
        totals = np.array([float(t.counts.sum()) for t in self.tables])
        return float(max(1.0, precisions @ totals / precisions.sum()))

    def with_attributes(self, attributes: Names) -> list[MeasuredTable]:
        """Return the tables that contain all these attributes, by levels or groups of levels."""
        return [table for table in self.tables if set(attributes) <= set(table.attributes)]

    def groups_of(self, name: str) -> IntArray:
        """Return the group of each level of an attribute (levels,); its own without groups."""
        return self._groups.get(name, np.arange(self._rows.sizes[name]))

    def has_merged_levels(self, attributes: Names) -> bool:
        """Return whether some group of one of these attributes contains several levels."""
        sizes = self._rows.sizes
        return any(int(self.groups_of(name).max()) + 1 < sizes[name] for name in attributes)

    def has_levels(self, attributes: Names) -> bool:
        """Return whether a table contains these attributes with all their levels."""
        tables, is_merged = self.with_attributes(attributes), self.has_merged_levels(attributes)
        return any(not (table.is_grouped and is_merged) for table in tables)

    def cells(self, table: MeasuredTable) -> IntArray:
        """Return the position of each released row's cell in a flat table: int (rows,)."""
        cells = np.zeros(len(self._rows), dtype=np.int64)
        for name, size in zip(table.attributes, table.counts.shape, strict=True):
            codes = self._rows.codes[name]
            if table.is_grouped and name in self._groups:
                codes = self._groups[name][codes]
            cells = cells * size + codes
        return cells

    def direct_sum(self, values: FloatArray, attributes: Names) -> tuple[float, float]:
        """Return the sum of values over true rows that the noisy tables state, and its variance.

        values       what each released row adds: float (rows,)
        attributes   on which the values depend

        A table states the sum if values are equal in each of its cells. Tables are averaged by
        precision; without one the sum is 0 and the variance infinite. If all values are 0, the
        variance is the least of a cell."""
        numerator, denominator, tables = 0.0, 0.0, self.with_attributes(attributes)
        if tables and not values.any():
            # No released row counts, so the sum may be as large as the noise of one cell.
            return 0.0, min(table.variance for table in tables)
        is_merged, tolerance = (
            self.has_merged_levels(attributes),
            1e-12 * np.abs(values).max(initial=0.0),
        )
        for table in tables:
            # Cells of the margin, as more of the table's own have no released row and no value.
            margin = table.margin(attributes)
            cells = self.cells(margin)
            means = self._rows.means_in(cells, margin.counts.size, values)
            may_differ = table.is_grouped and is_merged
            if may_differ and not np.allclose(means[cells], values, rtol=1e-9, atol=tolerance):
                continue
            variance = margin.variance * float((means**2).sum())
            if variance > 0:
                numerator += float((means * margin.counts.ravel()).sum()) / variance
                denominator += 1 / variance
        return (numerator / denominator, 1 / denominator) if denominator else (0.0, inf)

    def direct_counts(self, attributes: Names, cells: int) -> tuple[FloatArray, FloatArray]:
        """Return the number of true rows in each cell that the noisy tables state, and variances:
        (cells,) each.

        attributes   axes of the table of cells
        cells        number of its cells

        Tables are averaged by precision; a cell that none states has 0 and infinite variance."""
        numerator, denominator = np.zeros(cells), np.zeros(cells)
        for table in self.with_attributes(attributes):
            margin = table.margin(attributes)
            counts = margin.counts.transpose([margin.attributes.index(n) for n in attributes])
            variance, is_single = margin.variance, np.ones(cells)
            sizes = [
                int(self.groups_of(n).max()) + 1 if table.is_grouped else self._rows.sizes[n]
                for n in attributes
            ]
            # A last level that the table leaves out counts 0.
            of_all_levels = np.zeros(sizes)
            of_all_levels[tuple(map(slice, counts.shape))] = counts
            counts = of_all_levels
            if table.is_grouped:
                groups = [self.groups_of(name) for name in attributes]
                counts = counts[np.ix_(*groups)]
                singles = [np.bincount(group)[group] == 1 for group in groups]
                is_single = np.all(np.meshgrid(*singles, indexing="ij"), axis=0).ravel()
            numerator += counts.ravel() / variance
            denominator += is_single / variance
        has_table = denominator > 0
        counts = np.divide(numerator, denominator, out=np.zeros(cells), where=has_table)
        return counts, np.divide(1, denominator, out=np.full(cells, inf), where=has_table)


def groups_of(tables: Tables, codes: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Return attribute → group of each level, (levels,); empty where a release has no groups."""
    if "groups" not in tables:
        return {}
    names, groups = tables["groups"]["attribute"], tables["groups"]["group"]
    return {name: np.asarray(groups[names == name], np.int64) for name in codes if name in names}


def measured_tables(
    tables: Tables, sizes: Mapping[str, int], groups: Mapping[str, IntArray]
) -> list[MeasuredTable]:
    """Return the noisy tables of a release, in the order in which it describes them.

    sizes    attribute → number of its levels
    groups   attribute → group of each level

    Damaged where a table has another number of cells than its attributes have."""
    described, cells_of_all = (tables[name] for name in noisy_table_names(tables))
    counts, start, measured = cells_of_all["noisy_count"].astype(np.float64), 0, []
    lines = [described[name].tolist() for name in ("marginal", "cells", "deviation")]
    for text, cells, deviation in zip(*lines, strict=True):
        names = tuple(text.split(", ")) if text else ()
        # The pairs of successive parts are over an attribute, and the next one of the same name.
        axes = [name if name in sizes else name.removeprefix("next ") for name in names]
        is_grouped = len(axes) > 1 and not is_of_pairs(names)
        shape = [
            int(groups[name].max()) + 1 if is_grouped and name in groups else sizes[name]
            for name in axes
        ]
        if prod(shape) != cells:
            raise Damaged(
                f"The noisy table of {text[:80] or 'all rows'} must have {prod(shape)} cells, but "
                f"the export has {cells}: fetch the export again"
            )
        table = counts[start : start + cells].reshape(shape)
        measured.append(MeasuredTable(names, table, deviation**2, is_grouped))
        start += cells
    return measured


def dependence_of(tables: Tables) -> dict[Names, float]:
    """Return (attribute, attribute) → likely L1 distance of the pair from independence, in rows,
    for pairs that were scored; {} if the release stores no scores."""
    if "dependence" not in tables:
        return {}
    table = tables["dependence"]
    pairs = zip(table["first"].tolist(), table["second"].tolist(), strict=True)
    return dict(zip(pairs, table["rows"].tolist(), strict=True))
