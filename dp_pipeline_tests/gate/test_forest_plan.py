"""The heaviest forest is the heaviest, and no score of a plan moves further than it says."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import floor

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.gate.selection import ForestPlan, heaviest_forest
from dp_pipeline.spec.errors import BoundaryViolation

PAIRS = list(combinations("abcd", 2))
fuzz = settings(derandomize=True, deadline=None, max_examples=80)
weights = st.lists(st.integers(-5, 9), min_size=len(PAIRS), max_size=len(PAIRS)).map(np.array)


def by_brute_force(gains: np.ndarray, edges: int, *, cycles: bool = False) -> int:
    """The best of all sets of pairs, or of those without a cycle."""
    best = 0
    for many in range(min(edges, len(PAIRS)) + 1):
        for chosen in combinations(range(len(PAIRS)), many):
            forest = nx.Graph([PAIRS[at] for at in chosen])
            if cycles or not chosen or nx.is_forest(forest):
                best = max(best, int(np.maximum(gains[list(chosen)], 0).sum()))
    return best


@fuzz
@given(gains=weights, edges=st.integers(0, 5))
def test_kruskal_finds_the_heaviest_forest(gains: np.ndarray, edges: int) -> None:
    assert heaviest_forest(PAIRS, gains, edges) == by_brute_force(gains, edges)


@fuzz
@given(gains=weights, edges=st.integers(0, 8))
def test_with_cycles_the_best_pairs_count(gains: np.ndarray, edges: int) -> None:
    plan = ForestPlan(edges, {}, Fraction(1), 0, cycles=True)
    assert plan.score(PAIRS, gains) == by_brute_force(gains, edges, cycles=True)


@fuzz
@given(
    gains=weights,
    moves=st.lists(st.integers(-3, 3), min_size=len(PAIRS), max_size=len(PAIRS)).map(np.array),
    edges=st.integers(0, 5),
    weight=st.fractions(0, 3, max_denominator=7),
    offset=st.integers(-9, 9),
    cycles=st.booleans(),
)
def test_a_plan_moves_by_at_most_its_linf(
    gains: np.ndarray,
    moves: np.ndarray,
    edges: int,
    weight: Fraction,
    offset: int,
    cycles: bool,
) -> None:
    plan = ForestPlan(edges, {}, weight, offset, cycles=cycles)
    moved = plan.score(PAIRS, gains + moves) - plan.score(PAIRS, gains)
    assert abs(moved) <= plan.linf(int(np.abs(moves).max()))


def test_the_linf_of_a_plan_is_reached_and_less_is_caught() -> None:
    plan = ForestPlan(3, {}, Fraction(3, 2), 7)
    gains = np.full(len(PAIRS), 10)
    moved = plan.score(PAIRS, gains + 1) - plan.score(PAIRS, gains)
    assert moved == plan.linf(1) - 1 == floor(Fraction(9, 2))
    assert plan.score(PAIRS, gains + 2) - plan.score(PAIRS, gains + 1) == plan.linf(1) == 5
    # One pair's distance for a whole forest, and rounding forgotten.
    assert moved > ForestPlan(1, {}, Fraction(3, 2), 7).linf(1)


def test_the_linf_of_pairs_that_may_form_cycles_is_reached_by_more_pairs_than_a_forest_has() -> (
    None
):
    plan = ForestPlan(len(PAIRS), {}, Fraction(1), 0, cycles=True)
    gains = np.full(len(PAIRS), 10)
    moved = plan.score(PAIRS, gains + 1) - plan.score(PAIRS, gains)
    assert moved == plan.linf(1) == len(PAIRS)
    # What a forest of the four attributes moves by would not be enough.
    assert moved > ForestPlan(3, {}, Fraction(1), 0, cycles=True).linf(1)


def test_a_plan_is_worth_its_weight_rounded_down_less_its_offset() -> None:
    gains = np.array([5, 4, 0, 0, 0, 0])
    assert ForestPlan(2, {}, Fraction(1, 2), 3).score(PAIRS, gains) == 1
    assert ForestPlan(1, {}, Fraction(1, 2), 3).score(PAIRS, gains) == -1
    assert ForestPlan(0, {}, Fraction(1, 2), 3).score(PAIRS, gains) == -3


@pytest.mark.parametrize(
    "parts",
    [
        (-1, {}, Fraction(1), 0),
        (True, {}, Fraction(1), 0),
        (1, {}, 1.0, 0),
        (1, {}, Fraction(-1), 0),
        (1, {}, Fraction(1), 0.5),
    ],
)
def test_numbers_that_the_proof_is_not_about_are_refused(parts: tuple) -> None:
    with pytest.raises(BoundaryViolation, match="plan: expected"):
        ForestPlan(*parts)
