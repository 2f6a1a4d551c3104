"""Released tables as Arrow tables and Parquet files, and back.

In an export synthetic columns have the types of the source; in a stored release, those of NumPy.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_pipeline.results.clusters import ROWS_A_BATCH, Columns, LongColumns, batches_of, typed_batch
from dp_pipeline.results.source_types import StoredColumn, typed_levels

Stored = Mapping[str, StoredColumn]
"""Column → the type of the source that it has in Parquet and Arrow."""


def _arrow_batches(table: Columns, stored: Stored | None) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a table, and the table as Arrow tables, batch by batch."""
    stored = stored or {}

    def convert(name: str, type_: Any, values: np.ndarray) -> Any:
        if name in stored:
            return _stored_array(stored[name], type_, values.tolist())
        # Texts and values that may be missing go through a list, which takes the type.
        return pa.array(values.tolist() if values.dtype.kind in "UO" else values, type_)

    types = {
        name: _source_type(stored[name])
        if name in stored
        else _arrow_type(typed_batch(table, name))
        for name in table
    }
    schema = pa.schema(types.items())
    # Column by column: as texts of NumPy, all of a batch are many times as large.
    columns = [
        map(partial(convert, name, type_), batches_of(table, name)) for name, type_ in types.items()
    ]
    batches = zip(*columns, strict=True)
    return schema, (pa.table(list(arrays), schema=schema) for arrays in batches)


Labels = Mapping[str, Sequence[str]]
"""Column of the source's type → the released texts of its levels; () for numbers."""


def _arrow_type(values: np.ndarray) -> Any:
    if values.dtype.kind == "U":
        return pa.string()
    if values.dtype.kind != "O":
        return pa.array(values[:0]).type
    # A column of nothing but missing values shows no type: any reader takes text.
    first = next((value for value in values.tolist() if value is not None), "")
    return pa.string() if isinstance(first, str) else pa.array([first]).type


def columns_of(table: Any, labels: Labels | None = None) -> dict[str, np.ndarray]:
    """Return the columns (n,), as they were released, of an Arrow table of an export.

    labels   column with the type of the source → the released texts of its levels; () for numbers
    """
    columns = {name: table.column(name) for name in table.column_names}
    for name, texts in (labels or {}).items():
        columns[name] = _released_column(columns[name], texts)
    return {name: _numpy_column(column) for name, column in columns.items()}


def _numpy_column(column: Any, *, has_missing: bool = False) -> np.ndarray:
    """Return the values of an Arrow column as a NumPy array (n,).

    has_missing   whether a value is missing in some batch of the column
    """
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "M":
        # Parquet has no unit of seconds: they come back as thousandths.
        is_date = pa.types.is_date(column.type)
        return np.asarray(values.astype("datetime64[D]" if is_date else "datetime64[s]"))
    if has_missing or column.null_count:
        # NumPy would make a float of an integer in a column with a missing value.
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    return np.asarray(values.astype(np.str_) if values.dtype.kind == "O" else values)


def read_parquet(content: bytes, labels: Labels | None = None) -> Columns:
    """Return the table, as it was released, in the bytes of a file that ``write_parquet`` wrote.

    labels   column with the type of the source → the released texts of its levels; () for numbers

    A table of more than ``ROWS_A_BATCH`` rows is read in batches at each use. ValueError for a
    damaged file, at the call or at a use.
    """
    with _damage_as_value_error(), pq.ParquetFile(pa.BufferReader(content)) as file:
        if file.metadata.num_rows <= ROWS_A_BATCH:
            return columns_of(file.read(), labels)
        names = file.schema_arrow.names
    texts = labels or {}
    return LongColumns(
        {name: partial(_stored_batches, content, name, texts.get(name)) for name in names}
    )


def read_arrow(content: bytes, labels: Labels | None = None) -> Columns:
    """Return the table, as it was released, in the bytes of a file that ``write_arrow`` wrote.

    labels   column with the type of the source → the released texts of its levels; () for numbers

    ValueError for a damaged file.
    """
    with _damage_as_value_error(), pa.ipc.open_file(pa.BufferReader(content)) as file:
        stored = file.read_all()
        # Arrow follows offsets and indices of a file unseen, even out of its memory.
        stored.validate(full=True)
        return columns_of(stored, labels)


@contextmanager
def _damage_as_value_error() -> Iterator[None]:
    # The bytes are in memory, so an OSError is one about their form.
    try:
        yield
    except (pa.ArrowException, OSError):
        raise ValueError("the bytes must be a file of Arrow or Parquet, but are damaged") from None


def _stored_batches(
    content: bytes, name: str, labels: Sequence[str] | None
) -> Iterator[np.ndarray]:
    def column(group: int) -> Any:
        stored = file.read_row_group(group, columns=[name]).column(0)
        return stored if labels is None else _released_column(stored, labels)

    with _damage_as_value_error(), pq.ParquetFile(pa.BufferReader(content)) as file:
        groups = range(file.num_row_groups)
        any_missing = any(column(group).null_count for group in groups)
        for group in groups:
            yield _numpy_column(column(group), has_missing=any_missing)


def write_parquet(file: BinaryIO, table: Columns, stored: Stored | None = None) -> None:
    """Write a table as Parquet, with one row group for each batch.

    stored   column → the type of the source, which it gets
    """
    schema, batches = _arrow_batches(table, stored)
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_table(batch, row_group_size=ROWS_A_BATCH)


def write_arrow(file: BinaryIO, table: Columns, stored: Stored | None = None) -> None:
    """Write a table as an Arrow file.

    stored   column → the type of the source, which it gets
    """
    schema, batches = _arrow_batches(table, stored)
    with pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_table(batch)


def _source_type(column: StoredColumn) -> Any:
    if column.type.endswith("categories"):
        index = np.min_scalar_type(-max(2, len(column.labels)))
        is_ordered = column.type.startswith("ordered")
        return pa.dictionary(pa.from_numpy_dtype(index), pa.string(), ordered=is_ordered)
    if column.type.startswith("decimal"):
        return pa.decimal128(*map(int, re.findall(r"\d+", column.type)[1:]))
    return pa.type_for_alias(column.type)


def _stored_array(column: StoredColumn, type_: Any, values: list[Any]) -> Any:
    if pa.types.is_dictionary(type_):
        places = {label: place for place, label in enumerate(column.labels)}
        indices = pa.array([places.get(value) for value in values], type_.index_type)
        labels = pa.array(column.labels, pa.string())
        return pa.DictionaryArray.from_arrays(indices, labels, ordered=type_.ordered)
    if column.labels:
        typed = typed_levels(column.labels, column.type)
        return pa.array([typed.get(value) for value in values], type_)
    if pa.types.is_decimal(type_):
        unit = Decimal(1).scaleb(-type_.scale)
        values = [None if x is None else Decimal(repr(float(x))).quantize(unit) for x in values]
    return pa.array(values, type_)


def _released_column(column: Any, labels: Sequence[str]) -> Any:
    """Return an Arrow column of the source's type as it was released: texts, floats or integers.

    labels   released texts of the column's levels; () for numbers
    """
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    if labels:
        label_of = {value: label for label, value in typed_levels(labels, str(column.type)).items()}
        texts = [None if value is None else label_of[value] for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_decimal(column.type):
        # Arrow rounds twice when it makes floats of decimals.
        numbers = [None if value is None else float(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(numbers, pa.float64())])
    return column.cast(pa.int64())
