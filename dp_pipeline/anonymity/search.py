"""One pass over ranked bits: each is kept that the promise allows beside those before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dp_pipeline.anonymity.bit import Bit, bit_matrix
from dp_pipeline.anonymity.class_partition import ClassPartition
from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.anonymity.method import Anonymized
from dp_pipeline.anonymity.patterns import Patterns
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.anonymity.rare_rows import RareRows
from dp_pipeline.anonymity.recoding import BitRecoding


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
        cls, rows: CodedRows, bits: Sequence[Bit], promise: Promise, *, by_label: bool = False
    ) -> Started:
        """Over these rows and candidates; TooFewRows where one class would break the promise."""
        found = Patterns.of(rows)
        partition = ClassPartition(found.rows, promise, many=found.many, by_label=by_label)
        matrix = bit_matrix(bits, found.rows.codes, rows.columns)
        return cls(tuple(bits), found, RareRows.of(matrix), partition)

    def result(self, kept: Iterable[int]) -> Anonymized:
        """The candidates that have refined the partition, by their places, and the rows that they
        would expose. In the order of the candidates: that in which they were taken tells more.
        """
        bits = tuple(self.bits[place] for place in sorted(kept))
        recoding = BitRecoding(self.patterns.rows.columns, bits)
        return Anonymized(recoding, self.patterns.spread(self.partition.suppressed))


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
    rows: CodedRows, bits: Sequence[Bit], order: Iterable[int], promise: Promise
) -> Anonymized:
    """The result of one pass from no bit at all."""
    started = Started.of(rows, bits, promise)
    return started.result(fill(started.partition, started.rare, order))
