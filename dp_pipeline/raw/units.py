"""Rows of parts as rows of whole units, and back.

A row of a unit depends on its own parts alone. All of them are given together, since persons are
bounded before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import SIZE, Domain
from dp_pipeline.config.encoding import FloatArray, IntArray

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (n,)."""


def units_of_parts(
    domain: Domain, codes: Codes, units: IntArray, order: FloatArray | None = None
) -> dict[str, tuple[IntArray, int]]:
    """Return columns of rows of units, over ``domain.parts.of_units(domain)``, and their sizes.

    codes   attributes of each part and its unit (n,), the size of its unit aside
    units   number of each part's unit (n,), in any order; at most ``at_most`` parts have one
    order   value of each part by which those of a unit are in order (n,), NaN last; None: a set

    A unit with a part that breaks a constraint is left out. Parts with one value, and those of a
    set, are in the order of their codes, so the order of rows never matters. An attribute of the
    unit is missing where its parts have different values.
    """
    parts = domain.parts
    assert parts is not None
    keys = [codes[name] for name in reversed(parts.attributes)]
    rows = np.lexsort([*keys, *([] if order is None else [order]), units])
    units = units[rows]
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    sizes = np.diff(starts, append=len(units))
    positions = np.arange(len(units)) - np.repeat(starts, sizes)
    columns: dict[str, tuple[IntArray, int]] = {}
    for attribute in domain:
        name, size = attribute.name, attribute.size
        if name == SIZE:
            columns[name] = (sizes - 1, size)
        elif name not in parts.attributes:
            values = codes[name][rows].astype(np.int64)
            least, most = (
                ends.reduceat(values, starts) if len(starts) else values
                for ends in (np.minimum, np.maximum)
            )
            columns[name] = (np.where(least == most, least, attribute.missing_code), size)
    for position in range(parts.at_most):
        is_there = positions == position
        places = np.repeat(np.arange(len(starts)), sizes)[is_there]
        for name in parts.attributes:
            absent = domain[name].size
            column = np.full(len(starts), absent, dtype=np.int64)
            column[places] = codes[name][rows][is_there]
            columns[parts.place(name, position)] = (column, absent + 1)
    is_kept = _keeps_constraints(domain, {name: column for name, (column, _) in columns.items()})
    return {name: (column[is_kept], size) for name, (column, size) in columns.items()}


def _keeps_constraints(domain: Domain, units: Codes) -> NDArray[np.bool_]:
    """Return a mask of the units (n,) none of whose parts breaks a constraint."""
    is_kept = np.ones(len(units[SIZE]), dtype=np.bool_)
    if domain.constraints:
        parts = parts_of_units(domain, units)
        numbers = np.repeat(np.arange(len(is_kept)), units[SIZE] + 1)
        for cells in domain.allowed(domain.names):
            is_kept[numbers[~cells.holds(parts)]] = False
    return is_kept


def parts_of_units(domain: Domain, codes: Codes) -> dict[str, IntArray]:
    """Return the attributes of each part and its unit (n,), unit by unit, from rows of units."""
    parts = domain.parts
    assert parts is not None
    sizes = codes[SIZE].astype(np.int64) + 1
    units = np.repeat(np.arange(len(sizes)), sizes)
    positions = np.arange(len(units)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns = {}
    for name in domain.names:
        if name in parts.attributes:
            places = [codes[parts.place(name, i)] for i in range(parts.at_most)]
            columns[name] = np.stack(places, axis=1)[units, positions].astype(np.int64)
        else:
            columns[name] = codes[name][units].astype(np.int64)
    return columns
