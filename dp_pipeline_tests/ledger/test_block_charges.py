"""Charges that name windows: what may be named, what is kept of it, and which limits bind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.ledger.entries import BLOCKS, DELTA
from dp_pipeline.ledger.export import exported
from dp_pipeline_tests.ledger.places import EVERYWHERE
from dp_pipeline_tests.ledger.population import account, charge, in_windows, release, weekly

STORES = EVERYWHERE
NANO = Fraction(1, 10**9)
TENTH = Fraction(1, 10)
WHY = {"reason": "a second model", "by": "ana"}
Opens = Callable[[Account], Ledger]


@pytest.mark.parametrize(
    "blocks",
    [
        ("W02", "W01"),
        ("W01", "W01"),
        ("",),
        ("W 1",),
        ("W1\n",),
        ("ε",),
        ("*",),
        ("w" * 41,),
        (1,),
        ["W01"],
        "012",
        "W01",
        None,
        tuple(f"{n:04}" for n in range(1001)),
    ],
)
def test_what_are_no_windows_in_order_is_refused(blocks: object):
    with pytest.raises(DeclarationError, match="names of windows, sorted and each once") as refusal:
        replace(charge(), blocks=blocks)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 250


def test_a_thousand_windows_are_one_charge(rides: Ledger):
    blocks = tuple(f"{n:040}" for n in range(1000))
    release(rides, in_windows("years", *blocks), "0.1")
    assert rides.blocks("rides") == dict.fromkeys(blocks, TENTH)
    rides.verify()


def test_the_windows_of_a_charge_are_kept_in_its_row_and_nothing_else_says_them():
    asked = replace(charge(), blocks=("W01", "W02"))
    assert asked.facts[BLOCKS] == "W01 W02"
    assert replace(asked, blocks=("W03",)).facts[BLOCKS] == "W03"
    assert BLOCKS not in replace(asked, blocks=()).facts
    assert BLOCKS not in replace(charge(), facts={BLOCKS: "W01"}).facts


def test_the_month_is_a_rate_over_all_windows(opens: Opens):
    ledger = opens(weekly(per_month=Fraction(3, 2)))
    release(ledger, in_windows("a", "W01", epsilon="1"), "1")
    with pytest.raises(BudgetExceeded, match=r"per_month 1\.5.* raise rides --per-month … --r"):
        release(ledger, in_windows("b", "W02", epsilon="1"))


def test_windows_are_told_in_order_and_of_one_population(rides: Ledger):
    rides.open_account(replace(weekly(), population="walks"))
    release(rides, replace(in_windows("b", "W09"), population="walks"))
    for week in ("W02", "W10", "W01"):
        release(rides, in_windows(week, week))
    assert list(rides.blocks("rides")) == ["W01", "W02", "W10"]
    assert rides.blocks("nobody") == {}
    assert rides.account("walks") is not None


def test_a_release_without_any_epsilon_names_its_window_too(rides: Ledger):
    release(rides, in_windows("free", "W01", epsilon="0"))
    assert rides.blocks("rides") == {"W01": 0}
    rides.verify()


def test_a_delta_binds_in_each_window_where_one_is_promised(opens: Opens):
    ledger = opens(weekly(delta_ceiling=2 * NANO))
    release(ledger, in_windows("a", "W01", delta=2 * NANO), "0.1")
    release(ledger, in_windows("b", "W02", delta=NANO), "0.1")
    balance = ledger.balance("rides")
    assert (balance.delta_spent, balance.delta_window) == (2 * NANO, "W01")
    assert ledger.balance("rides", ["W02", "W03"]).delta_spent == NANO
    assert ledger.balance("rides", ["W00", "W01"]).delta_window == "W01"
    with pytest.raises(BudgetExceeded, match=r"requested δ=2e-09, spent in W02 1e-09.*--delta"):
        release(ledger, in_windows("c", "W02", "W03", delta=2 * NANO))
    assert release(ledger, in_windows("d", "W02", "W03", delta=NANO), "0.1") == "new"
    ledger.verify()


def test_a_delta_binds_for_all_windows_together_where_all_rows_are_promised(opens: Opens):
    ledger = opens(weekly(within="ever", ceiling="9", delta_ceiling=2 * NANO))
    release(ledger, in_windows("a", "W01", delta=2 * NANO), "0.1")
    with pytest.raises(BudgetExceeded, match="requested δ=1e-09, spent 2e-09, left 0"):
        release(ledger, in_windows("b", "W02", delta=NANO))
    assert ledger.balance("rides", ["W02"]).delta_window == ""


def test_readers_are_told_how_time_is_cut_and_which_windows_were_read(rides: Ledger):
    release(rides, in_windows("a", "W01", "W02"), "0.1")
    rides.raise_ceiling("rides", total=None, per_month=None, each_window=Fraction(2), **WHY)
    opened, asked, raised = [line for line, _ in exported(rides.entries())]
    assert (opened["windows"], opened["within"], opened["each_window"]) == (
        "every week, UTC", "window", "1",
    )  # fmt: skip
    assert (asked["windows"], asked["each_window"]) == ("W01 W02", "")
    assert (raised["windows"], raised["each_window"]) == ("", "2")


def test_a_fact_that_says_windows_or_a_delta_beside_the_fields_is_dropped(rides: Ledger):
    """It would be charged like one, past the question whether there is room."""
    rides.open_account(account())
    smuggled = {BLOCKS: "W01", DELTA: "1/9", "model": "grid"}
    release(rides, replace(charge(), facts=smuggled), "0.1")
    release(rides, replace(in_windows("b", "W02"), facts={**smuggled, BLOCKS: "W02"}), "0.1")
    assert rides.entries("trips")[1].facts == {"model": "grid"}
    assert rides.entries("rides")[1].facts == {"model": "grid", BLOCKS: "W02"}
    rides.verify()
