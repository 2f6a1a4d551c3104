"""AIM-like: tables measured one after another, each where the model so far is most wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.amounts import PURE
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.parameters import decimal, integer, share
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, DependenceScore
from dp_pipeline.gate.selection import MAX_SCORE
from dp_pipeline.inference.clique_growth import CliqueGrowth
from dp_pipeline.inference.fitted_tree import FittedRows, FittedTree
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.models.tables.base import TableModel, clique_cells
from dp_pipeline.results.measurement import NoiseRate, NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable

QUICK, THOROUGH = 60, 2000
"""Most iterations of a fit between two rounds, and of the last fit."""


@dataclass(frozen=True)
class AimLike(TableModel):
    """Repeated rounds that measure the table predicted worst by the fitted model, and fit the model
    again.

    clique_cells      most cells of a clique of the fitted tree, or those that constraints link
    candidates        number of tables to choose from: all pairs, and as many triples as it leaves
                      room for, those with fewest cells; no table above ``clique_cells``
    rounds            T/d: a round begins with 1/T of the budget
    raise_by          what a round gets more, as a factor, once its noise was too much
    patience          it is too much where a new table moves the model by less than so many times
                      the noise
    measuring_share   α: share of a round that measures; the rest chooses

    All one-way tables first, at α/T of the budget each. A round chooses r with nearly the highest
    ‖M_r(D) − M_r(p̂)‖₁ − b·n_r, p̂ the fitted tree, n_r cells, b their mean |noise|; measures it;
    fits the tree again. Tables have to fit into cliques under the cap. A last round takes what
    is left. With a declared δ in ρ, noise is Gaussian and a choice is the exponential mechanism;
    else all is pure ε, with Laplace noise and noisy max.

    *Proof.* What is compared with exact tables was released: N̂, p̂, and b and n_r are public, so
    one row moves a score by 1 (``DependenceScore``), times the distance. A table has Δ1 = Δ2 = 1.
    What is asked, and for how much, is a function of earlier answers; charges add up to all there
    is. ∎

    Not as published: weights of 1 for all tables; the first step and its raise (16 and 4 there);
    what the tree predicts for three attributes of different cliques is counted in drawn rows.

    Source: McKenna, Mullins, Sheldon, Miklau, "AIM: An Adaptive and Iterative Mechanism for
    Differentially Private Synthetic Data", PVLDB 15(11), 2022, Algorithm 4.
    """

    summary: ClassVar[str] = "tables measured one by one, where the model so far is most wrong"
    accounts_in_rho: ClassVar[bool] = True
    keeps_constraints: ClassVar[bool] = True

    clique_cells: int = clique_cells(8192)
    candidates: int = integer(2000, at_least=1, at_most=10**5, measuring=True)
    rounds: int = integer(4, at_least=1, at_most=16, measuring=True)
    raise_by: Fraction = decimal(Fraction(2), at_least=1, at_most=16)
    patience: Fraction = decimal(Fraction(1, 2), at_least=0, at_most=4)
    measuring_share: Fraction = share(Fraction(9, 10))

    def most_cells(self, domain: Domain) -> int:
        """Return the most cells of all measured tables together: of one-way marginals, and of one
        table of ``clique_cells`` in each round."""
        sizes = domain.shape(self.measured_attributes(domain))
        return sum(sizes) + self.rounds * len(sizes) * self.clique_cells

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:  # noqa: ARG002
        """Return noisy tables, and rows drawn by ``rng`` from the tree fitted to them; spend the
        curator's whole budget, which counts and not ``epsilon``."""
        sizes, zeros = self.sizes(curator.domain), self.zeros(curator.domain)
        # Constraints may link more cells than a clique may have: tables have to fit beside them.
        cap = max(self.clique_cells, zeros.most_cells(sizes))
        growth = CliqueGrowth(sizes, cap, zeros.pairs)
        candidates, unfit = self._candidates(sizes), set[Names]()
        step = curator.accountant.epsilon / (self.rounds * len(sizes))
        price = curator.accountant.remaining / len(sizes)
        # Where there is nothing else to measure, single attributes get everything.
        price *= self.measuring_share / self.rounds if candidates else 1
        state = _State.of(growth, curator.tabulate({(name,): price for name in sizes}), zeros)
        while remaining := curator.accountant.remaining:
            step = remaining if remaining <= 2 * step else step
            fitting = state.growth.fitting_pairs
            offered = [
                names
                for names in candidates
                if names not in unfit and fitting.issuperset(combinations(names, 2))
            ]
            if not offered:
                # No table has fitted into a clique: single attributes are measured again.
                again = curator.tabulate({(name,): remaining / len(sizes) for name in sizes})
                state = _State.of(state.growth, (*state.measured, *again), zeros)
                break
            expected = {names: state.fitted.predict_counts(names) for names in offered}
            rate = NoiseRate(curator.currency != PURE, curator.distance)
            noise = rate.mean_noise(float(step * self.measuring_share))
            chosen = _worst(curator, expected, noise, amount=step * (1 - self.measuring_share))
            grown = state.grow_graph(chosen)
            if grown is None:
                unfit.add(chosen)
                continue
            (table,) = curator.tabulate({chosen: step * self.measuring_share})
            state = _State.of(grown, (*state.measured, table), zeros)
            moved = np.abs(state.fitted.predict_counts(chosen) - expected[chosen]).sum()
            if moved <= self.patience * noise * table.table.size:
                step *= self.raise_by
        return self._sample(curator, state, rng)

    def _candidates(self, sizes: Mapping[str, int]) -> list[Names]:
        def cells(names: Names) -> int:
            return prod(sizes[name] for name in names)

        pairs = list(combinations(sizes, 2))
        triples = sorted(combinations(sizes, 3), key=cells)[: max(0, self.candidates - len(pairs))]
        return [names for names in (*pairs, *triples) if cells(names) <= self.clique_cells]

    def _sample(self, curator: Curator, state: "_State", rng: Generator) -> SyntheticTable:
        sizes, zeros = state.growth.sizes, state.fitted.zeros
        fitted = FittedRows(state.measured, sizes, zeros=zeros).fit_tree(iterations=THOROUGH)
        codes, tree = fitted.draw_codes(self.rows_to_draw(fitted.rows), rng), fitted.model.tree
        return self.released_table(
            curator.domain, rng, codes, state.measured, tree.cliques, tree.links
        )


@dataclass(frozen=True)
class _State:
    """The measured tables after a round, with the tree fitted to them."""

    growth: CliqueGrowth
    measured: tuple[NoisyMarginal, ...]
    fitted: FittedTree

    @classmethod
    def of(
        cls, growth: CliqueGrowth, measured: tuple[NoisyMarginal, ...], zeros: StructuralZeros
    ) -> Self:
        fitted = FittedRows(measured, growth.sizes, zeros=zeros).fit_tree(iterations=QUICK)
        return cls(growth, measured, fitted)

    def grow_graph(self, names: Names) -> CliqueGrowth | None:
        """Return the graph with edges added between all these attributes, so that one clique holds
        them; None if a clique would then exceed the limit of cells."""
        growth, pairs = self.growth, tuple(combinations(names, 2))
        for pair in pairs:
            growth = growth if pair in growth.edges else growth.with_edge(pair)
        return growth if set(pairs) <= set(growth.edges) else None


def _worst(
    curator: Curator, expected: Mapping[Names, FloatArray], noise: float, *, amount: Fraction
) -> Names:
    """Choose the table whose error most exceeds the noise of measuring it, by noisy max or, for a
    ρ, the exponential mechanism; return its attributes.

    expected   attributes → counts that the model predicts
    noise      expected |noise| of one cell, in rows
    amount     ε or ρ of the choice
    """
    gaps = {
        names: DependenceScore(np.rint(UNIT * table).astype(np.int64))
        for names, table in expected.items()
    }
    penalties = {
        names: min(MAX_SCORE, round(UNIT * noise * table.size)) for names, table in expected.items()
    }
    session = curator.open_scores(gaps)
    return session.choose("next table", tuple(gaps), amount=amount, penalties=penalties)
