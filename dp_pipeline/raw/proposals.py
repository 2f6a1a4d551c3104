"""Columns of an undeclared source, and proposals of their attributes for drafts.

``read_schema`` reads names and declared types alone, so a draft is the same for any rows; for a CSV
file that is its first line. ``propose_columns`` reads all rows of a public source and proposes
levels for few different values, else round bounds: it must never read sensitive rows.
"""

import codecs
import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.config.clock import DAY, Clock
from dp_pipeline.config.database import DUCKDB
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import MISSING, Attribute, Domain
from dp_pipeline.config.draft import ColumnKind, SourceColumn
from dp_pipeline.config.encoding import Coordinate, FloatArray, is_interval, number_of
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.reading import Signs
from dp_pipeline.config.source import Source
from dp_pipeline.config.system_errors import os_error_reason, remedy_of
from dp_pipeline.config.yaml_text import Value
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.sources.csv_files import MAX_LINE_BYTES, csv_columns, strip_empty_names
from dp_pipeline.raw.sources.parquet import NO_PARTS, parquet_parts
from dp_pipeline.raw.sources.reading import DELIMITERS, OddFile, Result
from dp_pipeline.raw.sources.spreadsheets import sheet_names
from dp_pipeline.raw.values import PLAIN, kind_of, numbers, texts, times, type_word

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_MAX_NAME_LENGTH = 200
_NAME_ALL = "correct it in the file, or where the first line is a row give all names by --header"


def read_schema(source: Source) -> tuple[SourceColumn, ...]:
    """Return the names and declared types of a source's columns, in its order, without its rows.

    SourceError, without quoting the source, if it cannot be read, for a repeated name, and for a
    first line of a CSV file in which a cell cannot be a name.
    """
    match source.kind:
        case "csv":
            columns = _csv_columns(source)
        case "xlsx":
            names = _guarded(source, lambda: sheet_names(Path(source.location), source))
            columns = tuple(SourceColumn(name, "unknown") for name in names)
        case "parquet":
            path = Path(source.location)
            part = next(iter(parquet_parts(path)), path)
            if part.is_dir():
                raise _refusal(source, "one or more files *.parquet in the folder", NO_PARTS)
            schema = _guarded(source, lambda: pyarrow.parquet.read_schema(part))
            columns = tuple(map(_source_column, schema))
        case "sql" if source.location.startswith(DUCKDB):
            from dp_pipeline.raw.sources.duckdb_files import duckdb_columns

            columns = tuple(map(_source_column, duckdb_columns(source.location, source.query)))
        case _:
            # SQLAlchemy takes a third of a second to import, and most sources are files.
            from dp_pipeline.raw.sources.sql import query_columns

            columns = query_columns(source)
    if len({column.name for column in columns}) < len(columns):
        advice = _NAME_ALL if source.kind == "csv" and not source.header else "rename it"
        raise _refusal(source, "a different name for each column", f"a repeated name: {advice}")
    return columns


def likely_encoding(path: Path, *, is_public: bool) -> str:
    """Return the likely encoding of a CSV file: utf-16, cp1252, or empty for UTF-8.

    is_public   whether all of the file may be read; else the first line alone decides

    SourceError if the file cannot be read.
    """

    def read() -> bytes:
        with pa.input_stream(str(path), compression="detect") as stream:
            return bytes(stream.read() if is_public else stream.read(MAX_LINE_BYTES))

    content = _guarded(Source("csv", str(path)), read)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        (content if is_public else content.partition(b"\n")[0]).decode()
    except UnicodeDecodeError:
        return "cp1252"
    return ""


def likely_delimiter(path: Path, encoding: str = "") -> str:
    """Return the delimiter that splits the first line of a CSV file into the most cells.

    encoding   empty for UTF-8

    SourceError for a file without such a line."""
    return max(
        DELIMITERS,
        key=lambda d: len(_header(Source("csv", str(path), delimiter=d, encoding=encoding))),
    )


def _csv_columns(source: Source) -> tuple[SourceColumn, ...]:
    names = strip_empty_names(_header(source))
    fault = "" if source.header else next(filter(None, map(_fault_of_name, names)), "")
    if fault:
        # Without names the first line is a row, whose values must not enter a declaration.
        expected = "names of columns in the first line"
        raise _refusal(source, expected, f"{fault}: {_NAME_ALL}")
    return tuple(SourceColumn(name, "unknown") for name in names)


def _header(source: Source) -> list[str]:
    return _guarded(source, lambda: csv_columns(Path(source.location), source))


def _fault_of_name(text: str) -> str:
    if not text.strip():
        return "an empty cell"
    if not text.isprintable():
        # An unclosed quotation mark makes one cell of the header and the following rows.
        has_lines = {*"\r\n"} & {*text}
        return "a cell of several lines" if has_lines else "a cell with a control character"
    if len(text) > _MAX_NAME_LENGTH:
        return f"a cell of more than {_MAX_NAME_LENGTH} characters"
    return "a number" if _NUMBER.fullmatch(text) else ""


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
    """Return ``read()``; if it fails to read a source, raise a SourceError that quotes no cell."""
    expected = f"a {source.kind} source with columns"
    try:
        return read()
    except OSError as error:
        got = "a damaged file: write it again"
        if error.errno:
            got = f"{os_error_reason(error)}: {remedy_of(error) or 'name another file'}"
        if isinstance(error, FileNotFoundError):
            got = f"{os_error_reason(error)}: put it there, or name another file"
    except OddFile as odd:
        expected, got = odd.expected, odd.got.replace("`header`", "--header")
    except (pa.ArrowException, csv.Error, ValueError):
        got = "one that cannot be read: write it again, or name another"
    raise _refusal(source, expected, got)


def _refusal(source: Source, expected: str, got: str) -> SourceError:
    return SourceError(f"{source.identity}: expected {expected}, got {got}")


MAX_LEVELS = 64
MAX_CODES = 10  # Different whole numbers, at most, to be proposed as levels and not as a quantity
MAX_SPANS = 64  # Cells of dates, at most, in a proposal, except for years
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
Fields = dict[str, Value]  # Fields of an attribute in a data set file


def propose_columns(
    source: Source, columns: Sequence[SourceColumn], *, name: str
) -> tuple[int, tuple[SourceColumn, ...]]:
    """Read a public source; return its number of rows, and its columns with proposed fields.

    A column without a proposal has a remark. Unusable columns stay as they are.

    name   name of the data set, for messages

    SourceError if the source cannot be read.
    """
    usable = [column for column in columns if column.kind != "unusable"]
    unbounded = Attribute("", "", "drop", coordinate=Coordinate(0.0, 1.0))
    clocks = {"date": Clock("date"), "timestamp": Clock("timestamp")}
    attributes = [
        replace(unbounded, name=f"column_{i}", column=column.name, clock=clocks.get(column.kind))
        for i, column in enumerate(usable)
    ]
    table = read_source(DatasetSpec.of_domain(name, Domain(tuple(attributes)), source=source))
    proposals = {
        column.name: propose_fields(column, table.column(column.name)) for column in usable
    }
    return table.num_rows, tuple(proposals.get(column.name, column) for column in columns)


def propose_fields(source_column: SourceColumn, column: pa.ChunkedArray) -> SourceColumn:
    """Return a column with proposed fields that fit all its values, or a remark why there are none.

    column   texts, numbers or times, as sources give them
    """
    if kind_of(column.type) == "time":
        return _proposed_times(source_column, column)
    places, words = texts(column)
    values = {words[place] for place in np.unique(places[places >= 0]).tolist()}
    missing = {word for word in values if word is None or word in _MISSING_WORDS}
    missing |= _sentinels(values - missing)
    is_nullable = bool(missing) or bool((places < 0).any())
    if is_nullable:
        # The level of missing values has this name, so no other may.
        missing |= values & {MISSING}
    rows = int(sum(word not in missing for word in words[places[places >= 0]]))
    fields, remark = _fields(sorted(values - missing), rows)
    if "bins" in fields:
        own_signs = {name: fields[name] for name in ("decimal", "thousands") if name in fields}
        signs = next(signs for own, signs in _SIGNS if own == own_signs)
        edges = _uneven_edges(numbers(column, signs), fields, missing)
        if edges:
            del fields["bins"]
            fields["edges"] = edges
    words_for_missing = sorted(word for word in missing if word)
    if fields and is_nullable:
        fields |= {"nullable": "true"}
        fields |= {"missing": words_for_missing} if words_for_missing else {}
    return replace(source_column, proposal=fields, remark=remark)


_SENTINEL = re.compile(r"-?9{3,9}(\.0+)?", re.ASCII)


def _sentinels(values: set[str]) -> set[str]:
    """Return texts of numbers such as −999 that probably mean a missing value.

    There are none where another text is no number, or fewer than two other numbers are left.

    >>> sorted(_sentinels({"-999", "0", "12"})), sorted(_sentinels({"998", "999", "997"}))
    (['-999'], [])
    """
    read = {word: number for word in values if (number := number_of(word)) is not None}
    ordinary = [number for word, number in read.items() if not _SENTINEL.fullmatch(word)]
    if len(ordinary) < 2 or len(read) < len(values):
        return set()
    low, high = min(ordinary), max(ordinary)
    candidates = ((word, n) for word, n in read.items() if _SENTINEL.fullmatch(word))
    return {word for word, n in candidates if (n < 0 <= low) or n > 2 * abs(high)}


def _uneven_edges(read: FloatArray, fields: Fields, missing: set[str | None]) -> list[str]:
    """Return edges at round deciles if one of BINS equal bins has most of the numbers, else []."""
    bounds = [float(bound) for bound in fields["bounds"]]
    numbers_of_missing = [n for word in missing if word and (n := number_of(word)) is not None]
    present = read[np.isfinite(read) & ~np.isin(read, numbers_of_missing)]
    counts = np.histogram(present, bins=BINS, range=(bounds[0], bounds[1]))[0]
    if counts.max() <= len(present) / 2:
        return []
    deciles = np.quantile(present, np.linspace(0, 1, BINS + 1)[1:-1])
    neat = (float(f"{decile:.2g}") for decile in deciles)
    edges = sorted({edge for edge in neat if bounds[0] < edge < bounds[1]})
    return [f"{Decimal(repr(edge)).normalize():f}" for edge in edges]


_CODE = re.compile(r"0[0-9]", re.ASCII)
_DIGITS = ("%Y%m%d", "%d%m%Y")  # Formats of dates that are eight digits
MIN_IDS = 100  # Rows from which integers that all differ are ids


def _fields(values: Sequence[str], rows: int) -> tuple[Fields, str]:
    """Return the fields that fit the different texts of some rows, or {} and why there are none."""
    is_id = len(values) == rows >= MIN_IDS and all(text.isdecimal() for text in values)
    if len(values) < 2 or is_id:
        single = "a single value" if values else "no value"
        return {}, "another number in each row: an id" if is_id else single
    if all(re.fullmatch("[0-9]{8}", text) for text in values):
        fields, remark = _fields_of_dates(values, [Clock("date", format=text) for text in _DIGITS])
        if fields or remark:
            return fields, remark
    if any(_CODE.match(text) for text in values):
        # Numbers do not begin with a zero: a postcode is not counted with.
        return _text_fields(values)
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
    fields, remark = _fields_of_dates(values, clocks)
    if fields or remark:
        return fields, remark
    if len(values) > MAX_LEVELS:
        return {}, f"{len(values):,} different texts"
    return {"levels": list(values)}, ""


def _fields_of_dates(values: Sequence[str], clocks: Sequence[Clock]) -> tuple[Fields, str]:
    """Return the fields of dates if one of the clocks' formats fits all texts, else {}.

    The second value says why if several fit; it is empty if none does."""
    fitting = [c for c in clocks if all(c.number(text) is not None for text in values)]
    if len(fitting) > 1:
        return {}, "dates that fit two formats: declare `format`"
    if fitting:
        moments = [fitting[0].number(text) or 0 for text in values]
        return _time_fields(fitting[0], min(moments), max(moments)), ""
    return {}, ""


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
    """Return fields that declare times between two: their days as bounds, and few calendar bins."""
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
    """Return round bounds around two numbers as texts, each less than ⅛ of their difference away.

    Without a difference they are the numbers themselves.

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
    return f"{lower.normalize():f}", f"{upper.normalize():f}"
