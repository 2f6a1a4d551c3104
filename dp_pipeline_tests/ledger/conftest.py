from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dp_pipeline.ledger import Account, Ledger
from dp_pipeline_tests.ledger.places import Place
from dp_pipeline_tests.ledger.population import account, weekly
from dp_pipeline_tests.postgres_server import PostgresServer


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module with ``STORES`` runs its tests on each of them; others on a file."""
    stores = getattr(metafunc.module, "STORES", None)
    if stores and "store" in metafunc.fixturenames:
        metafunc.parametrize("store", stores, indirect=True, scope="function")


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    return getattr(request, "param", "sqlite")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def places(store: str, request: pytest.FixtureRequest) -> Callable[[Path], Place]:
    """The place of the ledger of any folder."""
    if store == "sqlite":
        return Place
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return lambda folder: Place(folder, server.new_schema())


@pytest.fixture
def place(places: Callable[[Path], Place], folder: Path) -> Place:
    """Nothing there yet."""
    return places(folder)


@pytest.fixture
def ledger(place: Place) -> Ledger:
    """One account: trips, with a ceiling of 1."""
    ledger = place()
    ledger.open_account(account())
    return ledger


@pytest.fixture
def opens(place: Place) -> Callable[[Account], Ledger]:
    """A ledger with one account of rides."""

    def opened(declared: Account) -> Ledger:
        ledger = place()
        ledger.open_account(declared)
        return ledger

    return opened


@pytest.fixture
def rides(opens: Callable[[Account], Ledger]) -> Ledger:
    """Rides by the week: ε = 1 each, and no total."""
    return opens(weekly())
