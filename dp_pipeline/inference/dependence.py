"""Dependence: how far pairs of attributes are from independence, and what measured pairs tell of
the others.

What tables and one-way marginals get of an amount that they share.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import log, pi, prod

import numpy as np

from dp_pipeline.release.measurement import NoiseRate
from dp_pipeline.spec.encoding import FloatArray, IntArray, Names

Gaps = Mapping[tuple[str, str], float]

FEWEST_OTHERS = 3
"""Pairs outside a tree from which it can be seen what the tree tells."""
UNSEEN = 0.5
"""What is taken for it where there are fewer."""


FAR_BELOW = -30.0


def likely_by_uniform(noisy: FloatArray, reach: float) -> FloatArray:
    """What gaps are likely to be, by their noisy values.

    reach   the noise of the L∞ mechanism, of each of many by itself, is nearly uniform in ± reach

    The mean of G given G + noise, where G is exponential with the mean of the noisy gaps and so
    truncated to where it may be. A value below −reach is one of no gap.

    >>> likely_by_uniform(np.array([-9.0, 1.0, 50.0]), 5.0).round(1).tolist()
    [0.0, 2.8, 49.4]
    """
    mean = max(float(noisy.mean()), reach / 1000)
    low = np.maximum(0.0, noisy - reach)
    width = np.maximum(noisy + reach - low, 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        within = mean - width / np.expm1(width / mean)
    return np.asarray(low + np.where(width > 0, within, 0.0))


def likely_by_normal(noisy: FloatArray, deviation: float) -> FloatArray:
    """The same where the noise is Gaussian: the mean of a normal distribution that is truncated
    at 0, as an exponential prior moves it and does not bend it.

    >>> likely_by_normal(np.array([-9.0, 1.0, 50.0]), 5.0).round(1).tolist()
    [1.8, 3.7, 48.2]
    """
    from scipy.special import log_ndtr

    mean = max(float(noisy.mean()), deviation / 1000)
    place = (noisy - deviation**2 / mean) / deviation
    # x + φ/Φ; far below it is a difference of two large numbers, of which the series says more.
    near, far = np.maximum(place, FAR_BELOW), 1 / np.minimum(place, FAR_BELOW)
    above = near + np.exp(-(near**2 + log(2 * pi)) / 2 - log_ndtr(near))
    below = -far + 2 * far**3 - 10 * far**5
    return np.asarray(deviation * np.where(place > FAR_BELOW, above, below))


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
