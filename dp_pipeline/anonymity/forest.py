"""A random forest over bits, and how many more rows it gets wrong when one bit is shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import FloatArray, IntArray

_MOST_ROWS_AT_ONCE = 1 << 20
"""Shuffled copies of out-of-bag rows that are held in memory together."""


def fitted_forest(bits: NDArray[np.float32], target: IntArray, *, trees: int, seed: int) -> Any:
    """scikit-learn's forest of Gini trees over bootstraps, otherwise with its defaults."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=trees, random_state=seed)
    return forest.fit(bits, target)


def permutation_importance(
    forest: Any, bits: NDArray[np.float32], target: IntArray, *, rng: np.random.Generator
) -> FloatArray:
    """imp(a) = (1/trees)·Σ(R_k − R_k^a), (bits,): R_k out-of-bag rows that tree k gets right,
    R_k^a those that it gets right when bit a is shuffled among them; 0 for a tree without a.

    Breiman's importance; RFKA, algorithm 1, lines 1 to 4 (its definitions of R_k^a and of the
    mean are garbled and given as they are usually meant).
    """
    lost = np.zeros(bits.shape[1])
    for tree, in_bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        outside = np.ones(len(bits), dtype=np.bool_)
        outside[in_bag] = False
        judged = _Judged.of(tree.tree_, bits[outside], target[outside])
        used = np.unique(tree.tree_.feature[tree.tree_.feature >= 0])
        lost[used] += judged.lost_without(used, rng)
    return lost / len(forest.estimators_)


@dataclass(frozen=True, eq=False)
class _Judged:
    """Out-of-bag rows of one tree, and which of them it gets right.

    answers   (nodes,) the class that the tree gives in every node
    """

    tree: Any
    bits: NDArray[np.float32]
    target: IntArray
    answers: IntArray
    right: NDArray[np.bool_]

    @classmethod
    def of(cls, tree: Any, bits: NDArray[np.float32], target: IntArray) -> _Judged:
        answers = tree.value[:, 0, :].argmax(axis=1)
        return cls(tree, bits, target, answers, answers[tree.apply(bits)] == target)

    def lost_without(self, used: IntArray, rng: np.random.Generator) -> FloatArray:
        """R_k − R_k^a for every bit used. Only rows whose bit the shuffle has changed are asked
        again: of all others the tree says what it said.
        """
        rows, places = self._changed(used, rng)
        lost = np.zeros(len(used))
        for start in range(0, len(rows), _MOST_ROWS_AT_ONCE):
            here = slice(start, start + _MOST_ROWS_AT_ONCE)
            some, place = rows[here], places[here]
            asked = self.bits[some]
            asked[np.arange(len(some)), used[place]] = 1 - asked[np.arange(len(some)), used[place]]
            right = self.answers[self.tree.apply(asked)] == self.target[some]
            worse = self.right[some].astype(np.int64) - right
            lost += np.bincount(place, weights=worse, minlength=len(used))
        return lost

    def _changed(self, used: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Row and place in ``used`` wherever a shuffled bit is another than it was."""
        chosen = self.bits[:, used].T
        changed = rng.permuted(chosen, axis=1) != chosen
        places, rows = np.nonzero(changed)
        return rows, places
