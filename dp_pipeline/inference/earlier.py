"""Public knowledge that costs a release nothing: an earlier release of its model, or public rows.

An earlier tree says which boxes are worth a count, and earlier tables which of them to measure,
over which groups of levels. A current count y with variance v is combined with the earlier estimate
x with variance p by the drift q between them, which is estimated as q = max(0, mean (y − x)² − v −
p): x + (y − x)·(p + q)/(p + q + v) has the variance v·(p + q)/(p + q + v). Without drift that is
small; where q is large, the current count stays nearly as it is. Source: Kalman 1960, one step of a
random walk whose step is estimated by the method of moments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate, FloatArray, IntArray, Names
from dp_pipeline.config.errors import Damaged
from dp_pipeline.inference.consistency import project_to_simplex, spread
from dp_pipeline.results.clusters import Synopsis, Tables
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of
from dp_pipeline.results.synthetic_table import (
    noisy_table_names,
    read_noisy_tables,
    stored_groupings,
)
from dp_pipeline.results.trees import BitTree, Prefixes

FINER = 1.5
"""Factor on the counts of an earlier tree, for more leaves than a new tree would get: several
windows are seen through them (tried on 6 weeks of rides; 0.5 to 4)."""

UNSEEN_DRIFT = 1.0
"""Standard errors of drift that are assumed although noise hides it: without it, only .49 of the 95
% intervals hold for a count that fell by one deviation of its noise, and .93 with it."""


def combine_with_earlier(
    now: FloatArray, variance: float, before: FloatArray, earlier: float, *, doubt: float = 0.0
) -> tuple[FloatArray, float]:
    """Return current noisy numbers combined with earlier estimates of them, in their shape, and the
    variance of each combined number.

    now, before         noisy numbers, now and before, of one shape
    variance, earlier   noise variance of each number, now and before
    doubt               standard errors that are subtracted from the estimate of the drift, which
                        is the mean squared change of the true numbers

    >>> still, spread = combine_with_earlier(np.array([1.0, -1.0]), 1.0, np.zeros(2), 1.0)
    >>> still.tolist(), spread
    ([0.5, -0.5], 0.5)
    """
    # The square of Laplace noise has √5 times its own mean as deviation.
    unsure = doubt * variance * (5 / max(1, now.size)) ** 0.5
    drift = max(0.0, float(np.mean((now - before) ** 2)) - variance - earlier - unsure)
    part = (earlier + drift) / (earlier + drift + variance)
    return before + part * (now - before), part * variance


@dataclass(frozen=True)
class EarlierTree:
    """The numbers of rows in the leaves of an earlier tree, taken to be uniform in each leaf.

    tree     binary tree that has the leaves as nodes
    places   float (m + 1,) starts of the leaves and the end of the last one, counted in deepest
             nodes of the tree
    below    float (m + 1,) rows before each of these places
    """

    tree: BitTree
    places: FloatArray
    below: FloatArray

    @classmethod
    def of(cls, tree: BitTree, synopsis: Synopsis, box: Sequence[Coordinate]) -> EarlierTree:
        """Return the earlier tree whose leaves are the boxes of a released synopsis, where negative
        weights count as 0.

        tree   binary tree that has the boxes as nodes
        box    declared interval of each column
        """
        low = np.array([axis_bounds.lower for axis_bounds in box])
        width = np.array([axis_bounds.upper - axis_bounds.lower for axis_bounds in box])
        shares = (synopsis.upper - synopsis.lower) / width
        depths = np.rint(-np.log2(shares).sum(axis=1))
        # A corner may lie a digit below its place: half of the smallest box sets it right.
        rest = (synopsis.lower - low) / width + 2.0**-40
        first = np.zeros(len(rest))
        for axis in tree.axes:
            rest[:, axis] *= 2
            bit = np.floor(rest[:, axis])
            rest[:, axis] -= bit
            first = 2 * first + bit
        order = np.argsort(first)
        ends = (first + np.exp2(tree.depth - depths))[order]
        rows = np.maximum(0.0, synopsis.weights[order])
        below = np.concatenate([[0.0], np.cumsum(rows)])
        return cls(tree, np.append(first[order], ends[-1]), below)

    @property
    def rows(self) -> float:
        """The earlier release's noisy number of rows, as the sum of all leaves."""
        return float(self.below[-1])

    def mass(self, nodes: Prefixes) -> FloatArray:
        """Return the noisy rows that m nodes of the tree had in the earlier release (m,)."""
        size = np.exp2(self.tree.depth - nodes.depths.astype(np.float64))
        first = nodes.bits * size
        below = np.interp(first + size, self.places, self.below)
        return np.asarray(below - np.interp(first, self.places, self.below))

    def leaves(self, *, rate: float, caution: float) -> Prefixes:
        """Return disjoint nodes that cover the box, smaller where more rows were released.

        rate      ε of the new counts divided by the distance
        caution   factor on counts, in (0, 1], as in the growth of a new tree

        A node of z rows is a small grid that is best with about (1.5·z·caution·rate)^{2d/(2+d)}
        cells (Su et al. 2016, but for the factors): while that is two or more, it is halved, down
        to the depth of the tree.
        """
        d, live, found = len(self.tree.columns), Prefixes.root(), list[Prefixes]()
        while len(live):
            signal = self.mass(live) * rate * caution * FINER
            halvings = 2 * d / (2 + d) * np.log2(np.maximum(1.0, signal))
            goes_on = (halvings >= 1) & (live.depths < self.tree.depth)
            found.append(live.where(~goes_on))
            live = live.where(goes_on).children(1)
        return Prefixes.concatenate(found)


def nonnegative_with_sum(values: FloatArray) -> FloatArray:
    """Return the nearest numbers ≥ 0, in the same shape, whose sum is that of ``values``, or 1 if
    that is more."""
    return project_to_simplex(values, max(1.0, float(values.sum())))


@dataclass(frozen=True)
class StoredTables:
    """The noisy tables that a release stored.

    measured    all of them, the number of rows first
    groupings   attribute → groups of its levels in tables of several attributes
    """

    measured: tuple[NoisyMarginal, ...]
    groupings: Mapping[str, Grouping]

    @classmethod
    def of(cls, tables: Tables, domain: Domain) -> StoredTables | None:
        """Return the noisy tables that a release stored; None if it stored none, or if the domain
        now declares other attributes or numbers of levels."""
        if not {*noisy_table_names(tables)} <= {*tables}:
            return None
        groupings = stored_groupings(tables)
        sizes = {name: domain[name].size for name in domain.discrete}
        if any(len(each.groups) != sizes.get(name) for name, each in groupings.items()):
            return None
        try:
            counts = read_noisy_tables(tables, sizes)
        except Damaged:
            return None
        measured = (
            assume_gaussian_noise(each.attributes, each.table, each.variance) for each in counts
        )
        return cls(tuple(measured), groupings)

    def of_names(self, names: Names) -> NoisyMarginal | None:
        """Return the first table over exactly these attributes, in this order; None without one."""
        return next((table for table in self.measured if table.attributes == names), None)

    def combine_with(self, now: NoisyMarginal) -> NoisyMarginal:
        """Return a current table combined with the earlier one over the same attributes, rounded to
        integers; unchanged if there is none of its shape."""
        before = self.of_names(now.attributes)
        if before is None or before.table.shape != now.table.shape:
            return now
        values, variance = combine_with_earlier(
            now.table.astype(np.float64),
            now.variance,
            before.table.astype(np.float64),
            before.variance,
            doubt=-UNSEEN_DRIFT,
        )
        return assume_gaussian_noise(now.attributes, np.rint(values).astype(np.int64), variance)


def assume_gaussian_noise(names: Names, table: np.ndarray, variance: float) -> NoisyMarginal:
    """Return a table as a marginal whose noise counts as Gaussian; no noise is added to it."""
    return NoisyMarginal(names, table, Fraction(max(variance, 1e-9)), gaussian=True)


ROUNDS = 10
"""Rounds of proportional fitting, which suffice as margins differ little."""


@dataclass(frozen=True, eq=False)
class PublicTable:
    """A table of public rows, which may be counted exactly and cost no ε.

    codes       attribute → (rows,) codes, each below its size
    sizes       attribute → number of its levels
    groupings   attribute → groups of its levels in tables of several attributes
    """

    codes: Mapping[str, IntArray]
    sizes: Mapping[str, int]
    groupings: Mapping[str, Grouping] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of public rows."""
        return len(next(iter(self.codes.values()), ()))

    @property
    def digest(self) -> str:
        """The first 32 hexadecimal digits of a SHA-256 of all names and codes, in their order."""
        fingerprint = hashlib.sha256()
        for name, column in self.codes.items():
            fingerprint.update(f"{name} {len(column)} ".encode() + column.astype("<i8").tobytes())
        return fingerprint.hexdigest()[:32]

    def shares(self, names: Names) -> FloatArray:
        """Return the shares of the cells over some attributes, all above 0: of levels for one, of
        groups of levels for several."""
        groupings = self.groupings if len(names) > 1 else {}
        columns = tuple(
            groupings[name].group_of_level[self.codes[name]]
            if name in groupings
            else self.codes[name]
            for name in names
        )
        shape = [groupings[n].size if n in groupings else self.sizes[n] for n in names]
        cells = np.ravel_multi_index(columns, shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape, dtype=np.int64)))
        # Half a row a table: what nobody has is not impossible.
        likely = counts + 0.5 / len(counts)
        return np.asarray((likely / likely.sum()).reshape(shape))

    def shares_with_margins(self, names: Names, margins: Mapping[str, FloatArray]) -> FloatArray:
        """Return the shares of the cells over several attributes, with sum 1, fitted to these
        margins by iterative proportional fitting, which keeps the dependence of the public rows.

        margins   attribute → shares of its groups of levels, or of its levels if they have none
        """
        shares = self.shares(names)
        for _ in range(ROUNDS):
            for name in names:
                target = np.maximum(margins[name], 1e-12)
                now = np.maximum(marginal_of(shares, names, (name,)), 1e-12)
                shares = shares * spread(target / now, (name,), names)
        return np.asarray(shares / shares.sum())
