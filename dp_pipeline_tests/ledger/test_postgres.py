"""What only a server can do to a ledger: refuse, forget, let go of a lock, be another one."""

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import psycopg2
import pytest

from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError
from dp_pipeline.ledger import Ledger, ReservationOver
from dp_pipeline.ledger import postgres as module
from dp_pipeline.ledger.head import Draft
from dp_pipeline.ledger.postgres import PostgresStore
from dp_pipeline.releases.home import Home, find_home
from dp_pipeline_tests.ledger.places import Behind, Place
from dp_pipeline_tests.ledger.population import (
    WHY,
    Child,
    account,
    charge,
    release,
    require_refused,
    say,
    spends,
)
from dp_pipeline_tests.ledger.test_restoring import junk, named
from dp_pipeline_tests.postgres_server import PostgresServer

pytestmark = pytest.mark.chain

STORES = ("postgresql",)


def end_connections(server: PostgresServer) -> None:
    """What a restart of the server, or a firewall, does to whoever is connected."""
    name = "dp-pipeline ledger"
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
    server.execute(f"{query}'{name}'")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER spends_not_deleted ON spends",
        "ALTER TABLE spends DISABLE TRIGGER spends_not_deleted",
        "ALTER TABLE spends ENABLE TRIGGER spends_not_deleted",
        "CREATE OR REPLACE FUNCTION spends_not_deleted() RETURNS trigger LANGUAGE plpgsql "
        "AS $$BEGIN RETURN NULL; END$$",
        "CREATE OR REPLACE TRIGGER spends_not_deleted BEFORE DELETE ON spends "
        "FOR EACH ROW WHEN (OLD.entry < 0) EXECUTE FUNCTION spends_not_deleted()",
    ],
)
def test_a_trigger_that_was_weakened_is_found(busy: Ledger, behind: Behind, statement: str):
    behind(statement)
    require_refused(Damaged, r"trigger spends_not_deleted was (removed|changed)", busy.verify)


def test_dropped_tables_are_not_an_empty_ledger(busy: Ledger, place: Place, behind: Behind):
    behind("DROP TABLE spends CASCADE")
    require_refused(Damaged, r"is damaged: .*spends.* put back a copy with all rows", busy.verify)
    behind("DROP TABLE entries, state CASCADE")
    queries = (busy.populations, place().populations, lambda: place().open_account(account()))
    words = r"database of ledger .* has no tables|marks a ledger"
    require_refused(Damaged, words, *queries)


def test_another_database_is_not_a_ledger(place: Place, behind: Behind):
    behind("CREATE TABLE entries (sequence INTEGER)")
    with pytest.raises(Damaged, match="without the comment that marks a ledger"):
        place().populations()


def test_another_format_is_refused(busy: Ledger, behind: Behind):
    behind("COMMENT ON TABLE entries IS 'dp_pipeline ledger, format 2'")
    with pytest.raises(PipelineError, match=r"has format 2, but this program reads format 1: use"):
        busy.balance("trips")


def test_yesterdays_database_put_back_is_refused(postgres_server, postgres_url, folder):
    today, name = Place(folder, postgres_url), postgres_url.rpartition("/")[2]
    today().open_account(account())
    postgres_server.execute(f"CREATE DATABASE {name}_old TEMPLATE {name}")
    release(today(), charge("a"), "0.1")
    with pytest.raises(Damaged, match="rows were lost, or an older copy was put back, so put back"):
        Place(folder, f"{postgres_url}_old")().balance("trips")


def test_a_home_that_has_another_ledger_or_none_is_refused(busy: Ledger, place: Place):
    other = Place(place.folder.with_name("other"), place.url)
    with pytest.raises(Damaged, match="is lost: where no rows are lost, put back a copy"):
        other().balance("trips")
    third = place.folder.with_name("third")
    Place(third)().open_account(account())
    store = PostgresStore(str(place.url), place.folder)
    elsewhere = Ledger(place.folder, head=third.with_name("third.head"), store=store)
    with pytest.raises(Damaged, match="that is not the one its head knows: it is another ledger"):
        elsewhere.balance("trips")
    assert busy.balance("trips").spent == Fraction(6, 10)


def require_both_refused(place: Place, words: str) -> None:
    queries = (place().populations, lambda: place().open_account(account()))
    require_refused(Damaged, words, *queries)


def test_a_home_with_a_ledger_file_is_not_pointed_at_a_server(place: Place):
    Place(place.folder)().open_account(account())
    require_both_refused(place, "budget move")


@pytest.mark.usefixtures("busy")
def test_a_home_with_a_server_is_not_pointed_at_a_file(place: Place):
    require_both_refused(Place(place.folder), "is lost, but its keys are here: put back a copy")
    assert not list(place.folder.rglob("*.sqlite"))


def test_a_lost_lock_ends_the_reservation(busy: Ledger, postgres_server):
    with busy.reserve(charge("c")) as reservation:
        end_connections(postgres_server)
        with pytest.raises(ReservationOver, match="as the connection broke: run again"):
            reservation.settle(spends("0.1"))
    assert busy.state(charge("c").key) == "reserved"
    assert release(busy, charge("c"), "0.1") == "resumed"
    assert busy.balance("trips").spent == Fraction(7, 10)
    busy.verify()


def say_what_is_left(pipe: int, place: Place) -> None:
    say(pipe, place().balance("trips").remaining)


def test_a_forked_child_takes_no_lock_with_it_when_it_ends(busy: Ledger, place: Place):
    with busy.reserve(charge("c")) as reservation:
        assert Child(say_what_is_left, place).lines() == ["3/10"]
        reservation.settle(spends("0.1"))
    assert busy.state(charge("c").key) == "settled"


def test_a_crash_of_the_server_costs_no_second_charge(busy: Ledger, postgres_server):
    with busy.reserve(charge("c")) as reservation:
        postgres_server.stop()
        require_refused(PipelineError, "", lambda: reservation.settle(spends("0.1")))
        expected = "ledger postgresql://127.* gives no session: .* DP_PIPELINE_LEDGER is right"
        require_refused(PipelineError, expected, lambda: busy.balance("trips"))
        postgres_server.start()
    assert release(busy, charge("c"), "0.1") == "resumed"
    assert busy.balance("trips").spent == Fraction(7, 10)
    busy.verify()


def test_a_connection_lost_before_the_commit_leaves_nothing(busy: Ledger, postgres_server):
    before = busy.entries()
    cut = pytest.raises(PipelineError, match="ledger postgresql://127")
    with cut as refusal, busy._book.writing() as page:
        page.append(Draft.of(charge("c"), "reserve", nano_epsilon=10**8))
        end_connections(postgres_server)
    assert "\n" not in str(refusal.value)
    assert busy.entries() == before
    assert release(busy, charge("c"), "0.1") == "new"
    busy.verify()


@pytest.fixture
def _without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two computers, and a pooler between them and the server."""
    monkeypatch.setattr(module, "locked", lambda *_, **__: nullcontext())
    monkeypatch.setattr(PostgresStore, "_lock", lambda *_: None)


@pytest.mark.usefixtures("_without_locks")
def test_without_any_lock_the_second_writer_fails(ledger: Ledger, place: Place):
    with pytest.raises(PipelineError, match="duplicate key"), ledger._book.writing() as page:
        assert page.balance("trips").spent == 0
        thread = threading.Thread(target=release, args=(place(), charge("b", epsilon="0.9")))
        thread.start()
        thread.join()
        page.append(Draft.of(charge("a"), "reserve", nano_epsilon=9 * 10**8))
    assert [entry.what for entry in place().entries()] == ["", "trips/grid b"]
    place().verify()


@pytest.fixture
def _impatient(postgres_server: PostgresServer) -> Iterator[None]:
    """A server that ends whatever takes longer than a moment."""
    names = [f"{name}_timeout" for name in ("statement", "lock", "idle_session")]
    for name in names:
        postgres_server.execute(f"ALTER DATABASE postgres SET {name} = '400ms'")
    yield
    for name in names:
        postgres_server.execute(f"ALTER DATABASE postgres RESET {name}")


@pytest.mark.usefixtures("_impatient")
def test_time_limits_of_the_server_end_no_wait_for_a_lock(busy: Ledger, place: Place):
    states, waiting = [], threading.Event()
    # Another folder's locks: only the server's keep it waiting.
    other = place.folder.with_name("b")
    (other / "locks").mkdir(parents=True)

    def second() -> None:
        waiting.set()
        with PostgresStore(str(place.url), other).holding("c"):
            states.append("second")

    with PostgresStore(str(place.url), place.folder).holding("c") as require_held:
        thread = threading.Thread(target=second)
        thread.start()
        waiting.wait()
        thread.join(1.2)
        require_held()
        states.append("first")
    thread.join(60)
    assert states == ["first", "second"]
    assert release(busy, charge("d"), "0.1") == "new"


@pytest.fixture
def forgetful(busy: Ledger, postgres_server: PostgresServer) -> Iterator[Ledger]:
    """Its server leaves its files to the kernel from now on."""

    def say(value: str) -> None:
        postgres_server.execute(f"ALTER SYSTEM SET fsync = {value}")
        postgres_server.execute("SELECT pg_reload_conf()")
        for _ in range(1000):
            if postgres_server.execute("SHOW fsync") == [(value,)]:
                return
        pytest.fail("the server does not read its settings again")

    say("off")
    yield busy
    say("on")


def test_a_server_that_may_forget_a_charge_is_refused(forgetful: Ledger):
    with pytest.raises(PipelineError, match="must write to the disk, but it has fsync"):
        release(forgetful, charge("c"))
    assert forgetful.balance("trips").spent == Fraction(6, 10)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///ledger.sqlite", "an address of sqlite"),
        ("postgresql+asyncpg://ana:secret@db/budgets", r"an address of postgresql\+asyncpg"),
        ("postgresql://ana:secret@db", "an address without a database"),
        ("postgresql://ana:secret@db:port/budgets", "an address with an invalid host or port: .*"),
        ("ana:secret@db", "text that is no address"),
    ],
)
def test_a_wrong_address_is_refused_without_being_shown(tmp_path: Path, url: str, said: str):
    expected = f"DP_PIPELINE_LEDGER: expected postgresql://user@host/database, got {said}$"
    with pytest.raises(DeclarationError, match=expected) as refusal:
        PostgresStore(url, tmp_path)
    assert "secret" not in str(refusal.value)


def test_no_message_shows_a_password(place: Place, tmp_path: Path):
    wrong = str(place.url).replace("%20p", "%20secret")
    nowhere = "postgresql://ana:secret@127.0.0.1:1/budgets?sslmode=disable"
    for url in (wrong, nowhere):
        words = r"^The ledger postgresql://127\.0\.0\.1:((?!secret).)*$"
        require_refused(PipelineError, words, Place(tmp_path, url)().populations)
        assert "secret" not in repr(Home(tmp_path, url))


def test_variables_name_the_ledger_and_its_head(place: Place, tmp_path, monkeypatch):
    head = tmp_path / "elsewhere" / "head"
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DP_PIPELINE_LEDGER", str(place.url))
    monkeypatch.setenv("DP_PIPELINE_LEDGER_HEAD", str(head))
    find_home().ledger.open_account(account())
    assert head.exists()
    files = sorted(path.name for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert [name.rpartition(".")[2] for name in files] == ["key", "lock"]
    assert len(find_home().ledger.key("trips")) == 32
    monkeypatch.delenv("DP_PIPELINE_LEDGER")
    with pytest.raises(Damaged, match="is lost, but its keys are here: put back a copy"):
        find_home().ledger.balance("trips")


@pytest.mark.usefixtures("busy")
def test_the_schema_of_another_ledger_is_another_place(place: Place, postgres_server):
    expected = "has no tables, but keys .* correct DP_PIPELINE_LEDGER if it named another database"
    with pytest.raises(Damaged, match=expected):
        Place(place.folder, postgres_server.new_schema())().populations()


@pytest.fixture
def forgotten(busy: Ledger, behind: Behind) -> Ledger:
    """The settled row of c is in the table, and missing in the index of ends."""
    ready = "UPDATE pg_index SET indisready = {} WHERE indexrelid = 'one_end_per_key'::regclass"
    behind(ready.format("false"))
    release(busy, charge("c"), "0.1")
    behind(ready.format("true"))
    return busy


def test_an_index_that_lacks_a_row_loses_no_outcome_and_is_named(forgotten: Ledger, behind: Behind):
    key = charge("c").key
    queries = (lambda: forgotten.state(key), lambda: release(forgotten, charge("c"), "0.1"))
    require_refused(Damaged, "The indexes of the ledger disagree about the release", *queries)
    with pytest.raises(Damaged, match=r"index one_end_per_key of ledger .* does not"):
        forgotten.verify()
    behind("REINDEX INDEX one_end_per_key")
    assert forgotten.state(key) == "settled"
    forgotten.verify()


def test_amcheck_is_called_where_it_is_installed(forgotten: Ledger, behind: Behind, monkeypatch):
    monkeypatch.setattr(module, "_rows", lambda *_: [])
    forgotten.verify()
    behind("CREATE EXTENSION amcheck")
    try:
        with pytest.raises(PipelineError, match="lacks matching index tuple"):
            forgotten.verify()
    finally:
        behind("DROP EXTENSION amcheck")


def writer_of(place: Place, behind: Behind) -> str:
    """Give a role the rights that the page says; return its URL."""
    url = str(place.url)
    schema = url.rpartition("%3D")[2]
    for statement in (
        f"CREATE ROLE writer_{schema} LOGIN PASSWORD 'w'",
        f"GRANT USAGE ON SCHEMA {schema} TO writer_{schema}",
        f"GRANT SELECT, INSERT ON entries, spends TO writer_{schema}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON state TO writer_{schema}",
    ):
        behind(statement)
    return f"postgresql://writer_{schema}:w@{url.rpartition('@')[2]}"


def test_a_writers_own_tables_open_no_guard(busy: Ledger, place, postgres_server, behind: Behind):
    schema = str(place.url).rpartition("%3D")[2]
    statement = (
        "CREATE TEMP TABLE entries (sequence int); CREATE TEMP TABLE state AS TABLE "
        f"{schema}.state; INSERT INTO pg_temp.entries VALUES (99); "
        f"DELETE FROM {schema}.state WHERE kind = 'source'"
    )
    with pytest.raises(psycopg2.IntegrityError, match="append-only"):
        postgres_server.execute(statement, url=writer_of(place, behind))
    busy.verify()


def test_a_writer_needs_no_more_rights_than_the_page_says(busy, place, postgres_server, behind):
    theirs = writer_of(place, behind)
    ledger = Place(place.folder, theirs)()
    assert release(ledger, charge("c"), "0.1") == "new"
    assert ledger.verify() == busy.verify()
    behind(junk())
    require_refused(PipelineError, "must be owner of", lambda: ledger.restore(named(ledger), **WHY))
    for statement in ("DROP TRIGGER state_not_deleted ON state", "DELETE FROM entries"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            postgres_server.execute(statement, url=theirs)
