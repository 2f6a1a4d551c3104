"""Released tables as frames and a graph: synthetic rows, cells of marginals, cliques.

The types of ``X`` are public, and taken over wherever they can hold what is declared: which is
texts, truth values, integers or others. Categories are declared, never those that ``X`` has.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.declared import Columns, DeclaredColumn
from dp_pipeline.estimators.frames import FrameKind, is_among, text_of
from dp_pipeline.gate.counter import MAX_GRID_CELLS
from dp_pipeline.raw import values as raw_values
from dp_pipeline.results.measurement import least_noisy
from dp_pipeline.results.synthetic_table import SyntheticTable, decode_columns

_NULLABLE = {"i": "Int64", "u": "UInt64", "b": "boolean"}

Family = Literal["truths", "whole", "real", "texts", "mixed"]
"""The kind of a column's declared values."""

_FAMILIES: dict[str, Family] = {"b": "truths", "i": "whole", "u": "whole", "f": "real"}
_USUAL: dict[Family, tuple[str, pa.DataType]] = {
    "truths": ("boolean", pa.bool_()),
    "whole": ("Int64", pa.int64()),
    "real": ("Float64", pa.float64()),
    "texts": ("string", pa.string()),
    "mixed": ("object", pa.string()),
}
"""The type of each with missing values, of pandas and of Arrow."""


def synthetic_frame(
    table: SyntheticTable,
    columns: Columns,
    kind: FrameKind = "pandas",
    keys: Mapping[Any, NDArray[Any]] = MappingProxyType({}),
) -> Any:
    """Return synthetic rows as a frame of the library ``kind``: key columns, then declared ones.

    Levels are as they were declared; a number is drawn uniformly inside its bin: float64, or an
    integer. Integers and truth values that may be missing have pandas' nullable types. Then each
    column gets the type that it has in ``X``, where that is known.

    keys   name of a key column → its values (rows,)
    """
    import pandas as pd

    rng, codes_by_column = np.random.default_rng(table.seed), table.codes.T
    frame: dict[Any, Any] = dict(keys)
    for column in columns:
        attribute = column.attribute
        codes = codes_by_column[table.attributes.index(attribute.name)]
        if column.levels is not None:
            frame[column.name] = _match_type(_levels(column, codes), column)
            continue
        entry = table.domain[attribute.name]
        if entry.clock is not None and not _has_declared_format(column, entry.clock):
            entry = replace(entry, clock=replace(entry.clock, format=""))
        (values,) = decode_columns(codes[:, None], (entry.name,), Domain((entry,)), rng).values()
        if attribute.clock is not None:
            frame[column.name] = _match_time_type(values, column)
            continue
        dtype = ("Int64" if attribute.nullable else "int64") if attribute.is_integer else "float64"
        frame[column.name] = _match_type(pd.Series(values, dtype=dtype), column)
    return _convert_frame(pd.DataFrame(frame), columns, kind)


def _convert_frame(frame: Any, columns: Sequence[DeclaredColumn], kind: FrameKind) -> Any:
    """Return a pandas frame as one of the library ``kind``; unchanged for pandas, and for polars if
    that is not installed."""
    if kind == "pandas" or (kind == "polars" and find_spec("polars") is None):
        return frame
    # What pandas would note of itself is no part of the table.
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    if kind == "arrow":
        return table
    import polars as pl

    polars_frame: Any = pl.from_arrow(table)
    enums = {
        str(column.name): pl.Enum([str(text_of(level)) for level in column.levels])
        for column in columns
        if column.levels is not None
        and getattr(table.schema.field(str(column.name)).type, "ordered", False)
    }
    return polars_frame.cast(enums)


def _match_type(values: Any, column: DeclaredColumn) -> Any:
    """Return a series of synthetic values in the type of the column of ``X``, or in a similar type
    that can hold the declared values."""
    import pandas as pd

    dtype, levels = column.dtype, column.levels
    if column.category is not None or dtype is None:
        return values
    if column.is_duration:
        durations = pd.to_timedelta(values.astype("float64"), unit="s")
        if isinstance(dtype, pd.ArrowDtype):
            stored = pa.array(durations).cast(dtype.pyarrow_dtype, safe=False)
            return pd.Series(stored, dtype=dtype)
        return durations.astype(dtype) if dtype.kind == "m" else durations
    if column.stored is not None and pa.types.is_decimal(column.stored):
        return _as_decimals(values, column)
    if isinstance(dtype, pd.CategoricalDtype):
        if levels is not None:
            categories = pd.Index(list(levels))
            values = values.astype(pd.CategoricalDtype(categories, bool(dtype.ordered)))
        return values
    if column.is_discovered and levels is None:
        values = _clip(values, dtype)
    match = _match_numpy_type if isinstance(dtype, np.dtype) else _match_pandas_type
    return match(values, dtype, column, _family(column))


def _clip(numbers: Any, dtype: Any) -> Any:
    """Return a series clipped to the limits of a type of numbers, which discovered bounds may
    exceed."""
    stored = getattr(dtype, "pyarrow_dtype", None)
    stored = getattr(stored, "value_type", stored)
    number = np.dtype(
        getattr(dtype, "numpy_dtype", dtype) if stored is None else stored.to_pandas_dtype()
    )
    if number.kind not in "iuf":
        return numbers
    least, most = _limits(number)
    return numbers.clip(least, most if number.kind == "f" else min(most, 2**63 - 1))


def _limits(dtype: Any) -> tuple[float, float] | tuple[int, int]:
    if dtype.kind == "f":
        # Python's floats, since a declared number is cast to the type that it is compared with.
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _match_pandas_type(values: Any, dtype: Any, column: DeclaredColumn, family: Family) -> Any:
    import pandas as pd

    if isinstance(dtype, pd.ArrowDtype):
        if family == "mixed":
            values = values.map(text_of, na_action="ignore")
        return values.astype(pd.ArrowDtype(_arrow_type(dtype.pyarrow_dtype, column, family)))
    if getattr(dtype, "na_value", None) is not pd.NA or family == "mixed":
        return values
    numpy_dtype = getattr(dtype, "numpy_dtype", None)
    arrow_type = pa.string() if numpy_dtype is None else pa.from_numpy_dtype(numpy_dtype)
    return values.astype(
        dtype if _can_hold_declared(arrow_type, column, family) else _USUAL[family][0]
    )


def _match_numpy_type(values: Any, dtype: Any, column: DeclaredColumn, family: Family) -> Any:
    if dtype.kind == "O":
        return values.astype(object).where(values.notna(), None)
    if dtype.kind == "f" and family in ("whole", "real"):
        return values.astype(dtype if _reaches_declared(dtype, column) else "float64")
    is_missing = values.isna().any()
    if family == "whole" and dtype.kind in "iu":
        fits = _can_hold_declared(pa.from_numpy_dtype(dtype), column, family)
        name = dtype.name if fits else "int64"
        return values.astype(name.replace("i", "I").replace("u", "U") if is_missing else name)
    return values


def _as_decimals(values: Any, column: DeclaredColumn) -> Any:
    """Return a series of levels or numbers as decimals.

    Numbers get as many decimal places as the Arrow type of ``X``, or two for Python's decimals.
    """
    import pandas as pd

    stored = column.stored
    is_object = not isinstance(column.dtype, pd.ArrowDtype)
    unit = Decimal(1).scaleb(-2 if is_object else -stored.scale)

    def decimal(value: Any) -> Decimal:
        is_declared = isinstance(value, Decimal)
        return value if is_declared else Decimal(repr(float(value))).quantize(unit)

    decimals = [None if pd.isna(value) else decimal(value) for value in values]
    if is_object:
        return pd.Series(decimals, dtype=object)
    largest = max((abs(value) for value in decimals if value is not None), default=Decimal(0))
    digits = max(stored.precision, largest.adjusted() + 1 + stored.scale)
    arrow_type = pa.decimal128(min(38, digits), stored.scale)
    return pd.Series(pa.array(decimals, arrow_type), dtype=pd.ArrowDtype(arrow_type))


def _arrow_type(arrow_type: Any, column: DeclaredColumn, family: Family) -> Any:
    if isinstance(arrow_type, pa.DictionaryType) and column.levels is not None:
        inner = _arrow_type(arrow_type.value_type, column, family)
        has_few_levels = len(column.levels) <= np.iinfo(np.int8).max
        index_type = arrow_type.index_type if has_few_levels else pa.int32()
        return pa.dictionary(index_type, inner, ordered=arrow_type.ordered)
    return arrow_type if _can_hold_declared(arrow_type, column, family) else _USUAL[family][1]


def _family(column: DeclaredColumn) -> Family:
    import pandas as pd

    if column.levels is None:
        return "whole" if column.attribute.is_integer else "real"
    family = _FAMILIES.get(pd.Series(list(column.levels)).dtype.kind)
    has_texts_only = all(isinstance(level, str) for level in column.levels)
    return family or ("texts" if has_texts_only else "mixed")


def _can_hold_declared(arrow_type: Any, column: DeclaredColumn, family: Family) -> bool:
    """Return whether an Arrow type is of the family, and its limits hold the declared values."""
    if arrow_type not in _TYPES.get(family, _TYPES["texts"]):
        return False
    is_number = family in ("whole", "real")
    return not is_number or _reaches_declared(np.dtype(arrow_type.to_pandas_dtype()), column)


_REAL = raw_values.REAL | {pa.float16()}
_TYPES: Mapping[Family, Collection[pa.DataType]] = {
    "truths": {pa.bool_()},
    "whole": raw_values.WHOLE | _REAL,
    "real": _REAL,
    "texts": raw_values.TEXT | {pa.string_view()},
}


def _reaches_declared(dtype: Any, column: DeclaredColumn) -> bool:
    """Return whether all declared levels or edges are within the limits of a NumPy type; True for a
    discovered column."""
    edges: Sequence[Any] = getattr(column.attribute.cells, "edges", ())
    values = edges if column.levels is None else column.levels
    least, most = _limits(dtype)
    return column.is_discovered or bool(least <= min(values) and max(values) <= most)


def _type_of_times(column: DeclaredColumn) -> Any:
    """Return the Arrow type of the values of a column of ``X``; None where it is not known."""
    type_ = column.stored or getattr(column.dtype, "pyarrow_dtype", None)
    return getattr(type_, "value_type", type_)


def _has_declared_format(column: DeclaredColumn, clock: Clock) -> bool:
    """Return whether the column of ``X`` has texts or integers in the format of a clock."""
    type_, texts = _type_of_times(column), clock.release_values(np.zeros(1, dtype=np.int64))
    is_whole = type_ in raw_values.WHOLE and str(texts[0]).isdigit()
    return column.dtype is not None and (type_ in raw_values.TEXT or is_whole)


def _match_time_type(values: NDArray[Any], column: DeclaredColumn) -> Any:
    """Return local times, or texts in the declared format, as a series in the type of the column of
    ``X``: texts, integers, times or Python's objects; datetime64 if it is none of these.

    In a zone it is the first of two times in an hour that comes twice, and the end of a skipped
    hour."""
    import pandas as pd

    clock, dtype, type_ = column.attribute.clock, column.dtype, _type_of_times(column)
    assert clock is not None
    if values.dtype.kind != "M" or (dtype is not None and type_ in raw_values.TEXT):
        return _match_text_type(values, column)
    times = pa.array(values.astype("datetime64[s]"))
    if getattr(type_ or dtype, "tz", None) is not None:
        ends = {"ambiguous": "earliest", "nonexistent": "latest"}
        times = pc.assume_timezone(times, clock.zone, **ends)
    if type_ is not None and (dtype is None or dtype == np.dtype(object)):
        zone = getattr(type_, "tz", None)
        times = times.cast(pa.date32() if pa.types.is_date(type_) else pa.timestamp("s", zone))
        return pd.Series(times.to_pylist(), dtype=object)
    series = times.to_pandas()
    try:
        if isinstance(dtype, pd.ArrowDtype) and raw_values.kind_of(type_) == "time":
            return pd.Series(times.cast(type_), dtype=pd.ArrowDtype(type_))
        return series.astype(dtype) if dtype.kind == "M" else series
    except ValueError:
        # Nanoseconds do not reach all years that can be declared.
        return series


def _match_text_type(values: NDArray[Any], column: DeclaredColumn) -> Any:
    """Return times, as ISO texts, or texts in the declared format as a series in the type of the
    column of ``X``, of texts or integers; Int64 where that cannot hold all integers."""
    import pandas as pd

    dtype, type_ = column.dtype, _type_of_times(column)
    if values.dtype.kind == "M":
        is_missing, values = np.isnat(values), np.datetime_as_string(values).astype(object)
        values[is_missing] = None
    if type_ in raw_values.TEXT:
        texts = pd.Series(values, dtype=object)
        return texts if isinstance(dtype, np.dtype) else texts.astype(dtype)
    integers = [None if text is None else int(text) for text in values.tolist()]
    series, most = pd.Series(integers, dtype="Int64"), np.iinfo(type_.to_pandas_dtype()).max
    is_held = max(filter(None, integers), default=0) <= most
    can_miss = not isinstance(dtype, np.dtype) or None not in integers
    return series.astype(dtype) if is_held and can_miss else series


def columns_of_marginal(table: SyntheticTable, columns: Columns, names: list[Any]) -> Columns:
    """Return the declared columns with these names, in the order of ``names``.

    DeclarationError for no name, for one that is repeated or not declared, and for columns with
    more than ``MAX_GRID_CELLS`` cells together.
    """
    columns_by_name = {column.name: column for column in columns}
    unknown = [name for name in names if not is_among(name, columns_by_name)]
    wrong = unknown or [name for name in names if names.count(name) > 1]
    if wrong or not names:
        twice = "" if unknown or not wrong else " twice"
        raise DeclarationError(
            f"marginal: expected some of the columns {', '.join(map(str, columns_by_name))}, "
            f"each once, got {f'{wrong[0]!r:.60}{twice}' if wrong else 'none'}"
        )
    cells = table.domain.cell_count(tuple(map(str, names)))
    if cells > MAX_GRID_CELLS:
        raise DeclarationError(
            f"marginal: a table may have at most {MAX_GRID_CELLS} cells, but that of "
            f"{', '.join(map(str, names))} has {cells}: name fewer columns"
        )
    return tuple(columns_by_name[name] for name in names)


def marginal_frame(table: SyntheticTable, columns: Columns) -> Any:
    """Return a pandas frame with a row for each cell of some columns, which the index names.

    Its columns are ``probability``, the share of the synthetic rows; ``noisy_count``, in rows, and
    ``deviation``, that of its noise: NA and NaN where no noisy table has all the columns.
    """
    import pandas as pd

    index_labels = []
    for column in columns:
        attribute = column.attribute
        if column.levels is not None:
            labels = _levels(column, np.arange(attribute.size))
        else:
            texts = list(attribute.labels())
            labels = [*texts[:-1], None] if attribute.nullable else texts
        index_labels.append(labels)
    names = tuple(column.attribute.name for column in columns)
    index = (
        pd.Index(index_labels[0], name=columns[0].name)
        if len(index_labels) == 1
        else pd.MultiIndex.from_product(index_labels, names=[column.name for column in columns])
    )
    frame = pd.DataFrame({"probability": table.probabilities(names).ravel()}, index=index)
    measured = least_noisy(table.noisy_counts, names, table.domain.shape(names))
    counts: Any = pd.NA if measured is None else measured.table.ravel()
    frame["noisy_count"] = pd.Series(counts, index=frame.index, dtype="Int64")
    frame["deviation"] = np.nan if measured is None else measured.deviation
    return frame


def _levels(column: DeclaredColumn, codes: IntArray) -> Any:
    """Return the level of each code as a series, NA for a missing value."""
    import pandas as pd

    nullable = column.attribute.nullable
    missing = column.attribute.missing_code if nullable else -1
    codes_by_column = np.where(codes == missing, -1, codes)
    if column.category is not None:
        return pd.Series(pd.Categorical.from_codes(codes_by_column, dtype=column.category))
    levels: Any = pd.Series(list(column.levels or ()))
    if nullable and levels.dtype.kind in _NULLABLE:
        levels = levels.astype(_NULLABLE[levels.dtype.kind])
    return pd.Series(levels.array.take(codes_by_column, allow_fill=nullable), dtype=levels.dtype)


def clique_graph(table: SyntheticTable, columns: Columns) -> Any:
    """Return a table's model as a networkx graph: its nodes are cliques, tuples of column names,
    with their number of ``cells``; its edges have the ``separator``, the columns of both cliques.
    """
    import networkx as nx

    public_names = {column.attribute.name: column.name for column in columns}
    cliques = [tuple(public_names.get(name, name) for name in clique) for clique in table.cliques]
    graph = nx.Graph()
    for clique, names in zip(cliques, table.cliques, strict=True):
        graph.add_node(clique, cells=table.domain.cell_count(names))
    for parent, child in table.links:
        first, second = cliques[parent], cliques[child]
        shared = tuple(name for name in second if name in first)
        graph.add_edge(first, second, separator=shared)
    return graph
