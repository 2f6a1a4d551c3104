"""The columns of ``X``: numbers as they came, and the counter over them. Rows live here.

What is refused is the form of ``X``: its shape, its types. No value of a row and no
number of rows is ever an error, a warning or a part of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError

Columns = list[np.ndarray]
"""One numeric array (rows,) a column; a view of ``X`` where it can be."""

_BLOCK_ROWS = 1 << 16


def numeric_columns(X: Any) -> Columns:
    """The columns of an array, of nested lists or of a data frame, not copied where possible.

    Raises DeclarationError unless X has two dimensions, a column and numeric types.
    """
    if hasattr(X, "tocsr"):
        raise DeclarationError("X: expected dense rows, got a sparse matrix")
    columns = _of_frame(X) if hasattr(X, "iloc") else _of_array(X)
    if not columns:
        raise DeclarationError("X: expected at least one column, got none")
    for column in columns:
        _require_numeric(column.dtype)
    return columns


def counter_over(columns: Columns, domain: Domain) -> MemoryCounter:
    """The engine over fixed-point coordinates, 4 bytes a number.

    ±inf is clipped like any number outside the box; a row with NaN is dropped. What
    becomes of a row depends on that row alone.
    """
    box, rows, kept = domain.box(domain.names), len(columns[0]), 0
    table = np.empty((len(columns), rows), dtype=np.int32)
    # A warning about a cast would say something about a row.
    with np.errstate(all="ignore"):
        for start in range(0, rows, _BLOCK_ROWS):
            here = slice(start, start + _BLOCK_ROWS)
            block = np.stack([column[here].astype(np.float64) for column in columns])
            block = block[:, ~np.isnan(block).any(axis=0)]
            stop = kept + block.shape[1]
            for axis, interval in enumerate(box):
                table[axis, kept:stop] = interval.encode(block[axis])
            kept = stop
    coordinates = dict(zip(domain.names, table[:, :kept], strict=True))
    return MemoryCounter(domain, coordinates=coordinates, codes={}, rows=kept)


def _of_frame(frame: Any) -> Columns:
    if frame.ndim != 2:
        raise DeclarationError("X: expected two dimensions, got a single column: X[[name]] has two")
    if len(set(frame.columns)) < frame.shape[1]:
        raise DeclarationError("X: expected each column name once, got one twice")
    return [_of_series(frame.iloc[:, axis]) for axis in range(frame.shape[1])]


def _of_series(series: Any) -> np.ndarray:
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series)
    _require_numeric(series.dtype)
    # Nullable numbers: what is missing becomes NaN.
    return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))


def _of_array(X: Any) -> Columns:
    if hasattr(X, "schema"):
        # As an array, a table of another library changes its type where a value is missing.
        raise DeclarationError(
            f"X: expected an array, nested lists or a pandas frame, got {type(X).__name__}"
        )
    try:
        array = np.asarray(X)
    except ValueError:
        # NumPy's own text would tell the number of rows.
        raise DeclarationError("X: expected rows of one length, got others") from None
    if array.ndim != 2:
        raise DeclarationError(f"X: expected two dimensions, got {array.ndim}")
    return list(array.T)


def _require_numeric(dtype: Any) -> None:
    if dtype.kind == "c":
        raise DeclarationError("X: expected real numbers, got others: Complex data not supported")
    if dtype.kind not in "biuf":
        # The type alone: what NumPy calls a text type tells the longest text of the rows.
        raise DeclarationError(f"X: expected columns of a numeric type, got {dtype.type.__name__}")
