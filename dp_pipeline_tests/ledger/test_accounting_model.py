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


class Model:
    """What is reserved, what became of it, and nothing else."""

    def __init__(self) -> None:
        self.state: dict[tuple[str, str, int], str] = {}

    def spent(self, population: str) -> int:
        return sum(charge(epsilon=k[1]).nano_epsilon for k in self.state if k[0] == population)

    def answer(self, name: tuple[str, str, int]) -> str:
        if name in self.state:
            return {"settled": "settled", "dead": "DeadRelease"}.get(self.state[name], "resumed")
        new_charge = charge(epsilon=name[1]).nano_epsilon
        fits = self.spent(name[0]) + new_charge <= Fraction(CEILINGS[name[0]]) * 10**9
        return "new" if fits else "BudgetExceeded"


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


@settings(max_examples=25)
@given(steps)
def test_every_answer_and_every_balance_is_that_of_the_model(plan: list[tuple[str, str, int, str]]):
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        for population, ceiling in CEILINGS.items():
            ledger.open_account(account(population, ceiling=ceiling))
        for *parts, end in plan:
            name = (parts[0], parts[1], parts[2])
            expected = model.answer(name)
            assert step(ledger, name, end) == expected
            if expected in ("new", "resumed"):
                unfinished = {"new": "reserved", "resumed": "interrupted"}[expected]
                model.state[name] = {"settle": "settled", "die": "dead"}.get(end, unfinished)
            if name in model.state:
                assert ledger.state(charge(name).key) == model.state[name]
        for population in CEILINGS:
            assert ledger.balance(population).spent == Fraction(model.spent(population), 10**9)
            free = [name for name in model.state if name[:2] == (population, "0")]
            assert ledger.balance(population).not_dp == len(free)
        ledger.verify()
