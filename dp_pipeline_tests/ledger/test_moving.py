"""A ledger that goes from its file to a server: nothing is lost, nothing is there twice."""

import os
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError
from dp_pipeline.ledger import Ledger, export
from dp_pipeline.ledger.export import move_to_server
from dp_pipeline.ledger.head import Head, Tip
from dp_pipeline.ledger.sqlite import MOVED
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.ledger.places import Place
from dp_pipeline_tests.ledger.population import account, charge, raw, release, require_refused
from dp_pipeline_tests.postgres_server import PostgresServer


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.new_schema()


@pytest.fixture
def busy(ledger: Ledger) -> Ledger:
    """In a file: a release that is settled by two spends, and one that is reserved."""
    release(ledger, charge("a"), "0.04", "0.06")
    release(ledger, charge("b", epsilon="0.5"))
    return ledger


def move(ledger: Ledger, url: str) -> Tip:
    return move_to_server(ledger.folder, head=None, url=url)


def test_the_same_rows_are_there_and_go_on_under_the_same_head(busy: Ledger, folder, url: str):
    before, key = busy.entries(), busy.key("trips")
    assert move(busy, url) == Head.of(folder, declared=None).read()
    there = Place(folder, url)()
    assert there.entries() == before
    assert there.key("trips") == key
    assert release(there, charge("b", epsilon="0.5"), "0.5") == "resumed"
    assert there.balance("trips").remaining == Fraction(4, 10)
    assert there.verify().sequence == len(before) + 2


def test_the_file_is_not_opened_again(busy: Ledger, folder: Path, url: str):
    move(busy, url)
    assert (folder / MOVED).exists()
    queries = (busy.populations, lambda: Ledger(folder).open_account(account()))
    require_refused(Damaged, "were moved to a server: all commands but", *queries)
    home = Home(folder.parent)
    assert home.ledger_folder == folder
    with pytest.raises(DeclarationError, match="was moved to a server, but"):
        home.ledger.populations()


def test_a_database_that_has_another_ledger_takes_none(busy: Ledger, folder: Path, url: str):
    Place(folder.with_name("other"), url)().open_account(account())
    with pytest.raises(PipelineError, match="must be an empty database to receive rows, but it"):
        move(busy, url)
    assert busy.verify().sequence == 4


def test_a_damaged_ledger_stays_where_it_is(busy: Ledger, folder: Path, url: str):
    raw(folder, "UPDATE entries SET nano_epsilon = 1 WHERE sequence = 2", checks=False)
    require_refused(Damaged, "row 2", lambda: move(busy, url), busy.verify)
    assert not (folder / MOVED).exists()


def test_rows_that_do_not_arrive_as_they_left_are_not_taken(busy: Ledger, url: str, monkeypatch):
    read_rows = export.journal.rows

    def cheaper(connection: object):
        for row, children in read_rows(connection):
            yield {**row, "nano_epsilon": row["nano_epsilon"] // 2}, children

    monkeypatch.setattr(export.journal, "rows", cheaper)
    monkeypatch.setattr(Ledger, "verify", lambda _: None)
    require_refused(Damaged, "row 2", lambda: move(busy, url))
    monkeypatch.undo()
    assert busy.verify().sequence == 4
    assert move(busy, url).sequence == 4


def full(*_: object) -> None:
    raise OSError(28, os.strerror(28))


def test_an_interrupted_move_is_done_once_more(busy: Ledger, folder: Path, url: str, monkeypatch):
    monkeypatch.setattr(Path, "rename", full)
    require_refused(PipelineError, "No space left", lambda: move(busy, url))
    monkeypatch.undo()
    require_refused(Damaged, "budget move", lambda: Place(folder, url)().populations())
    assert busy.verify().sequence == 4
    assert move(busy, url).sequence == 4


def test_a_copy_that_was_outrun_by_the_file_is_not_taken_for_it(busy: Ledger, url, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", full)
        with pytest.raises(PipelineError):
            move(busy, url)
    release(busy, charge("c"), "0.1")
    with pytest.raises(PipelineError, match="must be an empty database to receive rows, but it"):
        move(busy, url)
    assert busy.verify().sequence == 6


def test_the_command_moves_to_where_the_variable_points(busy: Ledger, folder, url, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_HOME", str(folder.parent))
    refusal = (
        "dp-pipeline: The variable DP_PIPELINE_LEDGER must hold the address of a server, but it is "
        "not set: `export DP_PIPELINE_LEDGER=postgresql://user@host/database`\n"
    )
    for address, code, output in (
        ("", 2, refusal),
        (url, 0, "4 rows moved; keep DP_PIPELINE_LEDGER set from now on\n"),
        (url, 1, ""),
    ):
        monkeypatch.setenv("DP_PIPELINE_LEDGER", address)
        moved = CliRunner().invoke(main, ["budget", "move"])
        assert moved.exit_code == code
        assert moved.output.startswith(output)
    with pytest.raises(Damaged):
        busy.populations()
    assert CliRunner().invoke(main, ["budget", "verify"]).output.startswith("4 rows;")
