"""A way to a k-anonymous table, what it gives back, and the rule by which rows become released
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.config.encoding import FloatArray


@dataclass(frozen=True)
class Bit:
    """Whether the code of a column is ``code``, or at least ``code`` and not missing.

    column   place among the columns of the rows

    >>> ages = Column("age", ("[0, 20)", "[20, 40)", "missing"), ordered=True, missing=2)
    >>> [bit.name((ages,)) for bit in cumulative_bits((ages,))]
    ['age>=[20, 40)', 'age=missing']
    """

    column: int
    code: int
    asks: Literal["is", "at_least"] = "is"

    def of(self, codes: NDArray[np.integer], columns: Sequence[Column]) -> NDArray[np.bool_]:
        """The answer of every row, (n,), of codes (n, d)."""
        values, (first, end) = codes[:, self.column], self.run(columns)
        return np.asarray((values >= first) & (values < end))

    def run(self, columns: Sequence[Column]) -> tuple[int, int]:
        """The first code of its column to which the answer is yes, and the one after the last."""
        end = columns[self.column].values if self.asks == "at_least" else self.code + 1
        return self.code, end

    def name(self, columns: Sequence[Column]) -> str:
        """``column=level`` or ``column>=level``."""
        column, sign = columns[self.column], "=" if self.asks == "is" else ">="
        return f"{column.name}{sign}{column.levels[self.code]}"


def one_hot_bits(columns: Sequence[Column]) -> tuple[Bit, ...]:
    """One bit a level, as the papers have them."""
    return tuple(Bit(at, code) for at, one in enumerate(columns) for code in range(one.size))


def cumulative_bits(columns: Sequence[Column]) -> tuple[Bit, ...]:
    """Thresholds of ordered columns, levels of the others; a bit for missing values of each.

    Of a column with two levels one bit is left out, which says the contrary of the other.
    """
    return tuple(bit for at, one in enumerate(columns) for bit in _bits_of(at, one))


def _bits_of(at: int, column: Column) -> list[Bit]:
    if column.ordered:
        steps = [Bit(at, code, "at_least") for code in range(1, column.values)]
        return steps + [Bit(at, code) for code in range(column.values, column.size)]
    return [Bit(at, code) for code in range(column.size)][column.size == 2 :]


def bit_matrix(
    bits: Sequence[Bit], codes: NDArray[np.integer], columns: Sequence[Column]
) -> NDArray[np.bool_]:
    """Answers (n, bits), one column a bit in memory's order."""
    matrix = np.empty((len(codes), len(bits)), dtype=np.bool_, order="F")
    # Side by side in memory: one column is read for each of its bits.
    by_column = np.asfortranarray(codes)
    for at, bit in enumerate(bits):
        matrix[:, at] = bit.of(by_column, columns)
    return matrix


_NO_YES = ("0", "1")


class RowRule(Protocol):
    """What becomes of a row depends on that row and on the rule alone."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The released columns."""
        ...

    @property
    def about(self) -> tuple[int, ...]:
        """For every released column, the place of the quasi-identifier that it tells of."""
        ...

    def released(self, rows: CodedRows) -> CodedRows:
        """The rows as they would be released: ``columns`` in place of the quasi-identifiers, the
        target as it is. Rows with equal codes are one equivalence class.
        """
        ...

    def features(self, rows: CodedRows) -> FloatArray:
        """What classifiers see of the rows, (n, features), in 0..1."""
        ...


@dataclass(frozen=True)
class BitRecoding:
    """Some bits are kept, everything else is dropped: the result of a feature selection.

    source   the quasi-identifiers that the bits ask about
    bits     those that are kept
    """

    source: tuple[Column, ...]
    bits: tuple[Bit, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """One column of ``0`` and ``1`` a kept bit."""
        return tuple(Column(bit.name(self.source), _NO_YES, ordered=True) for bit in self.bits)

    @property
    def about(self) -> tuple[int, ...]:
        """The column that each bit asks about."""
        return tuple(bit.column for bit in self.bits)

    def matrix(self, codes: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Kept bits (n, bits) of codes of the source columns (n, d)."""
        return bit_matrix(self.bits, codes, self.source)

    def released(self, rows: CodedRows) -> CodedRows:
        """The kept bits of every row."""
        return replace(rows, columns=self.columns, codes=self.matrix(rows.codes).astype(np.uint8))

    def features(self, rows: CodedRows) -> FloatArray:
        """The kept bits as numbers."""
        return self.matrix(rows.codes).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Recoded:
    """How some rows can be released.

    recoding     the rule, public with the release
    suppressed   (n,) which of the rows must be left out for the promise to hold
    """

    recoding: RowRule
    suppressed: NDArray[np.bool_]

    def release(self, rows: CodedRows) -> CodedRows:
        """The rows that it was made of as they are released: recoded, the suppressed ones left
        out, sorted by what is released: their order in the source would link two releases.
        """
        kept = self.recoding.released(rows.some(~self.suppressed))
        keys = [kept.target, *kept.codes.T[::-1]]
        return kept.some(np.lexsort(keys))


class Method(Protocol):
    """A frozen dataclass whose fields are public parameters (``spec.parameters``).

    summary   one sentence for lists and the Dagster page

    Optional: ``sensitive_diversity``, different labels that it keeps in every class where the label
    is sensitive and nobody asks for another number; 1 for the papers' methods, which know none.
    """

    summary: ClassVar[str]

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:
        """A recoding under which the rows keep the promise. It reads them exactly: nothing of
        it is differentially private.

        Raises TooFewRows where even one class of all rows would break the promise.
        """
        ...


def sensitive_diversity(method: Method | type[Method], *, k: int) -> int:
    """Different labels in every class of a sensitive label, where nothing is said; a K that
    promises nothing promises none.
    """
    return int(getattr(method, "sensitive_diversity", 1)) if k > 1 else 1


class Selecting(Method, Protocol):
    """A method that keeps some of a number of bits, its recoding a ``BitRecoding``."""

    def bits(self, columns: Sequence[Column]) -> tuple[Bit, ...]:
        """All that it may keep."""
        ...


class Ranked(Selecting, Protocol):
    """A method that asks the rows for an order of bits, which does not depend on the promise, and
    then keeps those that the promise allows.
    """

    def ranking(self, rows: CodedRows, *, seed: int) -> Ranking:
        """The bits in the order in which they are tried."""
        ...

    def recode_by(self, ranking: Ranking, rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
        """``recode`` with a ranking of the same rows at hand."""
        ...


@dataclass(frozen=True)
class Ranking:
    """Bits, best first.

    places   of the method's bits, in the order of their worth
    worth    of each of its bits, in the bits' own order
    """

    places: tuple[int, ...]
    worth: tuple[float, ...]

    @classmethod
    def of(cls, worth: NDArray[np.float64]) -> Ranking:
        """By descending worth; a tie keeps the order of the bits.

        >>> Ranking.of(np.array([1.0, 3.0, 1.0])).places
        (1, 0, 2)
        """
        order = np.argsort(-worth, kind="stable")
        return cls(tuple(order.tolist()), tuple(worth.tolist()))


@dataclass(frozen=True)
class Unchanged:
    """Every row is released as it is: all distinct values are kept.

    columns   the quasi-identifiers, which are the released columns too
    """

    columns: tuple[Column, ...]

    @property
    def about(self) -> tuple[int, ...]:
        """Every column tells of itself."""
        return tuple(range(len(self.columns)))

    def released(self, rows: CodedRows) -> CodedRows:
        """The rows."""
        return rows

    def features(self, rows: CodedRows) -> FloatArray:
        """All cumulative bits."""
        return bit_matrix(cumulative_bits(self.columns), rows.codes, self.columns).astype(
            np.float64
        )


def kept_whole(rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded | None:
    """Every value kept, where nothing is promised; None where there is something to be done.

    TooFewRows as ``Method.recode``.
    """
    promise.require_possible(len(rows), int(np.count_nonzero(rows.target_counts)))
    if not promise.is_empty:
        return None
    return Recoded(Unchanged(rows.columns), np.zeros(len(rows), dtype=np.bool_))
