"""Attributes put together into tables where that leaves less noise in one-way marginals."""

from collections.abc import Mapping
from functools import cache
from itertools import combinations
from math import prod, sqrt

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.results.measurement import NoiseRate


def pack_tables(
    sizes: Mapping[str, int], *, rate: NoiseRate, most_cells: int, weights: FloatArray | None = None
) -> tuple[Names, ...]:
    """Return a partition of the attributes into tables, each with its names in the order of
    ``sizes``, whose one-way marginals have little noise.

    sizes        levels of every attribute
    rate         noise that an amount buys
    most_cells   of a table of several attributes
    weights      (d, d) weights of the errors of pairs; an attribute's is the mean of its pairs'

    Begins with one table an attribute. Two tables are put together, those that save most first,
    while that leaves less noise in the one-way marginals: one of |i| levels in a table of |C| cells
    has √(|C|·|i|) deviations of one cell, and tables share an amount.

    >>> rate = NoiseRate(concentrated=False, distance=1)
    >>> pack_tables({"a": 2, "b": 2, "c": 9}, rate=rate, most_cells=99)
    (('a', 'b'), ('c',))
    """
    place = {name: place for place, name in enumerate(sizes)}
    counts = [1.0] * len(place) if weights is None else weights.mean(axis=0).tolist()

    @cache
    def share(table: Names) -> float:
        cells = prod(sizes[name] for name in table)
        return rate.relative_share(
            sum(counts[place[name]] * sqrt(cells * sizes[name]) for name in table)
        )

    def union(one: Names, other: Names) -> Names:
        return tuple(sorted((*one, *other), key=place.__getitem__))

    def saving(pair: tuple[Names, Names]) -> float:
        return share(pair[0]) + share(pair[1]) - share(union(*pair))

    tables: list[Names] = [(name,) for name in sizes]
    while True:
        fitting = [
            (a, b)
            for a, b in combinations(tables, 2)
            if prod(sizes[name] for name in (*a, *b)) <= most_cells
        ]
        best = max(fitting, key=saving, default=None)
        if best is None or saving(best) <= 0:
            return tuple(tables)
        tables = [
            union(*best) if table == best[0] else table for table in tables if table != best[1]
        ]
