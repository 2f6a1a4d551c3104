"""A ledger that would not go on goes on, with a row that says so, and with no smaller sum."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.ledger import DeadRelease, Ledger, verify
from dp_pipeline.ledger.export import exported
from dp_pipeline.ledger.head import Draft, Head, Tip, canonical, digest
from dp_pipeline.ledger.journal import rows, stored_bytes, write
from dp_pipeline.ledger.state import Held, State
from dp_pipeline.ledger.state import Place as Sums
from dp_pipeline.ledger.verify import Verification
from dp_pipeline.ledger.view import write_state
from dp_pipeline.spec.errors import BudgetExceeded, Damaged, DeclarationError, PipelineError
from dp_pipeline_tests.ledger.places import EVERYWHERE, Place
from dp_pipeline_tests.ledger.population import account, charge, raw, release
from dp_pipeline_tests.ledger.test_raising import in_month
from dp_pipeline_tests.postgres_server import PostgresServer

STORES = EVERYWHERE

WHY = {"reason": "a row typed into psql on 2026-11-20", "by": "ana"}
Behind = Callable[[str], None]
JUNK = (
    "INSERT INTO entries SELECT max(sequence) + 1, '{event}', '{time}', '{population}', {key}, "
    "NULL, '{kind}', {nano}, 'typed', '{{}}', "
    "(SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), 'x', NULL FROM entries"
)


def junk(
    event: str = "reserve",
    *,
    population: str = "trips",
    nano: int = 300_000_000,
    kind: str = "dp",
    key: str = "'k'",
    time: str = "today",
) -> str:
    """One row that follows the newest as far as the triggers see."""
    return JUNK.format(event=event, population=population, nano=nano, kind=kind, key=key, time=time)


@pytest.fixture
def behind(store: str, place: Place, request: pytest.FixtureRequest) -> Behind:
    """SQL as the owner of the tables, past nothing: the triggers let a row in at the end."""
    if store == "sqlite":
        return lambda statement: raw(place.folder, statement)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return lambda statement: (server.execute(statement, url=place.url), None)[1]


@pytest.fixture
def busy(ledger: Ledger) -> Ledger:
    """Row 1 account, 2-3 release a of 0.1."""
    release(ledger, charge("a"), "0.1")
    return ledger


def named(ledger: Ledger) -> dict[int, str]:
    """The rows that ``verify`` says are to be quarantined."""
    with pytest.raises(Damaged) as found:
        ledger.verify()
    return told(found.value)


def told(damage: Damaged) -> dict[int, str]:
    """The rows that a message names as a command takes them."""
    assert "does not cover" in str(damage)
    found = re.findall(r"--row (-?\d+):([0-9a-f]{16}) ", str(damage))
    return {int(number): digits for number, digits in found}


def in_file(place: Place, *statements: str, guarded: bool = True) -> None:
    """SQL of who owns the file: past the triggers and, unless ``guarded``, past limits; all of them
    are there again afterwards.
    """
    connection = sqlite3.connect(place.folder / "ledger.sqlite", isolation_level=None)
    triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    kept = connection.execute(triggers).fetchall()
    if not guarded:
        connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in (
        *(f"DROP TRIGGER {name}" for name, _ in kept),
        *statements,
        *(text for _, text in kept),
    ):
        connection.execute(statement)
    connection.close()


@pytest.fixture
def on_file(store: str) -> None:
    if store != "sqlite":
        pytest.skip("the same rows and hashes as in a file")


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize("last", [2, 3])
def test_no_charge_is_taken_back_by_naming_rows_that_the_head_had_covered(
    busy: Ledger, place: Place, last: int
):
    change = f"event = 'note', kind = NULL, key = NULL, nano_epsilon = 0 WHERE sequence >= {last}"
    in_file(place, "DELETE FROM spends", f"UPDATE entries SET {change}")
    with busy._book._store.transaction(writing=True) as connection:
        found = Verification(stored := list(rows(connection)))
        for row, children in stored:
            if row["sequence"] < last:
                found.follow(row, children)
            else:
                found.pass_over(row, children)
        drafts = [replace(one, facts={**one.facts, **WHY}) for one in found.drafts()]
        verify._written(connection, found, drafts)
    with pytest.raises(Damaged, match=f"row {last}: it was changed after the head had covered it"):
        busy.verify()
    for ask in (lambda: busy.balance("trips"), lambda: release(busy, charge("b"))):
        with pytest.raises(Damaged, match=r"row 3 of .* does not match its hash"):
            ask()


def test_a_row_that_charges_less_than_nothing_makes_no_sum_smaller(
    busy: Ledger, place: Place, behind: Behind
):
    less = junk(nano=-50_000_000)
    if place.url is None:
        in_file(place, less, guarded=False)
    else:
        behind("ALTER TABLE entries DROP CONSTRAINT entries_nano_epsilon_check")
        behind(less)
        behind("ALTER TABLE entries ADD CHECK (nano_epsilon >= 0) NOT VALID")
    busy.quarantine(named(busy), **WHY)
    assert busy.balance("trips").spent == Fraction(1, 10)
    busy.verify()


@pytest.mark.usefixtures("on_file")
def test_a_charge_of_less_than_nothing_is_no_row_of_a_ledger(busy: Ledger):
    with busy._book.writing() as page:
        page.connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
        page.append(Draft.of(charge("b"), "reserve", nano_epsilon=-1, facts={}))
    with pytest.raises(Damaged, match=r"row 4 \(reserve\) cannot be: it charges less than nothing"):
        busy.verify()


def test_a_limit_that_was_removed_is_found(busy: Ledger, place: Place, behind: Behind):
    if place.url is None:
        in_file(
            place,
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = replace(sql, 'CHECK (nano_epsilon >= 0)', 'CHECK (1)')",
            "PRAGMA writable_schema = RESET",
        )
    else:
        behind("ALTER TABLE entries DROP CONSTRAINT entries_nano_epsilon_check")
    with pytest.raises(Damaged, match=r"limit CHECK \(nano_epsilon >= 0\) was removed"):
        busy.verify()


@pytest.mark.usefixtures("on_file")
def test_a_strange_row_that_names_what_is_gone_beside_is_gone_beside_too(
    busy: Ledger, place: Place
):
    raw(place.folder, junk())
    busy.quarantine(named(busy), **WHY)
    facts = json.dumps({"row": "4", "bytes": "0" * 64})
    raw(place.folder, junk("quarantined", nano=0).replace("'{}'", f"'{facts}'"))
    busy.quarantine(named(busy), **WHY)
    busy.verify()


@pytest.mark.usefixtures("on_file")
def test_a_row_that_only_a_strange_one_names_is_not_gone_beside(busy: Ledger, place: Place):
    in_file(place, junk())
    with busy._book.auditing() as (connection, _):
        row, children = [*rows(connection)][-1]
    facts = json.dumps({"row": "4", "bytes": stored_bytes(row, children)})
    in_file(place, junk("quarantined", nano=0, key="NULL").replace("'{}'", f"'{facts}'"))
    rows_named = named(busy)
    assert list(rows_named) == [4, 5]
    with pytest.raises(Damaged, match="row 4"):
        busy.quarantine({5: rows_named[5]}, **WHY)
    busy.quarantine(rows_named, **WHY)
    assert busy.balance("trips").spent == Fraction(4, 10)
    busy.verify()


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize("facts", ["[" * 100_000, "x", '{"row": [], "bytes": {}}'])
def test_facts_and_draws_of_a_strange_row_are_not_computed(busy: Ledger, place: Place, facts: str):
    text = junk("quarantined", nano=0).replace("'{}'", f"'{facts}'")
    spend = "INSERT INTO spends VALUES (4, 0, 'a', 'laplace', '1e999999999', '1')"
    in_file(place, text, spend)
    busy.quarantine(named(busy), **WHY)
    busy.verify()


@pytest.mark.usefixtures("on_file")
def test_a_row_is_gone_beside_once(busy: Ledger, place: Place):
    in_file(place, junk().replace("max(sequence) + 1", "max(0 * sequence) - 7"))
    rows_named = named(busy)
    assert list(rows_named) == [-7]
    busy.quarantine(rows_named, **WHY)
    raw(place.folder, junk(key="'l'"))
    rows_named |= named(busy)
    with pytest.raises(DeclarationError, match="row -7: it is passed over already"):
        busy.quarantine(rows_named, **WHY)
    busy.quarantine({5: rows_named[5]}, **WHY)
    with pytest.raises(DeclarationError, match="row 5: it is passed over already"):
        busy.quarantine({5: rows_named[5]}, **WHY)
    busy.verify()


def test_a_strange_row_in_an_empty_ledger_is_gone_beside(place: Place, behind: Behind):
    ledger = place()
    ledger._book.create()
    first = junk().replace("(SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1)", "'{0}'")
    first = first.replace("max(sequence) + 1", "1").replace(" FROM entries", "")
    behind(first.replace("{0}", "0" * 64))
    ledger.quarantine(named(ledger), **WHY)
    ledger.open_account(account())
    assert release(ledger, charge("a"), "0.1") == "new"
    ledger.verify()


@pytest.mark.usefixtures("on_file")
def test_a_row_that_is_gone_beside_hides_no_change_of_those_before_it(busy: Ledger, place: Place):
    """The next row of the ledger follows the hash that the strange one has."""
    raw(place.folder, junk())
    busy.quarantine(named(busy), **WHY)
    with busy._book.auditing() as (connection, _):
        row, children = [*rows(connection)][2]
    changed = {**row, "facts": '{"bundle":"another"}'}
    fitting = digest(changed, children)
    update = f"UPDATE entries SET facts = '{changed['facts']}', hash = '{fitting}'"
    in_file(place, f"{update} WHERE sequence = 3")
    with pytest.raises(Damaged, match="row 5"):
        busy.verify()


@pytest.mark.usefixtures("on_file")
def test_sums_that_a_writer_lowered_by_a_fitting_row_are_found_by_verify(busy: Ledger):
    """Who may append rows is trusted by admission, as the page says, and by nothing else."""
    with busy._book.writing() as page:
        place, row = Sums("population", "trips"), page.tip.sequence + 1
        lowered = page.state.held[place].value.replace('"spent":100000000', '"spent":0')
        page.state.take(draft := Draft("retired", "trips"), sequence=row, time=page.now)
        page.state = State({**page.state.held, place: Held(row, lowered)})
        page.tip = write(
            page.connection, draft, after=page.tip, time=page.now, state=page.state.digest
        )
        write_state(page.connection, page.state, [place, Sums("ledger")])
    assert busy.balance("trips").spent == 0
    with pytest.raises(Damaged, match=r"row 4 \(retired\) cannot be: its sums are not those"):
        busy.verify()


@pytest.mark.usefixtures("on_file")
def test_the_table_of_sums_is_closed_by_one_row(busy: Ledger, place: Place):
    raw(place.folder, junk())
    second = "INSERT INTO state VALUES ('ledger', 'x', '', 99, '{}')"
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw(place.folder, second)
    renamed = "UPDATE state SET kind = 'open', entry = 4 WHERE kind = 'ledger'"
    replaced = "INSERT OR REPLACE INTO state VALUES ('ledger', '', '', 99, '{}')"
    for statement in (renamed, replaced):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw(place.folder, statement)
    in_file(place, second, "UPDATE state SET entry = 98 WHERE name = '' AND lineage = ''")
    busy.quarantine(named(busy), **WHY)
    assert busy.balance("trips").spent == Fraction(4, 10)
    busy.verify()


@pytest.mark.usefixtures("on_file")
def test_behind_the_largest_number_no_row_can_be_written(busy: Ledger, place: Place):
    in_file(place, junk().replace("max(sequence) + 1", f"max(0 * sequence) + {2**63 - 1}"))
    for ask in (busy.verify, lambda: busy.quarantine({2**63 - 1: newest_bytes(busy)}, **WHY)):
        with pytest.raises(Damaged, match=rf"row {2**63 - 1}: .* has to delete it"):
            ask()
    in_file(place, f"DELETE FROM entries WHERE sequence = {2**63 - 1}")
    busy.verify()


def newest_bytes(ledger: Ledger) -> str:
    with ledger._book.auditing() as (connection, _):
        return stored_bytes(*[*rows(connection)][-1])


def test_a_ledger_of_the_second_format_is_upgraded_beside_a_strange_row(
    busy: Ledger, place: Place, behind: Behind
):
    older(busy, place, behind)
    if place.url is not None:
        behind("ALTER TABLE entries DISABLE TRIGGER ALL")
    behind(junk().removesuffix(", NULL FROM entries") + " FROM entries")
    with pytest.raises(Damaged, match="`dp-pipeline budget upgrade --row 4:") as found:
        busy.upgrade(by="ana")
    rows_named = told(found.value)
    with pytest.raises(DeclarationError, match="reason"):
        busy.upgrade(by="ana", named=rows_named)
    busy.upgrade(by="ana", named=rows_named, reason="typed")
    assert [one.event for one in busy.entries()][3:] == ["upgraded", "quarantined"]
    assert busy.balance("trips").spent == Fraction(4, 10)
    busy.verify()


def test_a_row_of_nobodys_is_named_charged_and_gone_beside(busy: Ledger, behind: Behind):
    behind(junk())
    for ask in (lambda: busy.balance("trips"), lambda: release(busy, charge("b"))):
        with pytest.raises(Damaged, match="row 4"):
            ask()
    rows = named(busy)
    tip = busy.quarantine(rows, **WHY)
    assert (list(rows), tip, busy.verify()) == ([4], busy.verify(), tip)
    row = busy.entries()[-1]
    assert (row.sequence, row.event, row.population, row.nano_epsilon) == (
        5,
        "quarantined",
        "trips",
        300_000_000,
    )
    assert {**WHY, "row": "4"}.items() <= row.facts.items()
    assert busy.balance("trips").spent == Fraction(4, 10)
    assert release(busy, charge("b", epsilon="0.6"), "0.6") == "new"
    with pytest.raises(BudgetExceeded):
        release(busy, charge("c"))
    busy.verify()


@pytest.mark.parametrize(
    ("statement", "spent", "not_dp"),
    [
        (junk("source", nano=0), "0.1", 0),
        (junk("reserve", nano=0, kind="not-dp"), "0.1", 1),
        (junk("dead", nano=5_000_000_000), "5.1", 0),
        (junk("account", population="nobody", nano=1), "0.1", 0),
    ],
)
def test_what_looks_like_a_charge_counts_as_one_and_nothing_gets_smaller(
    busy: Ledger, behind: Behind, statement: str, spent: str, not_dp: int
):
    behind(statement)
    busy.quarantine(named(busy), **WHY)
    balance = busy.balance("trips")
    assert (balance.spent, balance.not_dp) == (Fraction(spent), not_dp)
    assert len(busy.not_dp_releases("trips")) == not_dp
    assert busy.populations() == ("trips",)
    busy.open_account(account("nobody"))
    busy.verify()
    assert [line["event"] for line, _ in exported(busy.entries())][:3] == [
        "opened",
        "release",
        "quarantined",
    ]


def test_a_release_of_which_such_a_row_speaks_is_not_drawn_under_its_old_charge(
    busy: Ledger, behind: Behind
):
    release(busy, charge("open"))
    behind(junk("settled", key=f"'{charge('open').key}'", nano=0))
    busy.quarantine(named(busy), **WHY)
    assert busy.state(charge("open").key) == "dead"
    with pytest.raises(DeadRelease):
        release(busy, charge("open"), "0.1")
    assert busy.state(charge("a").key) == "settled"
    assert busy.balance("trips").spent == Fraction(2, 10)
    busy.verify()


def test_several_such_rows_are_named_at_once(busy: Ledger, place: Place, behind: Behind):
    if place.url is None:
        raw(place.folder, "DROP TRIGGER entries_follow_a_sealed_row")
    else:
        behind("ALTER TABLE entries DISABLE TRIGGER entries_follow_the_tip")
    behind(junk())
    behind(junk(key="'l'", nano=100_000_000))
    rows = named(busy)
    assert list(rows) == [4, 5]
    with pytest.raises(Damaged, match=r"row 5 .*quarantine --row 5:[0-9a-f]{16} --reason"):
        busy.quarantine({4: rows[4]}, **WHY)
    busy.quarantine(rows, **WHY)
    assert busy.balance("trips").spent == Fraction(5, 10)
    with pytest.raises(Damaged, match=r"trigger .* was removed"):
        busy.verify()


def test_a_strange_row_that_names_a_good_one_takes_nothing_away(busy: Ledger, behind: Behind):
    with busy._book.auditing() as (connection, _):
        found = {row["sequence"]: stored_bytes(row, children) for row, children in rows(connection)}
    facts = json.dumps({"bytes": found[2], "row": "2"})
    behind(junk("quarantined", nano=0).replace("'{}'", f"'{facts}'"))
    rows_named = named(busy)
    assert list(rows_named) == [4]
    busy.quarantine(rows_named, **WHY)
    assert busy.balance("trips").spent == Fraction(1, 10)
    assert busy.state(charge("a").key) == "settled"
    busy.verify()


@pytest.mark.parametrize("facts", ["[]", '{"row":"x"}', "7"])
def test_a_strange_row_with_a_fitting_hash_and_odd_facts_is_quarantined_too(
    busy: Ledger, place: Place, store: str, facts: str
):
    if store != "sqlite":
        pytest.skip("the same rows and hashes as in a file")
    newest = busy.entries()[-1]
    row = {"sequence": 4, "event": "quarantined", "time": newest.time, "lineage": "trips"}
    row |= {
        "key": None,
        "source": None,
        "kind": "dp",
        "nano_epsilon": 7,
        "what": "",
        "facts": facts,
    }
    row |= {"previous": newest.hash, "state": newest.state}
    connection = sqlite3.connect(place.folder / "ledger.sqlite", isolation_level=None)
    columns, marks = ", ".join([*row, "hash"]), ", ".join("?" * 13)
    insert = f"INSERT INTO entries ({columns}) VALUES ({marks})"
    connection.execute(insert, (*row.values(), digest(row, [])))
    connection.close()
    busy.quarantine(named(busy), **WHY)
    assert busy.balance("trips").spent == Fraction(1, 10) + Fraction(7, 10**9)
    busy.verify()


@pytest.mark.parametrize("digits", ["", "0" * 64, "abc"])
def test_a_row_is_named_by_its_bytes(busy: Ledger, behind: Behind, digits: str):
    behind(junk())
    with pytest.raises(DeclarationError, match="first 16 digits or more of its digest"):
        busy.quarantine({4: digits}, **WHY)
    named(busy)


def test_a_row_whose_bytes_change_after_it_was_named_is_found(
    busy: Ledger, place: Place, postgres_behind: Behind
):
    postgres_behind(junk())
    busy.quarantine(named(busy), **WHY)
    change = "UPDATE entries SET nano_epsilon = 1 WHERE sequence = 4"
    if place.url is None:
        raw(place.folder, change, checks=False)
    else:
        postgres_behind("ALTER TABLE entries DISABLE TRIGGER USER")
        postgres_behind(change)
    with pytest.raises(Damaged, match="row 4"):
        busy.verify()


@pytest.fixture
def postgres_behind(behind: Behind) -> Behind:
    return behind


def test_a_row_that_holds_or_that_the_head_covers_is_not_quarantined(busy: Ledger, place: Place):
    with busy._book.auditing() as (connection, _):
        found = {row["sequence"]: stored_bytes(row, children) for row, children in rows(connection)}
    with pytest.raises(Damaged, match="got one that the head covers"):
        busy.quarantine({3: found[3]}, **WHY)
    # A crash between commit and head: the row is good, and newer than the head.
    head = Head.of(place.folder, named=None)
    head.move(Tip(2, busy.entries()[1].hash))
    with pytest.raises(Damaged, match="nothing is wrong with it"):
        busy.quarantine({3: found[3]}, **WHY)
    busy.verify()


@pytest.mark.parametrize("reason", ["", "two\nlines"])
def test_nothing_is_mended_without_a_reason(busy: Ledger, reason: str):
    with pytest.raises(DeclarationError, match="reason"):
        busy.restate(reason=reason, by="ana")


def test_sums_that_were_changed_are_computed_anew_from_the_rows(
    busy: Ledger, place: Place, behind: Behind
):
    change = "UPDATE state SET value = '{}' WHERE kind = 'population'"
    if place.url is None:
        raw(place.folder, "DROP TRIGGER state_not_updated")
    else:
        behind("ALTER TABLE state DISABLE TRIGGER state_sealed_once")
    behind(change)
    if place.url is None:
        from dp_pipeline.ledger.sqlite import TRIGGERS

        raw(place.folder, next(one for one in TRIGGERS if " state_not_updated " in one))
    else:
        behind("ALTER TABLE state ENABLE ALWAYS TRIGGER state_sealed_once")
    with pytest.raises(Damaged, match="budget restate"):
        busy.verify()
    busy.restate(**WHY)
    assert busy.balance("trips").spent == Fraction(1, 10)
    assert busy.entries()[-1].facts == WHY
    assert release(busy, charge("b"), "0.1") == "new"
    busy.verify()


def test_the_head_names_the_row_that_mended(busy: Ledger, place: Place):
    tip = busy.restate(**WHY)
    assert Head.of(place.folder, named=None).read() == tip == busy.verify()


SECOND_FORMAT = """
DROP TABLE state;
CREATE INDEX entries_by_key ON entries (key);
CREATE INDEX entries_by_source ON entries (source);
CREATE UNIQUE INDEX one_account_per_lineage ON entries (lineage) WHERE event = 'account';
DROP INDEX one_end_per_key;
ALTER TABLE entries DROP COLUMN state;
"""


def older(ledger: Ledger, place: Place, behind: Behind) -> None:
    """The same rows as the second format had them: no sums, and hashes of other columns."""
    if place.url is None:
        raw(place.folder, checks=False)
    else:
        for table in ("entries", "spends"):
            behind(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    previous, at = "0" * 64, "UPDATE entries SET hash = '{}', previous = '{}' WHERE sequence = {}"
    for entry in ledger.entries():
        row = {**vars(entry), "lineage": entry.population, "state": None, "previous": previous}
        row["facts"] = canonical(dict(entry.facts))
        children = [
            {
                "ordinal": n,
                "what": one.what,
                "mechanism": one.mechanism,
                "epsilon": str(one.epsilon),
            }
            | {"scale": str(one.scale)}
            for n, one in enumerate(entry.spends)
        ]
        fitting = digest(row, children)
        behind(at.format(fitting, previous, entry.sequence))
        previous = fitting
    for statement in SECOND_FORMAT.strip().split("\n"):
        behind(statement)
    if place.url is None:
        raw(place.folder, "PRAGMA user_version = 2")
    else:
        for name in ("not_emptied", "not_inserted", "sealed_once", "not_deleted"):
            behind(f"DROP FUNCTION state_{name}()")
        behind("COMMENT ON TABLE entries IS 'dp_pipeline ledger, format 2'")
    head = Head.of(place.folder, named=None)
    head.move(Tip(ledger_size(head), previous))


def ledger_size(head: Head) -> int:
    tip = head.read()
    assert tip is not None
    return tip.sequence


def test_a_ledger_of_the_second_format_goes_on_after_its_upgrade(
    busy: Ledger, place: Place, behind: Behind
):
    busy.claim_source("trips", "csv:a")
    release(busy, charge("open"))
    before = busy.entries()
    older(busy, place, behind)
    with pytest.raises(PipelineError, match="got format 2: `dp-pipeline budget upgrade` takes it"):
        busy.balance("trips")
    assert busy.format() == 2
    with pytest.raises(PipelineError, match=f"got {charge('open').key[:12]}: finish them"):
        busy.upgrade(by="ana")
    assert busy.format() == 2
    tip = busy.upgrade(by="ana", with_unfinished=True)
    assert (busy.format(), tip.sequence) == (3, len(before) + 1)
    after = busy.entries()
    assert [one.what for one in after] == [*(one.what for one in before), ""]
    assert [one.state for one in after[:-1]] == [None] * len(before)
    assert busy.balance("trips").spent == Fraction(2, 10)
    assert busy.claims() == (("csv:a", "trips"),)
    assert release(busy, charge("open"), "0.1") == "resumed"
    assert release(busy, charge("b"), "0.1") == "new"
    busy.verify()
    with pytest.raises(PipelineError, match="expected format 2, got format 3: nothing"):
        busy.upgrade(by="ana")


def test_a_month_that_an_older_ledger_was_in_stays_begun(
    folder: Path, place: Place, store: str, behind: Behind, monkeypatch: pytest.MonkeyPatch
):
    if store != "sqlite":
        pytest.skip("the same rows and hashes as in a file")
    in_month(monkeypatch, "2036-01")
    ledger, limit = Ledger(folder), Fraction(1, 10)
    ledger.open_account(replace(account(), per_month=limit))
    release(ledger, charge("a"), "0.1")
    older(ledger, place, behind)
    in_month(monkeypatch, "2026-12")
    ledger.upgrade(by="ana")
    with pytest.raises(BudgetExceeded, match=r"spent in 2036-01 0\.1"):
        release(ledger, charge("b"), "0.1")
    ledger.verify()


def test_a_damaged_ledger_is_not_upgraded(busy: Ledger, place: Place, behind: Behind):
    older(busy, place, behind)
    if place.url is not None:
        behind("ALTER TABLE entries DISABLE TRIGGER ALL")
    behind("UPDATE entries SET nano_epsilon = 1 WHERE sequence = 2")
    with pytest.raises(Damaged, match="row 2"):
        busy.upgrade(by="ana")
    assert busy.format() == 2


def test_a_row_that_forgets_its_sums_is_not_taken_for_an_older_one(busy: Ledger, place: Place):
    if place.url is not None:
        pytest.skip("the same rows and hashes as in a file")
    connection = sqlite3.connect(place.folder / "ledger.sqlite", isolation_level=None)
    connection.row_factory = sqlite3.Row
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        connection.execute(f"DROP TRIGGER {name}")
    row = dict(connection.execute("SELECT * FROM entries WHERE sequence = 2").fetchone())
    fitting = digest({**row, "state": None}, [])
    update = "UPDATE entries SET state = NULL, hash = ? WHERE sequence = 2"
    connection.execute(update, (fitting,))
    connection.close()
    with pytest.raises(Damaged, match=r"row 2 .*its sums are not those of the rows so far"):
        busy.verify()


def test_the_commands_mend_and_say_what_they_did(
    folder: Path, monkeypatch: pytest.MonkeyPatch, store: str
):
    if store != "sqlite":
        pytest.skip("the commands know no stores")
    monkeypatch.setenv("DP_PIPELINE_HOME", str(folder.parent))
    ledger = Ledger(folder)
    ledger.open_account(account())
    raw(folder, junk())
    ((number, digits),) = named(ledger).items()
    wrong = CliRunner().invoke(main, ["budget", "quarantine", "--row", "x", "--reason", "r"])
    assert wrong.exit_code == 2
    asked = ["budget", "quarantine", "--row", f"{number}:{digits}", "--reason", "typed"]
    done = CliRunner().invoke(main, asked)
    assert (done.exit_code, done.output) == (0, "quarantined: row 2; the ledger goes on at row 3\n")
    done = CliRunner().invoke(main, ["budget", "restate", "--reason", "to be sure"])
    assert (done.exit_code, done.output) == (
        0,
        "sums computed anew from 3 rows; row 4 says so\n",
    )
    told = CliRunner().invoke(main, ["budget", "export", "--format", "json"])
    assert [line["event"] for line in json.loads(told.output)["lines"]] == [
        "opened",
        "quarantined",
        "restated",
    ]
    assert CliRunner().invoke(main, ["budget", "upgrade"]).exit_code == 1
