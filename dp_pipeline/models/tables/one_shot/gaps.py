"""Gaps: what one_shot asks to find out which pairs of attributes depend on each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum, sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, Gap
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.fitted_tree import OneWays
from dp_pipeline.inference.noisy_gaps import GapNoise, NoisyGaps
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.models.tables.one_shot.plan import OF_PICKS, Pair, Plan, Planning
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal

OF_DEVIATION = 0.75
"""Mean of |noise| in standard deviations of it: √½ of Laplace, √(2/π) of Gaussian noise."""

FAR = 5.0
"""Standard deviations of Gaussian noise that it next to never exceeds."""


@dataclass(frozen=True)
class Begun:
    """What one-way marginals have told.

    first      as they were measured
    ways       what they say together
    groupings  attribute → groups of its levels
    before     attribute → amount that its marginal was measured for
    """

    first: tuple[NoisyMarginal, ...]
    ways: OneWays
    groupings: Mapping[str, Grouping]
    before: Mapping[str, float]

    @property
    def shares(self) -> dict[str, FloatArray]:
        """Attribute → shares of its groups."""
        return {name: one.summed(self.ways.shares[name]) for name, one in self.groupings.items()}

    def depends(self, gaps: Mapping[Pair, float]) -> Dependence:
        """How attributes depend on each other by the gaps of their pairs, in rows."""
        spread = {name: 1 - float((share**2).sum()) for name, share in self.shares.items()}
        return Dependence.of(self.groupings, gaps, spread=spread, rows=self.ways.rows)


@dataclass(frozen=True)
class GapQuestions:
    """How far pairs are from independence, or from what follows from empty cells, over groups of
    levels and against released one-way marginals: a row moves a gap by 1.

    curator   asks about levels
    zeros     empty cells over levels
    """

    planning: Planning
    curator: Curator
    begun: Begun
    zeros: StructuralZeros

    def asked(self, plan: Plan) -> dict[Pair, float]:
        """Likely gaps in rows: of all pairs measured together, or of some that are picked; of the
        others the mean that is left for them, or 0 where it was not measured. Nothing is picked
        where the mean of all says that even the best pairs would tell less than picking them costs.
        """
        price = self.planning.amount * plan.structure
        if not plan.picks:
            return self._measured(self.planning.pairs, price)
        mean = self._mean(plan)
        if plan.mean_gap and mean < self.planning.least_mean_gap:
            return dict.fromkeys(self.planning.pairs, 0.0)
        picked = self._picked(plan.picks, price * OF_PICKS)
        measured = self._measured(picked, price * (1 - OF_PICKS))
        others = max(1, len(self.planning.pairs) - len(picked))
        rest = max(0.0, mean * len(self.planning.pairs) - fsum(measured.values())) / others
        return {pair: measured.get(pair, rest) for pair in self.planning.pairs}

    def _mean(self, plan: Plan) -> float:
        """Of the gaps of all pairs, likely: each of their noisy ones is √(g² + b²) for gaps of g
        rows and b that the noise of one-way marginals puts there. 0 where it is not asked.
        """
        if not plan.mean_gap:
            return 0.0
        pairs = self.planning.pairs
        total = self._session(pairs).measure_total(amount=self.planning.amount * plan.mean_gap)
        beside = fsum(map(self._beside, pairs)) / len(pairs)
        noisy = max(0, total) / UNIT / len(pairs)
        return sqrt(max(0.0, noisy**2 - beside**2))

    def _picked(self, many: int, price: Fraction) -> list[Pair]:
        """Pairs with large gaps, each drawn by the exponential mechanism; no circle of them, as
        paths tell about the pair that would close it. In their order among all.
        """
        import networkx as nx

        pairs = self.planning.pairs
        session, forest = self._session(pairs), nx.utils.UnionFind(self.planning.sizes)
        picked = set[Names]()
        for draw in range(many):
            among = [pair for pair in pairs if forest[pair[0]] != forest[pair[1]]]
            if not among:
                break
            what = f"pair {draw + 1} of {many}"
            found = session.choose(what, among, amount=price / many)
            forest.union(*found)
            picked.add(found)
        return [pair for pair in pairs if pair in picked]

    def _measured(self, pairs: Sequence[Pair], price: Fraction) -> dict[Pair, float]:
        """Likely gaps of these pairs, measured together. Those outside the tree of the strongest
        are near to what that tree says of them, where this can be believed.
        """
        noisy = self._noisy(pairs, price)
        likely = noisy.likely()
        said = self.begun.depends(dict(zip(pairs, likely.tolist(), strict=True))).by_tree
        outside = np.array([at for at, pair in enumerate(pairs) if pair in said], dtype=int)
        near = noisy.of(outside).likely_near(np.array([said[pairs[at]] for at in outside]))
        if near is not None:
            likely[outside] = near
        return dict(zip(pairs, likely.tolist(), strict=True))

    def _noisy(self, pairs: Sequence[Pair], price: Fraction) -> NoisyGaps:
        session, rate = self._session(pairs), self.planning.rate
        beside = np.array([self._beside(pair) for pair in pairs])
        if rate.concentrated:
            # One row moves every gap: all of them cost what one costs at a share of the amount.
            noisy = session.measure_all(amount=price)
            noise: GapNoise = _Normal(rate.scale(sqrt(len(pairs)), float(price)))
        else:
            noisy = session.measure_together(epsilon=price)
            noise = _InCube(len(pairs), rate.scale(1.0, float(price)))
        return NoisyGaps(noisy / UNIT, beside, noise)

    def _session(self, pairs: Sequence[Pair]) -> ScoreSession:
        rows, shares = self.begun.ways.rows, self._shares
        zeros = self.zeros.grouped(self.begun.groupings)
        coarse = self.curator.grouped(self.begun.groupings)
        return coarse.open_scores(
            {
                (a, b): Gap.of_shares(rows, zeros.expected((a, b), shares[a], shares[b]))
                for a, b in pairs
            }
        )

    @cached_property
    def _shares(self) -> dict[str, FloatArray]:
        return self.begun.shares

    def _beside(self, pair: Pair) -> float:
        """Rows that the noise of one-way marginals puts into a gap, about: of p̂_i p̂_jᵀ that of
        p̂_i is in the column of each level of j, by its share.
        """
        one, other = (self._shares[name] for name in pair)
        of_one, of_other = (self._variances[name] for name in pair)
        variances = np.outer(of_one, other**2) + np.outer(one**2, of_other)
        return OF_DEVIATION * float(np.sqrt(variances).sum())

    @cached_property
    def _variances(self) -> dict[str, FloatArray]:
        """Attribute → variance of the noise in every group. What all have in common is known from
        the number of rows.
        """
        rate, before = self.planning.rate, self.begun.before
        return {
            name: np.asarray(
                rate.variance(before[name]) * np.bincount(one.groups) * (1 - 1 / one.size)
            )
            for name, one in self.begun.groupings.items()
        }


@dataclass(frozen=True)
class _Normal:
    """Gaussian noise."""

    deviation: float

    @property
    def reach(self) -> float:
        return FAR * self.deviation

    @property
    def variance(self) -> float:
        return self.deviation**2

    def density(self, off: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-((off / self.deviation) ** 2) / 2))


@dataclass(frozen=True)
class _InCube:
    """The noise of the L∞ mechanism in one of ``many`` numbers by itself: uniform in ± R, where R
    has a Gamma distribution of shape many + 1 and that scale.
    """

    many: int
    scale: float

    @property
    def reach(self) -> float:
        """Four standard deviations above the mean of R."""
        return self.scale * (self.many + 1 + 4 * sqrt(self.many + 1))

    @property
    def variance(self) -> float:
        """A third of the mean of R²."""
        return self.scale**2 * (self.many + 1) * (self.many + 2) / 3

    def density(self, off: FloatArray) -> FloatArray:
        """The mean of 1/R over all R beyond; but for a factor."""
        from scipy.special import gammaincc

        return np.asarray(gammaincc(self.many, np.abs(off) / self.scale))
