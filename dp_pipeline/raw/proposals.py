"""Columns of an undeclared source, and proposals of their attributes for drafts.

``first_look`` reads names and declared types alone, so a draft is the same for any rows; for a CSV
file that is its first line. ``public_look`` reads all rows of a public source and proposes levels
for few different values, else round bounds: it must never read sensitive rows.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.config.clock import DAY, Clock
from dp_pipeline.config.database import DUCKDB
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import MISSING, Attribute, Domain
from dp_pipeline.config.draft import ColumnKind, SourceColumn
from dp_pipeline.config.encoding import Coordinate, FloatArray, is_interval
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.reading import Signs
from dp_pipeline.config.source import Source
from dp_pipeline.config.yaml_text import Value
from dp_pipeline.raw.sources import parquet_parts, read_source
from dp_pipeline.raw.sources.csv_files import csv_columns, with_names
from dp_pipeline.raw.sources.reading import NoHeader, OddFile
from dp_pipeline.raw.sources.spreadsheets import sheet_names
from dp_pipeline.raw.values import PLAIN, kind_of, numbers, texts, times, type_word

Result = TypeVar("Result")

DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_MAX_NAME_LENGTH = 200


def first_look(source: Source) -> tuple[SourceColumn, ...]:
    """Return the columns of a source, in its order, without reading a row.

    SourceError, without quoting the source, if it cannot be read, for a repeated name, and for a
    first line of a CSV file that hardly has names.
    """
    match source.kind:
        case "csv":
            columns = _csv_columns(source)
        case "xlsx":
            columns = _sheet_columns(source)
        case "parquet":
            columns = _parquet_columns(source)
        case "sql" if source.location.startswith(DUCKDB):
            from dp_pipeline.raw.sources.duckdb_files import duckdb_columns

            columns = tuple(map(_source_column, duckdb_columns(source.location, source.query)))
        case _:
            # SQLAlchemy takes a third of a second to import, and most sources are files.
            from dp_pipeline.raw.sources.sql import query_columns

            columns = query_columns(source)
    if len({column.name for column in columns}) < len(columns):
        raise _refusal(source, "a different name for each column", "a repeated name")
    return columns


def likely_delimiter(path: Path) -> str:
    """Return the delimiter that gives most cells in the first line; SourceError without a line."""
    return max(DELIMITERS, key=lambda d: len(_header(Source("csv", str(path), delimiter=d))))


def _csv_columns(source: Source) -> tuple[SourceColumn, ...]:
    names = with_names(_header(source))
    if not source.header and not all(map(_may_be_name, names)):
        # Without names the first line is a row, whose values must not enter a declaration.
        raise _refusal(
            source,
            "names of columns in the first line, or --header with the names",
            "a cell that is empty, a number, very long or of several lines",
        )
    return tuple(SourceColumn(name, "unknown") for name in names)


def _sheet_columns(source: Source) -> tuple[SourceColumn, ...]:
    names = _guarded(source, lambda: sheet_names(Path(source.location), source))
    return tuple(SourceColumn(name, "unknown") for name in names)


def _header(source: Source) -> list[str]:
    return _guarded(source, lambda: csv_columns(Path(source.location), source))


def _may_be_name(text: str) -> bool:
    # An unclosed quotation mark makes one cell of the header and the following rows.
    is_line = bool(text.strip()) and text.isprintable() and len(text) <= _MAX_NAME_LENGTH
    return is_line and not _NUMBER.fullmatch(text)


def _parquet_columns(source: Source) -> tuple[SourceColumn, ...]:
    path = Path(source.location)
    schema = _guarded(
        source, lambda: pyarrow.parquet.read_schema(next(iter(parquet_parts(path)), path))
    )
    return tuple(map(_source_column, schema))


def _source_column(column: pa.Field) -> SourceColumn:
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    kind: ColumnKind = "unusable"
    if pa.types.is_boolean(type_):
        kind = "boolean"
    elif pa.types.is_null(type_):
        kind = "unknown"
    elif pa.types.is_string_view(type_):
        kind = "text"
    elif (value_kind := kind_of(type_)) == "time":
        kind = "date" if pa.types.is_date(type_) else "timestamp"
    elif value_kind != "other":
        kind = value_kind
    word = type_word(type_).partition("(")[0]
    return SourceColumn(column.name, kind, word, is_integer=pa.types.is_integer(type_))


def _guarded(source: Source, read: Callable[[], Result]) -> Result:
    """Return ``read()``, or raise a SourceError without the original message, which may quote a
    cell.
    """
    expected = f"a {source.kind} source with columns"
    try:
        return read()
    except OSError as error:
        got = os.strerror(error.errno) if error.errno else "a damaged one"
    except OddFile as odd:
        expected, got = odd.expected, odd.got
    except (pa.ArrowException, csv.Error, ValueError, NoHeader):
        got = "another one"
    raise _refusal(source, expected, got)


def _refusal(source: Source, expected: str, got: str) -> SourceError:
    return SourceError(f"{source.identity}: expected {expected}, got {got}")


MAX_LEVELS = 64
MAX_CODES = 10
"""Different whole numbers, at most, to be proposed as levels and not as a quantity."""

MAX_SPANS = 64
"""Cells of dates, at most, in a proposal, except for years."""

BINS = 10
_MISSING_WORDS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "#N/A"})

_SIGNS: tuple[tuple[dict[str, Value], Signs], ...] = (
    ({}, PLAIN),
    ({"decimal": ","}, Signs(",")),
    ({"decimal": ",", "thousands": "."}, Signs(",", ".")),
    ({"thousands": ","}, Signs(".", ",")),
    ({"thousands": "'"}, Signs(".", "'")),
)
"""(fields of an attribute, the signs of numbers that they declare)."""

_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d")
_FORMATS = [f"{date}{time}" for date in _DATES for time in ("", " %H:%M", " %H:%M:%S")]

Fields = dict[str, Value]
"""Fields of an attribute in a data set file."""


def public_look(
    source: Source, columns: Sequence[SourceColumn], *, name: str
) -> tuple[int, tuple[SourceColumn, ...]]:
    """Read a public source; return its number of rows, and all columns with proposals or remarks.

    name   name of the data set, for messages

    SourceError if the source cannot be read.
    """
    usable = [column for column in columns if column.kind != "unusable"]
    table = read_source(_readable_spec(source, usable, name=name))
    proposals = {column.name: proposed(column, table.column(column.name)) for column in usable}
    return table.num_rows, tuple(proposals.get(column.name, column) for column in columns)


def _readable_spec(source: Source, columns: Sequence[SourceColumn], *, name: str) -> DatasetSpec:
    """Return a minimal declaration of some columns, for reading them."""
    unbounded = Attribute("", "", "drop", coordinate=Coordinate(0.0, 1.0))
    clocks = {"date": Clock("date"), "timestamp": Clock("timestamp")}
    attributes = [
        replace(unbounded, name=f"column_{i}", column=column.name, clock=clocks.get(column.kind))
        for i, column in enumerate(columns)
    ]
    return DatasetSpec.of_domain(name, Domain(tuple(attributes)), source=source)


def proposed(source_column: SourceColumn, column: pa.ChunkedArray) -> SourceColumn:
    """Propose the fields of an attribute that fit all values of a column, or remark why none do.

    column   texts, numbers or times, as sources give them
    """
    if kind_of(column.type) == "time":
        return _proposed_times(source_column, column)
    places, words = texts(column)
    values = {words[place] for place in np.unique(places[places >= 0]).tolist()}
    missing = {word for word in values if word is None or word in _MISSING_WORDS}
    is_nullable = bool(missing) or bool((places < 0).any())
    if is_nullable:
        # No level may have the name of the cell of missing values.
        missing |= values & {MISSING}
    fields, remark = _fields(sorted(values - missing))
    if fields and is_nullable:
        words_for_missing = sorted(word for word in missing if word)
        fields |= {"nullable": "true"}
        fields |= {"missing": words_for_missing} if words_for_missing else {}
    return replace(source_column, proposal=fields, remark=remark)


def _fields(values: Sequence[str]) -> tuple[Fields, str]:
    """Return the fields for different texts, or {} and a reason."""
    if len(values) < 2:
        return {}, "a single value" if values else "no value"
    column = pa.chunked_array([pa.array(values, pa.string())])
    readings = [(fields, numbers(column, signs)) for fields, signs in _SIGNS]
    readings = [(fields, read) for fields, read in readings if np.isfinite(read).all()]
    if not readings:
        return _text_fields(values)
    sign_fields, first = readings[0]
    if any((read != first).any() for _, read in readings):
        return {}, "numbers with a point or a comma of unclear meaning: declare `decimal`"
    fields, remark = _number_fields(values, first)
    return ({**fields, **sign_fields} if fields else {}), remark


def _text_fields(values: Sequence[str]) -> tuple[Fields, str]:
    is_date = all(len(text) == len("2026-10-05") for text in values)
    clocks = [Clock("date" if is_date else "timestamp")]
    clocks += [Clock("timestamp" if "H" in text else "date", format=text) for text in _FORMATS]
    fitting = [c for c in clocks if all(c.number(text) is not None for text in values)]
    if len(fitting) > 1:
        return {}, "dates that fit two formats: declare `format`"
    if fitting:
        moments = [fitting[0].number(text) or 0 for text in values]
        return _time_fields(fitting[0], min(moments), max(moments)), ""
    if len(values) > MAX_LEVELS:
        return {}, f"{len(values):,} different texts"
    return {"levels": list(values)}, ""


def _proposed_times(source_column: SourceColumn, column: pa.ChunkedArray) -> SourceColumn:
    clock = Clock("date" if source_column.kind == "date" else "timestamp")
    values = times(column, clock)
    present = values[~np.isnan(values)]
    if len(np.unique(present)) < 2:
        return replace(source_column, remark="a single value" if len(present) else "no value")
    fields = _time_fields(clock, int(present.min()), int(present.max()))
    fields |= {"nullable": "true"} if len(present) < len(values) else {}
    return replace(source_column, proposal=fields)


def _time_fields(clock: Clock, first: int, last: int) -> Fields:
    """Return fields with whole days around two times as bounds, and few calendar bins."""
    days = (last - first) / (1 if clock.kind == "date" else DAY) + 1
    lengths = {"day": 1, "week": 7, "month": 30, "year": 365}
    every = next((span for span, long in lengths.items() if days / long <= MAX_SPANS), "year")
    if clock.kind == "timestamp" and days < 3:
        every = "hour"
    bounds: Value = [f"{clock.wall_time(moment):%Y-%m-%d}" for moment in (first, last)]
    fields: Fields = {"type": clock.kind, "bounds": bounds, "every": every}
    return {**fields, "format": clock.format} if clock.format else fields


def _number_fields(values: Sequence[str], read: FloatArray) -> tuple[Fields, str]:
    is_integer = bool((read == np.rint(read)).all())
    if is_integer and len(values) <= MAX_CODES:
        return {"levels": [values[place] for place in np.argsort(read, kind="stable")]}, ""
    bounds = neat_bounds(float(read.min()), float(read.max()))
    if not is_interval(*map(float, bounds)):
        return {}, "numbers too large, or too close together"
    fields: Fields = {"bounds": list(bounds), "bins": str(BINS)}
    return {**fields, "integer": "true"} if is_integer else fields, ""


def neat_bounds(least: float, most: float) -> tuple[str, str]:
    """Return round bounds around two numbers, as texts, less than an eighth of their distance away.

    >>> neat_bounds(17.0, 90.0), neat_bounds(0.0, 0.93), neat_bounds(-3.2, 1041.5)
    (('15', '90'), ('0', '0.95'), ('-100', '1100'))
    """
    width = most - least
    if not width > 0:
        return str(least), str(most)
    power = Decimal(10) ** (math.floor(math.log10(width)) - 2)
    steps = (factor * power for factor in (5, 10, 20, 50, 100))
    step = next(step for step in steps if float(step) >= width / 20)
    lower = (Decimal(repr(least)) / step).to_integral_value(ROUND_FLOOR) * step
    upper = (Decimal(repr(most)) / step).to_integral_value(ROUND_CEILING) * step
    return _decimal_text(lower), _decimal_text(upper)


def _decimal_text(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
