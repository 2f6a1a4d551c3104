"""Many processes at once; nothing here depends on who is faster."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.ledger.places import Place
from dp_pipeline_tests.ledger.population import Child, account, charge, release, say, spends

pytestmark = pytest.mark.chain

STORES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.stack))


def attempt(pipe: int, place: Place, who: int, times: int) -> None:
    ledger, accepted = place(), 0
    for n in range(times):
        try:
            release(ledger, charge((who, n), epsilon="0.01"))
            accepted += 1
        except BudgetExceeded:
            pass
    say(pipe, accepted)


def test_six_processes_never_pass_the_ceiling_together(place: Place):
    ledger = place()
    # The first half is let in by all six at once, and of the other half none.
    times = 60 if place.slowness == 1 else 20
    accepted = 6 * times // 2
    ledger.open_account(account(ceiling=f"{accepted}/100"))
    children = [Child(attempt, place, worker, times) for worker in range(6)]
    assert sum(int(child.lines()[0]) for child in children) == accepted
    assert ledger.balance("trips").remaining == 0
    assert len(ledger.entries()) == 1 + accepted
    ledger.verify()


def try_once(pipe: int, place: Place, who: int) -> None:
    try:
        say(pipe, release(place(), charge(who, epsilon="0.25"), "0.25"))
    except BudgetExceeded:
        say(pipe, "refused")


def test_of_ten_processes_with_room_for_four_four_enter(ledger: Ledger, place: Place):
    children = [Child(try_once, place, worker) for worker in range(10)]
    answers = Counter(child.lines()[0] for child in children)
    assert answers == {"new": 4, "refused": 6}
    assert ledger.balance("trips").remaining == 0
    ledger.verify()


def open_and_read(pipe: int, place: Place) -> None:
    ledger = place()
    ledger.open_account(account())
    say(pipe, ledger.key("trips").hex())


def test_processes_that_create_the_same_ledger_agree_on_it(
    folder: Path, places: Callable[[Path], Place]
):
    for n in range(5):
        place = places(folder / str(n))
        children = [Child(open_and_read, place) for _ in range(6)]
        keys = [child.lines() for child in children]
        assert all(key == keys[0] and len(key) == 1 for key in keys)
        assert [entry.event for entry in place().entries()] == ["account"]
        assert not list((folder / str(n)).rglob(".*.tmp"))


def draw_when_told(pipe: int, place: Place, go: int) -> None:
    with place().reserve(charge()) as reservation:
        say(pipe, reservation.state)
        if reservation.state == "new":
            os.read(go, 1)
            reservation.settle(spends("0.1"))
            say(pipe, "drew")


def test_of_two_processes_with_one_key_one_draws(ledger: Ledger, place: Place):
    read, write = os.pipe()
    first = Child(draw_when_told, place, read)
    assert first.line() == "new"
    second = Child(draw_when_told, place, read)
    second.process.join(0.2)
    assert second.process.is_alive(), "the second one did not wait"
    os.write(write, b"!")
    assert first.lines() == ["drew"]
    assert second.lines() == ["settled"]
    assert ledger.balance("trips").spent == Fraction(1, 10)


def test_of_many_threads_with_one_key_exactly_one_draws(ledger: Ledger):
    inside, most, states = 0, 0, Counter[str]()

    def work() -> None:
        nonlocal inside, most
        with ledger.reserve(charge()) as reservation:
            inside += 1
            most = max(most, inside)
            states[reservation.state] += 1
            if reservation.state == "new":
                reservation.settle(spends("0.1"))
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, states) == (1, {"new": 1, "settled": 7})


def test_threads_with_different_keys_do_not_wait_for_each_other(ledger: Ledger):
    done = threading.Event()

    def other() -> None:
        release(ledger, charge("other"), "0.1")
        done.set()

    with ledger.reserve(charge()):
        thread = threading.Thread(target=other)
        thread.start()
        assert done.wait(60)
        thread.join()


def read_all(pipe: int, place: Place) -> None:
    ledger = place()
    for _ in range(40):
        ledger.verify()
        ledger.balance("trips")
    say(pipe, "read")


@pytest.mark.usefixtures("ledger")
def test_readers_are_not_disturbed_by_writers(place: Place):
    times = 100 // place.slowness
    children = [Child(read_all, place), Child(attempt, place, 1, times)]
    assert [child.lines() for child in children] == [["read"], [str(times)]]
