"""A noisy Markov network: edges between attributes, drawn while their cliques stay small."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil

from dp_pipeline.gate.score_session import ScoreSession
from dp_pipeline.release.clique_growth import CliqueGrowth

Names = tuple[str, ...]


@dataclass(frozen=True)
class NetworkPlan:
    """What the network and its tables may cost, fixed before the rows are asked.

    filter   ε of the comparison of all pairs; 0 where pairs are not compared
    draws    number of edges that are drawn
    draw     ε of one draw
    tables   ε of the tables, without what draws that are not made leave over
    fixed    whether every draw is made, though nothing be left to draw: as published
    """

    filter: Fraction
    draws: int
    draw: Fraction
    tables: Fraction
    fixed: bool = False

    @property
    def total(self) -> Fraction:
        """ε of everything: parallel nowhere, so it adds up."""
        return self.filter + self.draws * self.draw + self.tables


@dataclass(frozen=True)
class Network:
    """A drawn network, and how many draws it took."""

    growth: CliqueGrowth
    draws: int


def pairs_of(names: Names) -> tuple[Names, ...]:
    """All pairs of attributes, in order.

    >>> pairs_of(("a", "b", "c"))
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    return tuple(combinations(names, 2))


def draws_of(kappa: Fraction, attributes: int) -> int:
    """k = ⌈κ·(d − 1)⌉, the edges of κ spanning trees.

    >>> draws_of(Fraction(3, 2), 16)
    23
    """
    return ceil(kappa * (attributes - 1))


def paper_plan(variant: str, epsilon: Fraction, *, attributes: int, kappa: Fraction) -> NetworkPlan:
    """What PrivHD's ``published``, ``composed`` or ``peeling`` asks: of ε and declared sizes.

    ε1 = 0.1, or ε/2 up to ε = 0.1. Without a pair the tables get all.

    >>> str(paper_plan("published", Fraction("0.8"), attributes=16, kappa=Fraction(2)).total)
    '41/5'
    """
    draws = draws_of(kappa, attributes)
    if not draws:
        return NetworkPlan(Fraction(0), 0, Fraction(0), epsilon)
    price = Fraction(1, 10) if epsilon > Fraction(1, 10) else epsilon / 2
    half, tables = price / 2, epsilon - price
    pairs = attributes * (attributes - 1) // 2
    if variant == "published":
        return NetworkPlan(pairs * half, draws, half, tables, fixed=True)
    if variant == "composed":
        return NetworkPlan(half, draws, half / draws, tables)
    return NetworkPlan(Fraction(0), draws, price / draws, tables)


def high_pass(
    session: ScoreSession, thresholds: Mapping[Names, int], *, epsilon: Fraction
) -> tuple[Names, ...]:
    """Pairs whose noisy score is at least their threshold: Algorithm 2, its first half.

    thresholds   of every candidate of the session, in its order and unit

    *Proof.* One unit moves the scores of all pairs at once, so the comparison is one measure
    of a vector with Δ1 = Σ Δ_i, and costs ε; the thresholds are public. ∎
    """
    noisy = session.measure_all(amount=epsilon)
    return tuple(
        pair
        for (pair, threshold), score in zip(thresholds.items(), noisy.tolist(), strict=True)
        if score >= threshold
    )


def drawn_network(
    session: ScoreSession, growth: CliqueGrowth, pairs: Collection[Names], plan: NetworkPlan
) -> Network:
    """Edges with nearly the highest scores, one draw each: Algorithm 2, its second half.

    pairs   to draw from, each at most once, as long as its cliques fit; a pair inside a
            clique would change nothing

    Which pairs are left out depends on earlier draws and public sizes alone. Where none is
    left it ends; a fixed plan draws from all pairs then, and does not use the answer.
    """
    left = dict.fromkeys(pairs)
    for draw in range(plan.draws):
        useful = growth.fitting - growth.held
        among = [pair for pair in left if pair in useful]
        if not among and not plan.fixed:
            return Network(growth, draw)
        chosen = session.choose(
            f"edge {draw + 1}", among or pairs_of(tuple(growth.sizes)), amount=plan.draw
        )
        if among:
            del left[chosen]
            growth = growth.with_edge(chosen)
    return Network(growth, plan.draws)
