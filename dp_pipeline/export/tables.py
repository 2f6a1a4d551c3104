"""Writing and reading of released tables as CSV, Parquet or Arrow, and of places as GeoJSON.

Values come back equal and with their types, so that the digest of a table can be compared with
that of its release: numbers have all their digits, and a text that a spreadsheet would compute
begins with ``'``. Texts that would be ambiguous in CSV are refused. CSV begins with a byte order
mark, by which spreadsheets know UTF-8. Where the source has decimal commas, so has every number of
the export, and cells are separated by semicolons.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import Point, is_degrees, point_of
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.export.folder import OWN
from dp_pipeline.results.clusters import Columns, batches_of, rows_in_batches, typed_batch
from dp_pipeline.results.source_types import StoredColumn
from dp_pipeline.spreadsheet import csv_cell, escape_formula, unescape_formula

POINT, COMMA = ".", ","
DELIMITERS = {POINT: ",", COMMA: ";"}
"""Decimal sign of an export → the sign between the cells of its CSV files."""

_ENCODING = "utf-8-sig"
_EMPTY = '""'

FORMATS = ("csv", "parquet", "arrow")
"""Endings of the file formats of tables."""

Types = Mapping[str, str]
"""Column name → ``string``, ``integer``, ``number``, ``date`` or ``datetime``."""

_MISSING = ""
_TYPES = {"U": "string", "i": "integer", "f": "number"}
_SPECIAL_NUMBERS = {"INF": "inf", "-INF": "-inf", "NaN": "nan"}
"""Text of a number by Table Schema → by Python."""


def types_of(table: Columns) -> dict[str, str]:
    """Return the Table Schema type of each column: ``string``, ``integer``, ``number``, ``date``
    or ``datetime``; ``string`` for a column without values."""
    return {name: _type(typed_batch(table, name)) for name in table}


def _type(values: np.ndarray) -> str:
    if values.dtype.kind == "O":
        present = np.array([value for value in values.tolist() if value is not None])
        return _type(present) if len(present) else "string"
    if values.dtype.kind == "M":
        return "date" if values.dtype == np.dtype("datetime64[D]") else "datetime"
    return _TYPES[values.dtype.kind]


def has_missing(table: Columns) -> bool:
    """Return whether any value of a table is missing."""
    return any(
        bool(np.isnat(values).any())
        if values.dtype.kind == "M"
        else values.dtype.kind == "O" and None in values.tolist()
        for name in table
        for values in batches_of(table, name)
    )


def write_table(
    path: Path,
    table: Columns,
    *,
    decimal: str = POINT,
    stored: Mapping[str, StoredColumn] | None = None,
) -> None:
    """Write a table in the format that the path's ending names.

    decimal   decimal sign of numbers in CSV
    stored    column → the type of the source, which it gets in Parquet and Arrow

    DeclarationError for texts that would be ambiguous in CSV.
    """
    if path.suffix == ".csv":
        _write_csv(path, table, decimal)
        return
    # A reader of CSV needs no Arrow.
    from dp_pipeline.export.arrow_tables import write_arrow, write_parquet

    with path.open("wb") as file:
        (write_parquet if path.suffix == ".parquet" else write_arrow)(file, table, stored)


def read_resource(folder: Path, resource: Mapping[str, Any]) -> Columns:
    """Return the table, as it was released, in a file that ``write_table`` wrote.

    resource   the entry of ``datapackage.json`` that describes the file

    ValueError, KeyError, TypeError or AttributeError for a wrong entry or a file of other content,
    OSError for a file that cannot be read.
    """
    schema, dialect = resource["schema"], resource.get("dialect", {})
    # Dates in a format of their own are texts in the release.
    types = {
        field["name"]: "string" if "format" in field else str(field["type"])
        for field in schema["fields"]
    }
    decimal = COMMA if dialect.get("delimiter") == DELIMITERS[COMMA] else POINT
    path = folder / str(resource["path"])
    labels = {field["name"]: field[OWN]["levels"] for field in schema["fields"] if OWN in field}
    is_missing = bool(schema["missingValues"])
    if path.suffix == ".csv":
        try:
            return _read_csv(path, types, missing=is_missing, decimal=decimal)
        except (csv.Error, OverflowError):
            raise ValueError("the file must be CSV of an export, but is damaged") from None
    from dp_pipeline.export.arrow_tables import read_arrow, read_parquet

    read = read_parquet if path.suffix == ".parquet" else read_arrow
    return read(path.read_bytes(), labels)


LINES = 1 << 16
"""Lines of a CSV file that are held in memory together."""


def _write_csv(path: Path, table: Columns, decimal: str) -> None:
    texts = (
        (name, cells)
        for name in table
        for cells in batches_of(table, name)
        if cells.dtype.kind in "UO"
    )
    empty = (name for name, cells in texts if _MISSING in cells.tolist())
    if has_missing(table) and (name := next(empty, None)) is not None:
        raise _ambiguous_text(f"{path.name}, column {name!r}", "an empty text from a missing value")
    types, separator = types_of(table), DELIMITERS[decimal]
    with path.open("w", encoding=_ENCODING, newline="") as file:
        header = _plain_texts(f"{path.name}, names of columns", list(table))
        file.write(f"{separator.join(header)}\n")
        for batch in rows_in_batches(table):
            for first in range(0, max(map(len, batch.values()), default=0), LINES):
                part = slice(first, first + LINES)
                cells = [
                    _texts(f"{path.name}, column {name!r}", values[part], types[name], decimal)
                    for name, values in batch.items()
                ]
                lines = map(separator.join, zip(*cells, strict=True))
                # A line with one empty cell would be no line.
                file.writelines(f"{line or _EMPTY}\n" for line in lines)


def _texts(place: str, values: np.ndarray, type_: str, decimal: str) -> list[str]:
    if values.dtype.kind == "M":
        texts = np.datetime_as_string(values)
        return np.where(np.isnat(values), _MISSING, texts).tolist()  # type: ignore[no-any-return]
    if values.dtype.kind == "U":
        return _plain_texts(place, values.tolist())
    if type_ == "string":
        return _plain_texts(place, ["" if text is None else text for text in values.tolist()])
    names = {python: schema for schema, python in _SPECIAL_NUMBERS.items()}
    cells = (_MISSING if x is None else names.get(repr(x), repr(x)) for x in values.tolist())
    return [cell.replace(POINT, decimal) for cell in cells]


def _plain_texts(place: str, texts: list[str]) -> list[str]:
    plain = {text: escape_formula(text) for text in dict.fromkeys(texts)}
    if any(unescape_formula(cell) != text for text, cell in plain.items()):
        raise _ambiguous_text(place, "a text that begins with ' from an escaped formula")
    cells = {text: csv_cell(cell) for text, cell in plain.items()}
    return [cells[text] for text in texts]


def _ambiguous_text(place: str, fault: str) -> DeclarationError:
    return DeclarationError(
        f"{place}: CSV cannot distinguish {fault}: export with `--format parquet`, or, for a "
        "published copy, declare other texts and release anew"
    )


def _read_csv(path: Path, types: Types, *, missing: bool, decimal: str) -> dict[str, np.ndarray]:
    with path.open(encoding=_ENCODING, newline="") as file:
        lines = csv.reader(file, delimiter=DELIMITERS[decimal], strict=True)
        names = next(lines, [])
        if names != list(types):
            raise ValueError("the columns must be those that the descriptor names, but they differ")
        columns: dict[str, list[np.ndarray]] = {name: [_column([], types[name])] for name in names}
        while rows := list(islice(lines, LINES)):
            for name, cells in zip(names, zip(*rows, strict=True), strict=True):
                texts: Sequence[str] = cells
                if decimal != POINT and types[name] == "number":
                    texts = [cell.replace(decimal, POINT) for cell in cells]
                columns[name].append(_column(texts, types[name], missing=missing))
    return {
        unescape_formula(name): np.concatenate(parts[1:] or parts)
        for name, parts in columns.items()
    }


def _column(cells: Sequence[str], type_: str, *, missing: bool = False) -> np.ndarray:
    if type_ in ("date", "datetime"):
        unit = "D" if type_ == "date" else "s"
        return np.array([cell or "NaT" for cell in cells], dtype=f"datetime64[{unit}]")
    read, dtype = _READERS[type_]
    if missing and _MISSING in cells:
        values = [None if cell == _MISSING else read(cell) for cell in cells]
        return np.array([*values, None], dtype=object)[:-1]
    return np.array([read(cell) for cell in cells], dtype=dtype)


_READERS: Mapping[str, tuple[Callable[[str], Any], type]] = {
    "string": (unescape_formula, np.str_),
    "integer": (int, np.int64),
    "number": (lambda text: float(_SPECIAL_NUMBERS.get(text, text)), np.float64),
}


CENTRES, MAP = "centres", "synopsis"
"""The tables of a clustering that are places."""


def place_of(spec: DatasetSpec, tables: Mapping[str, Columns]) -> Point | None:
    """Return the columns of longitude and latitude of released centres.

    None for a release without centres, or whose centres are no places in degrees.

    GeoJSON has degrees only: places in kilometres would be drawn far from where they are.
    """
    point = point_of(tuple(tables.get(CENTRES, ())), spec.point)
    if point is None:
        return None
    x, y = spec.domain.box(point)
    return point if is_degrees(point, (x, y)) else None


def geojson(name: str, table: Columns, place: Point) -> bytes:
    """Return the table ``centres`` or ``synopsis`` as GeoJSON (RFC 7946), a feature for each row.

    Centres are points, the boxes of a map are polygons, and other columns are properties."""
    shape, used = _point, [*place]
    if name != CENTRES:
        shape, used = _box, [f"{column}_{side}" for column in place for side in ("lower", "upper")]
    properties = [column for column in table if column not in used]
    columns = [np.asarray(values).tolist() for values in table.values()]
    rows = (dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True))
    collection = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "geometry": shape(row, place),
                "properties": {column: row[column] for column in properties},
            }
            for row in rows
        ],
    }
    return f"{json.dumps(collection, ensure_ascii=False, allow_nan=False)}\n".encode()


def _point(row: Mapping[str, float], place: Point) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [row[column] for column in place]}


def _box(row: Mapping[str, float], place: Point) -> dict[str, Any]:
    """Return a box as a GeoJSON polygon: corners counterclockwise, the first one repeated."""
    x, y = place
    west, east = row[f"{x}_lower"], row[f"{x}_upper"]
    south, north = row[f"{y}_lower"], row[f"{y}_upper"]
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}
