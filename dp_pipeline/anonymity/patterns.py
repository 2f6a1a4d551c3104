"""Patterns: the different rows, and how often each occurs. What is counted once is counted fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.metrics.equivalence_classes import class_ids
from dp_pipeline.schema.encoding import IntArray


@dataclass(frozen=True, eq=False)
class Patterns:
    """Rows that are alike, label included, taken together.

    rows     the m different rows, in order of codes and label: the order of the rows that they
             come from is gone
    many     (m,) how often each occurs, at least once
    of_row   (n,) which of them each row is

    >>> from dp_pipeline.anonymity.coded_rows import Column
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
