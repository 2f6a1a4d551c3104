"""Rows that are cut into windows: every charge names its windows, and each has a limit."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Account, Charge, Ledger, journal
from dp_pipeline.ledger.balance import Balance
from dp_pipeline.ledger.export import exported
from dp_pipeline_tests.ledger.places import EVERYWHERE, Place
from dp_pipeline_tests.ledger.population import account, charge, raw, release

STORES = EVERYWHERE
ONE = Fraction(1)


def weeks(*, ceiling: str | None = None, each: str | None = "1", **other: Any) -> Account:
    """Trips by week: at most ε = 1 each."""
    fields: dict[str, Any] = {
        "unit": "one row",
        "relation": "add_remove",
        "purpose": "release",
        "windows": "every week, UTC",
        "within": "window",
        "ceiling": None if ceiling is None else Fraction(ceiling),
        "each_window": None if each is None else Fraction(each),
    }
    return Account("trips", **{**fields, **other})


def of(name: object, *blocks: str, epsilon: str = "0.4", **other: Any) -> Charge:
    return replace(charge(name, epsilon=epsilon), blocks=blocks, **other)


@pytest.fixture
def ledger(place: Place) -> Ledger:
    ledger = place()
    ledger.open_account(weeks())
    return ledger


def test_charges_of_different_windows_do_not_add(ledger: Ledger) -> None:
    for week in ("W1", "W2", "W3"):
        assert release(ledger, of(week, week, epsilon="0.8"), "0.8") == "new"
    assert ledger.blocks("trips") == dict.fromkeys(("W1", "W2", "W3"), Fraction(4, 5))
    balance = ledger.balance("trips", ("W2",))
    assert (balance.spent, balance.remaining, balance.window_spent) == (
        Fraction(12, 5),
        Fraction(1, 5),
        Fraction(4, 5),
    )
    assert ledger.balance("trips").remaining is None
    ledger.verify()


def test_a_window_that_is_full_refuses_by_name_and_the_others_go_on(ledger: Ledger) -> None:
    for name in "ab":
        release(ledger, of(name, "W1"), "0.4")
    rows = len(ledger.entries())
    line = r"requested ε=0\.4, spent in W1 0\.8, left 0\.2, each_window 1; more.*--each-window"
    with pytest.raises(BudgetExceeded, match=line):
        release(ledger, of("c", "W1"), "0.4")
    assert len(ledger.entries()) == rows
    assert release(ledger, of("c", "W2"), "0.4") == "new"


def test_a_charge_of_several_windows_needs_room_in_each(ledger: Ledger) -> None:
    release(ledger, of("a", "W2", epsilon="0.9"), "0.9")
    with pytest.raises(BudgetExceeded, match="spent in W2"):
        release(ledger, of("b", "W1", "W2", "W3"), "0.4")
    release(ledger, of("c", "W3", "W4"), "0.4")
    spent = ledger.blocks("trips")
    assert (spent["W3"], spent["W4"], "W1" in spent) == (Fraction(2, 5), Fraction(2, 5), False)
    assert ledger.balance("trips").spent == Fraction(9, 10) + 2 * Fraction(2, 5)
    assert ledger.balance("trips", ("W1", "W2", "W3")).window == "W2"
    ledger.verify()


def test_a_charge_of_several_windows_counts_once_for_each_in_the_total_and_the_month(
    place: Place,
) -> None:
    """All rows of a person in m windows cost m times what those of one do."""
    ledger = place()
    ledger.open_account(weeks(ceiling="2", each=None, within="ever", per_month=Fraction(3, 2)))
    release(ledger, of("a", "W1", "W2", "W3", epsilon="0.3"), "0.3")
    balance = ledger.balance("trips")
    assert (balance.spent, balance.month_spent) == (Fraction(9, 10), Fraction(9, 10))
    with pytest.raises(BudgetExceeded, match=r"requested ε=0\.8, spent .*0\.9, left 0\.6, "):
        release(ledger, of("b", "W4", "W5", epsilon="0.4"), "0.4")
    release(ledger, of("c", "W4", "W5", epsilon="0.3"), "0.3")
    assert ledger.balance("trips").spent == sum(ledger.blocks("trips").values()) == Fraction(3, 2)
    lines = [line["total"] for line, _ in exported(ledger.entries()) if line["charged"]]
    assert lines == ["0.9", "1.5"]
    ledger.verify()


def test_verify_counts_a_charge_once_for_each_of_its_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(weeks(ceiling="1", each=None, within="ever"))
    with monkeypatch.context() as patch:
        patch.setattr(Balance, "require_budget", lambda *_, **__: None)
        release(ledger, of("a", "W1", "W2", "W3", epsilon="0.4"), "0.4")
    with pytest.raises(Damaged, match="it passes the ceiling 1"):
        ledger.verify()


@pytest.mark.parametrize(
    ("changes", "charged", "line"),
    [
        ({"delta": Fraction(1, 10**9)}, {}, "pays in ρ, got one of 2"),
        (
            {"within": "ever", "ceiling": "9", "delta_ceiling": Fraction(1, 10**9)},
            {"delta": Fraction(1, 10**9)},
            "pays in δ too, got one of 2",
        ),
    ],
)
def test_a_charge_of_several_windows_is_refused_where_their_costs_do_not_add(
    changes: dict[str, Any], charged: dict[str, Any], line: str, place: Place
) -> None:
    ledger = place()
    ledger.open_account(weeks(**changes))
    opened = ledger.account("trips")
    assert opened is not None
    asked = of("a", "W1", "W2", epsilon="0.001", currency=opened.currency, **charged)
    with pytest.raises(DeclarationError, match=line):
        release(ledger, asked)
    one = of("a", "W1", epsilon="0.001", currency=opened.currency, **charged)
    assert release(ledger, one, "0.001") == "new"


def test_a_total_binds_all_windows_together(place: Place) -> None:
    ledger = place()
    ledger.open_account(weeks(ceiling="2"))
    for week in "12":
        release(ledger, of(week, week, epsilon="0.9"), "0.9")
    with pytest.raises(BudgetExceeded, match=r"spent 1\.8, left 0\.2, ceiling 2"):
        release(ledger, of("3", "3"), "0.4")
    assert ledger.balance("trips", ("3",)).remaining == Fraction(1, 5)


def test_where_all_of_a_persons_rows_are_protected_charges_of_windows_add(place: Place) -> None:
    ledger = place()
    ledger.open_account(weeks(ceiling="1", each=None, within="ever"))
    release(ledger, of("a", "W1", epsilon="0.8"), "0.8")
    with pytest.raises(BudgetExceeded, match=r"spent 0\.8, left 0\.2, ceiling 1"):
        release(ledger, of("b", "W2"), "0.4")


def test_a_charge_names_windows_exactly_where_rows_are_cut(ledger: Ledger) -> None:
    with pytest.raises(DeclarationError, match="expected a charge that names its windows"):
        release(ledger, charge("a"), "0.1")
    ledger.open_account(account("adult"))
    asked = replace(charge("a", population="adult"), blocks=("W1",))
    with pytest.raises(DeclarationError, match=r"expected one that names none .* got W1"):
        release(ledger, asked, "0.1")


@pytest.mark.parametrize("blocks", [("W2", "W1"), ("W1", "W1"), ("W 1",), ("",), ("x" * 41,)])
def test_windows_of_a_charge_are_names_sorted_and_each_once(blocks: tuple[str, ...]) -> None:
    with pytest.raises(DeclarationError, match="names of windows, sorted and each once"):
        of("a", *blocks)


def test_a_release_is_not_gone_on_with_for_other_windows(ledger: Ledger) -> None:
    release(ledger, of("a", "W1"))
    with pytest.raises(Damaged, match="was reserved with"):
        release(ledger, of("a", "W2"), "0.4")
    assert release(ledger, of("a", "W1"), "0.4") == "resumed"


def test_delta_is_counted_by_window(place: Place) -> None:
    ledger, delta = place(), Fraction(1, 10**9)
    ledger.open_account(weeks(delta_ceiling=delta))
    for week in ("W1", "W2"):
        release(ledger, of(week, week, delta=delta), "0.4")
    with pytest.raises(BudgetExceeded, match="requested δ=1e-09, spent in W2 1e-09"):
        release(ledger, of("b", "W2", delta=delta), "0.4")
    assert ledger.balance("trips", ("W3",)).delta_spent == 0
    ledger.verify()


def test_windows_are_fixed_when_the_account_opens(ledger: Ledger) -> None:
    for other in (
        replace(weeks(), windows="every day, UTC"),
        replace(weeks(ceiling="5"), within="ever"),
        account(),
    ):
        with pytest.raises(DeclarationError, match="population trips: opened with"):
            ledger.open_account(other)
    with pytest.raises(DeclarationError, match="its account has each_window '1'"):
        ledger.open_account(weeks(each="2"))


def test_the_limit_of_each_window_is_raised_and_never_lowered(ledger: Ledger) -> None:
    why = {"reason": "one more model", "by": "ana"}
    raised = ledger.raise_ceiling("trips", total=None, per_month=None, each_window=ONE * 2, **why)
    assert raised.each_window == 2
    release(ledger, of("a", "W1", epsilon="1.9"), "1.9")
    with pytest.raises(DeclarationError, match="expected an each_window of at least 2, got 1"):
        ledger.raise_ceiling("trips", total=None, per_month=None, each_window=ONE, **why)
    with pytest.raises(DeclarationError, match="expected a change"):
        ledger.raise_ceiling("trips", total=None, per_month=None, **why)
    ledger.verify()


def test_a_limit_needs_windows_and_a_release_by_window_needs_a_limit() -> None:
    with pytest.raises(DeclarationError, match="expected windows for a limit of each"):
        replace(account(), each_window=ONE)
    with pytest.raises(DeclarationError, match="a release needs a limit of each window"):
        weeks(each=None)
    with pytest.raises(DeclarationError, match="expected each_window at most the ceiling"):
        weeks(ceiling="1", each="2")


def test_in_rho_the_limit_of_a_window_is_converted_once(place: Place) -> None:
    ledger, delta = place(), Fraction(1, 10**9)
    ledger.open_account(weeks(delta=delta))
    opened = ledger.account("trips")
    assert opened is not None
    assert opened.window_limit == opened.currency.amount_of(ONE) < ONE
    asked = of("a", "W1", epsilon="0.1", currency=opened.currency)
    with pytest.raises(BudgetExceeded, match="each_window"):
        release(ledger, asked, "0.1")


def test_a_row_of_nobodys_counts_in_the_windows_that_it_names_or_in_all(tmp_path: Path) -> None:
    """Else a planted row would be a way to make a window's sum smaller than what was said."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(weeks())
    release(ledger, of("a", "W1"), "0.4")
    for row, facts in ((7, {"blocks": "W1"}), (8, {"blocks": "W2 W1"}), (9, {})):
        raw(
            ledger.folder,
            "INSERT INTO entries SELECT "
            f"{row}, 'reserve', time, population, '{row:064x}', NULL, 'dp', 100000000, what, "
            f"'{json.dumps(facts)}', previous, hash, state FROM entries WHERE sequence = 2",
            checks=False,
        )
    strange = _strange(ledger)
    ledger.restore(strange, reason="somebody wrote them", by="ana")
    tenth = Fraction(1, 10)
    assert ledger.blocks("trips")["W1"] == Fraction(2, 5) + tenth + 2 * tenth
    assert ledger.balance("trips", ("W9",)).window_spent == 2 * tenth
    ledger.verify()


def _strange(ledger: Ledger) -> dict[int, str]:
    """Rows that the ledger did not write, by their digests."""
    with ledger._book.auditing() as (connection, _):
        rows = list(journal.rows(connection))
    return {
        row["sequence"]: journal.stored_bytes(row, children)
        for row, children in rows
        if row["sequence"] > 3
    }


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ({"each_window": "1"}, "it passes the limit 1 of W1"),
        ({"blocks": ""}, "the windows of a charge were changed"),
    ],
)
def test_verify_refuses_what_the_ledger_would_never_have_written(
    limits: dict[str, str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(weeks())
    release(ledger, of("a", "W1", epsilon="0.9"), "0.9")
    with monkeypatch.context() as patch:
        # A ledger that asks for no room and takes any words for windows, as another program might.
        patch.setattr(Balance, "require_budget", lambda *_, **__: None)
        bad = of("b", "W1", epsilon="0.9")
        if "blocks" in limits:
            object.__setattr__(bad, "facts", {**bad.facts, "blocks": "W1  W2"})
            with pytest.raises(Damaged, match=line):
                release(ledger, bad, "0.9")
            return
        release(ledger, bad, "0.9")
    with pytest.raises(Damaged, match=line):
        ledger.verify()
