"""Bounds as a user writes them → the declared domain of the columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_pipeline.schema.attribute_parser import is_interval
from dp_pipeline.schema.domain import Attribute, Domain
from dp_pipeline.schema.encoding import Coordinate
from dp_pipeline.schema.errors import DeclarationError


def declared_domain(bounds: object, names: tuple[str, ...]) -> Domain:
    """One numeric attribute a column, clipped to its bounds.

    names    all different
    bounds   ``(low, high)`` for all columns; or one such pair a column in their order, as a
             sequence or an array (d, 2); or a mapping column name → pair

    Raises DeclarationError for anything else, and for an interval that is empty, not finite
    or too narrow for its 2^17 steps.

    >>> declared_domain((0, 1), ("x", "y")).names
    ('x', 'y')
    """
    pairs = _pairs(bounds, names)
    return Domain(tuple(_attribute(*one) for one in zip(names, pairs, strict=True)))


def _pairs(bounds: object, names: tuple[str, ...]) -> list[list[float]]:
    if isinstance(bounds, Mapping):
        if set(bounds) != set(names):
            raise DeclarationError(
                f"bounds: expected a pair for each of the columns {', '.join(names)}, "
                f"got {', '.join(map(str, bounds)) or 'none'}"
            )
        bounds = [bounds[name] for name in names]
    array = _numbers(bounds)
    if array is not None and array.shape == (2,):
        array = np.tile(array, (len(names), 1))
    if array is None or array.shape != (len(names), 2):
        raise DeclarationError(
            f"bounds: expected (low, high), or {len(names)} such pairs, "
            f"got {'no numbers' if array is None else f'numbers of shape {array.shape}'}"
        )
    pairs: list[list[float]] = array.astype(np.float64).tolist()
    return pairs


def _numbers(bounds: object) -> np.ndarray | None:
    try:
        array = np.asarray(bounds)
    except ValueError:
        return None
    return array if array.dtype.kind in "iuf" else None


def _attribute(name: str, pair: list[float]) -> Attribute:
    low, high = pair
    if not is_interval(low, high):
        raise DeclarationError(
            f"bounds: column {name!r}: expected low < high, both within ±1e15, wide enough for "
            f"2^17 steps, got ({low}, {high})"
        )
    return Attribute(name, name, "clip", coordinate=Coordinate(low, high))
