"""Rows, hashes and sums of every kind of row, to the byte: a stored ledger holds for ever."""

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.amounts import Currency
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.ledger.population import NANO, WHY, account, charge, raw, release
from dp_pipeline_tests.ledger.test_raising import in_month, monthly
from dp_pipeline_tests.ledger.test_restoring import junk, named

TIP = "9adfb2166380e4f552fc0b58632dcae19b89ed9e94282919ee0ff66ddbc32c24"
STATE = "2cf9ddfe1aee7ecaff13b12a4032dbfe2d080a12a4e9d0dd0658a24ea30b1a77"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Each kind of row once or more, at one moment and with one key."""
    in_month(monkeypatch, "2026-11")
    monkeypatch.setattr(os, "urandom", lambda size: b"k" * size)
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(account(), sources=["csv:rides.csv"])
    ledger.open_account(monthly())
    ledger.open_account(
        replace(account("rho", ceiling="4"), delta=NANO, delta_ceiling=2 * NANO, limit=None)
    )
    ledger.open_account(account("bench", ceiling=None, purpose="benchmark"))
    release(ledger, charge("a"), "0.04", "0.06")
    release(ledger, charge("free", epsilon="0"))
    rho = replace(charge("b", population="rho", epsilon="0.01"), delta=NANO)
    release(ledger, replace(rho, currency=Currency(NANO)), "0.01")
    release(ledger, charge("c"))
    release(ledger, charge("c"))
    with ledger.reserve(charge("d", epsilon="0.2")) as reservation:
        reservation.die("lost")
    ledger.raise_ceiling("rides", ceiling=Fraction(2), per_month=None, **WHY)
    ledger.raise_ceiling(
        "rho", ceiling=Fraction(5), per_month=Fraction(1), delta_ceiling=3 * NANO, **WHY
    )
    ledger.retire("trips", ["trips/a"], by="ana")
    raw(ledger.folder, junk())
    ledger.restore(named(ledger), **WHY)
    ledger.restore(**WHY)
    return ledger


def test_a_ledger_is_the_same_to_the_byte_as_it_always_was(written: Ledger):
    assert written.entries()[-1].state == STATE
    assert written.verify().hash == TIP
