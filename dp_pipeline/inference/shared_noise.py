"""What tables and one-way marginals get of an amount that they share.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod, sqrt

import numpy as np

from dp_pipeline.spec.encoding import FloatArray, IntArray, Names

ROUNDS = 12


@dataclass(frozen=True)
class SharedNoise:
    """The error of all pairs of attributes, as far as amounts of pure ε decide it.

    sizes       levels of every attribute, d of them, as one-way marginals have them
    grouped     the same, as tables have them
    before      ε that each attribute's one-way marginal was measured for, (d,)
    gaps        pair, in the order of ``sizes`` → rows that its independence is off by
    distance    rows of one protected unit

    A pair's error is √(o_i² + o_j² + q² + r²): o the noise of a one-way marginal, in rows in L1, q
    that of what a table adds about the pair, and r its gap where no table has it.
    """

    sizes: Mapping[str, int]
    grouped: Mapping[str, int]
    before: Mapping[str, float]
    gaps: Mapping[tuple[str, str], float]
    distance: int

    def amounts(
        self, tables: Sequence[Names], singles: Sequence[str], amount: float
    ) -> tuple[FloatArray, FloatArray]:
        """What each table gets, and what is added for each one-way marginal; together ``amount``.

        By gradient steps on the shares: where the error falls alike for every next bit of ε,
        nothing can be gained by moving some.
        """
        state = _State.of(self, tables, singles)
        shares = state.start()
        for _ in range(ROUNDS):
            falls = state.falls(shares * amount)
            shares = shares * np.sqrt(falls)
            shares /= shares.sum()
        found = shares * amount
        return found[: len(tables)], found[len(tables) :]


@dataclass(frozen=True)
class _State:
    """Pairs as arrays (pairs,).

    first, second   places of their attributes
    holder          place of the table that tells most about them, −1 for none
    told            deviations of one cell of that table in what it says of them
    missed          squares of gaps that no table tells
    """

    problem: SharedNoise
    tables: Sequence[Names]
    singles: IntArray
    first: IntArray
    second: IntArray
    holder: IntArray
    told: FloatArray
    missed: FloatArray

    @classmethod
    def of(cls, problem: SharedNoise, tables: Sequence[Names], singles: Sequence[str]) -> _State:
        names = list(problem.sizes)
        place = {name: at for at, name in enumerate(names)}
        pairs = list(combinations(range(len(names)), 2))
        held: dict[tuple[int, int], tuple[float, int]] = {}
        for at, table in enumerate(tables):
            cells = prod(problem.grouped[name] for name in table)
            for one, other in combinations(sorted(place[name] for name in table), 2):
                levels = [problem.grouped[names[x]] for x in (one, other)]
                noise = sqrt(cells * max(1, (levels[0] - 1) * (levels[1] - 1)))
                held[one, other] = min(held.get((one, other), (np.inf, -1)), (noise, at))
        gaps = [problem.gaps.get((names[i], names[j]), 0.0) for i, j in pairs]
        found = [held.get(pair, (0.0, -1)) for pair in pairs]
        holder = np.array([at for _, at in found], dtype=np.int64)
        first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return cls(
            problem,
            tables,
            np.array([place[name] for name in singles], dtype=np.int64),
            first,
            second,
            holder,
            np.array([noise for noise, _ in found]),
            np.where(holder < 0, np.array(gaps) ** 2, 0.0),
        )

    def start(self) -> FloatArray:
        """Shares to begin with: of tables by what they tell, 15 % for one-way marginals."""
        of_tables = np.array([max(1.0, self._told_by(at)) for at in range(len(self.tables))])
        sizes = np.array(list(self.problem.sizes.values()), dtype=np.float64)
        of_singles = np.sqrt(sizes[self.singles])
        both = [np.sqrt(of_tables), of_singles]
        weights = [0.85, 0.15] if all(map(len, both)) else [1.0, 1.0]
        parts = [
            weight * part / part.sum()
            for weight, part in zip(weights, both, strict=True)
            if len(part)
        ]
        return np.concatenate(parts)

    def _told_by(self, table: int) -> float:
        return float(self.told[self.holder == table].sum())

    def falls(self, amounts: FloatArray) -> FloatArray:
        """How fast the error falls with each amount."""
        many = len(self.tables)
        sizes = np.array(list(self.problem.sizes.values()), dtype=np.float64)
        paid = np.array([self.problem.before[name] for name in self.problem.sizes])
        np.add.at(paid, self.singles, amounts[many:])
        alone = self.problem.distance * sizes / paid
        in_table = self.holder >= 0
        of_table = np.append(amounts[:many], 1.0)[self.holder]
        noise = np.where(in_table, self.problem.distance * self.told / of_table, 0.0)
        squares = alone[self.first] ** 2 + alone[self.second] ** 2 + noise**2 + self.missed
        error = np.sqrt(np.maximum(squares, 1e-12))
        of_attribute = np.zeros(len(sizes))
        for places in (self.first, self.second):
            np.add.at(of_attribute, places, alone[places] ** 2 / error)
        falling = np.zeros(many)
        np.add.at(falling, self.holder[in_table], (noise**2 / error)[in_table])
        return (
            np.concatenate(
                [falling / np.maximum(amounts[:many], 1e-12), (of_attribute / paid)[self.singles]]
            )
            + 1e-15
        )
