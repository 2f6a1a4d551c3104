"""The error of pairs of attributes that noisy tables are expected to leave, and how to divide a
budget among tables so that it is least: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import pi, prod

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.results.measurement import NoiseRate

STEPS = 12
"""Gradient steps on the shares of an amount: a limit of time."""

FIRST_SHARE = 0.15
"""Share of one-way marginals where the gradient steps begin: numerical."""

TINY = 1e-12
"""Numerical: far below every amount, slope and error that occurs, so nothing is divided by 0."""


@dataclass(frozen=True, eq=False)
class TableInformation:
    """The information that c candidate sets of tables give about one-way marginals and pairs.

    precision    (c, tables, d) precision (1 / variance) that a table adds to a one-way marginal, in
                 precisions of one of the table's cells; 0 where the table does not have all levels
    best_table   (c, pairs) position of the table with the least noise in a pair; 0 without any
    noise        (c, pairs) squared noise of that table in the pair, without its margins, in squared
                 noise of one cell; infinite where no table has the pair
    unexplained  (c, pairs) rows of a pair's dependence that other tables do not explain
    """

    precision: FloatArray
    best_table: IntArray
    noise: FloatArray
    unexplained: FloatArray

    @cached_property
    def attributes_held(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Three arrays, with an entry for each table and each attribute whose levels it has all:
        flat positions in (c, tables) and in (c, d), and the precision that the table adds."""
        sets, tables, attributes = (self.precision > 0).nonzero()
        _, count, d = self.precision.shape
        precision = self.precision[sets, tables, attributes]
        return count * sets + tables, d * sets + attributes, precision

    @cached_property
    def pairs_held(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Three arrays, with an entry for each pair that a table has: flat positions of the best
        table in (c, tables) and of the pair in (c, pairs), and the squared noise in the pair."""
        sets, pairs = np.isfinite(self.noise).nonzero()
        tables = self.precision.shape[1] * sets + self.best_table[sets, pairs]
        return tables, self.noise.shape[1] * sets + pairs, self.noise[sets, pairs]

    @cached_property
    def unmeasured_squares(self) -> FloatArray:
        """The square of ``unexplained`` for each pair that no table has, else 0 (c, pairs)."""
        return np.where(np.isfinite(self.noise), 0.0, self.unexplained**2)


def least_noise(noise: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the position of the table with the least noise in each pair, and that least noise,
    both (c, pairs); 0 and infinity without tables.

    noise   (c, tables, pairs) squared noise of every table in every pair
    """
    count, tables, pairs = noise.shape
    if not tables:
        return np.zeros((count, pairs), dtype=np.int64), np.full((count, pairs), np.inf)
    best = np.asarray(noise.argmin(axis=1))
    return best, np.take_along_axis(noise, best[:, None], axis=1)[:, 0]


@dataclass(frozen=True, eq=False)
class ExpectedError:
    """The expected error of all pairs of d attributes, in rows in L1, that noisy tables leave.

    It is Σ w_ij √(o_i² + o_j² + q_ij² + b_ij²) over the pairs.

    sizes        levels of every attribute in one-way marginals
    grouped      attribute → number of groups of its levels in tables
    paid         attribute → amount already paid for its one-way marginal
    dependence   dependence of all pairs, and how much of it measured pairs explain
    rate         noise that an amount (ε or ρ) buys
    weights      w (d, d); None where all pairs count alike

    o is the noise of a one-way marginal, by itself and in all tables that have it; q that of the
    table which has the pair; b the dependence of a pair that no table has. An amount is divided
    into shares (tables + d,): one for each table, then one for each one-way marginal.
    """

    sizes: Mapping[str, int]
    grouped: Mapping[str, int]
    paid: Mapping[str, float]
    dependence: Dependence
    rate: NoiseRate
    weights: FloatArray | None = None

    def divide(
        self, tables: Sequence[Names], amount: float, *, singles: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the amount for each table (tables,) and for each one-way marginal
        (d,) with which the expected error is least.

        singles   whether one-way marginals get any of it; without tables they get all
        """
        start = self.start(tables, singles=singles)
        shares = self.minimise(self.information(tables), start, amount, STEPS)[1][0]
        return amount * shares[: len(tables)], amount * shares[len(tables) :]

    def least_error(self, tables: Sequence[Names], amount: float, *, singles: bool = True) -> float:
        """Return the expected error of all pairs, in rows in L1, with these tables, when the amount
        is divided among tables and one-way marginals in the best way.

        singles   whether one-way marginals get any of it; without tables they get all
        """
        start = self.start(tables, singles=singles)
        return float(self.minimise(self.information(tables), start, amount, STEPS)[0][0])

    def errors_by_pair_count(
        self, order: IntArray, counts: Sequence[int], amount: float
    ) -> FloatArray:
        """Return the expected error of all pairs, in rows in L1, for each count in ``counts``
        (counts,), when the first that many pairs of ``order`` are measured in a table each.

        order    positions of pairs
        """
        chosen = order[: max(counts)]
        many, tables = len(counts), len(chosen)
        is_chosen = np.arange(tables) < np.array(counts)[:, None]
        grouped = np.array(list(self.grouped.values()), dtype=np.float64)
        first, second = self.first[chosen], self.second[chosen]
        cells = grouped[first] * grouped[second]
        precision = np.zeros((many, tables, self._d))
        for places in (first, second):
            is_whole = (grouped == self.levels)[places]
            values = np.where(is_chosen & is_whole, 1 / (cells * self.levels[places]), 0.0)
            precision[:, np.arange(tables), places] = values
        best = np.zeros((many, len(self.first)), dtype=np.int64)
        noise = np.full(best.shape, np.inf)
        best[:, chosen] = np.arange(tables)
        free = np.maximum(1, (grouped[first] - 1) * (grouped[second] - 1))
        noise[:, chosen] = np.where(is_chosen, cells * free, np.inf)
        unexplained = np.broadcast_to(self.dependence.scores[self.first, self.second], best.shape)
        shares = np.hstack(
            [
                np.where(is_chosen, np.sqrt(np.sqrt(cells * free)), 0.0),
                np.broadcast_to(FIRST_SHARE * np.sqrt(self.levels), (many, self._d)),
            ]
        )
        information = TableInformation(precision, best, noise, unexplained)
        shares = shares / shares.sum(axis=1, keepdims=True)
        return self.minimise(information, shares, amount, STEPS // 2)[0]

    def information(self, tables: Sequence[Names]) -> TableInformation:
        """Return the information that one set of tables gives, as the only candidate (c = 1)."""
        of_tables = [self.table_information(table) for table in tables]
        precision = np.reshape([p for p, _ in of_tables], (1, len(of_tables), self._d))
        noise = np.reshape([n for _, n in of_tables], (1, len(of_tables), len(self.first)))
        measured_pairs = {pair for table in tables for pair in combinations(table, 2)}
        unexplained = self.dependence.unexplained(self.dependence.paths(measured_pairs)[None])
        return TableInformation(precision, *least_noise(noise), unexplained)

    def table_information(self, table: Names) -> tuple[FloatArray, FloatArray]:
        """Return the precision that a table adds to each one-way marginal (d,), and its squared
        noise in each pair (pairs,), both as in ``TableInformation``."""
        cells = prod(self.grouped[name] for name in table)
        precision, noise = np.zeros(len(self.sizes)), np.full(len(self.first), np.inf)
        levels = {self.place[name]: self.grouped[name] for name in table}
        for name in table:
            if self.grouped[name] == self.sizes[name]:
                precision[self.place[name]] = 1 / (cells * self.sizes[name])
        for first, other in combinations(sorted(levels), 2):
            pair = self._pair_place[first, other]
            noise[pair] = cells * max(1, (levels[first] - 1) * (levels[other] - 1))
        return precision, noise

    def minimise(
        self, information: TableInformation, shares: FloatArray, amount: float, steps: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the expected error (c,) and the shares (c, tables + d) of an amount after some
        steps towards the shares with the least error.

        There the error falls alike for every next bit of a share, so moving some gains nothing.

        shares   (c, tables + d) to start from; those of 0 stay 0
        """
        # Alone, noise of weight w has its least sum at shares ∝ √w, Gaussian noise at w^(2/3).
        power = 2 / 3 if self.rate.concentrated else 1 / 2
        for _ in range(steps):
            slopes = self.errors_and_slopes(information, shares, amount)[1]
            shares = shares * np.where(shares > 0, slopes + TINY, 0.0) ** power
            shares = shares / shares.sum(axis=1, keepdims=True)
        # No product of matrices: what a library adds up in which order depends on the processor.
        errors = self.errors_and_slopes(information, shares, amount)[0]
        return (errors * self.pair_weights).sum(axis=1), shares

    def errors_and_slopes(
        self, information: TableInformation, shares: FloatArray, amount: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the error of every pair (c, pairs), in rows in L1, and the rate at which the
        expected error falls as each share grows (c, tables + d), up to a common factor."""
        count = shares.shape[1] - self._d
        amounts, of_singles = np.hsplit(np.maximum(shares * amount, TINY), [count])
        squares, paid = self._squared_noise(amounts), self._paid + of_singles
        # Precisions of one-way marginals: by themselves, by each table that has them, in all.
        by_itself = 1 / (self.levels**2 * self._squared_noise(paid))
        tables, attributes, precision = information.attributes_held
        by_table = precision / squares.take(tables)
        added = np.bincount(attributes, by_table, by_itself.size)
        total = by_itself + added.reshape(by_itself.shape)
        best, pairs, noise = information.pairs_held
        noise = noise * squares.take(best)
        errors = (1 / total).take(self.first, axis=1) + (1 / total).take(self.second, axis=1)
        errors += information.unmeasured_squares
        errors.ravel()[pairs] += noise
        errors = np.sqrt(errors, out=errors)
        of_errors = self.pair_weights / np.maximum(errors, TINY)
        # The error of an attribute is 1 / precision, whose slope is −1 / precision².
        of_attribute = of_errors.take(self._pairs_of, axis=1).sum(axis=2) / total**2
        by_pair, by_attribute = (
            noise * of_errors.take(pairs),
            by_table * of_attribute.take(attributes),
        )
        # Without pairs it is of integers, to which no float can be added in place.
        of_tables = np.bincount(best, by_pair, amounts.size)
        of_tables = of_tables + np.bincount(tables, by_attribute, amounts.size)
        of_tables = of_tables.reshape(amounts.shape) / amounts
        return errors, np.hstack([of_tables, of_attribute * by_itself / paid])

    def start(self, tables: Sequence[Names], *, singles: bool = True) -> FloatArray:
        """Return the shares of an amount that ``minimise`` starts from, (1, tables + d).

        singles   whether one-way marginals get any; without tables they get all
        """
        of_singles = np.sqrt(self.levels)
        if not tables:
            return np.asarray(of_singles / of_singles.sum())[None]
        noise = np.array([self.table_information(table)[1] for table in tables])
        of_tables = np.sqrt(1 + np.sqrt(np.where(np.isfinite(noise), noise, 0.0)).sum(axis=1))
        part = FIRST_SHARE if singles else 0.0
        parts = (1 - part) * of_tables / of_tables.sum(), part * of_singles / of_singles.sum()
        return np.concatenate(parts)[None]

    def _squared_noise(self, amounts: FloatArray) -> FloatArray:
        """Return the squared mean |noise| of a cell of a table, in squared rows, for the amount
        spent on it, in the shape of the amounts."""
        square = self.rate.distance**2
        return square / (pi * amounts) if self.rate.concentrated else square / amounts**2

    @cached_property
    def levels(self) -> FloatArray:
        """The number of levels of every attribute (d,)."""
        return np.array(list(self.sizes.values()), dtype=np.float64)

    @cached_property
    def first(self) -> IntArray:
        """The position of the first attribute of each pair (pairs,)."""
        return np.triu_indices(self._d, 1)[0]

    @cached_property
    def second(self) -> IntArray:
        """The position of the second attribute of each pair (pairs,)."""
        return np.triu_indices(self._d, 1)[1]

    @cached_property
    def place(self) -> dict[str, int]:
        """Attribute → its position in all arrays."""
        return {name: place for place, name in enumerate(self.sizes)}

    @property
    def _d(self) -> int:
        return len(self.sizes)

    @cached_property
    def _pair_place(self) -> dict[tuple[int, int], int]:
        return {pair: place for place, pair in enumerate(combinations(range(self._d), 2))}

    @cached_property
    def _pairs_of(self) -> IntArray:
        has = [(self.first == i) | (self.second == i) for i in range(self._d)]
        return np.array(has, dtype=np.bool_).nonzero()[1].reshape(self._d, -1)

    @cached_property
    def _paid(self) -> FloatArray:
        return np.array([self.paid.get(name, 0.0) for name in self.sizes], dtype=np.float64)

    @cached_property
    def pair_weights(self) -> FloatArray:
        """The weight of the error of each pair (pairs,)."""
        if self.weights is None:
            return np.ones(len(self.first))
        return np.asarray(self.weights[self.first, self.second])
