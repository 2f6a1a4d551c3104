"""Rankings of bits by what they tell about the label, alone or to a random forest, and one pass
that keeps each bit which the guarantee allows beside those before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit_search import ClassPartition, accept_in_order
from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Bit, Recoding, bit_matrix, one_hot_bits
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import integer

Ranking = tuple[int, ...]
"""Positions of a method's bits in the order in which they are tried."""


@dataclass(frozen=True)
class RankedSearch(ABC):
    """A feature selection that ranks one-hot bits and then passes over them once (RFKA).

    The result depends on the ranking and on the classes alone. It is maximal: every other bit
    breaks the guarantee or is not worth a column (``ClassPartition.takes``). It is *not* monotone
    in K: a larger K may keep a bit that a smaller one had no room for besides another.
    """

    @abstractmethod
    def score_bits(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:
        """Return the score of each bit, (bits,)."""

    def ranking(self, rows: CodedRows, *, seed: int) -> Ranking:
        """Return the bits by descending score, independent of the guarantee; ties keep their
        order."""
        scores = self.score_bits(rows, one_hot_bits(rows.columns), seed=seed)
        return tuple(np.argsort(-scores, kind="stable").tolist())

    def recode_by(
        self, ranking: Ranking, rows: CodedRows, guarantee: KAnonymityGuarantee
    ) -> Recoding:
        """Return the recoding by the bits that one pass over a given ranking keeps."""
        partition = ClassPartition(rows, one_hot_bits(rows.columns), guarantee)
        return partition.result(accept_in_order(partition, ranking))

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:
        guarantee.require_possible(rows)
        return self.recode_by(self.ranking(rows, seed=seed), rows, guarantee)


@dataclass(frozen=True)
class InformationRanking(RankedSearch):
    """A feature selection that ranks bits by their mutual information with the label."""

    summary: ClassVar[str] = "one pass over one-hot bits, by mutual information with the label"

    def score_bits(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:  # noqa: ARG002
        return mutual_information(label_counts(rows, bits))


def label_counts(rows: CodedRows, bits: Sequence[Bit]) -> IntArray:
    """Return the numbers of rows with and without every bit, by label: (2, bits, labels)."""
    matrix, labels = bit_matrix(bits, rows.codes, rows.columns), len(rows.target_levels)
    on = np.zeros((len(bits), labels), dtype=np.int64)
    for label in range(labels):
        on[:, label] = matrix[rows.target == label].sum(axis=0)
    return np.stack([on, rows.target_counts - on])


def mutual_information(counts: IntArray) -> FloatArray:
    """Return I(bit; label) in bits, (bits,), from counts (2, bits, labels); 0 without rows.

    >>> counts = np.array([[[2, 0], [1, 1]], [[0, 2], [1, 1]]])
    >>> mutual_information(counts).tolist()
    [1.0, 0.0]
    """
    from scipy.special import xlogy

    shares = counts / max(1, int(counts[:, 0].sum())) if counts.shape[1] else counts * 1.0
    joint = xlogy(shares, shares).sum(axis=(0, 2))
    of_bit, of_label = shares.sum(axis=2), shares.sum(axis=0)
    separate = xlogy(of_bit, of_bit).sum(axis=0) + xlogy(of_label, of_label).sum(axis=1)
    return np.asarray(np.maximum(0.0, joint - separate) / np.log(2))


MAX_SHUFFLED_ROWS = 1 << 20
"""Most shuffled copies of out-of-bag rows that are held in memory together."""


def fitted_forest(bits: NDArray[np.float32], target: IntArray, *, trees: int, seed: int) -> Any:
    """Return scikit-learn's random forest of Gini trees on bootstrap samples."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=trees, random_state=seed)
    return forest.fit(bits, target)


def permutation_importance(
    forest: Any, bits: NDArray[np.float32], target: IntArray, *, rng: np.random.Generator
) -> FloatArray:
    """Return the out-of-bag permutation importance of every bit, (bits,).

    It is imp(a) = (1/trees)·Σ(R_k − R_k^a): R_k out-of-bag rows that tree k predicts correctly,
    R_k^a those when bit a is shuffled among them.

    Breiman's importance; RFKA, algorithm 1, lines 1 to 4 (where R_k^a and the mean are garbled).
    """
    lost = np.zeros(bits.shape[1])
    for fitted, in_bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        tree = fitted.tree_
        outside = np.ones(len(bits), dtype=np.bool_)
        outside[in_bag] = False
        used = np.unique(tree.feature[tree.feature >= 0])
        lost[used] += _rows_lost(tree, used, bits[outside], target[outside], rng)
    return lost / len(forest.estimators_)


def _rows_lost(
    tree: Any, used: IntArray, bits: NDArray[np.float32], target: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Return R_k − R_k^a for every bit a that a tree uses.

    Only rows whose bit the shuffle has changed are predicted again."""
    answers = tree.value[:, 0, :].argmax(axis=1)
    was_right = answers[tree.apply(bits)] == target
    columns = bits[:, used].T
    shuffled, rows = np.nonzero(rng.permuted(columns, axis=1) != columns)
    lost = np.zeros(len(used))
    for start in range(0, len(rows), MAX_SHUFFLED_ROWS):
        block = slice(start, start + MAX_SHUFFLED_ROWS)
        row, bit = rows[block], shuffled[block]
        flipped = bits[row]
        flipped[np.arange(len(row)), used[bit]] = 1 - flipped[np.arange(len(row)), used[bit]]
        is_right = answers[tree.apply(flipped)] == target[row]
        losses = was_right[row].astype(np.int64) - is_right
        lost += np.bincount(bit, weights=losses, minlength=len(used))
    return lost


@dataclass(frozen=True)
class Rfka(RankedSearch):
    """A feature selection that ranks bits by a forest's permutation importance (RFKA).

    Each bit is kept that leaves every equivalence class at least K rows.

    trees   trees of the forest; 1000 in the paper

    Source: Huang Mei, Zhu Yan, "K-anonymous feature selection based on random-forest feature
    importance", algorithm 1, mended where it is wrong as printed: see
    ``bit_search.accept_in_order``. Rows are sorted first, so that the bootstraps do not depend on
    their order in the file.
    """

    summary: ClassVar[str] = "one pass over one-hot bits, by a random forest's importance"

    trees: int = integer(1000, at_least=1, at_most=100_000, measuring=True)

    def score_bits(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:
        if not bits or not len(rows):
            return np.zeros(len(bits))
        order = np.lexsort((rows.target, *rows.codes.T[::-1]))
        codes, target = rows.codes[order], rows.target[order]
        matrix = np.ascontiguousarray(bit_matrix(bits, codes, rows.columns), dtype=np.float32)
        forest = fitted_forest(matrix, target, trees=self.trees, seed=seed)
        return self._importance(forest, matrix, target, seed)

    def _importance(self, forest: Any, matrix: Any, target: Any, seed: int) -> FloatArray:
        rng = np.random.default_rng(seed)
        return permutation_importance(forest, matrix, target, rng=rng)


@dataclass(frozen=True)
class Impurity(Rfka):
    """A feature selection that ranks bits by a forest's mean decrease of impurity."""

    summary: ClassVar[str] = "one pass over one-hot bits, by a random forest's decrease of impurity"

    def _importance(self, forest: Any, matrix: Any, target: Any, seed: int) -> FloatArray:  # noqa: ARG002
        return np.asarray(forest.feature_importances_, dtype=np.float64)
