"""Many processes at once, killed at any moment: nothing is overspent, forgotten or half-written."""

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from dp_pipeline.ledger import Charge, Ledger
from dp_pipeline.ledger.head import Draft
from dp_pipeline_tests.ledger.places import Place
from dp_pipeline_tests.ledger.population import (
    Child,
    account,
    attempt,
    charge,
    die_here,
    release,
    say,
    spends,
)

pytestmark = pytest.mark.chain

STORES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.stack))


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
        assert ledger.state(key) in {state, "settled"}


def create_and_open(_: int, place: Place) -> None:
    place().open_account(account())


def test_killed_while_creating_the_next_one_succeeds(folder: Path, places):
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


def hundredth(who: int, n: int) -> Charge:
    return charge((who, n), epsilon="0.01")


def test_six_processes_never_pass_the_ceiling_together(place: Place):
    ledger = place()
    # The first half is let in by all six at once, and of the other half none.
    times = 60 if place.slowness == 1 else 20
    accepted = 6 * times // 2
    ledger.open_account(account(ceiling=f"{accepted}/100"))
    children = [Child(attempt, place, partial(hundredth, worker), times) for worker in range(6)]
    assert sum(int(child.lines()[0]) for child in children) == accepted
    assert ledger.balance("trips").remaining == 0
    assert len(ledger.entries()) == 1 + accepted
    ledger.verify()


def open_and_read(pipe: int, place: Place) -> None:
    ledger = place()
    ledger.open_account(account())
    say(pipe, ledger.key("trips").hex())


def test_processes_that_create_the_same_ledger_agree_on_it(folder: Path, places):
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

    def work(_: int) -> None:
        nonlocal inside, most
        with ledger.reserve(charge()) as reservation:
            inside += 1
            most = max(most, inside)
            states[reservation.state] += 1
            if reservation.state == "new":
                reservation.settle(spends("0.1"))
            inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert (most, states) == (1, {"new": 1, "settled": 7})


def test_threads_with_different_keys_do_not_wait_for_each_other(ledger: Ledger):
    with ThreadPoolExecutor(1) as pool, ledger.reserve(charge()):
        other = pool.submit(release, ledger, charge("other"), "0.1")
        assert other.result(60) == "new"


def read_all(pipe: int, place: Place) -> None:
    ledger = place()
    for _ in range(40):
        ledger.verify()
        ledger.balance("trips")
    say(pipe, "read")


@pytest.mark.usefixtures("ledger")
def test_readers_are_not_disturbed_by_writers(place: Place):
    times = 100 // place.slowness
    children = [Child(read_all, place), Child(attempt, place, partial(hundredth, 1), times)]
    assert [child.lines() for child in children] == [["read"], [str(times)]]
