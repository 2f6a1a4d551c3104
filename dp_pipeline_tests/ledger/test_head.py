"""The head outside: an older copy of a ledger is refused, a crash before the head moved is not."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import Head, Tip
from dp_pipeline_tests.ledger.population import (
    Child,
    account,
    charge,
    die_here,
    raw,
    release,
    require_refused,
    say,
)


def head_of(ledger: Ledger) -> Path:
    return ledger.folder.with_name("ledger.head")


def backup(ledger: Ledger) -> Path:
    """A copy of the ledger's folder as it is now."""
    copy = ledger.folder.with_name("yesterday")
    shutil.copytree(ledger.folder, copy)
    return copy


def put_back(ledger: Ledger, copy: Path) -> None:
    shutil.rmtree(ledger.folder)
    shutil.copytree(copy, ledger.folder)


def assert_refused_everywhere(ledger: Ledger, words: str) -> None:
    require_refused(
        Damaged,
        words,
        lambda: ledger.balance("trips"),
        lambda: ledger.account("trips"),
        ledger.entries,
        lambda: ledger.state(charge().key),
        lambda: ledger.key("trips"),
        ledger.verify,
        lambda: ledger.open_account(account()),
        lambda: ledger.open_account(account("another")),
        lambda: ledger.claim_source("trips", "csv:a"),
        lambda: release(ledger, charge("b"), "0.1"),
    )


def test_the_head_names_the_newest_row(ledger: Ledger):
    release(ledger, charge(), "0.1")
    newest = ledger.entries()[-1]
    assert json.loads(head_of(ledger).read_text()) == {"sequence": 3, "hash": newest.hash}
    assert ledger.verify() == Tip(3, newest.hash)
    assert head_of(ledger).stat().st_mode & 0o777 == 0o600


def test_yesterdays_ledger_put_back_is_refused(ledger: Ledger):
    release(ledger, charge("a"), "0.1")
    yesterday = backup(ledger)
    release(ledger, charge("b"), "0.1")
    put_back(ledger, yesterday)
    assert_refused_everywhere(ledger, "rows were lost, or an older copy was put back, so put back")


def test_rows_cut_off_at_the_end_are_refused(ledger: Ledger):
    release(ledger, charge("a"), "0.1")
    rows = ("spends WHERE entry = 3", "entries WHERE sequence = 3")
    raw(ledger.folder, *(f"DELETE FROM {row}" for row in rows), checks=False)
    assert_refused_everywhere(ledger, "rows were lost, or an older copy was put back, so put back")


def test_a_ledger_that_went_another_way_is_refused(ledger: Ledger):
    yesterday, then = backup(ledger), head_of(ledger).read_text()
    release(ledger, charge("a"), "0.1")
    put_back(ledger, yesterday)
    elsewhere = ledger.folder.with_name("other.head")
    elsewhere.write_text(then)
    release(Ledger(ledger.folder, head=elsewhere), charge("b"), "0.1")
    assert_refused_everywhere(ledger, "that is not the one its head knows: it is another ledger")


def test_a_lost_head_or_ledger_is_refused(ledger: Ledger):
    text = head_of(ledger).read_text()
    head_of(ledger).unlink()
    assert_refused_everywhere(ledger, "is lost: where no rows are lost, put back a copy")
    head_of(ledger).write_text(text)
    shutil.rmtree(ledger.folder)
    assert_refused_everywhere(ledger, "rows of it: put back a copy, or name its server in")


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"sequence": -1, "hash": "' + "0" * 64 + '"}', "\x00\xff"]
)
def test_a_head_that_is_none_is_damage(ledger: Ledger, text: str):
    head_of(ledger).write_text(text, encoding="latin-1")
    assert_refused_everywhere(ledger, "must hold the number and hash of a row, but it does not")


def die_between_commit_and_head(_: int, folder: Path) -> None:
    Head.advance = lambda *_: die_here()  # type: ignore[method-assign]
    release(Ledger(folder), charge("a"), "0.1")


def test_a_crash_between_commit_and_head_is_not_refused(ledger: Ledger):
    before = head_of(ledger).read_text()
    Child(die_between_commit_and_head, ledger.folder).lines()
    assert head_of(ledger).read_text() == before
    assert ledger.state(charge("a").key) == "reserved"
    assert ledger.balance("trips").spent == Fraction(1, 10)
    assert release(ledger, charge("a"), "0.1") == "resumed"
    ledger.verify()
    assert json.loads(head_of(ledger).read_text())["sequence"] == len(ledger.entries())


def reserve_many(pipe: int, folder: Path, who: int) -> None:
    ledger = Ledger(folder)
    for n in range(20):
        release(ledger, charge((who, n), epsilon="0.001"), "0.001")
        ledger.balance("trips")
    say(pipe, "done")


def test_the_head_follows_writers_and_refuses_no_reader(ledger: Ledger):
    children = [Child(reserve_many, ledger.folder, worker) for worker in range(4)]
    while any(child.process.is_alive() for child in children):
        ledger.balance("trips")
    assert [child.lines() for child in children] == [["done"]] * 4
    assert ledger.verify().sequence == 1 + 4 * 20 * 2


def test_a_ledger_of_another_format_is_refused_in_one_line(ledger: Ledger):
    raw(ledger.folder, "PRAGMA user_version = 2")
    head_of(ledger).unlink()
    words = "use the dp-pipeline that wrote it; `dp-pipeline check`"
    queries = (ledger.verify, lambda: ledger.open_account(account()), ledger.entries)
    require_refused(PipelineError, words, *queries)
    assert ledger.format() == 2


def test_the_head_may_lie_on_another_disk(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere" / "trips.head"
    ledger = Ledger(tmp_path / "ledger", head=elsewhere)
    ledger.open_account(account())
    assert Head(elsewhere).read() == ledger.verify()
    words = "is lost: where no rows are lost, put back a copy"
    for head in (None, tmp_path / "empty" / "head"):
        other = Ledger(tmp_path / "ledger", head=head)
        queries = (other.verify, lambda other=other: other.open_account(account("others")))
        require_refused(Damaged, words, *queries)
    assert not (tmp_path / "empty" / "head").exists()


def test_a_place_where_no_head_can_be_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    ledger = Ledger(tmp_path / "ledger", head=tmp_path / "file" / "head")
    require_refused(PipelineError, "cannot be used", lambda: ledger.open_account(account()))
    assert ledger.populations() == ()


def test_a_linked_head_stays_on_the_other_disk(tmp_path: Path):
    """A rename onto the link would bring the head back to where a restored backup reaches it."""
    disk, link = tmp_path / "disk", tmp_path / "ledger.head"
    disk.mkdir()
    link.symlink_to(disk / "head")
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(account())
    release(ledger, charge("a"), "0.1")
    assert link.is_symlink()
    assert Head(disk / "head").read() == ledger.verify()


@pytest.mark.parametrize("is_named", [False, True], ids=["beside", "named"])
def test_a_head_that_is_a_circle_of_links_is_refused(tmp_path: Path, *, is_named: bool):
    Ledger(tmp_path / "ledger").open_account(account())
    head = tmp_path / "ledger.head"
    circle = tmp_path / "circle" if is_named else head
    head.unlink()
    circle.symlink_to(circle)
    ledger = Ledger(tmp_path / "ledger", head=circle if is_named else None)
    queries = (ledger.verify, lambda: ledger.open_account(account("others")))
    require_refused(PipelineError, "links lead in a circle", *queries)
    assert circle.is_symlink()
