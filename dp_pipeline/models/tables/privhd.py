"""PrivHD: noisy tables of the cliques of a noisy Markov network, joined along a junction tree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, comb
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Names
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.config.parameters import choice, decimal, share
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, DependenceScore, MutualInformation, Score
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.inference.clique_growth import CliqueGrowth, bigger_cliques
from dp_pipeline.inference.fitted_tree import OneWays, estimate_rows
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.tables.base import Sizes, TableModel, clique_cells
from dp_pipeline.results.accountant import root_weights, split
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable


@dataclass(frozen=True)
class NetworkPlan:
    """The budget of a network and its tables, fixed before the rows are read.

    filter   ε of the comparison of all pairs; 0 where pairs are not compared
    draws    number of edges that are drawn
    draw     ε of one draw
    tables   ε of the tables, without that of draws that are not made
    fixed    whether every draw is made, even with no edge left to draw: as published
    """

    filter: Fraction
    draws: int
    draw: Fraction
    tables: Fraction
    fixed: bool = False

    @property
    def total(self) -> Fraction:
        """The total ε of the network and its tables."""
        return self.filter + self.draws * self.draw + self.tables


def draw_count(kappa: Fraction, attributes: int) -> int:
    """Return k = ⌈κ·(d − 1)⌉, the edges of κ spanning trees.

    >>> draw_count(Fraction(3, 2), 16)
    23
    """
    return ceil(kappa * (attributes - 1))


def high_pass(
    session: ScoreSession, thresholds: Mapping[Names, int], *, epsilon: Fraction
) -> tuple[Names, ...]:
    """Spend ε on the scores of all pairs; return the pairs whose noisy score reaches its threshold
    (Algorithm 2, first half).

    thresholds   pair → threshold, for all pairs of the session in their order, in units of scores

    *Proof.* One unit moves the scores of all pairs at once, so the comparison is one measure
    of a vector with Δ1 = Σ Δ_i, and costs ε; the thresholds are public. ∎
    """
    noisy = session.measure_all(amount=epsilon)
    return tuple(
        pair
        for (pair, threshold), score in zip(thresholds.items(), noisy.tolist(), strict=True)
        if score >= threshold
    )


PATIENCE = 2
"""Draws of no edge after which no other edge is drawn: noise alone draws none now and then."""


def draw_network(
    session: ScoreSession,
    growth: CliqueGrowth,
    pairs: Iterable[Names],
    plan: NetworkPlan,
    *,
    no_edge: tuple[Names, ...] = (),
    thresholds: Mapping[Names, int] | None = None,
) -> tuple[CliqueGrowth, int]:
    """Draw edges with nearly the highest scores privately; return the graph that they make, and the
    number of draws (Algorithm 2, second half).

    pairs        to draw from, each at most once, as long as its cliques fit; a pair inside a
                 clique would change nothing
    no_edge      the entry of the session that stands for no edge, or ()
    thresholds   pair → what its score must exceed, in units of scores

    Which pairs are left out depends on earlier draws and public sizes alone. Without a pair it
    ends; a fixed plan then draws from all pairs, and ignores the answer.
    """
    undrawn, refusals = dict.fromkeys(pairs), 0
    for draw in range(plan.draws):
        fitting = growth.fitting_pairs - growth.clique_pairs
        offered = [pair for pair in undrawn if pair in fitting]
        if refusals == PATIENCE or not (offered or plan.fixed):
            return growth, draw
        among = (*no_edge, *offered) if offered else tuple(combinations(growth.sizes, 2))
        chosen = session.choose(f"edge {draw + 1}", among, amount=plan.draw, penalties=thresholds)
        if chosen in no_edge:
            refusals += 1
        elif offered:
            del undrawn[chosen]
            growth = growth.with_edge(chosen)
    return growth, plan.draws


@dataclass(frozen=True)
class _Structure:
    """A privately drawn network, with the parameters for measuring its tables.

    epsilon      ε of the tables
    most_cells   most cells of a clique that others are merged into
    one_ways     one-way tables that were measured already
    rows         number of rows where it is public, or None
    """

    growth: CliqueGrowth
    epsilon: Fraction
    most_cells: int
    one_ways: tuple[NoisyMarginal, ...] = ()
    rows: int | None = None


@dataclass(frozen=True)
class PrivHd(TableModel):
    """A network of dependent attributes, triangulated, with noisy tables of its cliques.

    variant           ``tuned``, or one of the paper's: ``published``, ``composed``, ``peeling``
    kappa             κ: at most k = ⌈κ·(d − 1)⌉ edges are drawn; None is 5 where tuned, else 2
    structure_share   tuned: share of ε that draws the edges
    one_way_share     tuned: share of ε for the tables of single attributes
    phi               φ: published and composed keep pairs of I ≥ φ²·(min(|Ω_i|, |Ω_j|) − 1)/2
                      bits, as JTree has it: the paper's own threshold is lost
    clique_cells      most cells of a clique

    The five algorithms of the paper: edges are drawn (2), the graph is triangulated (3, in
    min-fill order), its cliques are joined by a maximum spanning tree (4), linked cliques are
    merged while that lowers the expected error (5), and noisy tables of the m cliques, each
    at 1/m of what is left, are made consistent, projected and sampled from the root (1).

    ``tuned``: one-way tables first, ε_i ∝ √|Ω_i|; with their N̂ and p̂ the score of a pair is
    G = ‖c_ij − N̂·p̂_i·p̂_jᵀ‖₁ (Δ = 1), ε1 = structure_share·ε pays for k draws, but for no more
    than N̂·ε1/10 (or (d − 1)/2), and a clique has at most N̂·ε2/(4d) cells, N̂ in protected
    units. The one-ways count as tables.
    The others draw by the mutual information I, for neighbours that replace a row, with n
    public: benchmark rows alone. ε1 = 0.1, or ε/2 up to ε = 0.1, and ε11 = ε12 = ε1/2.
    ``published``: all p = d(d − 1)/2 pairs are compared with noise for one (ε11 each), and
    each draw uses all of ε12. ``composed``: the noise of the comparison is p times as large,
    a draw costs ε12/k. ``peeling``: no comparison, a draw costs ε1/k.

    *Proof.* Draws: a noisy max each, of scores with their sensitivity (``gate.scores``), among
    pairs that public sizes and earlier draws leave. Tables: one row is in one cell, Δ1 = 1
    under add/remove (2 when a row is replaced), times the distance; the cliques are functions of
    the draws. What draws that were not made leave over goes to the tables, so all adds up to
    ε, exactly. The rest is post-processing. ∎
    As published it is not ε-DP: p comparisons at ε11, k draws at ε12 and the tables compose to
    p·ε11 + k·ε12 + ε2, and this is what it claims and spends: 8.2 on 16 attributes at ε = 0.8
    (120·0.05 + 30·0.05 + 0.7). Its tables have noise 2m/ε2, twice the printed one: what is
    printed does not cover a row that is replaced. A draw is by noisy max, at the same ε.

    Source: Zhang, Chen, Jin, Meng, "Private High-Dimensional Data Publication with Junction
    Tree", J. Computer Research and Development 55(12), 2018.
    """

    summary: ClassVar[str] = "noisy tables of the cliques of a noisy Markov network, joined"
    keeps_constraints: ClassVar[bool] = True

    variant: str = choice("tuned", "published", "composed", "peeling")
    kappa: Fraction | None = decimal(None, at_least=1, at_most=16)
    structure_share: Fraction = share(Fraction(3, 10))
    one_way_share: Fraction = share(Fraction(1, 10))
    phi: Fraction = share(Fraction(2, 10))
    clique_cells: int = clique_cells(1024)

    def check(self, domain: Domain) -> None:
        super().check(domain)
        total = self.structure_share + self.one_way_share
        if total >= 1:
            raise DeclarationError(
                "PrivHd needs structure_share and one_way_share below 1 together, not "
                f"{float(total):g}: lower one of them"
            )

    @property
    def needs_public_rows(self) -> bool:
        """Whether the model reads the exact number of rows: for the paper's variants."""
        return self.variant != "tuned"

    def guarantee(self, epsilon: Fraction, domain: Domain | None = None) -> PrivacyGuarantee:
        """Return the guarantee of ε, or for ``published`` of the larger ε that it spends on the
        domain's attributes; all variants but ``tuned`` are for benchmarks alone.

        BoundaryViolation for ``published`` without a domain."""
        if not self.needs_public_rows:
            return PrivacyGuarantee("dp", epsilon)
        if self.variant != "published":
            return PrivacyGuarantee(
                "dp", epsilon, "mutual information needs a public number of rows"
            )
        if domain is None:
            raise BoundaryViolation(
                "The guarantee of PrivHd needs the attributes of its domain, but it has none"
            )
        plan = self._paper_plan(epsilon, len(self.measured_attributes(domain)))
        return PrivacyGuarantee(
            "dp",
            plan.total,
            f"pairs are compared with noise for one and {plan.draws} draws use a whole share "
            "each: comparisons, draws and tables compose to more than ε",
        )

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:
        """Return noisy tables of cliques, and rows drawn by ``rng`` from them."""
        sizes = self.sizes(curator.domain)
        learn = self._tuned if self.variant == "tuned" else self._by_information
        structure = learn(curator, sizes, epsilon)
        tree = JunctionTree.of(structure.growth.cliques, sizes)
        tree = bigger_cliques(tree, sizes, most_cells=structure.most_cells)
        amounts = split(structure.epsilon, [1] * len(tree.cliques))
        cliques = curator.tabulate(dict(zip(tree.cliques, amounts, strict=True)))
        measured = (*structure.one_ways, *cliques)
        return self.sample_tree(curator, rng, measured, tree, rows=structure.rows)

    def _tuned(self, curator: Curator, sizes: Sizes, epsilon: Fraction) -> _Structure:
        """Measure one-way tables and draw a network by distances from independence, for which the
        number of rows need not be public."""
        prices = split(epsilon * self.one_way_share, root_weights(tuple(sizes.values())))
        one_ways = curator.tabulate(
            {(name,): price for name, price in zip(sizes, prices, strict=True)}
        )
        remaining = epsilon * (1 - self.one_way_share)
        rows = estimate_rows(one_ways)
        units = Fraction(rows, curator.distance)
        # Draws cost ε1 together. Of N̂ noisy units and d attributes there are ⌈N̂·ε1/10⌉ draws, but
        # at least ⌈(d − 1)/2⌉ and at most ⌈κ·(d − 1)⌉.
        structure_epsilon = epsilon * self.structure_share
        most = max(draw_count(Fraction(1, 2), len(sizes)), ceil(units * structure_epsilon / 10))
        draws = min(draw_count(self.kappa or Fraction(5), len(sizes)), most)
        tables = epsilon * (1 - self.one_way_share - self.structure_share)
        plan = NetworkPlan(Fraction(0), draws, structure_epsilon / max(1, draws), tables)
        growth = CliqueGrowth(sizes, self._useful_cells(sizes, units * plan.tables))
        if plan.draws:
            expected = OneWays.of(one_ways).shares
            scores: dict[Names, Score] = {
                (i, j): DependenceScore.of_product(rows, expected[i], expected[j])
                for i, j in combinations(sizes, 2)
            }
            growth, draws = draw_network(curator.open_scores(scores), growth, scores, plan)
            remaining -= draws * plan.draw
        most_cells = self._useful_cells(sizes, units * remaining)
        return _Structure(growth, remaining, most_cells, one_ways)

    def _useful_cells(self, sizes: Sizes, signal: Fraction) -> int:
        """Return the most cells of a clique whose rows exceed the noise of about d tables.

        signal   N̂·ε of all tables, N̂ in protected units
        """
        return min(self.clique_cells, int(signal / (4 * len(sizes))))

    def _by_information(self, curator: Curator, sizes: Sizes, epsilon: Fraction) -> _Structure:
        """Draw a network by mutual information, for which the number of rows is public."""
        rows, plan = curator.public_rows(), self._paper_plan(epsilon, len(sizes))
        growth, remaining = CliqueGrowth(sizes, self.clique_cells), plan.tables
        if plan.draws:
            pairs: tuple[Names, ...] = tuple(combinations(sizes, 2))
            session = curator.open_scores(
                {
                    (i, j): MutualInformation(rows, binary=min(sizes[i], sizes[j]) <= 2)
                    for i, j in pairs
                }
            )
            if plan.filter:
                # Of n·I, in the unit of scores.
                thresholds: dict[Names, int] = {
                    (i, j): int(rows * UNIT * self.phi**2 * (min(sizes[i], sizes[j]) - 1) / 2)
                    for i, j in pairs
                }
                pairs = high_pass(session, thresholds, epsilon=plan.filter)
            growth, draws = draw_network(session, growth, pairs, plan)
            remaining += (plan.draws - draws) * plan.draw
        return _Structure(growth, remaining, self.clique_cells, rows=rows)

    def _paper_plan(self, epsilon: Fraction, attributes: int) -> NetworkPlan:
        draws = draw_count(self.kappa or Fraction(2), attributes)
        if not draws:
            return NetworkPlan(Fraction(0), 0, Fraction(0), epsilon)
        structure_epsilon = Fraction(1, 10) if epsilon > Fraction(1, 10) else epsilon / 2
        half, tables = structure_epsilon / 2, epsilon - structure_epsilon
        if self.variant == "published":
            return NetworkPlan(comb(attributes, 2) * half, draws, half, tables, fixed=True)
        if self.variant == "composed":
            return NetworkPlan(half, draws, half / draws, tables)
        return NetworkPlan(Fraction(0), draws, structure_epsilon / draws, tables)
