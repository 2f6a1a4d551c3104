"""Rows drawn attribute by attribute, so that every pair of attributes fits its noisy table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names, code_type
from dp_pipeline.inference.clique_join import Conditional
from dp_pipeline.inference.consistency import (
    NoisyTable,
    agree_by_ripple,
    ratio,
    reconcile_tables,
    variance_of,
)
from dp_pipeline.inference.structural_zeros import NONE, StructuralZeros
from dp_pipeline.inference.tree_fit import ENTROPY
from dp_pipeline.inference.views import view_network
from dp_pipeline.results.derived_attribute import shuffled_rows
from dp_pipeline.results.measurement import marginal_of
from dp_pipeline.threads import one_thread

MOST_FAMILY_CELLS = 1024
"""Most cells of the table of an attribute and its parents: a limit of time."""

MOST_ROWS = 1 << 18
"""Most rows that are drawn together: a limit of memory."""

LEAST_ROWS = 1e-3
"""Numerical: rows that a family's cell without any is taken to have, so that pairs can fill it."""

LEAST_DOUBT = 1e-3
"""Numerical: least difference from a target sum for one nat of its log-potential, in rows."""


@dataclass(frozen=True, eq=False)
class PairedRows:
    """A distribution of rows that are drawn attribute by attribute, so that pairs fit their tables.

    sizes       levels of every attribute
    cells       attributes → cells ≥ 0 of a table, in rows, axes in the order of ``sizes``; no set
                of attributes is inside another one, and every attribute is in one
    variances   attributes → variance of a cell's noise as measured, in squared rows
    zeros       constraints

    Attributes come in the order of a Bayesian network, whose families are attributes with the few
    that they depend on most. Each is drawn given all before it, with the distribution that fits
    the tables of its pairs on the rows drawn so far, and is nearest in relative entropy to its
    family's. So a pair keeps its table however late it is drawn; larger sets of attributes are as
    families have them.

    Sources: the network, PrivBayes (TODS 2017); maximum entropy from a given start with relaxed
    constraints, Dudík, Phillips, Schapire, JMLR 2007; for one attribute given others that is a
    logistic regression whose moments are given.

    >>> from dp_pipeline.inference.consistency import TableEstimate
    >>> tall = TableEstimate(("a", "b"), np.array([[9.0, 0.0], [1.0, -2.0]]), 1.0)
    >>> wide = TableEstimate(("b", "c"), np.array([[6.0, 4.0], [-2.0, 0.0]]), 1.0)
    >>> paired = PairedRows.of([tall, wide], {"a": 2, "b": 2, "c": 2})
    >>> paired.one_way("b").round(2).tolist(), paired.pair("a", "c")
    ([8.0, 0.0], None)
    """

    sizes: Mapping[str, int]
    cells: Mapping[Names, FloatArray]
    variances: Mapping[Names, float]
    zeros: StructuralZeros = NONE

    @classmethod
    def of(
        cls, measured: Sequence[NoisyTable], sizes: Mapping[str, int], zeros: StructuralZeros = NONE
    ) -> PairedRows:
        """Return the distribution of rows whose pairs fit noisy tables of every attribute.

        The tables are fitted by least squares, weighted by noise, and then made ≥ 0 and nearly
        consistent by ``agree_by_ripple``. If that empties a table, every table gets equal cells of
        sum 1 instead.
        """
        _, tables = reconcile_tables(measured, sizes)
        variances = {names: variance_of(names, measured) for names in tables}
        deviation = sqrt(min(variances.values()))
        tables = agree_by_ripple(tables, deviation=deviation, variances=variances)
        if not all(table.any() for table in tables.values()):
            tables = {name: np.full(table.shape, 1 / table.size) for name, table in tables.items()}
        return cls(sizes, tables, variances, zeros)

    @property
    def rows(self) -> float:
        """The sum of the first table's cells, above 0; the others' sums are nearly equal."""
        return float(next(iter(self.cells.values())).sum())

    def one_way(self, name: str) -> FloatArray:
        """Return the rows in each level (levels,), from the first table that has the attribute."""
        names = next(names for names in self.cells if name in names)
        return marginal_of(self.cells[names], names, (name,))

    def pair(self, first: str, second: str) -> tuple[FloatArray, float] | None:
        """Return the counts over two attributes, axes in this order, and the variance of a cell;
        None if no table has both.

        The counts are the inverse-variance mean over all tables that have both."""
        total, precision = np.zeros(()), 0.0
        for names, table in self.cells.items():
            if first in names and second in names:
                cells = marginal_of(table, names, (first, second))
                weight = cells.size / (table.size * self.variances[names])
                total, precision = total + weight * cells, precision + weight
        return (total / precision, 1 / precision) if precision else None

    @property
    def pairs(self) -> dict[Names, FloatArray]:
        """Two attributes, in the order of ``sizes`` → their counts, for the pairs that a table
        has."""
        means = {pair: self.pair(*pair) for pair in combinations(self.sizes, 2)}
        return {pair: mean[0] for pair, mean in means.items() if mean is not None}

    @one_thread()
    def draw_codes(self, rows: int, rng: np.random.Generator) -> IntArray:
        """Return synthetic codes (rows, attributes): rows in random order, columns in the order of
        ``sizes``.

        They are drawn on one thread, so that every computer draws the same bytes."""
        codes = np.zeros((len(self.sizes), rows), dtype=code_type(self.sizes.values()))
        places = {name: index for index, name in enumerate(self.sizes)}
        for start in range(0, rows, MOST_ROWS):
            batch = codes[:, start : start + MOST_ROWS]
            drawn = _RowKinds((), np.zeros((1, 0), dtype=np.int64), np.array([batch.shape[1]]))
            for family in self._network:
                drawn = drawn.with_next(family.child, self._rows_of_levels(family, drawn, rng))
            order = shuffled_rows(batch.shape[1], rng)
            for name, column in zip(drawn.names, drawn.codes.T, strict=True):
                batch[places[name]] = np.repeat(column, drawn.rows)[order]
        return codes.T

    @cached_property
    def _network(self) -> tuple[Conditional, ...]:
        return view_network(self.cells, self.sizes, most_cells=MOST_FAMILY_CELLS)

    def _rows_of_levels(
        self, family: Conditional, drawn: _RowKinds, rng: np.random.Generator
    ) -> IntArray:
        """Return the rows of each kind that get each level of the child, (kinds, levels).

        Level by level, each is fitted together with all later ones."""
        chances = self._family_chances(family, drawn)
        features, targets, doubt = self._moments(family.child, drawn)
        rows_of_levels, remaining = np.zeros(chances.shape, dtype=np.int64), drawn.rows.copy()
        for level in range(chances.shape[1] - 1):
            start = ratio(chances[:, level], chances[:, level:].sum(axis=1))
            chance = fit_chances(start, features, remaining, targets[level], doubt)
            # Rounded cumulative sums: neighbouring kinds have most codes in common, so pairs keep
            # their sums (systematic sampling of an ordered list: Madow, Annals of Mathematical
            # Statistics 20, 1949).
            upto = np.floor(np.cumsum(remaining * chance) + rng.random()).astype(np.int64)
            rows_of_levels[:, level] = np.minimum(np.diff(upto, prepend=0), remaining)
            remaining = remaining - rows_of_levels[:, level]
        rows_of_levels[:, -1] = remaining
        return rows_of_levels

    def _family_chances(self, family: Conditional, drawn: _RowKinds) -> FloatArray:
        """Return the probabilities of the child's levels for each kind (kinds, levels), by the
        family's table; 0 where constraints forbid a level, and not scaled to 1 again.

        A kind for which they forbid every level has the probabilities of the table.
        """
        child, table = family.child, family.table.reshape(-1, self.sizes[family.child])
        level = table.sum(axis=0) + LEAST_ROWS
        table = table + LEAST_ROWS * level / level.sum()
        cells = drawn.cells(family.parents, self.sizes)
        chances = (table / table.sum(axis=1, keepdims=True))[cells]
        allowed = np.ones(chances.shape, dtype=np.bool_)
        for entry in self.zeros.allowed:
            if child in entry.names:
                before = tuple(name for name in entry.names if name in drawn.names)
                mask = marginal_of(entry.mask, entry.names, (*before, child)) > 0
                allowed &= mask.reshape(-1, self.sizes[child])[drawn.cells(before, self.sizes)]
        # Kinds without an allowed level break a constraint, whatever they get.
        return np.where(allowed | ~allowed.any(axis=1, keepdims=True), chances, 0.0)

    def _moments(self, child: str, drawn: _RowKinds) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return features of the kinds (kinds, f), their target rows for each level of the child
        (levels, f), and tolerances (f,) in rows for one nat.

        The first feature is 1 everywhere, the others say which levels of earlier attributes a kind
        has. Tolerances are those of ``tree_fit``: noisy tables that no rows can have would give
        infinite potentials."""
        many = drawn.rows.sum()
        scale = many / self.rows
        own = scale * self.one_way(child)
        features, targets = [np.ones(len(drawn.rows))], [own]
        doubt = [LEAST_DOUBT]
        for name, column in zip(drawn.names, drawn.codes.T, strict=True):
            pair_table = self.pair(child, name)
            if pair_table is not None:
                table, variance = pair_table
                for level in range(1, self.sizes[name]):
                    # Less their mean, so that they are nearly orthogonal to the first feature.
                    feature = (column == level) * 1.0
                    mean = float(drawn.rows @ feature) / many
                    features.append(feature - mean)
                    targets.append(scale * table[:, level] - mean * own)
                    doubt.append(max(LEAST_DOUBT, ENTROPY * scale * sqrt(variance)))
        return np.stack(features, axis=1), np.stack(targets, axis=1), np.array(doubt)


@dataclass(frozen=True, eq=False)
class _RowKinds:
    """The rows drawn so far, with identical rows counted together in the order of their codes.

    names   attributes that have been drawn
    codes   (kinds, attributes)
    rows    of every kind (kinds,)
    """

    names: Names
    codes: IntArray
    rows: IntArray

    def cells(self, names: Names, sizes: Mapping[str, int]) -> IntArray:
        cells = np.zeros(len(self.rows), dtype=np.int64)
        for name in names:
            cells = cells * sizes[name] + self.codes[:, self.names.index(name)]
        return cells

    def with_next(self, name: str, rows_of_levels: IntArray) -> _RowKinds:
        """Return these rows with one more attribute, whose levels split each kind.

        rows_of_levels   (kinds, levels)
        """
        kinds, levels = np.nonzero(rows_of_levels)
        codes = np.concatenate([self.codes[kinds], levels[:, None]], axis=1)
        return _RowKinds((*self.names, name), codes, rows_of_levels[kinds, levels])


STEPS = 25
SETTLED = 1e-6
"""Numerical: most of Newton's steps, and the error of a sum, in shares of the rows, to end at."""

ENOUGH = 1e-4
"""Numerical: part of the decrease that its slope predicts that a step must bring; also the least
length of a step."""


def fit_chances(
    start: FloatArray, features: FloatArray, rows: IntArray, targets: FloatArray, doubt: FloatArray
) -> FloatArray:
    """Return the probability of an event in each group of rows (g,), with sums of features near
    their targets.

    start      (g,) probabilities to stay near to; 0 and 1 are left unchanged
    features   (g, f)
    rows       (g,) rows of each group; the probability of a group without any is left unchanged
    targets    (f,) of the sums over groups of rows · probability · feature
    doubt      (f,) difference from a target for one nat of its log-potential, above 0

    Minimises Σ rows · KL(probability ‖ start) + ½ Σ difference² / doubt. The dual in the
    log-potentials is convex, and Newton's method minimises it.

    >>> start, features = np.array([0.5, 0.5]), np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> rows, targets, doubt = np.array([50, 50]), np.array([50.0, 40.0]), np.array([1e-3, 1e-3])
    >>> fit_chances(start, features, rows, targets, doubt).round(2).tolist()
    [0.2, 0.8]
    """
    free = (start > 0) & (start < 1) & (rows > 0)
    if not free.any():
        return start
    targets = targets - (start * rows)[~free] @ features[~free]
    logits = np.log(start[free]) - np.log1p(-start[free])
    logits = _minimise(logits, features[free], rows[free].astype(np.float64), targets, doubt)
    chances = start.copy()
    chances[free] = _chance(logits)
    return chances


def _chance(logits: FloatArray) -> FloatArray:
    # Half of a hyperbolic tangent: an exponential would overflow where a chance is next to 0.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logits))


def _minimise(
    start: FloatArray,
    features: FloatArray,
    rows: FloatArray,
    targets: FloatArray,
    doubt: FloatArray,
) -> FloatArray:
    """Return the logits, start + features · θ, at the minimum over θ of the convex function
    Σ rows · log(1 + exp(logits)) − ⟨targets, θ⟩ + ½ Σ doubt · θ²."""

    def value_at(theta: FloatArray) -> tuple[float, FloatArray]:
        logits = start + features @ theta
        linear = float(targets @ theta) - float(doubt @ theta**2) / 2
        return float(rows @ np.logaddexp(0.0, logits)) - linear, logits

    theta = np.zeros(len(targets))
    value, logits = value_at(theta)
    for _ in range(STEPS):
        chance = _chance(logits)
        slope = (rows * chance) @ features - targets + doubt * theta
        if np.abs(slope).max() <= SETTLED * rows.sum():
            break
        # A product with its own transpose, which is symmetric, is the faster one.
        weighted = features * np.sqrt(rows * chance * (1 - chance))[:, None]
        curvature = weighted.T @ weighted + np.diag(doubt)
        step = np.asarray(np.linalg.solve(curvature, slope))
        part, promised = 1.0, float(slope @ step)
        after, there = value_at(theta - step)
        while after > value - ENOUGH * part * promised and part > ENOUGH:
            part /= 2
            after, there = value_at(theta - part * step)
        if after >= value:
            break
        theta, value, logits = theta - part * step, after, there
    return logits
