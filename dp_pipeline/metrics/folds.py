"""Folds: parts of a table, each tested on what was learned from the others."""

from __future__ import annotations

import numpy as np

from dp_pipeline.schema.encoding import IntArray


def stratified_folds(target: IntArray, folds: int, *, seed: int) -> IntArray:
    """The fold of every row (n,), 0..folds − 1, by chance.

    Sizes of folds differ by at most one row, and so do the rows of each class in them.

    >>> folds = stratified_folds(np.array([0, 1, 0, 1, 0, 0]), 2, seed=0)
    >>> np.bincount(folds).tolist(), np.bincount(folds[[1, 3]]).tolist()
    ([3, 3], [1, 1])
    """
    order = np.random.default_rng(seed).permutation(len(target))
    by_class = order[np.argsort(target[order], kind="stable")]
    numbers = np.empty(len(target), dtype=np.int64)
    numbers[by_class] = np.arange(len(target)) % folds
    return numbers
