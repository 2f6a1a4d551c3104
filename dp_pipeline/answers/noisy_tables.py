"""The measured tables of a release, and sums that are read from them alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from dp_pipeline.answers.released_rows import ReleasedRows
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyCounts


def without_last_levels(
    table: NoisyCounts, names: Collection[str], groupings: Mapping[str, Grouping]
) -> NoisyCounts:
    """Return a noisy table without the last level of each of ``names``.

    A last level stays where the table counts it in one group with other levels.

    names       of attributes
    groupings   attribute → groups of its levels
    """
    merged = {
        name
        for name, grouping in groupings.items()
        if table.is_grouped and grouping.groups.count(grouping.groups[-1]) > 1
    }
    levels = tuple(slice(-1 if n in names and n not in merged else None) for n in table.attributes)
    return replace(table, table=table.table[levels])


class NoisyTables:
    """All measured tables of a release.

    rows        released rows
    tables      at least one; a last level may be missing from some, where no released row has it
    groupings   attribute → groups of its levels, for tables over groups
    """

    def __init__(
        self, rows: ReleasedRows, tables: Sequence[NoisyCounts], groupings: Mapping[str, Grouping]
    ) -> None:
        self._rows, self.tables, self._groupings = rows, tuple(tables), groupings

    @property
    def total(self) -> float:
        """The estimated number of true rows: table sums, averaged by precision; at least 1."""
        precisions = np.array([1 / (t.variance * t.table.size) for t in self.tables])
        totals = np.array([float(t.table.sum()) for t in self.tables])
        return float(max(1.0, precisions @ totals / precisions.sum()))

    def with_attributes(self, attributes: Names) -> list[NoisyCounts]:
        """Return the tables that contain all these attributes, by levels or groups of levels."""
        return [table for table in self.tables if set(attributes) <= set(table.attributes)]

    def groups_of(self, name: str) -> IntArray:
        """Return the group of each level of an attribute (levels,); its own without groups."""
        if name in self._groupings:
            return self._groupings[name].group_of_level
        return np.arange(self._rows.sizes[name])

    def has_merged_levels(self, attributes: Names) -> bool:
        """Return whether some group of one of these attributes contains several levels."""
        sizes = self._rows.sizes
        return any(int(self.groups_of(name).max()) + 1 < sizes[name] for name in attributes)

    def has_levels(self, attributes: Names) -> bool:
        """Return whether a table contains these attributes with all their levels."""
        tables, is_merged = self.with_attributes(attributes), self.has_merged_levels(attributes)
        return any(not (table.is_grouped and is_merged) for table in tables)

    def cells(self, table: NoisyCounts) -> IntArray:
        """Return the position of each released row's cell in a flat table: int (rows,)."""
        cells = np.zeros(len(self._rows), dtype=np.int64)
        for name, size in zip(table.attributes, table.table.shape, strict=True):
            codes = self._rows.codes[name]
            cells = cells * size + (self.groups_of(name)[codes] if table.is_grouped else codes)
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
            margin = table.summed(attributes)
            cells = self.cells(margin)
            means = self._rows.means_in(cells, margin.table.size, values)
            may_differ = table.is_grouped and is_merged
            if may_differ and not np.allclose(means[cells], values, rtol=1e-9, atol=tolerance):
                continue
            variance = margin.variance * float((means**2).sum())
            if variance > 0:
                numerator += float((means * margin.table.ravel()).sum()) / variance
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
            margin, is_single = table.summed(attributes), np.ones(cells)
            sizes = [
                int(self.groups_of(n).max()) + 1 if table.is_grouped else self._rows.sizes[n]
                for n in attributes
            ]
            # A last level that the table leaves out counts 0.
            counts = np.zeros(sizes)
            counts[tuple(map(slice, margin.table.shape))] = margin.table
            if table.is_grouped:
                groups = [self.groups_of(name) for name in attributes]
                counts = counts[np.ix_(*groups)]
                singles = [np.bincount(group)[group] == 1 for group in groups]
                is_single = np.all(np.meshgrid(*singles, indexing="ij"), axis=0).ravel()
            numerator += counts.ravel() / margin.variance
            denominator += is_single / margin.variance
        has_table = denominator > 0
        counts = np.divide(numerator, denominator, out=np.zeros(cells), where=has_table)
        return counts, np.divide(1, denominator, out=np.full(cells, inf), where=has_table)


def dependence_of(tables: Tables) -> dict[Names, float]:
    """Return (attribute, attribute) → likely L1 distance of the pair from independence, in rows,
    for pairs that were scored; {} if the release stores no scores."""
    if "dependence" not in tables:
        return {}
    table = tables["dependence"]
    pairs = zip(table["first"].tolist(), table["second"].tolist(), strict=True)
    return dict(zip(pairs, table["rows"].tolist(), strict=True))
