"""The protocol of a k-anonymous method, its result, and the rules by which rows are recoded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.config.encoding import FloatArray


@dataclass(frozen=True)
class Bit:
    """A question about a row: whether its code in a column is ``code``, or is at least ``code``.

    column   position of the column
    asks     ``is``: whether the code is ``code``; ``at_least``: whether it is at least ``code`` and
             not that of a missing value

    >>> ages = Column("age", ("[0, 20)", "[20, 40)", "missing"), ordered=True, missing=2)
    >>> [bit.name((ages,)) for bit in cumulative_bits((ages,))]
    ['age>=[20, 40)', 'age=missing']
    """

    column: int
    code: int
    asks: Literal["is", "at_least"] = "is"

    def answers(self, codes: NDArray[np.integer], columns: Sequence[Column]) -> NDArray[np.bool_]:
        """Return a mask (n,) of the rows of codes (n, d) for which the answer is yes."""
        values, (first, end) = codes[:, self.column], self.code_range(columns)
        return np.asarray((values >= first) & (values < end))

    def code_range(self, columns: Sequence[Column]) -> tuple[int, int]:
        """Return the first code with the answer yes, and the last one plus 1."""
        end = columns[self.column].value_count if self.asks == "at_least" else self.code + 1
        return self.code, end

    def name(self, columns: Sequence[Column]) -> str:
        """Return the name of the bit: ``column=level`` or ``column>=level``."""
        column, sign = columns[self.column], "=" if self.asks == "is" else ">="
        return f"{column.name}{sign}{column.levels[self.code]}"


def one_hot_bits(columns: Sequence[Column]) -> tuple[Bit, ...]:
    """Return one bit for each level of each column, missing values included."""
    return tuple(Bit(i, code) for i, column in enumerate(columns) for code in range(column.size))


def cumulative_bits(columns: Sequence[Column]) -> tuple[Bit, ...]:
    """Return the bits ``at_least`` of ordered columns, and ``is`` of others, column by column.

    An ordered column has none for its first value, and one more for missing values. Another column
    of two levels has only the second bit, as the first is its contrary.
    """
    bits = list[Bit]()
    for i, column in enumerate(columns):
        if column.ordered:
            bits += [Bit(i, code, "at_least") for code in range(1, column.value_count)]
            bits += [Bit(i, code) for code in range(column.value_count, column.size)]
        else:
            bits += [Bit(i, code) for code in range(column.size)][column.size == 2 :]
    return tuple(bits)


def bit_matrix(
    bits: Sequence[Bit], codes: NDArray[np.integer], columns: Sequence[Column]
) -> NDArray[np.bool_]:
    """Return whether each bit is true for each row of codes (n, d): (n, bits), in Fortran order."""
    matrix = np.empty((len(codes), len(bits)), dtype=np.bool_, order="F")
    by_column = np.asfortranarray(codes)
    for i, bit in enumerate(bits):
        matrix[:, i] = bit.answers(by_column, columns)
    return matrix


class RowRule(Protocol):
    """A rule that recodes each row independently of all other rows.

    columns            the released columns
    source_positions   for each released column, the position of the quasi-identifier it is made
                       from
    """

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def source_positions(self) -> tuple[int, ...]: ...

    def recode(self, rows: CodedRows) -> CodedRows:
        """Return all rows recoded, in their order, with unchanged labels."""
        ...

    def features(self, rows: CodedRows) -> FloatArray:
        """Return the features (n, features) in 0..1 that classifiers read instead of the codes."""
        ...


@dataclass(frozen=True)
class BitRule:
    """A rule that releases each of some bits as a column of 0 and 1, and nothing else.

    source   the quasi-identifiers that the bits ask about
    """

    source: tuple[Column, ...]
    bits: tuple[Bit, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(bit.name(self.source), ("0", "1"), ordered=True) for bit in self.bits)

    @property
    def source_positions(self) -> tuple[int, ...]:
        return tuple(bit.column for bit in self.bits)

    def recode(self, rows: CodedRows) -> CodedRows:
        matrix = bit_matrix(self.bits, rows.codes, self.source)
        return replace(rows, columns=self.columns, codes=matrix.astype(np.uint8))

    def features(self, rows: CodedRows) -> FloatArray:
        return bit_matrix(self.bits, rows.codes, self.source).astype(np.float64)


@dataclass(frozen=True)
class Unchanged:
    """The rule that releases the quasi-identifiers themselves; features are all cumulative bits."""

    columns: tuple[Column, ...]

    @property
    def source_positions(self) -> tuple[int, ...]:
        return tuple(range(len(self.columns)))

    def recode(self, rows: CodedRows) -> CodedRows:
        return rows

    def features(self, rows: CodedRows) -> FloatArray:
        bits = cumulative_bits(self.columns)
        return bit_matrix(bits, rows.codes, self.columns).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Recoding:
    """The result of a method: a rule, and the rows of the source that are left out.

    rule         the rule by which rows are recoded, which is published
    suppressed   (n,) whether each row must be left out for the guarantee to hold
    auc          exact AUC of logistic regression in folds of the recoded rows, or None if the
                 method has not measured it
    """

    rule: RowRule
    suppressed: NDArray[np.bool_]
    auc: float | None = None

    @classmethod
    def of_all(cls, rule: RowRule, rows: CodedRows) -> Self:
        """Return the recoding by a rule that leaves none of the rows out."""
        return cls(rule, np.zeros(len(rows), dtype=np.bool_))

    def release(self, rows: CodedRows) -> CodedRows:
        """Return the recoded rows without suppressed ones, sorted by released codes and label.

        Their order in the source would link two releases."""
        released = self.rule.recode(rows.select(~self.suppressed))
        return released.select(np.lexsort([released.target, *released.codes.T[::-1]]))


def unchanged_if_possible(rows: CodedRows, guarantee: KAnonymityGuarantee) -> Recoding | None:
    """Return the recoding that changes no row if the guarantee is empty, else None.

    TooFewRows if even one class of all rows would break the guarantee."""
    guarantee.require_possible(rows)
    return Recoding.of_all(Unchanged(rows.columns), rows) if guarantee.is_empty else None


class Method(Protocol):
    """A method of k-anonymization, whose fields are its public parameters.

    summary   one sentence for lists and the Dagster page

    A method may also have the number ``sensitive_diversity``: see the function of that name.
    """

    summary: ClassVar[str]

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:
        """Return a recoding under which the rows keep the guarantee.

        It reads the rows exactly: it is not differentially private. TooFewRows where even one class
        of all rows would break the guarantee.
        """
        ...


def sensitive_diversity(method: Method | type[Method], *, k: int) -> int:
    """Return the default ``diversity`` of a guarantee where the label is sensitive: what the method
    declares, or 1 if it declares none and for k ≤ 1."""
    return int(getattr(method, "sensitive_diversity", 1)) if k > 1 else 1
