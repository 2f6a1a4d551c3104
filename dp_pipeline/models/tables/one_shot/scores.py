"""Private queries for the dependence between pairs of attributes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, DependenceScore, Independence
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.fitted_tree import OneWays
from dp_pipeline.inference.noisy_scores import NoisyScores
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.models.tables.one_shot.plan import (
    ERROR_OF_SCORES,
    MEAN_SHARE,
    PICKED_PART,
    PICKS,
    Pair,
    Plan,
    Planning,
)
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal


def noisy_mean_dependence(planning: Planning, curator: Curator) -> float:
    """Spend ``MEAN_SHARE`` of the budget; return the noisy mean dependence of all pairs, in rows.

    *Proof.* Each U moves by less than 2 a row, a sum of p of them by less than 2p. ∎
    """
    session = curator.open_scores({pair: Independence() for pair in planning.pairs})
    total = session.measure_total(amount=planning.amount * MEAN_SHARE)
    return 2 * total / UNIT / len(planning.pairs)


@dataclass(frozen=True)
class OneWayStage:
    """The one-way marginals after their first measurement, with the groups of their levels.

    measured   one noisy table for each attribute
    marginals  their number of rows and shares of levels, without negative ones
    sizes      attribute → number of its levels; a level of missing values whose noisy rows are
               below √2 deviations of their noise is left out
    groupings  attribute → groups of all its levels
    paid       attribute → amount that its marginal was measured for
    """

    measured: tuple[NoisyMarginal, ...]
    marginals: OneWays
    sizes: Mapping[str, int]
    groupings: Mapping[str, Grouping]
    paid: Mapping[str, float]

    @cached_property
    def shares(self) -> dict[str, FloatArray]:
        """The share of the rows in each group of levels, by attribute."""
        return {
            n: grouping.summed(self.marginals.shares[n]) for n, grouping in self.groupings.items()
        }

    def dependence(self, scores: Mapping[Pair, float]) -> Dependence:
        """Return the dependence between all attributes that scores of their pairs imply, in rows.

        scores   pair → expected dependence, in rows
        """
        spread = {name: 1 - float((share**2).sum()) for name, share in self.shares.items()}
        return Dependence.of(self.groupings, scores, spread=spread, rows=self.marginals.rows)


def _of_pairs(pairs: Sequence[Pair], means: FloatArray) -> dict[Pair, tuple[float, float]]:
    return {pair: (mean, square) for pair, mean, square in zip(pairs, *means.tolist(), strict=True)}


@dataclass(frozen=True)
class DependenceQueries:
    """The private queries of the dependence scores G_ij = ‖c_ij − N̂p̂_i p̂_jᵀ‖₁ of pairs.

    They are over groups of levels; where constraints make cells empty, the distance is from what
    p̂ and the constraints predict.

    *Proof.* N̂ and p̂ are released, so a row moves each score by 1: all p of them by 1 in L∞, which
    the L∞ mechanism pays for, and by √p in L2. ∎

    curator   the curator of the rows, over levels and not over groups
    zeros     cells that constraints make empty, over levels
    """

    planning: Planning
    curator: Curator
    stage: OneWayStage
    zeros: StructuralZeros

    def measure(self, plan: Plan, chances: FloatArray) -> dict[Pair, tuple[float, float]]:
        """Measure scores by the plan; return the expected dependence of every pair, in rows, and
        its expected square.

        chances   probability of each possible mean dependence, up to a factor
        """
        if plan.scored == "all":
            return self._measure_all(plan.scores)
        if plan.scored == "heaviest":
            return self._measure_some(self.planning.heaviest, plan.scores, chances)
        return self._measure_some(self._pick_pairs(plan), plan.scores * (1 - PICKED_PART), chances)

    def _measure_some(
        self, pairs: Sequence[Pair], share: Fraction, chances: FloatArray
    ) -> dict[Pair, tuple[float, float]]:
        """Measure the scores of some pairs with a share of the budget; return what ``measure``
        does, for all pairs.

        Each other pair is expected to have an equal part of what is left of the mean dependence,
        distributed exponentially. The mean of squares is taken over all possible means. What is
        left is at least the least of these: measured pairs that use a mean up do not show that
        others are independent.
        """
        every = self.planning.pairs
        scores = self._noisy(pairs, share).expected(self.planning.means)[0]
        means = np.array(self.planning.means)
        measured, others = float(scores[0].sum()), max(1, len(every) - len(pairs))
        rows = len(every) * float((means * chances).sum() / chances.sum()) - measured
        unscored = np.maximum((len(every) * means - measured) / others, means.min())
        square = 2 * float((unscored**2 * chances).sum() / chances.sum())
        return dict.fromkeys(every, (max(0.0, rows) / others, square)) | _of_pairs(pairs, scores)

    def _pick_pairs(self, plan: Plan) -> list[Pair]:
        """Choose up to four pairs with large scores, by noisy max or, for a ρ, the exponential
        mechanism; return them.

        They form no cycle, since paths already predict the pair that would close it."""
        import networkx as nx

        pairs, forest = self.planning.pairs, nx.utils.UnionFind(self.planning.sizes)
        session, price = self._session(pairs), self.planning.amount * plan.scores * PICKED_PART
        left = float(self.curator.accountant.remaining)
        sizes = {name: grouping.size for name, grouping in self.stage.groupings.items()}
        cells = np.array([sizes[a] * sizes[b] for a, b in pairs], dtype=np.float64)
        penalties = self.planning.table_noise(cells, left) + [self._floor(pair) for pair in pairs]
        whole = np.rint(UNIT * penalties).astype(np.int64).tolist()
        units: dict[Names, int] = dict(zip(pairs, whole, strict=True))
        picked = list[Pair]()
        for place in range(PICKS):
            among = [pair for pair in pairs if forest[pair[0]] != forest[pair[1]]]
            if not among:
                break
            words = f"pair {place + 1} of {PICKS}"
            first, second = session.choose(words, among, amount=price / PICKS, penalties=units)
            forest.union(first, second)
            picked.append((first, second))
        return picked

    def _measure_all(self, share: Fraction) -> dict[Pair, tuple[float, float]]:
        """Measure the scores of all pairs with a share of the budget; return what ``measure`` does.

        Pairs outside the tree of the strongest are taken to be near to what that tree predicts, if
        this makes their noisy scores likelier."""
        pairs = self.planning.pairs
        noisy = self._noisy(pairs, share)
        likely, _ = noisy.expected(self.planning.means)
        # Noise of a one-way marginal is in all its pairs: these tell as much as d numbers.
        power = 2 / (len(self.planning.sizes) - 1)
        likely[1] = noisy.expected(self.planning.means, power=power)[0][1]
        scores = dict(zip(pairs, likely[0].tolist(), strict=True))
        predicted = self.stage.dependence(scores).predicted_by_tree
        outside = np.array(
            [index for index, pair in enumerate(pairs) if pair in predicted], dtype=int
        )
        if len(outside):
            prediction = np.array([predicted[pairs[place]] for place in outside])
            of_outside = noisy.of(outside)
            near, evidence = of_outside.expected_near(prediction)
            if evidence > of_outside.expected(self.planning.means)[1]:
                likely[0, outside] = near[0]
        return _of_pairs(pairs, likely)

    def _noisy(self, pairs: Sequence[Pair], share: Fraction) -> NoisyScores:
        session, price = self._session(pairs), self.planning.amount * share
        floor = np.array([self._floor(pair) for pair in pairs])
        if self.planning.rate.concentrated:
            noisy = session.measure_all(amount=price)
        else:
            noisy = session.measure_together(epsilon=price)
        return NoisyScores(noisy / UNIT, floor, self.planning.score_noise(len(pairs), share))

    def _session(self, pairs: Sequence[Pair]) -> ScoreSession:
        rows, shares = self.stage.marginals.rows, self.stage.shares
        zeros = self.zeros.grouped(self.stage.groupings)
        return self.curator.grouped(self.stage.groupings).open_scores(
            {
                (a, b): DependenceScore.of_shares(
                    rows, zeros.predict_shares((a, b), shares[a], shares[b])
                )
                for a, b in pairs
            }
        )

    def _floor(self, pair: Pair) -> float:
        """Return the part of a score, in rows, that the noise of one-way marginals causes.

        In p̂_i p̂_jᵀ, the noise of p̂_i is in the column of each level of j, by its share."""
        first, other = (self.stage.shares[name] for name in pair)
        of_one, of_other = (self._variances[name] for name in pair)
        variances = np.outer(of_one, other**2) + np.outer(first**2, of_other)
        return ERROR_OF_SCORES * float(np.sqrt(variances).sum())

    @cached_property
    def _variances(self) -> dict[str, FloatArray]:
        """The variance of the noise in each group, by attribute, without the part that all groups
        share: the number of rows corrects that part."""
        paid, variance = self.stage.paid, self.planning.rate.variance
        return {
            name: np.asarray(
                variance(paid[name])
                * (1 - 1 / grouping.size)
                * np.bincount(grouping.group_of_level[: self.stage.sizes[name]])
            )
            for name, grouping in self.stage.groupings.items()
        }
