from fractions import Fraction

import pytest

from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.ledger import Account, Balance, Charge, Ledger, SpendRow
from dp_pipeline.ledger.balance import this_month
from dp_pipeline_tests.ledger.places import EVERYWHERE, Place
from dp_pipeline_tests.ledger.population import account, charge, release, require_refused

STORES = EVERYWHERE


def test_opening_twice_is_opening_once(ledger: Ledger):
    for ceiling in ("1", "1.000"):
        ledger.open_account(account(ceiling=ceiling))
    assert [entry.event for entry in ledger.entries()] == ["account"]
    assert ledger.account("trips") == account()
    require_refused(DeclarationError, "need a ceiling", lambda: account(ceiling=None))


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (account(unit="at most 20 rows of a person, column user"), "unit"),
        (account(relation="replace_one"), "relation"),
        (account(purpose="benchmark"), "purpose"),
        (account(ceiling=None, purpose="benchmark"), "purpose"),
    ],
)
def test_another_declaration_than_at_opening_is_refused(ledger: Ledger, other: Account, name: str):
    words = f"opened with {name} .*but the file declares {name}"
    require_refused(DeclarationError, words, lambda: ledger.open_account(other))
    assert ledger.account("trips") == account()


def test_a_benchmark_without_a_ceiling_spends_freely(ledger: Ledger):
    ledger.open_account(account("adult", ceiling=None, purpose="benchmark"))
    release(ledger, charge(population="adult", epsilon="1000000"), "1000000")
    spent = {"spent": Fraction(1000000), "month_spent": Fraction(1000000)}
    assert ledger.balance("adult") == Balance(ceiling=None, month=this_month(), **spent)
    # One with a ceiling keeps to it.
    ledger.open_account(account("census", ceiling="0.1", purpose="benchmark"))
    release(ledger, charge(1, population="census"), "0.1")
    with pytest.raises(BudgetExceeded):
        release(ledger, charge(2, population="census", epsilon="0.000001"))
    ledger.verify()


def test_populations_are_listed_in_order_and_spend_apart(ledger: Ledger):
    ledger.open_account(account("adult"))
    release(ledger, charge(population="adult"), "0.1")
    assert ledger.populations() == ("trips", "adult")
    assert ledger.balance("trips").spent == 0
    assert {entry.population for entry in ledger.entries("adult")} == {"adult"}


def require_no_account(ledger: Ledger, population: str) -> None:
    queries = (
        lambda: release(ledger, charge(population=population)),
        lambda: ledger.key(population),
        lambda: ledger.claim_source(population, "file:a"),
    )
    require_refused(DeclarationError, "no account", *queries)


def test_a_population_without_an_account_gets_nothing(ledger: Ledger):
    require_no_account(ledger, "adult")
    assert len(ledger.entries()) == 1


def test_an_absent_ledger_is_read_as_empty_and_not_made(place: Place):
    ledger = place()
    assert ledger.balance("trips") == Balance(ceiling=None, spent=Fraction(0), month=this_month())
    assert (ledger.populations(), ledger.entries(), ledger.account("trips")) == ((), (), None)
    assert ledger.state("ab" * 32) is None
    ledger.verify()
    require_no_account(ledger, "trips")
    assert not place.folder.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: account(""),
        lambda: account("trips "),
        lambda: account("tri\nps"),
        lambda: account(unit=""),
        lambda: account(relation="add"),
        lambda: account(purpose="test"),
        lambda: account(ceiling="0"),
        lambda: account(ceiling=None),
        lambda: Account("trips", "one row", "add_remove", "release", 1.0),
        lambda: Charge("../x", "trips", "dp", 1, "x", {}),
        lambda: Charge("AB" * 32, "trips", "dp", 1, "x", {}),
        lambda: Charge("ab" * 32, "trips", "dp", 0, "x", {}),
        lambda: Charge("ab" * 32, "trips", "dp", 1.0, "x", {}),
        lambda: Charge("ab" * 32, "trips", "dp", True, "x", {}),
        lambda: Charge("ab" * 32, "trips", "dp", -1, "x", {}),
        lambda: Charge("ab" * 32, "trips", "dp", 2**63, "x", {}),
        lambda: Charge("ab" * 32, "trips", "not-dp", 1, "x", {}),
        lambda: Charge("ab" * 32, "trips", "free", 0, "x", {}),
        lambda: Charge("ab" * 32, "trips", "dp", 1, "two\nlines", {}),
        lambda: Charge("ab" * 32, "trips", "dp", 1, "x", {"seed": 7}),
        lambda: SpendRow("cells", "laplace", 0.1, Fraction(10)),
        lambda: SpendRow("cells", "laplace", Fraction(-1, 10), Fraction(10)),
        lambda: SpendRow("cells", "laplace", Fraction(1, 10), 10),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_line(wrong):
    require_refused(DeclarationError, "", wrong)
