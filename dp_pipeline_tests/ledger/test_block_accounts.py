"""Accounts whose time is cut into windows: what they declare, and how it is raised."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline_tests.ledger.places import EVERYWHERE, Opens
from dp_pipeline_tests.ledger.population import (
    NANO,
    WHY,
    account,
    audit,
    in_windows,
    release,
    require_refused,
    weekly,
)

STORES = EVERYWHERE


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
    require_refused(DeclarationError, words, wrong)


@pytest.mark.parametrize(
    "declared",
    [
        weekly(),
        weekly(ceiling="9"),
        weekly(within="ever", ceiling="9", each=None),
        weekly(within="ever", ceiling="9", each="2", per_month=Fraction(3)),
        weekly(purpose="benchmark", each=None),
        weekly(delta=NANO, delta_ceiling=NANO),
    ],
)
def test_an_account_with_windows_is_read_as_it_was_written(declared: Account):
    read = Account.from_facts("rides", declared.facts())
    assert read == declared
    assert (read.limit, read.window_limit) == (declared.limit, declared.window_limit)


def test_an_account_without_windows_has_no_facts_of_them():
    assert set(account().facts()) == {"unit", "relation", "purpose", "currency", "ceiling"}
    assert not {"windows", "within", "each_window"} & set(account().limits())


def test_the_limit_of_a_window_is_converted_once_and_kept(opens: Opens):
    ledger = opens(weekly(delta=NANO, window_limit=Fraction(1, 1000)))
    assert ledger.account("rides").window_limit == Fraction(1, 1000)
    assert weekly(delta=NANO).window_limit == rho_of(Fraction(1), NANO)
    assert raised(ledger, per_month=Fraction(3)).window_limit == Fraction(1, 1000)
    assert raised(ledger, each_window=Fraction(2)).window_limit == rho_of(Fraction(2), NANO)
    ledger.verify()


def raised(ledger: Ledger, **limits: Fraction) -> Account:
    return ledger.raise_ceiling("rides", **limits, **WHY)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (weekly(windows="every day, UTC"), "windows 'every week, UTC'"),
        (weekly(within="ever", ceiling="9"), "within 'window'"),
        (replace(account(), population="rides", unit="rows of a rider"), "windows 'every week"),
    ],
)
def test_time_that_is_cut_otherwise_is_another_declaration(rides: Ledger, other: Account, said):
    require_refused(DeclarationError, f"opened with .*{said}", lambda: rides.open_account(other))


def test_a_file_declares_no_higher_limit_of_a_window(rides: Ledger):
    words = "has each_window '1', but the file declares each_window '2': declare no more, or"
    require_refused(DeclarationError, words, lambda: rides.open_account(weekly(each="2")))
    opened = rides.open_account(weekly(each="0.5"))
    assert opened.each_window == 1
    assert "declares each_window '0.5'" in weekly(each="0.5").difference_from(opened)
    assert weekly().difference_from(opened) == ""


def test_the_ceiling_of_each_window_is_raised_by_a_row(rides: Ledger):
    higher = raised(rides, each_window=Fraction(2))
    assert (higher.ceiling, higher.each_window) == (None, 2)
    assert rides.entries()[-1].facts == {"ceiling": "none", "each_window": "2", **WHY}
    assert rides.account("rides") == weekly(each="2")
    assert raised(rides, per_month=Fraction(1)).each_window == 2
    rides.verify()


@pytest.mark.parametrize(
    ("opened", "limits", "words"),
    [
        (weekly(), {"each_window": Fraction(1, 2)}, "each_window must be at least 1"),
        (weekly(), {}, "are those it has already: name"),
        (weekly(ceiling="9"), {"ceiling": None}, "the ceiling must be at least 9"),
        (weekly(ceiling="9"), {"ceiling": Fraction(9), "each_window": Fraction(10)}, "at most"),
        (account("rides"), {"ceiling": Fraction("0.5")}, "ceiling must be at least 1, as"),
        (account("rides"), {"ceiling": Fraction(1)}, "are those it has already: name"),
        (account("rides"), {"ceiling": Fraction(2), "per_month": Fraction(3)}, "ceiling 2, not 3"),
        (account("rides"), {"per_month": Fraction(-1)}, "per_month must be"),
        (account("rides"), {"each_window": Fraction(1)}, "each_window needs `windows`"),
        (weekly(), {"ceiling": Fraction(1, 2)}, "each_window must be at most the ceiling 0.5"),
        (weekly(purpose="benchmark", each=None), {}, "are those it has already: name"),
        (weekly(purpose="benchmark", each=None), {"ceiling": Fraction(0)}, "a Fraction above 0"),
    ],
)
def test_a_raise_that_lowers_a_limit_is_refused(opens: Opens, opened, limits, words: str):
    ledger = opens(opened)
    with pytest.raises(DeclarationError, match=re.escape(words)):
        raised(ledger, **limits)
    assert [entry.event for entry in ledger.entries()] == ["account"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"each_window": "0.5"}, "each_window must be at least 1, as before, not 0.5"),
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
    ("opened", "added", "expected"),
    [
        (weekly(), {"ceiling": Fraction(3)}, weekly(ceiling="3")),
        (
            weekly(ceiling="9", within="ever", each=None),
            {"ceiling": Fraction(9), "each_window": Fraction(1)},
            weekly(ceiling="9", within="ever"),
        ),
        (
            weekly(purpose="benchmark", each=None, delta=NANO),
            {"each_window": Fraction(1)},
            weekly(purpose="benchmark", delta=NANO),
        ),
    ],
)
def test_an_added_limit_binds_at_once_and_stays(opens: Opens, opened, added, expected):
    ledger = opens(opened)
    assert raised(ledger, **added) == ledger.account("rides") == expected
    new_charge = replace(in_windows("a", "W01", epsilon="3.1"), currency=expected.currency)
    require_refused(BudgetExceeded, r"ceiling 3|each_window", lambda: release(ledger, new_charge))
    ledger.verify()
    opening, row = ledger.entries()
    with pytest.raises(Damaged, match=r"must be at least .*, as before, not none"):
        audit(opening, row, replace(row, facts=opened.limits()))
