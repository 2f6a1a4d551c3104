"""TableSets: which tables of several attributes are worth measuring together.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import fsum, prod, sqrt

import networkx as nx

from dp_pipeline.release.graph import triangulated_cliques
from dp_pipeline.release.noise_rate import NoiseRate

Names = tuple[str, ...]
Gaps = Mapping[tuple[str, str], float]

MOST_TABLE_CELLS = 1024
MOST_REFUSALS = 300
"""Pairs that do not fit the cliques before no further one is tried."""


@dataclass(frozen=True)
class TableSearch:
    """What a search for tables is told.

    sizes     levels of every attribute, in declared order
    gaps      pair, in declared order → what its independence is off by, in rows
    amount    what all tables cost together, in the release's currency
    rate      what noise that buys
    rows      number of rows, estimated
    cap       most cells of a clique of the tree that holds all tables
    total     most cells of all cliques
    room      how many times its noise a table's rows must be
    others    shares of what else is measured with that amount

    >>> gaps = {("a", "b"): 900.0, ("a", "c"): 1.0, ("b", "c"): 2.0}
    >>> sizes = {"a": 2, "b": 2, "c": 2}
    >>> rate = NoiseRate(concentrated=False, reach=1)
    >>> TableSearch(sizes, gaps, 1.0, rate, rows=5e3, cap=64, total=640, room=1.0).run(gaps)
    (('a', 'b'),)
    """

    sizes: Mapping[str, int]
    gaps: Gaps
    amount: float
    rate: NoiseRate
    rows: float
    cap: int
    total: int
    room: float
    others: float = 0.0

    def run(self, candidates: Iterable[tuple[str, str]]) -> tuple[Names, ...]:
        """Tables, none inside another, whose gain is large beside the noise in their pairs; every
        attribute by itself where no pair fits.

        candidates   pairs to begin with

        The objective is Σ gaps of the pairs inside some table − the least total noise of all
        pairs at that amount. Pairs are added while it rises, by gain for their cost; then
        overlapping tables are put together while it rises: one table of three attributes costs
        less than its three pairs.
        """
        chosen = self._pairs(candidates) or [(name,) for name in self.sizes]
        return self._merged(chosen)

    def _pairs(self, candidates: Iterable[tuple[str, str]]) -> list[Names]:
        # An attribute of one level has no noise beside its pairs' margins, and no dependence.
        free = [pair for pair in candidates if self._share(pair) > 0]
        worth = sorted(free, key=lambda pair: -self.gaps[pair] / self._share(pair))
        graph, chosen, shares, refused = self._graph(()), list[Names](), 0.0, 0
        for pair in worth:
            share = self._share(pair)
            rise = self._cost(shares + share) - self._cost(shares)
            if self.gaps[pair] <= rise:
                continue
            if refused < MOST_REFUSALS and not self._fits_with(graph, pair):
                refused += 1
                continue
            if refused == MOST_REFUSALS:
                break
            graph.add_edge(*pair)
            chosen.append(pair)
            shares += share
        return chosen

    def _merged(self, tables: list[Names]) -> tuple[Names, ...]:
        """Greedy with late evaluation: a candidate's gain is looked at again when it is first."""
        chosen = {frozenset(table) for table in tables}
        heap: list[tuple[float, Names]] = []
        seen: set[Names] = set()

        def push(joined: frozenset[str]) -> None:
            table = self._ordered(joined)
            if table not in seen and self._cells(table) <= MOST_TABLE_CELLS:
                seen.add(table)
                gain = self._gain(table, chosen)
                if gain > 0:
                    heapq.heappush(heap, (-gain, table))

        for one, other in combinations(chosen, 2):
            if one & other:
                push(one | other)
        while heap:
            _, table = heapq.heappop(heap)
            joined, gain = frozenset(table), self._gain(table, chosen)
            if gain <= 0:
                continue
            if heap and gain < -heap[0][0]:
                heapq.heappush(heap, (-gain, table))
                continue
            after = {one for one in chosen if not one <= joined} | {joined}
            if not self._fits(self._graph(after)):
                continue
            chosen = after
            for one in chosen - {joined}:
                if one & joined:
                    push(one | joined)
        return tuple(sorted(map(self._ordered, chosen), key=self._place))

    def _gain(self, table: Names, chosen: set[frozenset[str]]) -> float:
        """Rise of the objective when ``table`` takes the place of what is inside it; nothing where
        its cells would drown in noise.
        """
        joined = frozenset(table)
        outside = [one for one in chosen if not one <= joined]
        # A sum that is rounded once: sets come in another order in another process, and a replay
        # has to find the same tables.
        shares = self.others + fsum(self._share(self._ordered(one)) for one in chosen)
        share = self._share(table)
        after = self.others + fsum([share, *(self._share(self._ordered(one)) for one in outside)])
        noise = self.rate.deviation(self.amount * share / after)
        if self._cells(table) * noise * self.room > self.rows:
            return 0.0
        new = sum(
            self.gaps.get(pair, 0.0)
            for pair in combinations(table, 2)
            if not any(pair[0] in one and pair[1] in one for one in chosen)
        )
        return new + self._cost(shares) - self._cost(after)

    def _cost(self, shares: float) -> float:
        return self.rate.of_shares(shares, self.amount)

    def _share(self, table: Names) -> float:
        return self.rate.share(self.weight(table))

    def weight(self, table: Names) -> float:
        """What the noise of a table counts."""
        return pair_noise(tuple(self.sizes[name] for name in table))

    def _cells(self, table: Iterable[str]) -> int:
        return prod(self.sizes[name] for name in table)

    def _ordered(self, table: Iterable[str]) -> Names:
        return tuple(sorted(table, key=self._order.__getitem__))

    @property
    def _order(self) -> Mapping[str, int]:
        return {name: at for at, name in enumerate(self.sizes)}

    def _place(self, table: Names) -> list[int]:
        return [self._order[name] for name in table]

    def _graph(self, tables: Iterable[Iterable[str]]) -> nx.Graph:
        graph = nx.Graph()
        graph.add_nodes_from(self.sizes)
        for table in tables:
            graph.add_edges_from(combinations(table, 2))
        return graph

    def _fits_with(self, graph: nx.Graph, pair: tuple[str, str]) -> bool:
        graph.add_edge(*pair)
        fits = self._fits(graph)
        graph.remove_edge(*pair)
        return fits

    def _fits(self, graph: nx.Graph) -> bool:
        cells = [self._cells(clique) for clique in triangulated_cliques(graph, self.sizes)]
        return max(cells) <= self.cap and sum(cells) <= self.total


@cache
def pair_noise(sizes: tuple[float, ...]) -> float:
    """Noise of all pairs of one table, in deviations of one cell, once their one-way marginals are
    known: Σ over pairs of √(|C| · |i||j| · (1 − 1/|i|)(1 − 1/|j|)).

    A pair's cell is a sum of |C|/|ij| cells; knowing the margins leaves (|i| − 1)(|j| − 1) of
    its |ij| degrees of freedom. A single attribute counts as its cells.

    >>> pair_noise((2, 2)), pair_noise((2, 2, 2)) < 3 * pair_noise((2, 2))
    (2.0, False)
    """
    if len(sizes) == 1:
        return float(sizes[0])
    cells = prod(sizes)
    return sum(sqrt(cells * (a - 1) * (b - 1)) for a, b in combinations(sizes, 2))
