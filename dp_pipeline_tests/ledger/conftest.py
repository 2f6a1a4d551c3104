import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dp_pipeline.ledger import Account, Ledger
from dp_pipeline.ledger.guards import guards_of
from dp_pipeline_tests.ledger.places import Behind, Place
from dp_pipeline_tests.ledger.population import account, charge, raw, release, weekly
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
def busy(ledger: Ledger) -> Ledger:
    """Row 1 account, 2 source, 3-4 release a settled by two spends, 5 release b reserved."""
    ledger.claim_source("trips", "file:a")
    release(ledger, charge("a"), "0.04", "0.06")
    release(ledger, charge("b", epsilon="0.5"))
    ledger.verify()
    return ledger


@pytest.fixture
def on_file(store: str) -> None:
    if store != "sqlite":
        pytest.skip("the same rows and hashes as in a file")


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


@pytest.fixture
def behind(store: str, place: Place, request: pytest.FixtureRequest) -> Behind:
    """SQL as the owner of the tables, past nothing: the triggers let a row in at the end."""
    if store == "sqlite":
        return lambda statement: raw(place.folder, statement)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return lambda statement: (server.execute(statement, url=place.url), None)[1]


@pytest.fixture
def unguarded(behind: Behind, place: Place) -> Behind:
    """The same past triggers and, in a file, past limits; the triggers are there again after."""
    if place.url is None:
        return lambda statement: _in_file(place, statement)

    def execute(statement: str) -> None:
        off = [
            f"ALTER TABLE {guard.table} DISABLE TRIGGER {guard.name}"
            for guard in guards_of("postgresql")
        ]
        behind("; ".join(off))
        behind(statement)
        behind("; ".join(off).replace("DISABLE", "ENABLE ALWAYS"))

    return execute


def _in_file(place: Place, statement: str) -> None:
    connection = sqlite3.connect(place.folder / "ledger.sqlite", isolation_level=None)
    triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    guards = connection.execute(triggers).fetchall()
    connection.execute("PRAGMA ignore_check_constraints = ON")
    dropped = (f"DROP TRIGGER {name}" for name, _ in guards)
    for command in (*dropped, *statement.split("; "), *(sql for _, sql in guards)):
        connection.execute(command)
    connection.close()
