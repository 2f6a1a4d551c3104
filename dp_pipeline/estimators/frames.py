"""``X`` as columns of values that the readers of ``raw`` accept. Rows live here.

Only the form of ``X`` is refused, its shape and its types: no error or warning depends on a value
or on the number of rows.

A column whose type a file could have is passed on as it is. The values of any other column become
texts first, each by itself, so that none of them changes another.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.raw import values as raw_values


@dataclass(frozen=True, eq=False)
class Features:
    """The n rows and d columns that an estimator was given.

    labels    names of the columns of a frame; None for arrays and lists
    columns   d series of a frame, or d arrays, which share the memory of ``X`` where they can
    rows      n, which columns do not show if there are none
    index     index of the frame, or None
    """

    labels: tuple[Any, ...] | None
    columns: tuple[Any, ...]
    rows: int
    index: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns as texts: ``x0``, ``x1``, … if no label in ``X`` is a text.

        DeclarationError if only some labels are texts.
        """
        texts = [isinstance(label, str) for label in self.labels or ()]
        if any(texts) and not all(texts):
            odd = next(label for label in self.labels or () if not isinstance(label, str))
            raise DeclarationError(
                f"X: the names of columns must all be texts, but {odd!r:.60} is not: rename it"
            )
        return tuple(self.labels or ()) if any(texts) else position_names(0, len(self.columns))

    @property
    def keys(self) -> tuple[Any, ...]:
        """The names by which a declaration calls the columns: the labels of a frame if all are
        integers, else ``names``."""
        labels = self.labels or ()
        return labels if labels and all(map(is_integer_label, labels)) else self.names


def is_integer_label(label: object) -> bool:
    """Return whether a column's label is an integer, as in a frame without a header."""
    return isinstance(label, Integral) and not isinstance(label, bool)


def position_names(start: int, stop: int) -> tuple[str, ...]:
    """Return names of the columns at positions from start to stop − 1: ``x0``, ``x1``, …"""
    return tuple(f"x{index}" for index in range(start, stop))


FrameKind = Literal["pandas", "arrow", "polars"]


def frame_kind(X: Any) -> FrameKind:
    """Return the library of a frame: ``pandas``; ``polars``; or ``arrow`` for any other table that
    exports Arrow data. A value that is no frame has ``pandas``, as it gets frames of that.

    No library is imported.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return "pandas"
    has_arrow_columns = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")
    if not has_arrow_columns or len(getattr(X, "shape", ())) != 2:
        return "pandas"
    return "polars" if type(X).__module__.partition(".")[0] == "polars" else "arrow"


def plain_frame(X: Any) -> Any:
    """Return a frame of polars or Arrow as a pandas frame with Arrow types; other values unchanged.

    DeclarationError for a column of a type that Arrow lacks, and for a frame that raises an error.
    """
    return _guarded(lambda: _arrow_backed(X))


def _guarded(read: Callable[[], Any]) -> Any:
    """Return ``read()``; if it fails, raise a DeclarationError with the type of its error alone.

    The text may quote a row's value: a relation of DuckDB runs its query when it is read.
    """
    try:
        return read()
    except DeclarationError:
        raise
    except Exception as error:  # noqa: BLE001 - a frame may be of any library
        raise DeclarationError(
            "X: expected a frame or an array that can be read, got a "
            f"{type(error).__name__} on reading it: correct the query behind it"
        ) from None


def _arrow_backed(X: Any) -> Any:
    if frame_kind(X) == "pandas":
        return X
    import pandas as pd

    try:
        # By itself, polars hands texts over in a type that Arrow can hardly compute with.
        table = X.to_arrow() if hasattr(X, "to_arrow") else pa.table(X)
    except pa.ArrowException:
        # The types alone: what Arrow says may go on with values.
        types = X.schema.items() if frame_kind(X) == "polars" else ()
        lacking = [(name, dtype) for name, dtype in types if not _in_arrow(X[name])]
        if not lacking:
            raise
        listed = ", ".join(f"{name!r} of {dtype}" for name, dtype in lacking)
        raise DeclarationError(
            f"X: expected columns of types that Arrow has, got column {listed[:200]}: cast it"
        ) from None
    frame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    # An Enum of polars is a type with its levels; Arrow keeps them with the values alone.
    enums = {
        name: pd.CategoricalDtype(dtype.categories.to_list(), ordered=True)
        for name, dtype in (X.schema.items() if frame_kind(X) == "polars" else ())
        if type(dtype).__name__ == "Enum"
    }
    return frame.astype(dict.fromkeys(enums, "object")).astype(enums) if enums else frame


def _in_arrow(series: Any) -> bool:
    try:
        return series.head(0).to_arrow() is not None
    except pa.ArrowException:
        return False


def features_of(X: Any) -> Features:
    """Return the columns, possibly none, of an array, of nested lists or of a frame.

    Columns of nested lists are arrays of objects, whose values are not converted. DeclarationError
    for anything else, and for a frame with two columns of the same name.
    """
    if hasattr(X, "tocsr"):
        raise DeclarationError(
            "X: the rows must be dense, but they are a sparse matrix: pass X.toarray()"
        )
    X = plain_frame(X)
    # There is no frame where nobody has imported pandas, which takes long.
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        labels = tuple(X.columns)
        if len(set(labels)) < len(labels):
            twice = next(label for place, label in enumerate(labels) if label in labels[:place])
            raise DeclarationError(f"X: expected each column name once, got {twice!r:.60} twice")
        columns = tuple(X.iloc[:, index] for index in range(len(labels)))
        return Features(labels, columns, len(X), X.index)
    array = _array(X)
    return Features(None, tuple(array.T), len(array))


def _array(X: Any) -> NDArray[Any]:
    if isinstance(X, list | tuple):
        if not all(isinstance(row, list | tuple) or np.ndim(row) == 1 for row in X):
            raise DeclarationError(
                "X: each row must be a list or a tuple, but one is not: pass nested lists, or an "
                "array of two dimensions"
            )
        lengths = {len(row) for row in X} or {0}
        if len(lengths) > 1:
            raise DeclarationError(
                "X: the rows must have equal lengths, but some are longer than others"
            )
        array: NDArray[Any] = np.empty((len(X), *lengths), dtype=object)
        for index, row in enumerate(X):
            array[index] = row
        return array
    # As an array, a table of another library changes its type where a value is missing.
    if hasattr(X, "schema") or hasattr(X, "iloc") or not hasattr(X, "__array__"):
        hint = ": X[[name]] has two dimensions" if hasattr(X, "iloc") else ""
        raise DeclarationError(
            "X: expected two dimensions, of a frame of pandas, polars or Arrow, an array or nested "
            f"lists, got {type(X).__name__}{hint}"
        )
    array = _guarded(lambda: np.asarray(X))
    if isinstance(X, np.ma.MaskedArray):
        # A masked value is stored as an arbitrary number.
        is_real = array.dtype.kind in "fc"
        values = array if is_real else array.astype(object)
        array = np.where(np.ma.getmaskarray(X), np.nan if is_real else None, values)  # type: ignore[arg-type]
    if array.ndim != 2:
        raise DeclarationError(
            f"X: the table must have two dimensions, not {array.ndim}: Reshape your data"
        )
    return array


def is_among(name: object, names: Collection[Any]) -> bool:
    """Return whether a value equals one of some names; False if it cannot be compared with them."""
    try:
        return name in names
    except (TypeError, ValueError):
        return False


def require_columns(features: Features) -> None:
    if not features.columns:
        raise DeclarationError("X: the table must have at least one column, but it has none")


def numeric_features(X: Any) -> Features:
    """Return the columns of an array, of nested lists or of a frame; DeclarationError unless there
    are some, all of numeric types."""
    features = features_of(X)
    if isinstance(X, list | tuple):
        # A list in a cell has no number, and leaves objects.
        with suppress(ValueError):
            array = np.asarray(X)
            columns = tuple(array.T) if array.ndim == 2 else features.columns
            features = replace(features, columns=columns)
    require_columns(features)
    labels = features.labels or range(len(features.columns))
    for label, dtype in zip(labels, (each.dtype for each in features.columns), strict=True):
        if dtype.kind not in "biuf":
            # The words that scikit-learn's checks of estimators look for.
            reason = " (Complex data not supported)" if dtype.kind == "c" else ""
            # The type alone: what NumPy calls a text type tells the longest text of the rows.
            raise DeclarationError(
                f"X: the columns must be real numbers, but column {label!r:.60} has type "
                f"{dtype.type.__name__}: convert it, or leave it out{reason}"
            )
    return features


def numeric_rows(X: Any, columns: int) -> FloatArray:
    """Return the rows of X as numbers (n, columns), NaN where one is missing.

    DeclarationError as ``numeric_features``, and for another number of columns.
    """
    series = numeric_features(plain_frame(X)).columns
    if len(series) != columns:
        raise DeclarationError(
            f"X: the table must have {columns} columns as in the fit, not {len(series)}: pass "
            "the same columns"
        )
    return np.stack([numbers_of(column)[0] for column in series], axis=1)


UNKNOWN = "\0"
"""Stands for a value that is no text, number or truth value: it is no level and no number."""


def text_of(value: object, reads: Reads = "text") -> str | None:
    """Return a text, a number or a truth value as text; None if it is missing.

    This never raises an error.

    Outer spaces are removed, and an integer has no point: 1, 1.0 and 1 + 0j have the text 1, as one
    complex number makes pandas store a column of them. A value of a subclass is read as the value
    that it holds. A value of any other type, such as a list, and one that raises when it is read
    are UNKNOWN. If ``reads`` is number, the text of a truth value is 1 or 0.

    >>> text_of(" f "), text_of(2.0), text_of(True), text_of(float("nan"))
    ('f', '2', 'True', None)
    """
    try:
        if isinstance(value, str):
            # A half of a pair of surrogates cannot be stored as it is.
            return str.encode(str.strip(value), "utf-8", "backslashreplace").decode()
        if isinstance(value, bool | np.bool_):
            return str(int(value)) if reads == "number" else str(bool(value))
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            return None
        if type(value).__name__ == "Interval":
            # Categories of pandas are made of them.
            return str(value)
        if isinstance(value, Complex) and not isinstance(value, Real) and not value.imag:
            value = value.real
        if isinstance(value, np.float32) and reads == "text":
            # As ``raw.values.texts`` reads a column of them: 0.1 of 32 bits is 0.1.
            value = float(str(value))
        return _number_text(value) if isinstance(value, Real | Decimal) else UNKNOWN
    except Exception:  # noqa: BLE001 - a value may be of any class, with methods that raise
        return UNKNOWN


def _number_text(value: Any) -> str | None:
    try:
        number = float.__float__(value) if isinstance(value, float) else float(value)
    except OverflowError:
        # Larger than any float is larger than any bound.
        return "inf" if value > 0 else "-inf"
    if math.isnan(number):
        return None
    if isinstance(value, Integral):
        return str(int.__int__(value) if isinstance(value, int) else int(value))
    return str(int(number)) if number.is_integer() else repr(number)


def holds_objects(dtype: Any) -> bool:
    """Return whether a type is NumPy's object type; that of Arrow's lists and decimals is not."""
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


Reads = Literal["text", "number", "time"]
"""What a column is declared to hold. A truth value is the number 1 or 0, or the text True or False.
"""


def to_arrow(column: Any, reads: Reads = "text") -> pa.ChunkedArray:
    """Return a column of X as Arrow numbers, times or texts, as a file could have it.

    reads   what the column is declared to hold. ``time``: times stay; ``number``: numbers stay, and
            truth values, durations in seconds and decimals become numbers; ``text``, for levels:
            numbers stay. All else becomes texts
    """
    if column.dtype.name == "category":
        codes, categories = column.cat.codes.to_numpy(), to_arrow(column.cat.categories, reads)
        return categories.take(pa.array(codes, mask=codes < 0))
    if reads == "number" and column.dtype == np.dtype(bool):
        column = np.asarray(column).view(np.int8)
    array = _convert_directly(column, reads)
    if array is not None:
        return array
    texts = [_word(value, reads) for value in _values(column)]
    return pa.chunked_array([pa.array(texts, type=pa.large_string())])


def _values(column: Any) -> Sequence[Any]:
    """Return the values of a column as Python objects, UNKNOWN for one that Python cannot hold."""

    def value_at(row: int) -> Any:
        try:
            return column.iloc[row]
        except Exception:  # noqa: BLE001 - of this row alone
            return UNKNOWN

    try:
        return column.tolist()  # type: ignore[no-any-return]
    except Exception:  # noqa: BLE001 - such as a day after the year 9999
        return [value_at(row) for row in range(len(column))]


def column_to_arrow(attribute: Attribute, column: Any) -> pa.ChunkedArray:
    """Return a column of X as Arrow times, numbers or texts, by what its attribute declares."""
    if attribute.clock is not None and attribute.clock.format and column.dtype.kind in "iu":
        # Such as 20261231: its digits are read by the format.
        column = column.astype(str)
    return to_arrow(
        column, "time" if attribute.clock else "number" if attribute.is_numeric else "text"
    )


def require_exact_ids(*columns: Any) -> None:
    """Raise DeclarationError if a column of persons' ids has floats or times, which may have
    rounded two ids to one."""
    for dtype in (column.dtype for column in columns):
        if dtype.kind in "fcmM":
            raise DeclarationError(
                f"person: the column must hold texts or integers, not {dtype.name}, which may "
                "round two persons to one"
            )


def persons_to_arrow(column: Any) -> pa.ChunkedArray:
    """Return a column of persons' ids as Arrow texts or integers, null for any other value.

    A float is no id, as two persons may have been rounded to one. Nor is a value that cannot be
    read, as all of these would be one person.
    """
    array = _convert_directly(column, "number") if not holds_objects(column.dtype) else None
    if array is not None and (array.type in raw_values.WHOLE or array.type in raw_values.TEXT):
        return array
    texts = [None if isinstance(value, float) else text_of(value) for value in _values(column)]
    ids = [None if text == UNKNOWN else text for text in texts]
    return pa.chunked_array([pa.array(ids, type=pa.large_string())])


_A_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def _convert_directly(column: Any, reads: Reads) -> pa.ChunkedArray | None:
    """Return a column as Arrow numbers, times or texts; None if each value must become a text."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
        is_real = column.dtype.kind == "f" and column.dtype != np.float32
        plain = np.float64 if is_real else column.dtype.newbyteorder("=")
        # A warning about a cast would say something about a row.
        with np.errstate(all="ignore"):
            column = np.asarray(column).astype(plain, copy=False)
    is_mixed = holds_objects(column.dtype)
    try:
        array = pa.array(column, from_pandas=True)
    except Exception:  # noqa: BLE001 - a value may be of any class, with methods that raise
        return None
    if reads == "number" and pa.types.is_duration(array.type):
        ticks = pc.cast(pc.cast(array, pa.int64()), pa.float64(), safe=False)
        array, is_mixed = pc.divide(ticks, _A_SECOND[array.type.unit]), False
    elif reads == "number" and pa.types.is_decimal(array.type):
        array, is_mixed = pc.cast(array, pa.float64()), False
    kind, stored_kind = raw_values.kind_of(array.type), "time" if reads == "time" else "number"
    # Of objects, a truth value beside floats would be stored as one of them.
    if kind != "text" and (kind != stored_kind or is_mixed):
        return None
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _word(value: Any, reads: Reads) -> str | None:
    try:
        if reads == "time" and not isinstance(value, str):
            is_time = isinstance(value, date) and type(value).__name__ != "NaTType"
            return str(value.isoformat()) if is_time else None
        return text_of(value, reads)
    except Exception:  # noqa: BLE001 - a value may be of any class, with methods that raise
        return None if reads == "time" else UNKNOWN


def numbers_of(column: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the numbers (n,) of a column, NaN for other values, and a mask (n,) that is True for
    numbers and missing values.

    A truth value is 1 or 0, a text the number that it reads as.
    """
    values = to_arrow(column, "number")
    numbers = raw_values.numbers(values)
    return numbers, ~np.isnan(numbers) | raw_values.find_missing(values, ())
