"""Synthetic codes → a pandas frame, of types that the declaration alone decides.

The rows of a data frame as codes of declared cells, and the counter over them. Rows live here.

What is refused is the form of ``X``: no table, a declared column that is missing or there
twice. Types of columns are no errors: pandas makes them from the values, so that one value
more can turn numbers into objects. What becomes of a row depends on that row alone, as it
does in ``raw.prepare``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.estimators.declared import DeclaredColumn, domain_of
from dp_pipeline.estimators.frames import text_of
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.values import level_codes, missing_cells, valid_numbers
from dp_pipeline.release.synthetic_table import SyntheticTable, decoded
from dp_pipeline.spec.domain import Attribute
from dp_pipeline.spec.encoding import INVALID, Bins, FloatArray, IntArray
from dp_pipeline.spec.errors import DeclarationError

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


Columns = tuple[DeclaredColumn, ...]


def every_column(domain: Any, X: Any) -> Any:
    """A declaration in which ``...`` is replaced by the columns of X that it does not name, in
    their order: of a frame by their names; of an array, whose first columns are those that are
    named, by ``x`` and their place.

    What has no ``...`` is returned as it is. Raises DeclarationError as ``declared_series`` does.
    """
    if not isinstance(domain, Mapping) or ... not in domain:
        return domain
    named = {name: form for name, form in domain.items() if name is not ...}
    there = _names(X)
    if there is None:
        others = [f"x{at}" for at in range(len(named), _array(X).shape[1])]
        if not set(named).isdisjoint(others):
            raise DeclarationError("domain: expected no name that a later column of X has, got one")
    else:
        others = [name for name in there if name not in named]
    return {**named, **dict.fromkeys(others, domain[...])}


def declared_series(X: Any, columns: Columns) -> list[Any]:
    """One pandas series a declared column.

    X   a pandas frame that has each declared column once, by name: columns without a declaration
        are left out; or an array (n, d) or nested lists, whose d columns are the declared ones in
        their order

    Raises DeclarationError for another form.
    """
    import pandas as pd

    there = _names(X)
    if there is None:
        array = _array(X)
        if array.shape[1] != len(columns):
            raise DeclarationError(
                f"X: expected {len(columns)} columns as declared, got {array.shape[1]}"
            )
        return [pd.Series(column) for column in array.T]
    names = [column.attribute.name for column in columns]
    absent = [name for name in names if name not in there]
    if absent:
        raise DeclarationError(f"X: expected a column {absent[0]!r} as declared, got none")
    if len(set(there)) < len(there):
        raise DeclarationError("X: expected each column name once, got one twice")
    return [X[name] for name in names]


def _names(X: Any) -> list[Any] | None:
    """Names of the columns of a frame; None of what has none."""
    import pandas as pd

    return list(X.columns) if isinstance(X, pd.DataFrame) else None


def _array(X: Any) -> NDArray[Any]:
    """Rows without names, (n, d); the values of lists stay what they are."""
    if hasattr(X, "tocsr"):
        raise DeclarationError("X: expected dense rows, got a sparse matrix")
    is_array = hasattr(X, "__array__") and not hasattr(X, "schema") and not hasattr(X, "iloc")
    if not (is_array or isinstance(X, list | tuple)):
        raise DeclarationError(
            f"X: expected a pandas frame, an array or nested lists, got {type(X).__name__}"
        )
    array = np.asarray(X) if is_array else _of_lists(X)
    if array.ndim != 2:
        raise DeclarationError(f"X: expected two dimensions, got {array.ndim}")
    if array.dtype.kind == "c":
        raise DeclarationError(
            "X: expected numbers or text, got others: Complex data not supported"
        )
    return array


def _of_lists(X: Any) -> NDArray[Any]:
    """Nested lists as an array of objects, so that no value changes another's type."""
    lengths = {len(row) if isinstance(row, list | tuple) else -1 for row in X}
    if len(lengths) > 1 or -1 in lengths:
        raise DeclarationError("X: expected rows of one length, got others")
    array = np.empty((len(X), *lengths), dtype=object)
    for at, row in enumerate(X):
        array[at] = row
    return array


def counter_over_codes(series: list[Any], columns: Columns, *, refuse: bool) -> MemoryCounter:
    """The engine over the rows whose values fit, 1 or 2 bytes a code.

    refuse   raise where a row does not fit, in place of leaving it out: DeclarationError
             with the column's name, which tells about a row
    """
    keep = np.ones(len(series[0]), dtype=np.bool_)
    codes: dict[str, NDArray[Any]] = {}
    coordinates: dict[str, NDArray[Any]] = {}
    # A warning about a cast would say something about a row.
    with np.errstate(all="ignore"):
        for column, values in zip(columns, series, strict=True):
            attribute = column.attribute
            places, numbers = _coded(attribute, values)
            if refuse and (places == INVALID).any():
                raise DeclarationError(
                    f"X: column {attribute.name!r}: expected declared values, got others"
                )
            keep &= places != INVALID
            codes[attribute.name] = places.astype(np.min_scalar_type(attribute.size - 1))
            if numbers is not None:
                coordinates[attribute.name] = numbers
    return MemoryCounter(
        domain_of(columns),
        coordinates={name: column[keep] for name, column in coordinates.items()},
        codes={name: column[keep] for name, column in codes.items()},
        rows=int(keep.sum()),
    )


def _coded(attribute: Attribute, values: Any) -> tuple[IntArray, NDArray[Any] | None]:
    """Codes (n,), INVALID for a row that does not fit; of a number that is never missing also
    its coordinates, any number where it does not fit.
    """
    column = pa.chunked_array([_stored(values, is_numeric=attribute.is_numeric)])
    if not isinstance(attribute.cells, Bins) or attribute.coordinate is None:
        return level_codes(attribute, column), None
    numbers = valid_numbers(attribute, column)
    codes = attribute.cells.encode(numbers)
    if attribute.nullable:
        codes[missing_cells(attribute, column)] = attribute.missing_code
        return codes, None
    numbers[np.isnan(numbers)] = attribute.coordinate.lower
    return codes, attribute.coordinate.encode(numbers).astype(np.int32)


def _stored(values: Any, *, is_numeric: bool) -> pa.Array:
    """A series as numbers, or as texts that may be missing: whatever its values are."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        categories = _stored(values.cat.categories.to_series(), is_numeric=is_numeric)
        places = values.cat.codes.to_numpy()
        return categories.take(pa.array(places, mask=places < 0))
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iuf":
        return pa.array(_plain(values.to_numpy()))
    if getattr(values.dtype, "storage", None) == "pyarrow":
        stored = pa.array(values)
        return stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
    texts = [text_of(value, truth_is_number=is_numeric) for value in values.tolist()]
    return pa.array(texts, type=pa.large_string())


def _plain(numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers as pyarrow takes them: no other byte order, no float of another size."""
    if numbers.dtype.kind == "f" and numbers.dtype.itemsize not in (4, 8):
        return numbers.astype(np.float64)
    return numbers.astype(numbers.dtype.newbyteorder("="))
