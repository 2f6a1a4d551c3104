"""Contract of every reader: what becomes of a row depends on that row alone."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Protection
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.source import WHITESPACE, Source
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.sources import read_source, sql
from dp_pipeline.raw.stages import read_stage
from dp_pipeline_tests.raw.written import KEY, spec_of, written_spec

Cell = Any
Parts = Sequence[Sequence[Cell]]
"""The cells of one column, file by file."""

ATTRIBUTES = """
  number: {bounds: [0, 8], bins: 4, column: x, nullable: true, missing: ["?", "9"], thousands: "'"}
  level: {levels: ["1", "7", a, "true", other], other: other, nullable: true, column: x}
"""

WHOLE = [0, 1, 7, 9, 100, None]
WORDS = ["7", " 7 ", "7.0", "a", "", None, "nan", "?", "1e1", "9" * 20, "\ufeff7", "é"]
WORDS += ["inf", "1e400", "-", "½", " 0.5", "1_0", "\0"]
FLOATS = [0.5, 7.0, -0.0, 9.0, float("nan"), float("inf"), 1e300, None]
TYPES: dict[pa.DataType, list[Cell]] = {
    **dict.fromkeys(
        (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()), WHOLE
    ),
    pa.int64(): [*WHOLE, 2**53 + 1, -(2**63)],
    pa.uint64(): [*WHOLE, 2**53 + 1, 2**64 - 1],
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), WORDS),
    pa.decimal128(9, 2): [Decimal("0.50"), Decimal("7.00"), None],
    pa.dictionary(pa.int32(), pa.string()): WORDS,
    pa.dictionary(pa.int8(), pa.int64()): WHOLE,
    pa.dictionary(pa.int32(), pa.float64()): FLOATS[:4],
}
"""Every type that is read, with cells that are odd in it."""

OTHERS = [
    *(pa.float16(), pa.decimal128(38, 0), pa.decimal256(40, 2), pa.date32(), pa.date64()),
    *(pa.timestamp("us"), pa.timestamp("us", "Europe/Zurich"), pa.time32("s"), pa.time64("us")),
    *(pa.duration("us"), pa.binary(), pa.large_binary(), pa.binary(4), pa.list_(pa.int64())),
    *(pa.large_list(pa.string()), pa.list_(pa.int64(), 2), pa.struct({"Waltraud": pa.int64()})),
    *(pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int32(), pa.binary())),
]
"""Types that can be stored and are refused."""

STORED = count()


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    """Two attributes on one column, x, of sensitive rows; each test gives it a source."""
    return written_spec(tmp_path_factory.mktemp("declared"), ATTRIBUTES, purpose="release")


def prepared(spec: DatasetSpec, source: Source) -> Counter[tuple[Any, ...]]:
    """Prepared rows of a source, as a multiset."""
    spec = replace(spec, source=source)
    stage = normalize(spec, read_source(spec), KEY)
    rows = zip(stage.to_pylist(), discretize(spec, stage).to_pylist(), strict=True)
    return Counter(tuple(value for stage in row for value in stage.values()) for row in rows)


def column_of(kind: pa.DataType, cells: Sequence[Cell]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(cells, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(cells, kind)


def check_contract(read, cells):
    """``read`` writes the parts to a source and prepares its rows."""
    alone = [read([[cell]]) for cell in cells]
    whole = sum(alone, Counter())
    assert read([[]]) == Counter(), "no row is a table"
    assert all(rows_out.total() <= 1 for rows_out in alone), "one row in, at most one out"
    assert read([cells]) == whole, "together as each by itself"
    assert read([cells[::-1]]) == whole, "order changes nothing"
    assert read([cells[:1], [], cells[1:], []]) == whole, "files change nothing"
    assert read([[*cells, *cells]]) == whole + whole, "twice is twice"


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_parquet(tmp_path, spec, kind):
    def read(parts):
        folder = tmp_path / f"rows{next(STORED)}"
        folder.mkdir()
        for index, cells in enumerate(parts):
            table = pa.table({"x": column_of(kind, cells)})
            # A group of rows each: dictionaries and missing values are those of the group.
            pq.write_table(table, folder / f"{index}.parquet", row_group_size=1)
        path = folder if len(parts) > 1 else folder / "0.parquet"
        return prepared(spec, Source("parquet", str(path)))

    check_contract(read, TYPES[kind])


FOLDERS = [
    *((pa.int32(), pa.int64(), pa.null()), (pa.int64(), pa.uint64())),
    *((pa.int64(), pa.float64(), pa.string()), (pa.float32(), pa.null(), pa.float64())),
    (pa.dictionary(pa.int32(), pa.string()), pa.bool_()),
]


@pytest.mark.parametrize("kinds", FOLDERS, ids=str)
def test_a_folder_of_parquet_of_several_types(tmp_path, spec, kinds):
    def read(parts):
        """The types of the files stay: only their rows change."""
        folder = tmp_path / f"rows{next(STORED)}"
        folder.mkdir()
        for index, kind in enumerate(kinds):
            cells = [cell for part in parts for own, cell in part if own == kind]
            pq.write_table(pa.table({"x": column_of(kind, cells)}), folder / f"{index}.parquet")
        return prepared(spec, Source("parquet", str(folder)))

    odd = {**TYPES, pa.bool_(): [True, False, None], pa.null(): [None, None]}
    check_contract(read, [(kind, cell) for kind in kinds for cell in odd[kind]])


@pytest.mark.parametrize("rows", [0, 1])
def test_what_is_ingested_is_what_is_read_again_in_every_type(tmp_path, rows):
    stored = {
        f"x{index}": column_of(kind, cells[:rows])
        for index, (kind, cells) in enumerate(TYPES.items())
    }
    pq.write_table(pa.table(stored), tmp_path / "a.parquet")
    every = spec_of(Source("parquet", str(tmp_path / "a.parquet")), *stored, purpose="release")
    today = date(2026, 1, 1)
    snapshot = ingest(every, tmp_path / "raw", key=KEY, snapshot_id=None, today=today)
    assert read_stage(snapshot, "ingested").equals(read_source(every))


LINES = [
    *("7,a", "7.0,b", '"7",c', '" 7",c', "x,y", ",", "7", "7,1,2", '"7,c', '7",c', '"7"c,d'),
    *("\ufeff7,a", "\ufeff\ufeff7,a", "\ufeff", "\ufeff#,a", "#7,a", "", " ", "\0,a", "7\0,a"),
    "é,a",
    *('"7,7",a', '"7""7",a', "7;a", "7\ta", "1e400,a", "\u00a07\u00a0,a", '""', '"",""', "\x1c7,a"),
]
"""Lines with a cell x and one more, and some that are no rows."""


def lines_of(spec, folder, *first, end="\n", **options):
    """The reader of CSV files of some lines each."""

    def read(parts):
        paths = [folder / f"{next(STORED)}.csv" for _ in parts]
        for path, lines in zip(paths, parts, strict=True):
            path.write_bytes("".join(line + end for line in (*first, *lines)).encode())
        path, *more = map(str, paths)
        return prepared(spec, Source("csv", path, more=tuple(more), **options))

    return read


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("comment", ["", "#"])
@pytest.mark.parametrize("header", [(), ("x", "y")])
def test_csv(tmp_path, spec, header, comment, end):
    first = [] if header else ["x,y"]
    read = lines_of(spec, tmp_path, *first, end=end, header=header, comment=comment)
    check_contract(read, LINES)


def test_csv_of_one_column_between_white_space(tmp_path, spec):
    lines = ["7", " 7 ", "\ufeff7", " \ufeff7", "7 7", "", '""', '"7"', '"7', "\t7", "a"]
    check_contract(lines_of(spec, tmp_path, delimiter=WHITESPACE, header=("x",)), lines)


@pytest.mark.parametrize("batch", [1, 50_000])
def test_sqlite(tmp_path, spec, batch, monkeypatch):
    monkeypatch.setattr(sql, "BATCH_ROWS", batch)
    cells = [0, 7, 7.0, 0.5, "7", " 7 ", "7.0", "a", "", None, b"\xff", b"7", 1e300, 2**53 + 1]

    def read(parts):
        path = tmp_path / f"{next(STORED)}.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE a (x, rider)")
        rows = [(cell, cell) for part in parts for cell in part]
        connection.executemany("INSERT INTO a VALUES (?, ?)", rows)
        connection.commit()
        connection.close()
        source = Source("sql", f"sqlite:///{path}", query="SELECT * FROM a")
        return prepared(replace(spec, protection=Protection("rider", 100)), source)

    check_contract(read, cells)


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_other_types_are_refused_by_schema(tmp_path, kind):
    spec, lines = spec_of(Source("parquet", str(tmp_path)), "x", purpose="release"), set()
    for rows in (0, 1, 3):
        is_coded = pa.types.is_dictionary(kind)
        nulls = pa.nulls(rows, kind.value_type if is_coded else kind)
        stored = nulls.dictionary_encode() if is_coded else nulls
        pq.write_table(pa.table({"x": stored}), tmp_path / "a.parquet")
        with pytest.raises(SourceError) as refused:
            read_source(spec)
        lines.add(str(refused.value))
    (line,) = lines
    assert "expected text or numbers in column 'x', got the type" in line
    assert line.endswith("write it as float64, int64 or text")
    assert "Waltraud" not in line
