"""Windows against a model of them that fits on a page, and many processes on them at once."""

import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.ledger.entries import blocks_of
from dp_pipeline_tests.ledger.places import Place
from dp_pipeline_tests.ledger.population import Child, in_windows, release, say, weekly

STORES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.stack))
NANO = Fraction(1, 10**9)
WEEKS = ["W01", "W02", "W03", "W04"]
ACCOUNTS = [
    weekly(delta_ceiling=2 * NANO),
    weekly(ceiling="1.5", delta_ceiling=2 * NANO),
    weekly(ceiling="1.5", within="ever", delta_ceiling=2 * NANO),
    weekly(ceiling="1.5", within="ever", each=None),
]

charges = st.tuples(
    st.sets(st.sampled_from(WEEKS), min_size=1).map(lambda found: tuple(sorted(found))),
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
        return (
            sum(nano * blocks.count(week) for blocks, nano, _ in self.paid)
            if week
            else sum(nano * len(blocks) for blocks, nano, _ in self.paid)
        )

    def delta(self, week: str = "") -> int:
        return sum(delta for blocks, _, delta in self.paid if not week or week in blocks)

    def lets_in(self, blocks: tuple[str, ...], nano: int, delta: int) -> bool:
        most = (self.account.delta_ceiling or 0) / NANO
        of = blocks if self.account.within == "window" else ("",)
        adds = not delta or self.account.within == "window" or len(blocks) == 1
        return (
            adds
            and (self.total is None or (self.spent() + nano * len(blocks)) * NANO <= self.total)
            and all(
                self.each is None or (self.spent(week) + nano) * NANO <= self.each
                for week in blocks
            )
            and (not delta or all(self.delta(week) + delta <= most for week in of))
        )

    def raise_to(self, each: Fraction) -> None:
        self.each = each


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
                raise_each(ledger, model)
                continue
            blocks, epsilon, delta = step
            new_charge = in_windows(n, *blocks, epsilon=epsilon, delta=delta * NANO)
            nano = new_charge.nano_epsilon
            assert is_let_in(ledger, new_charge) == model.lets_in(blocks, nano, delta)
            if ledger.state(new_charge.key):
                model.paid.append((blocks, nano, delta))
        require_same(ledger, model)


def raise_each(ledger: Ledger, model: Model) -> None:
    """To 1.2, once, where each window has a ceiling."""
    if model.each == 1:
        ledger.raise_ceiling(
            "rides",
            total=model.total,
            per_month=None,
            each_window=Fraction(6, 5),
            reason="more",
            by="ana",
        )
        model.raise_to(Fraction(6, 5))


def is_let_in(ledger: Ledger, asked) -> bool:
    try:
        return release(ledger, asked) == "new"
    except (BudgetExceeded, DeclarationError):
        return False


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


def attempt(pipe: int, place: Place, who: int, blocks: tuple[str, ...], times: int) -> None:
    ledger, accepted = place(), 0
    for n in range(times):
        try:
            release(ledger, in_windows((who, n), *blocks, epsilon="0.05"))
            accepted += 1
        except BudgetExceeded:
            pass
    say(pipe, accepted)


def test_processes_on_one_window_never_pass_its_ceiling(place: Place):
    ledger = place()
    ledger.open_account(weekly())
    weeks = [("W01",), ("W01", "W02"), ("W00", "W01")]
    children = [Child(attempt, place, worker, blocks, 15) for worker, blocks in enumerate(weeks)]
    assert sum(int(child.lines()[0]) for child in children) == 20
    assert ledger.blocks("rides")["W01"] == 1
    ledger.verify()


def test_processes_on_different_windows_do_not_interfere(place: Place):
    ledger = place()
    ledger.open_account(weekly())
    children = [Child(attempt, place, worker, (f"W0{worker}",), 22) for worker in range(3)]
    assert Counter(child.lines()[0] for child in children) == {"20": 3}
    assert ledger.blocks("rides") == dict.fromkeys(("W00", "W01", "W02"), Fraction(1))
    assert ledger.balance("rides").spent == 3
    ledger.verify()
