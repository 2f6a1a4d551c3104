"""Plain columns: text or numbers, and nothing else goes on.

As what a column goes on is decided by the types in the schemas of its files, before a row is read:
neither a refusal nor a type depends on rows, or on how many there are. Persons are compared as
whole numbers or as bytes: a floating number rounds whole ones from 2^53 on, so that one person
would be two, or two of them one.

What every reader of a source does: refuse in one line, open files, look for the columns.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from dp_pipeline.raw.sources.csv_file import NoHeader, NotUtf8
from dp_pipeline.raw.values import REAL, TEXT, WHOLE, texts, type_word
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import SourceError, require_regular

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
    except NotUtf8:
        expected, got = "UTF-8 text", "UTF-16"
    except (pa.ArrowException, UnicodeError, csv.Error, NoHeader):
        pass
    # Raised outside of the handler, so that no __context__ carries the quoted row along.
    raise refusal(spec, expected, got)


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
    without a type, as one without a value is stored, goes with the others.

    SourceError for a column that is neither text nor numbers, and for a person's column that
    is neither text nor whole numbers, or text in one part and whole numbers in another.
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
    if type_ in _TEXT | WHOLE | REAL | {pa.bool_(), pa.null()}:
        return type_
    advice = "write it as float64, int64 or text"
    raise refusal(
        spec, f"text or numbers in column {name!r}", f"the type {type_word(type_)}: {advice}"
    )


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
        column = column.cast(column.type.value_type)
    if column.type == pa.binary() or column.type in _TEXT:
        return _text(spec, name, column)
    if column.type in REAL and type_ == pa.string():
        places, words = texts(column)
        cells = [words[place] if place >= 0 else None for place in places]
        return pa.chunked_array([pa.array(cells, pa.string())])
    return column.cast(type_)


def _text(spec: DatasetSpec, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells as UTF-8 text. Bytes that are none are an error of public data. On sensitive data they
    spoil their own cell: replaced in an attribute, and no person at all in the person's
    column, where a replacement would make one person of two.
    """
    cells = column.cast(pa.binary())
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
