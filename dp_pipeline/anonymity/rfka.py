"""RFKA: k-anonymous feature selection in the order of a forest's importances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dp_pipeline.anonymity.bit import Bit, bit_matrix
from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.anonymity.forest import fitted_forest, permutation_importance
from dp_pipeline.anonymity.ranked import RankedSearch
from dp_pipeline.schema.encoding import FloatArray
from dp_pipeline.schema.parameters import integer


@dataclass(frozen=True)
class Rfka(RankedSearch):
    """A forest's out-of-bag permutation importance ranks the bits; each is kept that leaves every
    equivalence class at least K rows.

    trees   of the forest; 1000 in the paper

    Source: Huang Mei, Zhu Yan, "K-anonymous feature selection based on random-forest feature
    importance", algorithm 1, mended where it is wrong as printed: see ``search.fill``. Rows are
    put in order first, so that the bootstraps do not depend on how they lay in the file.
    """

    summary: ClassVar[str] = "one pass over one-hot bits, by a random forest's importance"

    trees: int = integer(1000, at_least=1, at_most=100_000, measuring=True)

    def worth(self, rows: CodedRows, bits: Sequence[Bit], *, seed: int) -> FloatArray:
        """Permutation importance of every bit, in rows a tree."""
        if not bits or not len(rows):
            return np.zeros(len(bits))
        matrix, target = _in_order(rows, bits)
        forest = fitted_forest(matrix, target, trees=self.trees, seed=seed)
        return self._importance(forest, matrix, target, seed)

    def _importance(self, forest: Any, matrix: Any, target: Any, seed: int) -> FloatArray:
        rng = np.random.default_rng(seed)
        return permutation_importance(forest, matrix, target, rng=rng)


@dataclass(frozen=True)
class Impurity(Rfka):
    """RFKA with the forest's mean decrease of impurity in place of permutations."""

    summary: ClassVar[str] = "one pass over one-hot bits, by a random forest's decrease of impurity"

    def _importance(self, forest: Any, matrix: Any, target: Any, seed: int) -> FloatArray:  # noqa: ARG002
        return np.asarray(forest.feature_importances_, dtype=np.float64)


def _in_order(rows: CodedRows, bits: Sequence[Bit]) -> tuple[Any, Any]:
    """Bits (n, bits) and labels (n,), rows sorted by what they hold."""
    order = np.lexsort((rows.target, *rows.codes.T[::-1]))
    matrix = bit_matrix(bits, rows.codes[order], rows.columns)
    return np.ascontiguousarray(matrix, dtype=np.float32), rows.target[order]
