"""Disjoint tables: attributes put together where that tells more about each, or about pairs.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import fsum, prod, sqrt

from dp_pipeline.release.noise_rate import NoiseRate

Names = tuple[str, ...]
Gaps = Mapping[tuple[str, str], float]

INDIRECT = 3
"""A gap that is in a table makes about two more pairs better."""


def packed(
    sizes: Mapping[str, int],
    gaps: Gaps,
    *,
    amount: float,
    rate: NoiseRate,
    most_cells: int,
) -> tuple[Names, ...]:
    """Tables that hold every attribute once, names in the order of ``sizes``.

    gaps         pair, in that order → what its independence is off by, in rows; others 0
    amount       what all tables cost together
    most_cells   of a table of several attributes

    Begins with one table an attribute. Two tables are put together while the error of all pairs
    falls: d − 1 times the noise in the one-way marginals (a marginal of a table of |C| cells
    has √(|C|·|i|) deviations of one cell, and each table an amount of its own), less the gaps
    of the pairs inside tables, which help other pairs too.

    >>> rate = NoiseRate(concentrated=False, reach=1)
    >>> packed({"a": 2, "b": 2, "c": 9}, {("a", "c"): 0.0}, amount=1.0, rate=rate, most_cells=99)
    (('a', 'b'), ('c',))
    """
    tables: list[Names] = [(name,) for name in sizes]
    while True:
        gains = [
            (_gain(one, other, tables, sizes, gaps, amount, rate), one, other)
            for one, other in combinations(tables, 2)
            if prod(sizes[name] for name in (*one, *other)) <= most_cells
        ]
        if not gains:
            break
        gain, one, other = max(gains, key=lambda found: found[0])
        if gain <= 0:
            break
        joined = _joined(one, other, sizes)
        tables = [joined if table == one else table for table in tables if table != other]
    return tuple(tables)


def _joined(one: Names, other: Names, sizes: Mapping[str, int]) -> Names:
    return tuple(name for name in sizes if name in one or name in other)


def _gain(
    one: Names,
    other: Names,
    tables: list[Names],
    sizes: Mapping[str, int],
    gaps: Gaps,
    amount: float,
    rate: NoiseRate,
) -> float:
    """How much smaller the error of all pairs is with the two together."""
    joined = _joined(one, other, sizes)
    total = fsum(rate.share(one_way_noise(table, sizes)) for table in tables)
    parts = (rate.share(one_way_noise(table, sizes)) for table in (one, other))
    after = total - sum(parts) + rate.share(one_way_noise(joined, sizes))
    saved = rate.of_shares(total, amount) - rate.of_shares(after, amount)
    pairs = ((a, b) for a, b in combinations(joined, 2) if (a in one) != (b in one))
    return (len(sizes) - 1) * saved + INDIRECT * sum(gaps.get(pair, 0.0) for pair in pairs)


def one_way_noise(table: Names, sizes: Mapping[str, int]) -> float:
    """Noise of all one-way marginals of a table, in deviations of one cell."""
    cells = prod(sizes[name] for name in table)
    return sum(sqrt(cells * sizes[name]) for name in table)
