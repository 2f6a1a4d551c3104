"""ForestPlan: how much a forest of pairs, or the best pairs, would be worth, less what it would
cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import BoundaryViolation


@dataclass(frozen=True)
class ForestPlan:
    """A score of all pairs together: ⌊weight · W⌋ − offset.

    W = weight of the heaviest forest of at most ``edges`` of the pairs, where a pair weighs
    max(0, score − penalty); 0 for no edges. With ``cycles`` any pairs count, not those of a forest.

    edges       at least 0
    penalties   pair → public whole number in 1/2^16 row; 0 for a pair without one
    weight      at least 0
    offset      public whole number in 1/2^16 row
    cycles      whether pairs may form cycles

    If no pair's score moves by more than Δ, the plan's moves by at most ⌈weight · edges · Δ⌉.
    *Proof.* The penalties are public, and max(0, ·) moves no more than what is in it: each
    pair's weight moves by at most Δ, that of a fixed set of at most ``edges`` pairs by at
    most edges·Δ, and so does the largest over a fixed family of sets, of forests or of all.
    Rounding down moves a difference of at most D to a whole number below D + 1, so to at most
    ⌈D⌉. ∎
    """

    edges: int
    penalties: Mapping[tuple[str, ...], int]
    weight: Fraction
    offset: int
    cycles: bool = False

    def __post_init__(self) -> None:
        whole = all(type(value) is int for value in (self.edges, self.offset))
        if not whole or self.edges < 0 or not isinstance(self.weight, Fraction) or self.weight < 0:
            raise BoundaryViolation(
                "plan: expected edges ≥ 0 and an offset in whole numbers and a Fraction ≥ 0 as "
                "weight, got others"
            )

    def score(self, pairs: Sequence[tuple[str, ...]], gains: IntArray) -> int:
        """The score from what each pair gains: int64 score − penalty, in the order of ``pairs``."""
        if self.cycles:
            largest = np.sort(np.maximum(gains, 0))[::-1][: self.edges].tolist()
            worth = self.weight * sum(largest)
        else:
            worth = self.weight * heaviest_forest(pairs, gains, self.edges)
        return int(worth.numerator // worth.denominator) - self.offset

    def linf(self, of_pair: int) -> int:
        """⌈weight · edges · Δ⌉ for pairs that move by at most Δ."""
        return ceil(self.weight * self.edges * of_pair)


def heaviest_forest(pairs: Sequence[tuple[str, ...]], weights: IntArray, edges: int) -> int:
    """Largest total weight of at most ``edges`` pairs without a cycle (Kruskal).

    Greedy is exact: the forests of at most so many edges are the independent sets of a matroid.

    >>> pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    >>> [heaviest_forest(pairs, np.array([3, 2, 1]), edges) for edges in (3, 1)]
    [5, 3]
    """
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while name in above:
            name = above[name]
        return name

    total = 0
    for at in np.argsort(-weights, kind="stable"):
        if edges == 0 or weights[at] <= 0:
            break
        one, other = map(root, pairs[at])
        if one != other:
            above[one] = other
            total += int(weights[at])
            edges -= 1
    return total
