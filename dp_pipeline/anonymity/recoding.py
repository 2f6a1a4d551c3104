"""Recoding: a public rule from rows to what is released of them. It holds no row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import Bit, bit_matrix
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.schema.encoding import FloatArray

_NO_YES = ("0", "1")


class Recoding(Protocol):
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
