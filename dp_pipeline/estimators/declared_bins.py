"""Bounds with bins or edges as a user writes them → a declared column."""

from __future__ import annotations

import math
from itertools import pairwise
from numbers import Integral

import numpy as np

from dp_pipeline.estimators.declared_column import (
    DeclaredColumn,
    Form,
    flag,
    missing_words,
    refuse,
)
from dp_pipeline.schema.attribute_parser import MOST_CELLS, is_interval
from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.encoding import Bins, Coordinate


def numeric_column(name: str, form: Form) -> DeclaredColumn:
    """``{"bounds": [low, high], "bins": n}``, or ``edges`` in place of bins, with ``integer``,
    ``nullable`` and ``missing``.

    Raises DeclarationError for anything else, and for an interval that is empty, not finite or
    too narrow for its 2^17 steps.
    """
    bins = _bins(name, form)
    lower, upper = bins.edges[0], bins.edges[-1]
    whole = flag(name, form, "integer")
    if whole and math.ceil(lower) > math.floor(upper):
        refuse(name, "a whole number between the bounds", "none")
    attribute = Attribute(
        name,
        name,
        "clip",
        coordinate=Coordinate(lower, upper),
        cells=bins,
        nullable=flag(name, form, "nullable"),
        whole=whole,
        missing=missing_words(name, form),
    )
    return DeclaredColumn(attribute)


def _bins(name: str, form: Form) -> Bins:
    if ("bins" in form) == ("edges" in form):
        refuse(name, "bins or edges beside the bounds", "both, or none of them")
    if "bins" in form and "bounds" not in form:
        refuse(name, "bounds beside bins", "none")
    edges = _floats(name, form, "edges", at_least=1 if "bounds" in form else 2)
    bounds = _floats(name, form, "bounds", at_least=2) or (edges[0], edges[-1])
    if len(bounds) != 2 or not is_interval(*bounds):
        expected = "lower < upper, both within ±1e15, wide enough for 2^17 steps"
        refuse(name, expected, str(list(bounds))[:62])
    bins = _cut(bounds, edges) if edges else _equal_width(name, bounds, form["bins"])
    if bins.size > MOST_CELLS or any(low >= high for low, high in pairwise(bins.edges)):
        refuse(name, f"at most {MOST_CELLS} ascending bins inside the bounds", "others")
    return bins


def _cut(bounds: tuple[float, ...], edges: tuple[float, ...]) -> Bins:
    """The bounds may stand among the edges, as first and last, or not."""
    inner = edges[edges[0] == bounds[0] :]
    inner = inner[: len(inner) - (inner[-1:] == bounds[1:])]
    return Bins((bounds[0], *inner, bounds[1]))


def _equal_width(name: str, bounds: tuple[float, ...], count: object) -> Bins:
    whole = int(count) if isinstance(count, Integral) and not isinstance(count, bool) else 0
    if not 1 <= whole <= MOST_CELLS:
        refuse(name, f"1 to {MOST_CELLS} bins", repr(count)[:62])
    return Bins.equal_width(bounds[0], bounds[1], whole)


def _floats(name: str, form: Form, field: str, *, at_least: int) -> tuple[float, ...]:
    """Finite numbers; none where the field is absent."""
    if field not in form:
        return ()
    try:
        array = np.asarray(form[field])
    except ValueError:
        array = np.asarray("ragged")
    if array.dtype.kind not in "iuf" or array.ndim != 1 or len(array) < at_least:
        refuse(name, f"a list of numbers as `{field}`", "something else")
    numbers = tuple(float(number) for number in array)
    if not all(map(math.isfinite, numbers)):
        refuse(name, f"finite numbers as `{field}`", "others")
    return numbers
