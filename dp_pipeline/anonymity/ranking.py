"""Selections of one-hot bits by rankings: mutual information, random forests, and HamDist."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit_search import ClassPartition, accept_in_order
from dp_pipeline.anonymity.coded_rows import CodedRows, DistinctRows, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Bit, Recoding, bit_matrix, one_hot_bits
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import integer
from dp_pipeline.metrics.equivalence_classes import class_ids

Ranking = tuple[int, ...]
"""Positions of a method's bits in the order in which they are tried."""


@dataclass(frozen=True)
class RankedSearch(ABC):
    """A feature selection that ranks one-hot bits and then passes over them once (RFKA).

    The result is maximal: ``ClassPartition.is_acceptable`` is false for every other bit. It is
    *not* monotone in K: a larger K may keep a bit that a smaller one had no room for besides
    another.

    bits   the function from columns to the bits that the method selects from
    """

    bits = staticmethod(one_hot_bits)

    @abstractmethod
    def score_bits(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:
        """Return the score of each bit (bits,): higher ones are tried first."""

    def ranking(self, rows: CodedRows, *, seed: int) -> Ranking:
        """Return the positions of the bits to select from, by descending score; ties keep their
        order."""
        scores = self.score_bits(rows, self.bits(rows.columns), seed=seed)
        return tuple(np.argsort(-scores, kind="stable").tolist())

    def recode_by(
        self, ranking: Ranking, rows: CodedRows, guarantee: KAnonymityGuarantee
    ) -> Recoding:
        """Return the recoding by the bits that ``accept_in_order`` accepts from a ranking."""
        partition = ClassPartition(rows, self.bits(rows.columns), guarantee)
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
    """Return the number of rows where each bit is true, and where it is false, by label (2, bits,
    labels)."""
    matrix, labels = bit_matrix(bits, rows.codes, rows.columns), range(len(rows.target_levels))
    on = np.stack([matrix[rows.target == label].sum(axis=0) for label in labels], axis=1)
    return np.stack([on, rows.target_counts - on])


def mutual_information(counts: IntArray) -> FloatArray:
    """Return the mutual information of each bit and the label, in bits of entropy (bits,).

    counts   (2, bits, labels) as ``label_counts`` returns them; without rows the result is 0

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


MAX_SHUFFLED_ROWS = 1 << 20  # copies of out-of-bag rows that are held in memory together


def fit_forest(bits: NDArray[np.float32], target: IntArray, *, trees: int, seed: int) -> Any:
    """Return scikit-learn's random forest, fitted on bits (n, bits) and labels (n,)."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=trees, random_state=seed)
    return forest.fit(bits, target)


def permutation_importance(
    forest: Any, bits: NDArray[np.float32], target: IntArray, *, rng: np.random.Generator
) -> FloatArray:
    """Return the out-of-bag permutation importance of every bit, in rows (bits,).

    It is imp(a) = (1/trees)·Σ(R_k − R_k^a): R_k out-of-bag rows that tree k predicts correctly,
    R_k^a those when bit a is shuffled among them.

    forest, bits, target   a fitted forest, with the bits (n, bits) and labels (n,) it was fitted on

    Breiman's importance; RFKA, algorithm 1, lines 1 to 4 (where R_k^a and the mean are garbled).
    """
    lost = np.zeros(bits.shape[1])
    for fitted, in_bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        tree = fitted.tree_
        is_outside = np.ones(len(bits), dtype=np.bool_)
        is_outside[in_bag] = False
        outside, labels = bits[is_outside], target[is_outside]
        # Only shuffling a bit that the tree reads changes what it predicts.
        used = np.unique(tree.feature[tree.feature >= 0])
        answers = tree.value[:, 0, :].argmax(axis=1)
        was_right = answers[tree.apply(outside)] == labels
        columns = outside[:, used].T
        shuffled, rows = np.nonzero(rng.permuted(columns, axis=1) != columns)
        for start in range(0, len(rows), MAX_SHUFFLED_ROWS):
            block = slice(start, start + MAX_SHUFFLED_ROWS)
            row, bit = rows[block], shuffled[block]
            flipped = outside[row]
            flipped[np.arange(len(row)), used[bit]] = 1 - flipped[np.arange(len(row)), used[bit]]
            is_right = answers[tree.apply(flipped)] == labels[row]
            losses = was_right[row].astype(np.int64) - is_right
            lost[used] += np.bincount(bit, weights=losses, minlength=len(used))
    return lost / len(forest.estimators_)


@dataclass(frozen=True)
class Rfka(RankedSearch):
    """A feature selection that ranks bits by a forest's permutation importance (RFKA).

    trees   trees of the forest; 1000 in the paper

    Rows are sorted first, so that the bootstraps do not depend on their order.

    Source: Huang Mei, Zhu Yan, "K-anonymous feature selection based on random-forest feature
    importance", algorithm 1, mended where it is wrong as printed: see ``accept_in_order``.
    """

    summary: ClassVar[str] = "one pass over one-hot bits, by a random forest's importance"

    trees: int = integer(1000, at_least=1, at_most=100_000, measuring=True)

    def score_bits(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:
        if not bits or not len(rows):
            return np.zeros(len(bits))
        order = np.lexsort((rows.target, *rows.codes.T[::-1]))
        codes, target = rows.codes[order], rows.target[order]
        matrix = np.ascontiguousarray(bit_matrix(bits, codes, rows.columns), dtype=np.float32)
        forest = fit_forest(matrix, target, trees=self.trees, seed=seed)
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


def hamming_distances(rows: CodedRows, bits: Sequence[Bit]) -> IntArray:
    """Return the number of pairs of rows with different labels that each bit separates, (bits,).

    HamDist of a set of bits is the sum of these. Of the pairs of a row with the bit and a row
    without, those of one label do not count: n₁n₀ − Σ_y n₁y·n₀y. With two labels that is
    |D+||D−|·(p(1 − q) + q(1 − p)), the closed form.

    Source: Zhang, Mohammed, Dave, Al Hasan, "Feature Selection for Classification under Anonymity
    Constraint" (Transactions on Data Privacy 2017), of which only the abstract could be read.
    """
    on, off = label_counts(rows, bits)
    return np.asarray(on.sum(axis=1) * off.sum(axis=1) - (on * off).sum(axis=1))


@dataclass(frozen=True)
class HamdistForward(RankedSearch):
    """A feature selection that ranks bits by HamDist, the pairs of labels that they separate."""

    summary: ClassVar[str] = "one pass over one-hot bits, by Hamming distance of the labels"

    def score_bits(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:  # noqa: ARG002
        return hamming_distances(rows, bits).astype(np.float64)


@dataclass(frozen=True)
class HamdistBackward(HamdistForward):
    """A feature selection that drops the bits of lowest HamDist until the guarantee is kept.

    The rest is the longest top of the ranking that keeps it, so bits are added until one breaks
    the guarantee. The result is not maximal: a later bit might have been kept.
    """

    summary: ClassVar[str] = "drops one-hot bits of least Hamming distance until it is k-anonymous"

    def recode_by(
        self, ranking: Ranking, rows: CodedRows, guarantee: KAnonymityGuarantee
    ) -> Recoding:
        """Return the recoding by the bits of the longest top of the ranking that keeps the
        guarantee, without those for which ``ClassPartition.is_acceptable`` is false."""
        partition = ClassPartition(rows, self.bits(rows.columns), guarantee)
        accepted = list[int]()
        for bit in ranking:
            if not partition.can_split_by(bit):
                break
            accepted += accept_in_order(partition, [bit])
        return partition.result(accepted)


@dataclass(frozen=True)
class HamdistRatio:
    """A feature selection that repeatedly drops the bit that frees most rows relative to its
    HamDist, until no more rows break the guarantee than may be suppressed.

    Dropping a bit frees the rows whose classes broke the guarantee and no longer do. A bit that
    frees rows and has HamDist 0 goes first; where no bit alone frees a row, the one of least
    HamDist goes. Ties: the first bit.

    bits   as in ``RankedSearch``
    """

    summary: ClassVar[str] = "drops the one-hot bit that frees most rows for its Hamming distance"
    bits = staticmethod(one_hot_bits)

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        bits, distinct = self.bits(rows.columns), DistinctRows.of(rows)
        partition = ClassPartition(rows, bits, guarantee)
        distances = hamming_distances(rows, bits)
        matrix = bit_matrix(bits, distinct.codes, rows.columns)
        remaining = list(range(len(bits)))

        def exposed_rows(dropped: int | None = None) -> int:
            if guarantee.is_empty:
                return 0
            ids, sizes = class_ids(matrix[:, [bit for bit in remaining if bit != dropped]])
            counts = np.zeros((len(sizes), distinct.counts.shape[1]), dtype=np.int64)
            np.add.at(counts, ids, distinct.counts)
            return int(counts[~guarantee.is_met(counts)].sum())

        while (exposed := exposed_rows()) > guarantee.max_suppressed_rows(len(rows)):
            freed = {bit: exposed - exposed_rows(bit) for bit in remaining}
            remaining.remove(_bit_to_drop(freed, distances))
        return partition.result(accept_in_order(partition, remaining))


def _bit_to_drop(freed: dict[int, int], distances: IntArray) -> int:
    if not any(freed.values()):
        return min(freed, key=lambda bit: distances[bit])
    freeing = [bit for bit in freed if freed[bit]]
    costless = [bit for bit in freeing if not distances[bit]]
    return max(costless or freeing, key=lambda bit: freed[bit] / max(1, int(distances[bit])))
