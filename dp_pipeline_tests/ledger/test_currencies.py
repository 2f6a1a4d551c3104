"""An account in ρ: its limit, what it takes, and what it is never mistaken for."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dp_pipeline.config.amounts import PURE, Currency, epsilon_of, nano_epsilon, rho_of
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.ledger import Account, Charge, Ledger, SpendRow, UnbalancedSpends
from dp_pipeline_tests.ledger.population import NANO, account, charge, release, require_refused

RHO = Currency(NANO)
LIMIT = rho_of(Fraction(1), NANO)


def concentrated(population: str = "riders", **other: Any) -> Account:
    return account(population, **{"delta": NANO, **other})


def paid(
    name: object, rho: Fraction, *, population: str = "riders", currency: Currency = RHO
) -> Charge:
    return replace(charge(name, epsilon=str(rho), population=population), currency=currency)


@pytest.fixture
def riders(ledger: Ledger) -> Ledger:
    """Besides trips in pure ε, riders: ε = 1 at δ = 1e-9."""
    ledger.open_account(concentrated())
    return ledger


def test_the_ceiling_is_the_largest_rho_within_its_epsilon(riders: Ledger):
    balance = riders.balance("riders")
    assert (balance.ceiling, balance.remaining, balance.currency) == (LIMIT, LIMIT, RHO)
    assert epsilon_of(LIMIT, NANO) <= 1 < epsilon_of(LIMIT + NANO, NANO)
    assert riders.account("riders") == concentrated()
    assert riders.balance("trips").currency == PURE


def test_charges_in_rho_add_up_to_the_last_nano_and_no_further(riders: Ledger):
    half = nano_epsilon(LIMIT) // 2 * NANO
    release_rho(riders, "a", half)
    release_rho(riders, "b", LIMIT - half)
    assert riders.balance("riders").remaining == 0
    with pytest.raises(BudgetExceeded, match=r"requested ρ=0\.000000001, spent 0\.\d+, left 0,"):
        release_rho(riders, "c", NANO)
    riders.verify()


def release_rho(ledger: Ledger, name: str, rho: Fraction) -> None:
    with ledger.reserve(paid(name, rho)) as reservation:
        reservation.settle([SpendRow("cells", "discrete Gaussian", rho, 1 / (2 * rho))])


def test_a_pure_charge_is_settled_by_shares_that_round_up_to_it(riders: Ledger):
    """ε = 0.00001 costs 5e-11 ρ: less than the smallest coin, which is paid."""
    rho = RHO.cost_of(Fraction(1, 10**5), PURE)
    with riders.reserve(paid("a", rho)) as reservation:
        with pytest.raises(UnbalancedSpends, match=r"the charge of ρ=0\.000000001, not to 0"):
            reservation.settle([])
        reservation.settle([SpendRow("cells", "discrete Laplace", rho, Fraction(10**5))])
    assert riders.balance("riders").spent == NANO
    riders.verify()


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (charge(population="riders"), "is in ρ at δ=1e-9, but the charge is in pure ε"),
        (
            paid("a", Fraction("0.001"), currency=Currency(10 * NANO)),
            "is in ρ at δ=1e-9, but the charge is in ρ at δ=1e-8",
        ),
        (paid("a", Fraction("0.001"), population="trips"), "is in pure ε, but the charge is in ρ"),
    ],
)
def test_a_charge_in_another_currency_is_refused(riders: Ledger, other: Charge, line: str):
    require_refused(DeclarationError, line, lambda: release(riders, other))
    assert riders.balance(other.population).spent == 0


def test_a_currency_is_fixed_when_the_account_opens(riders: Ledger):
    for population, opened, delta, text in (
        ("riders", "1e-9", None, "none"),
        ("riders", "1e-9", 10 * NANO, "1e-8"),
        ("trips", "none", NANO, "1e-9"),
    ):
        words = f"opened with delta '{opened}', but the file declares delta '{text}"
        with pytest.raises(DeclarationError, match=words):
            riders.open_account(concentrated(population, delta=delta))
    riders.open_account(concentrated())


def test_the_limit_is_the_one_of_the_day_of_opening(riders: Ledger):
    """A better conversion, one day, must not move a budget."""
    facts = dict(riders.entries("riders")[0].facts)
    opened = Account.from_facts("riders", {**facts, "limit": "0.01"})
    assert opened.limit == Fraction(1, 100)
    concentrated().require_within(opened)


def test_a_benchmark_in_rho_without_a_ceiling_has_no_limit(ledger: Ledger):
    public = concentrated("public", ceiling=None, purpose="benchmark")
    ledger.open_account(public)
    release_public = paid("a", Fraction(5000), population="public")
    with ledger.reserve(release_public) as reservation:
        reservation.settle([SpendRow("cells", "discrete Gaussian", Fraction(5000), Fraction(1))])
    balance = ledger.balance("public")
    assert (balance.ceiling, balance.remaining, balance.spent) == (None, None, 5000)
    assert ledger.account("public") == public
    ledger.verify()


def test_a_reserved_release_goes_on_in_its_own_currency_alone(ledger: Ledger):
    release(ledger, charge("a"))
    again = replace(charge("a"), currency=RHO)
    with pytest.raises(DeclarationError, match="the account of population trips is in pure ε"):
        release(ledger, again, "0.1")
    assert release(ledger, charge("a"), "0.1") == "resumed"
