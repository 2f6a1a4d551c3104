"""A source is read once; a snapshot is whole or not there, and never changes."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.errors import Damaged, DeclarationError, NotPrepared, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.files import write_private
from dp_pipeline.raw import ingest as ingest_module
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.raw.stages import read_stage
from dp_pipeline_tests.raw.written import KEY, spec_of

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "city.csv").write_text("user,x\nWaltraud,1\nOtto,2\n")
    return tmp_path / "city.csv"


@pytest.fixture
def spec(source):
    return spec_of(Source("csv", str(source)), "x", person="user")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "raw"


@pytest.fixture
def run(spec, store):
    """Ingest, with what the test does not care about filled in."""

    def call(snapshot_id=None, *, today=MONDAY, of=spec, key=KEY):
        return ingest(of, store, key=key, snapshot_id=snapshot_id, today=today)

    return call


def snapshots(store: Path) -> set[str]:
    return {path.name for path in (store / "city").iterdir() if path.is_dir()}


def test_first_snapshot_is_named_by_the_calendar_and_read_once(run, source):
    first = run()
    assert first.id == "2026-01-05"
    rows = {"x": ["1", "2"], "user": ["Waltraud", "Otto"]}
    assert read_stage(first, "ingested").to_pydict() == rows
    metadata = pq.ParquetFile(first.table_path("ingested")).metadata
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    # Without a name nothing is read, of fewer columns either.
    source.unlink()
    assert run(today=TUESDAY) == first
    assert run(of=spec_of(Source("csv", str(source)), "x")) == first


def test_an_empty_population_is_a_snapshot_like_any_other(run, source):
    source.write_text("user,x\n")
    table = read_stage(run(), "ingested")
    assert (table.num_rows, table.column_names) == (0, ["x", "user"])


def test_a_new_name_reads_the_source_again_and_becomes_current(run, source, store):
    first = run("one")
    stored = first.table_path("ingested").read_bytes()
    source.write_text("user,x\nOtto,3\n")
    second = run("after_fix", today=TUESDAY)
    assert read_stage(second, "ingested").num_rows == 1
    assert current_snapshot(store, "city", KEY) == second
    # An old name becomes current and is never read again.
    assert run("one") == first
    assert current_snapshot(store, "city", KEY) == first
    assert first.table_path("ingested").read_bytes() == stored
    assert read_stage(first, "ingested").num_rows == 2


FACTS = {
    *("format", "id", "population", "dataset", "source", "claimed", "downloaded", "columns"),
    *("types", "ingested_at", "read_at", "versions", "fingerprints"),
}


def test_the_manifest_has_facts_but_no_rows_or_counts(run, spec):
    manifest = run().manifest
    assert manifest.keys() == FACTS
    assert (manifest["dataset"], manifest["population"]) == ("city", spec.population)
    assert (manifest["source"], manifest["columns"]) == (spec.source.identity, ["x", "user"])
    assert manifest["ingested_at"].endswith("+00:00")
    assert set(manifest["versions"]) == {"dp_pipeline", "python", "pyarrow", "numpy"}
    assert "Waltraud" not in json.dumps(manifest)


def test_a_failed_read_leaves_no_snapshot_and_the_current_one(run, source, store):
    source.write_text("user,x\nOtto\n")
    with pytest.raises(SourceError):
        run()
    assert snapshots(store) == set()
    source.write_text("user,x\nOtto,1\n")
    first = run()
    source.write_text("user\nOtto\n")
    with pytest.raises(SourceError):
        run("next")
    assert snapshots(store) == {first.id}
    assert current_snapshot(store, "city", KEY) == first


@pytest.mark.parametrize("written", [1, 2, 3])
def test_a_crash_leaves_no_snapshot_that_looks_complete(run, store, monkeypatch, written):
    calls = []

    def crash(path, write):
        if len(calls) == written:
            raise KeyboardInterrupt
        calls.append(path)
        write_private(path, write)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("dp_pipeline.raw.snapshot.write_private", crash)
        run()
    assert current_snapshot(store, "city", KEY) is None
    snapshot = run()
    assert current_snapshot(store, "city", KEY) == snapshot
    assert read_stage(snapshot, "ingested").num_rows == 2


def test_another_declaration_needs_a_new_name(run, spec, source):
    first = run()
    elsewhere = source.with_name("other.csv")
    elsewhere.write_text("user,x,y\nOtto,1,2\n")
    others = {
        r"other\.csv": replace(spec, source=Source("csv", str(elsewhere))),
        "its rows are those of population": replace(spec, population="others"),
        "it was read without the column 'y'": spec_of(spec.source, "x", "y", person="user"),
    }
    for reason, other in others.items():
        for name in (None, first.id):
            with pytest.raises(DeclarationError, match=f"{reason}.*name a new snapshot"):
                run(name, of=other)
    assert run("moved", of=others[r"other\.csv"]).id == "moved"


def test_a_damaged_snapshot_is_refused_and_not_read_again(run, store):
    with pytest.raises(DeclarationError, match="snapshot"):
        run("../elsewhere")
    assert not store.exists()
    snapshot = run("one")
    run("two")
    with pytest.raises(Damaged):
        run("one", key=b"another")
    snapshot.table_path("ingested").write_bytes(b"PAR1")
    with pytest.raises(Damaged):
        run("one")


def test_two_runs_at_once_read_the_source_once(run, monkeypatch):
    reads = []

    def counted(spec, files):
        reads.append(spec.name)
        return original(spec, files)

    original = ingest_module.source_tables
    monkeypatch.setattr(ingest_module, "source_tables", counted)
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(run, "one") for _ in range(4)]
    assert {run.result().id for run in runs} == {"one"}
    assert reads == ["city"]


def test_a_stage_that_is_no_parquet_is_damaged_and_not_quoted(run):
    snapshot = run()
    with pytest.raises(NotPrepared):
        read_stage(snapshot, "discretized")
    snapshot.store_table("odd", lambda file: file.write(b"Waltraud") and None)
    with pytest.raises(Damaged, match="'odd'") as caught:
        read_stage(snapshot, "odd")
    assert "Waltraud" not in str(caught.value)
