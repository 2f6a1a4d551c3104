"""How one_shot finds the pairs that tables are made for."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, Gap, Independence
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.models.tables.one_shot.plan import Pair, Plan, Planning
from dp_pipeline.spec.encoding import FloatArray, Names

MEAN_GAP = Fraction(1, 100)

VECTOR_AT_MOST = 0.25
"""Gaps are measured, not picked, while their noise is at most this share of the rows."""

ROOM_OF_MEASURED, ROOM_OF_PICKED = 2.0, 1.0
"""How many times its noise a table's rows must be: measured gaps are less sure than picks."""

PICKED_GAP = 3
"""A picked pair's gap, in mean gaps."""


def gaps_by_shares(
    planning: Planning,
    plan: Plan,
    coarse: Curator,
    shares: Mapping[str, FloatArray],
    *,
    rows: float,
) -> tuple[dict[Pair, float], float]:
    """How far every pair is from independence, in rows, about; and the room that tables need.

    coarse   asks about groups of levels
    shares   attribute → released shares of its groups

    All gaps are measured at once where their noise allows; else a forest of pairs with large
    gaps is picked, and their mean gap bought.
    """
    pairs, price = planning.pairs, planning.amount * plan.structure
    session = coarse.open_scores(
        {(a, b): Gap.of_product(rows, shares[a], shares[b]) for a, b in pairs}
    )
    # One row moves every gap: all of them cost what one costs at a share of the amount.
    each = float(price) / len(pairs)
    if planning.rate.concentrated or planning.rate.deviation(each) <= VECTOR_AT_MOST * rows:
        noisy = session.measure_all(amount=price) / UNIT
        gaps = shrunk(noisy, planning.rate.variance(each))
        return dict(zip(pairs, gaps.tolist(), strict=True)), ROOM_OF_MEASURED
    total = session.measure_total(amount=planning.amount * MEAN_GAP)
    mean = max(0.0, total / UNIT / len(pairs))
    picked = _forest(session, planning, plan, price)
    gaps_of = dict.fromkeys(pairs, mean) | dict.fromkeys(picked, PICKED_GAP * mean)
    return gaps_of, ROOM_OF_PICKED


def _forest(session: ScoreSession, planning: Planning, plan: Plan, price: Fraction) -> list[Pair]:
    """Pairs without a cycle, each drawn for a share of the price."""
    import networkx as nx

    penalties = _penalties(planning, plan)
    forest, picked = nx.utils.UnionFind(planning.sizes), list[Pair]()
    for draw in range(plan.edges):
        among = [(a, b) for a, b in planning.pairs if forest[a] != forest[b]]
        if not among:
            break
        a, b = session.choose(
            f"pair {draw + 1} of {plan.edges}",
            among,
            amount=price / plan.edges,
            penalties=penalties,
        )
        forest.union(a, b)
        picked.append((a, b))
    return picked


def few_gaps(planning: Planning, plan: Plan, curator: Curator) -> dict[Pair, float]:
    """Pairs whose dependence is more than their noise, found without one-way marginals; each is
    taken to be off by half the rows.

    Drawn by U_ij less half the noise, at 0 for no pair; the first time that no pair is drawn
    ends it.
    """
    # U of one attribute is 0 whatever its counts: what a pair has to be better than.
    nothing = (next(iter(planning.sizes)),)
    session = curator.open_scores(dict.fromkeys((nothing, *planning.pairs), Independence()))
    penalties = {pair: penalty // 2 for pair, penalty in _penalties(planning, plan).items()}
    left: list[Names] = list(planning.pairs)
    price = planning.amount * plan.structure / plan.edges
    picked: dict[Pair, float] = {}
    for draw in range(plan.edges):
        found = session.choose(
            f"pair {draw + 1} of {plan.edges}",
            [nothing, *left],
            amount=price,
            penalties=penalties,
        )
        if found == nothing:
            break
        left.remove(found)
        picked[found[0], found[1]] = planning.rows / 2
    return picked


def _penalties(planning: Planning, plan: Plan) -> dict[Names, int]:
    return {pair: planning.penalty(plan, pair) for pair in planning.pairs}


def shrunk(values: FloatArray, variance: float) -> FloatArray:
    """Noisy values, moved to their mean by as much of their spread as is noise (James, Stein 1961).

    >>> shrunk(np.array([1.0, 3.0]), 0.5).tolist()
    [1.5, 2.5]
    """
    spread = float(values.var())
    kept = max(0.0, 1 - variance / spread) if spread > 0 else 0.0
    return np.asarray(values.mean() + kept * (values - values.mean()))
