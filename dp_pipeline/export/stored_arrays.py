"""Released columns as Arrow arrays of the source's types, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dp_pipeline.results.source_types import StoredColumn, typed_levels


def stored_type(column: StoredColumn) -> Any:
    """Return the Arrow type of a column that has the type of the source."""
    if column.type.endswith("categories"):
        index = np.min_scalar_type(-max(2, len(column.labels)))
        is_ordered = column.type.startswith("ordered")
        return pa.dictionary(pa.from_numpy_dtype(index), pa.string(), ordered=is_ordered)
    if column.type.startswith("decimal"):
        return pa.decimal128(*map(int, re.findall(r"\d+", column.type)[1:]))
    return pa.type_for_alias(column.type)


def stored_array(column: StoredColumn, type_: Any, values: list[Any]) -> Any:
    """Return released values as an Arrow array of the source's type."""
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


def released_column(column: Any, labels: Sequence[str]) -> Any:
    """Return a column of the source's type as it was released: the inverse of ``stored_array``."""
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
