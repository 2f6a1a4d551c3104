"""What charges cost a population, and how a bundle remembers it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.amounts import PURE
from dp_pipeline.results.accountant import Accountant, Spend, rho_costs
from dp_pipeline.results.bundle import EARLIER_EVALUATION, Bundle
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline_tests.results.test_accountant import ZCDP, gaussian, laplace

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
