"""MST: noisy tables of the pairs of a spanning tree, the winner of NIST's contest."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.encoding import Names
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import DependenceScore, Score
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.inference.clique_growth import CliqueGrowth
from dp_pipeline.inference.fitted_tree import FittedTree, OneWays
from dp_pipeline.models.tables.base import TableModel, clique_cells
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.synthetic_table import SyntheticTable

SIGMAS = 3  # deviations of its noise that a level's count has to reach to stay a level of its own

ITERATIONS = 2000
"""Most steps of the fit: a tree of pairs is quick to fit, and after 150 steps its error is a third
larger."""


@dataclass(frozen=True)
class Mst(TableModel):
    """A spanning tree of pairs far from independence, with a distribution fitted to their noisy
    tables.

    clique_cells   most cells of a pair

    A third of the budget for each of three: one-way tables, all alike; d − 1 draws of the next
    edge of a spanning tree, by the gap ‖c_ij − N̂·p̂_i·p̂_jᵀ‖₁ from independence; the tables of the
    drawn pairs, all alike. Levels whose noisy counts are below 3σ join their neighbours in the
    order of the codes until the group has 3σ, and a group is expanded by p̂_i in the end (as
    published all such levels are one group, equally frequent). Pairs over the cap are not drawn:
    then it is a forest, and with no pair the one-way tables get everything. With a declared δ
    the budget is ρ and noise Gaussian; else all is pure ε.

    *Proof.* Groups of levels follow from the one-way tables, and with released N̂ and p̂ one row
    moves a score by 1 (``DependenceScore``), times the distance. A table has Δ1 = Δ2 = 1, over
    groups too: a row is in one cell. Shares of the budget are public, and all add up to it. ∎

    Source: McKenna, Miklau, Sheldon, "Winning the NIST Contest: A scalable and general approach
    to differentially private synthetic data", Journal of Privacy and Confidentiality 11(3), 2021.
    """

    summary: ClassVar[str] = "noisy tables of the pairs of a spanning tree, and rows drawn from it"
    accounts_in_rho: ClassVar[bool] = True
    keeps_constraints: ClassVar[bool] = True

    clique_cells: int = clique_cells(1 << 16)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:  # noqa: ARG002
        """Return noisy tables, and rows drawn by ``rng`` from the tree fitted to them; spend the
        curator's whole budget, which counts and not ``epsilon``."""
        names, zeros = self.measured_attributes(curator.domain), self.zeros(curator.domain)
        cells = curator.domain.cell_count
        pairs = [pair for pair in combinations(names, 2) if cells(pair) <= self.clique_cells]
        stage_amount = curator.accountant.remaining / (3 if pairs else 1)
        one_ways = OneWays.of(
            curator.tabulate({(name,): stage_amount / len(names) for name in names})
        )
        rows, groupings = one_ways.rows, dict[str, Grouping]()
        for marginal in one_ways.measured:
            (name,), least = marginal.attributes, SIGMAS * marginal.variance**0.5 / rows
            groupings[name] = Grouping.by_share(
                marginal.table / rows, least=least, kinds=zeros.kinds(name)
            )
        coarse = curator.grouped(groupings)
        shares = {name: groupings[name].summed(one_ways.shares[name]) for name in names}
        sizes = dict(zip(names, coarse.domain.shape(names), strict=True))
        zeros = zeros.grouped(groupings)
        gaps: dict[Names, Score] = {}
        for i, j in pairs:
            expected = zeros.predict_shares((i, j), shares[i], shares[j])
            gaps[i, j] = DependenceScore.of_shares(rows, expected)
        growth = CliqueGrowth(sizes, self.clique_cells, zeros.pairs)
        tree = _draw_tree(coarse.open_scores(gaps), growth, pairs, stage_amount) if pairs else []
        remaining = curator.accountant.remaining
        # Constraints may leave room for fewer edges, or for none: then there is more for the rest.
        measured = coarse.tabulate({pair: remaining / len(tree) for pair in tree})
        if remaining and not tree:
            # Over levels, as every stored table of one attribute is.
            again = curator.tabulate({(name,): remaining / len(names) for name in names})
            one_ways = OneWays.of((*one_ways.measured, *again))
        answers = zeros.clear_forbidden_cells((*one_ways.grouped(groupings), *measured))
        fitted = FittedTree.of(
            answers, OneWays.within(answers, sizes), zeros, iterations=ITERATIONS
        )
        codes = fitted.draw_codes(self.rows_to_draw(fitted.rows), rng)
        columns = [
            groupings[name].expanded(column, one_ways.shares[name], rng)
            for name, column in zip(names, codes.T, strict=True)
        ]
        codes = np.stack(columns).T
        return self.released_table(
            curator.domain,
            rng,
            codes,
            (*one_ways.measured, *measured),
            fitted.model.tree.cliques,
            fitted.model.tree.links,
            groupings=groupings,
        )


def _draw_tree(
    session: ScoreSession, growth: CliqueGrowth, pairs: Sequence[Names], amount: Fraction
) -> list[Names]:
    """Draw a spanning tree, or a forest if no tree is possible, edge by edge by noisy max or, for a
    ρ, the exponential mechanism; return its edges.

    growth   graph with the edges that constraints need; without any, all ``pairs`` may be drawn
    amount   ε or ρ of all draws of a tree
    """
    import networkx as nx

    edges = nx.number_of_edges(nx.minimum_spanning_tree(nx.Graph(pairs)))
    components, tree = nx.utils.UnionFind(growth.sizes), list[Names]()
    for edge in range(edges):
        offered = [pair for pair in pairs if components[pair[0]] != components[pair[1]]]
        if growth.edges:
            offered = [pair for pair in offered if pair in growth.fitting_pairs]
        if not offered:
            break
        name = f"edge {edge + 1} of {edges}"
        tree.append(session.choose(name, offered, amount=amount / edges))
        components.union(*tree[-1])
        if growth.edges:
            growth = growth.with_edge(tree[-1])
    return tree
