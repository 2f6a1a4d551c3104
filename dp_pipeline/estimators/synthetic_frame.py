"""Synthetic codes → a pandas frame, of types that the declaration alone decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_pipeline.estimators.declared_column import DeclaredColumn
from dp_pipeline.release.decoding import decoded
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.schema.encoding import FloatArray, IntArray

_NULLABLE = {"i": "Int64", "u": "UInt64", "b": "boolean"}


def synthetic_frame(table: SyntheticTable, columns: tuple[DeclaredColumn, ...]) -> Any:
    """Synthetic rows as a frame with the declared columns in their order.

    Levels have the types that they were declared with; a number is drawn uniformly inside its
    bin: float64, or whole. A missing value is NA: whole numbers and truth values that may be
    missing have pandas' nullable types, whether or not one is.
    """
    import pandas as pd

    rng, places = np.random.default_rng(table.seed), table.codes.T
    frame = {}
    for column in columns:
        attribute = column.attribute
        codes = places[table.attributes.index(attribute.name)]
        if column.levels is not None:
            frame[attribute.name] = _levels(column, codes)
            continue
        (numbers,) = decoded(codes[:, None], (attribute.name,), table.domain, rng).values()
        dtype = ("Int64" if attribute.nullable else "int64") if attribute.whole else "float64"
        frame[attribute.name] = pd.Series(numbers, dtype=dtype)
    return pd.DataFrame(frame)


def marginal_series(probabilities: FloatArray, columns: tuple[DeclaredColumn, ...]) -> Any:
    """Probabilities (one axis a column) as a series over the labels of all cells, 0 included."""
    import pandas as pd

    labels = [_labels(column) for column in columns]
    names = [column.attribute.name for column in columns]
    index = (
        pd.Index(labels[0], name=names[0])
        if len(labels) == 1
        else pd.MultiIndex.from_product(labels, names=names)
    )
    return pd.Series(probabilities.ravel(), index=index, name="probability")


def _levels(column: DeclaredColumn, codes: IntArray) -> Any:
    """A series of levels; code −1 is NA to pandas."""
    import pandas as pd

    nullable = column.attribute.nullable
    missing = column.attribute.missing_code if nullable else -1
    places = np.where(codes == missing, -1, codes)
    if column.category is not None:
        return pd.Series(pd.Categorical.from_codes(places, dtype=column.category))
    levels: Any = pd.Series(list(column.levels or ()))
    if nullable and levels.dtype.kind in _NULLABLE:
        levels = levels.astype(_NULLABLE[levels.dtype.kind])
    return pd.Series(levels.array.take(places, allow_fill=nullable), dtype=levels.dtype)


def _labels(column: DeclaredColumn) -> Any:
    """One label a cell: a level, an interval in words, NA for missing."""
    size = column.attribute.size
    if column.levels is not None:
        return _levels(column, np.arange(size))
    texts = list(column.attribute.labels())
    return [*texts[:-1], None] if column.attribute.nullable else texts
