"""Spreadsheets (.xlsx), read as tables of text: each row of a sheet is a row, judged by itself.

A cell of a spreadsheet has a type of its own, so that one column may hold numbers, dates and texts.
Each becomes the text that a CSV file in the declared reading would have, and is read like that. A
cell with an error, or one that is not of its own type, is missing.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import Any

import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import Source
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.sources.csv_files import strip_empty_names
from dp_pipeline.raw.sources.reading import OddFile, Result
from dp_pipeline.raw.values import PLAIN

ROWS_A_PART = 1 << 16
Row = Mapping[int, Any]  # Cells by their places from 0 on; a cell without a value may be left out
_UNREADABLE = object()  # Value of a cell with an error (#DIV/0!), or that is not of its own type


def read_xlsx(spec: DatasetSpec, path: Path) -> Iterator[pa.Table]:
    """Yield the declared columns of a spreadsheet as tables of text; the first table has no row.

    SourceError for a file that is no spreadsheet, and for a sheet or column that it lacks.
    """
    reading.require_readable(spec, path)
    columns = reading.declared_columns(spec)
    expected = "a spreadsheet (.xlsx) with a row of names"
    names = reading.guarded(spec, lambda: sheet_names(path, spec.source), expected=expected)
    reading.check_names(spec, names)
    places = [names.index(column) for column in columns]
    texts = [partial(_text, write=_writer(spec, column)) for column in columns]
    yield pa.table({column: pa.array([], pa.string()) for column in columns})
    filled = (
        row
        for number, row in _sheet_rows(path, spec.source)
        if number > spec.source.header_row and any(cell not in (None, "") for cell in row.values())
    )
    every, ahead = tee(filled)
    before_footer = (
        row for row, _ in zip(every, islice(ahead, spec.source.footer, None), strict=False)
    )
    rows = reading.guarded_each(spec, before_footer, expected=expected)
    while part := list(islice(rows, ROWS_A_PART)):
        yield pa.table(
            {
                column: pa.array([text(row.get(place)) for row in part], pa.string())
                for column, place, text in zip(columns, places, texts, strict=True)
            }
        )


def sheet_names(path: Path, source: Source) -> list[str]:
    """Return the column names in the header row of a spreadsheet, without empty ones at the end.

    OddFile if the row has no name, or if the file or its sheet cannot be read."""
    rows = (row for number, row in _sheet_rows(path, source) if number == source.header_row)
    row = next(rows, {})
    cells = (row.get(place) for place in range(max(row, default=-1) + 1))
    names = strip_empty_names([_text(cell, write=None) or "" for cell in cells])
    if not names:
        got = "none: write one above the rows, or correct `header_row` if declared"
        raise OddFile("a spreadsheet (.xlsx) with a row of names", got)
    return names


def _sheet_rows(path: Path, source: Source) -> Iterator[tuple[int, Row]]:
    """Yield all rows of a sheet, also those above the names, with their numbers, from 1 on."""
    # It takes a tenth of a second to import, and most sources are none.
    from openpyxl import load_workbook

    # Opened here, for openpyxl judges a file by the end of its name.
    with path.open("rb") as file:
        book = _undamaged(lambda: load_workbook(file, read_only=True, data_only=True))
        if source.sheet and source.sheet not in book.sheetnames:
            got = f"none of this name among the {len(book.sheetnames)} in it: correct `sheet`"
            raise OddFile(f"a sheet {source.sheet!r}", got)
        rows = _undamaged(
            lambda: _parsed_rows(book, book[source.sheet] if source.sheet else book.worksheets[0])
        )
        while row := _undamaged(lambda: next(rows, None)):
            yield row


def _undamaged(read: Callable[[], Result]) -> Result:
    """Return ``read()``, or raise OddFile without the original error, which may quote a cell."""
    try:
        with warnings.catch_warnings():
            # A warning about a cell, such as a date out of range, quotes it.
            warnings.simplefilter("ignore")
            return read()
    except Exception:  # noqa: BLE001 - a reader of archives and XML raises errors of any class
        pass
    # Raised outside the handler, so that no __context__ has the quoted cell.
    raise OddFile(
        "a spreadsheet (.xlsx)",
        "a file that cannot be read as one: open it in a spreadsheet program, and save it as .xlsx",
    )


def _parsed_rows(book: Any, sheet: Any) -> Iterator[tuple[int, Row]]:
    """Yield the numbered rows of a sheet, in which a cell that cannot be read is _UNREADABLE."""
    # By its public names openpyxl gives all cells of a row or none.
    from openpyxl.worksheet._reader import WorkSheetParser

    class CellParser(WorkSheetParser):  # type: ignore[misc]
        col_counter: int

        def parse_cell(self, element: Any) -> dict[str, Any]:
            before = self.col_counter
            try:
                cell: dict[str, Any] = super().parse_cell(element)
            except Exception:  # noqa: BLE001 - a value may be of any form
                self.col_counter = max(self.col_counter, before + 1)
                return {"column": self.col_counter, "value": _UNREADABLE}
            return {**cell, "value": _UNREADABLE} if cell["data_type"] == "e" else cell

    # The size that a sheet declares is not read: some programs write a wrong one.
    with sheet._get_source() as file:  # noqa: SLF001
        parser = CellParser(
            file,
            sheet._shared_strings,  # noqa: SLF001
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,  # noqa: SLF001
            timedelta_formats=book._timedelta_formats,  # noqa: SLF001
        )
        for number, cells in parser.parse():
            yield number, {cell["column"] - 1: cell["value"] for cell in cells}


Write = Callable[[Any], str]


def _writer(spec: DatasetSpec, column: str) -> Write:
    """Return a function from a number or time to its text in the declared form of a column."""
    signs = next(iter(spec.signs_of(column)), PLAIN)
    clock = next(
        (each.clock for each in spec.domain if each.clock and column in each.inputs), None
    ) or (spec.windows.clock if spec.windows and spec.windows.column == column else None)

    def write(value: Any) -> str:
        if isinstance(value, date | time):
            if clock is not None and clock.format:
                return value.strftime(clock.format)
            may_be_day = clock is None or clock.kind == "date"
            if may_be_day and isinstance(value, datetime) and value.time() == time():
                return value.date().isoformat()
            return value.isoformat()
        is_whole = isinstance(value, int) or value.is_integer()
        return signs.localise(str(int(value)) if is_whole else repr(value))

    return write


def _text(cell: Any, *, write: Write | None) -> str | None:
    """Return the text of a cell; empty for a blank cell, None for one that cannot be read."""
    if cell is None or cell is _UNREADABLE:
        return "" if cell is None else None
    if isinstance(cell, bool):
        return str(cell).lower()
    if write is None or not isinstance(cell, int | float | date | time):
        return str(cell)
    return write(cell)
