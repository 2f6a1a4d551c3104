from fractions import Fraction

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged
from dp_pipeline.ledger import Charge, DeadRelease, Ledger, ReservationOver, UnbalancedSpends
from dp_pipeline_tests.ledger.places import EVERYWHERE
from dp_pipeline_tests.ledger.population import account, charge, release, require_refused, spends

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
    assert [release(ledger, charge()) for _ in range(3)] == ["settled"] * 3
    assert ledger.balance("trips").remaining == Fraction(9, 10)
    assert events(ledger) == ["reserve", "settled"]
    ledger.verify()


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


def test_releases_without_epsilon_are_listed_oldest_first(ledger: Ledger):
    assert ledger.not_dp_releases("trips") == ()
    release(ledger, charge(1, epsilon="0"))
    assert ledger.state(charge(1).key) == "settled"
    release(ledger, charge(2), "0.1")
    for _ in range(2):
        with pytest.raises(KeyError), ledger.reserve(charge(3, epsilon="0")):
            raise KeyError
    ledger.open_account(account("adult"))
    release(ledger, charge(4, epsilon="0", population="adult"))
    names = {"trips": ["trips/grid 1", "trips/grid 3"], "adult": ["adult/grid 4"], "nobody": []}
    for population, listed in names.items():
        assert [entry.what for entry in ledger.not_dp_releases(population)] == listed
        assert ledger.balance(population).not_dp == len(listed)
    assert ledger.balance("trips").spent == Fraction(1, 10)
    ledger.verify()


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
    release(ledger, charge("b", epsilon="1/2"), *["1/2000"] * 1000)
    ledger.verify()


@pytest.mark.parametrize("other", [charge(epsilon="0.2"), charge(population="adult")])
def test_a_key_used_for_another_charge_is_damage(ledger: Ledger, other):
    ledger.open_account(account("adult"))
    release(ledger, charge(), "0.1")
    with pytest.raises(Damaged, match="was reserved with 100000000 nano-ε of population trips"):
        release(ledger, other)


def test_a_reservation_ends_once(ledger: Ledger):
    for _ in range(2):
        with ledger.reserve(charge()) as reservation:
            if reservation.state == "new":
                reservation.settle(spends("0.1"))
            ends = (lambda: reservation.settle(spends("0.1")), lambda: reservation.die("late"))
            require_refused(ReservationOver, "settled already", *ends)
    assert events(ledger) == ["reserve", "settled"]
    with ledger.reserve(charge("b")) as reservation:
        pass
    with pytest.raises(ReservationOver, match="ended with its block"):
        reservation.settle(spends("0.1"))
    assert ledger.state(charge("b").key) == "reserved"


def test_facts_may_hold_any_text(ledger: Ledger):
    facts = {"path": "file:\udcff \n 'ε' \u2028 %s :name", "empty": ""}
    new_charge = Charge("cd" * 32, "trips", "dp", 1000, "x", facts)
    expected = {**facts}
    facts["empty"] = "changed by the caller"
    release(ledger, new_charge, "0.000001")
    assert ledger.entries()[1].facts == new_charge.facts == expected
    ledger.verify()
