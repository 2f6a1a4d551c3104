"""A process killed at any moment: nothing charged is forgotten, nothing half-written stays."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import Draft
from dp_pipeline_tests.ledger.places import Place
from dp_pipeline_tests.ledger.population import Child, account, charge, release, say, spends

pytestmark = pytest.mark.chain

STORES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.stack))


def die_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_after_the_reserve(pipe: int, place: Place) -> None:
    with place().reserve(charge()) as reservation:
        say(pipe, reservation.state)
        die_here()


def test_killed_after_the_reserve_it_is_resumed_for_nothing(ledger: Ledger, place: Place):
    assert Child(die_after_the_reserve, place).lines() == ["new"]
    assert ledger.state(charge().key) == "reserved"
    assert ledger.balance("trips").spent == Fraction(1, 10)
    assert Child(die_after_the_reserve, place).lines() == ["resumed"]
    assert ledger.state(charge().key) == "interrupted"
    assert release(ledger, charge(), "0.1") == "resumed"
    assert ledger.balance("trips").spent == Fraction(1, 10)
    ledger.verify()


def die_before_the_commit(_: int, place: Place) -> None:
    with place()._book.writing() as page:
        page.append(Draft.of(charge(), "reserve", nano_epsilon=charge().nano_epsilon))
        die_here()


def test_killed_before_the_commit_it_leaves_nothing(ledger: Ledger, place: Place):
    Child(die_before_the_commit, place).lines()
    assert ledger.state(charge().key) is None
    assert ledger.balance("trips").spent == 0
    assert release(ledger, charge(), "0.1") == "new"
    ledger.verify()


def reserve_and_settle_for_ever(pipe: int, place: Place, who: str) -> None:
    ledger = place()
    for n in range(10**6):
        new_charge = charge((who, n), epsilon="0.01")
        with ledger.reserve(new_charge) as reservation:
            say(pipe, f"reserved {new_charge.key}")
            reservation.settle(spends("0.01"))
            say(pipe, f"settled {new_charge.key}")


def test_killed_at_any_moment_nothing_reported_is_missing(place: Place):
    moments, reported = random.Random(7), {}
    ledger = place()
    ledger.open_account(account(ceiling="1000"))
    for n in range(12):
        pair = [Child(reserve_and_settle_for_ever, place, f"{n}{worker}") for worker in "ab"]
        # Every other pair is killed when it has begun for sure, however busy the computer is.
        if n % 2 and (line := pair[0].line()):
            reported.update([reversed(line.split())])
        time.sleep(moments.uniform(0.02, 0.15))
        for child in pair:
            reported.update(reversed(line.split()) for line in child.kill())
        ledger.verify()
        assert len(reported) <= ledger.balance("trips").spent * 100 <= len(reported) + 2 * (n + 1)
    assert reported
    for key, state in reported.items():
        assert (
            ledger.state(key)
            in {"reserved": ("reserved", "settled"), "settled": ("settled",)}[state]
        )


def create_and_open(_: int, place: Place) -> None:
    place().open_account(account())


def test_killed_while_creating_the_next_one_succeeds(folder: Path, places: Callable[[Path], Place]):
    moments = random.Random(8)
    for n in range(12):
        place = places(folder / str(n))
        child = Child(create_and_open, place)
        time.sleep(moments.uniform(0.0, 0.03))
        child.kill()
        ledger = place()
        ledger.open_account(account())
        ledger.verify()
        assert ledger.account("trips") == account()
        assert len(ledger.key("trips")) == 32
