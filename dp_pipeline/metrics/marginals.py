"""How close the k-way marginals of two tables are: codes in, numbers out.

How far released rows are from the nearest real one. Codes in, numbers out.

How far noise moves a number made of a noisy table, judged by drawing the noise again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.spec.encoding import FloatArray, IntArray
from dp_pipeline.spec.errors import DeclarationError

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (rows,), whole numbers below the attribute's size."""

MOST_PAIRS = 2000
"""Pairs of attributes that a distance is averaged over at most."""

MOST_TRIPLES = 500
"""Sets of three attributes that a distance is averaged over at most."""

MOST_WAYS = 100
"""Larger sets that a distance is averaged over at most."""

_MOST_KEYS = 1 << 62
_DENSE_CELLS_A_ROW = 8


def ways_of(names: Sequence[str], k: int) -> tuple[tuple[str, ...], ...]:
    """The sets of k attributes to average over: all, or a sample that the names alone decide.

    At most ``MOST_PAIRS`` pairs, ``MOST_TRIPLES`` triples and ``MOST_WAYS`` larger sets, every
    set as likely as any other. None where there are fewer than k attributes.

    >>> ways_of(("a", "b", "c"), 2)
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    most = {1: MOST_PAIRS, 2: MOST_PAIRS, 3: MOST_TRIPLES}.get(k, MOST_WAYS)
    if math.comb(len(names), k) <= most:
        return tuple(combinations(names, k))
    seed = hashlib.sha256("\0".join([str(k), *names]).encode()).digest()
    rng = np.random.default_rng(int.from_bytes(seed[:8]))
    found: set[tuple[int, ...]] = set()
    while len(found) < most:
        found.add(tuple(sorted(rng.choice(len(names), size=k, replace=False).tolist())))
    return tuple(tuple(names[at] for at in one) for one in sorted(found))


def average_distance(
    real: Codes, released: Codes, sizes: Mapping[str, int], ways: Sequence[tuple[str, ...]]
) -> float:
    """Average k-way variation distance: the mean over marginals of ½ Σ |c/n − s/m|.

    real       the n rows that c counts
    released   the m rows that s counts; their distribution is uniform where there are none
    ways       the marginals, each of different attributes of both tables

    In 0..1, 0 where all marginals are equal; NaN without real rows: nothing can be divided by
    them. DeclarationError for no marginals, and for columns of two lengths in one table.
    Source: Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes", TODS 2017, §6.

    >>> import numpy as np
    >>> one = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1])}
    >>> other = {"a": np.array([0, 0]), "b": np.array([0, 1])}
    >>> average_distance(one, other, {"a": 2, "b": 2}, [("a", "b"), ("a",), ("b",)])
    0.3333333333333333
    """
    if not ways:
        raise DeclarationError("variation distance: expected at least one marginal, got none")
    names = sorted({name for way in ways for name in way})
    n, m = _rows(real, names), _rows(released, names)
    if n == 0:
        return float("nan")
    both = {name: _joined(real[name], released[name], sizes[name]) for name in names}
    return float(np.mean([_distance(both, sizes, way, n=n, m=m) for way in ways]))


def _rows(table: Codes, names: Sequence[str]) -> int:
    lengths = {len(table[name]) for name in names}
    if len(lengths) != 1:
        raise DeclarationError(
            f"variation distance: expected columns of one length, got {len(lengths)} lengths"
        )
    return lengths.pop()


def _joined(real: NDArray[Any], released: NDArray[Any], size: int) -> NDArray[Any]:
    smallest = np.min_scalar_type(size)
    return np.concatenate([real.astype(smallest), released.astype(smallest)])


def _distance(
    both: Codes, sizes: Mapping[str, int], way: tuple[str, ...], *, n: int, m: int
) -> float:
    keys, cells = _keys(both, sizes, way)
    if m == 0:
        # Every cell without a real row is 1/cells off.
        cells = math.prod(sizes[name] for name in way)
        counts = np.unique(keys, return_counts=True)[1]
        total = float(np.abs(counts / n - 1 / cells).sum()) + (cells - len(counts)) / cells
    elif cells <= _DENSE_CELLS_A_ROW * (n + m):
        c, s = (np.bincount(one, minlength=cells) for one in (keys[:n], keys[n:]))
        total = float(np.abs(c / n - s / m).sum())
    else:
        total = _sparse_total(keys[:n], keys[n:])
    # Shares are rounded, so disjoint tables could be a last digit above 1.
    return min(1.0, total / 2)


def _keys(both: Codes, sizes: Mapping[str, int], way: tuple[str, ...]) -> tuple[IntArray, int]:
    """Cell of every row, last attribute fastest, and a number that no key reaches."""
    keys, cells = both[way[0]].astype(np.int64), sizes[way[0]]
    for name in way[1:]:
        if cells * sizes[name] > _MOST_KEYS:
            # Only which rows share a cell counts, so occupied cells are numbered anew.
            keys = np.unique(keys, return_inverse=True)[1]
            cells = int(keys.max()) + 1
        keys = keys * sizes[name] + both[name]
        cells *= sizes[name]
    return keys, cells


def _sparse_total(real: IntArray, released: IntArray) -> float:
    """Σ |c/n − s/m| over the cells that occur."""
    (cells, c), (others, s) = (np.unique(one, return_counts=True) for one in (real, released))
    keys = np.concatenate([cells, others])
    shares = np.concatenate([c / len(real), -s / len(released)])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return float(np.abs(np.add.reduceat(shares[order], starts)).sum())


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


REDRAWS = 200
"""New draws: a standard deviation of Laplace noise is then known to within √(5/800) = 8 %."""


def redraw_error(
    estimate: Callable[[FloatArray], float], believed: FloatArray, *, scale: float
) -> float:
    """Root mean squared error of ``estimate`` if ``believed`` were the true table.

    estimate   of a table with noise in every cell
    believed   the table that is left when the noise is taken off as well as can be
    scale      Laplace scale of the noise in one cell

    New noise is put on the believed table and the estimate compared with that without it, so
    spread and bias both count. What is not known is how far the believed table is from
    the true one: the error is right in size, not in its digits. Uses released values only.
    The draws are the same ones every time, so one table has one error.

    Source: the parametric bootstrap, Efron, Tibshirani, "An Introduction to the Bootstrap", 1993.

    >>> round(redraw_error(lambda table: float(table.sum()), np.array([50.0]), scale=2.0), 1)
    3.1
    """
    rng = np.random.default_rng(0)
    value = estimate(believed)
    noise = (rng.laplace(0.0, scale, believed.shape) for _ in range(REDRAWS))
    squares = [(estimate(believed + one) - value) ** 2 for one in noise]
    return float(np.sqrt(np.mean(squares)))
