"""Files as offices have them: no row is lost, and none is misread, because of their form."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.source import Source
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.sources.csv_files import _RowReader, unreadable_lines
from dp_pipeline_tests.raw.written import written_spec

NAMES = ["a", "b"]


def rows_of(lines: list[bytes], multiline: int) -> Counter[bytes]:
    reader = _RowReader(Source("csv", "", multiline=multiline), NAMES, NAMES)
    return Counter([*reader.rows(lines), *reader.rows(None)])


LINES = st.lists(st.text('",xy', max_size=5).map(str.encode), max_size=12)


@settings(derandomize=True, deadline=None, max_examples=400)
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


@settings(derandomize=True, deadline=None, max_examples=300)
@given(RECORDS, RECORDS, st.text("x, \n", max_size=4))
def test_a_written_record_changes_itself_alone(before, after, cell):
    record = (cell, "p")
    without = rows_of(written_lines([*before, *after]), 5)
    with_record = rows_of(written_lines([*before, record, *after]), 5)
    assert sum(without.values()) == len(before) + len(after)
    assert with_record - without == rows_of(written_lines([record]), 5)
    assert not without - with_record


def read(folder: Path, content: bytes, *, form: str = "", columns: str = "a b") -> dict:
    (folder / "rows.csv").write_bytes(content)
    attributes = ", ".join(f"{name}: {{levels: [x, y]}}" for name in columns.split())
    source = f"{{kind: csv, path: rows.csv{form}}}"
    spec = written_spec(folder, f"{{{attributes}}}", source=source, purpose="release")
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
    "a title and a footer": (
        b"Report\n\na,b\n1,2\nTotal: 1,\n", ", header_row: 3, footer: 1", ["1"], ["2"], 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_rows_are_read_in_the_form_that_is_declared(tmp_path: Path, name: str) -> None:
    content, form, a, b, unreadable = FORMS[name]
    read_rows = read(tmp_path, content, form=form)
    assert read_rows == {"a": a, "b": b, "unreadable": unreadable}
