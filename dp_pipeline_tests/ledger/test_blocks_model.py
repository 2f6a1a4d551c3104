"""Windows against a model of them that fits on a page, and many processes on them at once."""

import tempfile
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.ledger import Account, Charge, Ledger
from dp_pipeline.ledger.entries import blocks_of
from dp_pipeline_tests.ledger.places import Place
from dp_pipeline_tests.ledger.population import (
    NANO,
    WHY,
    Child,
    attempt,
    in_windows,
    release,
    weekly,
)

STORES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.stack))
WEEKS = ["W01", "W02", "W03", "W04"]
ACCOUNTS = [
    weekly(delta_ceiling=2 * NANO),
    weekly(ceiling="1.5", delta_ceiling=2 * NANO),
    weekly(ceiling="1.5", within="ever", delta_ceiling=2 * NANO),
    weekly(ceiling="1.5", within="ever", each=None),
]

charges = st.tuples(
    st.sets(st.sampled_from(WEEKS), min_size=1).map(lambda weeks: tuple(sorted(weeks))),
    st.sampled_from(["0.1", "0.3", "1/3", "0.7", "1"]),
    st.sampled_from([0, 0, 1, 2]),
)


class Model:
    """What was let in: windows, nano-ε and nano-δ of each charge."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.paid: list[tuple[tuple[str, ...], int, int]] = []
        self.each, self.total = account.each_window, account.ceiling

    def spent(self, week: str = "") -> int:
        """Of one week; without one, of all together: a charge counts in each that it names."""
        return sum(n * (blocks.count(week) if week else len(blocks)) for blocks, n, _ in self.paid)

    def delta(self, week: str = "") -> int:
        return sum(delta for blocks, _, delta in self.paid if not week or week in blocks)

    def lets_in(self, blocks: tuple[str, ...], nano: int, delta: int) -> bool:
        is_of_window = self.account.within == "window"
        total = (self.spent() + nano * len(blocks)) * NANO
        weeks = [(self.spent(week) + nano) * NANO for week in blocks]
        deltas = [self.delta(week) + delta for week in (blocks if is_of_window else ("",))]
        return (
            (self.total is None or total <= self.total)
            and (self.each is None or max(weeks) <= self.each)
            and (not delta or is_of_window or len(blocks) == 1)
            and (not delta or max(deltas) * NANO <= (self.account.delta_ceiling or 0))
        )


@pytest.mark.chain
@settings(max_examples=30)
@given(st.sampled_from(ACCOUNTS), st.lists(st.one_of(charges, st.just("raise")), max_size=14))
def test_every_charge_is_let_in_or_refused_as_by_the_model(account: Account, plan: list):
    model = Model(account)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        ledger.open_account(account)
        for n, step in enumerate(plan):
            if step == "raise":
                if model.each == 1:
                    model.each = Fraction(6, 5)
                    ledger.raise_ceiling("rides", each_window=model.each, **WHY)
                continue
            blocks, epsilon, delta = step
            new_charge = in_windows(n, *blocks, epsilon=epsilon, delta=delta * NANO)
            nano = new_charge.nano_epsilon
            if model.lets_in(blocks, nano, delta):
                assert release(ledger, new_charge) == "new"
                model.paid.append((blocks, nano, delta))
            else:
                with pytest.raises((BudgetExceeded, DeclarationError)):
                    release(ledger, new_charge)
        require_same(ledger, model)


def require_same(ledger: Ledger, model: Model) -> None:
    """Sums by window are those of the model and of the rows; ``verify`` holds."""
    rows = [entry for entry in ledger.entries() if entry.is_charge]
    for week, spent in ledger.blocks("rides").items():
        of_rows = sum(entry.nano_epsilon for entry in rows if week in blocks_of(entry.facts))
        assert spent == model.spent(week) * NANO == of_rows * NANO
        assert model.each is None or spent <= model.each
    assert set(ledger.blocks("rides")) == {week for blocks, _, _ in model.paid for week in blocks}
    assert ledger.balance("rides").spent == model.spent() * NANO
    most = max((model.delta(week) for week in WEEKS), default=0)
    expected = most if model.account.within == "window" else model.delta()
    assert ledger.balance("rides").delta_spent == expected * NANO
    ledger.verify()


def accepted(place: Place, blocks: list[tuple[str, ...]], times: int) -> list[int]:
    """How many charges of 0.05 each of several processes is let in at once."""

    def charged(who: int, n: int) -> Charge:
        return in_windows((who, n), *blocks[who], epsilon="0.05")

    children = [Child(attempt, place, partial(charged, who), times) for who in range(len(blocks))]
    return [int(child.lines()[0]) for child in children]


def test_processes_on_one_window_never_pass_its_ceiling(place: Place, rides: Ledger):
    assert sum(accepted(place, [("W01",), ("W01", "W02"), ("W00", "W01")], 15)) == 20
    assert rides.blocks("rides")["W01"] == 1
    rides.verify()


def test_processes_on_different_windows_do_not_interfere(place: Place, rides: Ledger):
    assert accepted(place, [("W00",), ("W01",), ("W02",)], 22) == [20] * 3
    assert rides.blocks("rides") == dict.fromkeys(("W00", "W01", "W02"), Fraction(1))
    assert rides.balance("rides").spent == 3
    rides.verify()
