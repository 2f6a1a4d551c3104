"""TableSets: which tables of several attributes are worth measuring together.

Disjoint tables: attributes put together where that tells more about each.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from math import fsum, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.config.constraints import Mask
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.junction_tree import triangulated_cliques
from dp_pipeline.results.measurement import NoiseRate

if TYPE_CHECKING:
    import networkx as nx

Attributes = frozenset[str]

MOST_TABLE_CELLS = 1024
MOST_TRIED = 256
"""Pairs whose gain is computed for each that is chosen: those that gain most by themselves."""
MOST_REFUSALS = 300
"""Pairs that do not fit the cliques before no further one is tried."""


@dataclass(frozen=True)
class TableSearch:
    """What a search for tables is told.

    sizes     levels of every attribute, in declared order
    depends   how far its pairs are from independence
    amount    what all tables cost together, in the release's currency
    rate      what noise that buys
    rows      number of rows, estimated
    cap       most cells of a clique of the tree that holds all tables
    total     most cells of all cliques
    room      how many times its noise a table's rows must be
    edges     pairs that are in a clique of that tree whatever is measured
    weights   what each pair's error counts (d, d), symmetric; None where all count alike

    >>> gaps = {("a", "b"): 900.0, ("a", "c"): 1.0, ("b", "c"): 2.0}
    >>> sizes, depends = {"a": 2, "b": 2, "c": 2}, Dependence.of("abc", gaps)
    >>> rate = NoiseRate(concentrated=False, distance=1)
    >>> TableSearch(sizes, depends, 1.0, rate, rows=5e3, cap=64, total=640, room=1.0).run(gaps)
    (('a', 'b'),)
    """

    sizes: Mapping[str, int]
    depends: Dependence
    amount: float
    rate: NoiseRate
    rows: float
    cap: int
    total: int
    room: float
    edges: tuple[tuple[str, str], ...] = ()
    weights: FloatArray | None = None

    def run(self, candidates: Iterable[tuple[str, str]]) -> tuple[Names, ...]:
        """Tables, none inside another, whose gain is large beside the noise in their pairs; every
        attribute by itself where no pair fits.

        candidates   pairs to begin with

        The objective is Σ gaps of the pairs inside some table, and of what these tell of others
        (``Dependence``), − the least total noise of all pairs at that amount. Pairs are added
        while it rises, by gain for their cost; then overlapping tables are put together while it
        rises: one table of three attributes costs less than its three pairs.
        """
        chosen = self._pairs(candidates) or [(name,) for name in self.sizes]
        return self._merged(chosen)

    def _pairs(self, candidates: Iterable[tuple[str, str]]) -> list[Names]:
        # An attribute of one level has no noise beside its pairs' margins, and no dependence.
        pairing = _Pairing.of(self, [pair for pair in candidates if self.share(pair) > 0])
        graph, chosen, refused = self._graph(()), list[Names](), 0
        while refused < MOST_REFUSALS and (best := pairing.best()) is not None:
            pair = pairing.pairs[best]
            if self._fits_with(graph, pair):
                graph.add_edge(*pair)
                chosen.append(pair)
                pairing.take(best)
            else:
                refused += 1
        return chosen

    def _merged(self, tables: list[Names]) -> tuple[Names, ...]:
        """Greedy with late evaluation: a candidate's gain is looked at again when it is first."""
        state = _Merging(self, [frozenset(table) for table in tables])
        heap: list[tuple[float, Names]] = []
        for one, other in combinations(state.chosen, 2):
            self._push(heap, state, one, other)
        while heap:
            _, table = heapq.heappop(heap)
            gain = state.gain(table)
            if gain <= 0:
                continue
            if heap and gain < -heap[0][0]:
                heapq.heappush(heap, (-gain, table))
                continue
            after = state.with_table(table)
            if not self._fits(self._graph(after), after):
                continue
            state.choose(table, after)
            for one in state.chosen[:-1]:
                self._push(heap, state, one, state.chosen[-1])
        return tuple(sorted(map(self.ordered, state.chosen), key=self._place))

    def _push(
        self, heap: list[tuple[float, Names]], state: _Merging, one: Attributes, other: Attributes
    ) -> None:
        """A candidate: two tables that overlap, as one."""
        if not one & other:
            return
        table = self.ordered(one | other)
        if table not in state.seen and self.cells(table) <= MOST_TABLE_CELLS:
            state.seen.add(table)
            gain = state.gain(table)
            if gain > 0:
                heapq.heappush(heap, (-gain, table))

    def cost(self, shares: float) -> float:
        """Least total noise of all pairs of tables with this sum of shares."""
        return self.rate.of_shares(shares, self.amount)

    def share(self, table: Names) -> float:
        """What a table's share of the amount is proportional to."""
        return self.rate.share(self.weight(table))

    def weight(self, table: Names) -> float:
        """What the noise of a table counts."""
        if self.weights is None or len(table) == 1:
            return pair_noise(tuple(self.sizes[name] for name in table))
        cells = prod(self.sizes[name] for name in table)
        return fsum(
            float(self.weights[self.place[a], self.place[b]])
            * sqrt(cells * (self.sizes[a] - 1) * (self.sizes[b] - 1))
            for a, b in combinations(table, 2)
        )

    def cells(self, table: Iterable[str]) -> int:
        """Cells of a table."""
        return prod(self.sizes[name] for name in table)

    def ordered(self, table: Iterable[str]) -> Names:
        """The attributes in declared order."""
        return tuple(sorted(table, key=self._order.__getitem__))

    def untold(self, pairs: Iterable[tuple[str, str]]) -> FloatArray:
        """Rows of every gap that tables of these pairs do not tell, where they have not the pair
        itself (d, d), by what it counts.
        """
        return self.counted(self.depends.untold(self.depends.paths(pairs)))

    def counted(self, rows: FloatArray) -> FloatArray:
        """Rows of every pair by what they count (d, d), or several such."""
        return rows if self.weights is None else np.asarray(rows * self.weights)

    @property
    def place(self) -> dict[str, int]:
        """Attribute → its place in ``untold``."""
        return self.depends.place

    @cached_property
    def _order(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.sizes)}

    def _place(self, table: Names) -> list[int]:
        return [self._order[name] for name in table]

    def _graph(self, tables: Iterable[Iterable[str]]) -> nx.Graph:
        # Takes a fifth of a second, and a plan draws no graph.
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.sizes)
        for table in tables:
            graph.add_edges_from(combinations(table, 2))
        graph.add_edges_from(self.edges)
        return graph

    def _fits_with(self, graph: nx.Graph, pair: tuple[str, str]) -> bool:
        graph.add_edge(*pair)
        fits = self._fits(graph, graph.edges)
        if pair not in self.edges:
            graph.remove_edge(*pair)
        return fits

    def fits(self, tables: Sequence[Names]) -> bool:
        """Whether there is a tree for these tables, small enough."""
        return self._fits(self._graph(tables), tables)

    def _fits(self, graph: nx.Graph, tables: Iterable[Iterable[str]]) -> bool:
        """Whether cliques and tables have no more cells than they may."""
        cells = [self.cells(clique) for clique in triangulated_cliques(graph, self.sizes)]
        measured = sum(self.cells(table) for table in tables)
        return max(cells) <= self.cap and max(sum(cells), measured) <= self.total


@dataclass
class _Pairing:
    """Pairs chosen so far, and what each other one would gain.

    pairs           that may be chosen, (m,); first, second and shares are theirs
    first, second   places of their attributes
    shares          what a table of the pair would cost
    open            whether a pair may still be chosen (m,)
    paths           what chosen pairs tell of all (d, d)
    covered         whether a pair of places is chosen (d, d)
    spent           sum of the chosen ones' shares
    """

    search: TableSearch
    pairs: list[tuple[str, str]]
    first: IntArray
    second: IntArray
    shares: FloatArray
    open: Mask
    paths: FloatArray
    covered: Mask
    spent: float = 0.0

    @classmethod
    def of(cls, search: TableSearch, pairs: list[tuple[str, str]]) -> _Pairing:
        """Nothing is chosen yet."""
        place, many = search.depends.place, len(search.depends.names)
        places = np.array([(place[a], place[b]) for a, b in pairs], dtype=np.int64)
        first, second = places.reshape(-1, 2).T
        return cls(
            search,
            pairs,
            first,
            second,
            np.array([search.share(pair) for pair in pairs], dtype=np.float64),
            np.ones(len(pairs), dtype=bool),
            np.eye(many),
            np.zeros((many, many), dtype=bool),
        )

    def best(self) -> int | None:
        """The pair that gains most for its cost, which is not tried again; None where none gains
        more than its cost.
        """
        untold = self.search.counted(self.search.depends.untold(self.paths))
        untold = np.where(self.covered, 0.0, untold)
        own = np.where(self.open, untold[self.first, self.second] / self.shares, -np.inf)
        likely = np.argsort(-own, kind="stable")[:MOST_TRIED]
        likely = likely[self.open[likely]]
        if not len(likely):
            return None
        gains = np.concatenate(
            [self._gains(untold, some) for some in np.array_split(likely, 1 + len(likely) // 32)]
        )
        search, shares = self.search, self.shares[likely]
        before = search.cost(self.spent)
        costs = np.array([search.cost(self.spent + share) - before for share in shares.tolist()])
        worth = np.where(gains > costs, gains / shares, 0.0)
        if worth.max() <= 0:
            return None
        best = int(likely[worth.argmax()])
        self.open[best] = False
        return best

    def _gains(self, untold: FloatArray, some: IntArray) -> FloatArray:
        """Rows of the gaps that one of these pairs would tell, its own and others."""
        first, second = self.first[some], self.second[some]
        depends = self.search.depends
        left = self.search.counted(depends.untold(depends.with_pairs(self.paths, first, second)))
        left = np.where(self.covered, 0.0, left)
        at = np.arange(len(some))
        left[at, first, second] = left[at, second, first] = 0.0
        return np.asarray((untold - left).sum(axis=(1, 2)) / 2)

    def take(self, pair: int) -> None:
        """Choose it."""
        first, second = self.first[[pair]], self.second[[pair]]
        self.paths = self.search.depends.with_pairs(self.paths, first, second)[0]
        self.covered[first, second] = self.covered[second, first] = True
        self.spent += float(self.shares[pair])


class _Merging:
    """Tables chosen so far, in an order that another process has too: a replay has to find the
    same ones.

    seen   candidates that were looked at
    """

    def __init__(self, search: TableSearch, tables: list[Attributes]) -> None:
        self._search, self.chosen = search, tables
        self.seen: set[Names] = set()
        self._covered = {pair for table in tables for pair in self._pairs(table)}
        self._untold = search.untold(self._covered)
        self._shares = {table: self._share(table) for table in tables}
        self._total = fsum(self._shares.values())

    def gain(self, table: Names) -> float:
        """Rise of the objective when ``table`` takes the place of what is inside it; nothing where
        its cells would drown in noise.
        """
        search, joined = self._search, frozenset(table)
        share = search.share(table)
        inside = fsum(self._shares[one] for one in self.chosen if one <= joined)
        after = self._total - inside + share
        noise = search.rate.deviation(search.amount * share / after)
        if search.cells(table) * noise * search.room > search.rows:
            return 0.0
        pairs = (pair for pair in combinations(table, 2) if pair not in self._covered)
        places = ((search.place[one], search.place[other]) for one, other in pairs)
        new = fsum(float(self._untold[place]) for place in places)
        return new + search.cost(self._total) - search.cost(after)

    def with_table(self, table: Names) -> list[Attributes]:
        """What is chosen when ``table`` takes the place of what is inside it."""
        joined = frozenset(table)
        return [*(one for one in self.chosen if not one <= joined), joined]

    def choose(self, table: Names, after: list[Attributes]) -> None:
        """Take ``table``; ``after`` is ``with_table`` of it."""
        self.chosen = after
        self._covered.update(self._pairs(after[-1]))
        self._untold = self._search.untold(self._covered)
        self._shares[after[-1]] = self._search.share(table)
        self._total = fsum(self._shares[one] for one in after)

    def _pairs(self, table: Attributes) -> Iterable[tuple[str, str]]:
        return combinations(self._search.ordered(table), 2)

    def _share(self, table: Attributes) -> float:
        return self._search.share(self._search.ordered(table))


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


def packed(sizes: Mapping[str, int], *, rate: NoiseRate, most_cells: int) -> tuple[Names, ...]:
    """Tables that hold every attribute once, names in the order of ``sizes``.

    rate         what noise an amount buys
    most_cells   of a table of several attributes

    Begins with one table an attribute. Two tables are put together, those that save most first,
    while that leaves less noise in the one-way marginals: one of a table of |C| cells has
    √(|C|·|i|) deviations of one cell, and tables share an amount.

    >>> rate = NoiseRate(concentrated=False, distance=1)
    >>> packed({"a": 2, "b": 2, "c": 9}, rate=rate, most_cells=99)
    (('a', 'b'), ('c',))
    """
    place = {name: at for at, name in enumerate(sizes)}

    @cache
    def share(table: Names) -> float:
        return rate.share(one_way_noise(table, sizes))

    def joined(one: Names, other: Names) -> Names:
        return tuple(sorted((*one, *other), key=place.__getitem__))

    def saved(pair: tuple[Names, Names]) -> float:
        return share(pair[0]) + share(pair[1]) - share(joined(*pair))

    tables: list[Names] = [(name,) for name in sizes]
    while True:
        fitting = [
            pair
            for pair in combinations(tables, 2)
            if prod(sizes[name] for name in (*pair[0], *pair[1])) <= most_cells
        ]
        best = max(fitting, key=saved, default=None)
        if best is None or saved(best) <= 0:
            return tuple(tables)
        kept = joined(*best)
        tables = [kept if table == best[0] else table for table in tables if table != best[1]]


def one_way_noise(table: Names, sizes: Mapping[str, int]) -> float:
    """Noise of all one-way marginals of a table, in deviations of one cell."""
    cells = prod(sizes[name] for name in table)
    return sum(sqrt(cells * sizes[name]) for name in table)
