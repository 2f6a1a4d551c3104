"""Greedy_Hamdist, in three readings: bits by how far they keep rows of different labels apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.method import Bit, Ranking, Recoded, bit_matrix, one_hot_bits
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee, Patterns
from dp_pipeline.anonymity.ranking import RankedSearch, Started, fill, on_and_off
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.metrics.equivalence_classes import class_ids


def hamming_distances(rows: CodedRows, bits: Sequence[Bit]) -> IntArray:
    """Pairs of rows with different labels that each bit tells apart, (bits,).

    HamDist of a set of bits is the sum of these: over all pairs of a row of one label and a row
    of another, the places where they differ. Pairs that differ in a bit are those of a row with
    it and a row without; from them go those of one label: n₁n₀ − Σ_y n₁y·n₀y. With two labels
    that is |D+||D−|·(p(1 − q) + q(1 − p)), the closed form.

    Source: Zhang, Mohammed, Dave, Al Hasan, "Feature Selection for Classification under Anonymity
    Constraint" (Transactions on Data Privacy 2017), of which only the abstract could be read.
    """
    on, off = on_and_off(rows, bits)
    return np.asarray(on.sum(axis=1) * off.sum(axis=1) - (on * off).sum(axis=1))


@dataclass(frozen=True)
class HamdistForward(RankedSearch):
    """RFKA's search in the order of HamDist: from the highest on, each is added where allowed."""

    summary: ClassVar[str] = "one pass over one-hot bits, by Hamming distance of the labels"

    def worth(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:  # noqa: ARG002
        """HamDist of each bit."""
        return hamming_distances(rows, bits).astype(np.float64)


@dataclass(frozen=True)
class HamdistBackward(HamdistForward):
    """All bits, and the lowest HamDist dropped until the promise is kept.

    What is left is a head of the ranking, and each shorter head has coarser classes: so it is
    found by adding from the top until a bit breaks the promise. Not maximal: a bit behind that
    one might have been kept.
    """

    summary: ClassVar[str] = "drops one-hot bits of least Hamming distance until it is k-anonymous"

    def recode_by(self, ranking: Ranking, rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
        """The longest head of the ranking that keeps the promise, of it what is worth a column."""
        started = Started.of(rows, self.bits(rows.columns), promise)
        kept = list[int]()
        for place in ranking.places:
            if not started.partition.allows(started.rare.rows[place]):
                break
            kept += fill(started.partition, started.rare, [place])
        return started.result(kept)


@dataclass(frozen=True)
class HamdistRatio:
    """All bits, and again and again the one dropped that frees most rows for its HamDist.

    A row is freed that was in a class which breaks the promise and is no longer. A bit that
    frees rows and tells no labels apart goes first; where no bit alone frees a row, the one of
    least HamDist goes. Ties: the first bit.
    """

    summary: ClassVar[str] = "drops the one-hot bit that frees most rows for its Hamming distance"

    def bits(self, columns: Sequence[Column]) -> tuple[Bit, ...]:
        """One a level, as in the papers."""
        return one_hot_bits(columns)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        """Drop until the promise is kept."""
        bits = self.bits(rows.columns)
        started = Started.of(rows, bits, promise)
        distances = hamming_distances(rows, bits)
        exposed = _Exposed.of(started.patterns, bits, promise)
        kept = list(range(len(bits)))
        while exposed.rows_without(kept, None) > promise.most_suppressed(len(rows)):
            kept.remove(_least_worth(exposed, kept, distances))
        return started.result(fill(started.partition, started.rare, kept))


def _least_worth(exposed: _Exposed, kept: list[int], distances: IntArray) -> int:
    now = exposed.rows_without(kept, None)
    freed = {place: now - exposed.rows_without(kept, place) for place in kept}
    if not any(freed.values()):
        return min(kept, key=lambda place: distances[place])
    free = [place for place in kept if freed[place] and not distances[place]]
    chosen = free or [place for place in kept if freed[place]]
    return max(chosen, key=lambda place: freed[place] / max(1, int(distances[place])))


@dataclass(frozen=True, eq=False)
class _Exposed:
    """Counts rows in classes that break the promise, whichever bits are kept.

    rows     (m, bits), the different rows, as bits
    labels   (m, labels), how many rows of each label they stand for
    """

    rows: NDArray[np.bool_]
    labels: IntArray
    promise: KAnonymityGuarantee

    @classmethod
    def of(cls, found: Patterns, bits: Sequence[Bit], promise: KAnonymityGuarantee) -> _Exposed:
        labels = np.zeros((len(found.rows), len(found.rows.target_levels)), dtype=np.int64)
        labels[np.arange(len(labels)), found.rows.target] = found.many
        return cls(bit_matrix(bits, found.rows.codes, found.rows.columns), labels, promise)

    def rows_without(self, kept: Sequence[int], left_out: int | None) -> int:
        """Rows that are exposed by the kept bits but one."""
        if self.promise.is_empty:
            return 0
        ids, sizes = class_ids(self.rows[:, [place for place in kept if place != left_out]])
        merged = np.zeros((len(sizes), self.labels.shape[1]), dtype=np.int64)
        np.add.at(merged, ids, self.labels)
        rows = merged.sum(axis=1)
        bad = (rows < self.promise.k) | (np.count_nonzero(merged, axis=1) < self.promise.diversity)
        return int(rows[bad].sum())
