"""The types of the columns of a source that stores types, which exports of synthetic rows get back.

A release holds texts of levels and numbers; its export in Parquet or Arrow has the source's types
wherever every declared value is valid in that type, and ``verify`` reads the released values back.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Levels, number_of
from dp_pipeline.results.bundle import TYPES

_INTEGERS = re.compile(r"u?int(8|16|32|64)")
_DECIMALS = re.compile(r"decimal128\((\d+), (\d+)\)")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def stored_types(facts: Mapping[str, str]) -> dict[str, str]:
    """Return column name → its type in the source, from the facts of a release; {} if unknown."""
    types: dict[str, str] = json.loads(facts.get(TYPES, "{}"))
    return types


def typed_domain(domain: Domain, facts: Mapping[str, str]) -> Domain:
    """Return a domain whose numbers have the source's type, if that is integers or fixed decimals.

    Attributes of other or unknown types, derived ones, dates and times are unchanged. So is one of
    integers whose bounds hold none. Declared decimals stay as they are.
    """
    types = stored_types(facts)
    typed = (_typed(each, types.get(each.column, "")) for each in domain)
    return replace(domain, attributes=tuple(typed)) if types else domain


def _typed(attribute: Attribute, type_: str) -> Attribute:
    is_number = isinstance(attribute.cells, Bins) and attribute.clock is None
    if not is_number or attribute.derived is not None:
        return attribute
    digits = _DECIMALS.fullmatch(type_)
    if digits and attribute.decimals is None:
        return replace(attribute, decimals=int(digits[2]))
    box = attribute.coordinate
    has_integer = box is None or np.ceil(box.lower) <= np.floor(box.upper)
    is_integer = bool(_INTEGERS.fullmatch(type_)) and bool(has_integer)
    return replace(attribute, is_integer=True) if is_integer else attribute


class StoredColumn(NamedTuple):
    """A column of an export whose values have the type of the source.

    type     Arrow's name of it
    labels   the released texts of its levels; () for numbers
    """

    type: str
    labels: tuple[str, ...] = ()


def stored_columns(
    columns: Iterable[tuple[str, Attribute]], facts: Mapping[str, str]
) -> dict[str, StoredColumn]:
    """Return name → type and levels of the columns that are exported in the type of the source.

    Left out are columns of unknown type, derived ones, dates and times, and columns with a released
    value that is not valid in the type.

    columns   name in the synthetic table, with its attribute
    """
    types, stored = stored_types(facts), {}
    for name, declared in columns:
        type_ = types.get(declared.column, "")
        attribute = _typed(declared, type_)
        if attribute.derived is not None or attribute.clock is not None:
            continue
        if isinstance(attribute.cells, Levels):
            if typed_levels(attribute.cells.values, type_):
                stored[name] = StoredColumn(type_, attribute.cells.values)
        elif has_stored_numbers(attribute, type_):
            stored[name] = StoredColumn(type_)
    return stored


def typed_levels(levels: Sequence[str], type_: str) -> dict[str, Any]:
    """Return level → value in the type of the source; {} unless all are valid and distinct.

    >>> typed_levels(["0", "1"], "bool"), typed_levels(["no", "1"], "bool")
    ({'0': False, '1': True}, {})
    """
    values = {level: _typed_value(level, type_) for level in levels}
    is_valid = None not in values.values() and len(set(values.values())) == len(values)
    return values if is_valid else {}


def _typed_value(level: str, type_: str) -> Any:
    number = number_of(level)
    if type_ == "bool":
        return _TRUTHS.get(level.lower())
    if _INTEGERS.fullmatch(type_):
        limits = np.iinfo(type_)
        is_inside = isinstance(number, int) and limits.min <= number <= limits.max
        return number if is_inside else None
    digits = _DECIMALS.fullmatch(type_)
    if number is not None and digits:
        units = Fraction(level) * 10 ** int(digits[2])
        is_valid = units.denominator == 1 and abs(units) < 10 ** int(digits[1])
        return Decimal(level) if is_valid else None
    if number is not None and type_ in ("float", "double"):
        # As it is read back: 0.1 is another number in 32 bits.
        with np.errstate(over="ignore"):
            value = float(np.float32(number) if type_ == "float" else number)
        return value if np.isfinite(value) else None
    return level if type_.endswith("categories") else None


def has_stored_numbers(attribute: Attribute, type_: str) -> bool:
    """Return whether every released number of an attribute is valid in the source's type.

    False for an attribute without bins, and for dates and times.
    """
    edges: Sequence[float] = attribute.cells.edges if isinstance(attribute.cells, Bins) else ()
    if not edges or attribute.clock is not None:
        return False
    if _INTEGERS.fullmatch(type_):
        limits = np.iinfo(type_)
        return attribute.is_integer and limits.min <= edges[0] and edges[-1] <= limits.max
    digits = _DECIMALS.fullmatch(type_)
    if digits is None or attribute.decimals != int(digits[2]) or int(digits[1]) > 15:
        return False
    # A bin without a number of so many decimals has numbers of more decimals.
    step = 10.0 ** -int(digits[2])
    largest = 10.0 ** (int(digits[1]) - int(digits[2]))
    return bool(np.diff(edges).min() >= 2 * step and max(map(abs, edges)) < largest)
