"""JTree: a graph of the attributes that depend on each other, and noisy tables of its cliques."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.encoding import Names
from dp_pipeline.config.parameters import decimal, integer, share
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, Independence
from dp_pipeline.gate.selection import clip_score
from dp_pipeline.inference.clique_growth import CliqueGrowth, bigger_cliques
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.models.base import planning_units
from dp_pipeline.models.tables.base import TableModel, clique_cells
from dp_pipeline.models.tables.privhd import NetworkPlan, draw_count, draw_network
from dp_pipeline.results.accountant import root_weights, split
from dp_pipeline.results.synthetic_table import SyntheticTable


@dataclass(frozen=True)
class JTree(TableModel):
    """A junction tree over attributes whose dependence exceeds a threshold, with noisy tables of
    its cliques.

    structure_share  share of ε that draws the edges
    correlation      φ: an edge is worth its place from this Cramér's V on
    edges            κ: at most k = ⌈κ(d − 1)⌉ edges are drawn
    usefulness       θ: rows of an average cell, in scales of its noise, at least
    clique_cells     most cells of a table, however large ε is
    nominal_rows     N, a declared constant; None pays 2 % of ε for a noisy one

    The paper joins pairs whose mutual information is at least
    θ_ij = φ²·min(|Ω_i| − 1, |Ω_j| − 1)/2, found with a sparse vector that is not private for
    any finite ε. Here every edge is drawn by noisy max of U_ij − N·√(θ_ij/2) over the pairs,
    at 0 for no edge, with ε1/k each. U/n is half the L1 distance from independence; by
    Pinsker's inequality mutual information is at least 2(U/n)², so what passes U/n ≥ √(θ_ij/2)
    passes the paper's threshold. A drawn pair is not drawn again, nor one whose cliques would
    have more than N·ε2/(θ·d) cells, nor one inside a clique: it would change no table.
    The draws end early where no pair fits, or the second time that no edge is drawn; the shares
    of those that are not made go to the tables.

    The graph is triangulated, its cliques are joined to a tree, and neighbours are merged where
    that lowers the expected error. The tables share ε2 in proportion to √cells, are made
    consistent and projected, and rows are drawn down the tree. With constraints, the distribution
    that keeps them is fitted to the tables in place of that.

    *Proof.* The scores of all pairs come from one look, and each draw is a noisy max of its own:
    one row moves U by less than 2 (``gate.scores.Independence``), "no edge" and the thresholds
    by nothing, so a draw costs ε1/k. Which pairs fit is a function of sizes, N and earlier
    draws. One row is in one cell of each table: Δ1 = 1 under add/remove, times the distance. The
    tables share what N and the draws left, so the total is ε, exactly. The rest is
    post-processing. ∎

    Source: Chen, Xiao, Zhang, Xu, "Differentially Private High-Dimensional Data Publication
    via Sampling-Based Inference" (KDD 2015), with its first step replaced.
    """

    summary: ClassVar[str] = "noisy tables of the cliques of a dependency graph, joined to a tree"
    keeps_constraints: ClassVar[bool] = True

    structure_share: Fraction = share(Fraction(3, 10))
    correlation: Fraction = share(Fraction(2, 10))
    edges: Fraction = decimal(Fraction(2), at_least=0, at_most=100)
    usefulness: int = integer(4, at_least=1, at_most=10**6, measuring=True)
    clique_cells: int = clique_cells(8192)
    nominal_rows: int | None = integer(None, at_least=1, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:
        """Return noisy tables of a junction tree, and rows drawn by ``rng`` along it."""
        sizes = self.sizes(curator.domain)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        draws = draw_count(self.edges, len(sizes))
        price = remaining * self.structure_share / max(1, draws)
        signal = units * float(remaining * (1 - self.structure_share))
        cells = int(min(self.clique_cells, signal / (self.usefulness * len(sizes))))
        growth = CliqueGrowth(sizes, most_cells=cells)
        # U of one attribute is 0 whatever its counts: what an edge has to be better than.
        no_edge = ((next(iter(sizes)),),)
        pairs: tuple[Names, ...] = tuple(combinations(sizes, 2))
        session = curator.open_scores(dict.fromkeys((*no_edge, *pairs), Independence()))
        rows = units * curator.distance
        thresholds = {pair: self._threshold(pair, growth, rows) for pair in pairs}
        plan = NetworkPlan(Fraction(0), draws, price, remaining - draws * price)
        growth, draws = draw_network(
            session, growth, pairs, plan, no_edge=no_edge, thresholds=thresholds
        )
        tree = JunctionTree.of(growth.cliques, sizes)
        tree = bigger_cliques(tree, sizes, most_cells=cells)
        shares = split(remaining - draws * price, root_weights(tree.cells(sizes)))
        measured = curator.tabulate(dict(zip(tree.cliques, shares, strict=True)))
        return self.sample_tree(curator, rng, measured, tree)

    def _threshold(self, pair: Names, growth: CliqueGrowth, rows: float) -> int:
        """Return what a pair's score must reach, N·√(θ_ij/2) as in the class, in the integer units
        of scores; ``rows`` is N."""
        smaller = min(growth.sizes[name] for name in pair) - 1
        return clip_score(round(UNIT * rows * float(self.correlation) * sqrt(smaller) / 2))
