"""A ledger that pays for fits; and few rows, which are no news here."""

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.anonymity import cross_validation
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.releases.home import HOME_VARIABLE, find_home

DELTA = Fraction(1, 10**9)
ROW = ("one row", "add_remove")
PERSON = ("at most 20 rows of a person, column user", "add_remove")
ACCOUNTS = {
    person.population: person
    for person in (
        Account("riders", *ROW, "release", Fraction(1)),
        Account("pure", *ROW, "release", Fraction(3)),
        Account("capped", *ROW, "benchmark", Fraction(1)),
        Account("public", *ROW, "benchmark", None),
        Account("persons", *PERSON, "release", Fraction(1)),
        Account("replaced", "one row", "replace_one", "release", Fraction(1)),
        Account("concentrated", *ROW, "release", Fraction(9), delta=DELTA),
        Account("finding", *ROW, "release", Fraction(9), delta_ceiling=Fraction(1, 10**6)),
    )
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    quiet = pytest.mark.filterwarnings("ignore::dp_pipeline.estimators.WeakSignal")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            # First: what a test says itself has the last word.
            item.add_marker(quiet, append=False)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The ledger of a home where some accounts are open; sound at the end of the test."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    ledger = find_home().ledger
    for account in ACCOUNTS.values():
        ledger.open_account(account)
    yield ledger
    ledger.verify()


@pytest.fixture
def two_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kjig chooses by two folds instead of ten, where a test is not about which bits it takes."""
    monkeypatch.setattr(cross_validation, "FOLDS", ((math.inf, 2, 1),))
