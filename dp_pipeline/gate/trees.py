"""Sessions that count the boxes of a tree, or decide splits, at one price for a whole path."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil, log
from typing import NamedTuple

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.charge import CachedScan, QueryExecutor
from dp_pipeline.gate.checks import require_int64, require_nodes
from dp_pipeline.gate.counter import Counter, Sealed
from dp_pipeline.gate.mechanisms import NoisyQuery, laplace_scale
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.results.accountant import Spend
from dp_pipeline.results.measurement import SHARES
from dp_pipeline.results.trees import BitTree, Prefixes


class Expansion(NamedTuple):
    """The arguments of one call of ``TreeSession.expand``."""

    nodes: Prefixes
    bits: int
    shares: IntArray


class TreeSession:
    """A session that counts tree nodes and accounts for ε along each path, in shares of ε/SHARES.

    The *frontier* is a set of disjoint nodes, each with its remaining shares; at first the nodes
    that the session is opened on, with all of them. A node without shares drops out. A count of a
    frontier node takes shares from it; a count of its 2^b descendants b bits down also puts them in
    its place, each with the remaining shares.

    *Proof.* A row is in at most one frontier node at any time. A measurement of that node or of its
    descendants counts it: Δ1 = 1, at s shares its loss is s·ε/SHARES, and the remaining shares of
    its frontier node fall by exactly s. A measurement elsewhere does not count it: loss 0. Each
    measurement is a function of earlier answers. So for any answers a row's losses add up to
    (SHARES − remaining) · ε/SHARES ≤ ε, with equality when none remain, which
    ``require_all_spent`` checks. For a unit of L rows every scale is multiplied by L, and the
    losses of L rows add up to ε. ∎
    """

    def __init__(
        self, tree: BitTree, spend: Spend, executor: QueryExecutor[Counter], nodes: Prefixes
    ) -> None:
        self._tree, self._spend, self._executor = tree, spend, executor
        self._keys = np.sort(nodes.keys)
        self._left = np.full(len(nodes), SHARES, dtype=np.int64)

    def expand(self, nodes: Prefixes, *, bits: int, shares: IntArray) -> IntArray:
        """Spend shares of each node; return noisy row counts of the boxes below it, (m, 2^bits).

        nodes    different frontier nodes, m of them; bits = 0 counts the nodes themselves
        shares   int64 (m,), each from 1 to the node's remaining shares; s of them give noise of
                 scale SHARES·distance/(s·ε)

        The boxes replace their node on the frontier, each with its remaining shares.
        BoundaryViolation for other nodes or shares.
        """
        return self.expand_all([Expansion(nodes, bits, shares)])[0]

    def expand_all(self, expansions: Sequence[Expansion]) -> list[IntArray]:
        """Spend shares for all expansions, then return the noisy row counts of each, in order, from
        one scan of the rows."""
        # Shares are taken before the scan, like charges, even if it fails.
        for expansion in expansions:
            self._take(expansion)
        boxes = [
            (expansion.nodes, expansion.bits) for expansion in expansions if len(expansion.nodes)
        ]
        scan = CachedScan(lambda counter: counter.children(self._tree, boxes))
        positions = iter(range(len(boxes)))
        return [
            self._counted(expansion, scan, next(positions))
            if len(expansion.nodes)
            else np.zeros((0, 1 << expansion.bits), dtype=np.int64)
            for expansion in expansions
        ]

    def _take(self, expansion: Expansion) -> None:
        nodes, bits, shares = expansion
        require_nodes(self._tree, nodes, bits)
        places = self._frontier_positions(nodes)
        require_int64(shares, of="shares")
        if shares.shape != (len(nodes),):
            raise BoundaryViolation(
                f"Each of {len(nodes)} tree nodes needs one share, but the shares have shape "
                f"{shares.shape}"
            )
        if (shares < 1).any():
            raise BoundaryViolation("A tree node must spend at least one share, but one has none")
        if (shares > self._left[places]).any():
            raise BoundaryViolation(
                "A tree node must spend at most the shares that it has left, but one spends more"
            )
        if len(nodes):
            self._advance(places, nodes, bits, shares)

    def _counted(
        self, expansion: Expansion, scan: CachedScan[list[Sealed]], position: int
    ) -> IntArray:
        nodes, bits, shares = expansion
        words = f"{self._spend.what}, {len(nodes)} nodes, {bits} bits down"
        return self._executor.answer(
            NoisyQuery(replace(self._spend, what=words), partial(self._noisy, shares=shares)),
            ("boxes along paths", self._tree, nodes, bits, shares, SHARES),
            lambda counter: scan(counter)[position],
        )

    def require_all_spent(self) -> None:
        if self._left.any():
            raise BoundaryViolation(
                "Every path of a tree must spend its whole ε before the tree is closed, but "
                f"{int(self._left.max())} of {SHARES} shares are left on one"
            )

    def _noisy(self, exact: IntArray, noise: NoiseSource, *, shares: IntArray) -> IntArray:
        noisy = np.empty_like(exact)
        for share in np.unique(shares):
            here = shares == share
            epsilon = self._spend.epsilon * int(share) / SHARES
            scale = laplace_scale(l1=self._spend.sensitivity, epsilon=epsilon)
            noisy[here] = noise.discrete_laplace(exact[here], scale)
        return noisy

    def _frontier_positions(self, nodes: Prefixes) -> IntArray:
        keys = nodes.keys
        if len(keys) and not len(self._keys):
            raise BoundaryViolation(
                "Only tree nodes with shares left can be measured, but no node has any"
            )
        places = np.searchsorted(self._keys, keys).clip(max=max(0, len(self._keys) - 1))
        if len(np.unique(keys)) < len(keys):
            raise BoundaryViolation("Measured tree nodes must differ, but one is repeated")
        if (self._keys[places] != keys).any():
            raise BoundaryViolation(
                "Measured tree nodes must be at the end of paths with shares left, but one is not"
            )
        return places

    def _advance(self, places: IntArray, nodes: Prefixes, bits: int, shares: IntArray) -> None:
        shares_left = self._left[places] - shares
        if bits:
            below = np.repeat(shares_left, 1 << bits)
            keys = np.concatenate([np.delete(self._keys, places), nodes.children(bits).keys])
            remaining = np.concatenate([np.delete(self._left, places), below])
        else:
            keys, remaining = self._keys, self._left.copy()
            remaining[places] = shares_left
        order = np.argsort(keys, kind="stable")
        # A path without remaining shares is never measured again.
        order = order[remaining[order] > 0]
        self._keys, self._left = keys[order], remaining[order]


def split_scale(*, fan: int, distance: int, epsilon: Fraction) -> Fraction:
    """Return the scale of the noise that decides the splits of a tree, λ = L·(2β − 1)/((β − 1)·ε).

    fan, distance   β, the children of a box, and L, the rows that neighbours differ by

    >>> split_scale(fan=4, distance=1, epsilon=Fraction(1))
    Fraction(7, 3)
    """
    return laplace_scale(l1=distance, epsilon=epsilon) * Fraction(2 * fan - 1, fan - 1)


def decay(*, fan: int, scale: Fraction) -> int:
    """Return δ ≥ λ·ln β, the number of rows that a box's count loses for each level above it.

    fan, scale   β, the children of a box, and λ, the scale of the noise

    >>> decay(fan=4, scale=Fraction(7, 3))
    4
    """
    # Slightly above λ·ln β, for the error of floats.
    return max(1, ceil(float(scale) * log(fan) * (1 + 1e-9)))


class SplitSession:
    """A session that decides privately which boxes of a tree to split, for one ε at any depth.

    A box of c rows at level t of a β-way tree has the score b = max(−δ, c − t·δ); it is split when
    b + X > 0, X discrete Laplace of scale λ, δ ≥ λ·ln β an integer. The session decides on the
    root, then on children of split boxes, each once, and returns nothing but the bits.

    *Proof* (Zhang, Xiao, Xie, SIGMOD 2016, Theorem 3.1, here for whole numbers and with
    its constants derived). Let q = e^(−1/λ). P(X ≥ m) is q^m/(1+q) for m ≥ 1 and
    1 − q^(1−m)/(1+q) for m ≤ 0. One row more raises c by 1 in the boxes of one path; b
    rises by 1 where c − tδ ≥ −δ, else not at all. Write ρ(b) for ln of P(split | b+1) over
    P(split | b).
    (1) ρ(b) ≤ 1/λ always.
    (2) For b ≥ 1, ρ(b) ≤ (1−q)·q^b: the ratio is 1 + q^b(1−q)/(1+q−q^b), and 1+q−q^b ≥ 1.
    (3) Down the path c does not rise, so b falls by at least δ a level while it is above
    −δ. Of the boxes with b in [−δ, 0] there are at most two. If two, they are at −δ and 0
    and the others at δ, 2δ, … at least; if one or none, the others are at 1, 1+δ, … at
    least. With 1−q ≤ 1/λ both cases give Σρ ≤ (1/λ)(1 + 1/(1 − q^δ)), and q^δ ≤ 1/β:
    Σρ ≤ (1/λ)(2β−1)/(β−1).
    Of the path's boxes all but the last are split, and one more row makes "not split" less
    likely: so the row raises the log-probability of the bits by at most Σρ. It lowers it by
    what the last box loses, at most 1/λ. A unit of L rows is L such steps. With
    λ = L(2β−1)/((β−1)ε) the bits cost ε. ∎
    """

    def __init__(
        self, tree: BitTree, spend: Spend, executor: QueryExecutor[Counter], *, bits: int
    ) -> None:
        self._tree, self._spend, self._executor, self._bits = tree, spend, executor, bits
        self._decay = decay(fan=1 << bits, scale=spend.scale)
        self._allowed = Prefixes.root().keys

    def decide_splits(self, nodes: Prefixes) -> np.ndarray:
        """Decide which nodes to split; return a mask of them, bool (m,).

        nodes   the root, or children of split nodes, each once; BoundaryViolation for others
        """
        require_nodes(self._tree, nodes, 0)
        keys = nodes.keys
        if len(np.unique(keys)) < len(keys):
            raise BoundaryViolation("Boxes to split must differ, but one is repeated")
        if not np.isin(keys, self._allowed).all():
            raise BoundaryViolation(
                "Only the root and children of split boxes can be split, each once, but one is "
                "none of these, or was split or left whole before"
            )
        if not len(nodes):
            return np.zeros(0, dtype=np.bool_)
        # Like a charge, this stands even if the scan fails.
        self._allowed = self._allowed[~np.isin(self._allowed, keys)]
        spend = replace(self._spend, what=f"{self._spend.what}, {len(nodes)} nodes")
        chosen = self._executor.answer(
            NoisyQuery(spend, partial(self._noisy, nodes=nodes)),
            ("splits", self._tree, nodes, self._bits, self._decay),
            lambda counter: counter.children(self._tree, [(nodes, 0)])[0][:, 0],
        ).astype(np.bool_)
        below = nodes.where(chosen & (nodes.depths + self._bits <= self._tree.depth))
        self._allowed = np.concatenate([self._allowed, below.children(self._bits).keys])
        return chosen

    def _noisy(self, counts: IntArray, noise: NoiseSource, *, nodes: Prefixes) -> IntArray:
        biased = np.maximum(-self._decay, counts - nodes.depths // self._bits * self._decay)
        noisy = noise.discrete_laplace(biased, self._spend.scale)
        return (noisy > 0).astype(np.int64)


def path_sums(grid: IntArray, tree: BitTree) -> IntArray:
    """Return the numbers of rows before each deepest node of a quadtree, in the order of its paths,
    and the number of all rows as the last one.

    grid   the numbers of rows in its deepest nodes, with one axis for each column

    >>> path_sums(np.array([[1, 0], [2, 4]]), BitTree.quadtree(("x", "y"), 1)).tolist()
    [0, 1, 3, 3, 7]
    """
    height = tree.depth // len(tree.columns)
    # The bits of the first column's index, then those of the second, …
    halvings = grid.reshape((2,) * tree.depth)
    order = [axis * height + tree.axes[:bit].count(axis) for bit, axis in enumerate(tree.axes)]
    sums = np.zeros(grid.size + 1, dtype=np.int64)
    sums[1:].reshape(halvings.shape)[...] = halvings.transpose(order)
    return np.cumsum(sums, out=sums)


class NodeCounts:
    """The exact, sealed counts of the nodes of quadtrees, from one scan of the rows for each."""

    def __init__(self) -> None:
        self._sums: dict[BitTree, Sealed] = {}

    def counts(self, counter: Counter, tree: BitTree, nodes: Prefixes) -> Sealed:
        """Return the sealed exact numbers of rows of nodes, (m,), in their order."""
        if tree not in self._sums:
            cells = 1 << tree.depth // len(tree.columns)
            grid = counter.grid(tree.columns, cells).open_at_the_gate()
            self._sums[tree] = Sealed(path_sums(grid, tree))
        below, sums = tree.depth - nodes.depths, self._sums[tree].open_at_the_gate()
        return Sealed(sums[nodes.bits + 1 << below] - sums[nodes.bits << below])
