"""CSV files, read as tables of text, one after the other.

For public data a file must be a regular CSV file: quoted cells may have line ends, and a row of
another length is an error. For sensitive data **one line is one row**: a line of another length,
because of a missing cell or an unclosed quotation mark, is dropped by itself. Otherwise one
person's line could stop a release, or swallow the lines of others.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import WHITESPACE, Source
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.sources.reading import NoHeader, OddFile

_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
# The first mark is matched before the check that a line begins there: so the search is for three
# plain bytes, in one pass over any number of marks.
_MARKS = re.compile(b"%b(?<![^\n\r]%b)(?:%b)*" % ((codecs.BOM_UTF8,) * 3))
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

MAX_LINE_BYTES = 1 << 17
"""Bytes of a line, at most; pyarrow cannot read one that is longer than a block of 2^20 bytes."""
BYTES_A_PART = 1 << 24
"""Bytes of a CSV file that are read at a time."""
MAX_FILE_BYTES = 1 << 32
"""Bytes of a CSV file of public rows, unpacked, at most, since it is read as a whole."""


def read_csv(spec: DatasetSpec, files: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield the rows of every file as bytes, in the order of the declared locations."""
    source = spec.source
    delimiter = source.delimiter
    if delimiter != WHITESPACE and (
        len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'
    ):
        raise DeclarationError(
            f"{spec.name}: source.delimiter: expected one character or {WHITESPACE}, "
            f"got {delimiter!r}"
        )
    for location, path in zip(source.locations, files, strict=True):
        yield from _read_file(replace(spec, source=source.only(location)), path)


def _read_file(spec: DatasetSpec, path: Path) -> Iterator[pa.Table]:
    reading.require_readable(spec, path)
    names = reading.guarded(
        spec,
        lambda: csv_columns(path, spec.source, line_is_row=spec.is_release),
        expected="a CSV file with a header line",
    )
    reading.check_names(spec, names)
    columns = reading.declared_columns(spec)
    yield from reading.guarded_each(
        spec,
        _csv_tables(path, spec.source, names, columns, line_is_row=spec.is_release),
        expected=f"CSV rows of {len(names)} cells",
        got="a row of another length",
    )


def csv_columns(path: Path, source: Source, *, line_is_row: bool = False) -> list[str]:
    """Return the declared header, or the names in the first line that is not blank.

    line_is_row   whether the names end with the line, so that an unclosed quotation mark does not
                  make the following rows part of a name

    NoHeader without such a line, OddFile for UTF-16 text and for too long a line.
    """
    if source.header:
        return list(source.header)
    with pa.input_stream(str(path), compression="detect") as stream:
        if stream.read(2) in _UTF_16:
            raise OddFile("UTF-8 text", "UTF-16: write it as UTF-8")
    with pa.input_stream(str(path), compression="detect") as stream:
        text = io.TextIOWrapper(stream, "utf-8", errors="backslashreplace", newline="")
        lines: Iterator[str] = (line.lstrip(_MARK) for line in _bounded_lines(text))
        lines = (line for line in lines if not line.startswith(_comment_marks(source)))
        if source.delimiter == WHITESPACE:
            lines = ("\t".join(line.split()) for line in lines)
        if line_is_row:
            lines = islice((line for line in lines if line.strip("\r\n")), 1)
        names = next((row for row in csv.reader(lines, delimiter=_delimiter(source)) if row), None)
    if names is None:
        raise NoHeader
    return names


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a file; OddFile for too long a line, before its rest is read."""
    while line := text.readline(MAX_LINE_BYTES + 1):
        # In bytes; those that are no text are at least one byte each in this encoding too.
        if len(line.encode()) > MAX_LINE_BYTES:
            raise _long_line()
        yield line


def _long_line() -> OddFile:
    return OddFile(f"lines of at most {MAX_LINE_BYTES:,} bytes", "a longer one")


def _csv_tables(
    path: Path, source: Source, names: list[str], columns: list[str], *, line_is_row: bool
) -> Iterator[pa.Table]:
    """Yield the declared ``columns`` as bytes, in one or more tables.

    names         names of all columns of the file
    line_is_row   whether irregular lines are dropped and the file is read part by part; else an
                  irregular row is a pyarrow.ArrowException, too long a line or file an OddFile
    """
    yield pa.table({name: pa.array([], pa.binary()) for name in columns})
    if not line_is_row:
        rows = _without_header(_content(_file_content(path), source), source)
        if rows.strip(b"\r\n"):
            yield _parse(rows, names, columns, source, line_is_row=False)
        return
    has_header = not source.header
    for part in _file_parts(path, line_is_row=True):
        lines = [line for line in _content(part, source).splitlines() if line]
        if has_header and lines:
            del lines[0]
            has_header = False
        rows = b"\n".join(_regular_lines(lines, source, cells=len(names)))
        if rows.strip(b"\r\n"):
            yield _parse(rows, names, columns, source, line_is_row=True)


def _file_content(path: Path) -> bytes:
    """Return the content of a file; OddFile as soon as it is too long."""
    parts, size = [], 0
    for part in _file_parts(path, line_is_row=False):
        parts.append(part)
        size += len(part)
        if size > MAX_FILE_BYTES:
            expected = f"at most {MAX_FILE_BYTES:,} bytes of public rows in one CSV file, unpacked"
            raise OddFile(expected, "more: write them to Parquet")
    return b"".join(parts)


def _file_parts(path: Path, *, line_is_row: bool) -> Iterator[bytes]:
    """Yield the content of a file in parts of about BYTES_A_PART, of whole lines.

    line_is_row   whether a line longer than MAX_LINE_BYTES is dropped; else it is an OddFile
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        pending = b""
        while part := stream.read(BYTES_A_PART):
            pending += part
            # A carriage return at the very end may be the first half of a line end.
            end = 1 + max(pending.rfind(b"\n"), pending.rfind(b"\r", 0, len(pending) - 1))
            if end:
                yield _short_lines(pending[:end], line_is_row=line_is_row)
                pending = pending[end:]
            if len(pending) > MAX_LINE_BYTES + 1:
                # Enough of a line to recognise it as too long; its last byte may be half of a line
                # end.
                pending = pending[: MAX_LINE_BYTES + 1] + pending[-1:]
                if not line_is_row:
                    raise _long_line()
        if pending:
            yield _short_lines(pending, line_is_row=line_is_row)


def _short_lines(content: bytes, *, line_is_row: bool) -> bytes:
    lines = content.splitlines(keepends=True)
    if max(map(len, lines)) <= MAX_LINE_BYTES:
        return content
    if not line_is_row:
        raise _long_line()
    return b"".join(line for line in lines if len(line) <= MAX_LINE_BYTES)


def _parse(
    rows: bytes, names: list[str], columns: list[str], source: Source, *, line_is_row: bool
) -> pa.Table:
    return pyarrow.csv.read_csv(
        # After a blank line, which is no row: at the very start pyarrow would drop a byte order
        # mark, which here stood after white space and belongs to its cell.
        pa.py_buffer(b"\n" + rows),
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=_delimiter(source), newlines_in_values=not line_is_row
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
    return (source.comment,) if source.comment else ()


def _content(data: bytes, source: Source) -> bytes:
    """Remove byte order marks at the beginning of lines, and comments; replace white space between
    cells by one character.

    A line is a comment by its first character, even in a quoted cell.
    """
    data = _MARKS.sub(b"", data)
    if source.comment:
        marks = tuple(mark.encode() for mark in _comment_marks(source))
        lines = data.splitlines(keepends=True)
        data = b"".join(line for line in lines if not line.startswith(marks))
    if source.delimiter == WHITESPACE:
        data = b"\n".join(b"\t".join(line.split()) for line in data.splitlines())
    return data


def _without_header(data: bytes, source: Source) -> bytes:
    """Return the rows after the header, whose names may have quoted line ends."""
    if source.header:
        return data
    # Latin-1 has one character for every byte, so that positions are those of bytes.
    text = io.StringIO(data.decode("latin-1"), newline="")
    next(row for row in csv.reader(iter(text.readline, ""), delimiter=_delimiter(source)) if row)
    return data[text.tell() :]


def _regular_lines(lines: Sequence[bytes], source: Source, *, cells: int) -> Iterator[bytes]:
    """Yield the lines that are rows of ``cells`` cells, quoted unambiguously for pyarrow."""
    delimiter = _delimiter(source)
    for line in lines:
        if b'"' in line:
            row = _quoted_row(line.decode("latin-1"), delimiter)
            if len(row) == cells:
                yield delimiter.join(row).encode("latin-1")
        elif line.count(delimiter.encode()) == cells - 1:
            yield line


def _quoted_row(line: str, delimiter: str) -> list[str]:
    try:
        row = next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return []
    return ['"' + cell.replace('"', '""') + '"' for cell in row]
