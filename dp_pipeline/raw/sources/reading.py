"""Checks of files and columns for all readers of sources, and their conversion to *plain* columns
of text, numbers or times.

The types in the schemas decide, before a row is read: neither a refusal nor a type depends on rows.
Persons are compared as whole numbers or as bytes, since floating numbers round from 2^53 on, which
could merge or split persons.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import Levels, number_of
from dp_pipeline.config.errors import SourceError, did_you_mean
from dp_pipeline.config.system_errors import os_error_reason, remedy_of, require_regular
from dp_pipeline.raw.values import PLAIN, REAL, TEXT, WHOLE, kind_of, texts, times, type_word

# Levels, numbers, dates and ids are shorter, and Parquet may repeat a long text in every row.
MAX_CELL_BYTES = 1 << 10
Result = TypeVar("Result")
_DAMAGED = "a damaged file: write it again"


class OddFile(ValueError):
    """Raised when a file does not have the form of its kind."""

    def __init__(self, expected: str, got: str) -> None:
        self.expected, self.got = expected, got
        super().__init__(got)


def declared_columns(spec: DatasetSpec) -> list[str]:
    return list(dict.fromkeys(spec.columns))


def refusal(spec: DatasetSpec, expected: str, got: str) -> SourceError:
    """Return the error to raise for a source; it names the source, but quotes none of its cells."""
    return SourceError(f"{spec.name}: {spec.source.identity}: expected {expected}, got {got}")


def guarded(
    spec: DatasetSpec, read: Callable[[], Result], *, expected: str, got: str = _DAMAGED
) -> Result:
    """Return ``read()``; if it fails to read a source, raise a SourceError that quotes no row.

    expected, got   words of the message; a known reason of the failure replaces ``got``
    """
    try:
        return read()
    except OSError as error:
        got = _DAMAGED
        if error.errno:
            got = f"{os_error_reason(error)}: {remedy_of(error) or 'mend `source`'}"
    except OddFile as odd:
        expected, got = odd.expected, odd.got
    except (pa.ArrowException, UnicodeError, csv.Error):
        pass
    # Raised outside the handler, so that no __context__ has the quoted row.
    raise refusal(spec, expected, got)


def guarded_each(
    spec: DatasetSpec, tables: Iterator[Result], *, expected: str, got: str = _DAMAGED
) -> Iterator[Result]:
    """Yield these tables or rows; if one cannot be read, raise a SourceError that quotes no row."""
    read = partial(next, tables, None)
    while (table := guarded(spec, read, expected=expected, got=got)) is not None:
        yield table


def require_readable(spec: DatasetSpec, path: Path) -> None:
    """Raise SourceError unless a file can be opened, has bytes and begins like its declared kind.

    With a declared header it may be empty."""
    try:
        # A pipe would wait for its writer, and a device may never end.
        require_regular(path, path.stat().st_mode)
        with path.open("rb") as file:
            start = file.read(16)
    except (OSError, ValueError) as error:
        reason, advice = "an impossible path", "mend `source`"
        if isinstance(error, OSError):
            reason, advice = os_error_reason(error), remedy_of(error) or "mend `source`"
        if isinstance(error, FileNotFoundError):
            advice = "put it there, or mend `source`"
        raise refusal(spec, "a file that can be read", f"{reason}: {advice}") from None
    if not start and not spec.source.header:
        raise refusal(spec, "a file with columns", "an empty file: correct `source`")
    kinds = (kind for mark, kind in KINDS_OF_FILES.items() if start.startswith(mark))
    kind, word = next(kinds, ("", ""))
    is_packed = kind == "packed" and spec.source.kind == "csv" and path.suffix in _PACKED
    if kind and kind != spec.source.kind and not is_packed:
        advice = "unpack it, or export it as one"
        if kind in ("parquet", "xlsx"):
            advice = f"declare `kind: {kind}`" + (", or unpack it" if kind == "xlsx" else "")
        if kind == "sql":
            advice = f"declare `kind: sql, database: sqlite:///{path}` and a query"
        raise refusal(spec, f"a file of kind {spec.source.kind}", f"{word}: {advice}")
    if spec.source.kind in ("parquet", "xlsx") and not kind:
        got = "one that does not begin so: declare `kind: csv` where it is text"
        raise refusal(spec, f"a file of kind {spec.source.kind}", got)


KINDS_OF_FILES = {
    b"PAR1": ("parquet", "a Parquet file"),
    b"PK\x03\x04": ("xlsx", "a zip archive, as spreadsheets (.xlsx) are"),
    b"\xd0\xcf\x11\xe0": ("document", "an old document (.xls, .doc) or one with a password"),
    b"SQLite format 3": ("sql", "a SQLite database"),
    b"\x1f\x8b": ("packed", "a file packed by gzip"),
    b"BZh": ("packed", "a file packed by bzip2"),
    b"\xfd7zXZ": ("packed", "a file packed by xz"),
    b"(\xb5/\xfd": ("packed", "a file packed by zstd"),
    b"7z\xbc\xaf": ("archive", "a 7-Zip archive"),
    b"Rar!": ("archive", "a RAR archive"),
    b"%PDF": ("document", "a PDF document"),
    b"ARROW1": ("arrow", "an Arrow file"),
    b"<!DOCTYPE": ("document", "a web page"),
    b"<html": ("document", "a web page"),
}
"""First bytes of a file → its kind, and that in words."""
_PACKED = (".gz", ".bz2", ".zst")
DELIMITERS = (",", ";", "\t", "|")
MAX_NAMES = 12  # Names of columns that a message lists


def check_names(spec: DatasetSpec, names: Sequence[str]) -> None:
    """Raise SourceError unless every declared column is among ``names``, and none is repeated.

    The message lists names, which are public. But the first line of a CSV file or a sheet may be a
    row: it is quoted only where half of the declared columns or more are named in it.
    """
    columns, source = declared_columns(spec), spec.source
    may_be_row = source.kind in ("csv", "xlsx") and not source.header
    is_quoted = not may_be_row or 2 * len({*columns} & {*names}) >= len({*columns})
    if len(set(names)) != len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        got = f"{twice!r} twice" if twice in columns else "a repeated name"
        raise refusal(spec, "a different name for each column", f"{got}: rename one column")
    if {*columns} <= {*names}:
        return
    name = next(name for name in columns if name not in names)
    plain_names = [" ".join(each.split()) for each in names]
    got = f"{len(names)} columns without it"
    if is_quoted:
        ellipsis = ", …" if len(names) > MAX_NAMES else ""
        got += f" ({', '.join(each[:60] for each in plain_names[:MAX_NAMES])}{ellipsis})"
    advice = did_you_mean(name, plain_names) or ": declare one of these"
    if not is_quoted:
        advice = ": correct `header_row`"
        if source.kind == "csv":
            advice = ": correct the first line, or declare `header` where it is a row"
    for sign in DELIMITERS if len(names) == 1 else ():
        if name in [cell.strip(' "') for cell in names[0].split(sign)]:
            advice = f": declare `delimiter: {json.dumps(sign)}`"
    raise refusal(spec, f"a column {name!r}", got + advice)


_TEXT = TEXT | {pa.string_view()}
_TRUTHS = ("true", "false")
_INT64_DIGITS = 18
_BYTES_SOURCES = ("csv", "sql")  # Their text is read as bytes: an invalid cell stops no other


def plain_types(spec: DatasetSpec, schemas: Sequence[pa.Schema]) -> dict[str, pa.DataType]:
    """Return declared column → type that holds its values in all parts of a source.

    schemas   schemas of the parts, such as files, with every declared column

    Parts of one type keep it. Whole numbers of several sizes become 64 bits, or text if no type
    holds all of them; floating numbers become doubles. Whole with floating numbers, and numbers
    with text, become text, so that no digit is lost. Dates with times become times. A column
    without a type, that is without values, takes the type of other parts.

    SourceError for a column that is neither text nor numbers nor declared dates or times, for times
    with a zone in some parts only, and for a person's column that is neither text nor whole
    numbers, or both in different parts.
    """
    return {
        name: _plain_type(spec, name, [schema.field(name).type for schema in schemas])
        for name in declared_columns(spec)
    }


def fulfillable_types(spec: DatasetSpec, schemas: Sequence[pa.Schema]) -> dict[str, pa.DataType]:
    """Return the types of ``plain_types``, after checking them against the declared attributes.

    SourceError where no value of a column's type can be a declared level or number: so nothing is
    paid for a column of missing values.
    """
    plain = plain_types(spec, schemas)
    for attribute in spec.domain:
        if attribute.derived is None and attribute.clock is None:
            column = attribute.column
            types = {_checked_type(spec, column, part.field(column).type) for part in schemas}
            _require_fulfillable(spec, attribute, types - {pa.null()})
    return plain


def _require_fulfillable(spec: DatasetSpec, attribute: Attribute, types: Set[pa.DataType]) -> None:
    has_types = bool(types) and (spec.source.kind == "parquet" or not types <= _TEXT)
    got = f"the type {' and '.join(sorted(map(type_word, types))) or 'null'}"
    if isinstance(attribute.cells, Levels):
        texts = {*attribute.cells.values, *(text for text, _ in attribute.aliases)}
        texts -= {attribute.other, *attribute.missing}
        is_met = any(number_of(text) is not None or text.lower() in _TRUTHS for text in texts)
        if has_types and types <= WHOLE | REAL | {pa.bool_()} and not is_met:
            expected = f"levels that column {attribute.column!r} of the file can hold"
            advice = "declare levels of that type, or `bounds`"
            raise refusal(spec, expected, f"only words, where the file has {got}: {advice}")
    elif attribute.is_numeric:
        expected = f"numbers in column {attribute.column!r}, as its bounds are"
        if types == {pa.bool_()}:
            raise refusal(spec, expected, f"{got}: declare `levels: [false, true]`")
        is_read = attribute.signs != PLAIN or attribute.aliases or spec.source.kind != "parquet"
        if not types and spec.source.kind == "parquet":
            raise refusal(
                spec,
                expected,
                f"{got}, without a value: correct the file, or leave the attribute out",
            )
        if types <= _TEXT and not is_read:
            signs = 'or declare the sign of numbers in its texts, such as `thousands: "\'"`'
            raise refusal(spec, expected, f"{got}: write it as float64 or int64, {signs}")


def plain_columns(
    spec: DatasetSpec, table: pa.Table, types: dict[str, pa.DataType] | None = None
) -> pa.Table:
    """Return the declared columns of a table, converted to their plain types, in declared order.

    types   column → type by ``fulfillable_types``; None: that of this table alone
    """
    types = fulfillable_types(spec, [table.schema]) if types is None else types
    return pa.table(
        {name: _converted(spec, name, table.column(name), type_) for name, type_ in types.items()}
    )


def _plain_type(spec: DatasetSpec, name: str, part_types: Sequence[pa.DataType]) -> pa.DataType:
    types = dict.fromkeys(_checked_type(spec, name, type_) for type_ in part_types)
    types.pop(pa.null(), None)
    if not types:
        return pa.string()
    if types.keys() <= WHOLE:
        return _common_integer_type(tuple(types))
    if types.keys() <= REAL:
        return next(iter(types)) if len(types) == 1 else pa.float64()
    if name in spec.time_columns and not types.keys() <= _TEXT:
        return _time_type(spec, name, tuple(types))
    if name == spec.protection.column and not types.keys() <= _TEXT:
        raise refusal(
            spec,
            f"ids of one kind in all files of the person's column {name!r}",
            "text and whole numbers: write all of them as int64, or all as text",
        )
    return pa.string()


def _checked_type(spec: DatasetSpec, name: str, type_: pa.DataType) -> pa.DataType:
    """Return the type in which to read a column of one part of a source.

    It is the stored one, but that of the values for a dictionary, a number for a decimal, and text
    for bytes and for times written as whole numbers. SourceError if the column must not have the
    stored type.
    """
    if pa.types.is_dictionary(type_):
        return _checked_type(spec, name, type_.value_type)
    if type_ == pa.binary() and spec.source.kind in _BYTES_SOURCES:
        return pa.string()
    got = f"the type {type_word(type_)}"
    if name == spec.protection.column:
        if type_ in _TEXT | WHOLE | {pa.null()}:
            return type_
        rounds = ", which rounds large ids" if pa.types.is_floating(type_) else ""
        raise refusal(
            spec,
            f"text or whole numbers in the person's column {name!r}",
            f"{got}{rounds}: write it as int64 or text (pandas: Int64 or string)",
        )
    if name in spec.time_columns:
        if type_ in _TEXT | {pa.null()} or kind_of(type_) == "time":
            return type_
        if type_ in WHOLE and name in spec.formatted_times:
            # Such as 20261231: its digits are read by the format.
            return pa.string()
        advice = "write it as text, or as one of these"
        if type_ in WHOLE:
            advice = "write it as dates or times"
            clocks = [each for each in spec.domain if each.clock and each.derived is None]
            if name in [each.column for each in clocks]:
                advice = f"declare the `format` of its digits, such as %Y%m%d, or {advice}"
        raise refusal(spec, f"text, dates or times in column {name!r}", f"{got}: {advice}")
    if pa.types.is_decimal128(type_) and (type_.scale > 0 or type_.precision <= _INT64_DIGITS):
        type_ = pa.float64() if type_.scale > 0 else pa.int64()
    if type_ in _TEXT | WHOLE | REAL | {pa.bool_(), pa.null()}:
        return type_
    advice = "write it as float64, int64 or text"
    if kind_of(type_) == "time":
        advice = f"declare `type: date` or `type: timestamp` of it, or {advice}"
    raise refusal(spec, f"text or numbers in column {name!r}", f"{got}: {advice}")


def _time_type(spec: DatasetSpec, name: str, types: Sequence[pa.DataType]) -> pa.DataType:
    if any(kind_of(type_) != "time" for type_ in types):
        expected = f"text or dates or times in column {name!r}, the same in all parts"
        got = f"the types {' and '.join(map(type_word, types))}"
        raise refusal(spec, expected, f"{got}: write all parts alike")
    if not any(map(pa.types.is_timestamp, types)):
        return pa.date32()
    has_zone = {pa.types.is_timestamp(type_) and type_.tz is not None for type_ in types}
    if len(has_zone) > 1:
        expected = f"times with a zone in all parts of column {name!r}, or in none"
        raise refusal(spec, expected, "a zone in some parts alone: write all alike")
    return pa.timestamp("s", "UTC" if has_zone == {True} else None)


def _common_integer_type(types: Sequence[pa.DataType]) -> pa.DataType:
    if len(types) == 1:
        return types[0]
    unsigned = [type_ for type_ in types if pa.types.is_unsigned_integer(type_)]
    if len(unsigned) == len(types):
        return pa.uint64()
    # As text, different whole numbers stay different.
    return pa.int64() if all(type_.bit_width <= 32 for type_ in unsigned) else pa.string()


def _converted(
    spec: DatasetSpec, name: str, column: pa.ChunkedArray, type_: pa.DataType
) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        # Entries of a dictionary are converted before they are repeated, so that long ones are cut.
        pairs = [
            (_converted(spec, name, pa.chunked_array([chunk.dictionary]), type_), chunk.indices)
            for chunk in column.chunks
        ]
        chunks = guarded(
            spec,
            lambda: [part for cells, indices in pairs for part in cells.take(indices).chunks],
            expected="rows that name cells of their dictionary",
        )
        return pa.chunked_array(chunks, type_)
    if column.type == pa.binary() or column.type in _TEXT:
        return _as_text(spec, name, column)
    if column.type in REAL and type_ == pa.string():
        places, words = texts(column)
        signs = next(iter(spec.signs_of(name)), PLAIN)
        # The texts will be read with the declared signs.
        words[:] = [None if word is None else signs.localise(word) for word in words]
        cells = [words[place] if place >= 0 else None for place in places]
        return pa.chunked_array([pa.array(cells, pa.string())])
    if kind_of(column.type) == "time":
        return convert_times(column, type_)
    return column.cast(type_)


def convert_times(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Return ISO texts, dates or times as values of a type: days (date32) or whole seconds.

    All other values become null."""
    clock = Clock("date" if type_ == pa.date32() else "timestamp")
    values = times(column, clock)
    is_missing = np.isnan(values)
    integer_type = np.int32 if type_ == pa.date32() else np.int64
    integers = np.where(is_missing, 0, values).astype(integer_type)
    return pa.chunked_array([pa.array(integers, mask=is_missing).cast(type_)])


def _as_text(spec: DatasetSpec, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values as UTF-8 text; in public data invalid bytes and too long cells are an error.

    In sensitive data they change their own cell only: invalid bytes are null, and a long cell is
    cut in an attribute and null in the person's column, since else two persons could become one.
    """
    cells = column.cast(pa.binary())
    is_person = name == spec.protection.column
    is_long = pc.greater(pc.binary_length(cells), MAX_CELL_BYTES)
    if pc.any(is_long).as_py():
        if not spec.is_release:
            expected = f"cells of at most {MAX_CELL_BYTES:,} bytes in column {name!r}"
            longest = pc.max(pc.binary_length(cells)).as_py()
            advice = "shorten it, or leave the attribute out"
            raise refusal(spec, expected, f"a cell of {longest:,}: {advice}")
        short = None if is_person else pc.binary_slice(cells, 0, MAX_CELL_BYTES + 1)
        cells = pc.if_else(is_long, short, cells)
    if not spec.is_release:
        return guarded(
            spec,
            lambda: cells.cast(pa.string()),
            expected=f"{spec.source.encoding or 'UTF-8'} text in column {name!r}",
            got="bytes that are not"
            + (": declare their `encoding`" if spec.source.kind == "csv" else ": correct them"),
        )
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.array(map(utf8_or_none, cells.to_pylist()), pa.string())])


def utf8_or_none(text: bytes | None) -> str | None:
    """Return bytes as text; None unless they are UTF-8, since a mended text might be a level."""
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return None
