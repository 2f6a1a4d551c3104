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
    packing = _Packing(sizes, gaps, amount, rate)
    tables: list[Names] = [(name,) for name in sizes]
    while True:
        fitting = [
            (one, other)
            for one, other in combinations(tables, 2)
            if prod(sizes[name] for name in (*one, *other)) <= most_cells
        ]
        total = fsum(packing.share(table) for table in tables)
        gain, pair = max(
            ((packing.gain(total, *pair), pair) for pair in fitting),
            key=lambda found: found[0],
            default=(0.0, ((), ())),
        )
        if gain <= 0:
            return tuple(tables)
        joined = packing.joined(*pair)
        tables = [joined if table == pair[0] else table for table in tables if table != pair[1]]


class _Packing:
    """What two tables gain by being put together; nothing is computed twice."""

    def __init__(
        self, sizes: Mapping[str, int], gaps: Gaps, amount: float, rate: NoiseRate
    ) -> None:
        self._sizes, self._gaps, self._amount, self._rate = sizes, gaps, amount, rate
        self._place = {name: at for at, name in enumerate(sizes)}
        self._shares: dict[Names, float] = {}
        self._told: dict[tuple[Names, Names], float] = {}
        self._joined: dict[tuple[Names, Names], Names] = {}

    def share(self, table: Names) -> float:
        """What the table's share of the amount is proportional to."""
        if table not in self._shares:
            self._shares[table] = self._rate.share(one_way_noise(table, self._sizes))
        return self._shares[table]

    def joined(self, one: Names, other: Names) -> Names:
        """The two tables as one."""
        if (one, other) not in self._joined:
            both = sorted((*one, *other), key=self._place.__getitem__)
            self._joined[one, other] = tuple(both)
        return self._joined[one, other]

    def gain(self, total: float, one: Names, other: Names) -> float:
        """How much smaller the error of all pairs is with the two together.

        total   sum of all shares as they are
        """
        joined = self.joined(one, other)
        after = total - self.share(one) - self.share(other) + self.share(joined)
        before = self._rate.of_shares(total, self._amount)
        saved = before - self._rate.of_shares(after, self._amount)
        return (len(self._sizes) - 1) * saved + INDIRECT * self._told_by(one, other)

    def _told_by(self, one: Names, other: Names) -> float:
        """Gaps of the pairs of which one is in either table."""
        if (one, other) not in self._told:
            pairs = (self.joined((a,), (b,)) for a in one for b in other)
            self._told[one, other] = fsum(self._gaps.get((a, b), 0.0) for a, b in pairs)
        return self._told[one, other]


def one_way_noise(table: Names, sizes: Mapping[str, int]) -> float:
    """Noise of all one-way marginals of a table, in deviations of one cell."""
    cells = prod(sizes[name] for name in table)
    return sum(sqrt(cells * sizes[name]) for name in table)
