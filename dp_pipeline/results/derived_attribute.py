"""Attributes that are derived from others, groups of levels, and unbiased random rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import FloatArray, IntArray, Levels, code_type

MOST_DERIVED_CELLS = 1 << 17
"""Cells that an attribute is derived from, at most."""


@dataclass(frozen=True)
class DerivedAttribute:
    """An attribute whose levels are groups of the cells over other attributes.

    attributes   at least one, each with cells
    groups       of each cell, integers 0, 1, … without a gap; the last attribute changes fastest

    >>> either = DerivedAttribute(("coughs", "sneezes"), (0, 1, 1, 1))
    >>> either.size, either.as_attribute("is ill").labels()
    (2, ('group 0', 'group 1'))
    """

    attributes: tuple[str, ...]
    groups: tuple[int, ...]

    @property
    def size(self) -> int:
        return max(self.groups) + 1

    def as_attribute(self, name: str) -> Attribute:
        levels = Levels(tuple(f"group {group}" for group in range(self.size)))
        return Attribute(name, name, "drop", cells=levels)


GOLDEN = (math.sqrt(5) - 1) / 2
"""The step along which numbers mod 1 fill the unit interval most evenly."""


def rounded_counts(table: FloatArray, totals: IntArray, rng: np.random.Generator) -> IntArray:
    """Return random integer counts (g, m) with row sums ``totals``, on average as in ``table``.

    table    (g, m), cells ≥ 0; a row of zeros counts as the sum of all rows, or as equal cells
    totals   (g,) sums of the rows of the counts

    Systematic sampling (Madow, Annals of Mathematical Statistics 20, 1949): the expectations of
    a row are laid end to end and the points u, u + 1, u + 2, … counted, so every count is its
    expectation rounded up or down, and its mean over u is the expectation. The u of the rows are
    golden steps from one uniform number: each is uniform, and over many rows that hold few
    points each, the sums over rows are near their expectations too.

    >>> half = np.array([[1.0, 1.0], [0.0, 3.0]])
    >>> rounded_counts(half, np.array([4, 5]), np.random.default_rng(0)).tolist()
    [[2, 2], [0, 5]]
    """
    pooled = table.sum(axis=0) if table.any() else np.ones(table.shape[1])
    cumulative = np.cumsum(np.where(table.any(axis=1, keepdims=True), table, pooled), axis=1)
    # Only rows that hold points advance the golden steps.
    starts = (rng.random() + GOLDEN * np.cumsum(totals > 0)) % 1
    # Divided by the row's own last sum, so that cells of 0 at its end get no count.
    expected = cumulative / cumulative[:, -1:] * totals[:, None]
    ticks = np.floor(expected + starts[:, None]).astype(np.int64)
    ticks = np.minimum(ticks, totals[:, None])
    ticks[:, -1] = totals
    return np.asarray(np.diff(ticks, axis=1, prepend=0))


def sample_cells(
    table: FloatArray, groups: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Give each row a cell, in random order; return the cells and the indices of their rows,
    ordered by group, both (rows,).

    The cells of a group get its rows in proportion to their frequencies, rounded without bias
    (``rounded_counts``), so draws are not independent.

    table    frequencies of the cells in each group: (groups, cells); a group of zeros has those of
             all groups together
    groups   group of each row: (rows,)
    """
    order = shuffled_rows(len(groups), rng)
    counts = rounded_counts(table, count_group_rows(groups, len(table)), rng)
    return deal_cells(counts, groups, order)


def shuffled_rows(rows: int, rng: np.random.Generator) -> IntArray:
    """Return the indices of ``rows`` rows in random order, in the smallest integer type."""
    return rng.permutation(np.arange(rows, dtype=np.min_scalar_type(-rows - 1)))


_ROWS_AT_ONCE = 1 << 20


def count_group_rows(groups: IntArray, group_count: int) -> IntArray:
    """Return the number of rows in every group (group_count,)."""
    rows = np.zeros(group_count, dtype=np.int64)
    # In parts: bincount makes a copy of 64 bits.
    for start in range(0, len(groups), _ROWS_AT_ONCE):
        rows += np.bincount(groups[start : start + _ROWS_AT_ONCE], minlength=group_count)
    return rows


def deal_cells(counts: IntArray, groups: IntArray, order: IntArray) -> tuple[IntArray, IntArray]:
    """Deal cells to rows; return the cells and the indices of their rows, both (rows,).

    counts   how many rows of a group get each cell: (groups, cells)
    groups   group of each row: (rows,)
    order    indices of the rows in the random order in which they get cells
    """
    group_count, size = counts.shape
    every_cell = np.tile(np.arange(size, dtype=code_type([size])), group_count)
    cells = np.repeat(every_cell, counts.ravel())
    # Random inside its group: cells depend on nothing else that the rows already have.
    shuffled = groups.astype(np.min_scalar_type(group_count - 1), copy=False)[order]
    return cells, order[np.argsort(shuffled, kind="stable")]


@dataclass(frozen=True)
class Grouping:
    """A mapping of levels to groups 0, 1, …, ascending and without a gap.

    >>> Grouping.by_share(np.array([0.5, 0.01, 0.015, 0.475]), least=0.02).groups
    (0, 1, 1, 2)
    """

    groups: tuple[int, ...]

    @classmethod
    def by_share(
        cls, shares: FloatArray, *, least: float, kinds: IntArray | None = None
    ) -> Grouping:
        """Return the grouping that merges runs of neighbouring levels of shares below ``least``.

        A group takes the next such level until its share is ``least``. The last of a run may stay
        below it, as does a single small level between larger ones.

        shares   share of every level: (levels,)
        kinds    kind of every level, where only levels of one kind may be merged
        """
        groups, group_share, group = [], 0.0, 0
        for level, share in enumerate(shares.tolist()):
            is_other = kinds is not None and level > 0 and kinds[level] != kinds[level - 1]
            if level and (group_share >= least or share >= least or is_other):
                group, group_share = group + 1, 0.0
            groups.append(group)
            group_share += share
        return cls(tuple(groups))

    @property
    def size(self) -> int:
        return self.groups[-1] + 1

    @cached_property
    def group_of_level(self) -> IntArray:
        return np.array(self.groups, dtype=np.int64)

    def summed(self, values: FloatArray | IntArray) -> FloatArray:
        """Return the sums of ``values`` (levels,) over the levels of each group: (groups,)."""
        sums = np.bincount(self.group_of_level, weights=values, minlength=self.size)
        return sums.astype(np.float64)

    def apply_to(self, attribute: Attribute) -> Attribute:
        """Return an attribute with ``group 0``, ``group 1``, … in place of its levels."""
        levels = Levels(tuple(f"group {group}" for group in range(self.size)))
        return Attribute(attribute.name, attribute.column, attribute.on_invalid, cells=levels)

    def expanded(self, codes: IntArray, shares: FloatArray, rng: np.random.Generator) -> IntArray:
        """Draw a level for each group in ``codes`` (rows,), in proportion to ``shares`` (levels,).

        Levels of a group without shares are drawn equally often."""
        table = np.zeros((self.size, len(self.groups)))
        table[self.group_of_level, np.arange(len(self.groups))] = shares
        empty = table.sum(axis=1) <= 0
        table[empty] = self.group_of_level == np.flatnonzero(empty)[:, None]
        cells, rows = sample_cells(table, codes, rng)
        levels = np.empty(len(codes), dtype=cells.dtype)
        levels[rows] = cells
        return levels
