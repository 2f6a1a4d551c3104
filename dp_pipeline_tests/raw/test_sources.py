"""A source gives exactly the declared columns, or one line that quotes no row."""

import codecs
import gzip
import math
import os
import random
import time
import traceback
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.source import BUNDLED, DATA_FOLDER_VARIABLE, Sample, Source
from dp_pipeline.raw.sources import read_source, sample_by_class
from dp_pipeline.raw.sources.csv_files import _MARKS
from dp_pipeline_tests.raw.test_sql_source import SECRET
from dp_pipeline_tests.raw.test_sql_source import refusal as refused_line
from dp_pipeline_tests.raw.written import spec_of, written_spec

BOTH = pytest.mark.parametrize("purpose", ["benchmark", "release"])
BOM = codecs.BOM_UTF8


def spec_of_file(path, content, *columns, kind="csv", purpose="benchmark", **options):
    path.write_bytes(content)
    return spec_of(Source(kind, str(path), **options), *columns, purpose=purpose)


def read(*arguments, **options) -> pa.Table:
    return read_source(spec_of_file(*arguments, **options))


def refusal(*arguments, **options) -> str:
    return refused_line(spec_of_file(*arguments, **options))


def read_files(folder, *contents, purpose="benchmark", **options) -> pa.Table:
    paths = [folder / f"{number}.csv" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    first, *more = map(str, paths)
    source = Source("csv", first, more=tuple(more), **options)
    return read_source(spec_of(source, "x", "y", purpose=purpose))


TWO_ROWS, NO_ROWS = {"x": ["1", "3"], "y": ["2", "4"]}, {"x": [], "y": []}
XY = {"header": ("x", "y")}
CSV = {
    "texts": (
        b'x,y\n007, 1.0\nNA,\n"",nan\n1e3,true\n',
        {},
        {"x": ["007", "NA", "", "1e3"], "y": [" 1.0", "", "nan", "true"]},
    ),
    "plain": (b"x,y\n1,2\n3,4\n", {}, TWO_ROWS),
    "line ends": (b"x,y\r\n1,2\r\n3,4\r\n", {}, TWO_ROWS),
    "a mark": (BOM + b"x,y\n1,2\n3,4", {}, TWO_ROWS),
    "blank lines": (b"\nx,y\n\n1,2\n3,4\n\n", {}, TWO_ROWS),
    "quotes": (b'"x","y"\n"1","2"\n3,4\n', {}, TWO_ROWS),
    "other columns": (b"x,\xff,y\n1,\xfe,2\n3,,4\n", {}, TWO_ROWS),
    "a declared header": (b"1;2\n3;4\n", {**XY, "delimiter": ";"}, TWO_ROWS),
    "no comment declared": (b"x,y\n|1,2\n#3,4\n", {}, {"x": ["|1", "#3"], "y": ["2", "4"]}),
    "no bytes": (b"", XY, NO_ROWS),
}
CSV |= {
    f"no rows {number}": (content, {}, NO_ROWS)
    for number, content in enumerate((b"x,y\n", b"x,y", b"x,y\r\n\r\n", BOM + b"x,y\n"))
}
BEHIND = b'x,y\n|1,2\r\n1,2\n|\n 3,|4\n"|5",6\n|'
CSV |= {
    f"comments behind {first!r}": (
        first + BEHIND, {"comment": "|"}, {"x": ["1", " 3", "|5"], "y": ["2", "|4", "6"]}
    )
    for first in (b"", BOM, b'|,"of\n', b"\n|\r\n")
}  # fmt: skip
CSV |= {
    f"comments above the names in line {row}": (
        b"title\n|of rows\n" + b"|\n" * (row - 3) + b"x,y\n1,2\n3,4\n",
        {"comment": "|", "header_row": row},
        TWO_ROWS,
    )
    for row in (3, 4)
}
CSV |= {
    f"white space behind {first!r}": (
        first + b"  118879   887164\r\n\t1 \t 2\t\n\n\n3 4",
        {"delimiter": "whitespace", **XY},
        {"x": ["118879", "1", "3"], "y": ["887164", "2", "4"]},
    )
    for first in (b"", b"\n", BOM)
}


@BOTH
@pytest.mark.parametrize("name", CSV)
def test_csv_cells_are_the_texts_that_stand_there(tmp_path, name, purpose):
    content, options, expected = CSV[name]
    options = options | {"purpose": purpose}
    table = read(tmp_path / "a.csv", content, "x", "y", **options)
    assert table.to_pydict() == expected
    assert table.schema == pa.schema({"x": pa.string(), "y": pa.string()})
    assert read(tmp_path / "a.csv", content, "y", **options).to_pydict() == {"y": expected["y"]}


def test_columns_come_as_declared_person_last(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("user,x,unused,y\nu1,1,?,2\n")
    spec = spec_of(Source("csv", str(path)), "y", "x", "x", person="user")
    assert read_source(spec).to_pydict() == {"y": ["2"], "x": ["1"], "user": ["u1"]}
    # Of gzip in several members, and with line ends in quoted cells.
    content = gzip.compress(b"x\n1\n") + gzip.compress(b"2\n")
    assert read(tmp_path / "a.csv.gz", content, "x").to_pydict() == {"x": ["1", "2"]}
    row = b'"a, ""b""\nc",2\n'
    table = read(tmp_path / "a.csv", b"x,y\n" + row * 100_000, "x")
    assert table.num_rows == 100_000
    assert set(table.column("x").unique().to_pylist()) == {'a, "b"\nc'}


@BOTH
def test_several_files_are_read_in_turn(tmp_path, purpose):
    table = read_files(tmp_path, b"x,y\n1,2", b"y,x\n4,3\n", b"x,y\n", purpose=purpose)
    assert table.to_pydict() == TWO_ROWS
    table = read_files(tmp_path, b"1,2", b"3,4\n", b"", purpose=purpose, **XY)
    assert table.to_pydict() == TWO_ROWS
    with pytest.raises(SourceError, match=r"city: csv:\S+/1\.csv: expected a column 'y'"):
        read_files(tmp_path, b"x,y\n1,2\n", b"x\n1\n", b"x,y\n")


DIGITS = random.Random(5)
LINES = "".join(f"{DIGITS.random()},{SECRET}\n" for _ in range(5_000))
GZIP = gzip.compress(f"x,y\n{LINES}".encode())
FLIPPED = GZIP[:-6] + bytes([GZIP[-6] ^ 4]) + GZIP[-5:]
RAGGED = [f"{SECRET}\n", f"{SECRET},2,3\n", f'1,2\n"{SECRET},2\n', f"1,2\n1\n{SECRET},2\n"]
DAMAGED = "a damaged file: write it again"
OPEN = "marks that are closed, got one {} that stays open: close or remove it"
IN_NAMES = OPEN.format("in the names")
MANY = f"{SECRET},1\n".encode() * (1 << 17)
REFUSED = {
    "no bytes": ("a.csv", b"", {}, "got an empty file"),
    "blank lines": ("a.csv", b"\n\n", {}, "header line"),
    "nothing packed": ("a.csv.gz", gzip.compress(b"", mtime=0), {}, "header line"),
    "no such column": ("a.csv", f"{SECRET},2\n3,4\n", {}, "column 'x', got 2 columns without it"),
    "a repeated name": ("a.csv", f"x,{SECRET},{SECRET}\n1,2,3\n", {}, "repeated"),
    "a repeated declared name": ("a.csv", b"1,2,3\n", {"header": ("x", "y", "x")}, "got 'x' twice"),
    **{f"ragged {rows!r}": ("a.csv", f"x,y\n{rows}", {}, "rows of 2 cells") for rows in RAGGED},
    "ragged white space": (
        "a.csv", f"1 2\n{SECRET}\n", {"delimiter": "whitespace", **XY}, "rows of 2 cells"
    ),
    "no text": ("a.csv", b"x,y\n" + SECRET.encode() + b"\xff,1\n", {}, "UTF-8"),
    **{
        f"truncated at {share}": ("a.csv.gz", GZIP[: int(len(GZIP) * share)], {}, DAMAGED)
        for share in (0.3, 0.9, 0.9999)
    },
    "an open quotation mark in the header": ("a.csv", b'x,"y\n' + MANY, {}, IN_NAMES),
    "an open quotation mark at the end of the header": ("a.csv", b'x,"y\n1,2\n', {}, IN_NAMES),
    "a flipped bit": ("a.csv.gz", FLIPPED, {}, "damaged"),
    "text called gzip": ("a.csv.gz", f"x\n{SECRET}\n", {}, "damaged"),
    "no Parquet": ("a.parquet", b"", {"kind": "parquet"}, "got an empty file"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_file_is_refused_unquoted(tmp_path, name):
    file, content, options, message = REFUSED[name]
    content = content.encode() if isinstance(content, str) else content
    assert message in refusal(tmp_path / file, content, "x", **options)


@pytest.mark.parametrize("rows", [b"", b"1,2\n" * 3, MANY], ids=["none", "few", "many"])
@pytest.mark.parametrize("column", ["x", "y"])
def test_an_open_quotation_mark_is_refused_with_its_line(tmp_path, rows, column):
    path, end = tmp_path / "a.csv", b'1,"2\n' + rows
    plain, odd = b'x,y\n"1\n\n2",3\n', b'title\n#\n\nx,y\n#\n1"1,2\n#\n'
    assert OPEN.format("from line 5 on") in refusal(path, plain + end, column)
    options: Any = {"comment": "#", "header_row": 3, "footer": 1}
    message = refusal(path, odd + end + b'"A total,3\n\n', column, **options)
    assert OPEN.format("from line 8 on") in message


ABSENT = {
    ("csv", "none"): "a file that can be read, got No such file",
    ("parquet", "none"): "a file that can be read, got No such file",
    ("csv", "."): "a file that can be read, got Is a directory",
    ("parquet", "."): r"files \*\.parquet in the folder, got none .those that begin with _",
}


@pytest.mark.parametrize(("kind", "name"), ABSENT)
def test_a_path_that_is_absent_or_an_empty_folder_is_refused(tmp_path, kind, name):
    with pytest.raises(SourceError, match=f"expected (one or more )?{ABSENT[kind, name]}"):
        read_source(spec_of(Source(kind, str(tmp_path / name)), "x"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    path.chmod(0)
    with pytest.raises(SourceError, match="Permission denied"):
        read_source(spec_of(Source("csv", str(path)), "x"))


def read_sensitive(path, content, *columns, **options) -> dict[str, list[Any]]:
    return read(path, content, *columns, purpose="release", **options).to_pydict()


LONG = [b"7" * size for size in (200_000, 3_000_000)]
NO_RECORDS = [b"1", b"1,2,3", b'"1,2', b'1,"2', b'x"1,"2', b'"1"2,3', b"", b'"', b"\xff", b',"']
NO_RECORDS += [b'""",1', *(cell + b",2" for cell in LONG), *(b'"' + cell + b'",2' for cell in LONG)]


@pytest.mark.parametrize("line", NO_RECORDS, ids=lambda line: repr(line[:9]) + str(len(line)))
def test_sensitive_line_that_is_no_row_is_dropped(tmp_path, line):
    content = b"x,y\n5,6\n" + line + b'\n7,8\n"9","1,0"\n'
    table = read_sensitive(tmp_path / "a.csv", content, "x", "y")
    assert table == {"x": ["5", "7", "9"], "y": ["6", "8", "1,0"]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(line=st.binary(max_size=12).filter(lambda line: b"\n" not in line and b"\r" not in line))
def test_any_sensitive_line_adds_one_row_at_most(tmp_path, line):
    before, after = b'5,6\n"7","8"\n', b'"9","1,0"\n3,"4"\n'
    table = read_sensitive(tmp_path / "a.csv", b"x,y\n" + before + line + b"\n" + after, "x", "y")
    rows = list(zip(*table.values(), strict=True))
    assert rows[:2] + rows[-2:] == [("5", "6"), ("7", "8"), ("9", "1,0"), ("3", "4")]
    assert len(rows) <= 5


def test_sensitive_bytes_spoil_their_own_cell_only(tmp_path):
    table = read_sensitive(tmp_path / "a.csv", b"x,y\n\xff,1\nb,2\n", "x", "y")
    assert table == {"x": [None, "b"], "y": ["1", "2"]}
    path = tmp_path / "persons.csv"
    path.write_bytes("René,1\nRenè,2\n".encode("latin-1") + "Ulla\ufffd,3\n".encode())
    source = Source("csv", str(path), header=("user", "x"))
    spec = spec_of(source, "x", person="user", purpose="release")
    # A replacement character of a person's own name stays, and two names are not merged into one.
    assert read_source(spec).column("user").to_pylist() == [None, None, "Ulla\ufffd"]


def test_sensitive_header_is_one_line(tmp_path):
    """An unclosed quotation mark must not run on into the rows, one of which would decide."""
    messages = {
        refusal(tmp_path / "a.csv", f'x,"y\n{rows}'.encode(), "x", "y", purpose="release")
        for rows in ("", "1,2\n", '1,2"\n', f'{SECRET}",z\n1,2\n')
    }
    assert len(messages) == 1


def marks_taken_one_by_one(data: bytes) -> bytes:
    while data.startswith(BOM):
        data = data.removeprefix(BOM)
    for end in (b"\n", b"\r"):
        while end + BOM in data:
            data = data.replace(end + BOM, end)
    return data


PIECES = st.sampled_from([BOM, b"\n", b"\r", b"x", BOM[:1], BOM[1:2], BOM[2:], b"\xff"])


@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_marks_at_the_beginnings_of_lines_go_and_nothing_else(data):
    assert _MARKS.sub(b"", data) == marks_taken_one_by_one(data)


def test_the_marks_of_one_person_cost_no_time_of_all_others():
    # One pass takes 0.005 s. One pass a mark took three minutes here, and hours of a large file.
    others = b"1,2\n" * 500_000
    began = time.process_time()
    assert _MARKS.sub(b"", others + BOM * 40_000 + b"3,4\n") == others + b"3,4\n"
    assert time.process_time() - began < 20


@BOTH
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_utf_16_file_is_refused_by_its_header(tmp_path, encoding, purpose):
    content = f"\ufeffx,y\n{SECRET},1\n".encode(encoding)
    message = refusal(tmp_path / "a.csv", content, "x", purpose=purpose)
    assert message.endswith("got UTF-16: declare `encoding: utf-16`")
    # Of sensitive rows without a header the first bytes are a row's, and stop no other.
    table = read_sensitive(tmp_path / "a.csv", b"\xff\xfe,1\n5,2\n", "y", **XY)
    assert table == {"y": ["1", "2"]}


def parquet(path, **columns) -> bytes:
    pq.write_table(pa.table(columns), path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_broken_parquet_text_spoils_its_own_cell_only(tmp_path, kind):
    binary = pa.large_binary() if kind == pa.large_string() else pa.binary()
    letters = pa.array([SECRET.encode() + b"\xff", b"b"], binary)
    path = tmp_path / "a.parquet"
    content = parquet(path, x=pa.Array.from_buffers(kind, 2, letters.buffers()))
    table = read(path, content, "x", kind="parquet", purpose="release")
    assert table.column("x").to_pylist() == [None, "b"]
    assert "UTF-8" in refusal(path, content, "x", kind="parquet")


def test_parquet_numbers_and_texts_keep_their_type(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {
        "whole": pa.array([1, None], pa.int32()),
        "broken": pa.array([1.5, float("nan")]),
        "text": ["a", None],
        "long": pa.array(["b", "c"], pa.large_string()),
        "coded": pa.array(["d", None]).dictionary_encode(),
    }
    table = read(path, parquet(path, **columns), *columns, kind="parquet")
    assert [str(kind) for kind in table.schema.types] == ["int32", "double", *["string"] * 3]
    assert table.column("coded").to_pylist() == ["d", None]
    # A dotted column is no part of another, and none may stand twice.
    content = parquet(path, **{"a": [{"b": 1}], "a.b": [2]})
    assert read(path, content, "a.b", kind="parquet").to_pydict() == {"a.b": [2]}
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), path)
    assert "got 'x' twice" in refusal(path, path.read_bytes(), "x", kind="parquet")


def test_damaged_parquet_is_refused_or_read_and_nothing_else(tmp_path):
    path = tmp_path / "a.parquet"
    whole = parquet(path, x=[SECRET] * 50, y=list(range(50)))
    for cut in range(1, len(whole), 37):
        refusal(path, whole[:cut], "x", kind="parquet")
    random_bits = random.Random(3)
    for _ in range(200):
        content = bytearray(whole)
        content[random_bits.randrange(len(whole))] ^= 1 << random_bits.randrange(8)
        try:
            read(path, bytes(content), "x", kind="parquet")
        except SourceError as error:
            assert SECRET not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_set_has_its_own_column_names_and_class_names(name):
    from sklearn import datasets

    bundle = getattr(datasets, f"load_{name}")()
    features = [str(feature) for feature in bundle.feature_names]
    table = read_source(spec_of(Source("sklearn", name), *features, "target"))
    assert table.column_names == [*features, "target"]
    assert np.array_equal(table.column(features[0]).to_numpy(), bundle.data[:, 0])
    first = str(bundle.target_names[bundle.target[0]])
    assert table.column("target")[0].as_py() == first


def test_a_generator_is_called_with_its_options():
    source = Source("generator", "pytest2d", options={"seed": 3, "rows": 12})
    first, again = (read_source(spec_of(source, "y", "x")) for _ in range(2))
    assert (first.column_names, first.num_rows) == (["y", "x"], 12)
    assert again.equals(first)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Source("sklearn", "olivetti"), "must be one of breast_cancer, digits, iris, wine, not"),
        (Source("generator", "cities"), "must be one of birch3_like"),
        (Source("generator", "pytest2d", options={"sed": 1}), "one of seed, rows, not 'sed'"),
        *(
            (Source(*place), "expected a column 'altitude'")
            for place in (("sklearn", "iris"), ("generator", "pytest2d"))
        ),
    ],
)
def test_unknown_name_of_a_made_set_is_refused(source, message):
    error = SourceError if "altitude" in message else DeclarationError
    with pytest.raises(error, match=message):
        read_source(spec_of(source, "altitude"))


WITH_DATA = pytest.mark.skipif(
    not os.environ.get(DATA_FOLDER_VARIABLE), reason="needs the data folder"
)


@pytest.mark.parametrize("name", ["wdbc", "census", pytest.param("checkin", marks=WITH_DATA)])
def test_a_built_in_data_set_is_read_as_declared(name):
    spec = find_spec(name)
    table = read_source(spec)
    assert tuple(table.column_names) == spec.columns
    assert table.num_rows == spec.nominal_rows
    for attribute in spec.domain if name == "wdbc" else ():
        if attribute.coordinate:
            values = table.column(attribute.column).to_numpy()
            assert attribute.coordinate.lower <= values.min()
            assert values.max() <= attribute.coordinate.upper


ATTRIBUTES = "{name: {bounds: [0, 99]}, pay: {levels: [low, high], aliases: {low.: low}}}"


def sample_of(classes: list[int], rows: int, seed: int = 7) -> list[int]:
    return sample_by_class(np.array(classes), rows=rows, seed=seed).tolist()


@st.composite
def classes_and_rows(draw: st.DrawFn) -> tuple[list[int], int]:
    classes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=60))
    return classes, draw(st.integers(1, len(classes)))


@given(classes_and_rows(), st.integers(0, 2**64))
def test_every_class_has_its_share_to_within_a_row(drawn, seed):
    classes, rows = drawn
    chosen = sample_of(classes, rows, seed)
    assert len(chosen) == rows
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(len(classes)))
    counts = Counter(classes[row] for row in chosen)
    for label, size in Counter(classes).items():
        share = Fraction(rows * size, len(classes))
        assert math.floor(share) <= counts[label] <= math.ceil(share)


def test_spare_rows_go_to_largest_remainders():
    # Shares of 4 rows: 2 2/7, 1 1/7, 4/7; then of 5: 2 6/7, 1 3/7, 5/7; of 3, in halves: 1½, ½, 1.
    classes = [0, 0, 0, 0, 1, 1, 2]
    assert Counter(classes[row] for row in sample_of(classes, 4)) == {0: 2, 1: 1, 2: 1}
    assert Counter(classes[row] for row in sample_of(classes, 5)) == {0: 3, 1: 1, 2: 1}
    halves = [0, 0, 0, 1, 2, 2]
    assert Counter(halves[row] for row in sample_of(halves, 3)) == {0: 2, 2: 1}


def test_seed_decides_the_sample_for_ever():
    classes = [0] * 12 + [1] * 4
    assert sample_of(classes, 4) == [3, 6, 11, 12]
    assert len({tuple(sample_of(classes, 4, seed)) for seed in range(20)}) > 10
    # What a class is called decides nothing.
    classes = [0, 1, 1, 0, 0, 1, 0, 0, 0, 1]
    assert sample_of(classes, 5) == sample_of([3 * label for label in classes], 5)


def test_rows_of_a_class_are_drawn_equally_often():
    classes, times = [0] * 6 + [1] * 3, 4000
    counts = Counter(row for seed in range(times) for row in sample_of(classes, 3, seed))
    # Each row is in a third of the samples. Nine bounds of 4.5 standard deviations: a false alarm
    # in 1.6e5 choices of seeds.
    deviation = math.sqrt(times * Fraction(1, 3) * Fraction(2, 3))
    assert all(abs(counts[row] - times / 3) < 4.5 * deviation for row in range(9))


def people(folder: Path, rows: str, sample: Sample | None, **options: str) -> DatasetSpec:
    (folder / "rows.csv").write_text(f"name,pay\n{rows}")
    spec = written_spec(folder, ATTRIBUTES, **options)
    return replace(spec, source=replace(spec.source, sample=sample))


def test_two_spellings_of_a_level_are_one_class(tmp_path):
    rows = "".join(f"{n},{'low' if n < 4 else ' low.'}\n" for n in range(8)) + "8,high\n9,high\n"
    samples = [read_source(people(tmp_path, rows, Sample(5, "pay", seed))) for seed in range(9)]
    pays = [Counter(table.column("pay").to_pylist()) for table in samples]
    assert {pay["high"] for pay in pays} == {1}
    # By text, 4, 4 and 2 rows of ten would be 2, 2 and 1 of five for every seed.
    assert len({pay["low"] for pay in pays}) > 1
    # Files are sampled together.
    for name, pay in {"a": "low", "b": "high"}.items():
        lines = "".join(f"{n},{pay}\n" for n in range(6))
        (tmp_path / f"{name}.csv").write_text(f"name,pay\n{lines}")
    source = "{kind: csv, paths: [a.csv, b.csv], sample: {rows: 4, by: pay, seed: 7}}"
    table = read_source(written_spec(tmp_path, ATTRIBUTES, source=source))
    assert table.column("pay").to_pylist() == ["low", "low", "high", "high"]


def test_sampled_rows_are_complete_and_in_source_order(tmp_path):
    rows = [(str(n), "high" if n % 3 else "low") for n in range(30)]
    text = "".join(f"{name},{pay}\n" for name, pay in rows)
    all_rows = read_source(people(tmp_path, text, None))
    table = read_source(people(tmp_path, text, Sample(10, "pay", 7)))
    actual = [(row["name"], row["pay"]) for row in table.to_pylist()]
    assert all_rows.num_rows == 30
    assert actual == [row for row in rows if row in actual]
    assert Counter(pay for _, pay in actual) == {"high": 7, "low": 3}


def test_undeclared_texts_are_sampled_by_their_share(tmp_path):
    rows = "1,low\n2,low\n3,none\n4,none\n"
    table = read_source(people(tmp_path, rows, Sample(2, "pay", 7)))
    assert table.column("pay").to_pylist() == ["low", "none"]
    with pytest.raises(SourceError, match="expected at least 5 rows to sample from, got 4: lower"):
        read_source(people(tmp_path, rows, Sample(5, "pay", 7)))


def test_sensitive_rows_are_never_sampled(tmp_path):
    spec = people(tmp_path, "1,low\n", Sample(1, "pay", 7), purpose="release")
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(DeclarationError, match="sample: sensitive data must be read in every row"):
        read_source(spec)
