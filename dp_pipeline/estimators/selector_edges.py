"""The ``edges`` of a selector as a user writes them → the cuts of its columns. All of it public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from dp_pipeline.schema.errors import DeclarationError

Cuts = tuple[float, ...]


def declared_edges(edges: Any, names: Sequence[str]) -> tuple[Mapping[int, Cuts], Cuts | None]:
    """Place of a column → its cuts, and the cuts of every column of numbers.

    edges   None, one list of ascending numbers for all, or a mapping from names, or places, of
            columns to one each
    names   of the columns of X

    DeclarationError for another form and for a column that X has not.
    """
    if edges is None:
        return {}, None
    if not isinstance(edges, Mapping):
        return {}, _ascending(edges)
    return {_place(column, names): _ascending(cuts) for column, cuts in edges.items()}, None


def _place(column: object, names: Sequence[str]) -> int:
    if isinstance(column, str) and column in names:
        return names.index(column)
    place = int(column) if isinstance(column, Integral) and not isinstance(column, bool) else -1
    if 0 <= place < len(names):
        return place
    raise DeclarationError(f"edges: expected names or places of columns of X, got {column!r:.60}")


def _ascending(cuts: Any) -> Cuts:
    try:
        array = np.asarray(cuts)
    except ValueError:
        array = np.asarray("ragged")
    is_list = array.dtype.kind in "iuf" and array.ndim == 1 and len(array) > 0
    numbers = tuple(float(cut) for cut in array) if is_list else ()
    ascends = all(low < high for low, high in pairwise(numbers))
    if not numbers or not ascends or not np.isfinite(numbers).all():
        raise DeclarationError(f"edges: expected lists of ascending numbers, got {cuts!r:.60}")
    return numbers
