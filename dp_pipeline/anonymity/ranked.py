"""RankedSearch: rank bits by what they tell about the label, then keep what the promise allows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from dp_pipeline.anonymity.bit import Bit, one_hot_bits
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.anonymity.method import Anonymized, Ranking
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.anonymity.search import kept_in_order
from dp_pipeline.schema.encoding import FloatArray


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

    def recode_by(self, ranking: Ranking, rows: CodedRows, promise: Promise) -> Anonymized:
        """One pass over the ranking."""
        return kept_in_order(rows, self.bits(rows.columns), ranking.places, promise)

    def recode(self, rows: CodedRows, promise: Promise, *, seed: int) -> Anonymized:
        """Rank, then keep what the promise allows; TooFewRows before anything is ranked."""
        promise.require_possible(len(rows), int((rows.target_counts > 0).sum()))
        return self.recode_by(self.ranking(rows, seed=seed), rows, promise)
