"""One pass over ranked bits: each is kept that the promise allows beside those before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dp_pipeline.anonymity.bit import Bit, bit_matrix
from dp_pipeline.anonymity.class_partition import ClassPartition
from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.anonymity.method import Anonymized
from dp_pipeline.anonymity.promise import Promise
from dp_pipeline.anonymity.rare_rows import RareRows
from dp_pipeline.anonymity.recoding import BitRecoding


def rare_rows_of(rows: CodedRows, bits: Sequence[Bit]) -> RareRows:
    """The rarer side of every bit among the rows."""
    return RareRows.of(bit_matrix(bits, rows.codes, rows.columns))


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
    partition, rare = ClassPartition(rows, promise), rare_rows_of(rows, bits)
    kept = fill(partition, rare, order)
    return anonymized(rows, [bits[place] for place in kept], partition)


def anonymized(rows: CodedRows, kept: Sequence[Bit], partition: ClassPartition) -> Anonymized:
    """Kept bits, and the rows that their classes would expose."""
    return Anonymized(BitRecoding(rows.columns, tuple(kept)), partition.suppressed)
