"""Bit: a question with the answers yes and no about one column. What global recoding keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import Column


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
        column, values = columns[self.column], codes[:, self.column]
        if self.asks == "is":
            return np.asarray(values == self.code)
        return np.asarray((values >= self.code) & (values < column.values))

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
