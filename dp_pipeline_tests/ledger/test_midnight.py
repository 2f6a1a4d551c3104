"""A charge at the end of a month is of one month: the one whose limit was asked."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain, repeat
from pathlib import Path

import pytest

from dp_pipeline.ledger import Account, Ledger, balance, journal
from dp_pipeline_tests.ledger.population import charge, release


def at(monkeypatch: pytest.MonkeyPatch, *times: str) -> None:
    """What the clock says, one look after the other, and the last ever after."""
    looks = chain(times, repeat(times[-1]))

    class Clock:
        @staticmethod
        def now(_: object) -> datetime:
            return datetime.fromisoformat(next(looks)).replace(tzinfo=UTC)

    for module in (balance, journal):
        monkeypatch.setattr(module, "datetime", Clock)


def test_a_charge_at_midnight_is_in_the_month_that_had_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A clock that is put back over midnight, or another computer's that runs ahead."""
    ledger, limit = Ledger(tmp_path / "ledger"), Fraction(1, 10)
    at(monkeypatch, "2026-12-01T00:00:01")
    ledger.open_account(
        Account("trips", "one row", "add_remove", "release", Fraction(5), per_month=limit)
    )
    release(ledger, charge("a"), "0.1")
    at(monkeypatch, "2026-11-30T23:59:59.999999", "2026-12-01T00:00:02")
    release(ledger, charge("b"), "0.1")
    assert ledger.balance("trips").month_spent == limit
    assert [one.time[:7] for one in ledger.entries() if one.event == "reserve"] == [
        "2026-12",
        "2026-11",
    ]
    ledger.verify()
