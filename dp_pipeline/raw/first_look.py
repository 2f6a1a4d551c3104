"""The first look at a source that nobody has declared: names and declared types of its columns.

No cell is read, no statistic of a file and no number of rows. What a draft is made of is then the
same for any rows. Of a CSV file that is its first line: types would be guessed from values.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.raw.csv_file import NoHeader, NotUtf8, csv_columns
from dp_pipeline.raw.sources.parquet_folder import parquet_parts
from dp_pipeline.raw.values import kind_of, type_word
from dp_pipeline.schema.errors import SourceError
from dp_pipeline.schema.found_column import FoundColumn, FoundKind
from dp_pipeline.schema.source import Source

Result = TypeVar("Result")

DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_LONGEST_NAME = 200


def first_look(source: Source) -> tuple[FoundColumn, ...]:
    """Every column of a source, in its order.

    Raises SourceError, one line that quotes nothing of the source, where it cannot be read,
    where a name stands twice, and for a first line of a CSV file that is hardly one of names.
    """
    columns = _READERS[source.kind](source)
    if len({column.name for column in columns}) < len(columns):
        raise _refusal(source, "a name of its own for each column", "a name that stands twice")
    return columns


def likely_delimiter(path: Path) -> str:
    """The delimiter that cuts the first line into most cells; a comma where none does.

    Raises SourceError where there is no first line.
    """
    cells = {one: len(_header(Source("csv", str(path), delimiter=one))) for one in DELIMITERS}
    return max(DELIMITERS, key=lambda one: cells[one])


def _csv(source: Source) -> tuple[FoundColumn, ...]:
    names = _header(source)
    if not source.header and not all(map(_may_be_name, names)):
        # Of a file without names the first line is a row: a person's values must not be written
        # into a declaration.
        raise _refusal(
            source,
            "names of columns in the first line, or --header with the names",
            "a cell that is empty, a number, very long or of several lines",
        )
    return tuple(FoundColumn(name, "unknown") for name in names)


def _header(source: Source) -> list[str]:
    return _read(source, lambda: csv_columns(Path(source.location), source))


def _may_be_name(text: str) -> bool:
    # A quotation mark that nobody closed makes one cell of the header and the rows behind it.
    is_line = bool(text.strip()) and text.isprintable() and len(text) <= _LONGEST_NAME
    return is_line and not _NUMBER.fullmatch(text)


def _parquet(source: Source) -> tuple[FoundColumn, ...]:
    """The columns of a file, or of the first file of a folder: the others have to have them."""
    path = Path(source.location)
    schema = _read(
        source, lambda: pyarrow.parquet.read_schema(next(iter(parquet_parts(path)), path))
    )
    return tuple(map(_typed, schema))


def _typed(column: pa.Field) -> FoundColumn:
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    kind: FoundKind = "unusable"
    if pa.types.is_boolean(type_):
        kind = "boolean"
    elif pa.types.is_null(type_):
        kind = "unknown"
    elif pa.types.is_string_view(type_):
        kind = "text"
    elif (known := kind_of(type_)) != "other":
        kind = known
    word = type_word(type_).partition("(")[0]
    return FoundColumn(column.name, kind, word, whole=pa.types.is_integer(type_))


def _read(source: Source, read: Callable[[], Result]) -> Result:
    """``read()``, or a SourceError without the message of whoever read, which may quote a cell."""
    try:
        return read()
    except OSError as error:
        got = os.strerror(error.errno) if error.errno else "a damaged one"
    except NotUtf8:
        got = "one of UTF-16: write it as UTF-8"
    except (pa.ArrowException, csv.Error, ValueError, NoHeader):
        got = "another one"
    raise _refusal(source, f"a {source.kind} source with columns", got)


def _refusal(source: Source, expected: str, got: str) -> SourceError:
    return SourceError(f"{source.identity}: expected {expected}, got {got}")


def _query(source: Source) -> tuple[FoundColumn, ...]:
    # SQLAlchemy takes a third of a second to import, and most sources are files.
    from dp_pipeline.raw.query_columns import query_columns

    return query_columns(source)


_READERS: dict[str, Callable[[Source], tuple[FoundColumn, ...]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "sql": _query,
}
