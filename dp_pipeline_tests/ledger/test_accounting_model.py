"""The ledger against a model of it that fits on a page."""

import tempfile
from fractions import Fraction
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.ledger import DeadRelease, Ledger
from dp_pipeline_tests.ledger.population import account, charge, spends

CEILINGS = {"trips": "1", "adult": "0.3"}
# One ε per name, as a release key contains its ε; some do not end in decimals.
EPSILONS = ["0.1", "0.2", "1/3", "0.7", "0.000001", "0"]

steps = st.lists(
    st.tuples(
        st.sampled_from(sorted(CEILINGS)),
        st.sampled_from(EPSILONS),
        st.integers(0, 1),
        st.sampled_from(["settle", "leave", "raise", "die"]),
    ),
    max_size=14,
)


def step(ledger: Ledger, name: tuple[str, str, int], end: str) -> str:
    population, epsilon, _ = name
    try:
        with ledger.reserve(charge(name, epsilon=epsilon, population=population)) as reservation:
            if end == "settle" and reservation.state != "settled":
                parts = [str(Fraction(epsilon) / 3)] * 3 if Fraction(epsilon) else []
                reservation.settle(spends(*parts))
            if end == "die" and reservation.state != "settled":
                reservation.die("lost")
            if end == "raise":
                raise InterruptedError(reservation.state)
            return reservation.state
    except InterruptedError as error:
        return str(error)
    except (DeadRelease, BudgetExceeded) as error:
        return type(error).__name__


Name = tuple[str, str, int]


def answer(states: dict[Name, str], name: Name) -> str:
    """What the model answers, of which state every release is in."""
    if name in states:
        return {"settled": "settled", "dead": "DeadRelease"}.get(states[name], "resumed")
    total = charge(epsilon=name[1]).nano_epsilon + spent(states, name[0])
    return "new" if total <= Fraction(CEILINGS[name[0]]) * 10**9 else "BudgetExceeded"


def spent(states: dict[Name, str], population: str) -> int:
    return sum(charge(epsilon=n[1]).nano_epsilon for n in states if n[0] == population)


@settings(max_examples=25)
@given(steps)
def test_every_answer_and_every_balance_is_that_of_the_model(plan: list):
    states: dict[Name, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        for population, ceiling in CEILINGS.items():
            ledger.open_account(account(population, ceiling=ceiling))
        for *parts, end in plan:
            name = tuple(parts)
            expected = answer(states, name)
            assert step(ledger, name, end) == expected
            if expected in ("new", "resumed"):
                unfinished = {"new": "reserved", "resumed": "interrupted"}[expected]
                states[name] = {"settle": "settled", "die": "dead"}.get(end, unfinished)
            assert ledger.state(charge(name).key) == states.get(name)
        for population in CEILINGS:
            assert ledger.balance(population).spent == Fraction(spent(states, population), 10**9)
            free = [name for name in states if name[:2] == (population, "0")]
            assert ledger.balance(population).not_dp == len(free)
        ledger.verify()
