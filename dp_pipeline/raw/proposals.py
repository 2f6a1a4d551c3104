"""How columns of public rows could be declared: levels where there are few, else neat bounds.

A proposal is made by looking at every value: sensitive rows must never come here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.values import numbers, texts
from dp_pipeline.schema.attribute_parser import is_interval
from dp_pipeline.schema.domain import MISSING
from dp_pipeline.schema.found_column import FoundColumn
from dp_pipeline.schema.yaml_text import Value

MOST_LEVELS = 64
MOST_CODES = 10
"""Different whole numbers that are rather codes than a quantity."""

BINS = 10
_MISSING_WORDS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "#N/A"})


def proposed(found: FoundColumn, column: pa.ChunkedArray) -> FoundColumn:
    """The column with the fields of an attribute that all of its values fit, or with a remark
    that says why there are none.

    column   texts or numbers, as sources give them
    """
    places, words = texts(column)
    used = {words[place] for place in np.unique(places[places >= 0]).tolist()}
    absent = {word for word in used if word is None or word in _MISSING_WORDS}
    is_nullable = bool(absent) or bool((places < 0).any())
    if is_nullable:
        # The cell of missing values has this name, so no level may have it.
        absent |= used & {MISSING}
    fields, remark = _fields(sorted(used - absent))
    if fields and is_nullable:
        named = sorted(word for word in absent if word)
        fields |= {"nullable": "true", **({"missing": named} if named else {})}
    return replace(found, proposal=fields, remark=remark)


def _fields(values: Sequence[str]) -> tuple[dict[str, Value], str]:
    """Fields for these different texts, or none and the reason."""
    if len(values) < 2:
        return {}, "one value alone" if values else "no value"
    found = numbers(pa.chunked_array([pa.array(values, pa.string())]))
    if not np.isfinite(found).all():
        if len(values) > MOST_LEVELS:
            return {}, f"{len(values):,} different texts"
        return {"levels": list(values)}, ""
    is_whole = bool((found == np.rint(found)).all())
    if is_whole and len(values) <= MOST_CODES:
        return {"levels": [values[place] for place in np.argsort(found, kind="stable")]}, ""
    bounds = neat_bounds(float(found.min()), float(found.max()))
    if not is_interval(*map(float, bounds)):
        return {}, "numbers too large, or too near to each other"
    whole: dict[str, Value] = {"integer": "true"} if is_whole else {}
    return {"bounds": list(bounds), "bins": str(BINS), **whole}, ""


def neat_bounds(least: float, most: float) -> tuple[str, str]:
    """Round numbers around two others, as text, less than an eighth of their distance away.

    >>> neat_bounds(17.0, 90.0), neat_bounds(0.0, 0.93), neat_bounds(-3.2, 1041.5)
    (('15', '90'), ('0', '0.95'), ('-100', '1100'))
    """
    width = most - least
    if not width > 0:
        return str(least), str(most)
    power = Decimal(10) ** (math.floor(math.log10(width)) - 2)
    step = next(one * power for one in (5, 10, 20, 50, 100) if float(one * power) >= width / 20)
    lower = (Decimal(repr(least)) / step).to_integral_value(ROUND_FLOOR) * step
    upper = (Decimal(repr(most)) / step).to_integral_value(ROUND_CEILING) * step
    return _plain(lower), _plain(upper)


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
