"""Spreadsheets (.xlsx), read as tables of text: each row of a sheet is a row, judged by itself.

A cell of a spreadsheet has a type of its own, so that one column may hold numbers, dates and texts.
Each becomes the text that a CSV file in the declared reading would have, and is read like that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pyarrow as pa

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import Source
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.sources.csv_files import with_names
from dp_pipeline.raw.sources.reading import NoHeader, OddFile
from dp_pipeline.raw.values import PLAIN

ROWS_A_PART = 1 << 16

Row = Sequence[Any]

_DAMAGED: Row = ("damaged",)


def read_xlsx(spec: DatasetSpec, path: Path) -> Iterator[pa.Table]:
    """Yield the declared columns of a spreadsheet as text, in parts; the first part has no row.

    Raises SourceError for a file that is no spreadsheet, and for a sheet or column that it lacks.
    """
    reading.require_readable(spec, path)
    columns = reading.declared_columns(spec)
    expected = "a spreadsheet (.xlsx) with a row of names"
    names = reading.guarded(spec, lambda: sheet_names(path, spec.source), expected=expected)
    reading.check_names(spec, names)
    places = [names.index(column) for column in columns]
    texts = [partial(_text, write=_writer(spec, column)) for column in columns]
    yield pa.table({column: pa.array([], pa.string()) for column in columns})
    every = _without_footer(_rows(path, spec.source), spec.source.footer)
    rows = reading.guarded_each(spec, every, expected=expected)
    while part := list(islice(rows, ROWS_A_PART)):
        yield pa.table(
            {
                column: pa.array([text(_cell(row, place)) for row in part], pa.string())
                for column, place, text in zip(columns, places, texts, strict=True)
            }
        )


def sheet_names(path: Path, source: Source) -> list[str]:
    """Return the column names of a spreadsheet; NoHeader if it has no row of names."""
    row = next(_sheet_rows(path, source, source.header_row), None)
    names = with_names([_text(cell, write=None) for cell in row or ()])
    if not names:
        raise NoHeader
    return names


def _rows(path: Path, source: Source) -> Iterator[Row]:
    rows = _sheet_rows(path, source, source.header_row + 1)
    return (row for row in rows if any(cell is not None and cell != "" for cell in row))


def _sheet_rows(path: Path, source: Source, first: int) -> Iterator[Row]:
    # It takes a tenth of a second to import, and most sources are none.
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    # A damaged archive, one without sheets, XML that is none, or a cell that is not of its type.
    damaged = (
        BadZipFile,
        InvalidFileException,
        ArithmeticError,
        LookupError,
        SyntaxError,
        ValueError,
    )
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except damaged:
        raise OddFile("a spreadsheet (.xlsx)", "a file of another kind: save it as .xlsx") from None
    if source.sheet and source.sheet not in book.sheetnames:
        raise OddFile(
            f"a sheet {source.sheet!r}",
            f"{len(book.sheetnames)} sheets without it: correct `sheet`",
        )
    sheet = book[source.sheet] if source.sheet else book.worksheets[0]
    # Some programs write a wrong size.
    sheet.reset_dimensions()
    rows = sheet.iter_rows(min_row=first, values_only=True)
    while True:
        try:
            with warnings.catch_warnings():
                # A warning about a cell, such as a date out of range, quotes it.
                warnings.simplefilter("ignore")
                row = next(rows, None)
        except damaged:
            # Outside, for its message quotes the cell.
            row = _DAMAGED
        if row is _DAMAGED:
            raise OddFile(
                "a spreadsheet (.xlsx)",
                "one with a cell that is not of its type: save the file anew",
            )
        if row is None:
            return
        yield row


def _without_footer(rows: Iterable[Row], count: int) -> Iterator[Row]:
    ahead: list[Row] = []
    for row in rows:
        ahead.append(row)
        if len(ahead) > count:
            yield ahead.pop(0)


def _cell(row: Row, place: int) -> Any:
    return row[place] if place < len(row) else None


Write = Callable[[Any], str]


def _writer(spec: DatasetSpec, column: str) -> Write:
    """Return a function that writes numbers and times of a column as declared."""
    signs = next(iter(spec.signs_of(column)), PLAIN)
    clock = next(
        (each.clock for each in spec.domain if each.clock and column in each.inputs), None
    ) or (spec.windows.clock if spec.windows and spec.windows.column == column else None)
    return lambda value: (
        _time_text(value, clock)
        if isinstance(value, date | time)
        else signs.localise(_number_text(value))
    )


def _number_text(value: float) -> str:
    is_whole = isinstance(value, int) or value.is_integer()
    return str(int(value)) if is_whole else repr(value)


def _time_text(value: Any, clock: Clock | None) -> str:
    if clock is not None and clock.format:
        return str(value.strftime(clock.format))
    is_day = isinstance(value, datetime) and value.time() == time()
    if is_day and (clock is None or clock.kind == "date"):
        value = value.date()
    return str(value.isoformat())


def _text(cell: Any, *, write: Write | None) -> str:
    """Return the text of a cell; empty for a blank cell."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if write is None or not isinstance(cell, int | float | date | time):
        return str(cell)
    return write(cell)
