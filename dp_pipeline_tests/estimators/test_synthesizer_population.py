"""A synthetic table that a population pays for: in its own currency, before anyone looks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dp_pipeline.estimators import InvalidParameter
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.publish.home import HOME_VARIABLE, find_home
from dp_pipeline.spec.amounts import rho_of
from dp_pipeline.spec.errors import BudgetExceeded, NotDiscovered
from dp_pipeline_tests.estimators.households import VILLAGE, copier
from dp_pipeline_tests.instruments import RecordingNoise

pytestmark = pytest.mark.filterwarnings("ignore::dp_pipeline.estimators.WeakSignal")
"""Few rows are no news here."""

DELTA = Fraction(1, 10**9)
PURE = Account("pure", "one row", "add_remove", "release", Fraction(1))
IN_RHO = Account("in rho", "one row", "add_remove", "release", Fraction(9), delta=DELTA)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The ledger of a home where two accounts are open; sound at the end of the test."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    ledger = find_home().ledger
    for account in (PURE, IN_RHO):
        ledger.open_account(account)
    yield ledger
    ledger.verify()


def paid_by(population: str, **parameters: Any) -> Any:
    return copier(**{"population": population, "epsilon": "0.4", "noise": "exact", **parameters})


def test_a_fit_is_charged_and_settled_with_its_spends(ledger: Ledger):
    fitted = paid_by("pure").fit(VILLAGE)
    reserve, settled = ledger.entries("pure")[-2:]
    assert (reserve.event, settled.event) == ("reserve", "settled")
    assert reserve.nano_epsilon == 400_000_000
    assert reserve.facts["estimator"] == "PrivateSynthesizer"
    assert [row.epsilon for row in settled.spends] == [one.epsilon for one in fitted.spends_]


def test_a_fit_with_the_delta_of_its_account_costs_the_rho_that_it_spends(ledger: Ledger):
    paid_by("in rho", delta="1e-9").fit(VILLAGE)
    reserve, settled = ledger.entries("in rho")[-2:]
    rho = rho_of(Fraction("0.4"), DELTA)
    assert Fraction(reserve.nano_epsilon, 10**9) == rho
    assert sum(row.epsilon for row in settled.spends) == rho
    assert reserve.facts["delta"] == "1e-9"


def test_a_fit_of_pure_epsilon_costs_half_its_square_in_rho(ledger: Ledger):
    paid_by("in rho").fit(VILLAGE)
    assert ledger.balance("in rho").spent == Fraction("0.08")


@pytest.mark.parametrize(
    ("population", "delta", "words"),
    [
        ("pure", "1e-9", "delta: expected 0 as its account has, got 1e-9"),
        ("in rho", "1e-8", "delta: expected 1e-9 as its account has, got 1e-8"),
    ],
)
def test_another_delta_than_that_of_the_account_is_refused(
    ledger: Ledger, population: str, delta: str, words: str
):
    with pytest.raises(InvalidParameter, match=words):
        paid_by(population, delta=delta).fit(VILLAGE)
    assert ledger.balance(population).spent == 0


def test_samples_and_marginals_are_not_charged(ledger: Ledger):
    fitted = paid_by("pure").fit(VILLAGE)
    before = ledger.entries()
    fitted.sample(5)
    fitted.marginal("rent")
    assert ledger.entries() == before


def test_a_fit_beyond_the_ceiling_draws_nothing(ledger: Ledger):
    paid_by("pure").fit(VILLAGE)
    paid_by("pure").fit(VILLAGE)
    with pytest.raises(BudgetExceeded, match=r"spent 0\.8, left 0\.2, ceiling 1"):
        paid_by("pure").fit(VILLAGE)
    assert ledger.balance("pure").spent == Fraction("0.8")


def test_seeded_noise_is_refused_on_an_account_for_releases(ledger: Ledger):
    noise = RecordingNoise()
    with pytest.raises(InvalidParameter, match="expected a source fit for sensitive data"):
        paid_by("pure", noise=noise).fit(VILLAGE)
    assert not noise.draws
    assert ledger.balance("pure").spent == 0


# A domain that is discovered.

OPEN = {"tenure": {"levels": "discover"}, "rent": {"bounds": [0, 3000], "bins": {"quantiles": 2}}}
FOUND = {"domain": OPEN, "discover": {"epsilon": "0.3", "delta": "0.000001"}}
FINDING = Account(
    "finding", "one row", "add_remove", "release", Fraction(9), delta_ceiling=Fraction(1, 10**6)
)


def test_a_discovery_is_charged_with_its_fit_in_epsilon_and_delta(ledger: Ledger):
    ledger.open_account(FINDING)
    rows = pd.concat([VILLAGE] * 200)
    fitted = paid_by("finding", epsilon="2", **FOUND).fit(rows)
    reserve, settled = ledger.entries("finding")[-2:]
    assert reserve.nano_epsilon == 2_000_000_000
    assert "its domain discovered for ε=0.3 and δ=1e-6" in reserve.what
    assert [row.epsilon for row in settled.spends] == [one.epsilon for one in fitted.spends_]
    balance = ledger.balance("finding")
    assert (balance.spent, balance.delta_spent) == (2, Fraction(1, 10**6))
    with pytest.raises(BudgetExceeded):
        paid_by("finding", epsilon="2", **FOUND).fit(rows)
    assert ledger.balance("finding") == balance


def test_a_discovery_that_finds_nothing_has_spent_its_charge(ledger: Ledger):
    ledger.open_account(FINDING)
    with pytest.raises(NotDiscovered):
        paid_by("finding", epsilon="0.5", **FOUND).fit(VILLAGE[:1])
    assert ledger.entries("finding")[-1].event == "dead"
    assert ledger.balance("finding").spent == Fraction("0.5")


def test_an_account_in_rho_pays_for_no_discovery(ledger: Ledger):
    with pytest.raises(InvalidParameter, match="expected an account in pure ε"):
        paid_by("in rho", epsilon="2", **FOUND).fit(VILLAGE)
    assert ledger.balance("in rho").spent == 0
