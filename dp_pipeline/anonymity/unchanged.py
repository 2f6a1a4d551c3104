"""Unchanged: the recoding of a promise that promises nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.anonymity.bit import bit_matrix, cumulative_bits
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.schema.encoding import FloatArray


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
