"""The cells of one column that plots show: bins or levels, and the shares of rows in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.estimators.frames import text_of

BINS = 20
"""Cells of a column of numbers."""

MOST_LEVELS = 20
"""Cells of a column of texts; those that are rarest among the synthetic rows are one."""

OTHER, MISSING = "other", "missing"


class Cells(NamedTuple):
    """The cells of one column of some tables.

    labels   a text for each cell
    codes    of each table, the cell of every row
    """

    labels: list[str]
    codes: list[IntArray]

    def shares(self) -> list[FloatArray]:
        """Return the share of the rows of each table in every cell."""
        size = len(self.labels)
        return [
            np.asarray(np.bincount(codes, minlength=size) / max(1, len(codes)))
            for codes in self.codes
        ]


def code_cells(columns: Sequence[Any]) -> Cells:
    """Return the cells of one column in some tables: bins of many numbers or dates, else levels.

    columns   the same column as a series of each table; the first determines the cells
    """
    for read, text in ((_numbers, _number_text), (_days, _day_text)):
        numbers = [values for column in columns if (values := read(column)) is not None]
        if len(numbers) == len(columns):
            return _bin_numbers(numbers, text)
    return _code_levels(columns)


def _bin_numbers(numbers: Sequence[FloatArray], text: Callable[[float], str]) -> Cells:
    """Return each number as a cell where they are few, else bins of one width.

    Bins of integers have an integer width: else some would hold more integers than others.
    """
    distinct = np.unique(numbers[0][np.isfinite(numbers[0])])
    if len(distinct) <= MOST_LEVELS:
        cuts, labels = (distinct[:-1] + distinct[1:]) / 2, [text(value) for value in distinct]
    elif np.array_equal(distinct, np.rint(distinct)):
        width = np.ceil((distinct[-1] - distinct[0] + 1) / BINS)
        lows = np.arange(distinct[0], distinct[-1] + 1, width)
        cuts = lows[1:]
        labels = [_range_text(text, low, min(low + width - 1, distinct[-1])) for low in lows]
    else:
        edges = np.linspace(distinct[0], distinct[-1], BINS + 1)
        text = _text_of_edges(edges, text)
        cuts, labels = edges[1:-1], [_range_text(text, *ends) for ends in pairwise(edges)]
    codes = [
        np.where(np.isnan(values), len(labels), np.searchsorted(cuts, values, side="right"))
        for values in numbers
    ]
    return _add_missing(labels, codes)


def _range_text(text: Callable[[float], str], low: float, high: float) -> str:
    """Return a range in words; of days the first alone, since an axis has no room for two."""
    if low == high:
        return text(low)
    return f"from {text(low)}" if text is _day_text else f"{text(low)} to {text(high)}"


def _text_of_edges(edges: FloatArray, text: Callable[[float], str]) -> Callable[[float], str]:
    """Return ``text``, or a function with more digits where numbers are close together."""
    if text is not _number_text or len({text(edge) for edge in edges}) == len(edges):
        return text
    different = (n for n in range(5, 17) if len({f"{edge:.{n}g}" for edge in edges}) == len(edges))
    digits = next(different, 17)
    return lambda value: f"{value:.{digits}g}"


def _number_text(value: float) -> str:
    """
    >>> _number_text(0.25), _number_text(11850.4), _number_text(2e9)
    ('0.25', '11850', '2e+09')
    """
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.4g}"


def _day_text(days: float) -> str:
    """
    >>> _day_text(20089), _day_text(20089.5)
    ('2025-01-01', '2025-01-01 12:00')
    """
    moment = np.datetime64(round(days * 1440), "m")
    return str(moment.astype("M8[D]") if days == int(days) else moment).replace("T", " ")


def _days(values: Any) -> FloatArray | None:
    """Return dates and times on local clocks as days since 1970; None for other values.

    A missing one is NaN.
    """
    import pandas as pd

    if values.dtype.kind not in "OM" or values.isna().all():
        return None
    if values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=True) not in (
        "date",
        "datetime",
    ):
        return None
    moments = pd.to_datetime(values, utc=values.dtype.kind == "O", errors="coerce")
    days = (moments.dt.tz_localize(None) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=np.float64, na_value=np.nan))


def _numbers(values: Any) -> FloatArray | None:
    """Return numbers as floats, NaN where one is missing; None for other values."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(values.dtype) or not is_numeric_dtype(values.dtype):
        return None
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _code_levels(columns: Sequence[Any]) -> Cells:
    """Return the most frequent texts of the first column, and one cell for all others."""
    import pandas as pd

    texts = []
    for column in columns:
        codes, values = pd.factorize(column)
        words = np.array([*(str(text_of(value)) for value in values), None], dtype=object)
        texts.append(pd.Series(words[codes]))
    labels = texts[0].value_counts().index.tolist()
    if len(labels) > MOST_LEVELS:
        labels = labels[: MOST_LEVELS - 1]
    code_of, other = {text: code for code, text in enumerate(labels)}, len(labels)
    codes = [
        np.where(words.isna(), other + 1, words.map(code_of).fillna(other)).astype(np.int64)
        for words in texts
    ]
    if any((column == other).any() for column in codes):
        return _add_missing([*labels, OTHER], codes)
    return _add_missing(labels, [np.minimum(column, other) for column in codes])


def _add_missing(labels: list[str], codes: list[IntArray]) -> Cells:
    """Return cells with a last one for missing values, where there are any or nothing else."""
    is_needed = not labels or any((column == len(labels)).any() for column in codes)
    return Cells([*labels, *([MISSING] if is_needed else [])], codes)
