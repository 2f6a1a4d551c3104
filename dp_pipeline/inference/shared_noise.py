"""What tables and one-way marginals get of an amount that they share.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import pi, prod

import numpy as np

from dp_pipeline.release.measurement import NoiseRate
from dp_pipeline.spec.encoding import FloatArray, IntArray, Names

ROUNDS = 12


@dataclass(frozen=True)
class SharedNoise:
    """The error of all pairs of attributes, as far as amounts decide it.

    sizes       levels of every attribute, d of them, as one-way marginals have them
    grouped     the same, as tables have them
    before      amount that each attribute's one-way marginal was measured for, (d,)
    untold      (d, d): rows of every pair's gap that no table tells
    weights     (d, d): what each pair's error counts; None where all count alike
    rate        what noise an amount buys

    A pair's error is √(o_i² + o_j² + q² + r²): o the noise of a one-way marginal, in rows in L1, by
    itself and in all tables that have it, q that of what a table adds about the pair, and r its
    gap where no table has it.
    """

    sizes: Mapping[str, int]
    grouped: Mapping[str, int]
    before: Mapping[str, float]
    untold: FloatArray
    rate: NoiseRate
    weights: FloatArray | None = None

    def amounts(
        self, tables: Sequence[Names], singles: Sequence[str], amount: float
    ) -> tuple[FloatArray, FloatArray]:
        """What each table gets, and what is added for each one-way marginal; together ``amount``.

        By gradient steps on the shares: where the error falls alike for every next bit of it,
        nothing can be gained by moving some.
        """
        state = _State.of(self, tables, singles)
        shares = state.start()
        # Alone, noise of weight w has its least sum at shares ∝ √w, Gaussian noise at w^(2/3).
        power = 2 / 3 if self.rate.concentrated else 1 / 2
        for _ in range(ROUNDS):
            falls = state.falls(shares * amount)
            shares = shares * falls**power
            shares /= shares.sum()
        found = shares * amount
        return found[: len(tables)], found[len(tables) :]

    def squares(self, amounts: FloatArray) -> FloatArray:
        """Squared deviations of one cell of tables for these amounts, about."""
        square = self.rate.distance**2
        return square / (pi * amounts) if self.rate.concentrated else square / amounts**2


@dataclass(frozen=True)
class _State:
    """Pairs and places of attributes in tables, as arrays.

    first, second   of each pair (pairs,) the places of its attributes
    holder          place of the table that tells most about it, −1 for none
    told            squared deviations of one cell of that table in what it says of it
    missed          squares of gaps that no table tells
    inside          (held, 2): table and attribute
    counts          what each pair's error counts (pairs,)
    margins         (held,): squared deviations of one cell of the table in the one-way marginal
                    inside it; without end over groups, which do not tell it whole
    """

    problem: SharedNoise
    tables: Sequence[Names]
    sizes: FloatArray
    singles: IntArray
    first: IntArray
    second: IntArray
    holder: IntArray
    told: FloatArray
    missed: FloatArray
    inside: IntArray
    margins: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, problem: SharedNoise, tables: Sequence[Names], singles: Sequence[str]) -> _State:
        names, grouped = list(problem.sizes), problem.grouped
        place = {name: at for at, name in enumerate(names)}
        pairs = list(combinations(range(len(names)), 2))
        held: dict[tuple[int, int], tuple[float, int]] = {}
        inside: list[tuple[int, int]] = []
        margins: list[float] = []
        for at, table in enumerate(tables):
            cells = prod(grouped[name] for name in table)
            for name in table:
                is_whole = grouped[name] == problem.sizes[name]
                inside.append((at, place[name]))
                margins.append(float(cells * grouped[name]) if is_whole else np.inf)
            for one, other in combinations(sorted(place[name] for name in table), 2):
                levels = [grouped[names[x]] for x in (one, other)]
                noise = float(cells * max(1, (levels[0] - 1) * (levels[1] - 1)))
                held[one, other] = min(held.get((one, other), (np.inf, -1)), (noise, at))
        found = [held.get(pair, (0.0, -1)) for pair in pairs]
        holder = np.array([at for _, at in found], dtype=np.int64)
        first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return cls(
            problem,
            tables,
            np.array(list(problem.sizes.values()), dtype=np.float64),
            np.array([place[name] for name in singles], dtype=np.int64),
            first,
            second,
            holder,
            np.array([noise for noise, _ in found]),
            np.where(holder < 0, problem.untold[first, second] ** 2, 0.0),
            np.array(inside, dtype=np.int64).reshape(-1, 2),
            np.array(margins, dtype=np.float64),
            np.ones(len(pairs)) if problem.weights is None else problem.weights[first, second],
        )

    def start(self) -> FloatArray:
        """Shares to begin with: of tables by what they tell, 15 % for one-way marginals."""
        of_tables = np.array([max(1.0, self._told_by(at)) for at in range(len(self.tables))])
        both = [np.sqrt(of_tables), np.sqrt(self.sizes[self.singles])]
        weights = [0.85, 0.15] if all(map(len, both)) else [1.0, 1.0]
        parts = [
            weight * part / part.sum()
            for weight, part in zip(weights, both, strict=True)
            if len(part)
        ]
        return np.concatenate(parts)

    def _told_by(self, table: int) -> float:
        return float(np.sqrt(self.told[self.holder == table]).sum())

    def falls(self, amounts: FloatArray) -> FloatArray:
        """How fast the error falls with each amount, but for a factor that all have."""
        many = len(self.tables)
        of_tables, added = np.maximum(amounts[:many], 1e-12), amounts[many:]
        paid = np.array([self.problem.before[name] for name in self.problem.sizes])
        np.add.at(paid, self.singles, added)
        by_itself = 1 / (self.sizes**2 * self.problem.squares(paid))
        table, attribute = self.inside.T
        by_table = 1 / (self.margins * self.problem.squares(of_tables)[table])
        known = by_itself.copy()
        np.add.at(known, attribute, by_table)
        in_table = self.holder >= 0
        noise = self.told * np.append(self.problem.squares(of_tables), 0.0)[self.holder]
        squares = 1 / known[self.first] + 1 / known[self.second] + noise + self.missed
        error = np.sqrt(np.maximum(squares, 1e-12)) / self.counts
        # Of what is known of an attribute, the error falls by the square of what that leaves.
        of_attribute = np.zeros(len(self.sizes))
        for places in (self.first, self.second):
            np.add.at(of_attribute, places, 1 / (known[places] ** 2 * error))
        falling = np.zeros(many)
        np.add.at(falling, self.holder[in_table], (noise / error)[in_table])
        np.add.at(falling, table, of_attribute[attribute] * by_table)
        of_singles = (of_attribute * by_itself / paid)[self.singles]
        return np.concatenate([falling / of_tables, of_singles]) + 1e-15
