"""The columns of ``X``: numbers as they came, and the counter over them. Rows live here.

What is refused is the form of ``X``: its shape, its types. No value of a row and no
number of rows is ever an error, a warning or a part of one.

The values of one pandas series as texts or as numbers, whatever its type is. Rows live here.

The columns of ``X`` as pandas series, whatever their types are. Rows live here.

One value as the text that declared levels are compared with, whatever its type is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.encoding import FloatArray, IntArray
from dp_pipeline.spec.errors import DeclarationError

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


@dataclass(frozen=True, eq=False)
class Features:
    """n rows of d columns.

    names    texts; ``x0``, ``x1``, … where ``X`` has none
    series   one a column, in their order
    rows     n, for there may be no column
    index    of the frame that they came in, or None
    """

    names: tuple[str, ...]
    series: tuple[Any, ...]
    rows: int
    index: Any = None


def features_of(X: Any) -> Features:
    """The columns of an array, of nested lists or of a pandas frame; no column is fine too.

    DeclarationError for anything else, and for a frame with a name twice or with names of which
    only some are text.
    """
    import pandas as pd

    if hasattr(X, "tocsr"):
        raise DeclarationError("X: expected dense rows, got a sparse matrix")
    if isinstance(X, pd.DataFrame):
        series = tuple(X.iloc[:, at] for at in range(X.shape[1]))
        return Features(_names(X.columns.tolist()), series, len(X), X.index)
    array = _array(X)
    columns = tuple(pd.Series(column) for column in array.T)
    return Features(_numbered(len(columns)), columns, len(array))


def _array(X: Any) -> np.ndarray:
    if hasattr(X, "schema") or hasattr(X, "iloc"):
        raise DeclarationError(
            "X: expected two dimensions of an array, nested lists or a pandas frame, "
            f"got {type(X).__name__}"
        )
    try:
        array = np.asarray(X)
        if array.dtype.kind in "US" and not hasattr(X, "dtype"):
            # A text in a list makes texts of the numbers beside it.
            array = np.asarray(X, dtype=object)
    except ValueError:
        raise DeclarationError("X: expected rows of one length, got others") from None
    if array.ndim != 2:
        raise DeclarationError(f"X: expected two dimensions, got {array.ndim}: Reshape your data")
    return array


def _names(labels: Sequence[object]) -> tuple[str, ...]:
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        raise DeclarationError("X: expected names of columns that are all text, got some that are")
    if len(set(labels)) < len(labels):
        raise DeclarationError("X: expected each column name once, got one twice")
    return tuple(map(str, labels)) if all(texts) else _numbered(len(labels))


def _numbered(columns: int) -> tuple[str, ...]:
    return tuple(f"x{at}" for at in range(columns))


UNKNOWN = "\0"
"""The text of a value that is none of text, number and truth value: no level, no number."""

_FIRST_ROUNDED = 2**53
"""The least size at which two whole numbers are one float: 2⁵³ + 1 is stored as 2⁵³."""

ALSO_CALLED = {"True": "1", "1": "True", "False": "0", "0": "False"}
"""A truth value is a number to Python, and the other way round."""


def text_of(value: object, *, truth_is_number: bool = False) -> str | None:
    """The text of a text, a number or a truth value; None where it is missing; never an error.

    Spaces around a text do not count, a whole number has no point: 1 and 1.0 are the text 1.
    So is 1 + 0j: one complex number makes pandas store a column of them. A value that raises
    when it is read is UNKNOWN.

    truth_is_number   a truth value is 1 or 0, not the text True or False

    >>> text_of(" f "), text_of(2.0), text_of(True), text_of(float("nan"))
    ('f', '2', 'True', None)
    """
    try:
        return _text_of(value, truth_is_number=truth_is_number)
    except Exception:  # noqa: BLE001 - a value may be of any class, with methods that raise
        return UNKNOWN


def _text_of(value: object, *, truth_is_number: bool) -> str | None:
    if isinstance(value, str):
        # A half of a pair of surrogates cannot be stored as it is, nor can what is no text:
        # a class of texts may strip them to anything.
        return str.encode(value.strip(), "utf-8", "backslashreplace").decode()
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if truth_is_number else str(bool(value))
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Real | Decimal):
        return _number_text(value)
    if isinstance(value, Complex) and not value.imag:
        return _number_text(value.real)
    return UNKNOWN


def _number_text(value: Any) -> str | None:
    try:
        number = float(value)
    except OverflowError:
        # Larger than any float is larger than any bound.
        return "inf" if value > 0 else "-inf"
    if math.isnan(number):
        return None
    if isinstance(value, Integral):
        return str(int(value))
    return str(int(number)) if number.is_integer() else repr(number)


def is_rounded(text: str) -> bool:
    """Whether it is the text of a whole number that may become another one when it is a float.

    One missing value turns a column of whole numbers into floats.

    >>> is_rounded("9007199254740991"), is_rounded("9007199254740992"), is_rounded("a")
    (False, True, False)
    """
    digits = text.removeprefix("-")
    # A number has no zero in front: such a text is never the text of one.
    is_whole = digits.isascii() and digits.isdigit() and not digits.startswith("0")
    return is_whole and (len(digits) > 16 or int(digits) >= _FIRST_ROUNDED)


Kind = Literal["categories", "truths", "numbers", "texts", "others"]

Texts = list[str | None]
"""None for a missing value, UNKNOWN for one that is neither text, number nor truth value."""


def kind_of(series: Any) -> Kind:
    """What the values are, by the type of the series, and one by one where it is ``object``.

    Texts where all are missing, whatever they would be.
    """
    from pandas import CategoricalDtype
    from pandas.api import types

    dtype = series.dtype
    if isinstance(dtype, CategoricalDtype):
        return "categories"
    if types.is_bool_dtype(dtype):
        return "truths"
    if types.is_numeric_dtype(dtype):
        return "others" if types.is_complex_dtype(dtype) else "numbers"
    if types.is_object_dtype(dtype):
        return _kind_of_objects(_different(series.tolist())[1])
    return "texts" if types.is_string_dtype(dtype) or series.isna().all() else "others"


def text_places(series: Any, *, truth_is_number: bool = False) -> tuple[IntArray, Texts]:
    """Where in a list of texts each row's text is (n,), −1 for a missing value; and the list.

    It may hold a text more than once, and texts that no row has.
    """
    from pandas import CategoricalDtype, factorize

    values: list[Any]
    if isinstance(series.dtype, CategoricalDtype):
        places, values = series.cat.codes.to_numpy(), series.cat.categories.tolist()
    elif series.dtype == object:
        places, values = _different(series.tolist())
    else:
        places, different = factorize(series)
        values = different.tolist()
    texts = [_text(value, truth_is_number=truth_is_number) for value in values]
    return places.astype(np.int64), texts


def numbers_of(series: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Numbers (n,), NaN for a missing value and for what is none; and where there is either a
    number or a missing value (n,). A truth value is 1 or 0, a text the number that it reads as.
    """
    if kind_of(series) in ("truths", "numbers") and series.dtype != object:
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, np.ones(len(numbers), dtype=np.bool_)
    places, texts = text_places(series, truth_is_number=True)
    numbers = np.array([_parsed_number(text) for text in [*texts, None]], dtype=np.float64)
    readable = np.array([text is None for text in [*texts, None]]) | ~np.isnan(numbers)
    return numbers[places], readable[places]


def _different(values: list[Any]) -> tuple[IntArray, list[Any]]:
    """Where in a list of values each is (n,), and the list; a value of another type is another
    one: 1 and True are equal.
    """
    found: dict[tuple[type, Any], int] = {}
    try:
        places = [found.setdefault((type(value), value), len(found)) for value in values]
    except Exception:  # noqa: BLE001 - a value may be of any class, with methods that raise
        return np.arange(len(values)), values
    return np.array(places, dtype=np.int64), [value for _, value in found]


def _kind_of_objects(values: list[Any]) -> Kind:
    texts = [(value, text_of(value)) for value in values]
    if any(text == UNKNOWN for _, text in texts):
        return "others"
    there = [value for value, text in texts if text is not None]
    if any(isinstance(value, str) for value in there) or not there:
        return "texts"
    if all(isinstance(value, bool | np.bool_) for value in there):
        return "truths"
    return "numbers"


def _text(value: Any, *, truth_is_number: bool) -> str | None:
    from pandas import Interval

    if isinstance(value, Interval):
        return str(value)
    return text_of(value, truth_is_number=truth_is_number)


def _parsed_number(text: str | None) -> float:
    try:
        return math.nan if text is None else float(text)
    except ValueError:
        return math.nan
