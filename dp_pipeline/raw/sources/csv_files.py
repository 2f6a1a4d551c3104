"""CSV files, read as tables of text, one after the other.

On public data a file must be a regular CSV file: quoted cells may hold line ends, and a row of
another length or an open quotation mark is an error. On sensitive data **one line is one row**,
judged by itself, unless the file declares `multiline: N`: then a quoted cell may go on over N
lines. A line that is no row, for its cells or an unclosed quotation mark, is left out and counted
for the custodian. Otherwise one person's line could stop a release, or swallow the lines of others
(``_RowReader`` has the proof). Cells behind the last named column may be there or not where they
are empty, and a row may end behind the last declared column: what nobody declares makes no row bad.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import WHITESPACE, Source
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.sources.reading import OddFile

_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
# The first mark is matched before the check that a line begins there: so the search is for three
# plain bytes, in one pass over any number of marks.
_MARKS = re.compile(b"%b(?<![^\n\r]%b)(?:%b)*" % ((codecs.BOM_UTF8,) * 3))
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_LINE_BYTES = 1 << 17  # Bytes of a line, at most; pyarrow cannot read one of over 2^20 bytes
BYTES_A_PART = 1 << 24  # Bytes of a CSV file that are read at a time
_END = "\x04end"  # Cell of a row behind the last one, which an open quotation mark swallows
MAX_FILE_BYTES = 1 << 32  # Bytes of a CSV file of public rows, unpacked, at most; it is read whole


def read_csv(spec: DatasetSpec, files: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield tables of the declared columns of each CSV file, one file after the other.

    Cells are bytes. The first table of a file has no rows.

    files   in the order of the declared locations

    SourceError for an unreadable file."""
    for location, path in zip(spec.source.locations, files, strict=True):
        yield from _read_file(replace(spec, source=spec.source.single_file(location)), path)


def _read_file(spec: DatasetSpec, path: Path) -> Iterator[pa.Table]:
    reading.require_readable(spec, path)
    names = reading.guarded(
        spec,
        lambda: csv_columns(path, spec.source, line_is_row=spec.is_release),
        expected="a CSV file with a header line",
    )
    nonempty_names = strip_empty_names(names)
    # Public rows have a cell for each empty name at the end too, which gets a blank name.
    unnamed = () if spec.is_release else range(len(nonempty_names), len(names))
    names = [*nonempty_names, *(f" {place}" for place in unnamed)]
    reading.check_names(spec, names)
    columns = reading.declared_columns(spec)
    yield from reading.guarded_each(
        spec,
        _csv_tables(path, spec.source, names, columns, line_is_row=spec.is_release),
        expected=f"CSV rows of {len(names)} cells",
        got="a row of another length: correct it, or declare another `delimiter`",
    )


def csv_columns(path: Path, source: Source, *, line_is_row: bool = False) -> list[str]:
    """Return the declared names of all columns, or else the cells of a file's header.

    The header is the first row, from line `header_row` on, that is neither blank nor a comment.

    line_is_row   whether the names end with the line, so that an unclosed quotation mark does not
                  make the following rows part of a name

    OddFile if there is no such row, for UTF-16 text, for too long a line and for a quotation mark
    that stays open.
    """
    if source.header:
        return list(source.header)
    if not source.encoding:
        with pa.input_stream(str(path), compression="detect") as stream:
            if stream.read(2) in _UTF_16:
                raise OddFile("UTF-8 text", "UTF-16: declare `encoding: utf-16`")
    with pa.input_stream(str(path), compression="detect") as file:
        utf_8: Any = _Transcoded(file, source.encoding) if source.encoding else file
        text = io.TextIOWrapper(utf_8, "utf-8", errors="backslashreplace", newline="")
        lines: Iterator[str] = (line.lstrip(_MARK) for line in _bounded_lines(text))
        lines = islice(lines, source.header_row - 1, None)
        if source.comment:
            lines = (line for line in lines if not line.startswith(source.comment))
        if source.delimiter == WHITESPACE:
            lines = ("\t".join(line.split()) for line in lines)
        if line_is_row:
            lines = islice((line for line in lines if line.strip("\r\n")), 1)
        else:
            lines = chain(lines, [_END])
        rows = csv.reader(lines, delimiter=_delimiter(source))
        try:
            names = next(filter(None, rows), [_END])
        except csv.Error:
            # A name is over the limit of the reader, and no line is as long as that.
            raise _open_quotation("in the names") from None
    if names == [_END]:
        raise OddFile(
            "a CSV file with a header line",
            "no row of names: write one above the rows, give the names by `header`, or correct "
            "`header_row` if declared",
        )
    if names[-1].endswith(_END):
        raise _open_quotation("in the names")
    return names


def strip_empty_names(names: Sequence[str]) -> list[str]:
    """Return column names without the empty ones at the end, which spreadsheets write.

    >>> strip_empty_names(["a", "", "b", "", ""])
    ['a', '', 'b']
    """
    last = max((place for place, name in enumerate(names) if name.strip()), default=-1)
    return list(names[: last + 1])


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(MAX_LINE_BYTES + 1):
        # Bytes that are no text are at least one byte each in this encoding too.
        if len(line.encode()) > MAX_LINE_BYTES:
            raise _long_line()
        yield line


def _long_line() -> OddFile:
    return OddFile(f"lines of at most {MAX_LINE_BYTES:,} bytes", "a longer line: shorten it")


def _open_quotation(place: str) -> OddFile:
    got = f"one {place} that stays open: close or remove it"
    return OddFile("quotation marks that are closed", got)


def _csv_tables(
    path: Path, source: Source, names: list[str], columns: list[str], *, line_is_row: bool
) -> Iterator[pa.Table]:
    """Yield the declared ``columns`` as bytes, in one or more tables.

    names         names of all columns of the file
    line_is_row   whether irregular lines are dropped and the file is read part by part; else an
                  irregular row is a pyarrow.ArrowException, too long a line or file, or an open
                  quotation mark, an OddFile
    """
    yield pa.table({name: pa.array([], pa.binary()) for name in columns})
    if not line_is_row:
        content = _file_content(path, source)
        if source.header_row > 1:
            content = b"".join(content.splitlines(keepends=True)[source.header_row - 1 :])
        rows = _without_header(_content(content, source), source)
        if rows.strip(b"\r\n"):
            try:
                table = _parse(rows, names, columns, source, line_is_row=False)
            except pa.ArrowInvalid as error:
                # A row is over a block of pyarrow, and no line is as long as that.
                if "straddl" in str(error):
                    raise _open_quotation(_place_of_last_row(path, source)) from None
                raise
            if table.column(0)[-1].as_py() != _END.encode():
                raise _open_quotation(_place_of_last_row(path, source))
            yield table.slice(0, len(table) - 1)
        return
    reader = _RowReader(source, names, columns)
    for lines in _row_lines(path, source):
        rows = b"\n".join(reader.rows(lines))
        if rows.strip(b"\r\n"):
            yield _parse(rows, names, columns, source, line_is_row=True)


def unreadable_lines(spec: DatasetSpec) -> Counter[str]:
    """Return, by reason, the number of lines of all files that cannot be read as rows.

    It is for the data custodian alone."""
    reasons: Counter[str] = Counter()
    for location in spec.source.locations:
        source, path = spec.source.single_file(location), Path(location)
        names = strip_empty_names(csv_columns(path, source, line_is_row=True))
        reader = _RowReader(source, names, reading.declared_columns(spec))
        for lines in _row_lines(path, source):
            for _ in reader.rows(lines):
                pass
        reasons += reader.unreadable
    return reasons


def count_odd_lines(spec: DatasetSpec) -> tuple[int, int]:
    """Return how many lines hold bytes that are no text, and how many files seem to have a footer.

    A file seems to have one if it declares none, and its last line has three or more cells, of
    which at most one is filled.
    """
    odd_texts = footers = 0
    for location in spec.source.locations:
        source, last = spec.source.single_file(location), b""
        for lines in _row_lines(Path(location), source):
            odd_texts += sum(reading.utf8_or_none(line) is None for line in lines or [])
            last = lines[-1] if lines else last
        cells = last.split(_delimiter(source).encode())
        footers += not source.footer and len(cells) > 2 and sum(map(bool, cells)) < 2
    return odd_texts, footers


def _row_lines(path: Path, source: Source) -> Iterator[list[bytes] | None]:
    """Yield lists of the lines after the header, without blank ones; yield None at the end."""
    above, has_header = source.header_row - 1, not source.header
    for part in _file_parts(path, source, line_is_row=True):
        content = part
        if above:
            # Lines above the names are counted as they are, also blank ones and comments.
            lines = part.splitlines(keepends=True)
            content = b"".join(lines[above:])
            above = max(0, above - len(lines))
        lines = [line for line in _content(content, source).splitlines() if line]
        if has_header and lines:
            del lines[0]
            has_header = False
        yield lines
    yield None


def _file_content(path: Path, source: Source) -> bytes:
    content = bytearray()
    for part in _file_parts(path, source, line_is_row=False):
        content += part
        if len(content) > MAX_FILE_BYTES:
            expected = f"at most {MAX_FILE_BYTES:,} bytes of public rows in one CSV file, unpacked"
            raise OddFile(expected, "more: write them to Parquet")
    return bytes(content)


class _Transcoded(io.BufferedIOBase):
    """A stream of text in another encoding, converted to UTF-8.

    Bytes that are not valid in the encoding become a byte that is not valid in UTF-8, so that they
    spoil their own cell and are never read as another text. In UTF-16 and UTF-32 a line ends at its
    bytes wherever they stand: half a character more or less shifts no other line.

    OddFile for UTF-16 or UTF-32 without a byte order, neither in the file nor declared.
    """

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream, self._pending = stream, b""
        encoding = codecs.lookup(encoding).name
        if encoding in _BYTE_ORDERS:
            orders = _BYTE_ORDERS[encoding]
            mark = stream.read(len(next(iter(orders))))
            if mark not in orders:
                expected = f"{encoding} text that begins with a byte order mark"
                raise OddFile(expected, f"none: declare `encoding: {encoding}-le` or {encoding}-be")
            encoding = orders[mark]
        self._decoder = codecs.getincrementaldecoder(encoding)(errors=_UNREADABLE)
        self._width = len("\n".encode(encoding))
        ends = (re.escape(end.encode(encoding)) for end in "\r\n")
        self._line_end = re.compile(b"(%b)" % b"|".join(ends))
        # A half of a pair of surrogates, which is no text.
        self._invalid = "\udc00".encode(encoding, "surrogatepass") if self._width > 1 else b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes, at least one unless the stream has ended."""
        while data := self._stream.read(size or -1):
            if text := self._decoder.decode(self._aligned(data)):
                return text.encode("utf-8", "surrogateescape")
        remainder, self._pending = self._pending, b""
        return self._decoder.decode(remainder, final=True).encode("utf-8", "surrogateescape")

    read1 = read

    def _aligned(self, data: bytes) -> bytes:
        """Return the bytes that waited, then ``data``, with every character complete.

        A character that a line end cuts becomes an invalid one. The last bytes may wait for the
        next call."""
        width = self._width
        if width == 1:
            return data
        parts = self._line_end.split(self._pending + data)
        # Its last bytes may be the first ones of a line end.
        ready = max(0, len(parts[-1]) // width - 1) * width
        self._pending, parts[-1] = parts[-1][ready:], parts[-1][:ready]
        return b"".join(
            part[: len(part) // width * width] + self._invalid if len(part) % width else part
            for part in parts
        )


_BYTE_ORDERS = {
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}
_UNREADABLE = "dp_pipeline.unreadable"


def _mark_unreadable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


codecs.register_error(_UNREADABLE, _mark_unreadable)


def _file_parts(path: Path, source: Source, *, line_is_row: bool) -> Iterator[bytes]:
    """Yield the content of a file as UTF-8 in parts of about BYTES_A_PART, each of whole lines.

    However long a line is, no more of it is in memory than such a part.

    line_is_row   whether a line longer than MAX_LINE_BYTES is dropped; else it is an OddFile
    """
    with pa.input_stream(str(path), compression="detect") as file:
        stream = _Transcoded(file, source.encoding) if source.encoding else file
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
    end = b"" if line_is_row else b"\n" + _delimiter(source).join([_END] * len(names)).encode()
    return pyarrow.csv.read_csv(
        # After a blank line, which is no row: at the very start pyarrow would drop a byte order
        # mark, which here stood after white space and belongs to its cell.
        pa.py_buffer(b"\n%b%b" % (rows, end)),
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


def _content(data: bytes, source: Source) -> bytes:
    """Return lines without byte order marks and comments; white space that splits cells is a tab.

    A line is a comment by its first character, even in a quoted cell.
    """
    data = _MARKS.sub(b"", data)
    if source.comment:
        lines, mark = data.splitlines(keepends=True), source.comment.encode()
        data = b"".join(line for line in lines if not line.startswith(mark))
    if source.delimiter == WHITESPACE:
        data = b"\n".join(b"\t".join(line.split()) for line in data.splitlines())
    return data


def _without_footer(data: bytes, source: Source) -> bytes:
    if not source.footer:
        return data
    lines = data.splitlines(keepends=True)
    filled = [place for place, line in enumerate(lines) if line.strip(b"\r\n")]
    return b"".join(lines[: filled[-source.footer]]) if len(filled) >= source.footer else b""


def _place_of_last_row(path: Path, source: Source) -> str:
    """Return in words from which line the last row is, or the first one with too long a cell."""
    # Comments become blank lines, so that each line keeps its number.
    content = _file_content(path, source)
    data = b"\n".join(_content(line, source) for line in content.splitlines())
    lines = _without_footer(data, source).decode("latin-1").split("\n")[source.header_row - 1 :]
    rows = csv.reader((f"{line}\n" for line in lines), delimiter=_delimiter(source))
    start = end = 0
    try:
        for _ in rows:
            start, end = end, rows.line_num
    except csv.Error:
        start = end
    return f"from line {source.header_row + start} on"


def _without_header(data: bytes, source: Source) -> bytes:
    """Return the lines after the row of names, if the file has one, and before the footer."""
    data = _without_footer(data, source)
    if source.header:
        return data
    # Latin-1 gives every byte one character, so that positions are those of the bytes.
    text = io.StringIO(data.decode("latin-1"), newline="")
    next(row for row in csv.reader(iter(text.readline, ""), delimiter=_delimiter(source)) if row)
    return data[text.tell() :]


class _RowReader:
    """A reader of sensitive lines that yields rows of a fixed number of cells, safely quoted.

    A *candidate* is a line at which a row of the right number of cells would begin and end within
    `multiline` = N lines; that depends on these lines alone. Rows are the candidates one behind the
    other: reading goes on behind a row, and behind the first line of what is none.

    *One line more changes how fewer than 4N lines are read, whatever it holds.* A candidate is
    *certain* where no earlier one reaches over its line: wherever reading began, it has a row begin
    there. So whether a line begins a row depends on the lines since the last certain one, and
    where that is 2N lines back or more the line is left out. Together these are the lines from
    3N − 1 before it to N − 1 behind it, and a line more is among those of fewer than 4N. ∎ Without
    `multiline` N is 1 and every candidate is certain: a line changes itself alone. Where the writer
    doubles quotation marks and no 2N lines are without a certain one, reading is exact, as each row
    ends where the next one begins: there too a row more changes itself alone.

    unreadable   why lines were no rows → how many
    """

    def __init__(self, source: Source, names: Sequence[str], columns: Iterable[str]) -> None:
        self._delimiter = _delimiter(source)
        self._cells, self._lines, self._footer = len(names), source.multiline, source.footer
        self._least_cells = 1 + max((names.index(column) for column in columns), default=0)
        self._ahead: list[bytes] = []
        # Places in `_ahead`: the first line that no candidate reaches over, the next line to
        # read, and the last certain one.
        self._covered = self._next = self._certain = 0
        self.unreadable: Counter[str] = Counter()

    def rows(self, lines: list[bytes] | None) -> Iterator[bytes]:
        """Yield the rows that begin in earlier lines or in these; None marks the file's end."""
        self._ahead += lines or []
        end = max(0, len(self._ahead) - self._footer)
        end_of_starts = end if lines is None else max(0, end - self._lines + 1)
        for place in range(end_of_starts):
            length, row = self._candidate(place, end)
            if length and place >= self._covered:
                self._certain = place
            self._covered = max(self._covered, place + length)
            if place < self._next:
                continue
            if length and place - self._certain < 2 * self._lines:
                self._next = place + length
                yield row
            else:
                self._next = place + 1
        del self._ahead[:end_of_starts]
        self._covered -= end_of_starts
        self._next -= end_of_starts
        self._certain -= end_of_starts

    def _candidate(self, place: int, end: int) -> tuple[int, bytes]:
        """Return the number of lines and the bytes of a row that begins at a place.

        It is 0 for a line that begins no row, which is counted as unreadable."""
        line, separator = self._ahead[place], self._delimiter.encode()
        if b'"' not in line:
            if line.count(separator) == self._cells - 1:
                return 1, line
            row = self._fitted(line.split(separator), place)
            return (1, separator.join(row)) if row else (0, b"")
        window = self._ahead[place : min(end, place + self._lines)]
        reader = csv.reader(
            (part.decode("latin-1") + "\n" for part in window),
            delimiter=self._delimiter,
            strict=True,
        )
        try:
            cells = self._fitted([cell.encode("latin-1") for cell in next(reader)], place)
        except csv.Error:
            lines = f"{len(window)} lines" if len(window) > 1 else "its line"
            self._count(place, f"with a quotation mark that no other closes in {lines}")
            return 0, b""
        quoted = (b'"' + cell.replace(b'"', b'""').replace(b"\n", b" ") + b'"' for cell in cells)
        return (reader.line_num, separator.join(quoted)) if cells else (0, b"")

    def _fitted(self, cells: list[bytes], place: int) -> list[bytes]:
        """Return as many cells as there are names, padded with empty ones.

        A line that lacks a declared column, or has a filled cell behind the last name, is counted
        as unreadable, and [] is returned."""
        if len(cells) < self._least_cells or any(cells[self._cells :]):
            self._count(place, f"of {len(cells)} cells in place of {self._cells}")
            return []
        return cells[: self._cells] + [b""] * (self._cells - len(cells))

    def _count(self, place: int, reason: str) -> None:
        if place >= self._next:
            self.unreadable[reason] += 1
