"""The k-way marginals by which tables are compared; the error of a number from a noisy table."""

import hashlib
import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from dp_pipeline.config.encoding import FloatArray

MOST_PAIRS, MOST_TRIPLES, MOST_WAYS = 2000, 500, 100
"""Sets of two, of three and of more attributes that a distance is averaged over, at most."""

MOST_COMPARED = 1_000_000
"""Rows of a table whose marginals are compared, at most; of more, a seeded sample."""

MOST_PLACES = 2000
"""Released rows whose nearest real row is searched, at most; of more, a seeded sample."""


def attribute_sets(names: Sequence[str], k: int) -> tuple[tuple[str, ...], ...]:
    """Return sets of k of the attributes: all, or a sample whose seed is made of k and the names.

    There are at most ``MOST_PAIRS`` single attributes or pairs, ``MOST_TRIPLES`` triples and
    ``MOST_WAYS`` larger sets, drawn uniformly; () for fewer than k attributes.

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
"""Draws of noise: they estimate a standard deviation of Laplace noise to √(5/800) = 8 %."""


def redraw_error(
    estimate: Callable[[FloatArray], float], believed: FloatArray, *, scale: float
) -> float:
    """Return the root mean squared error of ``estimate`` if ``believed`` were the true table.

    estimate   function of a table with noise in every cell
    believed   the denoised released table
    scale      Laplace scale of the noise in one cell

    New noise is added to the believed table, and the estimates are compared with that without
    noise, so both spread and bias count. The believed table differs from the true one, so the error
    is right in size, not in its digits. The draws are seeded, so one table has one error.

    Source: the parametric bootstrap, Efron, Tibshirani, "An Introduction to the Bootstrap", 1993.

    >>> round(redraw_error(lambda table: float(table.sum()), np.array([50.0]), scale=2.0), 1)
    3.1
    """
    rng = np.random.default_rng(0)
    value = estimate(believed)
    noise = (rng.laplace(0.0, scale, believed.shape) for _ in range(REDRAWS))
    squares = [(estimate(believed + draw) - value) ** 2 for draw in noise]
    return float(np.sqrt(np.mean(squares)))
