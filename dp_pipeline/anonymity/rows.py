"""CodedRows: rows as codes of declared levels, with the class of each. Rows live here.

Patterns: the different rows, and how often each occurs. What is counted once is counted fast.

RareRows: the rows on one side of each of many bits, which is all that classes are made from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.metrics.equivalence_classes import class_ids
from dp_pipeline.spec.encoding import IntArray
from dp_pipeline.spec.errors import DeclarationError


@dataclass(frozen=True)
class Column:
    """One quasi-identifier, or one released column.

    levels    one text a code
    ordered   whether codes ascend with the values, that of missing values left aside
    missing   the code of missing values, the last one, or None: a level of its own, after which
              no value comes
    """

    name: str
    levels: tuple[str, ...]
    ordered: bool = False
    missing: int | None = None

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)

    @property
    def values(self) -> int:
        """Number of levels that are not missing: the codes before them."""
        return self.size if self.missing is None else self.missing


@dataclass(frozen=True, eq=False)
class CodedRows:
    """n rows of quasi-identifiers, and of the attribute that classifiers predict.

    columns         d quasi-identifiers
    codes           (n, d), whole numbers 0..size − 1 of each column
    target          (n,) codes of the label, 0..len(target_levels) − 1
    target_levels   one text a class

    DeclarationError for arrays of other shapes and for codes outside their columns' levels.

    >>> rows = CodedRows((Column("sex", ("f", "m")),), np.array([[0], [1]]), np.array([1, 0]),
    ...                  ("well", "ill"))
    >>> rows
    CodedRows(1 columns)
    """

    columns: tuple[Column, ...]
    codes: NDArray[np.integer]
    target: IntArray
    target_levels: tuple[str, ...]

    def __post_init__(self) -> None:
        n, d = len(self.target), len(self.columns)
        if self.codes.shape != (n, d) or self.target.ndim != 1:
            raise DeclarationError(
                f"coded rows: expected codes of {d} columns and one class a row, got other shapes"
            )
        within = _within(self.target, len(self.target_levels)) and all(
            _within(self.codes[:, at], column.size) for at, column in enumerate(self.columns)
        )
        if not within:
            raise DeclarationError("coded rows: expected codes of declared levels, got others")

    def __repr__(self) -> str:
        return f"CodedRows({len(self.columns)} columns)"

    def __len__(self) -> int:
        return len(self.target)

    def some(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> CodedRows:
        """The rows with these numbers, or those where a mask is true."""
        return replace(self, codes=self.codes[rows], target=self.target[rows])

    @property
    def target_counts(self) -> IntArray:
        """Rows of each class (classes,)."""
        counts = np.bincount(self.target, minlength=len(self.target_levels))
        return counts.astype(np.int64)


def _within(codes: NDArray[np.integer], size: int) -> bool:
    return len(codes) == 0 or bool(codes.min() >= 0 and codes.max() < size)


@dataclass(frozen=True, eq=False)
class Patterns:
    """Rows that are alike, label included, taken together.

    rows     the m different rows, in order of codes and label: the order of the rows that they
             come from is gone
    many     (m,) how often each occurs, at least once
    of_row   (n,) which of them each row is

    >>> from dp_pipeline.anonymity.rows import Column
    >>> rows = CodedRows((Column("sex", ("f", "m")),), np.array([[1], [0], [1]]),
    ...                  np.array([0, 0, 0]), ("well", "ill"))
    >>> found = Patterns.of(rows)
    >>> found.rows.codes.tolist(), found.many.tolist(), found.of_row.tolist()
    ([[0], [1]], [1, 2], [1, 0, 1])
    """

    rows: CodedRows
    many: IntArray
    of_row: IntArray

    @classmethod
    def of(cls, rows: CodedRows) -> Patterns:
        """The patterns of n rows."""
        ids, sizes = class_ids(np.column_stack([rows.codes, rows.target]))
        one_of = np.zeros(len(sizes), dtype=np.int64)
        one_of[ids] = np.arange(len(rows))
        return cls(rows.some(one_of), sizes, ids)

    def spread(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """What is true of patterns (m,), of the rows (n,)."""
        return np.asarray(marked[self.of_row])


@dataclass(frozen=True, eq=False)
class RareRows:
    """Numbers of the rows on the rarer side of every bit; in a tie where it is true.

    A bit and its contrary make the same classes, so which side is meant does not matter.

    rows   one array of row numbers a bit, ascending

    >>> both = RareRows.of(np.array([[1, 0], [1, 1], [0, 0]], dtype=bool))
    >>> [rows.tolist() for rows in both.rows]
    [[2], [1]]
    """

    rows: tuple[IntArray, ...]

    @classmethod
    def of(cls, answers: NDArray[np.bool_]) -> RareRows:
        """From the answers of all rows to all bits (n, bits)."""
        return cls(tuple(_rarer(answers[:, bit]) for bit in range(answers.shape[1])))

    def __len__(self) -> int:
        return len(self.rows)


def _rarer(answers: NDArray[np.bool_]) -> IntArray:
    many = int(np.count_nonzero(answers))
    return np.flatnonzero(answers if 2 * many <= len(answers) else ~answers)
