"""The columns of ``X`` as pandas series, whatever their types are. Rows live here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_pipeline.schema.errors import DeclarationError


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
