"""One attribute of a data set file: levels, or bounds with bins or edges.

Fields of a data set file about time and people: limits, new rows, who answers for it.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np

from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.domain import MISSING, Attribute, OnInvalid
from dp_pipeline.spec.encoding import COORDINATE_BITS, Bins, Coordinate, Levels
from dp_pipeline.spec.fields import Fields

LARGEST_BOUND = 1e15
SMALLEST_WIDTH = 1e-100
MOST_CELLS = 65_536


def parse_attribute(name: str, fields: Fields, default: str, *, usable: Fraction) -> Attribute:
    """Read one attribute.

    default   the data set's rule for invalid values
    usable    the data set's share of the rows that have to be as declared
    """
    column = fields.text("column", name)
    if "levels" in fields:
        attribute = _nominal(name, column, fields, default)
    elif "bounds" in fields:
        attribute = _numeric(name, column, fields, default)
    else:
        fields.refuse("levels", "levels or bounds", "neither")
    attribute = replace(attribute, usable=fields.share("usable", usable))
    fields.finish()
    return attribute


def is_interval(lower: float, upper: float) -> bool:
    """Whether a number can be declared between these bounds.

    The width must hold the 2^17 steps of a fixed-point coordinate as different
    floats, or values in the middle would be sent to the ends.

    >>> is_interval(0.0, 1.0), is_interval(1.0, 0.0), is_interval(1e15, 1e15 + 1)
    (True, False, False)
    """
    largest = max(abs(lower), abs(upper))
    if not largest <= LARGEST_BOUND:
        return False
    finest = float(np.spacing(largest)) * (1 << (COORDINATE_BITS + 1))
    return upper - lower >= max(finest, SMALLEST_WIDTH)


def _nominal(name: str, column: str, fields: Fields, default: str) -> Attribute:
    levels = fields.texts_or_range("levels", most=MOST_CELLS)
    if len(levels) < 2 or len(set(levels)) != len(levels) or len(levels) > MOST_CELLS:
        fields.refuse("levels", f"2 to {MOST_CELLS} different levels", f"{len(levels)}")
    other = fields.text("other", choices=levels) if "other" in fields else None
    fallback = "drop" if other is None else "other"
    rule: OnInvalid = fields.text("on_invalid", fallback, choices=("other", "drop"))  # type: ignore[assignment]
    if default == "drop" and "on_invalid" not in fields:
        rule = "drop"
    if rule == "other" and other is None:
        fields.refuse("on_invalid", "a declared level `other` to send values to", "none")
    nullable, missing = _missing(fields)
    if nullable and MISSING in levels:
        expected = f"no level {MISSING!r}, which is the name of missing values here"
        fields.refuse("levels", expected, "one")
    aliases = _aliases(fields, levels)
    if not {*levels, *dict(aliases)}.isdisjoint(missing):
        fields.refuse("missing", "texts that are neither levels nor aliases", "one that is")
    return Attribute(
        name,
        column,
        rule,
        cells=Levels(levels),
        other=other,
        nullable=nullable,
        missing=missing,
        aliases=aliases,
    )


def _missing(fields: Fields) -> tuple[bool, tuple[str, ...]]:
    """Whether values may be missing, and which texts say so beside an empty one."""
    nullable = fields.boolean("nullable")
    if "missing" not in fields:
        return nullable, ()
    if not nullable:
        fields.refuse("missing", "`nullable: true` beside it", "none")
    return nullable, tuple(sorted({text.strip() for text in fields.texts("missing")}))


def _aliases(fields: Fields, levels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Other spelling → level."""
    if "aliases" not in fields:
        return ()
    section = fields.section("aliases")
    aliases = tuple((text, section.text(text, choices=levels)) for text in sorted(section))
    for text, _ in aliases:
        if text in levels or text != text.strip():
            section.refuse(text, "a spelling that is no level, without spaces around it", "another")
    return aliases


def _numeric(name: str, column: str, fields: Fields, default: str) -> Attribute:
    bounds = fields.numbers("bounds")
    if len(bounds) != 2 or not is_interval(*bounds):
        expected = "lower < upper, both within ±1e15, wide enough for 2^17 steps"
        fields.refuse("bounds", expected, str(list(bounds)))
    fallback = "drop" if default == "drop" else "clip"
    rule: OnInvalid = fields.text("on_invalid", fallback, choices=("clip", "drop"))  # type: ignore[assignment]
    cells = _bins(fields, bounds)
    nullable, missing = _missing(fields)
    if nullable and cells is None:
        fields.refuse("nullable", "bins or edges, for missing values to be one more cell", "none")
    whole = fields.boolean("integer")
    if whole and math.ceil(bounds[0]) > math.floor(bounds[1]):
        fields.refuse("integer", "a whole number between the bounds", "none")
    return Attribute(
        name,
        column,
        rule,
        coordinate=Coordinate(bounds[0], bounds[1]),
        cells=cells,
        nullable=nullable,
        whole=whole,
        missing=missing,
    )


def _bins(fields: Fields, bounds: tuple[float, ...]) -> Bins | None:
    if "edges" in fields:
        inner = fields.numbers("edges")
        edges = (bounds[0], *inner, bounds[1])
        if any(low >= high for low, high in pairwise(edges)):
            fields.refuse("edges", "ascending cuts strictly inside the bounds", str(list(inner)))
        return Bins(edges)
    if "bins" not in fields:
        return None
    count = fields.integer("bins", at_least=1)
    bins = Bins.equal_width(bounds[0], bounds[1], count) if count <= MOST_CELLS else None
    if bins is None or len(set(bins.edges)) != count + 1:
        fields.refuse("bins", f"at most {MOST_CELLS} bins of positive width", str(count))
    return bins


_OWNER = re.compile(r"team:\S+|[A-Za-z0-9][\w.%+-]*@([A-Za-z0-9-]+\.)+[A-Za-z]{2,7}", re.ASCII)


def parse_ceiling(fields: Fields) -> tuple[Fraction | None, Fraction | None]:
    """The limit for ever and the one of a month; None where there is none."""
    if "ceiling" not in fields:
        return None, None
    section = fields.section("ceiling")
    total = section.epsilon("total")
    per_month = section.epsilon("per_month") if "per_month" in section else None
    section.finish()
    if per_month is not None and per_month > total:
        expected = f"at most the total, {epsilon_text(total)}"
        section.refuse("per_month", expected, epsilon_text(per_month))
    return total, per_month


def parse_refresh(fields: Fields) -> Literal["weekly"] | None:
    """How often the schedule opens a new snapshot."""
    if "refresh" not in fields:
        return None
    fields.text("refresh", choices=("weekly",))
    if "publish" not in fields:
        fields.refuse("refresh", "publish, which says what a new snapshot is for", "nothing")
    return "weekly"


def parse_updates(fields: Fields) -> bool:
    """Whether the moment at which the rows change may be seen."""
    if "updates" not in fields:
        return False
    return fields.text("updates", choices=("public",)) == "public"


def parse_owners(fields: Fields) -> tuple[str, ...]:
    """Who answers for the data set."""
    if "owners" not in fields:
        return ()
    owners = fields.texts("owners")
    for owner in owners:
        if not _OWNER.fullmatch(owner):
            fields.refuse("owners", "e-mail addresses or team:NAME", repr(owner[:60]))
    if not owners or len(set(owners)) < len(owners):
        fields.refuse("owners", "one or more, each once", str(len(owners)))
    return owners
