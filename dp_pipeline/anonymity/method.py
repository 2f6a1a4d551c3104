"""The protocol of a k-anonymous method, its result, and the rules by which rows are recoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.config.encoding import FloatArray


@dataclass(frozen=True)
class Bit:
    """A yes-or-no question: whether the code of a column is ``code``, or at least ``code``.

    A missing value is not at least any code.

    column   position among the columns of the rows

    >>> ages = Column("age", ("[0, 20)", "[20, 40)", "missing"), ordered=True, missing=2)
    >>> [bit.name((ages,)) for bit in cumulative_bits((ages,))]
    ['age>=[20, 40)', 'age=missing']
    """

    column: int
    code: int
    asks: Literal["is", "at_least"] = "is"

    def answers(self, codes: NDArray[np.integer], columns: Sequence[Column]) -> NDArray[np.bool_]:
        """Return whether each row's answer is yes, (n,), from codes (n, d)."""
        values, (first, end) = codes[:, self.column], self.code_range(columns)
        return np.asarray((values >= first) & (values < end))

    def code_range(self, columns: Sequence[Column]) -> tuple[int, int]:
        """Return the first code with the answer yes, and the code after the last one."""
        end = columns[self.column].values if self.asks == "at_least" else self.code + 1
        return self.code, end

    def name(self, columns: Sequence[Column]) -> str:
        """Return the name of the bit: ``column=level`` or ``column>=level``."""
        column, sign = columns[self.column], "=" if self.asks == "is" else ">="
        return f"{column.name}{sign}{column.levels[self.code]}"


def one_hot_bits(columns: Sequence[Column]) -> tuple[Bit, ...]:
    """Return one bit for each level of each column, missing values included."""
    return tuple(Bit(i, code) for i, column in enumerate(columns) for code in range(column.size))


def cumulative_bits(columns: Sequence[Column]) -> tuple[Bit, ...]:
    """Return the thresholds of ordered columns, the levels of other columns, and bits for missing
    values.

    Of a column with two levels one bit is left out, which says the contrary of the other.
    """
    bits = list[Bit]()
    for i, column in enumerate(columns):
        if column.ordered:
            bits += [Bit(i, code, "at_least") for code in range(1, column.values)]
            bits += [Bit(i, code) for code in range(column.values, column.size)]
        else:
            bits += [Bit(i, code) for code in range(column.size)][column.size == 2 :]
    return tuple(bits)


def bit_matrix(
    bits: Sequence[Bit], codes: NDArray[np.integer], columns: Sequence[Column]
) -> NDArray[np.bool_]:
    """Return the answers (n, bits), with those of one bit contiguous in memory."""
    matrix = np.empty((len(codes), len(bits)), dtype=np.bool_, order="F")
    # One column is read for each of its bits.
    by_column = np.asfortranarray(codes)
    for i, bit in enumerate(bits):
        matrix[:, i] = bit.answers(by_column, columns)
    return matrix


class RowRule(Protocol):
    """A rule that recodes each row independently of all other rows.

    columns   the released columns
    about     position of the quasi-identifier from which each released column is made
    """

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def about(self) -> tuple[int, ...]: ...

    def released(self, rows: CodedRows) -> CodedRows:
        """Return the rows with released columns in the place of quasi-identifiers, and unchanged
        labels.

        Rows with equal codes are one equivalence class."""
        ...

    def features(self, rows: CodedRows) -> FloatArray:
        """Return the features of the rows for classifiers, (n, features), in 0..1."""
        ...


@dataclass(frozen=True)
class BitRule:
    """A rule that releases some bits and drops everything else.

    source   the quasi-identifiers that the bits ask about
    """

    source: tuple[Column, ...]
    bits: tuple[Bit, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(bit.name(self.source), ("0", "1"), ordered=True) for bit in self.bits)

    @property
    def about(self) -> tuple[int, ...]:
        return tuple(bit.column for bit in self.bits)

    def released(self, rows: CodedRows) -> CodedRows:
        matrix = bit_matrix(self.bits, rows.codes, self.source)
        return replace(rows, columns=self.columns, codes=matrix.astype(np.uint8))

    def features(self, rows: CodedRows) -> FloatArray:
        return bit_matrix(self.bits, rows.codes, self.source).astype(np.float64)


@dataclass(frozen=True)
class Unchanged:
    """The rule that changes no row; its features are all cumulative bits.

    columns   the quasi-identifiers, which are the released columns too
    """

    columns: tuple[Column, ...]

    @property
    def about(self) -> tuple[int, ...]:
        return tuple(range(len(self.columns)))

    def released(self, rows: CodedRows) -> CodedRows:
        return rows

    def features(self, rows: CodedRows) -> FloatArray:
        bits = cumulative_bits(self.columns)
        return bit_matrix(bits, rows.codes, self.columns).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Recoding:
    """A recoding of rows: a rule, and the rows that are suppressed.

    rule         rule by which rows are recoded, published with the release
    suppressed   (n,) whether a row must be left out for the guarantee to hold
    auc          AUC of logistic regression in folds of the recoded rows, if the method has measured
                 it: exact, without noise
    """

    rule: RowRule
    suppressed: NDArray[np.bool_]
    auc: float | None = None

    @classmethod
    def of_all(cls, rule: RowRule, rows: CodedRows) -> Recoding:
        """Return the recoding by a rule that suppresses none of the rows."""
        return cls(rule, np.zeros(len(rows), dtype=np.bool_))

    def release(self, rows: CodedRows) -> CodedRows:
        """Return the recoded rows without suppressed ones, in the order of their released codes.

        Their order in the source would link two releases."""
        released = self.rule.released(rows.select(~self.suppressed))
        return released.select(np.lexsort([released.target, *released.codes.T[::-1]]))


def unchanged_if_possible(rows: CodedRows, guarantee: KAnonymityGuarantee) -> Recoding | None:
    """Return the recoding that leaves every row unchanged if the guarantee is empty, else None.

    TooFewRows as ``Method.recode``.
    """
    guarantee.require_possible(rows)
    return Recoding.of_all(Unchanged(rows.columns), rows) if guarantee.is_empty else None


class Method(Protocol):
    """A method of k-anonymization, whose fields are its public parameters.

    summary   one sentence for lists and the Dagster page

    Optional: ``sensitive_diversity``, different labels that it keeps in every class where the label
    is sensitive and no other number is declared; 1 for the papers' methods, which have no such
    rule.
    """

    summary: ClassVar[str]

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:
        """Return a recoding under which the rows keep the guarantee.

        It reads them exactly: nothing of it is differentially private.

        Raises TooFewRows where even one class of all rows would break the guarantee.
        """
        ...


def sensitive_diversity(method: Method | type[Method], *, k: int) -> int:
    """Return how many different labels every class must have by default if the label is
    sensitive; 1 where K guarantees nothing."""
    return int(getattr(method, "sensitive_diversity", 1)) if k > 1 else 1
