"""Retired rows are gone, their names are taken, and a stopped retirement can be finished."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.raw import retirement
from dp_pipeline.raw.evaluate import custodian_facts
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.retirement import retire, snapshots_of
from dp_pipeline.raw.snapshot import Snapshot, current_snapshot
from dp_pipeline_tests.raw.written import KEY, written_spec

DAY = date(2026, 11, 21)
SECRET = b"90210777"


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"age\n" + SECRET + b"\n7\n")
    return written_spec(tmp_path, "{age: {bounds: [0, 100]}}", purpose="release")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "raw"


def opened(spec: DatasetSpec, store: Path, name: str | None = None) -> Snapshot:
    return ingest(spec, store, key=KEY, snapshot_id=name, today=DAY)


def retire_all(store: Path, population: str = "people") -> list[str]:
    snapshots = snapshots_of(store, population, datasets=("people",))
    for snapshot in snapshots:
        retire(snapshot, population=population, on=DAY)
    return [snapshot.ledger_name for snapshot in snapshots]


def remains(store: Path) -> Iterator[bytes]:
    return (path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_every_snapshot_goes_with_all_stages_and_exact_numbers(spec, store):
    for name in ("one", "two"):
        snapshot = opened(spec, store, name)
        snapshot.store_table("normalized", lambda file: file.write(SECRET))
        custodian_facts(snapshot, "exact", lambda: {"nicv": 90210777.0})
    (snapshot.folder / ".normalized.parquet.x.tmp").write_bytes(SECRET)
    assert retire_all(store) == ["people/one", "people/two"]
    assert not any(SECRET in content for content in remains(store))
    assert {path.name for path in snapshot.folder.iterdir()} == {"manifest.json"}
    assert retire_all(store) == []


def test_a_retired_name_is_never_used_again_and_a_new_one_is(spec, store):
    opened(spec, store, "one")
    retire_all(store)
    for name in ("one", None):
        with pytest.raises(NotPrepared, match="removed on 2026-11-21: name a new"):
            opened(spec, store, name)
    assert current_snapshot(store, "people", KEY) is not None
    assert opened(spec, store, "two").checked_path("ingested").is_file()
    assert retire_all(store) == ["people/two"]


def test_nothing_of_a_retired_snapshot_can_be_read_or_written(spec, store):
    snapshot = opened(spec, store)
    retire_all(store)
    for attempt in (
        lambda: snapshot.checked_path("ingested"),
        lambda: snapshot.record(prepared=None),
        lambda: snapshot.store_table("normalized", lambda file: file.write(SECRET)),
        lambda: snapshot.manifest,
    ):
        with pytest.raises(NotPrepared, match="the rows of the snapshot were removed on"):
            attempt()
    assert not any(SECRET in content for content in remains(store))


def test_rows_of_another_population_stay(spec, store):
    ours = opened(spec, store, "one")
    others = Snapshot(store / "town" / "one", KEY)
    others.store_table("ingested", lambda file: file.write(SECRET))
    others.record(population="town")
    mixed = Snapshot(store / "people" / "old", KEY)
    mixed.record(population="town")
    snapshots = snapshots_of(store, "people", datasets=("people",))
    assert [snapshot.ledger_name for snapshot in snapshots] == [ours.ledger_name]
    assert retire_all(store, "town") == ["people/old", "town/one"]


def test_rows_that_were_half_written_go_too(store):
    """Their manifest does not say whose they are, or there is none."""
    torn = Snapshot(store / "people" / "torn", KEY)
    torn.store_table("ingested", lambda file: file.write(SECRET))
    (store / "people" / "bare").mkdir()
    (store / "people" / "bare" / ".ingested.tmp").write_bytes(SECRET)
    (store / "town").mkdir()
    (store / "town" / "unknown").mkdir()
    (store / "town" / "unknown" / "ingested.parquet").write_bytes(SECRET)
    assert retire_all(store) == ["people/bare", "people/torn"]
    assert sum(SECRET in content for content in remains(store)) == 1
    assert (store / "town" / "unknown" / "ingested.parquet").is_file()


def test_undeclared_data_set_is_found_by_manifest(spec, store):
    opened(spec, store, "one")
    assert len(snapshots_of(store, "people", datasets=())) == 1


def test_a_folder_elsewhere_that_a_link_points_to_is_not_touched(spec, store, tmp_path):
    snapshot = opened(spec, store)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(b"kept")
    (snapshot.folder / "link").symlink_to(elsewhere)
    (store / "people" / "link").symlink_to(elsewhere)
    retire_all(store)
    assert (elsewhere / "kept").read_bytes() == b"kept"
    assert not (snapshot.folder / "link").is_symlink()


class Stopped(BaseException):
    """As if the process had been killed."""


@pytest.mark.parametrize("after", range(4))
def test_a_retirement_that_was_stopped_anywhere_can_be_finished(after, spec, store, monkeypatch):
    """Before the mark everything is as it was; behind it nothing can be read."""
    snapshot = opened(spec, store)
    snapshot.store_table("normalized", lambda file: file.write(SECRET))
    steps = iter(range(10))

    def stops(real):
        def step(*words, **more):
            if next(steps) == after:
                raise Stopped
            real(*words, **more)  # type: ignore[operator]

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "mark_retired", stops(Snapshot.mark_retired))
        patch.setattr(Path, "unlink", stops(Path.unlink))
        patch.setattr(retirement, "sync", stops(retirement.sync))
        with pytest.raises(Stopped):
            retire_all(store)
    if after == 0:
        assert snapshot.checked_path("normalized").is_file()
    else:
        with pytest.raises(NotPrepared, match="the rows of the snapshot were removed on"):
            snapshot.checked_path("normalized")
    retire_all(store)
    assert [path.name for path in snapshot.folder.iterdir()] == ["manifest.json"]
    assert snapshot.is_retired()
