"""Ceilings, for ever and of a month: raised by a row with a reason, never lowered."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain, repeat
from pathlib import Path

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Charge, Ledger, balance, journal
from dp_pipeline.ledger.account import Account
from dp_pipeline_tests.ledger.population import NANO, WHY, account, audit, charge, raw, release

TENTH = Fraction(1, 10)


def monthly(population: str = "rides", *, ceiling: str = "1", per_month: str = "0.3") -> Account:
    return account(population, ceiling=ceiling, per_month=Fraction(per_month))


def ride(name: object, epsilon: str) -> Charge:
    return charge(name, epsilon=epsilon, population="rides")


def raised(ledger: Ledger, **limits: str) -> Account:
    changed = {name: Fraction(limit) for name, limit in limits.items()}
    return ledger.raise_ceiling("trips", **changed, **WHY)


def at(monkeypatch: pytest.MonkeyPatch, *times: str) -> None:
    """What the clock says, one look after the other, and the last ever after."""
    looks = chain(times, repeat(times[-1]))

    class Clock:
        @staticmethod
        def now(_: object) -> datetime:
            return datetime.fromisoformat(next(looks)).replace(tzinfo=UTC)

    for module in (balance, journal):
        monkeypatch.setattr(module, "datetime", Clock)


def in_month(monkeypatch: pytest.MonkeyPatch, month: str) -> None:
    at(monkeypatch, f"{month}-15T12:00:00")


def test_a_raised_ceiling_lets_more_be_spent_and_is_a_row(ledger: Ledger):
    release(ledger, charge("a", epsilon="0.9"), "0.9")
    with pytest.raises(BudgetExceeded):
        release(ledger, charge("b", epsilon="0.2"), "0.2")
    raised(ledger, ceiling="2")
    assert release(ledger, charge("b", epsilon="0.2"), "0.2") == "new"
    row = next(entry for entry in ledger.entries() if entry.event == "raise")
    assert row.facts == {"ceiling": "2", **WHY}
    assert ledger.account("trips") == account(ceiling="2")
    assert ledger.balance("trips").remaining == Fraction(9, 10)
    ledger.verify()


def test_a_file_with_lower_limits_goes_on_with_a_note(ledger: Ledger):
    raised(ledger, ceiling="2", per_month="1")
    opened = ledger.open_account(account(ceiling="1"))
    assert (opened.ceiling, opened.per_month) == (2, 1)
    assert account(ceiling="1").difference_from(opened) == (
        "population trips: the file declares ceiling '1', per_month 'none'; the account has "
        "ceiling '2', per_month '1', and the account rules"
    )
    same = replace(account(ceiling="2"), per_month=Fraction(1))
    assert same.difference_from(ledger.open_account(same)) == ""
    assert [entry.event for entry in ledger.entries()] == ["account", "raise"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ceiling": Fraction(3)}, "account has ceiling '2', but the file declares ceiling '3'"),
        ({"per_month": Fraction(2)}, "has per_month '1', but the file declares per_month '2'"),
    ],
)
def test_a_file_with_higher_limits_is_refused(ledger: Ledger, more: dict[str, Fraction], said: str):
    raised(ledger, ceiling="2", per_month="1")
    with pytest.raises(DeclarationError, match=f"{said}: .*`dp-pipeline budget raise DATASET --"):
        ledger.open_account(replace(account(ceiling="2"), **more))


def test_a_raise_needs_a_reason_and_a_ceiling(ledger: Ledger):
    two = Fraction(2)
    for reason in ("", " ", "two\nlines"):
        with pytest.raises(DeclarationError, match="reason to raise"):
            ledger.raise_ceiling("trips", ceiling=two, reason=reason, by="ana")
    ledger.open_account(account("adult", ceiling=None, purpose="benchmark"))
    for population, words in (("nobody", "no account"), ("adult", "no ceiling to raise")):
        with pytest.raises(DeclarationError, match=words):
            ledger.raise_ceiling(population, ceiling=two, **WHY)


def test_a_raise_changes_limits_alone(ledger: Ledger):
    two = Fraction(2)
    ledger.open_account(account("adult", ceiling=None, purpose="benchmark"))
    with pytest.raises(DeclarationError, match="those it has already"):
        ledger.raise_ceiling("adult", ceiling=None, **WHY)
    with pytest.raises(DeclarationError, match="sensitive rows need a ceiling"):
        ledger.raise_ceiling("trips", ceiling=None, **WHY)
    for name in ("total", "limit", "windows"):
        with pytest.raises(TypeError, match=f"delta_ceiling, not {name}"):
            ledger.raise_ceiling("trips", **{name: two}, **WHY)
    assert ledger.raise_ceiling("adult", per_month=two, **WHY).per_month == 2
    ledger.verify()


def test_a_month_has_its_own_limit_under_the_ceiling(ledger: Ledger, monkeypatch):
    ledger.open_account(monthly())
    in_month(monkeypatch, "2026-11")
    release(ledger, ride(1, "0.2"), "0.2")
    words = r"requested ε=0\.2, spent in 2026-11 0\.2, left 0\.1, per_month 0\.3; "
    with pytest.raises(BudgetExceeded, match=words):
        release(ledger, ride(2, "0.2"), "0.2")
    assert ledger.balance("rides").month_remaining == Fraction(1, 10)
    in_month(monkeypatch, "2026-12")
    assert release(ledger, ride(2, "0.2"), "0.2") == "new"
    assert ledger.balance("rides").month_spent == Fraction(1, 5)
    ledger.verify()


def test_the_ceiling_holds_however_many_months_pass(ledger: Ledger, monkeypatch):
    ledger.open_account(monthly())
    for n in range(3):
        in_month(monkeypatch, f"2027-0{n + 1}")
        release(ledger, ride(n, "0.3"), "0.3")
    in_month(monkeypatch, "2027-04")
    assert ledger.balance("rides").month_remaining == Fraction(1, 10)
    with pytest.raises(BudgetExceeded, match=r"left 0\.1, ceiling 1"):
        release(ledger, ride("last", "0.3"), "0.3")


def test_a_month_beyond_its_limit_is_found_by_the_audit(ledger: Ledger, monkeypatch):
    ledger.open_account(monthly())
    for n in range(2):
        in_month(monkeypatch, f"2027-0{n + 1}")
        release(ledger, ride(n, "0.2"), "0.2")
    second = "event = 'reserve' AND sequence = (SELECT max(sequence) - 1 FROM entries)"
    forge(ledger, f"UPDATE entries SET time = '2027-01-20T00:00:00.000000+00:00' WHERE {second}")
    with pytest.raises(Damaged, match=r"exceeds the ceiling 0.3 of 2027-01"):
        ledger.verify()


def test_a_lowered_ceiling_is_found_by_the_audit(ledger: Ledger):
    raised(ledger, ceiling="2")
    forge(ledger, "UPDATE entries SET facts = '{\"ceiling\": \"0.5\"}' WHERE event = 'raise'")
    with pytest.raises(Damaged, match="the ceiling must be at least 1, as before"):
        ledger.verify()


def forge(ledger: Ledger, statement: str) -> None:
    from dp_pipeline_tests.ledger.test_append_only import rechain

    raw(ledger.folder, statement, checks=False)
    rechain(ledger.folder)


def test_limits_in_rho_are_kept_as_they_were_converted(ledger: Ledger):
    in_rho = {"delta": NANO, "limit": None, "month_limit": Fraction(1, 1000)}
    opened = replace(monthly("rho", ceiling="4", per_month="1"), **in_rho)
    ledger.open_account(opened)
    stored_account = ledger.account("rho")
    assert (stored_account.limit, stored_account.month_limit) == (opened.limit, Fraction(1, 1000))
    higher = ledger.raise_ceiling("rho", ceiling=Fraction(5), **WHY)
    assert higher.limit == opened.currency.amount_of(Fraction(5))
    assert ledger.balance("rho").per_month == Fraction(1, 1000)
    higher = ledger.raise_ceiling("rho", per_month=None, **WHY)
    assert (ledger.account("rho"), ledger.balance("rho").per_month) == (higher, None)
    ledger.verify()


def test_a_higher_ceiling_of_less_rho_is_refused(ledger: Ledger):
    """Where an earlier conversion from ε gave more."""
    opened = account("rho", ceiling="4", delta=NANO, limit=Fraction(3))
    ledger.open_account(opened)
    with pytest.raises(DeclarationError, match="the ceiling in ρ must be at least 3, as before"):
        ledger.raise_ceiling("rho", ceiling=Fraction(5), **WHY)
    opening = ledger.entries()[-1]
    facts = replace(opened, ceiling=Fraction(5), limit=Fraction(2)).limits()
    with pytest.raises(Damaged, match="the ceiling in ρ must be at least 3, as before, not 2"):
        audit(opening, replace(opening, event="raise", facts=facts))


def test_a_retired_population_keeps_its_account(ledger: Ledger):
    release(ledger, charge(), "0.1")
    ledger.retire("trips", ["trips/2026-11-20", "trips/2026-11-21"], by="ana")
    row = ledger.entries()[-1]
    assert (row.event, row.facts["snapshots"]) == ("retired", "trips/2026-11-20, trips/2026-11-21")
    assert ledger.balance("trips").spent == Fraction(1, 10)
    ledger.verify()
    with pytest.raises(DeclarationError, match="no account"):
        ledger.retire("nobody", [], by="ana")


def monthly_trips(folder: Path) -> Ledger:
    """A ledger that begins now, with a tenth of ε a month."""
    ledger = Ledger(folder / "ledger")
    ledger.open_account(replace(account(ceiling="5"), per_month=TENTH))
    return ledger


def test_a_charge_behind_midnight_is_of_the_month_that_was_begun(tmp_path, monkeypatch):
    """A clock that is put back over midnight, or another computer's that runs ahead."""
    at(monkeypatch, "2026-12-01T00:00:01")
    ledger = monthly_trips(tmp_path)
    release(ledger, charge("a"), "0.1")
    at(monkeypatch, "2026-11-30T23:59:59.999999", "2026-12-01T00:00:02")
    with pytest.raises(BudgetExceeded, match=r"spent in 2026-12 0.1"):
        release(ledger, charge("b"), "0.1")
    assert ledger.balance("trips").month_spent == TENTH
    ledger.verify()


def test_a_clock_put_back_over_a_months_end_frees_no_month(tmp_path, monkeypatch):
    at(monkeypatch, "2026-11-30T12:00:00")
    ledger = monthly_trips(tmp_path)
    release(ledger, charge("a"), "0.1")
    at(monkeypatch, "2026-12-01T00:00:01")
    release(ledger, charge("b"), "0.1")
    for put_back in ("2026-11-30T12:00:00", "2026-10-01T00:00:00"):
        at(monkeypatch, put_back)
        with pytest.raises(BudgetExceeded, match=r"spent in 2026-12 0.1, left 0"):
            release(ledger, charge(put_back), "0.1")
        assert ledger.balance("trips").month == "2026-12"
    ledger.retire("trips", ["trips/a"], by="ana")
    times = [entry.time for entry in ledger.entries()]
    assert times == sorted(times)
    assert times[-1] == times[-2]
    ledger.verify()


def test_a_month_that_a_wrong_clock_blocks_is_opened_by_a_raise(tmp_path: Path, monkeypatch):
    """A clock that was once far ahead: its month is the ledger's until it comes."""
    at(monkeypatch, "2036-01-01T00:00:00")
    ledger = monthly_trips(tmp_path)
    release(ledger, charge("a"), "0.1")
    at(monkeypatch, "2026-12-01T00:00:00")
    with pytest.raises(BudgetExceeded, match=r"spent in 2036-01 0.1"):
        release(ledger, charge("b"), "0.1")
    raised(ledger, per_month="0.2")
    assert release(ledger, charge("b"), "0.1") == "new"
    ledger.verify()
