"""DependenceQueries: which pairs of attributes depend on each other, as one_shot asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, DependenceScore, Independence
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.fitted_tree import OneWays
from dp_pipeline.inference.noisy_scores import NoisyScores
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.models.tables.one_shot.plan import ERROR_OF_SCORES, Pair, Planning
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal


def noisy_mean_dependence(planning: Planning, curator: Curator, share: Fraction) -> float:
    """Return twice the noisy mean of U over all pairs, in rows: U is about half of a dependence.

    *Proof.* Each U moves by less than 2 a row, a sum of p of them by less than 2p. ∎
    """
    session = curator.open_scores({pair: Independence() for pair in planning.pairs})
    total = session.measure_total(amount=planning.amount * share)
    return 2 * total / UNIT / len(planning.pairs)


@dataclass(frozen=True)
class OneWayStage:
    """One-way marginals as they were measured first.

    measured   one an attribute
    marginals  what they say together
    groupings  attribute → groups of its levels
    paid       attribute → amount that its marginal was measured for
    """

    measured: tuple[NoisyMarginal, ...]
    marginals: OneWays
    groupings: Mapping[str, Grouping]
    paid: Mapping[str, float]

    @cached_property
    def shares(self) -> dict[str, FloatArray]:
        """Attribute → shares of its groups."""
        return {n: one.summed(self.marginals.shares[n]) for n, one in self.groupings.items()}

    def dependence(self, scores: Mapping[Pair, float]) -> Dependence:
        """How attributes depend on each other by the scores of their pairs, in rows."""
        spread = {name: 1 - float((share**2).sum()) for name, share in self.shares.items()}
        return Dependence.of(self.groupings, scores, spread=spread, rows=self.marginals.rows)


@dataclass(frozen=True)
class DependenceQueries:
    """The scores G_ij = ‖c_ij − N̂p̂_i p̂_jᵀ‖₁ of all pairs, over groups of levels; where
    constraints empty cells, the distance from what follows from these.

    *Proof.* N̂ and p̂ are released, so a row moves each score by 1: all p of them by 1 in L∞, which
    the L∞ mechanism pays for, and by √p in L2. ∎

    curator   asks about levels
    zeros     empty cells over levels
    """

    planning: Planning
    curator: Curator
    stage: OneWayStage
    zeros: StructuralZeros

    def measure(self, share: Fraction) -> dict[Pair, float]:
        """Return the expected score of every pair, in rows, for that share of the amount.

        Pairs outside the tree of the strongest are near to what that tree predicts, where noisy
        scores are likelier so.
        """
        pairs, noisy = self.planning.pairs, self._noisy(share)
        likely, _ = noisy.expected(self.planning.means)
        scores = dict(zip(pairs, likely.tolist(), strict=True))
        predicted = self.stage.dependence(scores).by_tree
        outside = np.array([at for at, pair in enumerate(pairs) if pair in predicted], dtype=int)
        if len(outside):
            prediction = np.array([predicted[pairs[place]] for place in outside])
            others = noisy.of(outside)
            near, evidence = others.expected_near(prediction)
            if evidence > others.expected(self.planning.means)[1]:
                likely[outside] = near
        return dict(zip(pairs, likely.tolist(), strict=True))

    def _noisy(self, share: Fraction) -> NoisyScores:
        session, price = self._session(), self.planning.amount * share
        many = len(self.planning.pairs)
        beside = np.array([self._beside(pair) for pair in self.planning.pairs])
        if self.planning.rate.concentrated:
            noisy = session.measure_all(amount=price)
        else:
            noisy = session.measure_together(epsilon=price)
        return NoisyScores(noisy / UNIT, beside, self.planning.score_noise(many, share))

    def _session(self) -> ScoreSession:
        rows, shares = self.stage.marginals.rows, self.stage.shares
        zeros = self.zeros.grouped(self.stage.groupings)
        return self.curator.grouped(self.stage.groupings).open_scores(
            {
                (a, b): DependenceScore.of_shares(
                    rows, zeros.expected((a, b), shares[a], shares[b])
                )
                for a, b in self.planning.pairs
            }
        )

    def _beside(self, pair: Pair) -> float:
        """Rows that the noise of one-way marginals puts into a score, about: of p̂_i p̂_jᵀ that of
        p̂_i is in the column of each level of j, by its share.
        """
        one, other = (self.stage.shares[name] for name in pair)
        of_one, of_other = (self._variances[name] for name in pair)
        variances = np.outer(of_one, other**2) + np.outer(one**2, of_other)
        return ERROR_OF_SCORES * float(np.sqrt(variances).sum())

    @cached_property
    def _variances(self) -> dict[str, FloatArray]:
        """Attribute → variance of the noise in each of its groups. What all have in common is known
        from the number of rows.
        """
        paid, variance = self.stage.paid, self.planning.rate.variance
        return {
            name: np.asarray(variance(paid[name]) * (1 - 1 / one.size) * np.bincount(one.groups))
            for name, one in self.stage.groupings.items()
        }
