"""What is said to be on the disk is on the disk: synchronous commits, synced files and folders."""

import os
from pathlib import Path

import pytest

from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import Head, Tip
from dp_pipeline_tests.ledger.places import EVERYWHERE, Place
from dp_pipeline_tests.ledger.population import account, charge

STORES = EVERYWHERE


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of what was synced, as they were called at that moment."""
    paths: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return paths


def test_a_commit_is_on_the_disk(ledger: Ledger, store: str):
    with ledger._book.writing() as page:
        if store == "postgresql":
            assert page.connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
            return
        settings = {"synchronous": 2, "journal_mode": "wal", "foreign_keys": 1}
        for name, value in settings.items():
            assert page.connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value


def test_the_head_is_synced_before_a_release_is_drawn(ledger: Ledger, place: Place, synced):
    with ledger.reserve(charge()):
        before, after = synced[-2:]
        assert Path(before).name.startswith(".ledger.head.")
        assert Path(before).parent == Path(after) == place.folder.parent


def test_the_head_is_synced_under_the_name_that_it_leaves(tmp_path: Path, synced: list[str]):
    Head(tmp_path / "head").advance(Tip(1, "0" * 64))
    assert [Path(path).name[:6] for path in synced] == [".head.", tmp_path.name[:6]]


def test_a_new_ledger_and_its_keys_are_synced_with_their_folders(place: Place, synced: list[str]):
    place().open_account(account())
    folders = {Path(path) for path in synced}
    assert {place.folder.parent, place.folder, place.folder / "keys"} <= folders
    assert any(".key." in path.name and path.parent.name == "keys" for path in folders)
