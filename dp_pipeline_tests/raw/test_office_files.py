"""Files as offices have them: no row is lost, and none is misread, because of their form."""

import csv
import encodings.aliases
import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.draft import SourceColumn
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.config.source_parser import _is_encoding
from dp_pipeline.raw.expectations import expectations_of
from dp_pipeline.raw.first_rows import parse_first_rows
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.proposals import likely_encoding, propose_fields
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.sources.csv_files import _RowReader, _Transcoded, unreadable_lines
from dp_pipeline_tests.raw.test_reading import codes
from dp_pipeline_tests.raw.written import KEY, written_spec

NAMES = ["a", "b"]


def rows_of(lines: list[bytes], multiline: int) -> Counter[bytes]:
    reader = _RowReader(Source("csv", "", multiline=multiline), NAMES, NAMES)
    return Counter([*reader.rows(lines), *reader.rows(None)])


LINES = st.lists(st.text('",xy', max_size=5).map(str.encode), max_size=12)


@pytest.mark.chain
@settings(max_examples=400)
@given(LINES, LINES, st.text('",xy', max_size=6).map(str.encode), st.integers(1, 3))
def test_a_line_changes_few_others_whatever_it_holds(before, after, line, multiline):
    without = rows_of([*before, *after], multiline)
    with_line = rows_of([*before, line, *after], multiline)
    changed = sum((without - with_line).values())
    assert changed < 4 * multiline
    assert sum((with_line - without).values()) <= 4 * multiline
    if multiline == 1:
        assert not changed


RECORDS = st.lists(st.tuples(st.text("x, \n", max_size=4), st.sampled_from("pq")), max_size=9)


def written_lines(records: list[tuple[str, str]]) -> list[bytes]:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(records)
    return [line for line in text.getvalue().encode().split(b"\n") if line]


@settings(max_examples=300)
@given(RECORDS, RECORDS, st.text("x, \n", max_size=4))
def test_a_written_record_changes_itself_alone(before, after, cell):
    record = (cell, "p")
    without = rows_of(written_lines([*before, *after]), 5)
    with_record = rows_of(written_lines([*before, record, *after]), 5)
    assert sum(without.values()) == len(before) + len(after)
    assert with_record - without == rows_of(written_lines([record]), 5)
    assert not without - with_record


def read(folder: Path, content: bytes, form: str = "") -> dict:
    (folder / "rows.csv").write_bytes(content)
    attributes = "{a: {levels: [x, y]}, b: {levels: [x, y]}}"
    source = f"{{kind: csv, path: rows.csv{form}}}"
    spec = written_spec(folder, attributes, source=source, purpose="release")
    return {**read_source(spec).to_pydict(), "unreadable": unreadable_lines(spec).total()}


FORMS = {
    "line breaks in quotes": (
        b'a,note,b\n1,"x\n\ny",2\n3,,4\n', ", multiline: 3", ["1", "3"], ["2", "4"], 0
    ),
    "more lines than declared": (
        b'a,note,b\n1,"x\ny\nz",2\n3,,4\n', ", multiline: 2", ["3"], ["4"], 3
    ),
    "trailing delimiter of some rows": (b"a,b\n1,2,\n3,4\n", "", ["1", "3"], ["2", "4"], 0),
    "trailing delimiter of the header": (b"a,b,\n1,2\n3,4,\n", "", ["1", "3"], ["2", "4"], 0),
    "another column is cut off": (b"a,b,note\n1,2\n3,4,x\n", "", ["1", "3"], ["2", "4"], 0),
    "a cell too many": (b"a,b\n1,2,5\n3,4\n", "", ["3"], ["4"], 1),
    "cp1252": ("a,b\nä,2\n".encode("cp1252"), ", encoding: cp1252", ["ä"], ["2"], 0),
    "utf-16": ("a,b\nä,2\n".encode("utf-16"), ", encoding: utf-16", ["ä"], ["2"], 0),
    "no text in that encoding": (b"a,b\n\x81,2\n", ", encoding: cp1252", [None], ["2"], 0),
    "half a character at the end": (
        "a,b\n1,2\n3,4".encode("utf-16")[:-1], ", encoding: utf-16", ["1", "3"], ["2", None], 0
    ),
    "half a character within": (
        "a,b\n1,2".encode("utf-16-be") + b"?" + "\n3,4\n".encode("utf-16-be"),
        ", encoding: utf-16-be", ["1", "3"], [None, "4"], 0,
    ),
    "half a pair": (
        "a,b\n1,\ud83d\n3,4\n".encode("utf-16-le", "surrogatepass"),
        ", encoding: utf-16-le", ["1", "3"], [None, "4"], 0,
    ),
    "a title and a footer": (
        b"Report\n\na,b\n1,2\nTotal: 1,\n", ", header_row: 3, footer: 1", ["1"], ["2"], 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_rows_are_read_in_the_form_that_is_declared(tmp_path, name):
    content, form, a, b, unreadable = FORMS[name]
    assert read(tmp_path, content, form) == {"a": a, "b": b, "unreadable": unreadable}


VISITS = """{day: {type: date, bounds: [2026-01-01, 2026-12-31], every: month, format: "%d.%m.%Y"},
  age: {bounds: [0, 100], bins: 4, aliases: {"90+": 90}}, sex: {levels: [w, m]},
  cost: {bounds: [0, 100], bins: 4, decimal: ","}}"""
ROWS = [
    ("05.03.2026", "17", "w", "9,50"),
    ("", "90+", "M", "-"),
    ("31.02.2026", "NA", "m", "101"),
    ("24.12.2026", "7", "", "12,25"),
]
CODES = {"day": [2, 12, 12, 11], "age": [0, 3, 4, 0], "sex": [0, 2, 1, 2], "cost": [0, 4, 4, 0]}


def write_sheet(path: Path) -> None:
    book = Workbook()
    sheet = book.create_sheet("May")
    sheet.append(["A report"])
    sheet.append(["day", "age", "sex", "cost", None])
    for day, age, sex, cost in ROWS:
        number = float(cost.replace(",", ".")) if cost != "-" else cost
        is_date = day not in ("", "31.02.2026")
        cell = datetime.strptime(day, "%d.%m.%Y") if is_date else day or None
        sheet.append([cell, int(age) if age.isdecimal() else age, sex or None, number])
    sheet.append([f"Total: {len(ROWS)}"])
    book.save(path)


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_no_row_is_lost_because_one_cell_is_odd(tmp_path, kind):
    lines = ["day;age;sex;cost;", *(";".join(row) + ";" for row in ROWS), "Total: 4;;;;"]
    (tmp_path / "rows.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    write_sheet(tmp_path / "rows.xlsx")
    form = {
        "csv": '{kind: csv, path: rows.csv, delimiter: ";", encoding: cp1252, footer: 1}',
        "xlsx": "{kind: xlsx, path: rows.xlsx, sheet: May, header_row: 2, footer: 1}",
    }[kind]
    options = {"more": "reading: {missing: [NA, '-']}", "nullable": "true"}
    spec = written_spec(tmp_path, VISITS, source=form, purpose="release", **options)
    assert codes(spec, read_source(spec)) == CODES
    assert parse_first_rows(spec, 9).left_out == 0
    whole = replace(spec, source=replace(spec.source, footer=0))
    footers = [parse_first_rows(each, 9).odd_lines[1] for each in (spec, whole)]
    assert footers == [0, 1]


def test_one_odd_cell_changes_no_schema_and_no_check(tmp_path):
    spec = written_spec(tmp_path, VISITS, nullable="true")
    columns = dict(zip(("day", "age", "sex", "cost"), zip(*ROWS, strict=True), strict=True))
    complete = {name: [cells[0]] * 4 for name, cells in columns.items()}
    stages = [normalize(spec, pa.table(cells), KEY) for cells in (columns, complete)]
    tables = [discretize(spec, stage) for stage in stages]
    assert tables[0].schema == tables[1].schema
    assert all("missing" in attribute.labels() for attribute in spec.domain)
    assert not [each for each in expectations_of(spec) if each.name.startswith("present__")]


PROPOSALS = {
    "a sentinel": ([*map(str, range(40)), "-999"], {"missing": ["-999"], "bounds": ["0", "40"]}),
    "codes": (["01234", "00501", "10001"], {"levels": ["00501", "01234", "10001"]}),
    "ids": ([str(7 * number) for number in range(300)], {}),
    "dates in digits": (["31122026", "15032026"], {"type": "date", "format": "%d%m%Y"}),
    "a long tail": ([str(number**4) for number in range(1, 101)] * 2, None),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_a_draft_proposes_what_the_column_is(name):
    cells, expected = PROPOSALS[name]
    proposal = propose_fields(SourceColumn("x", "text"), pa.chunked_array([cells])).proposal
    if expected is None:
        assert proposal.keys() & {"edges", "bounds", "bins"} == {"edges", "bounds"}
    else:
        assert bool(proposal) == bool(expected)
        assert {field: proposal[field] for field in expected} == expected


@pytest.mark.parametrize("encoding", ["", "cp1252", "utf-16"])
def test_a_draft_finds_the_encoding_of_public_rows(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes("a,b\nSüd,1\n".encode(encoding or "utf-8"))
    assert likely_encoding(tmp_path / "a.csv", is_public=True) == encoding


def test_more_lines_a_cell_are_proposed_for_a_sample(tmp_path):
    lines = b'a,b,c\nx,"1\n2\n3",\ny,x,z\nx,\xff,z\nRows: 3,,\n'
    (tmp_path / "rows.csv").write_bytes(lines)
    attributes = "{a: {levels: [x, y]}, b: {levels: [x, y], nullable: true}}"
    sample = parse_first_rows(written_spec(tmp_path, attributes, purpose="release"), 9)
    assert (sample.rows, sum(sample.unreadable.values()), sample.multiline) == (4, 2, (3, 0))
    assert sample.odd_lines == (1, 1)


ENCODINGS = sorted({*encodings.aliases.aliases.values(), "idna", "punycode", "unicode_escape"})
ODD_BYTES = [bytes([byte]) for byte in range(256)]
ODD_BYTES += [b"\x1b$", b"\x1b(", b"\x1b$B", b"~{", b"+AAA", b"a\\", b"\x00\xd8", b"\x84\x31\xa4"]


def test_no_line_of_an_encoding_changes_another():
    """Whatever bytes a row holds, and however few are read at a time."""
    for name in filter(_is_encoding, ENCODINGS):
        mark, line = "".encode(name), "\nab;12\n".encode(name)[len("".encode(name)) :]
        for odd in ODD_BYTES:
            stream = _Transcoded(io.BytesIO(mark + odd + line), name)
            read = b"".join(iter(partial(stream.read, len(odd)), b""))
            assert read.endswith(b"\nab;12\n"), (name, odd)


def test_encodings_in_which_a_line_changes_others_are_refused(tmp_path):
    refused = {name for name in ENCODINGS if not _is_encoding(name)}
    assert {"hz", "iso2022_jp", "iso2022_kr", "utf_7", "unicode_escape", "punycode"} <= refused
    assert {"rot_13", "zlib_codec"} <= refused, "no encodings of text"
    assert {"cp1252", "utf_8", "utf_16", "shift_jis", "gb18030", "cp037"}.isdisjoint(refused)
    for name in ("utf-16", "utf-32"):
        text, form = "a,b\n1,2\n".encode(f"{name}-le"), f", encoding: {name}"
        with pytest.raises(SourceError, match=f"got none: declare `encoding: {name}-le` or"):
            read(tmp_path, text, form)


CELLS = {
    "no number": ("n", "seven", None),
    "no truth value": ("b", "seven", None),
    "no text of the table": ("s", "99", None),
    "an error": ("e", "#DIV/0!", None),
    "too long": ("n", "9" * 5000, None),
    "too large": ("n", "1e999", "inf"),
    "no day": ("d", "99999999999", None),
}
"""Type and text of a cell in the XML of a sheet, and how it is read."""


def changed_sheet(folder: Path, change: Callable[[str], str]) -> DatasetSpec:
    """Write a column of three cells, of which the XML is changed."""
    book = Workbook()
    for cell in ("a", datetime(2026, 1, 1), 7, 3):
        book.active.append([cell])
    book.save(folder / "sound.xlsx")
    with ZipFile(folder / "sound.xlsx") as sound, ZipFile(folder / "rows.xlsx", "w") as odd:
        for part in sound.namelist():
            content = sound.read(part).decode()
            odd.writestr(part, change(content) if part.endswith("sheet1.xml") else content)
    source, attributes = "{kind: xlsx, path: rows.xlsx}", "{a: {bounds: [0, 9], bins: 3}}"
    return written_spec(folder, attributes, purpose="release", source=source)


@pytest.mark.parametrize("name", CELLS)
def test_an_odd_cell_of_a_spreadsheet_is_missing(tmp_path, name, recwarn):
    kind, text, expected = CELLS[name]
    place, form = ("A2", ' s="1"') if kind == "d" else ("A3", "")
    cell = f'<c r="{place}"{form} t="{kind if kind in "bse" else "n"}"><v>{text}</v>'
    sound = f'<c r="{place}"[^>]*><v>[^<]*</v>'
    spec = changed_sheet(tmp_path, partial(re.sub, sound, cell))
    cells = ["2026-01-01", "7", "3"]
    cells[int(place[1]) - 2] = expected
    assert read_source(spec).to_pydict() == {"a": cells}
    assert not recwarn.list


def test_a_damaged_spreadsheet_is_one_line(tmp_path):
    spec = changed_sheet(tmp_path, lambda xml: xml.replace("<v>7</v>", "<v>Waltraud<v>"))
    damaged, sound = (tmp_path / name for name in ("rows.xlsx", "sound.xlsx"))
    content = sound.read_bytes()
    places = range(30, len(content), len(content) // 40)
    flipped = (content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :] for at in places)
    refused = 0
    for attempt in (damaged.read_bytes(), content[: len(content) // 2], *flipped):
        damaged.write_bytes(attempt)
        try:
            read_source(spec)
        except SourceError as error:
            refused += 1
            assert "got a file that cannot be read as one: open it" in str(error)
            assert "Waltraud" not in str(error)
            assert error.__context__ is None
    assert refused > 20
