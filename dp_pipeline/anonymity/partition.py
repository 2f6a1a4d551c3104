"""Rows as codes of declared levels, in equivalence classes that are refined bit by bit, and what
every class of a release has to have: a syntactic promise, not a differential one.

A bit splits every class in two. The rows of its rarer side are counted by class, those of the other
side follow by subtraction, without a sort or a hash: a test costs as much as there are rows on the
rarer side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.metrics.equivalence_classes import class_ids


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

    >>> from dp_pipeline.anonymity.partition import Column
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


class TooFewRows(PipelineError):
    """There are fewer rows than one equivalence class must have; nothing was released."""


@dataclass(frozen=True)
class KAnonymityGuarantee:
    """Every class that is released has at least ``k`` rows and ``diversity`` different labels.

    k            0 and 1 promise nothing
    diversity    1 promises nothing
    suppressed   most rows that may be left out of the release to keep it, as an exact share

    DeclarationError for negative numbers and for a share of one or more.
    """

    k: int
    diversity: int = 1
    suppressed: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.k < 0 or self.diversity < 1 or not 0 <= self.suppressed < 1:
            raise DeclarationError(
                "promise: expected k ≥ 0, diversity ≥ 1 and a share 0 ≤ suppressed < 1, "
                f"got {self.k}, {self.diversity}, {self.suppressed}"
            )

    @property
    def is_empty(self) -> bool:
        """Whether every table keeps it."""
        return self.k <= 1 and self.diversity <= 1

    def most_suppressed(self, rows: int) -> int:
        """Whole rows that may be left out of so many.

        >>> KAnonymityGuarantee(5, suppressed=Fraction("0.29")).most_suppressed(100)
        29
        """
        return int(self.suppressed * rows)

    def require_possible(self, rows: int, labels: int) -> None:
        """TooFewRows unless all rows together, as one class, keep the promise.

        rows, labels   of the table: how many rows, and how many different labels they have
        """
        if self.is_empty:
            return
        if rows < self.k:
            raise TooFewRows(f"k-anonymity: expected at least K={self.k} rows, got fewer")
        if labels < self.diversity:
            raise TooFewRows(
                f"diversity: expected at least {self.diversity} different labels, got fewer"
            )


Splits = tuple[IntArray, IntArray]
"""Counts of every class on the rarer side of some bits, and on the other: (…, classes, labels)."""


class ClassPartition:
    """The classes of n rows under the bits that were accepted so far, none at first.

    many       (n,) how often each row occurs; once where None
    by_label   whether rows are counted by class and label; a promise about labels always does

    A class breaks the promise when it has rows, but less than k of them or less than
    ``diversity`` different labels. Refining never mends a class: what breaks with some bits
    breaks with more, and what cuts no class never will. So a bit that was refused once is refused
    for ever, and one pass over all bits, in any order, ends with a set to which none can be added.

    Raises TooFewRows where all rows as one class break the promise.

    >>> rows = CodedRows((), np.zeros((4, 0), dtype=int), np.array([0, 1, 0, 1]), ("no", "yes"))
    >>> partition = ClassPartition(rows, KAnonymityGuarantee(k=2))
    >>> partition.takes(np.array([0])), partition.takes(np.array([0, 1]))
    (False, True)
    >>> partition.refine(np.array([0, 1]))
    >>> partition.sizes.tolist()
    [2, 2]
    """

    def __init__(
        self,
        rows: CodedRows,
        promise: KAnonymityGuarantee,
        *,
        many: IntArray | None = None,
        by_label: bool = False,
    ) -> None:
        self._many, self._target = many, rows.target
        labels = self._counted(rows.target, np.arange(len(rows)), len(rows.target_levels))
        total = int(labels.sum())
        promise.require_possible(total, int(np.count_nonzero(labels)))
        self._promise, self._most_bad = promise, promise.most_suppressed(total)
        self._by_label = by_label or promise.diversity > 1
        self._groups = np.zeros(len(rows), dtype=np.int64)
        self._counts = labels[None] if self._by_label else np.array([[total]])
        self._keys = self._keyed()

    @property
    def groups(self) -> IntArray:
        """The class of every row (n,), 0..classes − 1."""
        return self._groups

    @property
    def counts(self) -> IntArray:
        """Rows of every class, by label (classes, labels) or in one column."""
        return self._counts

    @property
    def sizes(self) -> IntArray:
        """Rows of every class (classes,)."""
        return np.asarray(self._counts.sum(axis=1))

    def allows(self, rare: IntArray) -> bool:
        """Whether the classes keep the promise when one more bit splits them."""
        return bool(self.keeps_guarantee(self.split([rare]))[0])

    def takes(self, rare: IntArray) -> bool:
        """Whether a bit is allowed and worth a column. Where rows may be left out, one that cuts no
        class into two that are released is not: all that it told is which rows are missing.
        """
        splits = self.split([rare])
        is_worth = not self._most_bad or self._promise.is_empty or self.cut(splits)[0] > 0
        return bool(is_worth and self.keeps_guarantee(splits)[0])

    def split(self, bits: Sequence[IntArray]) -> Splits:
        """How each of some bits would split every class, (bits, classes, labels)."""
        cells = self._counts.size
        places = np.repeat(np.arange(len(bits)) * cells, [len(rare) for rare in bits])
        rows = np.concatenate(bits) if len(bits) > 1 else bits[0]
        keys = self._keys[rows] + places if len(bits) > 1 else self._keys[rows]
        rare = self._counted(keys, rows, cells * len(bits)).reshape(len(bits), *self._counts.shape)
        return rare, self._counts - rare

    def keeps_guarantee(self, splits: Splits) -> NDArray[np.bool_]:
        """Of each bit, whether not more rows than allowed would be in classes that break it."""
        if self._promise.is_empty:
            return np.ones(len(splits[0]), dtype=np.bool_)
        bad = self._exposed(splits[0]) + self._exposed(splits[1])
        return np.asarray(bad <= self._most_bad)

    def cut(self, splits: Splits) -> IntArray:
        """Of each bit, how many classes it cuts into two that both keep the promise (bits,): one
        that cuts none tells apart no rows that are released.
        """
        one, other = (~self._breaks(side) & (side.sum(axis=-1) > 0) for side in splits)
        return np.asarray(np.count_nonzero(one & other, axis=-1))

    def refine(self, rare: IntArray) -> None:
        """Split every class by one more bit, whether the promise is kept or not."""
        on, off = (side[0] for side in self.split([rare]))
        both = np.stack([off, on], axis=1).reshape(2 * len(on), -1)
        # Of no rows there stays one empty class.
        filled = both.any(axis=1) if len(self._groups) else np.array([True, False])
        places = np.cumsum(filled) - 1
        doubled = self._groups * 2
        doubled[rare] += 1
        self._groups, self._counts = places[doubled], both[filled]
        self._keys = self._keyed()

    @property
    def suppressed(self) -> NDArray[np.bool_]:
        """Rows of classes that break the promise, which have to be left out (n,)."""
        if self._promise.is_empty:
            return np.zeros(len(self._groups), dtype=np.bool_)
        return np.asarray(self._breaks(self._counts)[self._groups])

    def _counted(self, keys: IntArray, rows: IntArray, cells: int) -> IntArray:
        """Rows of every key in 0..cells − 1, of some row numbers with their keys."""
        if self._many is None:
            return np.bincount(keys, minlength=cells)
        # Sums of whole numbers below 2^53: exact.
        found = np.bincount(keys, weights=self._many[rows], minlength=cells)
        return np.asarray(found.astype(np.int64))

    def _keyed(self) -> IntArray:
        """Class, and label where labels are counted, of every row as one number."""
        if not self._by_label:
            return self._groups
        return np.asarray(self._groups * self._counts.shape[1] + self._target)

    def _exposed(self, counts: IntArray) -> IntArray:
        """Rows of classes that break the promise (…,) of counts (…, classes, labels)."""
        broken = np.where(self._breaks(counts), counts.sum(axis=-1), 0)
        return np.asarray(broken.sum(axis=-1))

    def _breaks(self, counts: IntArray) -> NDArray[np.bool_]:
        """Which classes (…, classes) of counts (…, classes, labels) have rows and break it."""
        sizes = counts.sum(axis=-1)
        bad = sizes < self._promise.k
        if self._promise.diversity > 1:
            bad |= np.count_nonzero(counts, axis=-1) < self._promise.diversity
        return np.asarray(bad & (sizes > 0))
