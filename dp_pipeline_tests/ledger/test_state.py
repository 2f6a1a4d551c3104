"""What admission asks is what the chain has said: sums, claims and unfinished releases."""

import random
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import event, select

from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.ledger import Ledger, journal
from dp_pipeline.ledger.head import Draft
from dp_pipeline.ledger.journal import ENDED, RESERVED, entries
from dp_pipeline.ledger.state import State
from dp_pipeline.ledger.view import read_state
from dp_pipeline_tests.ledger.damage import SOURCE, SmallLedger, flips
from dp_pipeline_tests.ledger.population import (
    account,
    charge,
    raw,
    release,
    require_refused,
    spends,
)


@pytest.fixture
def full(ledger: Ledger) -> Ledger:
    """All of 1 is spent by four releases."""
    for n in range(4):
        release(ledger, charge(n, epsilon="0.25"), "0.25")
    return ledger


def damage_index(ledger: Ledger, index: str, old: bytes, new: bytes) -> None:
    """Other bytes in the root page of an index; the table stays as it is."""
    path = ledger.folder / "ledger.sqlite"
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    (root,) = connection.execute(query, (index,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    offset = content.index(old, (root - 1) * size, root * size)
    content[offset : offset + len(old)] = new
    path.write_bytes(content)


def test_a_bit_in_an_index_lets_nobody_pass_the_ceiling(full: Ledger):
    damage_index(full, "entries_by_population", b"tripsreserve", b"tripsreserv\x00")
    assert full.balance("trips").remaining == 0
    with pytest.raises(BudgetExceeded):
        release(full, charge("more"))
    require_refused(Damaged, r"index entries_by_population.*REINDEX", full.verify)


def test_a_bit_in_an_index_gives_no_benchmark_a_source(ledger: Ledger):
    ledger.claim_source("trips", SOURCE)
    ledger.open_account(account("bench", ceiling=None, purpose="benchmark"))
    damage_index(ledger, "sqlite_autoindex_state_1", b"csv:/secret", b"csv:/secreu")
    for use in (ledger.claim_source, ledger.require_claimable):
        with pytest.raises((Damaged, DeclarationError)):
            use("bench", SOURCE)
    require_refused(Damaged, "index sqlite_autoindex_state_1", ledger.verify)


@pytest.mark.parametrize("index", ["one_reserve_per_key", "one_end_per_key"])
@pytest.mark.parametrize("end", ["settled", "dead"])
def test_an_index_that_has_lost_a_key_loses_no_outcome(ledger: Ledger, index: str, end: str):
    new_charge = charge("a")
    with ledger.reserve(new_charge) as reservation:
        reservation.die("lost") if end == "dead" else reservation.settle(spends("0.1"))
    damage_index(ledger, index, new_charge.key.encode(), b"f" * 64)
    queries = (lambda: ledger.state(new_charge.key), lambda: release(ledger, new_charge, "0.1"))
    words = "The indexes of the ledger disagree about the release"
    require_refused(Damaged, words, *queries)


def test_an_index_that_takes_a_row_for_another_is_not_believed(ledger: Ledger):
    first, second = charge("a"), charge("b")
    release(ledger, first, "0.1")
    for index in ("one_reserve_per_key", "one_end_per_key"):
        damage_index(ledger, index, first.key.encode(), second.key.encode())
    with pytest.raises(Damaged):
        ledger.state(second.key)


def test_flipped_bits_never_undercharge(tmp_path: Path):
    """A sample; of 3,328 in indexes, 700 in sums and 700 in tables none did."""
    small, chance = SmallLedger(tmp_path), random.Random(13)
    sample = [(chance.randrange(len(small.good)), chance.randrange(8)) for _ in range(16)]
    flipped = flips(small, sample)
    assert flipped.pop("flips") == 16
    assert set(flipped) == {"seen by verify"}


@pytest.mark.parametrize("bit", [0, 7], ids=["another letter", "no letter"])
def test_a_flipped_bit_in_a_name_of_the_schema_is_refused(tmp_path: Path, bit: int):
    """A sample; of all names of tables, indexes and triggers none was taken for another."""
    small, chance = SmallLedger(tmp_path), random.Random(13)
    names = re.finditer(rb"(table|index|trigger)[a-z_1]+?(?=CREATE)", small.good)
    places = [(place, bit) for name in names for place in range(*name.span())]
    flipped = flips(small, chance.sample(places, 12))
    assert flipped == {"flips": 12, "seen by verify": 12}


@pytest.mark.parametrize(
    "change",
    [
        ("'CREATE UNIQUE INDEX one_end'", "'CREATE INDEX one_end'", "index one_end_per_key"),
        ("'scale TEXT NOT NULL'", "'scale BLOB NOT NULL'", "column 5 of spends"),
        ("'REFERENCES entries'", "'REFERENCES state'", "reference 0 of spends"),
    ],
    ids=lambda change: change[2],
)
def test_a_schema_with_other_words_is_refused(full: Ledger, change: tuple[str, str, str]):
    before, after, name = change
    raw(
        full.folder,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = replace(sql, {before}, {after})",
        "PRAGMA writable_schema = RESET",
    )
    require_refused(Damaged, f"{name} was changed", full.verify)


CHEAPER = "UPDATE state SET value = replace(value, ':1000000000', ':1') WHERE entry > 0"


def test_sums_changed_behind_the_triggers_admit_nothing(full: Ledger):
    raw(full.folder, CHEAPER, checks=False)
    require_refused(
        Damaged,
        "are not those of row",
        lambda: full.balance("trips"),
        lambda: release(full, charge("more")),
        lambda: full.claim_source("trips", "csv:a"),
    )
    require_refused(Damaged, "`dp-pipeline budget restore --reason", full.verify)


@pytest.mark.parametrize("planted", ["x'ff00'", "7", "7.5"])
def test_a_planted_value_that_is_no_text_is_damage_in_one_line(full: Ledger, planted: str):
    raw(full.folder, f"INSERT INTO state VALUES ('source', 'trips', {planted}, 1, 1)", checks=False)
    require_refused(Damaged, "", lambda: full.balance("trips"), full.verify)


def test_sums_changed_with_their_digest_admit_nothing(full: Ledger):
    raw(full.folder, CHEAPER, checks=False)
    with full._book.auditing() as (connection, _):
        digest = read_state(connection).digest
    raw(full.folder, f"UPDATE entries SET state = '{digest}' WHERE sequence = 9")
    with pytest.raises(Damaged, match=r"row 9 of .* does not match its hash"):
        release(full, charge("more"))


def test_sums_are_those_of_the_rows_after_every_kind_of_row(tmp_path: Path):
    ledger = SmallLedger(tmp_path).ledger
    ledger.raise_ceiling("trips", ceiling=Fraction(5), reason="more", by="ana")
    ledger.retire("trips", ["trips/a"], by="ana")
    release(ledger, charge("unfinished", epsilon="0.2"), "0.2")
    computed = State()
    for entry in ledger.entries():
        computed.take(entry, sequence=entry.sequence, time=entry.time)
        assert computed.digest == entry.state
    with ledger._book.reading() as view:
        assert read_state(view.connection) == computed
    assert ledger.claims() == ((SOURCE, "trips"),)
    assert ledger.count_releases("trips") == 20


def test_a_question_about_one_release_reads_no_history(full: Ledger, monkeypatch):
    def read_all(_: object) -> None:
        raise AssertionError("all rows were read")

    monkeypatch.setattr(journal, "rows", read_all)
    keys = [charge(n, epsilon="0.25").key for n in (0, 9, 3)]
    assert full.states(keys) == ("settled", None, "settled")
    assert full.state(keys[0]) == "settled"
    assert [entry.event for entry in full.history(keys[0])] == ["reserve", "settled"]
    full.balance("trips")
    full.not_dp_releases("trips")
    full.open_account(account(), sources=["csv:a"])
    assert release(full, charge("free", epsilon="0")) == "new"


def test_the_draws_of_a_population_are_read_at_once(full: Ledger):
    statements: list[object] = []
    with full._book.reading() as view:
        engine, listener = view.connection.engine, lambda *given: statements.append(given[2])
        event.listen(engine, "before_cursor_execute", listener)
        rows = view.of_population("trips")
    assert len(statements) == 2
    assert [len(entry.spends) for entry in rows if entry.event == "settled"] == [1] * 4


@pytest.mark.parametrize(
    ("clause", "index"), [(RESERVED, "one_reserve_per_key"), (ENDED, "one_end_per_key")]
)
def test_the_two_look_ups_of_a_release_use_an_index_each(full: Ledger, clause, index: str):
    query = select(entries).where(entries.c.key == "k", clause)
    with full._book.reading() as view:
        text = str(query.compile(view.connection, compile_kwargs={"literal_binds": True}))
        plan = view.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all()
    assert [row[-1] for row in plan] == [f"SEARCH entries USING INDEX {index} (key=?)"]


def test_a_refused_claim_opens_no_account(ledger: Ledger):
    ledger.claim_source("trips", SOURCE)
    before = ledger.entries()
    with pytest.raises(DeclarationError, match="belongs to population trips"):
        ledger.open_account(account("buses"), sources=["csv:other", SOURCE])
    assert ledger.account("buses") is None
    assert ledger.entries() == before
    ledger.open_account(account("buses"), sources=[SOURCE], distinct_population="drivers")
    assert [entry.event for entry in ledger.entries()][len(before) :] == ["account", "source"]


def test_the_digest_in_place_is_that_of_all_rows_sorted():
    draws = random.Random(13)
    events = ["reserve", "interrupted", "settled", "dead", "source", "account"]
    for _ in range(20):
        unchanged, changed = State(), State()
        for sequence in range(1, 60):
            name = f"{draws.randrange(8)}"
            fields = {"key": name * 3, "source": name, "kind": "dp", "facts": account().facts()}
            row = Draft(draws.choice(events), f"l{name}", **fields)
            for state in (unchanged, changed):
                state.take(row, sequence=sequence, time="2026-11")
            assert State(dict(unchanged.rows)).digest == changed.digest
    assert State({}).digest != State().digest


def test_a_consistent_view_is_of_one_moment(ledger: Ledger):
    release(ledger, charge("a", epsilon="0.25"), "0.25")
    other = Ledger(ledger.folder)
    with ledger.consistent_view(), ThreadPoolExecutor(1) as pool:
        # As another process would: a view is of its own thread alone.
        pool.submit(release, other, charge("b", epsilon="0.25"), "0.25").result(300)
        assert ledger.balance("trips").remaining == Fraction(3, 4)
        assert Ledger(ledger.folder).count_releases("trips") == 1
    assert ledger.balance("trips").remaining == Fraction(1, 2)


def test_a_view_of_one_ledger_shows_another_as_it_is(ledger: Ledger, tmp_path: Path):
    second = Ledger(tmp_path / "second")
    second.open_account(account("rides"))
    with ledger.consistent_view():
        assert second.populations() == ("rides",)
        assert ledger.populations() == ("trips",)


def test_nothing_is_written_inside_a_consistent_view(ledger: Ledger):
    words = "must not be written while this process reads it: report"
    with ledger.consistent_view(), pytest.raises(RuntimeError, match=words):
        release(ledger, charge("a"))
    assert ledger.count_releases("trips") == 0
