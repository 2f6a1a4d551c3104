"""Plain columns: text or numbers, and nothing else goes on."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dp_pipeline.raw.sources.reading import declared_columns, guarded, refusal
from dp_pipeline.raw.values import texts
from dp_pipeline.schema.spec import DatasetSpec

_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_AS_BYTES = ("csv", "sql")
"""Kinds of sources whose text arrives as bytes: one cell that is none must not stop the others."""


def plain_columns(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The declared columns, in the order declared: text as ``string``, numbers as they are.

    SourceError for a column of another type, which it names.
    """
    names = declared_columns(spec)
    return pa.table({name: _plain(spec, name, table.column(name)) for name in names})


def same_types(parts: Sequence[pa.Table]) -> pa.Table:
    """The rows of plain tables with one set of columns, one behind the other.

    A column whose types differ becomes text, each cell by itself: a column of whole
    numbers in which one is missing is often stored as another type, and that must not
    round the numbers of other parts.
    """
    columns = {}
    for name in parts[0].column_names:
        found = [part.column(name) for part in parts]
        if len({column.type for column in found}) > 1:
            found = [_as_text(column) for column in found]
        columns[name] = pa.chunked_array([chunk for column in found for chunk in column.chunks])
    return pa.table(columns)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        return column
    places, words = texts(column)
    cells = [words[place] if place >= 0 else None for place in places]
    return pa.chunked_array([pa.array(cells, pa.string())])


def _plain(spec: DatasetSpec, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    is_bytes = pa.types.is_binary(kind) and spec.source.kind in _AS_BYTES
    if is_bytes or any(is_text(kind) for is_text in _TEXTS):
        return _text(spec, name, column)
    if pa.types.is_dictionary(kind):
        return _plain(spec, name, column.cast(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column
    # A column without one value has no type in Parquet: one row more must not refuse the file.
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column.cast(pa.string())
    short = str(kind).partition("<")[0].partition("[")[0]
    raise refusal(spec, f"text or numbers in column {name!r}", f"the type {short}")


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
