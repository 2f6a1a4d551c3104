"""A charge may have a δ of its own: the account adds them up under a ceiling, as it does ε."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.ledger.entries import DELTA, Charge
from dp_pipeline_tests.ledger.places import EVERYWHERE, Opens
from dp_pipeline_tests.ledger.population import NANO, WHY, account, audit, charge, raw, release
from dp_pipeline_tests.ledger.test_restoring import junk, named

STORES = EVERYWHERE


def discovery(name: object, delta: Fraction = NANO, epsilon: str = "0.1") -> Charge:
    return replace(charge(name, epsilon=epsilon), delta=delta)


def with_delta(ceiling: Fraction | None = 2 * NANO) -> Account:
    return replace(account(), delta_ceiling=ceiling)


@pytest.fixture
def ledger(opens: Opens) -> Ledger:
    """Trips, with a ceiling of ε = 1 and δ = 2e-9."""
    return opens(with_delta())


def test_charges_fit_up_to_the_ceiling_of_delta(ledger: Ledger):
    for name, text in (("a", "spent 0, left 2e-09"), ("b", "spent 1e-09, left 1e-09")):
        assert ledger.balance("trips").delta_summary == f"{text}, ceiling 2e-09"
        assert release(ledger, discovery(name), "0.1") == "new"
    assert ledger.balance("trips").delta_spent == 2 * NANO
    rows = len(ledger.entries())
    with pytest.raises(BudgetExceeded, match="requested δ=1e-09, spent 2e-09, left 0, ceiling"):
        release(ledger, discovery("c"), "0.1")
    assert len(ledger.entries()) == rows
    assert release(ledger, charge("d"), "0.1") == "new"
    ledger.verify()


def test_epsilon_and_delta_are_refused_apart(ledger: Ledger):
    with pytest.raises(BudgetExceeded, match=r"requested ε=1\.1"):
        release(ledger, discovery("a", epsilon="1.1"), "1.1")
    with pytest.raises(BudgetExceeded, match=r"requested δ=3e-09.*budget raise trips --delta"):
        release(ledger, discovery("a", 3 * NANO), "0.1")
    assert ledger.balance("trips").spent == 0


def test_an_account_that_declares_no_delta_has_none_to_give(opens: Opens):
    ledger = opens(account())
    with pytest.raises(BudgetExceeded, match="ceiling 0"):
        release(ledger, discovery("a"), "0.1")
    with pytest.raises(DeclarationError, match=r"ceiling of δ '1e-9'.*`dp-pipeline budget raise"):
        ledger.open_account(with_delta(NANO))
    ledger.open_account(account())


def test_an_interrupted_charge_keeps_its_delta_and_adds_no_other(ledger: Ledger):
    assert release(ledger, discovery("a")) == "new"
    for state in ("resumed", "settled"):
        assert release(ledger, discovery("a"), "0.1") == state
        assert ledger.balance("trips").delta_spent == NANO
    with pytest.raises(Damaged, match="was reserved with"):
        release(ledger, discovery("a", 2 * NANO), "0.1")
    ledger.verify()


def test_the_ceiling_of_delta_is_raised_and_never_lowered(ledger: Ledger):
    opened = ledger.open_account(with_delta(NANO))
    assert opened.delta_ceiling == 2 * NANO
    assert "ceiling of δ '1e-9'" in with_delta(NANO).difference_from(opened)
    raised = ledger.raise_ceiling("trips", delta_ceiling=5 * NANO, **WHY)
    assert (raised.ceiling, raised.delta_ceiling) == (1, 5 * NANO)
    for name in range(5):
        release(ledger, discovery(name), "0.1")
    with pytest.raises(DeclarationError, match=r"of δ must be at least 0\.000000005"):
        ledger.raise_ceiling("trips", delta_ceiling=4 * NANO, **WHY)
    later = ledger.raise_ceiling("trips", ceiling=Fraction(2), **WHY)
    assert later.delta_ceiling == 5 * NANO
    ledger.verify()


def test_the_total_delta_is_of_conversion_and_charges():
    both = replace(account(), delta=Fraction(1, 10**6), delta_ceiling=NANO, limit=None)
    assert both.total_delta == Fraction(1, 10**6) + NANO
    assert account().total_delta == 0
    assert Account.from_facts("trips", both.facts()) == both


@pytest.mark.parametrize("delta", [Fraction(-1, 9), Fraction(1), 0.1, 1])
def test_what_is_no_delta_is_refused(delta: object):
    with pytest.raises(DeclarationError, match="must be a Fraction from 0"):
        discovery("a", delta)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="the ceiling of δ must be a Fraction between"):
        with_delta(delta)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="a not-dp charge must have no δ"):
        discovery("a", epsilon="0")


def test_a_row_that_passes_the_ceiling_of_delta_cannot_be(ledger: Ledger):
    release(ledger, discovery("a"), "0.1")
    opened, _, *_ = entries = ledger.entries()
    reserve = next(entry for entry in entries if entry.event == "reserve")
    beyond = replace(reserve, key="ab" * 32, facts={DELTA: str(2 * NANO)})
    with pytest.raises(Damaged, match="it exceeds the ceiling of δ"):
        audit(opened, reserve, beyond)
    lowered = replace(opened, event="raise", facts={"ceiling": "2", "delta_ceiling": "1e-9"})
    with pytest.raises(Damaged, match=r"δ must be at least .*, as before, not 1e-9"):
        audit(opened, lowered)


@pytest.mark.usefixtures("on_file")
def test_a_strange_row_that_says_a_delta_is_charged_it(ledger: Ledger, folder: Path):
    raw(folder, junk(nano=7, facts=json.dumps({DELTA: str(NANO)})))
    ledger.restore(named(ledger), reason="a row typed by hand", by="ana")
    assert ledger.balance("trips").delta_spent == NANO
    ledger.verify()


def test_parts_of_delta_add_up_exactly(ledger: Ledger):
    for name, delta in (("a", NANO / 3), ("b", NANO), ("c", 2 * NANO / 3)):
        release(ledger, discovery(name, delta), "0.1")
    assert ledger.balance("trips").delta_spent == 2 * NANO
    ledger.verify()
