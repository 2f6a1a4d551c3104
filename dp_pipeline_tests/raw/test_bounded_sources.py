"""A small file that says much: no more of it is in memory than may be, and no row stops another."""

import gzip
import sqlite3
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec, Purpose
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.source import WHITESPACE, Source
from dp_pipeline.raw.sources import csv_files, parquet, read_source, reading
from dp_pipeline_tests.raw.source_specs import spec_of

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


def refusal(spec: DatasetSpec) -> str:
    with pytest.raises(SourceError) as refused:
        read_source(spec)
    assert "\n" not in str(refused.value)
    return str(refused.value).partition(": expected ")[2]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    ("long", "delimiter"),
    [
        (b"1" * 10_000 + b",2", ","),
        (b"1" * 39 + b",2", ","),
        (b'"' + b"a" * 500, ","),
        (b"\xef\xbb\xbf" * 200 + b"1,2", ","),
        (b"1" + b" " * 500 + b"2", WHITESPACE),
    ],
    ids=["endless", "just too long", "quoted", "marks", "spaces"],
)
def test_a_long_sensitive_line_is_dropped_wherever_it_stands(tmp_path, small, long, delimiter, end):
    """Were it dropped in one place and read in another, one row would decide about the next."""
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


def test_a_long_line_of_public_rows_is_refused(tmp_path, small):
    content = b"x,y\n1,2\n" + b"3" * 100_000 + b",4\n"
    assert "lines of at most" in refusal(packed(tmp_path, content, "benchmark"))
    assert sum(small) <= PART


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("purpose", ["benchmark", "release"])
def test_a_long_line_of_names_is_refused(tmp_path, purpose):
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
    connection = sqlite3.connect(folder / "rides.db")
    cell = "replace(hex(zeroblob(131072)), '0', '7')"
    many = f"WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    union = "SELECT {} AS x, {} AS who"
    parts = [union.format("7", "'ana'"), f"SELECT * FROM ({many} {union} FROM n)"]
    parts = [*parts, union.format("NULL", "NULL"), union.format("8.0", "'bo'")]
    view = " UNION ALL ".join(parts).replace("{} AS x, {} AS who", f"{cell} AS x, {cell} AS who")
    connection.execute(f"CREATE VIEW rides AS {view}")
    connection.commit()
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
