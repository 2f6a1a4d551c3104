"""Rows as codes of declared levels, and the guarantee of k-anonymity about their classes."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.metrics.equivalence_classes import class_ids


@dataclass(frozen=True)
class Column:
    """A quasi-identifier or a released column, with its levels.

    levels    text of each code
    ordered   whether the codes, but for ``missing``, ascend with the values
    missing   code of missing values, the last one; None if there is no such level
    """

    name: str
    levels: tuple[str, ...]
    ordered: bool = False
    missing: int | None = None

    @property
    def size(self) -> int:
        return len(self.levels)

    @property
    def value_count(self) -> int:
        """The number of levels other than ``missing``."""
        return self.size if self.missing is None else self.missing


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The codes of n rows in d columns, with the label of each row.

    columns         the quasi-identifiers, or the columns of a release
    codes           (n, d) integers, 0..size − 1 in each column
    target          (n,) codes of the label, the attribute that classifiers predict
    target_levels   text of each label

    DeclarationError for arrays of other shapes and for codes outside their levels.
    """

    columns: tuple[Column, ...]
    codes: NDArray[np.integer]
    target: IntArray
    target_levels: tuple[str, ...]

    def __post_init__(self) -> None:
        n, d = len(self.target), len(self.columns)
        if self.codes.shape != (n, d) or self.target.ndim != 1:
            raise DeclarationError(
                f"The coded rows must be {n} rows of {d} columns with one label each, not shape "
                f"{self.codes.shape} with labels of shape {self.target.shape}"
            )
        sizes = [(column.name, column.size) for column in self.columns]
        sizes.append(("the label", len(self.target_levels)))
        for (name, size), codes in zip(sizes, (*self.codes.T, self.target), strict=True):
            if n and (codes.min() < 0 or codes.max() >= size):
                raise DeclarationError(
                    f"The codes of {name} must be integers from 0 to below its {size} levels, but "
                    "some are not: encode the rows with the declared levels"
                )

    def __repr__(self) -> str:
        return f"CodedRows({len(self.columns)} columns)"

    def __len__(self) -> int:
        return len(self.target)

    def select(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> "CodedRows":
        """Return the rows at the given positions, or those where a mask (n,) is true."""
        return replace(self, codes=self.codes[rows], target=self.target[rows])

    def kinds(self) -> "tuple[CodedRows, IntArray]":
        """Return the m distinct rows with their labels, in order, and the number of rows equal to
        each (m,).

        >>> rows = CodedRows((Column("sex", ("f", "m")),), np.array([[1], [0], [1]]),
        ...                  np.array([0, 1, 0]), ("well", "ill"))
        >>> kinds, counts = rows.kinds()
        >>> kinds.codes.tolist(), kinds.target.tolist(), counts.tolist()
        ([[0], [1]], [1, 0], [1, 2])
        """
        distinct = DistinctRows.of(self)
        numbers, labels = np.nonzero(distinct.counts)
        kinds = replace(self, codes=distinct.codes[numbers], target=labels)
        return kinds, distinct.counts[numbers, labels]

    @property
    def target_counts(self) -> IntArray:
        """The number of rows of each label (labels,)."""
        return np.bincount(self.target, minlength=len(self.target_levels))


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The m distinct rows of codes of a table, in ascending order, with their labels counted.

    codes     (m, d) the distinct rows
    counts    (m, labels) number of rows of each label
    row_ids   (n,) position in ``codes`` of each row of the table
    """

    codes: NDArray[np.integer]
    counts: IntArray
    row_ids: IntArray

    @classmethod
    def of(cls, rows: CodedRows) -> Self:
        ids, sizes = class_ids(rows.codes)
        positions = np.zeros(len(sizes), dtype=np.int64)
        positions[ids] = np.arange(len(rows))
        labels = len(rows.target_levels)
        counts = np.bincount(ids * labels + rows.target, minlength=len(sizes) * labels)
        return cls(rows.codes[positions], counts.reshape(-1, labels), ids)


class TooFewRows(PipelineError):
    """Raised when even one class of all rows would break the guarantee; nothing was released."""


@dataclass(frozen=True)
class KAnonymityGuarantee:
    """A guarantee about every class, which is a set of rows with equal released codes.

    k            fewest rows of a class; 0 and 1 guarantee nothing
    diversity    fewest different labels of a class; 1 guarantees nothing
    suppressed   largest share of the rows that may be left out of the release

    DeclarationError for k < 0, diversity < 1, and a share below 0 or of 1 and more.
    """

    k: int
    diversity: int = 1
    suppressed: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for is_wrong, needed, got in (
            (self.k < 0, "k ≥ 0", self.k),
            (self.diversity < 1, "diversity ≥ 1", self.diversity),
            (not 0 <= self.suppressed < 1, "0 ≤ suppressed < 1", self.suppressed),
        ):
            if is_wrong:
                raise DeclarationError(f"A guarantee needs {needed}, not {got}")

    @property
    def is_empty(self) -> bool:
        """Whether every table keeps the guarantee: it asks for at most one row and one label."""
        return self.k <= 1 and self.diversity <= 1

    def max_suppressed_rows(self, rows: int) -> int:
        """Return how many of ``rows`` rows may be left out of the release, rounded down.

        >>> KAnonymityGuarantee(5, suppressed=Fraction("0.29")).max_suppressed_rows(100)
        29
        """
        return int(self.suppressed * rows)

    def is_met(self, counts: IntArray, *, axis: int = -1) -> NDArray[np.bool_]:
        """Return a mask of the classes with at least ``k`` rows and ``diversity`` labels; it is
        false for an empty class.

        counts   number of rows of every class by label, with the labels along ``axis``

        >>> KAnonymityGuarantee(2, 2).is_met(np.array([[1, 1], [2, 0], [0, 0]])).tolist()
        [True, False, False]
        """
        is_met = counts.sum(axis=axis) >= max(1, self.k)
        if self.diversity > 1:
            is_met &= np.count_nonzero(counts, axis=axis) >= self.diversity
        return np.asarray(is_met)

    def require_possible(self, rows: CodedRows) -> None:
        """Raise TooFewRows unless the rows would keep the guarantee if all were one class."""
        if self.is_empty:
            return
        if len(rows) < self.k:
            raise TooFewRows(f"There are fewer rows than K={self.k}: choose a smaller K")
        if np.count_nonzero(rows.target_counts) < self.diversity:
            raise TooFewRows(
                f"The rows have fewer than {self.diversity} different labels: declare a smaller "
                "`diversity`"
            )
