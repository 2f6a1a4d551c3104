"""A ledger that would not go on goes on, with a row that says so, and with no smaller sum."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import DeadRelease, Ledger
from dp_pipeline.ledger.export import export_lines
from dp_pipeline.ledger.head import Draft, Head, Tip, digest
from dp_pipeline.ledger.journal import rows, stored_digest, write
from dp_pipeline.ledger.state import State, StateKey, StateValue
from dp_pipeline.ledger.verify import verify_rows
from dp_pipeline.ledger.view import write_state
from dp_pipeline_tests.ledger.places import EVERYWHERE, Behind, Place
from dp_pipeline_tests.ledger.population import WHY, account, charge, raw, release, require_refused

STORES = EVERYWHERE

OTHER = "'l'"
JUNK = (
    "INSERT INTO entries SELECT {sequence}, '{event}', 'today', '{population}', {key}, "
    "NULL, '{kind}', {nano}, 'typed', '{facts}', "
    "coalesce((SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), repeat0), 'x', 'x' "
    "FROM (SELECT coalesce(max(sequence), 0) AS tip FROM entries) AS newest"
).replace("repeat0", f"'{'0' * 64}'")


def junk(event: str = "reserve", **changes: object) -> str:
    """One row that follows the newest as far as the triggers see."""
    row = {"population": "trips", "nano": 300_000_000, "kind": "dp", "key": "'k'", "facts": "{}"}
    return JUNK.format(event=event, **{**row, "sequence": "tip + 1", **changes})


@pytest.fixture
def busy(ledger: Ledger) -> Ledger:
    """Row 1 account, 2-3 release a of 0.1."""
    release(ledger, charge("a"), "0.1")
    return ledger


def named(ledger: Ledger) -> dict[int, str]:
    """The rows that ``verify`` says are to be taken out."""
    with pytest.raises(Damaged, match="does not cover") as refusal:
        ledger.verify()
    rows_named = re.findall(r"--row (-?\d+):([0-9a-f]{16}) ", str(refusal.value))
    return {int(number): digits for number, digits in rows_named}


def stored(ledger: Ledger) -> dict[int, str]:
    """The digests of the bytes of all rows, by number."""
    with ledger._book.auditing() as (connection, _):
        return {row["sequence"]: stored_digest(row, children) for row, children in rows(connection)}


def test_a_strange_row_is_taken_out_charged_and_named(busy: Ledger, behind: Behind):
    behind(junk())
    require_refused(
        Damaged, "row 4", lambda: busy.balance("trips"), lambda: release(busy, charge("b"))
    )
    strays = named(busy)
    bytes_of = stored(busy)[4]
    tip = busy.restore(strays, **WHY)
    assert (list(strays), tip, busy.verify()) == ([4], busy.verify(), tip)
    row = busy.entries()[-1]
    assert (row.sequence, row.event, row.population) == (4, "restored", "trips")
    assert row.nano_epsilon == 300_000_000
    assert {**WHY, "row": "4", "bytes": bytes_of}.items() <= row.facts.items()
    assert json.loads(row.facts["content"])[0]["what"] == "typed"
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
        (junk(nano=-50_000_000), "0.1", 0),
        (junk(sequence="-7"), "0.4", 0),
        (junk(sequence=f"{2**31 - 1}"), "0.4", 0),
        (junk("restored", nano=0, facts=json.dumps({"row": "2", "bytes": "0" * 64})), "0.1", 0),
        (junk("restored", nano=0, facts="[" * 100_000), "0.1", 0),
        (f"{junk()}; {junk(key=OTHER, nano=100_000_000)}", "0.5", 0),
        (f"{junk()}; INSERT INTO spends VALUES (4, 0, 'a', 'b', '1e999999999', '1')", "0.4", 0),
    ],
)
def test_what_looks_like_a_charge_is_one_and_no_sum_gets_smaller(
    busy: Ledger, unguarded: Behind, place: Place, statement: str, spent: str, not_dp: int
):
    limit = "ALTER TABLE entries {} CONSTRAINT entries_nano_epsilon_check"
    is_limited = place.url is not None and "-50" in statement
    if is_limited:
        unguarded(limit.format("DROP"))
    unguarded(statement)
    if is_limited:
        unguarded(f"{limit.format('ADD')} CHECK (nano_epsilon >= 0) NOT VALID")
    busy.restore(named(busy), **WHY)
    balance = busy.balance("trips")
    assert (balance.spent, balance.not_dp) == (Fraction(spent), not_dp)
    assert len(busy.not_dp_releases("trips")) == not_dp
    assert busy.populations() == ("trips",)
    busy.open_account(account("nobody"))
    busy.verify()
    lines = [line["event"] for line, _ in export_lines(busy.entries())]
    assert lines[:3] == ["opened", "release", "restored"]


def test_the_command_of_a_refusal_names_all_of_many_rows(busy: Ledger, unguarded: Behind):
    unguarded("; ".join(junk(sequence=str(-number), key=f"'k{number}'") for number in range(1, 25)))
    busy.restore(named(busy), **WHY)
    busy.verify()


@pytest.mark.usefixtures("on_file")
def test_behind_the_largest_number_a_row_is_taken_out_too(busy: Ledger, unguarded: Behind):
    unguarded(junk(sequence=f"{2**63 - 1}"))
    busy.restore(named(busy), **WHY)
    assert busy.balance("trips").spent == Fraction(4, 10)
    busy.verify()


def test_a_release_that_a_stray_names_is_dead(busy: Ledger, behind: Behind):
    release(busy, charge("open"))
    behind(junk("settled", key=f"'{charge('open').key}'", nano=0))
    busy.restore(named(busy), **WHY)
    assert busy.state(charge("open").key) == "dead"
    with pytest.raises(DeadRelease):
        release(busy, charge("open"), "0.1")
    behind(junk("dead", key=f"'{charge('a').key}'", nano=0).replace("'dead'", "'note'"))
    busy.restore(named(busy), **WHY)
    assert busy.state(charge("a").key) == "settled"
    assert busy.balance("trips").spent == Fraction(2, 10)
    busy.verify()


def test_a_strange_row_in_an_empty_ledger_is_taken_out(place: Place, behind: Behind):
    ledger = place()
    ledger._book.create()
    behind(junk())
    ledger.restore(named(ledger), **WHY)
    ledger.open_account(account())
    assert release(ledger, charge("a"), "0.1") == "new"
    ledger.verify()


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize("facts", ["[]", '{"row":"x"}', "7"])
def test_a_strange_row_with_a_fitting_hash_is_taken_out_too(busy, behind, unguarded, facts):
    newest = busy.entries()[-1]
    behind(junk("restored", nano=7, key="NULL", facts=facts))
    with busy._book.auditing() as (connection, _):
        row, children = [*rows(connection)][-1]
    fitting = digest({**row, "time": newest.time}, children)
    unguarded(f"UPDATE entries SET hash = '{fitting}', time = '{newest.time}' WHERE sequence = 4")
    busy.restore(named(busy), **WHY)
    assert busy.balance("trips").spent == Fraction(1, 10) + Fraction(7, 10**9)
    busy.verify()


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize("last", [2, 3])
def test_no_charge_that_the_head_covers_is_taken_back(busy: Ledger, unguarded: Behind, last: int):
    strays = {number: digits for number, digits in stored(busy).items() if number >= last}
    change = f"event = 'note', kind = NULL, key = NULL, nano_epsilon = 0 WHERE sequence >= {last}"
    unguarded(f"DELETE FROM spends; UPDATE entries SET {change}")
    words = f"row {last}.*the head covers it: put back a copy"
    require_refused(Damaged, words, busy.verify, lambda: busy.restore(strays, **WHY))
    unguarded(f"DELETE FROM entries WHERE sequence >= {last}")
    with pytest.raises(Damaged, match="rows were lost, or an older copy was put back, so put back"):
        busy.restore({}, **WHY)


@pytest.mark.usefixtures("on_file")
def test_a_missing_row_that_the_head_covers_is_no_stray(busy: Ledger, unguarded: Behind):
    release(busy, charge("b"), "0.1")
    unguarded("DELETE FROM entries WHERE sequence = 4")
    with busy._book.auditing() as (connection, _):
        for newest, words in ((4, "4 is missing.*the head covers it: put back"), (3, "--row 5:")):
            with pytest.raises(Damaged, match=words):
                verify_rows(connection, head=Tip(newest, ""))


def test_several_strange_rows_are_named_together(busy: Ledger, unguarded: Behind):
    unguarded(f"{junk()}; {junk(key=OTHER)}")
    strays = named(busy)
    assert list(strays) == [4, 5]
    for part in ({}, {5: strays[5]}):
        with pytest.raises(Damaged, match=r"budget restore --row 4:[0-9a-f]{16} --row 5:"):
            busy.restore(part, **WHY)
    busy.restore(strays, **WHY)
    busy.verify()


@pytest.mark.parametrize("digits", ["", "0" * 64, "abc"])
def test_a_strange_row_is_named_by_its_bytes(busy: Ledger, behind: Behind, digits: str):
    behind(junk())
    with pytest.raises(DeclarationError, match="or more digits of its digest, as"):
        busy.restore({4: digits}, **WHY)
    for reason in ("", "two\nlines"):
        with pytest.raises(DeclarationError, match="reason"):
            busy.restore(reason=reason, by="ana")
    named(busy)


def test_a_row_that_holds_is_not_taken_out(busy: Ledger, place: Place):
    rows_stored = stored(busy)
    # A crash between commit and head: the row is good, and newer than the head.
    Head.of(place.folder, declared=None).advance(Tip(2, busy.entries()[1].hash))
    for number in (2, 3):
        with pytest.raises(DeclarationError, match=f"row {number} is none: leave it out"):
            busy.restore({number: rows_stored[number]}, **WHY)
    busy.verify()


@pytest.mark.usefixtures("on_file")
def test_a_charge_of_less_than_nothing_is_no_row_of_a_ledger(busy: Ledger):
    with busy._book.writing() as page:
        page.connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
        page.append(Draft.of(charge("b"), "reserve", nano_epsilon=-1, facts={}))
    require_refused(Damaged, r"row 4 \(reserve\) is invalid: its charge is negative", busy.verify)


def test_a_limit_that_was_removed_is_found(busy: Ledger, unguarded: Behind, store: str):
    removal = (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master "
        "SET sql = replace(sql, 'CHECK (nano_epsilon >= 0)', 'CHECK (1)'); "
        "PRAGMA writable_schema = RESET"
    )
    if store != "sqlite":
        removal = "ALTER TABLE entries DROP CONSTRAINT entries_nano_epsilon_check"
    unguarded(removal)
    require_refused(Damaged, r"limit CHECK \(nano_epsilon >= 0\) was removed", busy.verify)


@pytest.mark.usefixtures("on_file")
def test_sums_that_a_writer_lowered_are_found_by_verify(busy: Ledger):
    """Who may append rows is trusted by admission, as the page says, and by nothing else."""
    with busy._book.writing() as page:
        place, row = StateKey("population", "trips"), page.tip.sequence + 1
        lowered = page.state.rows[place].value.replace('"spent":100000000', '"spent":0')
        page.state.take(draft := Draft("retired", "trips"), sequence=row, time=page.now)
        page.state = State({**page.state.rows, place: StateValue(row, lowered)})
        page.tip = write(
            page.connection, draft, after=page.tip, time=page.now, state=page.state.digest
        )
        write_state(page.connection, page.state, [place, StateKey("ledger")])
    assert busy.balance("trips").spent == 0
    require_refused(Damaged, r"row 4 \(retired\) is invalid: its sums are not those", busy.verify)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO state VALUES ('ledger', 'x', '', 99, '{}')",
        "UPDATE state SET kind = 'open', entry = 4 WHERE kind = 'ledger'",
        "DELETE FROM state WHERE kind = 'ledger'",
        "INSERT OR REPLACE INTO state VALUES ('ledger', '', '', 99, '{}')",
    ],
)
def test_the_table_of_sums_is_closed_by_one_row(busy, behind, unguarded, statement, store):
    if store != "sqlite" and "OR REPLACE" in statement:
        pytest.skip("words of SQLite")
    behind(junk())
    with pytest.raises(Exception, match="append-only"):
        behind(statement)
    unguarded(statement)
    busy.restore(named(busy), **WHY)
    assert busy.balance("trips").spent == Fraction(4, 10)
    busy.verify()


def test_sums_that_were_changed_are_computed_anew_from_the_rows(busy: Ledger, unguarded: Behind):
    unguarded("UPDATE state SET value = '{}' WHERE kind = 'population'")
    require_refused(Damaged, "budget restore", busy.verify)
    tip = busy.restore(**WHY)
    assert busy.balance("trips").spent == Fraction(1, 10)
    assert (busy.entries()[-1].event, busy.entries()[-1].facts) == ("restored", WHY)
    assert Head.of(busy.folder, declared=None).read() == tip == busy.verify()
    assert release(busy, charge("b"), "0.1") == "new"


def test_triggers_that_were_removed_are_made_anew(busy: Ledger, behind: Behind, place: Place):
    behind(f"DROP TRIGGER spends_not_deleted{'' if place.url is None else ' ON spends'}")
    require_refused(Damaged, "trigger spends_not_deleted was removed", busy.verify)
    assert busy.restore(**WHY) == busy.verify()


def test_a_charge_that_triggers_swallow_pays_nothing(busy: Ledger, behind: Behind, store: str):
    body = "BEGIN SELECT RAISE(IGNORE); END"
    if store != "sqlite":
        function = "BEGIN RETURN NULL; END"
        behind(f"CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS '{function}'")
        body = "FOR EACH ROW EXECUTE FUNCTION swallow()"
    for table, event in (("entries", "INSERT"), ("state", "INSERT"), ("state", "UPDATE")):
        behind(f"CREATE TRIGGER a_swallow_{table}_{event} BEFORE {event} ON {table} {body}")
    with pytest.raises(Damaged, match="as a foreign trigger may keep it out"):
        release(busy, charge("b"))
    require_refused(Damaged, r"trigger a_swallow_\w+ was added", busy.verify)
    busy.restore(**WHY)
    assert release(busy, charge("b"), "0.1") == "new"


def test_a_trigger_with_an_odd_name_is_taken_away(busy: Ledger, behind: Behind, store: str):
    name = 'x"" ON state;DROP TABLE state CASCADE--%'
    moment, words = "INSERT", "BEGIN SELECT 1; END"
    if store != "sqlite":
        words = "FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        moment = "UPDATE"
    behind(f'CREATE TRIGGER "{name}" BEFORE {moment} ON state {words}')
    busy.restore(**WHY)
    assert busy.verify().sequence == 4


def test_the_command_restores_and_says_what_it_did(folder: Path, monkeypatch, store: str):
    if store != "sqlite":
        pytest.skip("the commands know no stores")
    monkeypatch.setenv("DP_PIPELINE_HOME", str(folder.parent))
    ledger = Ledger(folder)
    ledger.open_account(account())
    raw(folder, junk())
    ((number, digits),) = named(ledger).items()
    for row, reason, code, output in (
        ("x", "r", 2, None),
        ("--5:abc", "r", 2, None),
        (f"{number}:{digits}", "typed", 0, "1 rows taken out and charged; sums computed anew; "),
        ("", "to be sure", 0, "sums computed anew; the ledger goes on at row 3\n"),
    ):
        named_row = ["--row", row] if row else []
        done = CliRunner().invoke(main, ["budget", "restore", *named_row, "--reason", reason])
        assert done.exit_code == code, done.output
        assert output is None or done.output.startswith(output)
    lines = json.loads(CliRunner().invoke(main, ["budget", "export", "--format", "json"]).output)
    assert [line["event"] for line in lines["lines"]] == ["opened", "restored", "restored"]
