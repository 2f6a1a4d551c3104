"""Greedy_Hamdist, in three readings: bits by how far they keep rows of different labels apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_pipeline.anonymity.bit_search import ClassPartition, accept_in_order
from dp_pipeline.anonymity.coded_rows import CodedRows, DistinctRows, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Bit, Recoding, bit_matrix, one_hot_bits
from dp_pipeline.anonymity.ranking import RankedSearch, Ranking, label_counts
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.metrics.equivalence_classes import class_ids


def hamming_distances(rows: CodedRows, bits: Sequence[Bit]) -> IntArray:
    """Return the number of pairs of rows with different labels that each bit separates, (bits,).

    HamDist of a set of bits is the sum of these: over all pairs of a row of one label and a row
    of another, the places where they differ. Pairs that differ in a bit are those of a row with
    it and a row without; from them go those of one label: n₁n₀ − Σ_y n₁y·n₀y. With two labels
    that is |D+||D−|·(p(1 − q) + q(1 − p)), the closed form.

    Source: Zhang, Mohammed, Dave, Al Hasan, "Feature Selection for Classification under Anonymity
    Constraint" (Transactions on Data Privacy 2017), of which only the abstract could be read.
    """
    on, off = label_counts(rows, bits)
    return np.asarray(on.sum(axis=1) * off.sum(axis=1) - (on * off).sum(axis=1))


@dataclass(frozen=True)
class HamdistForward(RankedSearch):
    """A feature selection that adds allowed bits in descending order of HamDist (RFKA's search)."""

    summary: ClassVar[str] = "one pass over one-hot bits, by Hamming distance of the labels"

    def score_bits(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:  # noqa: ARG002
        return hamming_distances(rows, bits).astype(np.float64)


@dataclass(frozen=True)
class HamdistBackward(HamdistForward):
    """A feature selection that drops the bits of lowest HamDist until the guarantee is kept.

    The rest is the longest top of the ranking that keeps it, so it is found by adding bits until
    one breaks the guarantee. Not maximal: a later bit might have been kept.
    """

    summary: ClassVar[str] = "drops one-hot bits of least Hamming distance until it is k-anonymous"

    def recode_by(
        self, ranking: Ranking, rows: CodedRows, guarantee: KAnonymityGuarantee
    ) -> Recoding:
        """Return the recoding by the most bits from the top of the ranking that keep the
        guarantee, without those that only show which rows are suppressed."""
        partition = ClassPartition(rows, one_hot_bits(rows.columns), guarantee)
        accepted = list[int]()
        for bit in ranking:
            if not partition.allows(bit):
                break
            accepted += accept_in_order(partition, [bit])
        return partition.result(accepted)


@dataclass(frozen=True)
class HamdistRatio:
    """A feature selection that repeatedly drops the bit that frees most rows relative to its
    HamDist.

    Dropping a bit frees the rows whose classes broke the guarantee and no longer do. A bit that
    frees rows and keeps no labels apart goes first; where no bit alone frees a row, the one of
    least HamDist goes. Ties: the first bit.
    """

    summary: ClassVar[str] = "drops the one-hot bit that frees most rows for its Hamming distance"

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        """Return the recoding by the bits that are left when the guarantee is kept."""
        bits, distinct = one_hot_bits(rows.columns), DistinctRows.of(rows)
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
