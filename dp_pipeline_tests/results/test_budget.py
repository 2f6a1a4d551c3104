"""Shares of ε are exact, and what is spent is proved by the scale that was drawn."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded
from dp_pipeline.results.accountant import (
    LAPLACE,
    NOISY_MAX,
    TREE_PATHS,
    Accountant,
    Spend,
    biased_splits,
    root_weights,
    split,
)

fuzz = settings(derandomize=True, deadline=None, max_examples=80)
epsilons = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
weights = st.lists(
    st.integers(1, 10**9) | st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
    min_size=1,
    max_size=40,
)


def laplace(epsilon: Fraction, *, sensitivity: int = 1) -> Spend:
    return Spend("cells", LAPLACE, epsilon, sensitivity, sensitivity / epsilon)


# Splitting.


@fuzz
@given(epsilon=epsilons, weights=weights)
def test_shares_add_up_exactly_and_are_in_proportion(
    epsilon: Fraction, weights: list[int | Fraction]
) -> None:
    shares = split(epsilon, weights)
    assert sum(shares) == epsilon
    assert all(
        a * v == b * w for a, b, w, v in zip(shares, shares[1:], weights, weights[1:], strict=False)
    )


@pytest.mark.parametrize("weights", [[], [0], [1, 0], [-1, 2], [0.5], [1, 0.5], [Fraction(0)]])
def test_weights_that_are_not_positive_rationals_are_refused(weights: list) -> None:
    with pytest.raises(BoundaryViolation, match="budget"):
        split(Fraction(1), weights)


@fuzz
@given(sizes=st.lists(st.integers(1, 10**9), max_size=5))
def test_root_weights_are_square_roots_in_thousandths(sizes: list[int]) -> None:
    for size, weight in zip(sizes, root_weights(sizes), strict=True):
        assert weight == isqrt(size * 10**6) >= 1000
        assert weight**2 <= size * 10**6 < (weight + 1) ** 2


# Spends.


def test_the_epsilon_of_a_scale_is_what_the_mechanism_proves() -> None:
    assert laplace(Fraction(1, 3), sensitivity=5).epsilon_of_scale == Fraction(1, 3)
    chosen = Spend("edge", NOISY_MAX, Fraction(1), 3, Fraction(6))
    assert chosen.epsilon_of_scale == 1
    tree = Spend("tree", TREE_PATHS, Fraction(1), 3, Fraction(3))
    assert tree.epsilon_of_scale == 1


@pytest.mark.parametrize(
    ("fan", "factor"),
    [(2, Fraction(3)), (4, Fraction(7, 3)), (8, Fraction(15, 7)), (16, Fraction(31, 15))],
)
def test_biased_splits_cost_the_factor_of_their_children(fan: int, factor: Fraction) -> None:
    splits = Spend("splits", biased_splits(fan), Fraction(1), 5, 5 * factor)
    assert splits.epsilon_of_scale == 1
    Accountant(Fraction(1)).charge(splits)


# Charging.


@fuzz
@given(epsilon=epsilons, weights=weights)
def test_shares_of_a_budget_spend_it_all(epsilon: Fraction, weights: list[int | Fraction]) -> None:
    accountant = Accountant(epsilon)
    charges = [laplace(share) for share in split(epsilon, weights)]
    for charge in charges:
        accountant.charge(charge)
    accountant.require_all_spent()
    assert (accountant.spent, accountant.remaining) == (epsilon, 0)
    assert accountant.spends == tuple(charges)
    with pytest.raises(BudgetExceeded):
        accountant.charge(laplace(Fraction(1, 10**30)))


def test_a_refused_charge_says_what_is_left_and_records_nothing() -> None:
    accountant = Accountant(Fraction(1))
    accountant.charge(laplace(Fraction(2, 3)))
    with pytest.raises(BudgetExceeded, match=r"cells .* requested ε=0\.5, spent 0\.6.*, left 0\.3"):
        accountant.charge(laplace(Fraction(1, 2)))
    assert accountant.spent == Fraction(2, 3)
    accountant.charge(laplace(Fraction(1, 3)))


GOOD = laplace(Fraction(1, 2), sensitivity=2)
UNPROVEN = {
    "scale too small": replace(GOOD, scale=Fraction(399, 100)),
    "scale too large": replace(GOOD, scale=Fraction(5)),
    "sensitivity too large": replace(GOOD, sensitivity=3),
    "noisy max without its factor 2": replace(GOOD, mechanism=NOISY_MAX),
    "splits at the scale of one count": replace(GOOD, mechanism=biased_splits(2)),
    "splits of a tree with fewer children": replace(
        GOOD, mechanism=biased_splits(2), scale=2 * Fraction(7, 3) / GOOD.epsilon
    ),
    "splits into three": replace(
        GOOD, mechanism=biased_splits(3), scale=2 * Fraction(5, 2) / GOOD.epsilon
    ),
    "a tree whose scale is that of one share": replace(
        GOOD, mechanism=TREE_PATHS, scale=4096 * GOOD.scale
    ),
    "a tree that forgets the distance": replace(GOOD, mechanism=TREE_PATHS, sensitivity=1),
    "unknown mechanism": replace(GOOD, mechanism="Noisy Max"),
    "no epsilon": replace(GOOD, epsilon=Fraction(0)),
    "negative epsilon": replace(GOOD, epsilon=Fraction(-1, 2)),
    "negative scale and sensitivity": replace(GOOD, sensitivity=-2, scale=Fraction(-4)),
    "epsilon that is a float": replace(GOOD, epsilon=0.5),  # type: ignore[arg-type]
    "scale that is a float": replace(GOOD, scale=4.0),  # type: ignore[arg-type]
    "scale of nothing": replace(GOOD, scale=Fraction(0)),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_a_charge_that_its_scale_does_not_prove_is_refused(name: str) -> None:
    accountant = Accountant(Fraction(1))
    with pytest.raises(BoundaryViolation, match="cells: expected"):
        accountant.charge(UNPROVEN[name])
    assert accountant.spends == ()
    accountant.charge(GOOD)


def test_charges_made_together_are_recorded_all_or_none() -> None:
    accountant = Accountant(Fraction(1))
    half, rest = laplace(Fraction(1, 2)), laplace(Fraction(2, 3))
    with pytest.raises(BudgetExceeded, match=r"requested ε=0\.6.*, spent 0\.5, left 0\.5"):
        accountant.charge(half, rest)
    with pytest.raises(BoundaryViolation):
        accountant.charge(half, UNPROVEN["scale too small"])
    assert accountant.spends == ()
    accountant.charge(half, half)
    assert accountant.spends == (half, half)


def test_a_charge_not_spent_yet_keeps_the_release_open() -> None:
    left = [2, 1]

    def settled() -> None:
        if left:
            raise BoundaryViolation(f"session: expected nothing left, got {len(left)}")

    accountant = Accountant(Fraction(1))
    accountant.charge(laplace(Fraction(1)), settled=settled)
    while left:
        with pytest.raises(BoundaryViolation, match="expected nothing left"):
            accountant.require_all_spent()
        left.pop()
    accountant.require_all_spent()


def test_a_refused_charge_asks_for_no_settling() -> None:
    def settled() -> None:
        raise BoundaryViolation("session: expected nothing left, got all of it")

    accountant = Accountant(Fraction(1))
    with pytest.raises(BudgetExceeded):
        accountant.charge(laplace(Fraction(2)), settled=settled)
    accountant.charge(laplace(Fraction(1)))
    accountant.require_all_spent()


def test_an_unspent_rest_is_refused_however_small() -> None:
    accountant = Accountant(Fraction(1))
    accountant.charge(laplace(1 - Fraction(1, 10**30)))
    with pytest.raises(BoundaryViolation, match="expected charges of exactly ε=1"):
        accountant.require_all_spent()


@pytest.mark.parametrize("epsilon", [0, 1, 0.5, Fraction(0), Fraction(-1), "1", None])
def test_a_budget_is_a_positive_fraction(epsilon: object) -> None:
    with pytest.raises(BoundaryViolation, match="budget"):
        Accountant(epsilon)  # type: ignore[arg-type]
