"""The head behind a link; a first head whose writer was stopped before the ledger knew of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import Head
from dp_pipeline.ledger.sqlite_store import SqliteStore
from dp_pipeline.schema.errors import Damaged
from dp_pipeline_tests.ledger.population import account, charge, raw, release


def test_a_link_in_the_place_of_the_head_keeps_it_on_the_other_disk(tmp_path: Path):
    """A rename onto the link would bring the head back to where a restored backup reaches it."""
    disk, link = tmp_path / "disk", tmp_path / "ledger.head"
    disk.mkdir()
    link.symlink_to(disk / "head")
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(account())
    release(ledger, charge("a"), "0.1")
    assert link.is_symlink()
    assert Head(disk / "head").read() == ledger.verify()


def test_a_crash_behind_the_first_head_leaves_no_ledger_that_may_lose_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    head = ledger.folder.with_name("ledger.head")
    raw(ledger.folder, "PRAGMA user_version = 1")
    head.unlink()

    class Stopped(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "start_heads", stop)
        with pytest.raises(Stopped):
            release(ledger, charge("a"), "0.1")
    assert head.exists()
    release(ledger, charge("b"), "0.1")
    head.unlink()
    with pytest.raises(Damaged, match="expected the head of this ledger, got none"):
        ledger.balance("trips")


def test_a_head_that_is_named_elsewhere_later_is_refused_by_whoever_asks(tmp_path: Path):
    Ledger(tmp_path / "ledger").open_account(account())
    elsewhere = Ledger(tmp_path / "ledger", head=tmp_path / "empty" / "head")
    for ask in (elsewhere.verify, lambda: elsewhere.open_account(account("others"))):
        with pytest.raises(Damaged, match="expected the head of this ledger, got none"):
            ask()
    assert not (tmp_path / "empty" / "head").exists()
