"""How far released rows are from the nearest real one. Codes in, numbers out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import IntArray

MOST_ROWS = 2000
"""Released rows that are looked at, a seeded sample where there are more."""

_ROWS_A_BLOCK = 1 << 14
_PLACES_A_BLOCK = 32


def distance_to_closest_record(
    real: Mapping[str, NDArray[Any]], released: Mapping[str, NDArray[Any]]
) -> float:
    """Mean over released rows of the share of attributes in which the nearest real row differs.

    real, released   attribute → codes, the same attributes in both, at least one

    In 0..1: 0 where every released row is also a real one. NaN where either table is empty.
    A sanity figure and **no** guarantee of privacy: rows of a small domain are close to real ones
    whatever the method, and a distance says nothing about who was in the data.

    >>> import numpy as np
    >>> real = {"a": np.array([0, 1]), "b": np.array([0, 1])}
    >>> distance_to_closest_record(real, {"a": np.array([0, 0]), "b": np.array([0, 1])})
    0.25
    """
    names = list(real)
    rows, drawn = len(real[names[0]]), len(released[names[0]])
    if rows == 0 or drawn == 0:
        return float("nan")
    chosen = np.random.default_rng(0).permutation(drawn)[:MOST_ROWS]
    sizes = [1 + max(int(real[name].max()), int(released[name].max())) for name in names]
    smallest = np.min_scalar_type(max(sizes))
    table = np.stack([real[name].astype(smallest) for name in names])
    places = np.stack([released[name][chosen].astype(smallest) for name in names])
    # Equal real rows are looked at once.
    return float(_differences(np.unique(table, axis=1), places).mean()) / len(names)


def _differences(table: NDArray[Any], places: NDArray[Any]) -> IntArray:
    """For every column of ``places`` in how many rows the most similar column of ``table``
    differs.
    """
    nearest = np.full(places.shape[1], len(table), dtype=np.int64)
    for at in range(0, table.shape[1], _ROWS_A_BLOCK):
        block = table[:, at : at + _ROWS_A_BLOCK]
        for first in range(0, places.shape[1], _PLACES_A_BLOCK):
            some = slice(first, first + _PLACES_A_BLOCK)
            found = _mismatches(block, places[:, some]).min(axis=1)
            nearest[some] = np.minimum(nearest[some], found)
    return nearest


def _mismatches(block: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Attributes that differ, (places, rows), in the smallest type that holds their number."""
    counts = np.zeros((places.shape[1], block.shape[1]), dtype=np.min_scalar_type(len(block)))
    for column, codes in zip(block, places, strict=True):
        counts += codes[:, None] != column
    return counts
