"""TreeSession: one budget spent along every path of a tree, as far down as each path goes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_pipeline.gate.admissible import require_int64, require_nodes
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.door import Answer
from dp_pipeline.gate.mechanisms import measure
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.release.bit_tree import BitTree, Prefixes
from dp_pipeline.release.measurement import SHARES
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation


class TreeSession:
    """Counts of tree nodes whose ε is accounted path by path, in whole shares of ε/SHARES.

    The *frontier* is a set of disjoint nodes, each with the shares that are left to it; at
    first the root with all of them. A node without shares leaves it. A count of a frontier
    node takes its shares from that node; a count of all its 2^b descendants b bits down takes
    them from the node and puts the descendants in its place, each with what is left.

    *Proof.* A row lies in at most one frontier node at any time; in none when nothing is left
    to it. A measurement that counts
    the row is of that node or of its descendants, where the row is in one: Δ1 = 1, at s
    shares its loss is s·ε/SHARES, and the shares left to the row's frontier node fall by
    exactly s. A measurement elsewhere does not count the row: loss 0. What is measured next
    is a function of earlier answers. So along any answers a row's losses add up to (SHARES −
    left) · ε/SHARES ≤ ε, with equality when nothing is left, which ``close`` requires. A unit
    of L rows: every scale is multiplied by L, and the losses of L rows add up to ε. ∎
    """

    def __init__(
        self,
        tree: BitTree,
        *,
        epsilon: Fraction,
        reach: int,
        noise: NoiseSource,
        answer: Answer,
    ) -> None:
        self._tree, self._epsilon, self._reach = tree, epsilon, reach
        self._noise, self._answer = noise, answer
        self._keys = Prefixes.root().keys
        self._left = np.array([SHARES], dtype=np.int64)

    def expand(self, nodes: Prefixes, *, bits: int, shares: IntArray) -> IntArray:
        """Noisy counts of the 2^bits boxes below each node, (m, 2^bits), at its shares of ε.

        nodes    different frontier nodes, m of them; bits = 0 counts the nodes themselves
        shares   int64 (m,), each 1 … what is left to the node; noise scale SHARES·reach/(s·ε)

        BoundaryViolation for anything else. No nodes are no measurement.
        """
        require_nodes(self._tree, nodes, bits)
        places = self._places(nodes)
        require_int64(shares, of="shares")
        if shares.shape != (len(nodes),):
            raise BoundaryViolation(f"shares: expected {len(nodes)}, got {len(shares)}")
        if (shares < 1).any() or (shares > self._left[places]).any():
            raise BoundaryViolation("tree: expected shares from 1 to what is left, got others")
        if not len(nodes):
            return np.zeros((0, 1 << bits), dtype=np.int64)
        # Like a charge: taken before the look, whatever comes of it.
        self._advance(places, nodes, bits, shares)
        return self._answer(
            f"{len(nodes)} nodes, {bits} bits down",
            ("boxes along paths", self._tree, nodes, bits, shares, SHARES),
            lambda counter: self._noisy(counter, nodes, bits, shares),
        )

    def close(self) -> None:
        """BoundaryViolation unless every path has spent exactly ε."""
        if self._left.any():
            raise BoundaryViolation(
                f"tree: expected every path to spend all of ε, got {int(self._left.max())} of "
                f"{SHARES} shares left on one"
            )

    def _noisy(self, counter: Counter, nodes: Prefixes, bits: int, shares: IntArray) -> IntArray:
        exact = counter.children(self._tree, nodes, bits).open_at_the_gate()
        noisy = np.empty_like(exact)
        for share in np.unique(shares):
            here = shares == share
            epsilon = self._epsilon * int(share) / SHARES
            noisy[here] = measure(exact[here], l1=self._reach, epsilon=epsilon, noise=self._noise)
        return noisy

    def _places(self, nodes: Prefixes) -> IntArray:
        """Positions of nodes in the frontier."""
        wanted = nodes.keys
        places = np.searchsorted(self._keys, wanted).clip(max=max(0, len(self._keys) - 1))
        if len(wanted) and not len(self._keys):
            raise BoundaryViolation("tree: expected nodes with ε left, got others")
        if (self._keys[places] != wanted).any() or len(np.unique(wanted)) < len(wanted):
            raise BoundaryViolation("tree: expected different frontier nodes, got others")
        return places

    def _advance(self, places: IntArray, nodes: Prefixes, bits: int, shares: IntArray) -> None:
        left = self._left[places] - shares
        if bits:
            below = np.repeat(left, 1 << bits)
            keys = np.concatenate([np.delete(self._keys, places), nodes.children(bits).keys])
            remaining = np.concatenate([np.delete(self._left, places), below])
        else:
            keys, remaining = self._keys, self._left.copy()
            remaining[places] = left
        # A path that has spent everything is done: it is never measured again.
        order = np.argsort(keys[remaining > 0], kind="stable")
        self._keys = keys[remaining > 0][order]
        self._left = remaining[remaining > 0][order]
