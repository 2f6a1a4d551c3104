"""A process killed at any moment: nothing charged is forgotten, nothing half-written stays."""

from __future__ import annotations

import os
import random
import signal
import time
from fractions import Fraction
from pathlib import Path

from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.book import Book
from dp_pipeline.ledger.head import Head
from dp_pipeline.ledger.journal import Draft, append
from dp_pipeline.ledger.sqlite_store import SqliteStore
from dp_pipeline_tests.ledger.population import Child, account, charge, release, say, spends


def die_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_after_the_reserve(pipe: int, folder: Path) -> None:
    with Ledger(folder).reserve(charge()) as reservation:
        say(pipe, reservation.state)
        die_here()


def test_killed_after_the_reserve_it_stays_charged_and_is_resumed_for_nothing(ledger: Ledger):
    assert Child(die_after_the_reserve, ledger.folder).lines() == ["new"]
    assert ledger.state(charge().key) == "reserved"
    assert ledger.balance("trips").spent == Fraction(1, 10)
    assert Child(die_after_the_reserve, ledger.folder).lines() == ["resumed"]
    assert ledger.state(charge().key) == "interrupted"
    assert release(ledger, charge(), "0.1") == "resumed"
    assert ledger.balance("trips").spent == Fraction(1, 10)
    ledger.verify()


def die_before_the_commit(_: int, folder: Path) -> None:
    head = Head(folder.with_name("ledger.head"))
    with Book(SqliteStore(folder), head).writing() as connection:
        append(connection, Draft.of(charge(), "reserve", nano_epsilon=charge().nano_epsilon))
        die_here()


def test_killed_before_the_commit_it_leaves_nothing(ledger: Ledger):
    Child(die_before_the_commit, ledger.folder).lines()
    assert ledger.state(charge().key) is None
    assert ledger.balance("trips").spent == 0
    assert release(ledger, charge(), "0.1") == "new"
    ledger.verify()


def reserve_and_settle_for_ever(pipe: int, folder: Path, who: str) -> None:
    ledger = Ledger(folder)
    for n in range(10**6):
        asked = charge((who, n), epsilon="0.01")
        with ledger.reserve(asked) as reservation:
            say(pipe, f"reserved {asked.key}")
            reservation.settle(spends("0.01"))
            say(pipe, f"settled {asked.key}")


def test_killed_at_any_moment_the_chain_holds_and_nothing_reported_is_missing(folder: Path):
    moments, reported = random.Random(7), {}
    ledger = Ledger(folder)
    ledger.open_account(account(ceiling="1000"))
    for n in range(12):
        pair = [Child(reserve_and_settle_for_ever, folder, f"{n}{who}") for who in "ab"]
        time.sleep(moments.uniform(0.02, 0.15))
        for child in pair:
            reported.update(reversed(line.split()) for line in child.kill())
        ledger.verify()
        assert len(reported) <= ledger.balance("trips").spent * 100 <= len(reported) + 2 * (n + 1)
    assert reported
    for key, said in reported.items():
        assert (
            ledger.state(key)
            in {"reserved": ("reserved", "settled"), "settled": ("settled",)}[said]
        )


def create_and_open(_: int, folder: Path) -> None:
    Ledger(folder).open_account(account())


def test_killed_while_creating_the_next_one_succeeds(folder: Path):
    moments = random.Random(8)
    for n in range(12):
        child = Child(create_and_open, folder / str(n))
        time.sleep(moments.uniform(0.0, 0.03))
        child.kill()
        ledger = Ledger(folder / str(n))
        ledger.open_account(account())
        ledger.verify()
        assert ledger.account("trips") == account()
        assert len(ledger.key("trips")) == 32
