"""Rows are never changed; what changes them all the same is found."""

import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.errors import BudgetExceeded, Damaged, PipelineError
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import digest
from dp_pipeline.ledger.sqlite import SqliteStore
from dp_pipeline_tests.ledger.places import EVERYWHERE, Behind
from dp_pipeline_tests.ledger.population import account, charge, raw, release, require_refused

STORES = EVERYWHERE


def copied(sequence: int, key: str, previous: str, *, insert: str = "INSERT") -> str:
    """A copy of row 5 at the end."""
    return (
        f"{insert} INTO entries SELECT {sequence}, event, time, population, {key}, source, kind, "
        f"1, what, facts, {previous}, 'x', state FROM entries WHERE sequence = 5"
    )


COPY = "INSERT OR REPLACE INTO {0} SELECT * FROM {0} WHERE {1} = {2}"
REFUSED = {
    "": [
        "UPDATE entries SET nano_epsilon = 0",
        "UPDATE entries SET what = what WHERE sequence = 1",
        "DELETE FROM entries WHERE sequence = 5",
        "DELETE FROM entries",
        "UPDATE spends SET epsilon = '0'",
        "DELETE FROM spends",
        # A gap, a row that does not follow the tip, and a second reservation of a key.
        copied(7, "'k'", "hash"),
        copied(6, "'k'", "previous"),
        copied(6, "key", "hash"),
        "INSERT INTO spends VALUES (4, 2, 'cells', 'laplace', '1', '1')",
        "UPDATE state SET value = '{}' WHERE kind = 'population'",
        "UPDATE state SET entry = 0 WHERE kind = 'ledger'",
        "UPDATE state SET entry = 9 WHERE kind = 'ledger'",
        "UPDATE state SET kind = 'seal' WHERE kind = 'ledger'",
        "DELETE FROM state WHERE kind = 'population'",
        "DELETE FROM state WHERE kind = 'ledger'",
        "INSERT INTO state VALUES ('source', 'trips', 'file:b', 9, '{}')",
    ],
    "sqlite": [
        COPY.format("entries", "sequence", 5),
        COPY.format("spends", "entry", 4),
        # Right place in the chain, but it would push the dear reserve row of b out.
        copied(6, "key", "hash", insert="INSERT OR REPLACE"),
        "INSERT OR REPLACE INTO state SELECT kind, population, name, entry, '{}' FROM state",
    ],
    "postgresql": [
        "DELETE FROM entries WHERE sequence = 99",
        "TRUNCATE entries, spends, state",
        "TRUNCATE spends",
        "TRUNCATE state",
        "SET session_replication_role = replica; DELETE FROM spends",
        "INSERT INTO entries SELECT * FROM entries WHERE sequence = 5 "
        "ON CONFLICT (sequence) DO UPDATE SET nano_epsilon = 1",
    ],
}


def test_a_statement_that_changes_rows_is_refused(busy: Ledger, behind: Behind, store: str):
    before = busy.entries()
    for statement in (*REFUSED[""], *REFUSED[store]):
        with pytest.raises(Exception, match="append-only"):
            behind(statement)
            pytest.fail(statement)
        assert busy.entries() == before, statement
    busy.verify()


CHANGED = {
    "": [
        ("UPDATE entries SET nano_epsilon = 1 WHERE sequence = 3", 3),
        ("UPDATE entries SET key = NULL WHERE sequence = 5", 5),
        ("UPDATE entries SET hash = 'x' WHERE sequence = 5", 5),
        ("UPDATE spends SET ordinal = 7 WHERE ordinal = 1", 4),
        ("DELETE FROM spends WHERE ordinal = 1", 4),
        ("INSERT INTO spends VALUES (5, 0, 'cells', 'laplace', '1', '1')", 5),
        ("DELETE FROM entries WHERE sequence = 2", 2),
        ("UPDATE entries SET sequence = 9 WHERE sequence = 5", 5),
    ],
    "sqlite": [
        ("UPDATE entries SET nano_epsilon = 100000000.5 WHERE sequence = 3", 3),
        ("UPDATE entries SET nano_epsilon = 'x' WHERE sequence = 3", 3),
        ("UPDATE entries SET what = x'ff' WHERE sequence = 5", 5),
        ("UPDATE spends SET epsilon = 'many' WHERE ordinal = 1", 4),
        ("INSERT INTO spends VALUES (9, 0, 'cells', 'laplace', '1', '1')", 9),
        ("DELETE FROM entries WHERE sequence = 1", 1),
    ],
}


@pytest.mark.parametrize(("statement", "row"), CHANGED[""])
def test_a_row_changed_behind_the_triggers_is_named(busy, unguarded, statement, row):
    unguarded(statement)
    require_refused(Damaged, rf"ledger row {row}\b", busy.verify)


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize(("statement", "row"), CHANGED["sqlite"])
def test_a_value_that_only_a_file_takes_is_named(busy: Ledger, unguarded: Behind, statement, row):
    test_a_row_changed_behind_the_triggers_is_named(busy, unguarded, statement, row)


def rechain(folder: Path) -> None:
    """Give every row the hash that fits it: a forger who knows the chain."""
    path = folder / "ledger.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    previous = "0" * 64
    for row in connection.execute("SELECT * FROM entries ORDER BY sequence").fetchall():
        select = "SELECT * FROM spends WHERE entry = ? ORDER BY ordinal"
        children = [dict(c) for c in connection.execute(select, (row["sequence"],))]
        fitting = digest({**dict(row), "previous": previous}, children)
        update = "UPDATE entries SET previous = ?, hash = ? WHERE sequence = ?"
        connection.execute(update, (previous, fitting, row["sequence"]))
        previous = fitting
    connection.close()


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE spends SET epsilon = '1/2' WHERE ordinal = 1", "row 4 .*do not sum"),
        ("UPDATE entries SET nano_epsilon = 1000000001 WHERE sequence = 5", "row 5 .*ceiling"),
        ("UPDATE entries SET key = NULL WHERE sequence = 4", "row 4 .*no row before it reserved"),
        ("UPDATE entries SET nano_epsilon = 5 WHERE sequence = 4", "row 4 .*it charges"),
        ("UPDATE entries SET population = 'adult' WHERE sequence = 3", "row 3 .*no account"),
        ("UPDATE entries SET facts = '{}' WHERE sequence = 1", "row 1 .*no account"),
        ("UPDATE entries SET time = '2020' || substr(time, 5) WHERE sequence = 4", "row 4 .*older"),
        ("UPDATE entries SET time = '2090' WHERE sequence = 4", "row 4 .*its time is none"),
        ("DELETE FROM entries WHERE sequence = 2", "row 2 is missing"),
        ("UPDATE entries SET facts = 'x' WHERE sequence = 3", "row 3.*cannot be parsed"),
        (
            "DROP INDEX one_end_per_key; UPDATE entries SET event = 'dead', nano_epsilon = 0, "
            "key = (SELECT key FROM entries WHERE sequence = 4) WHERE sequence = 5",
            "row 5 .*ended before",
        ),
    ],
)
def test_an_impossible_story_with_fitting_hashes_is_found(busy: Ledger, statement: str, said: str):
    raw(busy.folder, *statement.split("; "), checks=False)
    rechain(busy.folder)
    require_refused(Damaged, said, busy.verify)


@pytest.mark.usefixtures("on_file")
def test_a_rehashed_row_that_breaks_the_chain_is_found(busy: Ledger):
    before = busy.entries()
    raw(busy.folder, checks=False)
    rechain(busy.folder)
    assert busy.entries() == before, "forging without a change is a change"
    raw(busy.folder, "UPDATE entries SET what = 'cheaper' WHERE sequence = 3")
    rechain(busy.folder)
    old = f"previous = '{before[2].hash}', hash = '{before[3].hash}'"
    raw(busy.folder, f"UPDATE entries SET {old} WHERE sequence = 4")
    require_refused(Damaged, "row 4 does not follow the row before it", busy.verify)


@pytest.mark.usefixtures("on_file")
def test_a_charge_that_was_changed_lets_nobody_spend_more(busy: Ledger):
    """Sums are those that the chain has said, not those of what stands in the rows now."""
    raw(busy.folder, "UPDATE entries SET nano_epsilon = 0.5 WHERE sequence = 3", checks=False)
    assert busy.balance("trips").spent == Fraction(6, 10)
    with pytest.raises(BudgetExceeded):
        release(busy, charge("c", epsilon="0.5"))
    require_refused(Damaged, "row 3", lambda: busy.state(charge("a").key))


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize("content", [b"", b"not a database, but long enough " * 40, b"SQLite"])
def test_a_file_that_is_no_ledger_is_damage_in_one_line(folder: Path, content: bytes):
    folder.mkdir()
    (folder / "ledger.sqlite").write_bytes(content)
    require_refused(Damaged, r"ledger\.sqlite", Ledger(folder).populations)


@pytest.mark.usefixtures("on_file")
def test_another_database_is_not_a_ledger(folder: Path):
    folder.mkdir()
    opening = SqliteStore(folder).transaction(writing=False)
    with pytest.raises(PipelineError, match="unable to open"), opening:
        pass
    assert not list(folder.iterdir()), "opening made an empty file"
    raw(folder, "CREATE TABLE entries (sequence INTEGER)")
    require_refused(Damaged, "not a ledger", lambda: Ledger(folder).entries())


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize(("gone", "left"), [("keys", "locks"), ("locks", "keys")])
def test_a_lost_file_is_not_an_empty_ledger(busy: Ledger, gone: str, left: str):
    for path in [busy.folder / "ledger.sqlite", *(busy.folder / gone).iterdir()]:
        path.unlink()
    words = f"is lost, but its {left} are here: put back a copy"
    queries = (lambda: busy.balance("trips"), lambda: busy.open_account(account()))
    require_refused(Damaged, words, *queries)


@pytest.mark.usefixtures("on_file")
def test_a_copy_of_the_idle_file_is_the_whole_ledger(busy: Ledger, tmp_path: Path):
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "ledger.sqlite").write_bytes((busy.folder / "ledger.sqlite").read_bytes())
    (tmp_path / "copy.head").write_bytes((tmp_path / "ledger.head").read_bytes())
    assert Ledger(copy).entries() == busy.entries()
    assert sorted(path.name for path in busy.folder.iterdir()) == ["keys", "ledger.sqlite", "locks"]
