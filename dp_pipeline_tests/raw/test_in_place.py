"""Snapshots of Parquet files that stay where they are."""

import pickle
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.ingest import IN_PLACE, ingest, ingested_tables
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.sources import parquet
from dp_pipeline.raw.sources.parquet import parquet_batches, parquet_parts, parquet_tables
from dp_pipeline.raw.validate import validate
from dp_pipeline_tests.raw.written import written_spec

ATTRIBUTES = "{x: {bounds: [0, 10], bins: 4}, sex: {levels: [f, m]}}"


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake" / "day=1"
    folder.mkdir(parents=True)
    for index, rows in enumerate([5, 3]):
        table = pa.table({"x": range(rows), "sex": ["f", "m", "m", "f", "?"][:rows]})
        pq.write_table(table, folder / f"{index}.parquet")
    return folder.parent


def declared(tmp_path: Path, how: str) -> DatasetSpec:
    source = f"{{kind: parquet, path: lake, snapshot: {how}}}"
    return written_spec(tmp_path, ATTRIBUTES, purpose="release", source=source)


def taken(spec: DatasetSpec, folder: Path, name: str | None = None) -> Snapshot:
    day = date(2026, 1, 1)
    snapshot = ingest(spec, folder, key=b"k" * 32, snapshot_id=name, today=day)
    validate(spec, snapshot)
    prepare(spec, snapshot)
    return snapshot


@pytest.mark.usefixtures("lake")
def test_nothing_is_copied_and_the_same_rows_are_prepared(tmp_path):
    copied = taken(declared(tmp_path, "copy"), tmp_path / "copies")
    spec = declared(tmp_path, "in_place")
    there = taken(spec, tmp_path / "raw")
    assert copied.table_path("ingested").exists()
    assert not there.table_path("ingested").exists()
    assert sorted(there.manifest[IN_PLACE]) == ["day=1/0.parquet", "day=1/1.parquet"]
    for stage in ("normalized", "discretized"):
        assert there.table_path(stage).read_bytes() == copied.table_path(stage).read_bytes()
    assert spec.digest == declared(tmp_path, "copy").digest


@pytest.mark.chain
def test_files_that_come_later_are_of_the_next_snapshot(tmp_path, lake):
    spec = declared(tmp_path, "in_place")
    first = taken(spec, tmp_path / "raw")
    pq.write_table(pa.table({"x": [1], "sex": ["f"]}), lake / "later.parquet")
    again, second = (taken(spec, tmp_path / "raw", name) for name in (None, "next"))
    assert again.id == first.id
    tables = [pa.concat_tables(ingested_tables(spec, each)) for each in (again, second)]
    assert [table.num_rows for table in tables] == [8, 9]


@pytest.mark.chain
@pytest.mark.parametrize("how", ["written", "gone"])
def test_changed_file_is_damaged(tmp_path, lake, how):
    spec = declared(tmp_path, "in_place")
    snapshot = taken(spec, tmp_path / "raw")
    path = lake / "day=1" / "1.parquet"
    path.unlink()
    if how == "written":
        pq.write_table(pa.table({"x": [1, 1, 1], "sex": ["f", "f", "f"]}), path)
    faults = {"written": "its files were changed in their place", "gone": "is not there any more"}
    for look in (validate, prepare):
        with pytest.raises(Damaged, match=f"{faults[how]}: restore them, or"):
            look(spec, snapshot)
    with pytest.raises(Damaged):
        taken(spec, tmp_path / "raw")


def test_prepared_rows_are_counted_whatever_becomes_of_the_files(tmp_path, lake):
    spec = declared(tmp_path, "in_place")
    snapshot = taken(spec, tmp_path / "raw")
    (lake / "day=1" / "1.parquet").unlink()
    (rows,) = open_counter(spec, snapshot).count([()])
    assert rows.open_at_the_gate() == 7


@pytest.mark.parametrize("most", [1, 4, 6, 100])
def test_small_files_are_batched_in_order(tmp_path, lake, monkeypatch, most):
    # Row groups of 2, 2, 1, none, 2 and 3 rows, in files of their own but for the first three.
    pq.write_table(
        pa.table({"x": range(5), "sex": ["f"] * 5}), lake / "a.parquet", row_group_size=2
    )
    pq.write_table(pa.table({"x": [1], "sex": ["f"]})[:0], lake / "b.parquet")
    pq.write_table(pa.table({"x": [9, 9], "sex": ["m", "m"]}), lake / "c.parquet")
    (lake / "day=1" / "0.parquet").unlink()
    spec = declared(tmp_path, "in_place")
    monkeypatch.setattr(parquet, "ROWS_A_BATCH", most)
    files = parquet_parts(lake)
    actual = [pickle.loads(pickle.dumps(read))() for read in parquet_batches(spec, files)]
    whole = pa.concat_tables(parquet_tables(spec, files))
    assert pa.concat_tables(actual).to_pylist() == whole.to_pylist()
    expected = {1: [2, 2, 1, 2, 3], 4: [4, 3, 3], 6: [5, 5], 100: [10]}[most]
    assert [batch.num_rows for batch in actual] == expected


@pytest.mark.usefixtures("lake")
def test_a_sample_is_a_copy(tmp_path):
    more = "{kind: parquet, path: lake, snapshot: in_place, sample: {rows: 2, by: sex, seed: 1}}"
    with pytest.raises(DeclarationError, match=r"source\.snapshot: expected copy"):
        written_spec(tmp_path, ATTRIBUTES, source=more)
