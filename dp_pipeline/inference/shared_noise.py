"""SharedNoise: the error of all pairs of attributes as far as amounts decide it, and what tables
and one-way marginals get of an amount that they share.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import pi, prod

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.results.measurement import NoiseRate

STEPS = 12
"""Gradient steps on the shares of an amount."""

OF_SINGLES = 0.15
"""What one-way marginals get before the first step."""

LEAST_AMOUNT, LEAST_FALL, LEAST_ERROR = 1e-12, 1e-15, 1e-6
"""Far below all that occur: nothing is divided by 0."""


@dataclass(frozen=True, eq=False)
class Telling:
    """What tables tell of one-way marginals and of pairs, for each of c choices of tables.

    ways     (c, tables, d): precision that a table adds to a one-way marginal, in precisions of one
             of its cells; 0 where it does not tell it whole
    holder   (c, pairs): the table that tells most of a pair; 0 where none has it
    noise    (c, pairs): squared noise of that table in the pair beside its margins, in squares of
             the noise of a cell; without end where no table has the pair
    """

    ways: FloatArray
    holder: IntArray
    noise: FloatArray


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """The error of all pairs of attributes, as far as amounts decide it.

    sizes       levels of every attribute, d of them, as one-way marginals have them
    grouped     the same, as tables have them
    before      amount that each attribute's one-way marginal was measured for, (d,)
    untold      (d, d): rows of every pair's gap that no table tells
    rate        what noise an amount buys
    weights     (d, d): what each pair's error counts; None where all count alike

    A pair's error is √(o_i² + o_j² + q² + r²): o the noise of a one-way marginal, in rows in L1, by
    itself and in all tables that have it, q that of what a table adds about the pair, and r its
    gap where no table has it. Shares are of an amount: those of tables, then what is added for
    each one-way marginal.
    """

    sizes: Mapping[str, int]
    grouped: Mapping[str, int]
    before: Mapping[str, float]
    untold: FloatArray
    rate: NoiseRate
    weights: FloatArray | None = None

    def amounts(self, tables: Sequence[Names], amount: float) -> tuple[FloatArray, FloatArray]:
        """What each table gets, and what is added for each one-way marginal: ``amount`` in all."""
        _, shares = self._divided(tables, amount)
        found = shares * amount
        return found[: len(tables)], found[len(tables) :]

    def error(self, tables: Sequence[Names], amount: float) -> float:
        """The error of all pairs, in rows in L1, where ``amounts`` are what is measured."""
        return self._divided(tables, amount)[0]

    def _divided(self, tables: Sequence[Names], amount: float) -> tuple[float, FloatArray]:
        telling = self.telling(tables)
        errors, shares = self.settled(telling, self._start(telling), amount, STEPS)
        return float(errors[0]), shares[0]

    def telling(self, tables: Sequence[Names]) -> Telling:
        """Of one choice of tables."""
        ways = np.zeros((1, len(tables), len(self.sizes)))
        holder = np.zeros((1, len(self.first)), dtype=np.int64)
        least = np.full(holder.shape, np.inf)
        for at, table in enumerate(tables):
            ways[0, at], noise = self.of_table(table)
            is_less = noise < least[0]
            holder[0, is_less], least[0, is_less] = at, noise[is_less]
        return Telling(ways, holder, least)

    def of_table(self, table: Names) -> tuple[FloatArray, FloatArray]:
        """What one table tells of one-way marginals (d,) and of pairs (pairs,): see ``Telling``."""
        cells = prod(self.grouped[name] for name in table)
        ways, noise = np.zeros(len(self.sizes)), np.full(len(self.first), np.inf)
        levels = {self._place[name]: self.grouped[name] for name in table}
        for name in table:
            if self.grouped[name] == self.sizes[name]:
                ways[self._place[name]] = 1 / (cells * self.sizes[name])
        for one, other in combinations(sorted(levels), 2):
            at = self._pair_place[one, other]
            noise[at] = cells * max(1, (levels[one] - 1) * (levels[other] - 1))
        return ways, noise

    def settled(
        self, telling: Telling, shares: FloatArray, amount: float, steps: int
    ) -> tuple[FloatArray, FloatArray]:
        """The error of all pairs (c,), each by what it counts, and shares (c, tables + d), after so
        many gradient steps on them: where the error falls alike for every next bit of a share,
        nothing can be gained by moving some.
        """
        # Alone, noise of weight w has its least sum at shares ∝ √w, Gaussian noise at w^(2/3).
        power = 2 / 3 if self.rate.concentrated else 1 / 2
        for _ in range(steps):
            falls = self.falls(telling, shares, amount)
            shares = shares * np.where(shares > 0, falls + LEAST_FALL, 0.0) ** power
            shares = shares / shares.sum(axis=1, keepdims=True)
        # No product of matrices: what a library adds up in which order depends on the processor.
        errors = (self._left(telling, shares, amount).errors * self._counts).sum(axis=1)
        return errors, shares

    def falls(self, telling: Telling, shares: FloatArray, amount: float) -> FloatArray:
        """How fast the error falls with each share, but for a factor that all have."""
        left, many = self._left(telling, shares, amount), telling.ways.shape[1]
        weights = self._counts / np.maximum(left.errors, LEAST_ERROR)
        # Of what is known of an attribute, the error falls by the square of what that leaves.
        of_attribute = weights[:, self._pairs_of].sum(axis=2) / left.ways**2
        of_singles = of_attribute * left.by_itself / left.paid
        if not many:
            return np.asarray(of_singles)
        places = telling.holder + many * np.arange(len(shares))[:, None]
        size = many * len(shares)
        of_pairs = np.bincount(places.ravel(), (left.noise * weights).ravel(), minlength=size)
        falling = of_pairs.reshape(-1, many) + (left.by_table * of_attribute[:, None]).sum(axis=2)
        return np.hstack([falling / left.amounts, of_singles])

    def squares(self, amounts: FloatArray) -> FloatArray:
        """Squared deviations of one cell of tables for these amounts, about."""
        square = self.rate.distance**2
        return square / (pi * amounts) if self.rate.concentrated else square / amounts**2

    def _start(self, telling: Telling) -> FloatArray:
        """Shares to begin with (1, tables + d): of tables by what they tell."""
        many = telling.ways.shape[1]
        told = np.sqrt(np.where(np.isfinite(telling.noise), telling.noise, 0.0))[0]
        of_tables = np.bincount(telling.holder[0], told, minlength=many)[:many]
        of_tables, of_singles = np.sqrt(np.maximum(1.0, of_tables)), np.sqrt(self.levels)
        if not many:
            return np.asarray(of_singles / of_singles.sum())[None]
        parts = (
            (1 - OF_SINGLES) * of_tables / of_tables.sum(),
            OF_SINGLES * of_singles / of_singles.sum(),
        )
        return np.concatenate(parts)[None]

    def _left(self, telling: Telling, shares: FloatArray, amount: float) -> _Left:
        many = telling.ways.shape[1]
        amounts = np.maximum(shares * amount, LEAST_AMOUNT)
        squares, paid = self.squares(amounts[:, :many]), self._before + amounts[:, many:]
        by_itself = 1 / (self.levels**2 * self.squares(paid))
        by_table = telling.ways / squares[:, :, None]
        ways = by_itself + by_table.sum(axis=1)
        is_held = np.isfinite(telling.noise)
        of_cells = np.take_along_axis(squares, telling.holder, axis=1) if many else 0.0
        noise = np.where(is_held, telling.noise, 0.0) * of_cells
        missed = np.where(is_held, 0.0, self._untold**2)
        both = 1 / ways[:, self.first] + 1 / ways[:, self.second]
        errors = np.sqrt(both + noise + missed)
        return _Left(amounts[:, :many], paid, by_itself, by_table, ways, noise, errors)

    @cached_property
    def levels(self) -> FloatArray:
        """(d,): the sizes."""
        return np.array(list(self.sizes.values()), dtype=np.float64)

    @cached_property
    def first(self) -> IntArray:
        """(pairs,): the place of the first attribute of each pair."""
        return np.array([one for one, _ in self._pair_place], dtype=np.int64)

    @cached_property
    def second(self) -> IntArray:
        """(pairs,): that of the other one."""
        return np.array([other for _, other in self._pair_place], dtype=np.int64)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.sizes)}

    @cached_property
    def _pair_place(self) -> dict[tuple[int, int], int]:
        """Two places of attributes → that of their pair."""
        pairs = combinations(range(len(self.sizes)), 2)
        return {pair: at for at, pair in enumerate(pairs)}

    @cached_property
    def _pairs_of(self) -> IntArray:
        """(d, d − 1): places of the pairs that an attribute is in."""
        d = range(len(self.sizes))
        found = [[self._pair_place[min(i, j), max(i, j)] for j in d if j != i] for i in d]
        return np.array(found, dtype=np.int64).reshape(len(d), -1)

    @cached_property
    def _before(self) -> FloatArray:
        return np.array([self.before[name] for name in self.sizes], dtype=np.float64)

    @cached_property
    def _untold(self) -> FloatArray:
        return np.asarray(self.untold[self.first, self.second])

    @cached_property
    def _counts(self) -> FloatArray:
        """What the error of each pair counts (pairs,)."""
        if self.weights is None:
            return np.ones(len(self.first))
        return np.asarray(self.weights[self.first, self.second])


@dataclass(frozen=True, eq=False)
class _Left:
    """What amounts let be known, and the errors that they leave, of c choices of tables.

    amounts     (c, tables)
    paid        (c, d): for each one-way marginal, with what it has cost before
    by_itself   (c, d): precision of each one-way marginal that it has by itself
    by_table    (c, tables, d): precision that a table adds to one
    ways        (c, d): precision of each
    noise       (c, pairs): squares of what its table adds to a pair's error
    errors      (c, pairs): of every pair, in rows in L1
    """

    amounts: FloatArray
    paid: FloatArray
    by_itself: FloatArray
    by_table: FloatArray
    ways: FloatArray
    noise: FloatArray
    errors: FloatArray
