"""Rankings of bits that need no forest: what one bit alone tells about the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from dp_pipeline.anonymity.bit import Bit, bit_matrix
from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.anonymity.ranked import RankedSearch
from dp_pipeline.schema.encoding import FloatArray, IntArray


@dataclass(frozen=True)
class MutualInformation(RankedSearch):
    """RFKA's search in the order of I(bit; label), in bits: no forest, the same kind of table."""

    summary: ClassVar[str] = "one pass over one-hot bits, by mutual information with the label"

    def worth(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:  # noqa: ARG002
        """Mutual information of each bit and the label, in 0..1."""
        return mutual_information(on_and_off(rows, bits))


def on_and_off(rows: CodedRows, bits: Sequence[Bit]) -> IntArray:
    """Rows with and without every bit, by label: (2, bits, labels)."""
    matrix, labels = bit_matrix(bits, rows.codes, rows.columns), len(rows.target_levels)
    on = np.zeros((len(bits), labels), dtype=np.int64)
    for label in range(labels):
        on[:, label] = matrix[rows.target == label].sum(axis=0)
    return np.stack([on, rows.target_counts - on])


def mutual_information(counts: IntArray) -> FloatArray:
    """I(bit; label) in bits, (bits,), of counts (2, bits, labels); 0 where there are no rows.

    >>> told = np.array([[[2, 0], [1, 1]], [[0, 2], [1, 1]]])
    >>> mutual_information(told).tolist()
    [1.0, 0.0]
    """
    shares = counts / max(1, int(counts[:, 0].sum())) if counts.shape[1] else counts * 1.0
    joint = xlogy(shares, shares).sum(axis=(0, 2))
    of_bit, of_label = shares.sum(axis=2), shares.sum(axis=0)
    alone = xlogy(of_bit, of_bit).sum(axis=0) + xlogy(of_label, of_label).sum(axis=1)
    return np.asarray(np.maximum(0.0, joint - alone) / np.log(2))
