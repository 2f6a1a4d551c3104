"""Charges that name windows: the names, their row, and which limits bind."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.entries import BLOCKS, DELTA
from dp_pipeline.ledger.export import export_lines
from dp_pipeline_tests.ledger.places import EVERYWHERE, Opens
from dp_pipeline_tests.ledger.population import (
    NANO,
    WHY,
    account,
    charge,
    in_windows,
    release,
    require_refused,
    weekly,
)

STORES = EVERYWHERE
TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    "blocks",
    [
        *(("W02", "W01"), ("W01", "W01"), ("",), ("W 1",), ("W1\n",), ("ε",), ("*",), (1,)),
        *(("w" * 41,), ["W01"], "012", "W01", None, tuple(f"{n:04}" for n in range(1001))),
    ],
)
def test_what_are_no_windows_in_order_is_refused(blocks: object):
    words = "^.{,160}names, sorted and without repetition, each.{,160}$"
    require_refused(DeclarationError, words, lambda: replace(charge(), blocks=blocks))


def test_a_thousand_windows_are_one_charge(rides: Ledger):
    blocks = tuple(f"{n:040}" for n in range(1000))
    release(rides, in_windows("years", *blocks), "0.1")
    assert rides.blocks("rides") == dict.fromkeys(blocks, TENTH)
    rides.verify()


def test_only_the_field_names_the_windows_of_a_charge():
    new_charge = replace(charge(), blocks=("W01", "W02"))
    assert new_charge.facts[BLOCKS] == "W01 W02"
    assert replace(new_charge, blocks=("W03",)).facts[BLOCKS] == "W03"
    assert BLOCKS not in replace(new_charge, blocks=()).facts
    assert BLOCKS not in replace(charge(), facts={BLOCKS: "W01"}).facts


def test_a_charge_needs_room_in_each_of_its_windows(rides: Ledger):
    release(rides, in_windows("a", "W2", epsilon="0.9"), "0.9")
    rows = len(rides.entries())
    line = r"requested ε=0\.4, spent in W2 0\.9, left 0\.1, each_window 1; more.*--each-window"
    with pytest.raises(BudgetExceeded, match=line):
        release(rides, in_windows("b", "W1", "W2", "W3", epsilon="0.4"))
    assert len(rides.entries()) == rows
    release(rides, in_windows("c", "W3", "W4", epsilon="0.4"), "0.4")
    assert rides.blocks("rides") == {"W2": 9 * TENTH, "W3": 4 * TENTH, "W4": 4 * TENTH}
    assert rides.balance("rides").spent == 17 * TENTH
    balance = rides.balance("rides", ("W1", "W2", "W3"))
    assert (balance.window, balance.window_spent, balance.remaining) == ("W2", 9 * TENTH, TENTH)
    assert rides.balance("rides").remaining is None
    rides.verify()


def test_a_charge_counts_in_the_total_once_for_each_window(opens: Opens):
    """All rows of a person in m windows cost m times those of one."""
    ledger = opens(weekly(ceiling="2", each=None, within="ever", per_month=Fraction(3, 2)))
    release(ledger, in_windows("a", "W1", "W2", "W3", epsilon="0.3"), "0.3")
    balance = ledger.balance("rides")
    assert (balance.spent, balance.month_spent) == (9 * TENTH, 9 * TENTH)
    with pytest.raises(BudgetExceeded, match=r"requested ε=0\.8, spent .*0\.9, left 0\.6"):
        release(ledger, in_windows("b", "W4", "W5", epsilon="0.4"), "0.4")
    release(ledger, in_windows("c", "W4", "W5", epsilon="0.3"), "0.3")
    assert ledger.balance("rides").spent == sum(ledger.blocks("rides").values()) == 15 * TENTH
    lines = [line["total"] for line, _ in export_lines(ledger.entries()) if line["charged"]]
    assert lines == ["0.9", "1.5"]
    ledger.verify()


@pytest.mark.parametrize(
    ("changes", "delta", "line"),
    [
        ({"delta": NANO}, Fraction(0), "pays in ρ, so a charge must be of one window, not of 2"),
        ({"within": "ever", "ceiling": "9", "delta_ceiling": NANO}, NANO, "in δ too, so a charge "),
    ],
)
def test_windows_whose_costs_do_not_add_are_charged_apart(opens: Opens, changes, delta, line: str):
    ledger = opens(weekly(**changes))
    currency = ledger.account("rides").currency
    fields = {"epsilon": "0.001", "currency": currency, "delta": delta}
    with pytest.raises(DeclarationError, match=line):
        release(ledger, in_windows("a", "W1", "W2", **fields))
    assert release(ledger, in_windows("a", "W1", **fields), "0.001") == "new"


def test_a_charge_names_windows_exactly_where_there_are_any(rides: Ledger):
    with pytest.raises(DeclarationError, match="needs a charge of a window"):
        release(rides, charge("a", population="rides"), "0.1")
    rides.open_account(account())
    with pytest.raises(DeclarationError, match=r"needs a charge without a window, but this one"):
        release(rides, replace(charge("a"), blocks=("W1",)), "0.1")


def test_a_release_does_not_go_on_with_other_windows(rides: Ledger):
    release(rides, in_windows("a", "W1"))
    with pytest.raises(Damaged, match="was reserved with"):
        release(rides, in_windows("a", "W2"), "0.1")
    assert release(rides, in_windows("a", "W1"), "0.1") == "resumed"


def test_the_month_is_a_rate_over_all_windows(opens: Opens):
    ledger = opens(weekly(per_month=Fraction(3, 2)))
    release(ledger, in_windows("a", "W01", epsilon="1"), "1")
    with pytest.raises(BudgetExceeded, match=r"per_month 1\.5.* raise rides --per-month … --r"):
        release(ledger, in_windows("b", "W02", epsilon="1"))


def test_windows_are_listed_in_order_and_by_population(rides: Ledger):
    rides.open_account(replace(weekly(), population="walks"))
    release(rides, replace(in_windows("b", "W09"), population="walks"))
    for week in ("W02", "W10", "W01"):
        release(rides, in_windows(week, week, epsilon="0"))
    # A release without any ε names its window too.
    assert list(rides.blocks("rides").items()) == [("W01", 0), ("W02", 0), ("W10", 0)]
    assert rides.blocks("nobody") == {}
    assert rides.account("walks") is not None
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


def test_a_delta_binds_all_windows_together_within_ever(opens: Opens):
    ledger = opens(weekly(within="ever", ceiling="9", delta_ceiling=2 * NANO))
    release(ledger, in_windows("a", "W01", delta=2 * NANO), "0.1")
    with pytest.raises(BudgetExceeded, match="requested δ=1e-09, spent 2e-09, left 0"):
        release(ledger, in_windows("b", "W02", delta=NANO))
    assert ledger.balance("rides", ["W02"]).delta_window == ""


def test_the_export_names_windows(rides: Ledger):
    release(rides, in_windows("a", "W01", "W02"), "0.1")
    rides.raise_ceiling("rides", each_window=Fraction(2), **WHY)
    lines = [line for line, _ in export_lines(rides.entries())]
    expected = [("every week, UTC", "1"), ("W01 W02", ""), ("", "2")]
    assert [(line["windows"], line["each_window"]) for line in lines] == expected
    assert lines[0]["within"] == "window"


def test_facts_named_like_windows_or_delta_are_dropped(rides: Ledger):
    """It would be charged like one, past the question whether there is room."""
    rides.open_account(account())
    smuggled = {BLOCKS: "W01", DELTA: "1/9", "model": "grid"}
    release(rides, replace(charge(), facts=smuggled), "0.1")
    release(rides, replace(in_windows("b", "W02"), facts={**smuggled, BLOCKS: "W02"}), "0.1")
    assert rides.entries("trips")[1].facts == {"model": "grid"}
    assert rides.entries("rides")[1].facts == {"model": "grid", BLOCKS: "W02"}
    rides.verify()
