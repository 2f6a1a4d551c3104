"""MST: noisy tables of the pairs of a spanning tree, the winner of NIST's contest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import Gap
from dp_pipeline.inference.fitted_tree import FittedTree, OneWays
from dp_pipeline.inference.junction_tree import triangulated_cliques
from dp_pipeline.models.tables.base import TableModel, clique_cells
from dp_pipeline.models.tables.privhd import pairs_of
from dp_pipeline.release.derived_attribute import Grouping
from dp_pipeline.release.measurement import NoisyMarginal
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.encoding import FloatArray, Names

SIGMAS = 3
"""Deviations of its noise that a level's count has to reach to stay a level of its own."""

ITERATIONS = 2000
"""A tree of pairs is quick to fit, and an unconverged fit costs a third."""


@dataclass(frozen=True)
class Mst(TableModel):
    """A spanning tree of pairs far from independent, fitted to noisy tables of its pairs.

    attributes        discrete attributes, d of them; all when empty
    synthetic_rows    rows to draw; None: the number that all tables estimate
    clique_cells      most cells of a pair

    A third of the budget for each of three: one-way tables, all alike; d − 1 draws of the next
    edge of a spanning tree, by the gap ‖c_ij − N̂·p̂_i·p̂_jᵀ‖₁ from independence; the tables of the
    drawn pairs, all alike. Levels whose noisy counts are below 3σ join their neighbours in the
    order of the codes until the group has 3σ, and a group is expanded by p̂_i in the end (as
    published all such levels are one group, equally frequent). Pairs over the cap are not drawn:
    then it is a forest, and with no pair the one-way tables get everything. With a declared δ
    the budget is ρ and noise Gaussian; else all is pure ε.

    *Proof.* Groups of levels follow from the one-way tables, and with released N̂ and p̂ one row
    moves a gap by 1 (``Gap``), times the distance. A table has Δ1 = Δ2 = 1, over groups too: a row
    is in one cell. Shares of the budget are public numbers, and all of them add up to it. ∎

    Source: McKenna, Miklau, Sheldon, "Winning the NIST Contest: A scalable and general approach
    to differentially private synthetic data", Journal of Privacy and Confidentiality 11(3), 2021.
    """

    summary: ClassVar[str] = "noisy tables of the pairs of a spanning tree, and rows drawn from it"
    accounts_in_rho: ClassVar[bool] = True

    clique_cells: int = clique_cells(1 << 16)

    def fit(
        self,
        curator: Curator,
        *,
        epsilon: Fraction,  # noqa: ARG002
        rng: np.random.Generator,
    ) -> SyntheticTable:
        """Noisy tables and rows of the tree fitted to them; spends all that the accountant has,
        which is ``epsilon`` where no δ is declared.
        """
        import networkx as nx

        names = self.chosen(curator.domain)
        pairs = self._pairs(curator.domain, names)
        third = curator.accountant.left / (3 if pairs else 1)
        ways = OneWays.of(curator.tabulate({(name,): third / len(names) for name in names}))
        groupings = {one.attributes[0]: _frequent(one, rows=ways.rows) for one in ways.measured}
        coarse = curator.grouped(groupings)
        shares = {name: groupings[name].summed(ways.shares[name]) for name in names}
        tree = _spanning(coarse, pairs, shares, rows=ways.rows, amount=third) if pairs else []
        measured = coarse.tabulate({pair: third / len(tree) for pair in tree})
        sizes = dict(zip(names, coarse.domain.shape(names), strict=True))
        fitted = FittedTree.of(
            triangulated_cliques(nx.Graph(tree), sizes),
            (*ways.grouped(groupings), *measured),
            sizes,
            iterations=ITERATIONS,
        )
        codes = fitted.codes(self.rows_to_draw(fitted.rows), rng)
        columns = [
            groupings[name].expanded(column, ways.shares[name], rng)
            for name, column in zip(names, codes.T, strict=True)
        ]
        return SyntheticTable(
            attributes=names,
            codes=np.stack(columns, axis=1),
            measured=(*ways.measured, *measured),
            cliques=fitted.tree.cliques,
            links=fitted.tree.links,
            domain=curator.domain,
            seed=int(rng.integers(1 << 62)),
        )

    def _pairs(self, domain: Domain, names: Names) -> list[Names]:
        """Pairs under the cap."""
        return [pair for pair in pairs_of(names) if domain.cell_count(pair) <= self.clique_cells]


def _frequent(one: NoisyMarginal, *, rows: float) -> Grouping:
    """Levels that stand out from their noise stay alone, others join their neighbours."""
    shares = one.table / rows
    return Grouping.by_share(shares, least=SIGMAS * one.variance**0.5 / rows)


def _spanning(
    coarse: Curator,
    pairs: Sequence[Names],
    shares: Mapping[str, FloatArray],
    *,
    rows: float,
    amount: Fraction,
) -> list[Names]:
    """Edges of a tree, or of a forest where ``pairs`` allow no tree, each drawn by its gap."""
    import networkx as nx

    session = coarse.open_scores(
        {(i, j): Gap.of_product(rows, shares[i], shares[j]) for i, j in pairs}
    )
    edges = nx.number_of_edges(nx.minimum_spanning_tree(nx.Graph(pairs)))
    forest, drawn = nx.utils.UnionFind(shares), list[Names]()
    for at in range(edges):
        among = [pair for pair in pairs if forest[pair[0]] != forest[pair[1]]]
        drawn.append(session.choose(f"edge {at + 1} of {edges}", among, amount=amount / edges))
        forest.union(*drawn[-1])
    return drawn
