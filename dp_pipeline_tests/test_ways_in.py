"""Values, types and files as public tables have them, by every way in: sources and frames."""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from datetime import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from openpyxl import Workbook

from dp_pipeline.cli import main
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import SourceError
from dp_pipeline.estimators.frames import column_to_arrow, plain_frame
from dp_pipeline.export.arrow_tables import read_parquet, write_parquet
from dp_pipeline.gate.discovery import discover
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.values import cell_codes, column_of
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.bundle import TYPES
from dp_pipeline.results.source_types import stored_columns
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.raw.written import KEY, written_spec

VALUES: dict[str, tuple[str, Any, list[int]]] = {
    "levels with spaces": ('{levels: [" Private", Public]}', ["Private"], [0]),
    "truth values": ("{levels: [True, False]}", [True, False], [0, 1]),
    "truth values as numbers": ("{levels: 0..1}", [True, False], [1, 0]),
    "integers with a point": ("{levels: [1.0, 2.0]}", [1.0, 2.0], [0, 1]),
    "16.0 in a text": ("{levels: [15, 16]}", ["16.0", "15"], [1, 0]),
    "16.0 in a number": ("{levels: [15, 16]}", [16.0, 15.0], [1, 0]),
    "a zero before a number": ("{levels: ['01', '2']}", [1, 2], [0, 1]),
    "32 bits": ("{levels: [0.1, 1.5]}", np.array([1.5, 0.1], np.float32), [1, 0]),
    "zeros stay": ('{levels: ["01234", "1234"]}', ["01234", "1234"], [0, 1]),
    "letters in two forms": ("{levels: [caf\u00e9, tea]}", ["cafe\u0301"], [0]),
    "top-coded": ('{bounds: [0, 99], bins: 3, aliases: {"90+": 90}}', ["90+", "5"], [2, 0]),
    "digits of a date": (
        '{type: date, bounds: [2026-01-01, 2026-12-31], every: month, format: "%Y%m%d"}',
        [20260315, 20261231],
        [2, 11],
    ),
}
SOURCES = {
    "CSV": "{kind: csv, path: rows.csv}",
    "Parquet": "{kind: parquet, path: rows.parquet}",
    "xlsx": "{kind: xlsx, path: rows.xlsx}",
    "SQL": "{kind: sql, database: 'sqlite:///rows.db', query: SELECT x FROM people}",
}


def write_rows(frame: pd.DataFrame, folder: Path) -> None:
    """Write the rows as a file of each kind of source, which has a second column."""
    from sqlalchemy import create_engine

    frame = frame.assign(row=range(len(frame)))
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", index=False)
    frame.to_excel(folder / "rows.xlsx", index=False)
    frame.to_sql("people", create_engine(f"sqlite:///{folder / 'rows.db'}"), index=False)


def spec_of(folder: Path, attribute: str, way: str = "CSV", **more: str) -> DatasetSpec:
    source = SOURCES[way].replace("rows.db", f"{folder / 'rows.db'}")
    return written_spec(folder, f"{{x: {attribute}}}", source=source, **more)


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "polars": lambda frame: pytest.importorskip("polars").from_pandas(frame),
}


def read_column(
    folder: Path, way: str, form: str, cells: Any, **more: str
) -> tuple[DatasetSpec, pa.ChunkedArray]:
    """Return a declaration of the column x, and the column as it is read by one way in."""
    frame = pd.DataFrame({"x": cells})
    write_rows(frame, folder)
    spec = spec_of(folder, form, way if way in SOURCES else "CSV", **more)
    attribute = spec.domain["x"]
    if way in SOURCES:
        return spec, column_of(attribute, read_source(spec))
    return spec, column_to_arrow(attribute, plain_frame(FRAMES[way](frame))["x"])


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("way", [*SOURCES, *FRAMES])
def test_a_declared_value_is_met_by_every_way_in(way: str, name: str, tmp_path: Path) -> None:
    form, cells, expected = VALUES[name]
    if name == "a zero before a number" and way in ("CSV", "SQL", "xlsx"):
        # A text is not the number that it looks like.
        expected = [-1, 1]
    if name == "32 bits" and way in ("SQL", "xlsx"):
        # There a number has 64 bits, of which no text is as short.
        expected = [1, -1]
    spec, column = read_column(tmp_path, way, form, cells)
    assert cell_codes(spec.domain["x"], column).tolist() == expected


LEVELS = "{levels: discover}"
BOUNDS = "{bounds: discover, bins: 4, missing: ['-']"
OPEN: dict[str, tuple[str, list[Any], list[str]]] = {
    "missing": (LEVELS, ["a", None, "b"], ["a", "missing", "b"]),
    "spaces": (LEVELS, [" a", "b", "a "], ["a", "b", "a"]),
    "digits": (LEVELS, ["01234", "1234", None], ["01234", "1234", "missing"]),
    "letters among digits": (LEVELS, ["1", "2", "I10"], ["1", "2", "I10"]),
    "integers": (LEVELS, [16, 15], ["16", "15"]),
    "integers with a point": (LEVELS, [16.0, 15.0, None], ["16", "15", "missing"]),
    "truth values": (LEVELS, [True, False], ["true", "false"]),
    "letters in two forms": (LEVELS, ["cafe\u0301", "caf\u00e9"], ["caf\u00e9"] * 2),
    "numbers": (f"{BOUNDS}}}", [1, 40], ["low", "high"]),
    "numbers with missing": (f"{BOUNDS}}}", [1.5, None, 40.0], ["low", "missing", "high"]),
    "texts among numbers": (
        f"{BOUNDS}, thousands: ','}}",
        ["1", "x", "-", "40"],
        ["low", *["missing"] * 2, "high"],
    ),
    "top-coded": (f"{BOUNDS}, aliases: {{90+: 90}}}}", ["1", "90+"], ["low", "high"]),
}


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("way", [*SOURCES, *FRAMES])
def test_a_discovered_value_is_met_by_every_way_in(way: str, name: str, tmp_path: Path) -> None:
    form, cells, expected = OPEN[name]
    if way == "CSV" and name == "integers with a point":
        # A text stays as it is written.
        expected = ["16.0", "15.0", "missing"]
    if way == "SQL" and name == "truth values":
        # SQLite has none.
        expected = ["1", "0"]
    cost = "epsilon: 90, delta: 0.001" if form == LEVELS else "epsilon: 90"
    options = {"nullable": "true", "more": f"discover: {{{cost}}}"}
    spec, column = read_column(tmp_path, way, form, cells * 200, **options)
    price = spec.discover
    rows = UndeclaredRows.of_table(spec, pa.table({"x": column}), KEY)
    accountant = Accountant(price.epsilon, delta=price.delta or Fraction(0))
    discovered = discover(spec, rows, accountant, Transcript(), SeededNoise(7))
    attribute = spec.with_domain(discovered).domain["x"]
    labels = list(attribute.labels())
    if form != LEVELS:
        labels = ["low", *["high"] * (len(labels) - 2), "missing"]
    if name == "truth values":
        labels = [label.lower() for label in labels]
    codes = cell_codes(attribute, column)
    assert [labels[code] if code >= 0 else "" for code in codes] == expected * 200


NUMBERS = "{bounds: [0, 9], bins: 3}"
REFUSED = {
    "bounds of truth values": (NUMBERS, pa.array([True, False]), "declare `levels: [false, true]`"),
    "bounds of texts": (NUMBERS, pa.array(["1", "2"]), "the type string: write it as float64"),
    "bounds of no values": (NUMBERS, pa.nulls(2), "the type null, without a value"),
    "letters in integers": ("{levels: [a, b]}", pa.array([1, 2]), "the file has the type int64"),
    "letters in truth values": ("{levels: [no, yes]}", pa.array([True]), "has the type bool"),
    "lists": ("{levels: [a, b]}", pa.array([["a"]]), "the type list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_value_can_be_is_refused(name: str, tmp_path: Path) -> None:
    attribute, cells, message = REFUSED[name]
    pq.write_table(pa.table({"x": cells}), tmp_path / "rows.parquet")
    with pytest.raises(SourceError, match=re.escape(message)):
        read_source(spec_of(tmp_path, attribute, "Parquet"))


def test_a_delimiter_without_names_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\t2\n")
    arguments = ["data", "init", "draft", "--from", str(tmp_path / "a.csv"), "--header", "a,b"]
    result = CliRunner().invoke(main, [*arguments, "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "delimiter: TODO" in (tmp_path / "draft.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "value"), [("list", [1]), ("struct", {"a": 1}), ("time64", time(1))]
)
def test_a_blind_discovery_is_refused(kind: str, value: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [value] * 9}), tmp_path / "rows.parquet")
    cost = "discover: {epsilon: 1, delta: 0.001}"
    with pytest.raises(SourceError, match=f"in column 'x', got the type {kind}"):
        read_source(spec_of(tmp_path, LEVELS, "Parquet", more=cost))


ROWS = 1200
ORDERED = pa.dictionary(pa.int8(), pa.string(), ordered=True)
TYPED: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "rooms": ("{levels: 0..2}", pa.int8(), [0, 1, 2]),
    "owner": ('{levels: ["false", "true"]}', pa.bool_(), [True, None, False]),
    "size": ("{levels: [low, mid, high]}", ORDERED, ["high", "low", "mid"]),
    "age": ("{bounds: [0, 255], bins: 5}", pa.uint8(), [1, 250, 100]),
    "cost": (
        "{bounds: [0, 4], bins: 4}",
        pa.decimal128(7, 2),
        [Decimal("1.10"), Decimal("2.25"), None],
    ),
    "visits": ("{levels: [1, 2]}", pa.int16(), [1, 2, None]),
    "ward": (LEVELS, pa.string(), ["01", "1", None]),
    "part": ("{levels: [0.1, 1.5]}", pa.float32(), [0.1, 1.5, None]),
    "beds": (f"{BOUNDS}, integer: true}}", pa.int8(), [1, 40, None]),
    "weight": (f"{BOUNDS}}}", pa.float32(), [0.5, None, 40]),
}
SEEN = "{type: timestamp, bounds: [2026-11-01, 2026-11-30], every: day}"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One table of a Parquet file with a type of each kind, released by the pipeline."""
    project = Project(tmp_path_factory.mktemp("types"))
    project.datasets.mkdir()
    columns = {}
    for name, (_, type_, values) in TYPED.items():
        if type_ == ORDERED:
            places = pa.array([2, 0, 1] * (ROWS // 3), pa.int8())
            array = pa.DictionaryArray.from_arrays(places, ["low", "mid", "high"], ordered=True)
        else:
            array = pa.array(values * (ROWS // 3), type_)
        columns[name] = array
    columns["seen"] = pa.array(pd.date_range("2026-11-01", periods=ROWS, freq="10min"))
    pq.write_table(pa.table(columns), project.datasets / "rows.parquet")
    attributes = "".join(f"  {name}: {form}\n" for name, (form, *_) in TYPED.items())
    (project.datasets / "typed.yaml").write_text(
        "name: typed\ndescription: Types.\npopulation: typed\npurpose: release\n"
        "ceiling: {total: 99}\nprotection: {unit: one_row}\npartitions: [8]\n"
        "discover: {epsilon: 9, delta: 0.000000001}\n"
        "source: {kind: parquet, path: rows.parquet}\nreading: {zone: Europe/Zurich}\n"
        "models: {independent: }\npublish: {model: independent, epsilon: 8}\n"
        f"attributes:\n{attributes}  seen: {SEEN}\n"
    )
    result = project.cli_here("run", "typed")
    assert result.code == 0, result.err
    return project


@pytest.mark.chain
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_exports_have_the_types_of_the_source(ending: str, released: Project, tmp_path) -> None:
    folder = tmp_path / "out"
    released.command("export", "typed", "--format", ending, "--to", str(folder))
    released.command("verify", str(folder))
    resources = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))["resources"]
    (fields,) = [table["schema"]["fields"] for table in resources if table["name"] == "synthetic"]
    assert "on a clock in Europe/Zurich" in fields[-1]["description"]
    assert "a clock in Europe/Zurich" in (folder / "README.txt").read_text(encoding="utf-8")
    if ending == "csv":
        costs = pd.read_csv(folder / "synthetic.csv", dtype=str)["cost"].dropna()
        assert costs.str.fullmatch(r"[0-3]\.[0-9]{1,2}").all()
        return
    path = folder / f"synthetic.{ending}"
    table = pq.read_table(path) if ending == "parquet" else pa.ipc.open_file(path).read_all()
    types = {name: type_ for name, (_, type_, _) in TYPED.items()}
    # Of 32 bits `verify` could not read the released numbers back.
    types["weight"] = pa.float64()
    assert {name: table.schema.field(name).type for name in TYPED} == types
    for name, (_, _, values) in TYPED.items():
        share = table[name].null_count / table.num_rows
        assert abs(share - values.count(None) / 3) < 0.02


@pytest.mark.parametrize(
    ("type_", "levels", "is_typed"),
    [
        ("float", ("0.1", "0.3"), True),
        ("float", ("0.1", "1e39"), False),
        ("decimal128(4, 1)", ("1.5", "2.00"), True),
        ("decimal128(4, 1)", ("1.5", "2.25"), False),
        ("decimal128(5, 2)", ("5", "1000"), False),
    ],
)
def test_exported_levels_are_read_back(type_: str, levels: tuple[str, ...], is_typed: bool) -> None:
    attribute = Attribute("x", "x", "drop", cells=Levels(levels))
    stored = stored_columns([("x", attribute)], {TYPES: json.dumps({"x": type_})})
    assert bool(stored) is is_typed
    file, column = io.BytesIO(), np.array(levels)
    write_parquet(file, {"x": column}, stored)
    labels = {name: typed.labels for name, typed in stored.items()}
    assert read_parquet(file.getvalue(), labels)["x"].tolist() == column.tolist()


def parquet_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"age": [1]}), sink)
    return sink.getvalue().to_pybytes()


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", "age\n1\n")
    return packed.getvalue()


def sheet_bytes(text: bytes) -> bytes:
    book, packed = Workbook(), io.BytesIO()
    for line in text.decode().splitlines():
        book.active.append(line.split(","))
    book.save(packed)
    return packed.getvalue()


WRONG: dict[str, tuple[bytes, str]] = {
    "Parquet": (parquet_bytes(), "got a Parquet file: declare `kind: parquet`"),
    "an archive": (
        zipped(),
        "got a zip archive, as spreadsheets (.xlsx) are: declare `kind: xlsx`",
    ),
    "gzip": (gzip.compress(b"age\n1\n"), "got a file packed by gzip: unpack it"),
    "a database": (b"SQLite format 3\0", "got a SQLite database: declare `kind: sql"),
    "an old sheet": (b"\xd0\xcf\x11\xe0 and more", "got an old document (.xls, .doc) or one"),
    "a web page": (b"<!DOCTYPE html>", "got a web page"),
    "UTF-16": ("age,sex\n".encode("utf-16"), "declare `encoding: utf-16`"),
    "nothing": (b"", "expected a file with columns, got an empty file"),
    "a semicolon": (b"age;sex\n1;m\n", 'declare `delimiter: ";"`'),
    "a tab": (b"age\tsex\n1\tm\n", 'declare `delimiter: "\\t"`'),
    "capitals": (b"Age,sex\n1,m\n", "2 columns without it (Age, sex): did you mean Age?"),
    "another name": (b"years,sex\n1,m\n", "2 columns without it (years, sex): declare one"),
    "a row": (b"34,Waltraud\n", "got 2 columns without it"),
    "a name twice": (b"age,age,sex\n", "got 'age' twice"),
}


OWN = {("parquet", "Parquet"), ("xlsx", "an archive")}
HEADS = ("capitals", "another name", "a row", "a name twice")


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_a_wrong_file_is_named(kind: str, name: str, tmp_path: Path) -> None:
    content, message = WRONG[name]
    if (kind, name) in OWN:
        message = "got a file that cannot be read" if kind == "xlsx" else "got a damaged file"
        content = content[:-9]
    elif kind == "xlsx" and name in HEADS:
        content = sheet_bytes(content)
    elif kind != "csv" and name in (*HEADS, "UTF-16", "a semicolon", "a tab"):
        message = "got one that does not begin so: declare `kind: csv` where it is text"
    (tmp_path / "rows").write_bytes(content)
    attributes = "{age: {bounds: [0, 9], bins: 3}, sex: {levels: [m, f]}}"
    source = f"{{kind: {kind}, path: rows}}"
    with pytest.raises(SourceError, match=re.escape(message)) as refused:
        read_source(written_spec(tmp_path, attributes, purpose="release", source=source))
    assert "Waltraud" not in str(refused.value), "a first line may be a row"


def test_a_row_with_one_declared_name_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("age,Waltraud,2\n34,m,1\n")
    attributes = "{age: {bounds: [0, 9], bins: 3}, sex: {levels: [m, f]}, rooms: {levels: [1, 2]}}"
    source = "{kind: csv, path: rows}"
    with pytest.raises(SourceError, match="expected a column 'sex', got 3 columns") as refused:
        read_source(written_spec(tmp_path, attributes, purpose="release", source=source))
    assert "Waltraud" not in str(refused.value)
