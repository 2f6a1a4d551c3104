"""What every reader of a source does: open files, look for the columns, refuse in one line.

Plain columns: text or numbers, and nothing else goes on. As what a column goes on is decided by the
types in the schemas of its files, before a row is read: neither a refusal nor a type depends on
rows, or on how many there are. Persons are compared as whole numbers or as bytes: a floating number
rounds whole ones from 2^53 on, so that one person would be two, or two of them one.

CSV files are read here, as tables of text. On public data the file must be a regular CSV file:
quoted cells may hold line ends, and a row of another length is an error. On sensitive data **one
line is one row**, judged by itself: a line that is no row of the declared length, because of a
missing cell or a quotation mark that nobody closed, is dropped. Otherwise one person's line could
stop a release, or swallow the lines of others.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.source import WHITESPACE, Source
from dp_pipeline.config.system_errors import require_regular
from dp_pipeline.raw.values import PLAIN, REAL, TEXT, WHOLE, kind_of, texts, times, type_word

_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
# The first of them comes first, and what stands before it is asked behind it: so the search is for
# three plain bytes, and one pass is enough however many marks one person writes.
_MARKS = re.compile(b"%b(?<![^\n\r]%b)(?:%b)*" % ((codecs.BOM_UTF8,) * 3))
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

LONGEST_LINE = 1 << 17
"""Bytes of a line: pyarrow cannot read one that is longer than a block, 2^20."""
LONGEST_CELL = 1 << 10
"""Bytes of a text: no level, number, date or id is longer, and a dictionary of Parquet repeats one
of any length for each row."""
BYTES_A_PART = 1 << 24
"""Of a CSV file, which is read part by part."""
BYTES_A_FILE = 1 << 32
"""Of a CSV file of public rows, unpacked: only sensitive lines are rows one by one, so that they
need not be in memory together."""


class NoHeader(ValueError):
    """There is no first line with column names."""


class OddFile(ValueError):
    """The file is not as its kind of file has to be, whatever its rows are."""

    def __init__(self, expected: str, got: str) -> None:
        self.expected, self.got = expected, got
        super().__init__(got)


_LONG_LINE = f"lines of at most {LONGEST_LINE:,} bytes", "a longer one"


def csv_columns(path: Path, source: Source, *, total: bool = False) -> list[str]:
    """The declared header, or the names in the first line that is not blank; NoHeader if none.

    total   the names are in one line: a quotation mark that nobody closed must not make a name of
            the rows behind it

    Raises OddFile where the line of names begins as UTF-16 does, and where there is no end of a
    line in sight. Without such a line nothing is read: no row may decide whether the others are.
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
        if total:
            lines = islice((line for line in lines if line.strip("\r\n")), 1)
        names = next((row for row in csv.reader(lines, delimiter=_delimiter(source)) if row), None)
    if names is None:
        raise NoHeader
    return names


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of a file; OddFile for one that is too long, before its rest is read."""
    while line := text.readline(LONGEST_LINE + 1):
        # As bytes, of which those that are no text are at least one each here too.
        if len(line.encode()) > LONGEST_LINE:
            raise OddFile(*_LONG_LINE)
        yield line


def csv_tables(
    path: Path, source: Source, columns: list[str], *, total: bool
) -> Iterator[pa.Table]:
    """The declared ``columns`` as bytes, one table or more: guessing a type would look at the rows.

    total   one line one row, dropping what is none, and a part of the file at a time; else an
            irregular row is a pyarrow.ArrowException, a line or a file that is too long is an
            OddFile, and the file is read whole
    """
    names = csv_columns(path, source, total=total)
    yield pa.table({name: pa.array([], pa.binary()) for name in columns})
    if not total:
        rows = _without_header(_content(_whole_file(path), source), source)
        if rows.strip(b"\r\n"):
            yield _parsed(rows, names, columns, source, total=False)
        return
    is_header = not source.header
    for block in _whole_lines(path, total=True):
        lines = [line for line in _content(block, source).splitlines() if line]
        if is_header and lines:
            del lines[0]
            is_header = False
        rows = b"\n".join(_regular_lines(lines, source, cells=len(names)))
        if rows.strip(b"\r\n"):
            yield _parsed(rows, names, columns, source, total=True)


def _whole_file(path: Path) -> bytes:
    """Return the content of a file; OddFile before more of it is in memory than may be."""
    parts, size = [], 0
    for part in _whole_lines(path, total=False):
        parts.append(part)
        size += len(part)
        if size > BYTES_A_FILE:
            expected = f"at most {BYTES_A_FILE:,} bytes of public rows in one CSV file, unpacked"
            raise OddFile(expected, "more: write them to Parquet")
    return b"".join(parts)


def _whole_lines(path: Path, *, total: bool) -> Iterator[bytes]:
    """Yield the content of a file in parts of about BYTES_A_PART, each of whole lines. However long
    a line is, no more of it is in memory than such a part.

    total   a line longer than LONGEST_LINE is left out, as it is no row; else it is an OddFile
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        rest = b""
        while part := stream.read(BYTES_A_PART):
            rest += part
            # A carriage return at the very end may be the first half of a line end.
            end = 1 + max(rest.rfind(b"\n"), rest.rfind(b"\r", 0, len(rest) - 1))
            if end:
                yield _short_lines(rest[:end], total=total)
                rest = rest[end:]
            if len(rest) > LONGEST_LINE + 1:
                # Of a line without an end this is enough to know it by; its last byte may be half
                # of a line end.
                rest = rest[: LONGEST_LINE + 1] + rest[-1:]
                if not total:
                    raise OddFile(*_LONG_LINE)
        if rest:
            yield _short_lines(rest, total=total)


def _short_lines(lines: bytes, *, total: bool) -> bytes:
    """Return the lines that are not too long, each judged as it stands in the file: white space and
    marks that are taken away later must not make one shorter.
    """
    each = lines.splitlines(keepends=True)
    if max(map(len, each)) <= LONGEST_LINE:
        return lines
    if not total:
        raise OddFile(*_LONG_LINE)
    return b"".join(line for line in each if len(line) <= LONGEST_LINE)


def _parsed(
    rows: bytes, names: list[str], columns: list[str], source: Source, *, total: bool
) -> pa.Table:
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


def _content(data: bytes, source: Source) -> bytes:
    """Whole lines of a file, without byte order marks at their beginnings and without those that
    are comments; between cells one character stands for any white space.

    A line is a comment by its first character alone, even inside of a quoted cell.
    """
    data = _unmarked(data)
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


def _regular_lines(lines: Sequence[bytes], source: Source, *, cells: int) -> Iterator[bytes]:
    """The lines that are rows of ``cells`` cells, quoted in the one way pyarrow cannot misread."""
    delimiter = _delimiter(source)
    for line in lines:
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


Result = TypeVar("Result")


def declared_columns(spec: DatasetSpec) -> list[str]:
    """Every declared column once, in the order declared."""
    return list(dict.fromkeys(spec.columns))


def refusal(spec: DatasetSpec, expected: str, got: str) -> SourceError:
    """The error of one source, of which nothing is quoted."""
    return SourceError(f"{spec.name}: {spec.source.identity}: expected {expected}, got {got}")


def guarded(
    spec: DatasetSpec, read: Callable[[], Result], *, expected: str, got: str = "a damaged one"
) -> Result:
    """``read()``, or a SourceError that is not even chained to the error that quotes rows."""
    try:
        return read()
    except OSError:
        got = "a damaged or truncated one"
    except OddFile as odd:
        expected, got = odd.expected, odd.got
    except (pa.ArrowException, UnicodeError, csv.Error, NoHeader):
        pass
    # Raised outside of the handler, so that no __context__ carries the quoted row along.
    raise refusal(spec, expected, got)


def guarded_each(
    spec: DatasetSpec,
    tables: Iterator[pa.Table],
    *,
    expected: str,
    got: str = "a damaged one",
) -> Iterator[pa.Table]:
    """The same of tables that are read one after the other."""
    while True:
        table = guarded(spec, lambda: next(tables, None), expected=expected, got=got)
        if table is None:
            return
        yield table


def require_readable(spec: DatasetSpec, path: Path) -> None:
    """SourceError unless the file opens and holds a byte, or needs none to have columns."""
    try:
        # A pipe would wait for whoever writes to it, and a device may never end.
        require_regular(path, path.stat().st_mode)
        with path.open("rb") as file:
            is_empty = not file.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "a path that cannot be"
        where = ": put it there, or mend `source`" if isinstance(error, FileNotFoundError) else ""
        raise refusal(spec, "a file that can be read", f"{reason}{where}") from None
    if is_empty and not spec.source.header:
        raise refusal(spec, "a file with columns", "one of 0 bytes")


def check_names(spec: DatasetSpec, names: Sequence[str]) -> None:
    """Every declared column is there and no name stands twice.

    Names of the source are counted, not quoted: without a header line they are a row.
    """
    if len(set(names)) != len(names):
        raise refusal(spec, "a name of its own for each column", "a name that stands twice")
    for name in declared_columns(spec):
        if name not in names:
            raise refusal(spec, f"a column {name!r}", f"{len(names)} columns without it")


_TEXT = TEXT | {pa.string_view()}
_AS_BYTES = ("csv", "sql")
"""Kinds of sources whose text arrives as bytes: one cell that is none must not stop the others."""

_LARGEST_SIGNED = 4
"""Bytes of the largest whole number without a sign that fits into one of 8 bytes with a sign."""


def plain_types(spec: DatasetSpec, schemas: Sequence[pa.Schema]) -> dict[str, pa.DataType]:
    """As what each declared column of all parts goes on: declared column → type.

    schemas   of the parts of the source, which have every declared column

    Parts of one type keep it. Whole numbers of several sizes become 64 bits, or text where none
    holds all of them; floating numbers become doubles. Whole numbers beside floating ones, and
    numbers beside text, become text, each cell by itself, so that no digit is lost. A column
    without a type, as one without a value is stored, goes with the others. Dates beside times
    become times.

    SourceError for a column that is neither text nor numbers, nor one of dates or times that is
    declared as such, for times of which some parts have a zone and others none, and for a person's
    column that is neither text nor whole numbers, or text in one part and whole numbers in another.
    """
    return {
        name: _plain_type(spec, name, [schema.field(name).type for schema in schemas])
        for name in declared_columns(spec)
    }


def plain_columns(
    spec: DatasetSpec, table: pa.Table, types: dict[str, pa.DataType] | None = None
) -> pa.Table:
    """The declared columns, in the order declared.

    types   of all parts of the source, where the table is one part
    """
    types = plain_types(spec, [table.schema]) if types is None else types
    return pa.table(
        {name: _converted(spec, name, table.column(name), type_) for name, type_ in types.items()}
    )


def _plain_type(spec: DatasetSpec, name: str, found: Sequence[pa.DataType]) -> pa.DataType:
    kinds = dict.fromkeys(_checked(spec, name, type_) for type_ in found)
    kinds.pop(pa.null(), None)
    if not kinds:
        return pa.string()
    if kinds.keys() <= WHOLE:
        return _whole_type(tuple(kinds))
    if kinds.keys() <= REAL:
        return next(iter(kinds)) if len(kinds) == 1 else pa.float64()
    if name in spec.times and not kinds.keys() <= _TEXT:
        return _time_type(spec, name, tuple(kinds))
    if name == spec.protection.column and not kinds.keys() <= _TEXT:
        raise refusal(
            spec,
            f"ids of one kind in all files of the person's column {name!r}",
            "text and whole numbers: write all of them as int64, or all as text",
        )
    return pa.string()


def _checked(spec: DatasetSpec, name: str, type_: pa.DataType) -> pa.DataType:
    """The type of the cells of one part; SourceError unless it can go on."""
    if pa.types.is_dictionary(type_):
        return _checked(spec, name, type_.value_type)
    if type_ == pa.binary() and spec.source.kind in _AS_BYTES:
        return pa.string()
    if name == spec.protection.column:
        if type_ in _TEXT | WHOLE | {pa.null()}:
            return type_
        rounds = ", which rounds large ids" if pa.types.is_floating(type_) else ""
        expected = f"text or whole numbers in the person's column {name!r}"
        advice = "write it as int64 or text (pandas: Int64 or string)"
        raise refusal(spec, expected, f"the type {type_word(type_)}{rounds}: {advice}")
    if name in spec.times:
        if type_ in _TEXT | {pa.null()} or kind_of(type_) == "time":
            return type_
        raise refusal(
            spec, f"text, dates or times in column {name!r}", f"the type {type_word(type_)}"
        )
    if type_ in _TEXT | WHOLE | REAL | {pa.bool_(), pa.null()}:
        return type_
    advice = "write it as float64, int64 or text"
    if kind_of(type_) == "time":
        advice = f"declare `type: date` or `type: timestamp` of it, or {advice}"
    raise refusal(
        spec, f"text or numbers in column {name!r}", f"the type {type_word(type_)}: {advice}"
    )


def _time_type(spec: DatasetSpec, name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Days, or seconds by UTC, or seconds by a clock that only the declaration knows."""
    if any(kind_of(one) != "time" for one in kinds):
        expected = f"text or dates or times in column {name!r}, the same in all parts"
        raise refusal(spec, expected, f"the type {' and '.join(map(type_word, kinds))}")
    stamps = [one for one in kinds if pa.types.is_timestamp(one)]
    if not stamps:
        return pa.date32()
    if len({one.tz is None for one in stamps}) > 1 or (stamps[0].tz and len(stamps) < len(kinds)):
        expected = f"times with a zone in all parts of column {name!r}, or in none"
        raise refusal(spec, expected, "some with one")
    return pa.timestamp("s", "UTC" if stamps[0].tz else None)


def _whole_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    if len(kinds) == 1:
        return kinds[0]
    unsigned = [kind for kind in kinds if pa.types.is_unsigned_integer(kind)]
    if len(unsigned) == len(kinds):
        return pa.uint64()
    fits = all(kind.bit_width <= 8 * _LARGEST_SIGNED for kind in unsigned)
    # The digits of a whole number are it and no other: no two become one.
    return pa.int64() if fits else pa.string()


def _converted(
    spec: DatasetSpec, name: str, column: pa.ChunkedArray, type_: pa.DataType
) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        # The cells of a dictionary before they are repeated for each row: a long one becomes short.
        pairs = [
            (_converted(spec, name, pa.chunked_array([chunk.dictionary]), type_), chunk.indices)
            for chunk in column.chunks
        ]
        parts = guarded(
            spec,
            lambda: [part for cells, indices in pairs for part in cells.take(indices).chunks],
            expected="rows that name cells of their dictionary",
        )
        return pa.chunked_array(parts, type_)
    if column.type == pa.binary() or column.type in _TEXT:
        return _text(spec, name, column)
    if column.type in REAL and type_ == pa.string():
        places, words = texts(column)
        signs = next(iter(spec.signs_of(name)), PLAIN)
        # Each text will be read by the declared signs.
        words[:] = [None if word is None else signs.localise(word) for word in words]
        written = [words[place] if place >= 0 else None for place in places]
        return pa.chunked_array([pa.array(written, pa.string())])
    if kind_of(column.type) == "time":
        return converted_times(column, type_)
    return column.cast(type_)


def converted_times(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """ISO texts or times as days or whole seconds: empty where there is no such date here, and
    never an error, however much finer or earlier they were stored.
    """
    clock = Clock("date" if type_ == pa.date32() else "timestamp")
    values = times(column, clock)
    gaps = np.isnan(values)
    whole = np.where(gaps, 0, values).astype(np.int32 if type_ == pa.date32() else np.int64)
    return pa.chunked_array([pa.array(whole, mask=gaps).cast(type_)])


def _text(spec: DatasetSpec, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells as UTF-8 text. Bytes that are none, and cells that are too long, are an error of public
    data. On sensitive data they spoil their own cell: replaced or cut in an attribute, and no
    person at all in the person's column, where that would make one person of two.
    """
    cells = column.cast(pa.binary())
    is_long = pc.greater(pc.binary_length(cells), LONGEST_CELL)
    if pc.any(is_long).as_py():
        if not spec.is_release:
            expected = f"cells of at most {LONGEST_CELL:,} bytes in column {name!r}"
            raise refusal(spec, expected, "a longer one")
        is_person = name == spec.protection.column
        short = None if is_person else pc.binary_slice(cells, 0, LONGEST_CELL + 1)
        cells = pc.if_else(is_long, short, cells)
    if not spec.is_release:
        return guarded(
            spec,
            lambda: cells.cast(pa.string()),
            expected="UTF-8 text in every column",
            got="bytes that are not",
        )
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        is_person = name == spec.protection.column
        decoded = [_decoded(cell, is_person=is_person) for cell in cells.to_pylist()]
        return pa.chunked_array([pa.array(decoded, pa.string())])


def _decoded(cell: bytes | None, *, is_person: bool) -> str | None:
    if cell is None:
        return None
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None if is_person else cell.decode(errors="replace")
