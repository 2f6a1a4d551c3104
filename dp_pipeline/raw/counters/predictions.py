"""How often a rule about codes is right, exact, block after block of rows."""

from __future__ import annotations

import numpy as np

from dp_pipeline.gate.predicted_label import PredictedLabel
from dp_pipeline.raw.counters.mixed_radix import ROWS_A_CHUNK, Codes
from dp_pipeline.schema.encoding import IntArray


def right_and_wrong(rule: PredictedLabel, codes: Codes, *, rows: int) -> IntArray:
    """Rows that an exact rule (``PredictedLabel.require_exact``) answers rightly, and wrongly.

    >>> rule = PredictedLabel("b", (1,), ("a",), ((-1, 1),), 0)
    >>> right_and_wrong(rule, {"a": np.array([0, 1, 1]), "b": np.array([0, 1, 0])}, rows=3)
    array([2, 1])
    """
    weights = {
        name: np.array(one, dtype=np.int64)
        for name, one in zip(rule.columns, rule.weights, strict=True)
    }
    right = 0
    for start in range(0, rows, ROWS_A_CHUNK):
        block = slice(start, min(start + ROWS_A_CHUNK, rows))
        total = np.full(block.stop - start, rule.intercept, dtype=np.int64)
        for name, one in weights.items():
            total += one[codes[name][block]]
        positive = np.isin(codes[rule.target][block], rule.positive)
        right += int(((total > 0) == positive).sum())
    return np.array([right, rows - right], dtype=np.int64)
