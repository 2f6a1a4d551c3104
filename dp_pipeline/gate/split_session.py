"""SplitSession: which boxes hold many rows, at a cost that does not grow with the depth."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log

import numpy as np

from dp_pipeline.gate.admissible import require_nodes
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.door import Answer
from dp_pipeline.gate.mechanisms import laplace_scale
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.release.bit_tree import BitTree, Prefixes
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation


def split_scale(*, fan: int, reach: int, epsilon: Fraction) -> Fraction:
    """Scale λ = L·(2β − 1)/((β − 1)·ε) of the noise on a β-way tree's splits.

    >>> split_scale(fan=4, reach=1, epsilon=Fraction(1))
    Fraction(7, 3)
    """
    return laplace_scale(l1=reach, epsilon=epsilon) * Fraction(2 * fan - 1, fan - 1)


def decay(*, fan: int, scale: Fraction) -> int:
    """Rows δ by which a box's count is lowered a level: a whole number with e^(−δ/λ) ≤ 1/β.

    >>> decay(fan=4, scale=Fraction(7, 3))
    4
    """
    # A hair above λ·ln β, so that nothing is lost to rounded floats; and never no decay at all.
    return max(1, ceil(float(scale) * log(fan) * (1 + 1e-9)))


class SplitSession:
    """Yes or no for every box asked: split it? The shape costs ε, however deep it goes.

    A box at level t of a β-way tree has the whole number b = max(−δ, c − t·δ), c its
    rows; it is split when b + X > 0, X discrete Laplace of scale λ, δ ≥ λ·ln β whole. Asked
    are the root, then children of boxes that were split, each once. Only the bits leave.

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
        self,
        tree: BitTree,
        *,
        bits: int,
        scale: Fraction,
        noise: NoiseSource,
        answer: Answer,
    ) -> None:
        self._tree, self._bits, self._scale = tree, bits, scale
        self._noise, self._answer = noise, answer
        self._decay = decay(fan=1 << bits, scale=scale)
        self._allowed = Prefixes.root().keys

    def split(self, nodes: Prefixes) -> np.ndarray:
        """Whether each node is split, bool (m,).

        nodes   the root, or children of nodes that were split, each asked once

        BoundaryViolation for others.
        """
        require_nodes(self._tree, nodes, 0)
        keys = nodes.keys
        if len(np.unique(keys)) < len(keys) or not np.isin(keys, self._allowed).all():
            raise BoundaryViolation("splits: expected children of split boxes, each once")
        if not len(nodes):
            return np.zeros(0, dtype=np.bool_)
        # Like a charge: asked once is asked, whatever comes of it.
        self._allowed = self._allowed[~np.isin(self._allowed, keys)]
        chosen = self._answer(
            f"{len(nodes)} nodes",
            ("splits", self._tree, nodes, self._bits, self._decay),
            lambda counter: self._noisy(counter, nodes),
        ).astype(np.bool_)
        below = nodes.where(chosen & (nodes.depths + self._bits <= self._tree.depth))
        self._allowed = np.concatenate([self._allowed, below.children(self._bits).keys])
        return chosen

    def _noisy(self, counter: Counter, nodes: Prefixes) -> IntArray:
        counts = counter.children(self._tree, nodes, 0).open_at_the_gate()[:, 0]
        biased = np.maximum(-self._decay, counts - nodes.depths // self._bits * self._decay)
        noisy = self._noise.discrete_laplace(biased, self._scale)
        return (noisy > 0).astype(np.int64)
