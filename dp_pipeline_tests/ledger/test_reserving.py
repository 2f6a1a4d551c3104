from fractions import Fraction

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged
from dp_pipeline.ledger import Charge, DeadRelease, Ledger, ReservationOver, UnbalancedSpends
from dp_pipeline_tests.ledger.places import EVERYWHERE
from dp_pipeline_tests.ledger.population import account, charge, release, spends

STORES = EVERYWHERE


def events(ledger: Ledger) -> list[str]:
    return [entry.event for entry in ledger.entries() if entry.key]


def test_a_release_is_charged_before_anyone_looks(ledger: Ledger):
    with ledger.reserve(charge()) as reservation:
        assert reservation.state == "new"
        assert ledger.balance("trips").spent == Fraction(1, 10)
        assert ledger.state(charge().key) == "reserved"
        reservation.settle(spends("0.04", "0.06"))
    assert ledger.state(charge().key) == "settled"
    assert ledger.balance("trips").remaining == Fraction(9, 10)
    ledger.verify()


def test_a_settled_release_is_free_for_ever(ledger: Ledger):
    release(ledger, charge(), "0.1")
    assert [release(ledger, charge()) for _ in range(3)] == ["settled"] * 3
    assert events(ledger) == ["reserve", "settled"]


def test_what_was_recorded_can_be_read_back(ledger: Ledger):
    release(ledger, charge(), "1/30", "1/15")
    reserve, settled = ledger.entries("trips")[1:]
    assert (reserve.kind, reserve.nano_epsilon, reserve.what) == ("dp", 10**8, "trips/grid a")
    assert reserve.facts == {"model": "grid", "run id": "r1"}
    assert settled.nano_epsilon == 0
    assert settled.spends == tuple(spends("1/30", "1/15"))
    assert reserve.time.endswith("+00:00")


def test_an_exception_after_the_reserve_keeps_the_charge(ledger: Ledger):
    with pytest.raises(KeyError), ledger.reserve(charge()):
        raise KeyError
    assert release(ledger, charge()) == "resumed"
    assert ledger.state(charge().key) == "interrupted"
    assert release(ledger, charge(), "0.1") == "resumed"
    assert events(ledger) == ["reserve", "interrupted", "interrupted", "settled"]
    assert ledger.balance("trips").spent == Fraction(1, 10)
    ledger.verify()


def test_a_charge_over_the_ceiling_writes_nothing(ledger: Ledger):
    release(ledger, charge(1, epsilon="0.7"), "0.7")
    with pytest.raises(BudgetExceeded) as refusal:
        release(ledger, charge(2, epsilon="0.300000001"))
    assert str(refusal.value).startswith(
        "trips/grid 2 refused by trips: requested ε=0.300000001, spent 0.7, left 0.3, ceiling 1; "
    )
    assert ledger.state(charge(2).key) is None
    assert events(ledger) == ["reserve", "settled"]


def test_a_dead_release_stays_spent_and_never_goes_on(ledger: Ledger):
    with ledger.reserve(charge()) as reservation:
        reservation.die("transcript\ngone")
    assert ledger.state(charge().key) == "dead"
    assert ledger.entries()[-1].facts == {"reason": "transcript gone"}
    with pytest.raises(DeadRelease, match="and its ε is spent: pay for a new draw at the full"):
        release(ledger, charge())
    assert ledger.balance("trips").spent == Fraction(1, 10)
    assert release(ledger, charge("a, replicate 2"), "0.1") == "new"
    ledger.verify()


def test_a_release_without_epsilon_is_counted_and_costs_nothing(ledger: Ledger):
    release(ledger, charge(epsilon="0"))
    balance = ledger.balance("trips")
    assert (balance.spent, balance.not_dp) == (0, 1)
    assert ledger.state(charge().key) == "settled"
    ledger.verify()


def test_releases_without_epsilon_are_listed_oldest_first(ledger: Ledger):
    assert ledger.not_dp_releases("trips") == ()
    release(ledger, charge(1, epsilon="0"))
    release(ledger, charge(2), "0.1")
    with pytest.raises(KeyError), ledger.reserve(charge(3, epsilon="0")):
        raise KeyError
    with pytest.raises(KeyError), ledger.reserve(charge(3, epsilon="0")):
        raise KeyError
    ledger.open_account(account("adult"))
    release(ledger, charge(4, epsilon="0", population="adult"))
    assert [entry.what for entry in ledger.not_dp_releases("trips")] == [
        "trips/grid 1",
        "trips/grid 3",
    ]
    assert [entry.what for entry in ledger.not_dp_releases("adult")] == ["adult/grid 4"]
    assert ledger.not_dp_releases("nobody") == ()


@pytest.mark.parametrize("parts", [(), ("0.05",), ("0.05", "0.050000001"), ("0.2",)])
def test_spends_that_do_not_sum_to_the_charge_are_refused(ledger: Ledger, parts: tuple[str, ...]):
    with ledger.reserve(charge()) as reservation, pytest.raises(UnbalancedSpends) as refusal:
        reservation.settle(spends(*parts))
    assert "the spends must sum to the charge of" in str(refusal.value)
    assert ledger.state(charge().key) == "reserved"


def test_an_epsilon_between_two_nanos_is_rounded_up_once(ledger: Ledger):
    third = charge(epsilon="1/3")
    assert third.nano_epsilon == 333_333_334
    release(ledger, third, "1/9", "1/9", "1/9")
    ledger.verify()


def test_a_thousand_tiny_spends_sum_exactly(ledger: Ledger):
    release(ledger, charge(epsilon="1"), *["1/1000"] * 1000)
    ledger.verify()


@pytest.mark.parametrize("asked", [charge(epsilon="0.2"), charge(population="adult")])
def test_a_key_used_for_another_charge_is_damage(ledger: Ledger, asked):
    ledger.open_account(account("adult"))
    release(ledger, charge(), "0.1")
    with pytest.raises(Damaged, match="was reserved with 100000000 nano-ε of population trips"):
        release(ledger, asked)


def test_a_reservation_ends_once(ledger: Ledger):
    with ledger.reserve(charge()) as reservation:
        reservation.settle(spends("0.1"))
        for again in (lambda: reservation.settle(spends("0.1")), lambda: reservation.die("late")):
            with pytest.raises(ReservationOver, match="settled already"):
                again()
    with ledger.reserve(charge()) as reservation:
        for again in (lambda: reservation.settle(spends("0.1")), lambda: reservation.die("late")):
            with pytest.raises(ReservationOver, match="settled already"):
                again()
    assert events(ledger) == ["reserve", "settled"]


def test_a_reservation_that_was_left_records_nothing(ledger: Ledger):
    with ledger.reserve(charge()) as reservation:
        pass
    with pytest.raises(ReservationOver, match="ended with its block"):
        reservation.settle(spends("0.1"))
    assert ledger.state(charge().key) == "reserved"


def test_a_charge_does_not_change_with_the_callers_facts():
    facts = {"model": "grid"}
    new_charge = Charge("cd" * 32, "trips", "dp", 1000, "x", facts)
    facts["model"] = "tree"
    assert new_charge.facts == {"model": "grid"}


def test_facts_may_hold_any_text(ledger: Ledger):
    facts = {"path": "file:\udcff \n 'ε' \u2028 %s :name", "empty": ""}
    new_charge = Charge("cd" * 32, "trips", "dp", 1000, "x", facts)
    release(ledger, new_charge, "0.000001")
    assert ledger.entries()[1].facts == facts
    ledger.verify()
