"""Accounts whose time is cut into windows: what they declare, and how it is raised."""

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline_tests.ledger.places import EVERYWHERE, Place
from dp_pipeline_tests.ledger.population import account, audit, in_windows, release, weekly

STORES = EVERYWHERE
BILLIONTH = Fraction(1, 10**9)
RAISE: dict[str, Any] = {"per_month": None, "reason": "a second model", "by": "ana"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: weekly(each=None), "need a limit of each window"),
        (lambda: weekly(each=None, ceiling="9"), "need a limit of each window"),
        (lambda: weekly(within="ever"), "need a ceiling"),
        (lambda: weekly(windows=""), "needs `windows`"),
        (lambda: weekly(windows="", within="ever", ceiling="9"), "needs `windows`"),
        (lambda: replace(account(), within="window"), "needs `windows`"),
        (lambda: weekly(windows="every week\n"), "windows of population rides"),
        (lambda: weekly(windows=None), "needs `windows`"),
        (lambda: weekly(within="month"), "the within must be window or ever, not 'month'"),
        (lambda: weekly(each="2", ceiling="1"), "each_window must be at most the ceiling 1, not 2"),
        (lambda: weekly(each="0"), "each_window must be a Fraction above 0"),
        (lambda: replace(weekly(), each_window=1.0), "each_window must be a Fraction above 0"),
    ],
)
def test_a_declaration_of_windows_that_limits_nothing_is_refused(wrong, words: str):
    with pytest.raises(DeclarationError, match=words) as refusal:
        wrong()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "declared",
    [
        weekly(),
        weekly(ceiling="9"),
        weekly(within="ever", ceiling="9", each=None),
        weekly(within="ever", ceiling="9", each="2", per_month=Fraction(3)),
        weekly(purpose="benchmark", each=None),
        weekly(delta=BILLIONTH, delta_ceiling=BILLIONTH),
    ],
)
def test_an_account_with_windows_is_read_as_it_was_written(declared: Account):
    read = Account.from_facts("rides", declared.facts())
    assert read == declared
    assert (read.limit, read.window_limit) == (declared.limit, declared.window_limit)


def test_an_account_without_windows_has_no_facts_of_them():
    assert set(account().facts()) == {"unit", "relation", "purpose", "currency", "ceiling"}
    assert not {"windows", "within", "each_window"} & set(account().limits())


def test_the_limit_of_a_window_is_converted_once_and_kept(place: Place):
    ledger = place()
    declared_account = weekly(delta=BILLIONTH, window_limit=Fraction(1, 1000))
    ledger.open_account(declared_account)
    stored_account = ledger.account("rides")
    assert stored_account is not None
    assert stored_account.window_limit == Fraction(1, 1000)
    assert weekly(delta=BILLIONTH).window_limit == rho_of(Fraction(1), BILLIONTH)
    monthly = {**RAISE, "per_month": Fraction(3)}
    assert ledger.raise_ceiling("rides", total=None, **monthly).window_limit == Fraction(1, 1000)
    raised_again = ledger.raise_ceiling("rides", total=None, each_window=Fraction(2), **RAISE)
    assert raised_again.window_limit == rho_of(Fraction(2), BILLIONTH)
    ledger.verify()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (weekly(windows="every day, UTC"), "windows 'every week, UTC'"),
        (weekly(within="ever", ceiling="9"), "within 'window'"),
        (replace(account(), population="rides", unit="rows of a rider"), "windows 'every week"),
    ],
)
def test_time_that_is_cut_otherwise_is_another_declaration(rides: Ledger, other: Account, said):
    with pytest.raises(DeclarationError, match=f"opened with .*{said}"):
        rides.open_account(other)


def test_a_file_declares_no_higher_limit_of_a_window(rides: Ledger):
    words = "has each_window '1', but the file declares each_window '2': declare no more, or"
    with pytest.raises(DeclarationError, match=words):
        rides.open_account(weekly(each="2"))
    opened = rides.open_account(weekly(each="0.5"))
    assert opened.each_window == 1
    assert "declares each_window '0.5'" in weekly(each="0.5").difference_from(opened)
    assert weekly().difference_from(opened) == ""


def test_the_ceiling_of_each_window_is_raised_by_a_row(rides: Ledger):
    raised = rides.raise_ceiling("rides", total=None, each_window=Fraction(2), **RAISE)
    assert (raised.ceiling, raised.each_window) == (None, 2)
    row = rides.entries()[-1]
    assert row.facts == {
        "ceiling": "none", "each_window": "2", "reason": RAISE["reason"], "by": "ana"
    }  # fmt: skip
    assert rides.account("rides") == weekly(each="2")
    later = rides.raise_ceiling("rides", total=None, **{**RAISE, "per_month": Fraction(1)})
    assert later.each_window == 2
    rides.verify()


@pytest.mark.parametrize(
    ("opened", "asked", "words"),
    [
        (weekly(), {"each_window": Fraction(1, 2)}, "each_window must be at least 1, not 0.5"),
        (weekly(), {}, "are those it has already: name a higher one"),
        (weekly(ceiling="9"), {"each_window": Fraction(2)}, "the ceiling must be at least 9"),
        (weekly(ceiling="9"), {"total": Fraction(9), "each_window": Fraction(10)}, "at most"),
        (account("rides"), {"total": Fraction(1), "each_window": Fraction(1)}, "no windows, so"),
        (weekly(), {"total": Fraction(1, 2)}, "each_window must be at most the ceiling 0.5, not 1"),
        (weekly(purpose="benchmark", each=None), {}, "are those it has already: name a higher one"),
        (weekly(purpose="benchmark", each=None), {"total": Fraction(0)}, "a Fraction above 0"),
    ],
)
def test_a_raise_that_lowers_a_limit_is_refused(place: Place, opened, asked, words):
    ledger = place()
    ledger.open_account(opened)
    with pytest.raises(DeclarationError, match=re.escape(words)):
        ledger.raise_ceiling("rides", **{"total": None, **asked, **RAISE})
    assert [entry.event for entry in ledger.entries()] == ["account"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"each_window": "0.5"}, "it lowers the limit of each window of rides"),
        ({}, "its facts declare no account"),
        ({"each_window": "1", "windows": "never"}, "it changes more than the limits of rides"),
        ({"each_window": "1", "unit": "one row"}, "it changes more than the limits of rides"),
    ],
)
def test_a_row_that_lowers_a_limit_of_windows_cannot_be(rides: Ledger, facts, words):
    (opened,) = rides.entries()
    with pytest.raises(Damaged, match=words):
        audit(opened, replace(opened, event="raise", facts={"ceiling": "none", **facts}))


@pytest.mark.parametrize(
    ("opened", "added", "raised"),
    [
        (weekly(), {"total": Fraction(3)}, weekly(ceiling="3")),
        (
            weekly(ceiling="9", within="ever", each=None),
            {"total": Fraction(9), "each_window": Fraction(1)},
            weekly(ceiling="9", within="ever"),
        ),
        (
            weekly(purpose="benchmark", each=None, delta=BILLIONTH),
            {"each_window": Fraction(1)},
            weekly(purpose="benchmark", delta=BILLIONTH),
        ),
    ],
)
def test_an_added_limit_binds_at_once_and_stays(place: Place, opened, added, raised):
    ledger = place()
    ledger.open_account(opened)
    assert ledger.raise_ceiling("rides", **{"total": None, **added, **RAISE}) == raised
    assert ledger.account("rides") == raised
    new_charge = replace(in_windows("a", "W01", epsilon="3.1"), currency=raised.currency)
    with pytest.raises(BudgetExceeded, match=r"ceiling 3|each_window"):
        release(ledger, new_charge)
    ledger.verify()
    opening, row = ledger.entries()
    with pytest.raises(Damaged, match=r"it removes the .* of rides"):
        audit(opening, row, replace(row, facts=opened.limits()))
