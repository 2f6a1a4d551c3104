"""The type of each column of X, which is public: what it declares, and how the rest is discovered.

A type is a part of the declaration, as it is in a Parquet file: neighbouring tables have the same
ones. pandas makes some from values: a missing one turns integers into floats. Who may not tell of
that gives the types before, as ``X.convert_dtypes()`` and ``astype`` do. A column of objects has
the type that Arrow sees in all its values together, and is text where that is none.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa

from dp_pipeline.config.clock import DAY, Clock, is_zone
from dp_pipeline.config.domain import MISSING, Attribute, Undeclared
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.level_texts import DISCOVER
from dp_pipeline.estimators.declared import Columns, DeclaredColumn, attribute_of, nominal_column
from dp_pipeline.estimators.frames import holds_objects, text_of
from dp_pipeline.raw.values import TEXT, WHOLE, type_word

ColumnKind = Literal[
    "levels", "truths", "whole", "numbers", "durations", "dates", "times", "texts", "others"
]

QUANTILES = 16
UNIT_OF_NUMBERS = 0.01
"""The unit of discovered bounds and cuts of numbers that may be no integers."""

EXACT_FLOATS = 2**53
"""Integers below it are floats without rounding."""

_IDENTIFIER = re.compile(
    r"(?i:(.*[\W_])?(id|uuid|guid|ssn|patient|person|customer|client|user|member|employee|student|"
    r"household)([\W_](id|no|nr|number|key|code))?)|.*[a-z]ID"
)


def arrow_type_of(column: Any) -> pa.DataType | None:
    """Return the Arrow type of a column; None where Arrow has no type.

    NumPy's floats of any size are float64, and objects of several types, or bytes, are texts."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        return pa.float64()
    try:
        type_ = pa.array(column if holds_objects(dtype) else column[:0], from_pandas=True).type
        # One value of bytes makes bytes of texts.
        return pa.string() if holds_objects(dtype) and pa.types.is_binary(type_) else type_
    except Exception:  # noqa: BLE001 - a value may be of any class, with methods that raise
        return pa.string() if holds_objects(dtype) else None


def zone_of(column: Any) -> str:
    """Return the name of a column's time zone; UTC where it has none, or one without a name."""
    zone = str(getattr(arrow_type_of(column), "tz", None) or "UTC")
    return zone if is_zone(zone) else "UTC"


def is_untyped(column: Any) -> bool:
    """Return whether a column is an array of objects, as from nested lists, so that only single
    values have a type."""
    return isinstance(column, np.ndarray) and holds_objects(column.dtype)


def kind_of_column(column: Any) -> ColumnKind:
    """Return the kind of values in a column, judged by its type alone.

    >>> kind_of_column(np.array([1, 2])), kind_of_column(np.array([["a"], [1]], dtype=object)[:, 0])
    ('whole', 'texts')
    """
    if column.dtype.name == "category":
        categories = column.cat.categories
        is_readable = categories.dtype.name.startswith("interval") or not len(categories)
        is_readable = is_readable or _kind_of_type(arrow_type_of(categories)) != "others"
        return ("levels" if len(categories) else "texts") if is_readable else "others"
    return _kind_of_type(arrow_type_of(column))


_KINDS: Sequence[tuple[ColumnKind, Callable[[pa.DataType], bool]]] = (
    ("truths", pa.types.is_boolean),
    ("whole", WHOLE.__contains__),
    ("numbers", lambda type_: pa.types.is_floating(type_) or pa.types.is_decimal(type_)),
    ("durations", pa.types.is_duration),
    ("dates", pa.types.is_date),
    ("times", pa.types.is_timestamp),
    ("texts", lambda type_: type_ in TEXT or type_ in (pa.null(), pa.string_view())),
)


_WORDS = {"levels": "categories", "truths": "truth values", "whole": "whole numbers"}


def _kind_of_type(type_: pa.DataType | None) -> ColumnKind:
    if type_ is None:
        return "others"
    if pa.types.is_dictionary(type_):
        return _kind_of_type(type_.value_type)
    return next((kind for kind, is_kind in _KINDS if is_kind(type_)), "others")


def complete_by_types(columns: Columns, values: Sequence[Any]) -> Columns:
    """Return declared columns completed by the types of the columns of X, which they then hold.

    A type says where numbers are integers, and which columns lack missing values. For a column that
    is declared as ``discover``, it gives the levels of truth values and categories, or else says
    whether levels or bounds are to be discovered. A fitted estimator and its pickle hold the types,
    so no value of a row is in them.

    values   the columns of X, in the order of ``columns``

    DeclarationError for a type that is not read, and for a declaration that no value of the type
    can fulfil, before anything is paid.
    """
    return tuple(
        _with_type(_column_of_type(column, series), series)
        for column, series in zip(columns, values, strict=True)
    )


def _with_type(column: DeclaredColumn, series: Any) -> DeclaredColumn:
    stored, levels, dtype = arrow_type_of(series), column.levels, series.dtype
    texts = [str(level).lower() for level in levels or ()]
    if stored == pa.bool_() and {*texts} == {"false", "true"}:
        # Declared as texts, and truth values in X.
        levels = tuple(text == "true" for text in texts)
    is_clock = column.attribute.clock is not None
    is_converted = stored is not None and (
        pa.types.is_decimal(stored)
        or pa.types.is_date(stored)
        or (is_clock and (stored in TEXT | WHOLE or holds_objects(dtype)))
    )
    if dtype.name == "category":
        dtype = type(dtype)(ordered=dtype.ordered)
    elif isinstance(dtype, np.dtype) and dtype.kind in "SU":
        dtype = np.dtype(dtype.kind)
    return replace(
        column,
        levels=levels,
        # Nested lists have no types.
        dtype=None if is_untyped(series) else dtype,
        stored=stored if is_converted else None,
    )


def _column_of_type(column: DeclaredColumn, series: Any) -> DeclaredColumn:
    kind = kind_of_column(series)
    if column.may_close and _is_complete(column, series.dtype):
        column = replace(column, attribute=replace(column.attribute, nullable=False))
    attribute = column.attribute
    if kind == "others":
        type_ = arrow_type_of(series)
        has_word = type_ is not None and not isinstance(type_, pa.BaseExtensionType)
        word = type_word(type_) if has_word else str(series.dtype).partition("[")[0]
        _refuse(column, "texts, truth values, numbers, dates, times or durations", word)
    if attribute.undeclared == Undeclared():
        return _discovered_column(column, kind, series)
    is_number = attribute.is_numeric and attribute.clock is None
    # What a column of objects holds is its values: they decide as little as they can.
    has_type = not holds_objects(series.dtype)
    if is_number and column.is_duration != (kind == "durations"):
        hint = ": write bounds as datetime.timedelta" if kind == "durations" else ""
        expected = "durations" if column.is_duration else "numbers"
        _refuse(column, f"{expected}, as its bounds are", f"{_WORDS.get(kind, kind)}{hint}")
    integers = [level for level in column.levels or () if isinstance(level, int | np.integer)]
    if has_type and kind == "numbers" and any(abs(int(n)) >= EXACT_FLOATS for n in integers):
        _refuse(column, "integers or texts for levels from 2**53 on", f"{series.dtype}")
    if has_type and kind == "whole" and is_number:
        box = attribute.coordinate
        has_integer = box is None or np.ceil(box.lower) <= np.floor(box.upper)
        return replace(column, attribute=replace(attribute, is_integer=bool(has_integer)))
    return column


def _is_complete(column: DeclaredColumn, dtype: Any) -> bool:
    """Return whether every possible value of a column's type has a declared cell.

    NumPy's integers have it in bins of numbers, and its truth values if both are levels, as neither
    is ever missing; other types may have missing values.
    """
    is_number = column.attribute.is_numeric and column.attribute.clock is None
    has_both = {str(level).lower() for level in column.levels or ()} == {"false", "true"}
    is_whole = isinstance(dtype, np.dtype) and dtype.kind in "iu"
    return (is_whole and is_number) or (
        isinstance(dtype, np.dtype) and dtype.kind == "b" and has_both
    )


def _refuse(column: DeclaredColumn, expected: str, got: str) -> NoReturn:
    raise DeclarationError(f"X: column {column.name!r}: expected {expected}, got {got}")


def _discovered_column(column: DeclaredColumn, kind: ColumnKind, series: Any) -> DeclaredColumn:
    name, dtype = column.attribute.name, series.dtype
    # NumPy's integers and truth values are never missing.
    is_complete = isinstance(dtype, np.dtype) and dtype.kind in "biu"
    if kind in ("levels", "truths"):
        categories = dtype.categories if kind == "levels" else ()
        is_nullable = not is_complete and MISSING not in map(text_of, categories)
        form = {"levels": dtype if kind == "levels" else [False, True], "nullable": is_nullable}
        return replace(nominal_column(name, form), label=column.label)
    if kind == "texts":
        form = {"levels": DISCOVER, "nullable": True}
        return replace(column, attribute=attribute_of(name, form, of="domain"))
    clock = Clock("date") if kind == "dates" else None
    if kind == "times":
        clock = Clock("timestamp", zone_of(series))
    units = {"numbers": UNIT_OF_NUMBERS, "times": float(DAY)}
    attribute = Attribute(
        name,
        name,
        "clip",
        nullable=not is_complete,
        is_integer=kind == "whole",
        clock=clock,
        undeclared=Undeclared(bounds=True, quantiles=QUANTILES, unit=units.get(kind, 1.0)),
    )
    return replace(column, attribute=attribute, is_duration=kind == "durations")


def find_identifiers(names: Iterable[Any]) -> tuple[str, ...]:
    """Return those of the names, as texts, that look like a column with ids of persons.

    >>> find_identifiers(["age", "patient_id", "width", "customer", "userID", "valid"])
    ('patient_id', 'customer', 'userID')
    """
    return tuple(str(name) for name in names if _IDENTIFIER.fullmatch(str(name)))
