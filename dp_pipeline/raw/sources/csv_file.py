"""CSV files as tables of text.

On public data the file must be a regular CSV file: quoted cells may hold line
ends, and a row of another length is an error. On sensitive data **one line is one
row**, judged by itself: a line that is no row of the declared length, because of a
missing cell or a quotation mark that nobody closed, is dropped. Otherwise one
person's line could stop a release, or swallow the lines of others.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from dp_pipeline.spec.source import WHITESPACE, Source

_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
# The first of them comes first, and what stands before it is asked behind it: so the search is for
# three plain bytes, and one pass is enough however many marks one person writes.
_MARKS = re.compile(b"%b(?<![^\n\r]%b)(?:%b)*" % ((codecs.BOM_UTF8,) * 3))
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

LONGEST_LINE = 1 << 17
"""Bytes of a sensitive line: pyarrow cannot read one that is longer than a block, 2^20."""


class NoHeader(ValueError):
    """There is no first line with column names."""


class NotUtf8(ValueError):
    """The file says of itself that it is of another encoding."""


def csv_columns(path: Path, source: Source, *, total: bool = False) -> list[str]:
    """The declared header, or the names in the first line that is not blank; NoHeader if none.

    total   the names are in one line: a quotation mark that nobody closed must not make a name of
            the rows behind it

    Raises NotUtf8 where the line of names begins as UTF-16 does. Without such a line nothing is
    read: no row may decide whether the others are.
    """
    if source.header:
        return list(source.header)
    with pa.input_stream(str(path), compression="detect") as stream:
        if stream.read(2) in _UTF_16:
            raise NotUtf8
    with pa.input_stream(str(path), compression="detect") as stream:
        text = io.TextIOWrapper(stream, "utf-8", errors="backslashreplace", newline="")
        lines: Iterator[str] = (line.lstrip(_MARK) for line in text)
        lines = (line for line in lines if not line.startswith(_comment_marks(source)))
        if source.delimiter == WHITESPACE:
            lines = ("\t".join(line.split()) for line in lines)
        if total:
            lines = islice((line for line in lines if line.strip("\r\n")), 1)
        names = next((row for row in csv.reader(lines, delimiter=_delimiter(source)) if row), None)
    if names is None:
        raise NoHeader
    return names


def csv_table(path: Path, source: Source, columns: list[str], *, total: bool) -> pa.Table:
    """The declared ``columns`` as bytes: guessing a type would look at the rows.

    total   one line one row, dropping what is none; else an irregular row is a
            pyarrow.ArrowException
    """
    names = csv_columns(path, source, total=total)
    data = _content(path, source)
    if total:
        rows = b"\n".join(_regular_lines(data, source, cells=len(names)))
    else:
        rows = _without_header(data, source)
    if not rows.strip(b"\r\n"):
        return pa.table({name: pa.array([], pa.binary()) for name in columns})
    return pyarrow.csv.read_csv(
        # Behind a blank line, which is no row: at the very start pyarrow would drop a mark that
        # stood behind white space, and so belongs to its cell.
        pa.py_buffer(b"\n" + rows),
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=_delimiter(source), newlines_in_values=not total
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns, pa.binary()),
            null_values=[],
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )


def _delimiter(source: Source) -> str:
    return "\t" if source.delimiter == WHITESPACE else source.delimiter


def _comment_marks(source: Source) -> tuple[str, ...]:
    """How a line begins that is no row; nothing begins with one of none."""
    return (source.comment,) if source.comment else ()


def _content(path: Path, source: Source) -> bytes:
    """Everything but byte order marks at the beginnings of lines and the lines that are comments;
    between cells one character stands for any white space.

    A line is a comment by its first character alone, even inside of a quoted cell.
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        data = _unmarked(stream.read())
    if source.comment:
        marks = tuple(mark.encode() for mark in _comment_marks(source))
        lines = data.splitlines(keepends=True)
        data = b"".join(line for line in lines if not line.startswith(marks))
    if source.delimiter == WHITESPACE:
        data = b"\n".join(b"\t".join(line.split()) for line in data.splitlines())
    return data


def _unmarked(data: bytes) -> bytes:
    """Without the byte order marks that lines begin with."""
    return _MARKS.sub(b"", data)


def _without_header(data: bytes, source: Source) -> bytes:
    """Everything behind the line of names, which may hold quoted line ends itself."""
    if source.header:
        return data
    # Latin-1 gives every byte one character, so that positions are those of the bytes.
    text = io.StringIO(data.decode("latin-1"), newline="")
    next(row for row in csv.reader(iter(text.readline, ""), delimiter=_delimiter(source)) if row)
    return data[text.tell() :]


def _regular_lines(data: bytes, source: Source, *, cells: int) -> Iterator[bytes]:
    """The lines that are rows of ``cells`` cells, quoted in the one way pyarrow cannot misread."""
    delimiter = _delimiter(source)
    lines = (line for line in data.splitlines() if line)
    if not source.header:
        next(lines, None)
    for line in lines:
        if len(line) > LONGEST_LINE:
            continue
        if b'"' in line:
            row = _quoted_row(line.decode("latin-1"), delimiter)
            if len(row) == cells:
                yield delimiter.join(row).encode("latin-1")
        elif line.count(delimiter.encode()) == cells - 1:
            yield line


def _quoted_row(line: str, delimiter: str) -> list[str]:
    """The cells of one line, each quoted; none when its quotation marks do not add up."""
    try:
        row = next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return []
    return ['"' + cell.replace('"', '""') + '"' for cell in row]
