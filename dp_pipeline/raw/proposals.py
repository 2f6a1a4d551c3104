"""The first look at a source that nobody has declared: names and declared types of its columns.

No cell is read, no statistic of a file and no number of rows. What a draft is made of is then the
same for any rows. Of a CSV file that is its first line: types would be guessed from values.

All rows of a public source, to propose how they could be declared. Never of sensitive rows.

How columns of public rows could be declared: levels where there are few, else neat bounds.

A proposal is made by looking at every value: sensitive rows must never come here.
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
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import MISSING, Attribute, Domain
from dp_pipeline.config.draft import ColumnKind, SourceColumn
from dp_pipeline.config.encoding import Coordinate, FloatArray, is_interval
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.reading import Signs
from dp_pipeline.config.source import Source
from dp_pipeline.config.yaml_text import Value
from dp_pipeline.raw.sources import parquet_parts, read_source
from dp_pipeline.raw.sources.reading import NoHeader, OddFile, csv_columns
from dp_pipeline.raw.values import PLAIN, kind_of, numbers, texts, times, type_word

Result = TypeVar("Result")

DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_LONGEST_NAME = 200


def first_look(source: Source) -> tuple[SourceColumn, ...]:
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


def _csv(source: Source) -> tuple[SourceColumn, ...]:
    names = _header(source)
    if not source.header and not all(map(_may_be_name, names)):
        # Of a file without names the first line is a row: a person's values must not be written
        # into a declaration.
        raise _refusal(
            source,
            "names of columns in the first line, or --header with the names",
            "a cell that is empty, a number, very long or of several lines",
        )
    return tuple(SourceColumn(name, "unknown") for name in names)


def _header(source: Source) -> list[str]:
    return _read(source, lambda: csv_columns(Path(source.location), source))


def _may_be_name(text: str) -> bool:
    # A quotation mark that nobody closed makes one cell of the header and the rows behind it.
    is_line = bool(text.strip()) and text.isprintable() and len(text) <= _LONGEST_NAME
    return is_line and not _NUMBER.fullmatch(text)


def _parquet(source: Source) -> tuple[SourceColumn, ...]:
    """The columns of a file, or of the first file of a folder: the others have to have them."""
    path = Path(source.location)
    schema = _read(
        source, lambda: pyarrow.parquet.read_schema(next(iter(parquet_parts(path)), path))
    )
    return tuple(map(_typed, schema))


def _typed(column: pa.Field) -> SourceColumn:
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    kind: ColumnKind = "unusable"
    if pa.types.is_boolean(type_):
        kind = "boolean"
    elif pa.types.is_null(type_):
        kind = "unknown"
    elif pa.types.is_string_view(type_):
        kind = "text"
    elif (known := kind_of(type_)) == "time":
        kind = "date" if pa.types.is_date(type_) else "timestamp"
    elif known != "other":
        kind = known
    word = type_word(type_).partition("(")[0]
    return SourceColumn(column.name, kind, word, is_integer=pa.types.is_integer(type_))


def _read(source: Source, read: Callable[[], Result]) -> Result:
    """``read()``, or a SourceError without the message of whoever read, which may quote a cell."""
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


def _query(source: Source) -> tuple[SourceColumn, ...]:
    # SQLAlchemy takes a third of a second to import, and most sources are files.
    from dp_pipeline.raw.sources.sql import query_columns

    return query_columns(source)


_READERS: dict[str, Callable[[Source], tuple[SourceColumn, ...]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "sql": _query,
}


MOST_LEVELS = 64
MOST_CODES = 10
"""Different whole numbers that are rather codes than a quantity."""

BINS = 10
_MISSING_WORDS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "#N/A"})


def proposed(found: SourceColumn, column: pa.ChunkedArray) -> SourceColumn:
    """The column with the fields of an attribute that all of its values fit, or with a remark
    that says why there are none.

    column   texts or numbers, as sources give them
    """
    if kind_of(column.type) == "time":
        return _proposed_times(found, column)
    places, words = texts(column)
    used = {words[place] for place in np.unique(places[places >= 0]).tolist()}
    absent = {word for word in used if word is None or word in _MISSING_WORDS}
    is_nullable = bool(absent) or bool((places < 0).any())
    if is_nullable:
        # The cell of missing values has this name, so no level may have it.
        absent |= used & {MISSING}
    fields, remark = _fields(sorted(used - absent))
    if fields and is_nullable:
        named = sorted(word for word in absent if word)
        fields |= {"nullable": "true", **({"missing": named} if named else {})}
    return replace(found, proposal=fields, remark=remark)


def _fields(values: Sequence[str]) -> tuple[dict[str, Value], str]:
    """Fields for these different texts, or none and the reason."""
    if len(values) < 2:
        return {}, "one value alone" if values else "no value"
    column = pa.chunked_array([pa.array(values, pa.string())])
    said: list[tuple[dict[str, Value], FloatArray]] = [
        (form, numbers(column, signs)) for form, signs in _SIGNS
    ]
    read = [one for one in said if np.isfinite(one[1]).all()]
    if read:
        if any((one != read[0][1]).any() for _, one in read):
            return {}, "numbers that a point and a comma fit alike: declare `decimal`"
        fields, remark = _numbers(values, read[0][1])
        return ({**fields, **read[0][0]} if fields else {}), remark
    return _texts(values)


_SIGNS: tuple[tuple[dict[str, Value], Signs], ...] = (
    ({}, PLAIN),
    ({"decimal": ","}, Signs(",")),
    ({"decimal": ",", "thousands": "."}, Signs(",", ".")),
    ({"thousands": ","}, Signs(".", ",")),
    ({"thousands": "'"}, Signs(".", "'")),
)
_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d")
_FORMATS = [f"{date}{time}" for date in _DATES for time in ("", " %H:%M", " %H:%M:%S")]
MOST_SPANS = 64
"""Cells of dates that are proposed, where years are not more."""


def _texts(values: Sequence[str]) -> tuple[dict[str, Value], str]:
    """Fields for texts that are not all numbers: dates, or levels."""
    is_date = all(len(one) == len("2026-10-05") for one in values)
    clocks = [Clock("date" if is_date else "timestamp")]
    clocks += [Clock("timestamp" if "H" in one else "date", format=one) for one in _FORMATS]
    fits = [one for one in clocks if all(one.number(text) is not None for text in values)]
    if len(fits) > 1:
        return {}, "dates that two formats fit: declare `format`"
    if fits:
        found = [fits[0].number(text) or 0 for text in values]
        return _spans(fits[0], min(found), max(found)), ""
    if len(values) > MOST_LEVELS:
        return {}, f"{len(values):,} different texts"
    return {"levels": list(values)}, ""


def _proposed_times(found: SourceColumn, column: pa.ChunkedArray) -> SourceColumn:
    """The same of a column that is stored as dates or times."""
    clock = Clock("date" if found.kind == "date" else "timestamp")
    values = times(column, clock)
    known = values[~np.isnan(values)]
    if len(np.unique(known)) < 2:
        return replace(found, remark="one value alone" if len(known) else "no value")
    fields = _spans(clock, int(known.min()), int(known.max()))
    is_nullable = len(known) < len(values)
    return replace(found, proposal={**fields, **({"nullable": "true"} if is_nullable else {})})


def _spans(clock: Clock, first: int, last: int) -> dict[str, Value]:
    """Whole days around two numbers of a clock, in cells of the shortest time that are few."""
    days = (last - first) / (1 if clock.kind == "date" else DAY) + 1
    spans = {"day": 1, "week": 7, "month": 30, "year": 365}
    every = next((one for one, long in spans.items() if days / long <= MOST_SPANS), "year")
    if clock.kind == "timestamp" and days < 3:
        every = "hour"
    bounds: Value = [f"{clock.wall_time(one):%Y-%m-%d}" for one in (first, last)]
    form: dict[str, Value] = {"format": clock.format} if clock.format else {}
    return {"type": clock.kind, "bounds": bounds, "every": every, **form}


def _numbers(values: Sequence[str], found: FloatArray) -> tuple[dict[str, Value], str]:
    """Fields for these different texts, which say these numbers."""
    is_whole = bool((found == np.rint(found)).all())
    if is_whole and len(values) <= MOST_CODES:
        return {"levels": [values[place] for place in np.argsort(found, kind="stable")]}, ""
    bounds = neat_bounds(float(found.min()), float(found.max()))
    if not is_interval(*map(float, bounds)):
        return {}, "numbers too large, or too near to each other"
    whole: dict[str, Value] = {"integer": "true"} if is_whole else {}
    return {"bounds": list(bounds), "bins": str(BINS), **whole}, ""


def neat_bounds(least: float, most: float) -> tuple[str, str]:
    """Round numbers around two others, as text, less than an eighth of their distance away.

    >>> neat_bounds(17.0, 90.0), neat_bounds(0.0, 0.93), neat_bounds(-3.2, 1041.5)
    (('15', '90'), ('0', '0.95'), ('-100', '1100'))
    """
    width = most - least
    if not width > 0:
        return str(least), str(most)
    power = Decimal(10) ** (math.floor(math.log10(width)) - 2)
    step = next(one * power for one in (5, 10, 20, 50, 100) if float(one * power) >= width / 20)
    lower = (Decimal(repr(least)) / step).to_integral_value(ROUND_FLOOR) * step
    upper = (Decimal(repr(most)) / step).to_integral_value(ROUND_CEILING) * step
    return _plain(lower), _plain(upper)


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def public_look(
    source: Source, columns: Sequence[SourceColumn], *, name: str
) -> tuple[int, tuple[SourceColumn, ...]]:
    """The number of rows, and every column with a proposal or a remark why there is none.

    name   of the data set, for messages

    Raises SourceError where the source cannot be read.
    """
    usable = [column for column in columns if column.kind != "unusable"]
    table = read_source(_readable(source, usable, name=name))
    looked = {one.name: proposed(one, table.column(one.name)) for one in usable}
    return table.num_rows, tuple(looked.get(one.name, one) for one in columns)


def _readable(source: Source, columns: Sequence[SourceColumn], *, name: str) -> DatasetSpec:
    """A declaration of nothing but columns, which is what reading asks for."""
    unbounded = Attribute("", "", "drop", coordinate=Coordinate(0.0, 1.0))
    clocks = {"date": Clock("date"), "timestamp": Clock("timestamp")}
    attributes = [
        replace(
            unbounded,
            name=f"column_{place}",
            column=column.name,
            clock=clocks.get(column.kind),
        )
        for place, column in enumerate(columns)
    ]
    return DatasetSpec.of_domain(name, Domain(tuple(attributes)), source=source)
