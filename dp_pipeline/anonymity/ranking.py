"""Bits ranked by what they tell about the label, alone or to a random forest, and one pass over
them that keeps each one that the promise allows beside those before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.method import (
    Bit,
    BitRecoding,
    Ranking,
    Recoded,
    bit_matrix,
    one_hot_bits,
)
from dp_pipeline.anonymity.partition import (
    ClassPartition,
    CodedRows,
    Column,
    KAnonymityGuarantee,
    Patterns,
    RareRows,
)
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.config.parameters import integer


@dataclass(frozen=True, eq=False)
class Started:
    """A search that has not taken any bit: one class of all rows, counted by their patterns.

    bits   the candidates
    """

    bits: tuple[Bit, ...]
    patterns: Patterns
    rare: RareRows
    partition: ClassPartition

    @classmethod
    def of(
        cls,
        rows: CodedRows,
        bits: Sequence[Bit],
        promise: KAnonymityGuarantee,
        *,
        by_label: bool = False,
    ) -> Started:
        """Over these rows and candidates; TooFewRows where one class would break the promise."""
        found = Patterns.of(rows)
        partition = ClassPartition(found.rows, promise, many=found.many, by_label=by_label)
        matrix = bit_matrix(bits, found.rows.codes, rows.columns)
        return cls(tuple(bits), found, RareRows.of(matrix), partition)

    def result(self, kept: Iterable[int]) -> Recoded:
        """The candidates that have refined the partition, by their places, and the rows that they
        would expose. In the order of the candidates: that in which they were taken tells more.
        """
        bits = tuple(self.bits[place] for place in sorted(kept))
        recoding = BitRecoding(self.patterns.rows.columns, bits)
        return Recoded(recoding, self.patterns.spread(self.partition.suppressed))


def fill(partition: ClassPartition, rare: RareRows, order: Iterable[int]) -> list[int]:
    """Refine the partition by each bit that it takes, in this order; those that it took.

    RFKA, algorithm 1, lines 5 to 10. Its line 7 as printed removes a bit *where* the test is
    passed: it lacks the word "not", and would keep just what breaks the promise. K is passed
    to the test, which is not said there either. What is left out could not be added at the end:
    refining never mends a class, so one pass finds a set that is maximal, though not one of
    most bits.
    """
    kept = []
    for place in order:
        if partition.takes(rare.rows[place]):
            partition.refine(rare.rows[place])
            kept.append(place)
    return kept


def kept_in_order(
    rows: CodedRows, bits: Sequence[Bit], order: Iterable[int], promise: KAnonymityGuarantee
) -> Recoded:
    """The result of one pass from no bit at all."""
    started = Started.of(rows, bits, promise)
    return started.result(fill(started.partition, started.rare, order))


@dataclass(frozen=True)
class RankedSearch(ABC):
    """The shape of RFKA: an order of one-hot bits, and one pass over it.

    The result depends on the order and on the classes alone. It is maximal: every other bit breaks
    the promise or is not worth a column (``ClassPartition.takes``). It is *not* monotone in K: a
    larger K may keep a bit that a smaller one had no place for beside another.
    """

    def bits(self, columns: Sequence[Column]) -> tuple[Bit, ...]:
        """The bits that are ranked: one a level, as in the papers."""
        return one_hot_bits(columns)

    @abstractmethod
    def worth(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:
        """What each bit is worth, (bits,)."""

    def ranking(self, rows: CodedRows, *, seed: int) -> Ranking:
        """The bits in the order in which they are tried."""
        return Ranking.of(self.worth(rows, self.bits(rows.columns), seed=seed))

    def recode_by(self, ranking: Ranking, rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
        """One pass over the ranking."""
        return kept_in_order(rows, self.bits(rows.columns), ranking.places, promise)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:
        """Rank, then keep what the promise allows; TooFewRows before anything is ranked."""
        promise.require_possible(len(rows), int((rows.target_counts > 0).sum()))
        return self.recode_by(self.ranking(rows, seed=seed), rows, promise)


@dataclass(frozen=True)
class InformationRanking(RankedSearch):
    """RFKA's search in the order of I(bit; label), in bits: no forest, the same kind of table."""

    summary: ClassVar[str] = "one pass over one-hot bits, by mutual information with the label"

    def worth(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:  # noqa: ARG002
        """Mutual information of each bit and the label, in 0..1."""
        return mutual_information(on_and_off(rows, bits))


def on_and_off(rows: CodedRows, bits: Sequence[Bit]) -> IntArray:
    """Rows with and without every bit, by label: (2, bits, labels)."""
    matrix, labels = bit_matrix(bits, rows.codes, rows.columns), len(rows.target_levels)
    on = np.zeros((len(bits), labels), dtype=np.int64)
    for label in range(labels):
        on[:, label] = matrix[rows.target == label].sum(axis=0)
    return np.stack([on, rows.target_counts - on])


def mutual_information(counts: IntArray) -> FloatArray:
    """I(bit; label) in bits, (bits,), of counts (2, bits, labels); 0 where there are no rows.

    >>> told = np.array([[[2, 0], [1, 1]], [[0, 2], [1, 1]]])
    >>> mutual_information(told).tolist()
    [1.0, 0.0]
    """
    from scipy.special import xlogy

    shares = counts / max(1, int(counts[:, 0].sum())) if counts.shape[1] else counts * 1.0
    joint = xlogy(shares, shares).sum(axis=(0, 2))
    of_bit, of_label = shares.sum(axis=2), shares.sum(axis=0)
    alone = xlogy(of_bit, of_bit).sum(axis=0) + xlogy(of_label, of_label).sum(axis=1)
    return np.asarray(np.maximum(0.0, joint - alone) / np.log(2))


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
        chosen = self.bits[:, used].T
        changed = rng.permuted(chosen, axis=1) != chosen
        places, rows = np.nonzero(changed)
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


@dataclass(frozen=True)
class Rfka(RankedSearch):
    """A forest's out-of-bag permutation importance ranks the bits; each is kept that leaves every
    equivalence class at least K rows.

    trees   of the forest; 1000 in the paper

    Source: Huang Mei, Zhu Yan, "K-anonymous feature selection based on random-forest feature
    importance", algorithm 1, mended where it is wrong as printed: see ``fill``. Rows are
    put in order first, so that the bootstraps do not depend on how they lay in the file.
    """

    summary: ClassVar[str] = "one pass over one-hot bits, by a random forest's importance"

    trees: int = integer(1000, at_least=1, at_most=100_000, measuring=True)

    def worth(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:
        """Permutation importance of every bit, in rows a tree."""
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
    """RFKA with the forest's mean decrease of impurity in place of permutations."""

    summary: ClassVar[str] = "one pass over one-hot bits, by a random forest's decrease of impurity"

    def _importance(self, forest: Any, matrix: Any, target: Any, seed: int) -> FloatArray:  # noqa: ARG002
        return np.asarray(forest.feature_importances_, dtype=np.float64)
