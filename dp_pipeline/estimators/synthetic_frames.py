"""Synthetic codes → a frame: of the kind that ``X`` was, of types that no row decides.

A type is taken over from ``X`` where it says no value of a row: nullable types of pandas, those of
Arrow and polars, categories (but never which ones ``X`` has), dates. What is declared decides
between texts, truth values, whole numbers and others, because a type that was guessed from values
may differ in just that: one text in a column of numbers makes texts of them.

What was released as a frame of cells and as a graph of cliques.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.declared import Columns, DeclaredColumn
from dp_pipeline.estimators.frames import FrameKind, text_of
from dp_pipeline.gate.counter import MOST_GRID_CELLS
from dp_pipeline.raw import values as raw_values
from dp_pipeline.results.measurement import NoisyCounts, least_noisy
from dp_pipeline.results.synthetic_table import SyntheticTable, decode_columns

_NULLABLE = {"i": "Int64", "u": "UInt64", "b": "boolean"}

Family = Literal["truths", "whole", "real", "texts", "mixed"]
"""What the declared values of a column are."""

_FAMILIES: dict[str, Family] = {"b": "truths", "i": "whole", "u": "whole", "f": "real"}
_USUAL: dict[Family, tuple[str, pa.DataType]] = {
    "truths": ("boolean", pa.bool_()),
    "whole": ("Int64", pa.int64()),
    "real": ("Float64", pa.float64()),
    "texts": ("string", pa.string()),
    "mixed": ("object", pa.string()),
}
"""The type of each with missing values, of pandas and of Arrow."""


def synthetic_frame(table: SyntheticTable, columns: Columns, kind: FrameKind = "pandas") -> Any:
    """Synthetic rows as a frame with the declared columns in their order.

    Levels are as they were declared; a number is drawn uniformly inside its bin: float64, or
    whole. A missing value is NA: whole numbers and truth values that may be missing have pandas'
    nullable types, whether or not one is. Then each has the type of ``X``, as far as one is given.
    """
    import pandas as pd

    rng, places = np.random.default_rng(table.seed), table.codes.T
    frame = {}
    for column in columns:
        attribute = column.attribute
        codes = places[table.attributes.index(attribute.name)]
        if column.levels is not None:
            frame[column.name] = _as_given(_levels(column, codes), column)
            continue
        (numbers,) = decode_columns(codes[:, None], (attribute.name,), table.domain, rng).values()
        if attribute.clock is not None:
            frame[column.name] = _moments_as_given(numbers, column)
            continue
        dtype = ("Int64" if attribute.nullable else "int64") if attribute.is_integer else "float64"
        frame[column.name] = _as_given(pd.Series(numbers, dtype=dtype), column)
    return _of_kind(pd.DataFrame(frame), columns, kind)


def typed(columns: Columns, values: Sequence[Any], domain: Domain) -> Columns:
    """The columns of a fit: with what was discovered of them, as texts, and with the types that
    those of ``X`` have, as far as no value of a row is in them: a fitted estimator, and its pickle,
    holds them.
    """
    found = []
    for column, given in zip(columns, values, strict=True):
        attribute, levels = domain[column.attribute.name], column.levels
        if column.attribute.undeclared is not None and isinstance(attribute.cells, Levels):
            levels = attribute.cells.values
        dtype = _public_type(column, given.dtype)
        found.append(replace(column, attribute=attribute, levels=levels, dtype=dtype))
    return tuple(found)


def _public_type(column: DeclaredColumn, given: Any) -> Any:
    """A type without what pandas makes from values: the categories that there are, and NumPy's
    types but for dates.
    """
    import pandas as pd

    if isinstance(given, pd.CategoricalDtype):
        return pd.CategoricalDtype(ordered=given.ordered)
    if isinstance(given, np.dtype) and given.kind in "SU":
        # NumPy's type of texts says how long the longest of them is.
        given = np.dtype(given.kind)
    is_plain_text = isinstance(given, pd.StringDtype) and given.na_value is not pd.NA
    of_values = isinstance(given, np.dtype) or is_plain_text
    return None if of_values and column.attribute.clock is None else given


def _of_kind(frame: Any, columns: Sequence[DeclaredColumn], kind: FrameKind) -> Any:
    """A pandas frame as one of another library; as it is where polars is no longer installed."""
    if kind == "pandas" or (kind == "polars" and find_spec("polars") is None):
        return frame
    # What pandas would note of itself is no part of the table.
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    if kind == "arrow":
        return table
    import polars as pl

    given: Any = pl.from_arrow(table)
    closed = {
        str(one.name): pl.Enum([str(text_of(level)) for level in one.levels])
        for one in columns
        if one.levels is not None and _is_ordered(frame[one.name].dtype)
    }
    return given.cast(closed)


def _is_ordered(dtype: Any) -> bool:
    """Whether it is of categories in an order, as an Enum of polars is when Arrow has it."""
    if dtype.name == "category":
        return bool(dtype.ordered)
    stored = getattr(dtype, "pyarrow_dtype", None)
    return isinstance(stored, pa.DictionaryType) and bool(stored.ordered)


def _as_given(values: Any, column: DeclaredColumn) -> Any:
    """Declared values in the type of the column of ``X``, or in the one like it that fits them."""
    import pandas as pd

    given, levels = column.dtype, column.levels
    if column.category is not None or given is None:
        return values
    if isinstance(given, pd.CategoricalDtype):
        if levels is None:
            return values
        return values.astype(pd.CategoricalDtype(pd.Index(list(levels)), bool(given.ordered)))
    family = _family(column)
    if isinstance(given, pd.ArrowDtype):
        if family == "mixed":
            values = values.map(text_of, na_action="ignore")
        return values.astype(pd.ArrowDtype(_arrow_type(given.pyarrow_dtype, column, family)))
    if getattr(given, "na_value", None) is not pd.NA or family == "mixed":
        # Sparse and other types: none of ours.
        return values
    numbers = getattr(given, "numpy_dtype", None)
    stored = pa.string() if numbers is None else pa.from_numpy_dtype(numbers)
    return values.astype(given if _fits(stored, column, family) else _USUAL[family][0])


def _arrow_type(given: Any, column: DeclaredColumn, family: Family) -> Any:
    """Of Arrow: the one that was given, else the usual one of the family."""
    if isinstance(given, pa.DictionaryType) and column.levels is not None:
        inner = _arrow_type(given.value_type, column, family)
        few = len(column.levels) <= np.iinfo(np.int8).max
        return pa.dictionary(given.index_type if few else pa.int32(), inner, ordered=given.ordered)
    return given if _fits(given, column, family) else _USUAL[family][1]


def _family(column: DeclaredColumn) -> Family:
    import pandas as pd

    if column.levels is None:
        return "whole" if column.attribute.is_integer else "real"
    found = _FAMILIES.get(pd.Series(list(column.levels)).dtype.kind)
    are_texts = all(isinstance(level, str) for level in column.levels)
    return found or ("texts" if are_texts else "mixed")


def _fits(given: Any, column: DeclaredColumn, family: Family) -> bool:
    """Whether a type of Arrow is one of the family, and declared levels, or the ends of bins, are
    the same numbers in it.
    """
    if family not in ("whole", "real"):
        return bool(given == pa.bool_() if family == "truths" else given in raw_values.TEXT)
    if given not in (raw_values.WHOLE if family == "whole" else raw_values.REAL):
        return False
    cells, dtype = column.attribute.cells, np.dtype(given.to_pandas_dtype())
    said = column.levels if column.levels is not None else getattr(cells, "edges", ())
    numbers = np.array(said, dtype=np.float64)
    if family == "real":
        return bool((numbers.astype(dtype).astype(np.float64) == numbers).all())
    bounds = np.iinfo(dtype)
    return bool(bounds.min <= numbers.min() and numbers.max() <= bounds.max)


def _moments_as_given(moments: NDArray[Any], column: DeclaredColumn) -> Any:
    """Dates or times in the type of the column of ``X``: ISO texts where they were texts, and
    pandas' own where they were objects, or no times at all.
    """
    import pandas as pd

    clock, dtype = column.attribute.clock, column.dtype
    days_or_seconds = pd.Series(moments.astype("datetime64[s]"))
    assert clock is not None
    if dtype is None or dtype.name in ("object", "category"):
        return days_or_seconds
    stored = getattr(dtype, "pyarrow_dtype", None)
    if getattr(stored or dtype, "tz", None) is not None:
        placed = days_or_seconds.dt.tz_localize(
            clock.zone, ambiguous=np.ones(len(moments), dtype=bool), nonexistent="shift_forward"
        )
        return placed.astype(dtype)
    if dtype.kind == "M" and stored is None:
        return days_or_seconds.astype(dtype)
    if isinstance(stored, pa.DictionaryType):
        stored = stored.value_type
    if stored is not None and raw_values.kind_of(stored) == "time":
        return pd.Series(pa.array(moments).cast(stored), dtype=pd.ArrowDtype(stored))
    if dtype.kind in "biufcm" or not (stored is None or stored in raw_values.TEXT):
        return days_or_seconds
    texts = pd.Series(np.datetime_as_string(moments), dtype=object)
    return texts.mask(days_or_seconds.isna(), None).astype(dtype)


def columns_of_marginal(table: SyntheticTable, columns: Columns, names: list[Any]) -> Columns:
    """The columns that are named, in that order; DeclarationError for none, for one twice, for one
    that is not declared, and for more cells than a frame may have.
    """
    known = {column.name: column for column in columns}
    if not names or len(set(names)) < len(names) or not set(names) <= set(known):
        raise DeclarationError(
            f"marginal: expected some of the columns {', '.join(map(str, known))}, each once, "
            f"got {names!r:.60}"
        )
    cells = table.domain.cell_count(tuple(map(str, names)))
    if cells > MOST_GRID_CELLS:
        raise DeclarationError(
            f"marginal: expected at most {MOST_GRID_CELLS} cells, "
            f"got {', '.join(map(str, names))} with {cells}"
        )
    return tuple(known[name] for name in names)


def marginal_frame(table: SyntheticTable, columns: Columns) -> Any:
    """What was released of some columns, a row a cell: the share of the synthetic rows, 0 included,
    and what the least noisy table says that has them, with the deviation of its noise.
    """
    import pandas as pd

    labels = [_labels(column) for column in columns]
    names = tuple(column.attribute.name for column in columns)
    index = (
        pd.Index(labels[0], name=columns[0].name)
        if len(labels) == 1
        else pd.MultiIndex.from_product(labels, names=[column.name for column in columns])
    )
    found = pd.DataFrame({"probability": table.probabilities(names).ravel()}, index=index)
    every = map(NoisyCounts.of, table.measured)
    measured = least_noisy(every, names, table.domain.shape(names))
    counts: Any = pd.NA if measured is None else measured.table.ravel()
    found["noisy_count"] = pd.Series(counts, index=found.index, dtype="Int64")
    found["deviation"] = np.nan if measured is None else measured.deviation
    return found


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


def clique_graph(table: SyntheticTable, columns: Columns) -> Any:
    """An undirected graph: cliques with their ``cells``, edges with their ``separator``."""
    import networkx as nx

    called = {column.attribute.name: column.name for column in columns}
    cliques = [tuple(called[name] for name in clique) for clique in table.cliques]
    graph = nx.Graph()
    for clique, names in zip(cliques, table.cliques, strict=True):
        graph.add_node(clique, cells=table.domain.cell_count(names))
    for parent, child in table.links:
        first, second = cliques[parent], cliques[child]
        shared = tuple(name for name in second if name in first)
        graph.add_edge(first, second, separator=shared)
    return graph
