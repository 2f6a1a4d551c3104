"""Shares of a budget are exact, the scale of noise proves its charge, and what charges cost."""

from dataclasses import replace
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given
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
    biased_splits_name,
    rho_costs,
    root_weights,
    split,
)
from dp_pipeline.results.bundle import EARLIER_EVALUATION, Bundle
from dp_pipeline.results.measurement import NoisyNumber

ONE, HALF, TINY = Fraction(1), Fraction(1, 2), Fraction(1, 10**30)
ZCDP = Currency(Fraction(1, 10**9))
epsilons = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
amounts = st.fractions(min_value=Fraction(1, 10**6), max_value=10**3)
weights = st.lists(st.integers(1, 10**9) | epsilons, min_size=1, max_size=40)


def laplace(
    epsilon: Fraction, mechanism: str = LAPLACE, factor: Fraction = ONE, sensitivity: int = 1
) -> Spend:
    return Spend("cells", mechanism, epsilon, sensitivity, sensitivity * factor / epsilon)


def gaussian(rho: Fraction, *, l2_squared: int = 1) -> Spend:
    return Spend("cells", GAUSSIAN, rho, l2_squared, l2_squared / (2 * rho), "zcdp")


def exponential(rho: Fraction, *, scale: Fraction) -> Spend:
    return Spend("cells", EXPONENTIAL, rho, 3, scale, "zcdp")


@given(epsilon=epsilons, weights=weights)
def test_shares_spend_the_budget(epsilon: Fraction, weights: list[int | Fraction]):
    shares, accountant = split(epsilon, weights), Accountant(epsilon)
    neighbours = zip(shares, shares[1:], weights, weights[1:], strict=False)
    assert all(a * v == b * w for a, b, w, v in neighbours)
    charges = [laplace(share) for share in shares]
    for charge in charges:
        accountant.charge(charge)
    accountant.require_all_spent()
    assert (accountant.spent, accountant.remaining) == (epsilon, 0)
    assert accountant.spends == tuple(charges)
    with pytest.raises(BudgetExceeded):
        accountant.charge(laplace(TINY))


@pytest.mark.parametrize("weights", [[], [0], [1, 0], [-1, 2], [0.5], [1, 0.5], [Fraction(0)]])
def test_weights_are_positive_and_rational(weights: list):
    with pytest.raises(BoundaryViolation, match="budget"):
        split(ONE, weights)


@pytest.mark.parametrize("epsilon", [0, 1, 0.5, Fraction(0), Fraction(-1), "1", None])
def test_a_budget_is_a_positive_fraction(epsilon: object):
    with pytest.raises(BoundaryViolation, match="budget"):
        Accountant(epsilon)  # type: ignore[arg-type]


@given(sizes=st.lists(st.integers(1, 10**9), max_size=5))
def test_root_weights_are_square_roots_in_thousandths(sizes: list[int]):
    for size, weight in zip(sizes, root_weights(sizes), strict=True):
        assert weight == isqrt(size * 10**6) >= 1000


PURE_SPENDS = [
    laplace(ONE, sensitivity=5),
    laplace(ONE, NOISY_MAX, Fraction(2), sensitivity=3),
    laplace(ONE, TREE_PATHS, sensitivity=3),
    *(
        laplace(ONE, biased_splits_name(many), Fraction(2 * many - 1, many - 1), sensitivity=5)
        for many in (2, 4, 8, 16)
    ),
]


@pytest.mark.parametrize("spend", PURE_SPENDS, ids=lambda spend: spend.mechanism)
def test_pure_mechanisms_cost_epsilon_or_half_its_square(spend: Spend):
    assert spend.epsilon == spend.epsilon_of_scale == 1
    for budget in (Accountant(ONE), Accountant(HALF, ZCDP)):
        budget.charge(spend)
        budget.require_all_spent()


@given(rhos=st.lists(amounts, min_size=1, max_size=5), epsilons=st.lists(amounts, max_size=5))
def test_rho_adds_half_of_squared_epsilon(rhos: list[Fraction], epsilons: list[Fraction]):
    budget = sum(rhos) + sum(epsilon**2 / 2 for epsilon in epsilons)
    accountant = Accountant(budget, ZCDP)
    accountant.charge(*map(gaussian, rhos))
    accountant.charge(*map(laplace, epsilons))
    accountant.require_all_spent()
    assert (accountant.spent, accountant.remaining) == (budget, 0)
    for spend in (gaussian(TINY), laplace(TINY)):
        with pytest.raises(BudgetExceeded, match="requested ρ="):
            accountant.charge(spend)


@pytest.mark.parametrize("spend", [gaussian(ONE), exponential(HALF, scale=Fraction(3))])
def test_a_budget_of_pure_epsilon_pays_for_no_rho(spend: Spend):
    accountant = Accountant(Fraction(10**6))
    for spends in ((spend,), (laplace(ONE), spend)):
        with pytest.raises(BoundaryViolation, match="The budget is in pure ε"):
            accountant.charge(*spends)
    assert (accountant.spends, accountant.currency) == ((), PURE)


def test_an_exponential_mechanism_costs_no_more_than_charged():
    exact = Fraction(3)  # 3²/(2·3²) = 1/2
    for factor in (ONE, 1 + Fraction(1, 10**9)):
        Accountant(HALF, ZCDP).charge(exponential(HALF, scale=exact * factor))
    for factor in (1 - Fraction(1, 10**12), 1 + Fraction(1, 10**6)):
        with pytest.raises(BoundaryViolation, match="must cost ρ=1/2"):
            Accountant(HALF, ZCDP).charge(exponential(HALF, scale=exact * factor))


GOOD = laplace(HALF, sensitivity=2)
CONCENTRATED = gaussian(HALF, l2_squared=4)
UNPROVEN = {
    "scale too small": replace(GOOD, scale=Fraction(399, 100)),
    "scale too large": replace(GOOD, scale=Fraction(5)),
    "sensitivity too large": replace(GOOD, sensitivity=3),
    "noisy max without its factor 2": replace(GOOD, mechanism=NOISY_MAX),
    "splits at the scale of one count": replace(GOOD, mechanism=biased_splits_name(2)),
    "splits of fewer children": laplace(HALF, biased_splits_name(2), Fraction(7, 3)),
    "splits into three": laplace(HALF, biased_splits_name(3), Fraction(5, 2)),
    "tree at the scale of one share": laplace(HALF, TREE_PATHS, Fraction(4096)),
    "tree without its distance": replace(GOOD, mechanism=TREE_PATHS, sensitivity=1),
    "unknown mechanism": replace(GOOD, mechanism="Noisy Max"),
    "no epsilon": replace(GOOD, epsilon=Fraction(0)),
    "negative epsilon": replace(GOOD, epsilon=-HALF),
    "negative scale and sensitivity": replace(GOOD, sensitivity=-2, scale=Fraction(-4)),
    "epsilon that is a float": replace(GOOD, epsilon=0.5),  # type: ignore[arg-type]
    "scale that is a float": replace(GOOD, scale=4.0),  # type: ignore[arg-type]
    "scale of nothing": replace(GOOD, scale=Fraction(0)),
    "δ of no texts": replace(GOOD, delta=Fraction(1, 10)),
}
UNPROVEN_RHO = {
    "variance too small": replace(CONCENTRATED, scale=CONCENTRATED.scale * Fraction(999, 1000)),
    "variance too large": replace(CONCENTRATED, scale=CONCENTRATED.scale * 2),
    "sensitivity that is not squared": replace(CONCENTRATED, sensitivity=2),
    "Laplace of that scale": replace(CONCENTRATED, mechanism=LAPLACE),
    "rho of a pure mechanism": replace(laplace(ONE), currency="zcdp"),
    "epsilon of a Gaussian": replace(CONCENTRATED, currency="pure"),
    "unknown currency": replace(CONCENTRATED, currency="gdp"),
    "factor of the noisy max": exponential(HALF, scale=Fraction(6)),
    "no rho": replace(CONCENTRATED, epsilon=Fraction(0)),
    "rho that is a float": replace(CONCENTRATED, epsilon=0.5),  # type: ignore[arg-type]
    "negative variance": replace(CONCENTRATED, scale=-CONCENTRATED.scale, sensitivity=-4),
}
CASES = [
    *(pytest.param(GOOD, PURE, spend, id=name) for name, spend in UNPROVEN.items()),
    *(pytest.param(CONCENTRATED, ZCDP, spend, id=name) for name, spend in UNPROVEN_RHO.items()),
]


@pytest.mark.parametrize(("good", "currency", "spend"), CASES)
def test_a_charge_that_its_scale_does_not_prove_is_refused(good, currency, spend):
    accountant = Accountant(ONE, currency)
    for spends in ((spend,), (good, spend)):
        with pytest.raises(BoundaryViolation, match="of cells must"):
            accountant.charge(*spends)
    assert accountant.spends == ()
    accountant.charge(good, good)
    assert accountant.spends == (good, good)


def test_a_refused_charge_states_the_rest_and_records_nothing():
    accountant = Accountant(ONE)
    with pytest.raises(BudgetExceeded, match=r"requested ε=0\.6.*, spent 0\.5, left 0\.5"):
        accountant.charge(laplace(HALF), laplace(Fraction(2, 3)))
    assert accountant.spends == ()
    accountant.charge(laplace(Fraction(2, 3)))
    with pytest.raises(BudgetExceeded, match=r"cells .* requested ε=0\.5, spent 0\.6.*, left 0\.3"):
        accountant.charge(laplace(HALF))
    assert accountant.spent == Fraction(2, 3)
    accountant.charge(laplace(Fraction(1, 3)))


def test_an_unfinished_charge_keeps_the_release_open():
    unfinished = ["a session", "another"]

    def require_complete() -> None:
        if unfinished:
            raise BoundaryViolation("session: expected nothing unfinished")

    accountant = Accountant(ONE)
    with pytest.raises(BudgetExceeded):
        accountant.charge(laplace(Fraction(2)), require_complete=lambda: 1 / 0)
    accountant.charge(laplace(ONE), require_complete=require_complete)
    while unfinished:
        with pytest.raises(BoundaryViolation, match="expected nothing unfinished"):
            accountant.require_all_spent()
        unfinished.pop()
    accountant.require_all_spent()


@pytest.mark.parametrize(("spend", "currency"), [(laplace, PURE), (gaussian, ZCDP)])
def test_an_unspent_rest_is_refused(spend, currency: Currency):
    accountant = Accountant(ONE, currency)
    accountant.charge(spend(ONE - TINY))
    with pytest.raises(BoundaryViolation, match=r"must spend exactly [ερ]=1"):
        accountant.require_all_spent()


@pytest.mark.parametrize(
    ("currency", "charges"),
    [(PURE, [HALF, HALF]), (PURE, [ONE, TINY]), (PURE, [ONE + TINY]), (ZCDP, [ONE])],
    ids=["a second one", "more", "too much", "of a budget in ρ"],
)
def test_one_charge_of_pure_epsilon_may_be_beside(currency, charges):
    accountant = Accountant(ONE, currency)
    *first, last = map(laplace, charges)
    for spend in first:
        accountant.record_free_spend(spend)
        assert (accountant.free_spend, accountant.remaining) == (spend, ONE)
    expected = "One charge alone may be for rows that no other charge counts"
    with pytest.raises(BoundaryViolation, match=expected):
        accountant.record_free_spend(last)


TENTH = Fraction(1, 10)

shares = st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=2), min_size=1, max_size=6)


def bundle(*spends: Spend, evaluation: str = "none", **facts: str) -> Bundle:
    quality = {} if evaluation == "none" else {"nicv": NoisyNumber(1.0, 1.0, "rows")}
    all_facts = {"kind": "dp", "releasable": "yes", "evaluation": evaluation, **facts}
    return Bundle("k", all_facts, spends, quality, {"t": {"a": np.zeros(1)}}, "chain")


@given(shares, shares)
def test_costs_in_rho_are_those_charged(epsilons: list[Fraction], rhos: list[Fraction]):
    assert sum(rho_costs([*map(laplace, epsilons)], currency=PURE)) == sum(epsilons) ** 2 / 2
    spends = [*map(laplace, epsilons), *map(gaussian, rhos)]
    accountant = Accountant(Fraction(10**6), ZCDP)
    accountant.charge(*spends)
    assert sum(rho_costs(spends, currency=ZCDP)) == accountant.spent


@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_a_bundle_in_rho_knows_which_charges_bought_its_quality(currency: str):
    own = laplace(TENTH), (gaussian if currency == "zcdp" else laplace)(TENTH)
    facts = {"evaluation": "0.3", "delta": "1e-9", "currency": currency}
    result = bundle(*own, laplace(TENTH), laplace(2 * TENTH), **facts)
    squares = Fraction(1, 200) + TENTH if currency == "zcdp" else (2 * TENTH) ** 2 / 2
    assert result.spent == squares + (3 * TENTH) ** 2 / 2
    assert len(result.costs) == len(result.spends)
    again = Bundle.from_json(result.to_json(), result.tables)
    assert again.to_json() == result.to_json()
    assert again.spends == result.spends


def test_the_epsilon_that_holds_is_pure_where_every_charge_was():
    facts = {"delta": "1e-9", "currency": "pure", EARLIER_EVALUATION: "0.3"}
    result = bundle(laplace(TENTH), **facts)
    assert (result.epsilon, result.spent) == (Fraction("0.4"), Fraction("0.005"))
    assert result.charged == Fraction("0.005") + Fraction("0.045")
    assert result.spent_text == "0.4 (ρ=0.05)"
    mixed = bundle(gaussian(TENTH), **{**facts, "currency": "zcdp"})
    assert mixed.epsilon == ZCDP.epsilon_of(TENTH + Fraction("0.045"))
    assert mixed.spent_text == ZCDP.text(TENTH + Fraction("0.045"))
