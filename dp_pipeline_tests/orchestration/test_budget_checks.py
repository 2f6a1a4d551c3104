"""What the checks of an account say at 79, 80 and 101 %, for ever and of a month."""

from __future__ import annotations

from fractions import Fraction

import dagster as dg
import pytest

from dp_pipeline.ledger import Account, Balance, Charge
from dp_pipeline.orchestration.checks import NOT_NEAR, WITHIN, budget_checks
from dp_pipeline.orchestration.metadata import balance_metadata, budget_report
from dp_pipeline_tests.orchestration.events import check_results, materializations
from dp_pipeline_tests.orchestration.projects import RIDES, Project

pytestmark = pytest.mark.chain


def verdicts(**amounts: str | None) -> tuple[bool, bool]:
    """Whether an account is within its ceiling, and not near it."""
    exact = {name: None if text is None else Fraction(text) for name, text in amounts.items()}
    within, not_near = budget_checks(Balance(**exact))
    return within.passed, not_near.passed


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        ("0", (True, True)),
        ("0.799999999", (True, True)),
        ("0.8", (True, False)),
        ("1", (True, False)),
        ("1.000000001", (False, False)),
    ],
)
def test_a_warning_stands_from_80_percent_of_the_ceiling_on(spent: str, expected: tuple):
    assert verdicts(ceiling="1", spent=spent) == expected


@pytest.mark.parametrize(
    ("month_spent", "expected"),
    [("0.079", (True, True)), ("0.08", (True, False)), ("0.11", (False, False))],
)
def test_a_month_has_a_warning_of_its_own(month_spent: str, expected: tuple):
    limits = {"ceiling": "1", "per_month": "0.1"}
    assert verdicts(**limits, spent=month_spent, month_spent=month_spent) == expected


def test_an_account_without_limits_is_never_near_them():
    assert verdicts(ceiling=None, spent="1000", month_spent="1000") == (True, True)


def test_near_is_a_warning_and_beyond_an_error():
    within, not_near = budget_checks(Balance(ceiling=Fraction(1), spent=Fraction(1)))
    assert within.severity == dg.AssetCheckSeverity.ERROR
    assert not_near.severity == dg.AssetCheckSeverity.WARN


def test_a_limit_of_a_month_is_reported_with_what_is_left_of_it():
    balance = Balance(
        ceiling=Fraction(3),
        spent=Fraction(1),
        per_month=Fraction(1),
        month="2026-11",
        month_spent=Fraction("0.25"),
    )
    (result, _) = budget_checks(balance)
    metadata = {name: entry.value for name, entry in result.metadata.items()}
    assert metadata == {
        "privacy/spent": 1,
        "privacy/left": 2,
        "privacy/ceiling": 3,
        "privacy/spent in 2026-11": 0.25,
        "privacy/left in 2026-11": 0.75,
        "privacy/limit of a month": 1,
    }
    assert {type(entry) for entry in metadata.values()} == {float}


def test_amount_of_many_digits_is_told_exactly_beside_its_number():
    metadata = balance_metadata(Balance(ceiling=None, spent=Fraction(11, 60)))
    values = {name: entry.value for name, entry in metadata.items()}
    assert values["privacy/spent"] == 0.1833
    assert values["privacy/exact spent"] == "11/60"
    assert values["privacy/ceiling"] == "none"


def test_budget_report_draws_charges_and_counts_verified_rows(project: Project):
    ledger = project.ledger
    ledger.open_account(Account("riders", "one row", "add_remove", "release", Fraction(3)))
    with ledger.reserve(Charge("ab" * 32, "riders", "dp", 10**9, "rides/grid at ε=1", {})):
        pass
    metadata = budget_report(ledger, "riders")
    assert metadata["ledger/verified rows"].value == 2
    assert metadata["privacy/spent"].value == 1
    assert len(metadata["privacy/spending over time"].value) < 70_000
    (charge,) = metadata["privacy/releases"].records
    assert (charge.data["release"], charge.data["sum"]) == ("rides/grid at ε=1", "1")


def test_at_80_percent_the_report_is_yellow_in_dagster(rides: Project):
    spec = rides.declare("rides", RIDES)
    for _ in range(5):
        rides.publish(spec, new_draw=True)
    assert rides.launch(spec, "budget").success
    values = {
        result.check_name: result
        for result in check_results(rides, spec)
        if result.asset_key.path[1] == "budget"
    }
    assert values[WITHIN].passed
    assert not values[NOT_NEAR].passed
    assert values[NOT_NEAR].severity == dg.AssetCheckSeverity.WARN
    (metadata,) = materializations(rides, spec)[dg.AssetKey(["rides", "budget"])][None]
    assert "base64" in metadata["privacy/spending over time"].value
