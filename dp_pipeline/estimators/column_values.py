"""The values of one pandas series as texts or as numbers, whatever its type is. Rows live here."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.estimators.value_text import UNKNOWN, text_of
from dp_pipeline.schema.encoding import FloatArray, IntArray

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
    numbers = np.array([_number(text) for text in [*texts, None]], dtype=np.float64)
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


def _number(text: str | None) -> float:
    try:
        return math.nan if text is None else float(text)
    except ValueError:
        return math.nan
