"""Released tables as CSV, Parquet or Arrow; read back, they are the values that they were. Places
too as GeoJSON.

Every value comes back with its type, so the digest of a table can be compared with what its release
says: numbers are written with all their digits, and a text that a spreadsheet would compute begins
with ``'``. What CSV cannot tell apart is refused, not guessed.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import Point, is_degrees, point_of
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.results.clusters import (
    ROWS_A_BATCH,
    Columns,
    LongColumns,
    batches_of,
    rows_in_batches,
)
from dp_pipeline.spreadsheet import escape_formula, unescape_formula

FORMATS = ("csv", "parquet", "arrow")
"""By their endings."""

Types = Mapping[str, str]
"""Column name → ``string``, ``integer``, ``number``, ``date`` or ``datetime``."""

_MISSING = ""
_TYPES = {"U": "string", "i": "integer", "f": "number"}
_STRANGE = {"INF": "inf", "-INF": "-inf", "NaN": "nan"}
"""Numbers that Table Schema writes otherwise than Python."""


def types_of(table: Columns) -> dict[str, str]:
    """The type of every column, in Table Schema's words; of missing values alone ``string``."""
    return {name: _type(_telling(table, name)) for name in table}


def _telling(table: Columns, name: str) -> np.ndarray:
    """As many rows of a column as say its type: the first batch in which a value is there."""
    for values in batches_of(table, name):
        if values.dtype.kind != "O" or any(one is not None for one in values.tolist()):
            break
    return values


def _type(values: np.ndarray) -> str:
    if values.dtype.kind == "O":
        present = np.array([one for one in values.tolist() if one is not None])
        return _type(present) if len(present) else "string"
    if values.dtype.kind == "M":
        return "date" if values.dtype == np.dtype("datetime64[D]") else "datetime"
    return _TYPES[values.dtype.kind]


def has_missing(table: Columns) -> bool:
    """Whether a value is missing anywhere."""
    return any(_misses(values) for name in table for values in batches_of(table, name))


def _misses(values: np.ndarray) -> bool:
    if values.dtype.kind == "M":
        return bool(np.isnat(values).any())
    return values.dtype.kind == "O" and None in values.tolist()


def arrow_batches(table: Columns) -> Iterator[Any]:
    """The same as tables of Arrow, of one schema; one without rows where there are none."""
    import pyarrow as pa

    def stored(type_: Any, values: np.ndarray) -> Any:
        # Text and what may be missing go through a list, which becomes what the type is.
        return pa.array(values.tolist() if values.dtype.kind in "UO" else values, type_)

    schema = pa.schema([(name, _stored_type(_telling(table, name))) for name in table])
    if not len(table):
        yield schema.empty_table()
    # Column by column: as texts of NumPy, all of a batch are many times as large.
    columns = [map(partial(stored, one.type), batches_of(table, one.name)) for one in schema]
    for arrays in zip(*columns, strict=True):
        yield pa.table(list(arrays), schema=schema)


def _stored_type(values: np.ndarray) -> Any:
    import pyarrow as pa

    if values.dtype.kind == "U":
        return pa.string()
    if values.dtype.kind != "O":
        return pa.array(values[:0]).type
    known = next((one for one in values.tolist() if one is not None), "")
    # A column of nothing but missing values says no type: text is what any reader takes.
    return pa.string() if isinstance(known, str) else pa.array([known]).type


def columns_of(table: Any) -> dict[str, np.ndarray]:
    """What ``arrow_batches`` was given, of all of them together."""
    return {name: _values(table.column(name)) for name in table.column_names}


def _values(column: Any, *, misses: bool = False) -> np.ndarray:
    """A column of Arrow as one of a bundle.

    misses   whether a value is missing in rows that are not among these
    """
    import pyarrow as pa

    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "M":
        # Parquet has no whole seconds: they come back as thousands of parts.
        is_date = pa.types.is_date(column.type)
        return np.asarray(values.astype("datetime64[D]" if is_date else "datetime64[s]"))
    if misses or column.null_count:
        # NumPy would make a float of a whole number beside a missing one.
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    return np.asarray(values.astype(np.str_) if values.dtype.kind == "O" else values)


def read_parquet(content: bytes) -> Columns:
    """What ``write_parquet`` was given; of more rows than a batch has, read at every look."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(content)) as file:
        if file.metadata.num_rows <= ROWS_A_BATCH:
            return columns_of(file.read())
        names = file.schema_arrow.names
    return LongColumns({name: partial(_stored_batches, content, name) for name in names})


def _stored_batches(content: bytes, name: str) -> Iterator[np.ndarray]:
    """A column of a Parquet file, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(content)) as file:
        groups = range(file.num_row_groups)
        misses = any(_group(file, at, name).null_count for at in groups)
        for at in groups:
            yield _values(_group(file, at, name), misses=misses)


def _group(file: Any, at: int, name: str) -> Any:
    return file.read_row_group(at, columns=[name]).column(0)


def write_table(path: Path, table: Columns) -> None:
    """Write a table in the format that the path ends with; DeclarationError for one that this
    format cannot say.
    """
    if path.suffix == ".csv":
        _write_csv(path, table)
        return
    with path.open("wb") as file:
        (write_parquet if path.suffix == ".parquet" else _write_arrow)(file, table)


def read_table(path: Path, types: Types, *, missing: bool) -> Columns:
    """What ``write_table`` was given; ValueError, KeyError or TypeError for what it did not write.

    types     of all columns, under the names that stand in the file
    missing   whether an empty cell of a CSV file is a missing value, in place of an empty text
    """
    if path.suffix == ".csv":
        return _read_csv(path, types, missing=missing)
    import pyarrow as pa

    if path.suffix == ".parquet":
        return read_parquet(path.read_bytes())
    with pa.ipc.open_file(pa.BufferReader(path.read_bytes())) as file:
        return columns_of(file.read_all())


def write_parquet(file: BinaryIO, table: Columns) -> None:
    """A table as Parquet, a row group a batch."""
    import pyarrow.parquet as pq

    first, batches = _begun(table)
    with pq.ParquetWriter(file, first.schema) as writer:
        for batch in batches:
            writer.write_table(batch, row_group_size=ROWS_A_BATCH)


def _write_arrow(file: BinaryIO, table: Columns) -> None:
    import pyarrow as pa

    first, batches = _begun(table)
    with pa.ipc.new_file(file, first.schema) as writer:
        for batch in batches:
            writer.write_table(batch)


def _begun(table: Columns) -> tuple[Any, Iterator[Any]]:
    """The first batch, for its schema, and all of them."""
    batches = arrow_batches(table)
    first = next(batches)
    return first, chain([first], batches)


LINES = 1 << 16
"""Of a CSV file that are texts at a time: a table of millions of rows is written in parts."""


def _write_csv(path: Path, table: Columns) -> None:
    texts = (
        cells for name in table for cells in batches_of(table, name) if cells.dtype.kind in "UO"
    )
    if has_missing(table) and any(_MISSING in cells.tolist() for cells in texts):
        raise _unsayable(path)
    types = types_of(table)
    with path.open("w", encoding="utf-8", newline="") as file:
        # A line with one empty cell would be no line: it is quoted by the writer itself.
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_plain_texts(path, list(table)))
        for some in rows_in_batches(table):
            for first in range(0, max(map(len, some.values()), default=0), LINES):
                part = {name: values[first : first + LINES] for name, values in some.items()}
                cells = [_texts(path, values, types[name]) for name, values in part.items()]
                writer.writerows(zip(*cells, strict=True))


def _texts(path: Path, values: np.ndarray, type_: str) -> list[str]:
    """The cells of a column, or of a part of one."""
    if values.dtype.kind == "M":
        texts = np.datetime_as_string(values)
        return np.where(np.isnat(values), _MISSING, texts).tolist()  # type: ignore[no-any-return]
    if values.dtype.kind == "U":
        return _plain_texts(path, values.tolist())
    if type_ == "string":
        present = ["" if one is None else one for one in values.tolist()]
        return _plain_texts(path, present)
    return [_number(one) for one in values.tolist()]


def _plain_texts(path: Path, texts: list[str]) -> list[str]:
    different = dict.fromkeys(texts)
    plain = {one: escape_formula(one) for one in different}
    if any(unescape_formula(plain[one]) != one for one in different):
        raise _unsayable(path)
    return [plain[one] for one in texts]


def _number(value: float | None) -> str:
    if value is None:
        return _MISSING
    text = repr(value)
    return {python: schema for schema, python in _STRANGE.items()}.get(text, text)


def _unsayable(path: Path) -> DeclarationError:
    return DeclarationError(
        f"{path.name}: expected texts that CSV can tell from missing values and from formulas, "
        "got others: `--format parquet` can"
    )


def _read_csv(path: Path, types: Types, *, missing: bool) -> dict[str, np.ndarray]:
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, strict=True)
        names = next(lines, [])
        if names != list(types):
            raise ValueError("other columns than are described")
        parts: list[list[np.ndarray]] = [[_column([], types[name])] for name in names]
        while cells := list(islice(lines, LINES)):
            for column, name, found in zip(parts, names, zip(*cells, strict=True), strict=True):
                column.append(_column(found, types[name], missing=missing))
    return {
        unescape_formula(name): np.concatenate(column[1:] or column)
        for name, column in zip(names, parts, strict=True)
    }


def _column(cells: Sequence[str], type_: str, *, missing: bool = False) -> np.ndarray:
    read = _READ[type_]
    if type_ in ("date", "datetime"):
        unit = "D" if type_ == "date" else "s"
        return np.array([one or "NaT" for one in cells], dtype=f"datetime64[{unit}]")
    if missing and _MISSING in cells:
        found = [None if one == _MISSING else read(one) for one in cells]
        return np.array([*found, None], dtype=object)[:-1]
    return np.array([read(one) for one in cells], dtype=_DTYPES[type_])


_READ: Mapping[str, Callable[[str], Any]] = {
    "string": unescape_formula,
    "integer": int,
    "number": lambda text: float(_STRANGE.get(text, text)),
    "date": str,
    "datetime": str,
}
_DTYPES = {"string": np.str_, "integer": np.int64, "number": np.float64}


CENTRES, MAP = "centres", "synopsis"
"""The tables of a clustering that are places."""


def place_of(spec: DatasetSpec, tables: Mapping[str, Columns]) -> Point | None:
    """The columns of longitude and latitude, which are all that GeoJSON knows; None where the
    released columns are another place, such as kilometres: every program would draw it somewhere in
    the Gulf of Guinea.
    """
    point = point_of(tuple(tables.get(CENTRES, ())), spec.point)
    if point is None:
        return None
    x, y = spec.domain.box(point)
    return point if is_degrees(point, (x, y)) else None


def geojson(name: str, table: Columns, place: Point) -> bytes:
    """The table ``centres`` or ``synopsis`` as a collection of features (RFC 7946), one a row, in
    its order: centres as points, the boxes of a map as polygons.

    Columns that are not the place are their properties.
    """
    shape, own = _point, [*place]
    if name != CENTRES:
        shape, own = _box, [f"{column}_{side}" for column in place for side in ("lower", "upper")]
    others = [column for column in table if column not in own]
    columns = [np.asarray(values).tolist() for values in table.values()]
    rows = (dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True))
    collection = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "geometry": shape({column: row[column] for column in own}, place),
                "properties": {column: row[column] for column in others},
            }
            for row in rows
        ],
    }
    return f"{json.dumps(collection, ensure_ascii=False, allow_nan=False)}\n".encode()


def _point(row: Mapping[str, float], place: Point) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [row[column] for column in place]}


def _box(row: Mapping[str, float], place: Point) -> dict[str, Any]:
    """Its corners against the clock, and the first one again."""
    x, y = place
    west, east = row[f"{x}_lower"], row[f"{x}_upper"]
    south, north = row[f"{y}_lower"], row[f"{y}_upper"]
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}
