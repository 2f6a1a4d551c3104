"""Which k-way marginals of two tables are compared: names in, names out.

How far noise moves a number made of a noisy table, judged by drawing the noise again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from dp_pipeline.config.encoding import FloatArray

MOST_PAIRS = 2000
"""Pairs of attributes that a distance is averaged over at most."""

MOST_TRIPLES = 500
"""Sets of three attributes that a distance is averaged over at most."""

MOST_WAYS = 100
"""Larger sets that a distance is averaged over at most."""

MOST_COMPARED = 1_000_000
"""Rows of a table whose marginals are compared, a seeded sample where there are more."""

MOST_PLACES = 2000
"""Released rows whose nearest real one is looked for, a seeded sample where there are more."""


def attribute_sets(names: Sequence[str], k: int) -> tuple[tuple[str, ...], ...]:
    """Return the sets of k attributes to average over: all, or a sample that the names decide.

    At most ``MOST_PAIRS`` pairs, ``MOST_TRIPLES`` triples and ``MOST_WAYS`` larger sets, every
    set as likely as any other. None where there are fewer than k attributes.

    >>> attribute_sets(("a", "b", "c"), 2)
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    most = {1: MOST_PAIRS, 2: MOST_PAIRS, 3: MOST_TRIPLES}.get(k, MOST_WAYS)
    if math.comb(len(names), k) <= most:
        return tuple(combinations(names, k))
    seed = hashlib.sha256("\0".join([str(k), *names]).encode()).digest()
    rng = np.random.default_rng(int.from_bytes(seed[:8]))
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < most:
        chosen.add(tuple(sorted(rng.choice(len(names), size=k, replace=False).tolist())))
    return tuple(tuple(names[place] for place in places) for places in sorted(chosen))


REDRAWS = 200
"""New draws: a standard deviation of Laplace noise is then known to within √(5/800) = 8 %."""


def redraw_error(
    estimate: Callable[[FloatArray], float], believed: FloatArray, *, scale: float
) -> float:
    """Return root mean squared error of ``estimate`` if ``believed`` were the true table.

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
    squares = [(estimate(believed + draw) - value) ** 2 for draw in noise]
    return float(np.sqrt(np.mean(squares)))
