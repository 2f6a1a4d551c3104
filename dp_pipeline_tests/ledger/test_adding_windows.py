"""An account without windows that gets them: what was spent before counts in every one."""

import tempfile
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.ledger.export import export_lines
from dp_pipeline.ledger.head import Draft
from dp_pipeline_tests.ledger.places import EVERYWHERE, Place
from dp_pipeline_tests.ledger.population import (
    NANO,
    WHY,
    Child,
    account,
    audit,
    charge,
    die_here,
    in_windows,
    release,
    require_refused,
    say,
    weekly,
)
from dp_pipeline_tests.ledger.test_raising import forge

STORES = EVERYWHERE
OF_PERSON, OF_WEEK = (
    f"at most 20 rows of a person{each}, column id" for each in ("", " in each week")
)


def once(unit: str = "one row", *, ceiling: str = "4", **other: Any) -> Account:
    return replace(account("rides", ceiling=ceiling), unit=unit, limit=None, **other)


def each_week(unit: str = "one row", **other: Any) -> Account:
    return replace(weekly(**other), unit=unit)


def before(epsilon: str, name: str = "before") -> Any:
    return charge(name, epsilon=epsilon, population="rides")


@pytest.mark.parametrize(
    ("old", "new", "counted"), [("one row", "one row", "0.4"), (OF_PERSON, OF_WEEK, "0.8")]
)
def test_earlier_sum_counts_in_every_window(opens, old: str, new: str, counted: str):
    ledger = opens(once(old))
    release(ledger, before("0.4"), "0.4")
    ledger.add_windows(each_week(new), **WHY)
    remaining = 1 - Fraction(counted)
    for week in ("W01", "W02"):
        assert ledger.balance("rides", (week,)).remaining == remaining
        with pytest.raises(BudgetExceeded, match=rf"spent in {week} {counted}, left"):
            release(ledger, in_windows((week, "more"), week, epsilon=str(remaining + NANO)))
        fitting = in_windows(week, week, epsilon=str(remaining))
        assert release(ledger, fitting, str(remaining)) == "new"
    assert ledger.balance("rides").spent == Fraction("0.4") + 2 * remaining
    assert ledger.account("rides") == each_week(new)
    with pytest.raises(DeclarationError, match="needs a charge of a window"):
        release(ledger, before("0.1", "later"))
    ledger.verify()


def test_earlier_sum_in_rho_counts_four_times_for_a_person(ledger: Ledger):
    ledger.open_account(once(OF_PERSON, delta=NANO))
    declared = each_week(OF_WEEK, delta=NANO)
    rho = declared.window_limit / 8 // NANO * NANO
    release(ledger, replace(before(str(rho)), currency=declared.currency), str(rho))
    ledger.add_windows(declared, **WHY)
    assert ledger.balance("rides", ("W01",)).window_spent == 4 * rho
    ledger.verify()


UNFIT = "its windows, unit or limits do not fit what rides protected and spent"
PROTECTED = "the windows must protect what was protected before"
REPLACED = once(relation="replace_one")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (once(), each_week(OF_WEEK), PROTECTED),
        (once(OF_PERSON), each_week(), PROTECTED),
        (once(OF_PERSON), each_week(OF_WEEK.replace("id", "car")), PROTECTED),
        (once(), once(), "but the file declares none: declare `windows`"),
        (weekly(), weekly(), "windows are added once, from a file that declares them, but"),
        (REPLACED, each_week(), "may be new, but the relation differs"),
        (
            REPLACED,
            replace(each_week(), relation="replace_one"),
            "windows need the relation add_remove, but the account has replace_one",
        ),
        (once(), replace(each_week(), purpose="benchmark"), "the purpose differs"),
        (once(), each_week(delta=NANO), "the delta differs"),
        (once(), each_week(within="ever", ceiling="3"), "ceiling must be at least 4, as before"),
        (once(delta_ceiling=NANO), each_week(), "the ceiling of δ must be at least"),
        (once(), each_week(each="0.2"), "worth at least ε=0.3 .0.3 spent before, counted 1 times"),
    ],
)
def test_windows_that_earlier_releases_do_not_allow_are_refused(opens, old, new, words):
    ledger = opens(old)
    if not old.windows:
        release(ledger, before("0.3"), "0.3")
    rows = len(ledger.entries())
    require_refused(DeclarationError, words, lambda: ledger.add_windows(new, **WHY))
    assert len(ledger.entries()) == rows


def test_delta_spent_before_carries_over_for_one_row_alone(ledger: Ledger):
    for name, old, new in (("a", "one row", "one row"), ("b", OF_PERSON, OF_WEEK)):
        opened, declared = (
            replace(each, population=name, delta_ceiling=2 * NANO)
            for each in (once(old), each_week(new))
        )
        ledger.open_account(opened)
        release(ledger, replace(charge(name, epsilon="0.1", population=name), delta=NANO), "0.1")
        if old == "one row":
            ledger.add_windows(declared, **WHY)
            assert ledger.balance(name, ("W01",)).delta_spent == NANO
        else:
            with pytest.raises(DeclarationError, match="levels were discovered at a δ"):
                ledger.add_windows(declared, **WHY)
    ledger.verify()


def test_a_file_with_windows_is_told_how_they_are_added(ledger: Ledger):
    with pytest.raises(DeclarationError, match=r"`dp-pipeline budget add-windows DATASET"):
        ledger.open_account(replace(each_week(), population="trips", ceiling=Fraction(1)))


def test_windows_are_one_row_that_is_exported_with_its_reason(opens):
    ledger = opens(once())
    ledger.add_windows(each_week(), **WHY)
    line, _ = export_lines(ledger.entries())[-1]
    expected = {"event": "windows added", "windows": "every week, UTC", "each_window": "1"}
    assert {**expected, "ceiling": "none", "reason": WHY["reason"]}.items() <= line.items()


def test_unfinished_release_from_before_ends_under_its_charge(ledger: Ledger):
    ledger.open_account(once())
    release(ledger, before("0.4"))
    ledger.add_windows(each_week(), **WHY)
    assert release(ledger, before("0.4"), "0.4") == "resumed"
    assert ledger.balance("rides", ("W01",)).window_spent == Fraction("0.4")
    ledger.verify()


epsilons = st.sampled_from(["0.1", "1/3", "0.45"])


@settings(max_examples=25)
@given(
    st.booleans(),
    st.lists(epsilons, max_size=3),
    st.lists(st.tuples(st.sampled_from(["W01", "W02"]), epsilons), max_size=6),
)
def test_sums_are_those_of_a_model_on_one_line(is_person: bool, earlier: list, later: list):
    old, new = (OF_PERSON, OF_WEEK) if is_person else ("one row", "one row")
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        ledger.open_account(once(old))
        paid = sum(before(epsilon).nano_epsilon for epsilon in earlier) * (1 + is_person)
        for n, epsilon in enumerate(earlier):
            release(ledger, before(epsilon, str(n)))
        if paid > 10**9:
            with pytest.raises(DeclarationError, match="each_window must be worth at least"):
                ledger.add_windows(each_week(new), **WHY)
            return
        ledger.add_windows(each_week(new), **WHY)
        sums = Counter({"W01": paid, "W02": paid})
        for n, (week, epsilon) in enumerate(later):
            new_charge = in_windows((week, n), week, epsilon=epsilon)
            if sums[week] + new_charge.nano_epsilon <= 10**9:
                assert release(ledger, new_charge) == "new"
                sums[week] += new_charge.nano_epsilon
            else:
                with pytest.raises(BudgetExceeded):
                    release(ledger, new_charge)
        spent = {week: ledger.balance("rides", (week,)).window_spent / NANO for week in sums}
        assert spent == sums
        ledger.verify()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"unit":"one row"', '"unit":"one week"', UNFIT),
        ('"each_window":"1"', '"each_window":"0.1"', UNFIT),
        ('"by"', '"purpose"', "changes more than windows"),
        ("every week, UTC", "", "declare no account"),
        ('"each_window":"1"', '"each_window":"1/0"', "declare no account"),
        ('"each_window":"1"', '"each_window":1', "declare no account"),
        ('"each_window":"1"', '"each_window":"1e999999999"', "declare no account"),
    ],
)
def test_a_forged_row_of_windows_is_found_by_the_audit(tmp_path: Path, old, new, words: str):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(once())
    release(ledger, before("0.4"), "0.4")
    ledger.add_windows(each_week(), **WHY)
    facts = f"replace(facts, '{old}', '{new}')"
    forge(ledger, f"UPDATE entries SET facts = {facts} WHERE event = 'windows'")
    require_refused(Damaged, words, ledger.verify)


def test_charge_beyond_the_rest_of_a_window_fails_the_audit(opens):
    ledger = opens(once(OF_PERSON))
    release(ledger, before("0.4"), "0.4")
    ledger.add_windows(each_week(OF_WEEK), **WHY)
    release(ledger, in_windows("a", "W01", epsilon="0.2"))
    *rows, charged = ledger.entries()
    with pytest.raises(Damaged, match="exceeds the limit 1 of W01"):
        audit(*rows, replace(charged, nano_epsilon=charged.nano_epsilon + 1))


def add_and_die(_: int, place: Place) -> None:
    with place()._book.writing() as page:
        page.append(Draft("windows", "rides", facts={**each_week().facts(), **WHY}))
        die_here()


@pytest.mark.chain
def test_killed_before_the_commit_no_window_is_added(opens, place: Place):
    ledger = opens(once())
    Child(add_and_die, place).lines()
    assert ledger.account("rides") == once()
    ledger.add_windows(each_week(), **WHY)
    ledger.verify()


def spend_before_windows(pipe: int, place: Place, who: int) -> None:
    ledger, paid = place(), 0
    for n in range(10):
        try:
            release(ledger, before("0.01", f"{who} {n}"), "0.01")
            paid += 1
        except DeclarationError:
            break
    say(pipe, paid)


@pytest.mark.chain
def test_no_charge_is_lost_beside_the_row_that_adds_windows(opens, place: Place):
    ledger = opens(once())
    spending = [Child(spend_before_windows, place, worker) for worker in range(3)]
    place().add_windows(each_week(), **WHY)
    paid = sum(int(child.lines()[0]) for child in spending)
    balance = ledger.balance("rides", ("W01",))
    assert (balance.spent, balance.window_spent) == (Fraction(paid, 100), Fraction(paid, 100))
    ledger.verify()
