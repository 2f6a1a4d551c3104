"""A charge at the end of a month is of one month: the one whose limit was asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain, repeat
from pathlib import Path

import pytest

from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.ledger import Ledger, balance, journal
from dp_pipeline_tests.ledger.population import account, charge, release


def at(monkeypatch: pytest.MonkeyPatch, *times: str) -> None:
    """What the clock says, one look after the other, and the last ever after."""
    looks = chain(times, repeat(times[-1]))

    class Clock:
        @staticmethod
        def now(_: object) -> datetime:
            return datetime.fromisoformat(next(looks)).replace(tzinfo=UTC)

    for module in (balance, journal):
        monkeypatch.setattr(module, "datetime", Clock)


def test_a_charge_behind_midnight_is_of_the_month_that_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A clock that is put back over midnight, or another computer's that runs ahead."""
    ledger, limit = Ledger(tmp_path / "ledger"), Fraction(1, 10)
    at(monkeypatch, "2026-12-01T00:00:01")
    ledger.open_account(replace(account(ceiling="5"), per_month=limit))
    release(ledger, charge("a"), "0.1")
    at(monkeypatch, "2026-11-30T23:59:59.999999", "2026-12-01T00:00:02")
    with pytest.raises(BudgetExceeded, match=r"spent in 2026-12 0.1"):
        release(ledger, charge("b"), "0.1")
    assert ledger.balance("trips").month_spent == limit
    ledger.verify()


def test_a_clock_put_back_over_a_months_end_frees_no_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger, limit = Ledger(tmp_path / "ledger"), Fraction(1, 10)
    at(monkeypatch, "2026-11-30T12:00:00")
    ledger.open_account(replace(account(ceiling="5"), per_month=limit))
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


def test_a_month_that_a_wrong_clock_blocks_is_opened_by_a_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A clock that was once far ahead: its month is the ledger's until it comes."""
    ledger, limit = Ledger(tmp_path / "ledger"), Fraction(1, 10)
    at(monkeypatch, "2036-01-01T00:00:00")
    ledger.open_account(replace(account(ceiling="5"), per_month=limit))
    release(ledger, charge("a"), "0.1")
    at(monkeypatch, "2026-12-01T00:00:00")
    with pytest.raises(BudgetExceeded, match=r"spent in 2036-01 0.1"):
        release(ledger, charge("b"), "0.1")
    raised = {"reason": "the clock was wrong", "by": "ana"}
    ledger.raise_ceiling("trips", total=Fraction(5), per_month=2 * limit, **raised)
    assert release(ledger, charge("b"), "0.1") == "new"
    ledger.verify()
