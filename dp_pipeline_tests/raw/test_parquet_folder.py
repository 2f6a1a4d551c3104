"""A folder of Parquet files is one table, whatever each of them stores its columns as."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.raw.proposals import read_schema
from dp_pipeline.raw.sources import read_source, reading
from dp_pipeline.raw.values import numbers
from dp_pipeline_tests.raw.source_specs import spec_of
from dp_pipeline_tests.raw.test_contributions import keep


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
    write(tmp_path, "a.parquet", x=[1])
    for name in (".a.parquet.tmp.parquet", "_temporary/b.parquet", ".old/c.parquet", "_d.parquet"):
        write(tmp_path, name, x=[9])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").write_text("x\n5\n")
    assert read(tmp_path, "x").to_pydict() == {"x": [1]}


def test_folder_whose_name_ends_like_a_file_is_read(tmp_path):
    write(tmp_path, "x.parquet/part-0.parquet", x=[1])
    assert read(tmp_path, "x").to_pydict() == {"x": [1]}
    assert len(read_schema(Source("parquet", str(tmp_path)))) == 1


def test_folder_of_uncounted_files_says_which_do_not_count(tmp_path):
    write(tmp_path, "_a.parquet", x=[1])
    for read_folder in (
        lambda: read(tmp_path, "x"),
        lambda: read_schema(Source("parquet", str(tmp_path))),
    ):
        with pytest.raises(SourceError, match=r"got none \(those that begin with _ or a point do"):
            read_folder()


@pytest.mark.parametrize("log", ["_delta_log/00.json", "metadata/v1.metadata.json"])
def test_delta_and_iceberg_are_refused(tmp_path, log):
    write(tmp_path, "data/a.parquet", x=[1])
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).touch()
    name = "Delta" if "delta" in log else "Iceberg"
    with pytest.raises(SourceError, match=f"nothing but Parquet files, got a table of {name}:"):
        read(tmp_path, "x")


def test_a_folder_that_looks_like_a_partition_adds_no_column(tmp_path):
    write(tmp_path, "year=2026/a.parquet", x=[1])
    with pytest.raises(SourceError, match="expected a column 'year', got 1 columns without it"):
        read(tmp_path, "year")


def test_the_message_names_the_file_without_the_column(tmp_path):
    write(tmp_path, "a.parquet", x=[1])
    write(tmp_path, "b.parquet", y=[1])
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


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([pa.int32(), pa.int64()], pa.int64()),
        ([pa.int8(), pa.uint32()], pa.int64()),
        ([pa.uint8(), pa.uint64()], pa.uint64()),
        ([pa.int64(), pa.uint64()], pa.string()),
        ([pa.int32(), pa.null()], pa.int32()),
        ([pa.null(), pa.large_string()], pa.string()),
        ([pa.float32(), pa.float64()], pa.float64()),
        ([pa.dictionary(pa.int8(), pa.string()), pa.string()], pa.string()),
        ([pa.dictionary(pa.int8(), pa.int32()), pa.null()], pa.int32()),
    ],
)
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


@pytest.mark.parametrize("rows", [0, 1])
def test_ids_of_two_kinds_are_refused(tmp_path, rows):
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
