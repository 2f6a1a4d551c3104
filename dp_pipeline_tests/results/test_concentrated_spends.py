"""A release that pays in ρ: its own mechanisms at their proven ρ, pure ones at ε²/2."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded
from dp_pipeline.results.accountant import (
    EXPONENTIAL,
    GAUSSIAN,
    LAPLACE,
    NOISY_MAX,
    TREE_PATHS,
    Accountant,
    Spend,
    biased_splits,
)

ZCDP = Currency(Fraction(1, 10**9))
ONE = Fraction(1)
fuzz = settings(derandomize=True, deadline=None, max_examples=80)
amounts = st.fractions(min_value=Fraction(1, 10**6), max_value=10**3)


def gaussian(rho: Fraction, *, l2_squared: int = 1) -> Spend:
    return Spend("cells", GAUSSIAN, rho, l2_squared, l2_squared / (2 * rho), "zcdp")


def exponential(rho: Fraction, *, scale: Fraction) -> Spend:
    return Spend("edge", EXPONENTIAL, rho, 3, scale, "zcdp")


def pure(epsilon: Fraction, mechanism: str = LAPLACE, factor: Fraction = ONE) -> Spend:
    return Spend("cells", mechanism, epsilon, 1, factor / epsilon)


@fuzz
@given(rhos=st.lists(amounts, min_size=1, max_size=5), epsilons=st.lists(amounts, max_size=5))
def test_rho_adds_up_and_epsilon_enters_as_half_its_square(
    rhos: list[Fraction], epsilons: list[Fraction]
) -> None:
    budget = sum(rhos) + sum(epsilon**2 / 2 for epsilon in epsilons)
    accountant = Accountant(budget, ZCDP)
    accountant.charge(*map(gaussian, rhos))
    accountant.charge(*map(pure, epsilons))
    accountant.require_all_spent()
    assert (accountant.spent, accountant.remaining) == (budget, 0)
    with pytest.raises(BudgetExceeded, match="requested ρ="):
        accountant.charge(gaussian(Fraction(1, 10**30)))
    with pytest.raises(BudgetExceeded, match="requested ρ="):
        accountant.charge(pure(Fraction(1, 10**30)))


@pytest.mark.parametrize(
    "spend",
    [
        pure(ONE),
        pure(ONE, NOISY_MAX, Fraction(2)),
        pure(ONE, TREE_PATHS),
        pure(ONE, biased_splits(4), Fraction(7, 3)),
    ],
)
def test_every_pure_mechanism_costs_half_its_epsilon_squared(spend: Spend) -> None:
    accountant = Accountant(Fraction(1, 2), ZCDP)
    accountant.charge(spend)
    accountant.require_all_spent()
    # In its own currency it still says what it cost.
    assert spend.epsilon == spend.epsilon_of_scale == 1


@pytest.mark.parametrize("spend", [gaussian(ONE), exponential(Fraction(1, 2), scale=Fraction(3))])
def test_a_budget_of_pure_epsilon_pays_for_no_rho(spend: Spend) -> None:
    accountant = Accountant(Fraction(10**6))
    with pytest.raises(BoundaryViolation, match="expected a question that costs ε, got one that"):
        accountant.charge(spend)
    assert accountant.spends == ()
    with pytest.raises(BoundaryViolation):
        accountant.charge(pure(ONE), spend)
    assert (accountant.spends, accountant.currency) == ((), PURE)


def test_an_exponential_mechanism_costs_no_more_than_charged() -> None:
    rho = Fraction(1, 2)
    exact = Fraction(3)  # 3²/(2·3²) = 1/2
    Accountant(rho, ZCDP).charge(exponential(rho, scale=exact))
    Accountant(rho, ZCDP).charge(exponential(rho, scale=exact * (1 + Fraction(1, 10**9))))
    for scale in (exact * (1 - Fraction(1, 10**12)), exact * (1 + Fraction(1, 10**6))):
        with pytest.raises(BoundaryViolation, match="expected a scale that costs ρ=1/2"):
            Accountant(rho, ZCDP).charge(exponential(rho, scale=scale))


GOOD = gaussian(Fraction(1, 2), l2_squared=4)
UNPROVEN = {
    "a variance too small": replace(GOOD, scale=GOOD.scale * Fraction(999, 1000)),
    "a variance too large": replace(GOOD, scale=GOOD.scale * 2),
    "a sensitivity that is not squared": replace(GOOD, sensitivity=2),
    "the noise of a Laplace of that scale": replace(GOOD, mechanism=LAPLACE),
    "rho for a pure mechanism": replace(pure(ONE), currency="zcdp"),
    "epsilon for a Gaussian": replace(GOOD, currency="pure"),
    "an unknown currency": replace(GOOD, currency="gdp"),
    "the factor of the noisy max": exponential(Fraction(1, 2), scale=Fraction(6)),
    "no rho": replace(GOOD, epsilon=Fraction(0)),
    "a float": replace(GOOD, epsilon=0.5),  # type: ignore[arg-type]
    "a negative variance": replace(GOOD, scale=-GOOD.scale, sensitivity=-4),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_a_charge_whose_noise_does_not_prove_its_rho_is_refused(name: str) -> None:
    accountant = Accountant(ONE, ZCDP)
    with pytest.raises(BoundaryViolation, match="expected"):
        accountant.charge(UNPROVEN[name])
    assert accountant.spends == ()
    accountant.charge(GOOD, GOOD)


def test_an_unspent_rest_of_rho_is_refused_however_small() -> None:
    accountant = Accountant(ONE, ZCDP)
    accountant.charge(gaussian(ONE - Fraction(1, 10**30)))
    with pytest.raises(BoundaryViolation, match="expected charges of exactly ρ=1"):
        accountant.require_all_spent()
