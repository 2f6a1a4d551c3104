"""A folder of Parquet files is one table, and no file takes more memory than it may."""

import gzip
import pickle
import sqlite3
from collections import Counter
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec, Purpose
from dp_pipeline.config.errors import Damaged, SourceError
from dp_pipeline.config.source import WHITESPACE, Source
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.ingest import IN_PLACE, ingest, ingested_tables
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.proposals import read_schema
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.sources import csv_files, parquet, read_source, reading
from dp_pipeline.raw.sources.parquet import parquet_batches, parquet_parts, parquet_tables
from dp_pipeline.raw.validate import validate
from dp_pipeline.raw.values import numbers
from dp_pipeline_tests.raw.test_contributions import keep
from dp_pipeline_tests.raw.test_sql_source import refusal
from dp_pipeline_tests.raw.written import X_AND_SEX, spec_of, written_spec


def write(folder: Path, name: str, **columns: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def read(folder: Path, *columns: str) -> pa.Table:
    return read_source(spec_of(Source("parquet", str(folder)), *columns))


def test_files_follow_in_the_order_of_names(tmp_path):
    write(tmp_path, "b.parquet", y=[3, 4], x=["c", "d"])
    write(tmp_path, "a/z.parquet", x=["b"], y=[2], other=[[1]])
    write(tmp_path, "a/a.parquet", x=["a"], y=[1])
    table = read(tmp_path, "x", "y")
    assert table.to_pydict() == {"x": ["a", "b", "c", "d"], "y": [1, 2, 3, 4]}
    assert table.schema.types == [pa.string(), pa.int64()]


def test_other_files_of_an_engine_are_no_rows(tmp_path):
    # The folder's name ends like a file's.
    write(tmp_path, "x.parquet/part-0.parquet", x=[1])
    assert len(read_schema(Source("parquet", str(tmp_path)))) == 1
    for name in (".a.parquet.tmp.parquet", "_temporary/b.parquet", ".old/c.parquet", "_d.parquet"):
        write(tmp_path, name, x=[9])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").write_text("x\n5\n")
    assert read(tmp_path, "x").to_pydict() == {"x": [1]}


@pytest.mark.parametrize("log", ["_delta_log/00.json", "metadata/v1.metadata.json"])
def test_delta_and_iceberg_are_refused(tmp_path, log):
    write(tmp_path, "data/a.parquet", x=[1])
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).touch()
    name = "Delta" if "delta" in log else "Iceberg"
    with pytest.raises(SourceError, match=f"nothing but Parquet files, got a table of {name}:"):
        read(tmp_path, "x")
    # A folder of files that do not count says which do not.
    write(tmp_path, "own/_a.parquet", x=[1])
    own = tmp_path / "own"
    for attempt in (partial(read, own, "x"), partial(read_schema, Source("parquet", str(own)))):
        with pytest.raises(SourceError, match=r"got none \(those that begin with _ or a point do"):
            attempt()


def test_a_folder_that_looks_like_a_partition_adds_no_column(tmp_path):
    write(tmp_path, "year=2026/a.parquet", x=[1])
    with pytest.raises(SourceError, match="expected a column 'year', got 1 columns without it"):
        read(tmp_path, "year")
    write(tmp_path, "year=2026/b.parquet", y=[1])
    with pytest.raises(SourceError, match=r"city: parquet:\S+/b\.parquet: expected a column 'x'"):
        read(tmp_path, "x")


LARGE = 2**53 + 1
"""A whole number that a double cannot hold."""

REAL = pa.array([7.0, float("nan")], pa.float32())
TEXTS, TRUTHS = pa.array(["a", " b"]), pa.array([True, False])


@pytest.mark.parametrize("other", [pa.array([0.5, None]), REAL, TEXTS, TRUTHS])
def test_a_file_with_another_type_changes_no_value_of_the_others(tmp_path, other):
    write(tmp_path, "a.parquet", x=pa.array([5, LARGE, None]))
    write(tmp_path, "b.parquet", x=other)
    column = read(tmp_path, "x").column("x")
    assert column.type == pa.string()
    assert column.to_pylist()[:3] == ["5", str(LARGE), None]
    alone = pa.chunked_array([other])
    if pa.types.is_floating(other.type):
        assert numbers(column)[3:].tolist()[:1] == numbers(alone).tolist()[:1]
        assert column.to_pylist()[4] is None
    if pa.types.is_string(other.type):
        assert column.to_pylist()[3:] == ["a", " b"]


UNIFIED = [
    ([pa.int32(), pa.int64()], pa.int64()),
    ([pa.int8(), pa.uint32()], pa.int64()),
    ([pa.uint8(), pa.uint64()], pa.uint64()),
    ([pa.int64(), pa.uint64()], pa.string()),
    ([pa.int32(), pa.null()], pa.int32()),
    ([pa.null(), pa.large_string()], pa.string()),
    ([pa.float32(), pa.float64()], pa.float64()),
    ([pa.dictionary(pa.int8(), pa.string()), pa.string()], pa.string()),
    ([pa.dictionary(pa.int8(), pa.int32()), pa.null()], pa.int32()),
]


@pytest.mark.parametrize(("kinds", "expected"), UNIFIED)
def test_types_are_unified_from_the_footers_and_no_digit_is_lost(tmp_path, kinds, expected):
    for rows in ([], [None]):
        for index, kind in enumerate(kinds):
            write(tmp_path, f"{index}.parquet", x=pa.array(rows, kind))
        assert read(tmp_path, "x").column("x").type == expected
    if expected in (pa.uint64(), pa.string()) and pa.uint64() in kinds:
        write(tmp_path, "0.parquet", x=pa.array([-1 if kinds[0] == pa.int64() else 1], kinds[0]))
        write(tmp_path, "1.parquet", x=pa.array([2**64 - 1], pa.uint64()))
        words = [str(each) for each in read(tmp_path, "x").column("x").to_pylist()]
        assert words[1] == str(2**64 - 1)


def persons(folder: Path, *parts: pa.Array) -> pa.Table:
    for index, part in enumerate(parts):
        write(folder, f"{index}.parquet", x=[0.5] * len(part), rider=part)
    source = Source("parquet", str(folder))
    return read_source(spec_of(source, "x", person="rider", purpose="release"))


FLOATS = [
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(20, 0), pa.date32()),
    "a dictionary",
]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_person_column_that_rounds_is_refused(tmp_path, kind, rows):
    coded = pa.nulls(rows, pa.float64()).dictionary_encode()
    column = coded if kind == "a dictionary" else pa.nulls(rows, kind)
    fault = "expected text or whole numbers in the person's column 'rider'.*int64 or text"
    with pytest.raises(SourceError, match=fault):
        persons(tmp_path, pa.array([2**60 + 1]), column)
    parts = (pa.array([7] * rows, pa.int64()), pa.array(["007"] * rows, pa.string()))
    with pytest.raises(SourceError, match="expected ids of one kind in all files"):
        persons(tmp_path, *parts)


def test_id_of_any_size_is_one_person(tmp_path):
    parts = [
        pa.array([7] * 3, pa.int32()),
        pa.array([7, 2**60 + 1]),
        pa.array([7, 2**60 + 1, 2**64 - 1], pa.uint64()),
        pa.array([7], pa.int16()).dictionary_encode(),
        pa.nulls(2),
    ]
    table = persons(tmp_path, *parts)
    kept = keep(table, column="rider", at_most=2, key=b"k" * 32)
    assert Counter(map(int, kept.column("rider").to_pylist())) == {7: 2, 2**60 + 1: 2, 2**64 - 1: 1}


def test_file_that_changes_while_read_is_refused(tmp_path, monkeypatch):
    write(tmp_path, "a.parquet", x=[1])
    write(tmp_path, "b.parquet", x=[2])
    judged = reading.plain_types

    def rewritten(spec, schemas):
        if len(schemas) == 2:
            write(tmp_path, "b.parquet", x=["word"])
        return judged(spec, schemas)

    monkeypatch.setattr(reading, "plain_types", rewritten)
    with pytest.raises(SourceError, match=r"b\.parquet: expected an unchanged file while it is"):
        read(tmp_path, "x")


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
    return written_spec(tmp_path, X_AND_SEX, purpose="release", source=source)


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


LINE, PART = 40, 64


@pytest.fixture
def small(monkeypatch):
    """Lines of 40 bytes and parts of 64; gives the sizes of what was in memory together."""
    sizes: list[int] = []
    short_lines = csv_files._short_lines

    def watched(lines, *, line_is_row):
        sizes.append(len(lines))
        return short_lines(lines, line_is_row=line_is_row)

    monkeypatch.setattr(csv_files, "MAX_LINE_BYTES", LINE)
    monkeypatch.setattr(csv_files, "BYTES_A_PART", PART)
    monkeypatch.setattr(csv_files, "_short_lines", watched)
    return sizes


def packed(folder: Path, content: bytes, purpose: Purpose, **options: str) -> DatasetSpec:
    path = folder / "rides.csv.gz"
    path.write_bytes(gzip.compress(content))
    return spec_of(Source("csv", str(path), **options), "x", "y", purpose=purpose)


LONG_LINES = {
    "endless": (b"1" * 10_000 + b",2", ","),
    "just too long": (b"1" * 39 + b",2", ","),
    "quoted": (b'"' + b"a" * 500, ","),
    "marks": (b"\xef\xbb\xbf" * 200 + b"1,2", ","),
    "spaces": (b"1" + b" " * 500 + b"2", WHITESPACE),
}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("name", LONG_LINES)
def test_a_long_sensitive_line_is_dropped_wherever_it_stands(tmp_path, small, name, end):
    """Were it dropped in one place and read in another, one row would decide about the next."""
    long, delimiter = LONG_LINES[name]
    between = b"," if delimiter == "," else b" "
    for before in range(0, 2 * PART, 3):
        lines = [b"x,y".replace(b",", between), b"#" * 30 + between + b"0"]
        lines += [b"5".zfill(1 + before % 9) + between + b"6"] * (before // 9)
        content = end.join([*lines, long, b"7" + between + b"8", b""])
        spec = packed(tmp_path, content, "release", delimiter=delimiter)
        rows = read_source(spec).to_pylist()
        assert rows[-1] == {"x": "7", "y": "8"}
        assert len(rows) == len(lines)
    assert max(small) <= LINE + 2 + PART


def test_a_long_line_of_public_rows_or_names_is_refused(tmp_path, small):
    content = b"x,y\n1,2\n" + b"3" * 100_000 + b",4\n"
    assert "lines of at most" in refusal(packed(tmp_path, content, "benchmark"))
    assert sum(small) <= PART
    for purpose in ("benchmark", "release"):
        content = b"x,y," + "é".encode() * (LINE // 2) + b"\n1,2,3\n"
        assert "lines of at most" in refusal(packed(tmp_path, content, purpose))


@pytest.mark.chain
def test_more_public_rows_than_fit_are_refused(tmp_path, small, monkeypatch):
    monkeypatch.setattr(csv_files, "MAX_FILE_BYTES", 1000)
    content = b"x,y\n" + b"1,2\n" * 100_000
    assert "Parquet" in refusal(packed(tmp_path, content, "benchmark"))
    assert sum(small) <= 1000 + 2 * PART
    assert read_source(packed(tmp_path, content, "release")).num_rows == 100_000


LONG = "7" * (1 << 18)
ROWS = 300


def of_parquet(folder: Path, *, dictionary: bool = True) -> Source:
    places = pa.array([0, *[1] * ROWS, None, 2], pa.int32())
    words = {"x": ["7", LONG, "8"], "who": ["ana", LONG, "bo"]}
    columns = {name: pa.DictionaryArray.from_arrays(places, word) for name, word in words.items()}
    table, path = pa.table(columns), folder / "rides.parquet"
    if not dictionary:
        table = table.cast(pa.schema(dict.fromkeys(words, pa.string())))
    pq.write_table(table, path, compression="zstd", use_dictionary=dictionary, row_group_size=200)
    assert path.stat().st_size < 100_000
    return Source("parquet", str(path))


def of_sqlite(folder: Path) -> Source:
    long = "replace(hex(zeroblob(131072)), '0', '7')"
    many = f"WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    query = (
        f"SELECT 7 AS x, 'ana' AS who UNION ALL SELECT * FROM ({many} SELECT {long}, {long} FROM n)"
        " UNION ALL SELECT NULL, NULL UNION ALL SELECT 8.0, 'bo'"
    )
    with sqlite3.connect(folder / "rides.db") as connection:
        connection.execute(f"CREATE VIEW rides AS {query}")
    connection.close()
    return Source("sql", f"sqlite:///{folder / 'rides.db'}", query="SELECT * FROM rides")


OF_PAGES = partial(of_parquet, dictionary=False)


@pytest.mark.parametrize("written", [of_parquet, OF_PAGES, of_sqlite])
def test_a_long_cell_changes_no_other_cell(tmp_path, written):
    """Of persons it names nobody: cut, it might name another one."""
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    source = written(tmp_path)
    table = read_source(spec_of(source, "x", person="who", purpose="release")).to_pydict()
    cut = "7" * (reading.MAX_CELL_BYTES + 1)
    assert table["x"] == ["7", *[cut] * ROWS, None, "8"]
    assert table["who"] == ["ana", *[None] * ROWS, None, "bo"]
    if written is of_parquet:
        assert pool.max_memory() <= max(before, 1 << 26), "150 MB of cells were never there"
    assert "cells of at most 1,024 bytes in column 'x'" in refusal(spec_of(source, "x"))


@pytest.mark.parametrize("limit", ["MAX_GROUP_ROWS", "MAX_GROUP_BYTES"])
@pytest.mark.parametrize("purpose", ["benchmark", "release"])
def test_a_large_row_group_is_refused_by_its_footer(tmp_path, monkeypatch, limit, purpose):
    source = of_parquet(tmp_path)
    monkeypatch.setattr(parquet, limit, 100)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    assert "smaller row groups" in refusal(spec_of(source, "x", purpose=purpose))
