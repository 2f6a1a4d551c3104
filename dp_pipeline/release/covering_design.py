"""Covering designs: few sets of attributes such that every two attributes are in one together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray

SEED = 1
"""Ties are broken at random, but by this seed for everybody: a design is a public value."""

TRIES = 8
"""Sets that are built for each one that is taken."""


def covering_design(
    sizes: Mapping[str, int], *, most_cells: int, most_attributes: int
) -> tuple[tuple[str, ...], ...]:
    """Views of the attributes, names in the order of ``sizes``: a function of its arguments.

    sizes            cells of every attribute
    most_cells       of a view with more than two attributes
    most_attributes  in a view, at least 2

    Every pair is in some view, and a single attribute is a view by itself. Greedy: a view starts
    with a pair that is in none yet and takes the attribute that brings most such pairs, of those
    the one that is in most of them outside, as long as one brings any; of ``TRIES`` views the
    one that covers most is taken. (PriView: Qardaji, Yang, Li, SIGMOD 2014, takes the best
    designs known: 6 views of 8 attributes for 16, as here.)

    >>> covering_design({"a": 2, "b": 2, "c": 2, "d": 9}, most_cells=18, most_attributes=3)
    (('a', 'b', 'c'), ('b', 'd'), ('c', 'd'), ('a', 'd'))
    """
    return _design(tuple(sizes.items()), most_cells, most_attributes)


@cache
def _design(
    sizes: tuple[tuple[str, int], ...], most_cells: int, most_attributes: int
) -> tuple[tuple[str, ...], ...]:
    """Kept: it is asked for several times while a data set's chain is declared."""
    names = tuple(name for name, _ in sizes)
    if len(names) == 1:
        return (names,)
    cells = np.array([size for _, size in sizes], dtype=np.float64)
    uncovered = ~np.eye(len(names), dtype=np.bool_)
    rng = np.random.default_rng(SEED)
    views = []
    while uncovered.any():
        tried = [_view(uncovered, cells, most_cells, most_attributes, rng) for _ in range(TRIES)]
        view = max(tried, key=lambda one: int(uncovered[np.ix_(one, one)].sum()))
        uncovered[np.ix_(view, view)] = False
        views.append(tuple(names[at] for at in sorted(view)))
    return tuple(views)


def view_cells(view: tuple[str, ...], sizes: Mapping[str, int]) -> int:
    """Cells of the table over a view."""
    return prod(sizes[name] for name in view)


def _view(
    uncovered: NDArray[np.bool_],
    cells: NDArray[np.float64],
    most_cells: int,
    most_attributes: int,
    rng: np.random.Generator,
) -> list[int]:
    """Places of one view; it covers a pair at least."""
    left = uncovered.sum(axis=1)
    view = [_best(left, left, rng)]
    view.append(_best(uncovered[view[0]] * 1, left, rng))
    while len(view) < most_attributes:
        gains = uncovered[view].sum(axis=0) * (cells * cells[view].prod() <= most_cells)
        gains[view] = 0
        if not gains.any():
            break
        view.append(_best(gains, left, rng))
    return view


def _best(gains: NDArray[np.int64], left: NDArray[np.int64], rng: np.random.Generator) -> int:
    """The place that gains most; of several that of which most is left, of several any."""
    best = np.flatnonzero(gains == gains.max())
    return int(rng.choice(best[left[best] == left[best].max()]))
