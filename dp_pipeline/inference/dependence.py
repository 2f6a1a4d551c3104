"""Dependence: how far pairs of attributes are from independence, and what measured pairs tell of
the others.

What tables and one-way marginals get of an amount that they share.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import pi, prod

import numpy as np

from dp_pipeline.release.measurement import NoiseRate
from dp_pipeline.spec.encoding import FloatArray, IntArray, Names

Gaps = Mapping[tuple[str, str], float]

FEWEST_OTHERS = 3
"""Pairs outside a tree from which it can be seen what the tree tells."""
UNSEEN = 0.5
"""What is taken for it where there are fewer."""


STEPS = 128
"""Of what a gap may be, where its mean is computed."""

LEAST_MEAN = 1e-3
"""Of the gaps before they are looked at, in reaches of their noise."""


def likely_gaps(
    noisy: FloatArray,
    beside: FloatArray,
    *,
    reach: float,
    density: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """What gaps are likely to be, by their noisy values.

    noisy     (pairs,): √(g² + b²) and noise, for gaps of g rows
    beside    (pairs,): b, the rows that the noise of one-way marginals puts there
    reach     rows beyond which there is next to no noise
    density   of the noise, but for a factor

    The mean of g given its noisy value, where g is exponential with the mean that they have
    together.

    >>> noisy, none = np.array([-9.0, 1.0, 50.0]), np.zeros(3)
    >>> likely_gaps(noisy, none, reach=5.0, density=np.ones_like).round(1).tolist()
    [0.0, 2.8, 49.4]
    """
    square = max(0.0, float(noisy.mean())) ** 2 - float((beside**2).mean())
    mean = max(square, 0.0) ** 0.5 + LEAST_MEAN * reach
    low = np.sqrt(np.maximum(0.0, np.maximum(0.0, noisy - reach) ** 2 - beside**2))
    width = np.maximum(0.0, noisy + reach - low)
    steps = (np.arange(STEPS) + 0.5) / STEPS
    # Squares of steps: denser where an exponential distribution has its mass.
    above = width[:, None] * steps**2
    off = noisy[:, None] - np.hypot(low[:, None] + above, beside[:, None])
    weights = density(off) * np.exp(-above / mean) * steps
    total = weights.sum(axis=1)
    within = (weights * above).sum(axis=1) / np.where(total > 0, total, 1.0)
    return np.asarray(low + within)


@dataclass(frozen=True)
class Dependence:
    """Symmetric arrays over d attributes.

    names       of the attributes
    gaps        (d, d): rows by which a pair is off from independence, ‖c_ij − c_i c_jᵀ/n‖₁, about
    strengths   (d, d): that as a share of what two attributes have that tell each other, 0 to 1;
                0 where that is not known, and no path tells such a pair anything

    Along a chain a – b – c of binary attributes where a and c depend on each other through b
    alone, strengths are the |correlations|, and that of (a, c) is their product. So a pair that no
    table has is told by the best product along measured pairs, as far as the table at hand is made
    of chains: ``told``.

    >>> chain = Dependence.of(("a", "b", "c"), {("a", "b"): 80.0, ("b", "c"): 80.0},
    ...     spread=dict.fromkeys("abc", 0.5), rows=100.0)
    >>> chain.paths([("a", "b"), ("b", "c")])[0].round(2).tolist()
    [1.0, 0.8, 0.64]
    """

    names: Names
    gaps: FloatArray
    strengths: FloatArray

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        gaps: Gaps,
        *,
        spread: Mapping[str, float] | None = None,
        rows: float = 1.0,
    ) -> Dependence:
        """From pairs of names.

        spread   attribute → 1 − Σ p², of its shares; None where no strength is known
        rows     number of rows, at least 1
        """
        names = tuple(names)
        place = {name: at for at, name in enumerate(names)}
        of_pairs, strengths = np.zeros((2, len(names), len(names)))
        for (a, b), gap in gaps.items():
            i, j = place[a], place[b]
            of_pairs[i, j] = of_pairs[j, i] = gap
            if spread is not None:
                most = 2 * rows * max(1e-9, spread[a] * spread[b]) ** 0.5
                strengths[i, j] = strengths[j, i] = min(1.0, max(0.0, gap) / most)
        return cls(names, of_pairs, strengths)

    @cached_property
    def place(self) -> dict[str, int]:
        """Attribute → its place in the arrays."""
        return {name: at for at, name in enumerate(self.names)}

    def paths(self, pairs: Iterable[tuple[str, str]]) -> FloatArray:
        """(d, d): the best product of strengths along these pairs; 1 on the diagonal."""
        best = np.eye(len(self.names))
        for a, b in pairs:
            i, j = self.place[a], self.place[b]
            best[i, j] = best[j, i] = self.strengths[i, j]
        for via in range(len(best)):
            best = np.maximum(best, best[:, via, None] * best[None, via, :])
        return best

    def with_pairs(self, paths: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """(pairs, d, d): the same with one pair more, each by itself."""
        strength = self.strengths[first, second][:, None, None]
        through = paths[first][:, :, None] * strength * paths[second][:, None, :]
        return np.maximum(paths, np.maximum(through, through.transpose(0, 2, 1)))

    def untold(self, paths: FloatArray) -> FloatArray:
        """Rows of every gap that paths do not tell; of the same shape as ``paths``."""
        known = np.where(self.strengths > 0, self.strengths, 1.0)
        part = np.where(self.strengths > 0, self.told * paths / known, 0.0)
        return np.asarray(self.gaps * np.maximum(0.0, 1 - part))

    @cached_property
    def told(self) -> float:
        """How much of a path's product is taken for told, 0 to 1.

        By regression of the gaps outside the tree of the strongest pairs on what that tree says of
        them, its slope times their correlation: in a table of chains 1, and little where
        attributes depend on each other otherwise or noise hides how.
        """
        import networkx as nx

        graph = nx.from_numpy_array(self.strengths)
        tree = nx.maximum_spanning_tree(graph)
        paths = self.paths((self.names[i], self.names[j]) for i, j in tree.edges)
        others = [pair for pair in graph.edges if not tree.has_edge(*pair) and pair[0] != pair[1]]
        if len(others) < FEWEST_OTHERS:
            return UNSEEN
        i, j = np.array(others).T
        gaps = self.gaps[i, j]
        said = paths[i, j] * gaps / self.strengths[i, j]
        (of_said, both), (_, of_gaps) = np.cov(said, gaps)
        if min(of_said, of_gaps, both) <= 0:
            return 0.0
        return float(min(1.0, both**2 / (of_said**1.5 * of_gaps**0.5)))


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

    def error(self, tables: Sequence[Names], singles: Sequence[str], amount: float) -> float:
        """The error of all pairs, in rows in L1, where ``amounts`` are what is measured."""
        amounts = np.concatenate(self.amounts(tables, singles, amount))
        return _State.of(self, tables, singles).error(amounts)

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

    def error(self, amounts: FloatArray) -> float:
        """Of all pairs together, each by what it counts."""
        return float((self._known(amounts).errors * self.counts).sum())

    def falls(self, amounts: FloatArray) -> FloatArray:
        """How fast the error falls with each amount, but for a factor that all have."""
        known = self._known(amounts)
        table, attribute = self.inside.T
        in_table = self.holder >= 0
        error = np.sqrt(np.maximum(known.errors**2, 1e-12)) / self.counts
        # Of what is known of an attribute, the error falls by the square of what that leaves.
        of_attribute = np.zeros(len(self.sizes))
        for places in (self.first, self.second):
            np.add.at(of_attribute, places, 1 / (known.ways[places] ** 2 * error))
        falling = np.zeros(len(self.tables))
        np.add.at(falling, self.holder[in_table], (known.noise / error)[in_table])
        np.add.at(falling, table, of_attribute[attribute] * known.by_table)
        of_singles = (of_attribute * known.by_itself / known.paid)[self.singles]
        return np.concatenate([falling / known.of_tables, of_singles]) + 1e-15

    def _known(self, amounts: FloatArray) -> _Known:
        many = len(self.tables)
        of_tables, added = np.maximum(amounts[:many], 1e-12), amounts[many:]
        paid = np.array([self.problem.before[name] for name in self.problem.sizes])
        np.add.at(paid, self.singles, added)
        by_itself = 1 / (self.sizes**2 * self.problem.squares(paid))
        squares = self.problem.squares(of_tables)
        table, attribute = self.inside.T
        by_table = 1 / (self.margins * squares[table])
        ways = by_itself.copy()
        np.add.at(ways, attribute, by_table)
        noise = self.told * np.append(squares, 0.0)[self.holder]
        errors = 1 / ways[self.first] + 1 / ways[self.second] + noise + self.missed
        return _Known(of_tables, paid, by_itself, by_table, ways, noise, np.sqrt(errors))


@dataclass(frozen=True)
class _Known:
    """What amounts let be known.

    of_tables   what each table gets (tables,)
    paid        for each one-way marginal, with what it has cost before (d,)
    by_itself   precision of each one-way marginal that it has by itself (d,)
    by_table    precision that a table adds to one (held,)
    ways        precision of each one-way marginal (d,)
    noise       squares of what a pair's table adds to its error (pairs,)
    errors      of every pair, in rows in L1 (pairs,)
    """

    of_tables: FloatArray
    paid: FloatArray
    by_itself: FloatArray
    by_table: FloatArray
    ways: FloatArray
    noise: FloatArray
    errors: FloatArray
