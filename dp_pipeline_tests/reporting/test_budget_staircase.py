"""The budget over time: sums charge by charge, months, ceilings that were raised, in a picture."""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.amounts import Currency
from dp_pipeline.ledger import Ledger
from dp_pipeline.reporting.figures import BudgetHistory, budget, budget_staircase
from dp_pipeline.reporting.figures.picture import MOST_BYTES
from dp_pipeline_tests.ledger.population import account, charge, release


def at(month: int, day: int) -> datetime:
    return datetime(2026, month, day, 12, tzinfo=UTC)


def history(**changes: object) -> BudgetHistory:
    """Four charges in three months, under a ceiling that was raised once."""
    charges = ((at(1, 5), "0.5"), (at(1, 12), "0.25"), (at(2, 3), "0.5"), (at(4, 1), "1"))
    fields = {
        "population": "riders",
        "charges": tuple((time, Fraction(amount)) for time, amount in charges),
        "ceilings": ((at(1, 1), Fraction(3)), (at(3, 1), Fraction(4))),
        "limits": ((at(1, 1), Fraction(1)),),
    }
    return BudgetHistory(**{**fields, **changes})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(account("riders", ceiling="3", per_month=Fraction(2)))
    return ledger


def test_the_rows_of_a_ledger_tell_its_history(ledger: Ledger):
    release(ledger, charge("ab", population="riders", epsilon="0.5"))
    release(ledger, charge("free", population="riders", epsilon="0"))
    ledger.raise_ceiling("riders", total=Fraction(5), per_month=None, reason="more", by="ana")
    release(ledger, charge("cd", population="riders", epsilon="0.25"))
    past = BudgetHistory.of("riders", ledger.entries("riders"), Currency())
    assert past.sums == (Fraction("0.5"), Fraction("0.75"))
    assert [limit for _, limit in past.ceilings] == [3, 5]
    assert [limit for _, limit in past.limits] == [2, None]
    assert [time for time, _ in past.charges] == sorted(time for time, _ in past.charges)


def test_an_account_in_rho_has_its_limits_in_rho(tmp_path: Path):
    ledger = Ledger(tmp_path / "ledger")
    opened = account("riders", ceiling="3", delta=Fraction(1, 10**9))
    ledger.open_account(opened)
    past = BudgetHistory.of("riders", ledger.entries("riders"), opened.currency)
    assert [limit for _, limit in past.ceilings] == [opened.limit]


def test_sums_grow_charge_by_charge_and_months_are_added_up():
    displayed = history()
    assert displayed.sums == (Fraction("0.5"), Fraction("0.75"), Fraction("1.25"), Fraction("2.25"))
    assert {month.strftime("%Y-%m"): spent for month, spent in displayed.months.items()} == {
        "2026-01": Fraction("0.75"),
        "2026-02": Fraction("0.5"),
        "2026-04": Fraction(1),
    }


@pytest.mark.chain
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"limits": ((at(1, 1), None),)},
        {"ceilings": ((at(1, 1), None),), "limits": ()},
        {"charges": ()},
        {"charges": ((at(1, 1), Fraction(1, 10**9)),)},
        {"charges": tuple((at(1, 1 + day % 28), Fraction(1)) for day in range(3000))},
        {"population": "riders of a $long$ name " * 9, "currency": Currency(Fraction(1, 10**9))},
    ],
    ids=["all", "no month", "no limit", "nothing", "a nano-ε", "3000 charges", "a long name"],
)
def test_a_staircase_is_a_small_picture(changes: dict[str, object]):
    picture = budget_staircase(history(**changes)).png
    assert len(picture) < MOST_BYTES
    # A browser window of 1300 pixels shows so many whole in Dagster's dialog.
    assert int.from_bytes(picture[16:20], "big") <= 900


@pytest.mark.chain
def test_equal_histories_give_equal_pictures():
    first, again, *alternatives = (
        budget_staircase(history(**changes)).svg
        for changes in ({}, {}, {"limits": ()}, {"ceilings": ()})
    )
    assert first == again
    assert first not in alternatives


def test_simultaneous_charges_are_summed():
    moment = (at(1, 5), at(1, 5))
    twice = tuple((time, Fraction(1)) for time in moment)
    spent = budget._budget_lines(history(charges=twice, ceilings=((at(1, 1), None),), limits=()))
    assert [line.end[1] for line in spent if line.end] == [2.0]
