"""How well clusters agree with classes. Class × cluster tables in, numbers out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import DeclarationError

ClassTable = NDArray[Any]
"""Rows of every class in every cluster, shape (classes, k): whole numbers, at least 0."""


def class_table(classes: IntArray, clusters: IntArray, *, shape: tuple[int, int]) -> IntArray:
    """How many rows of every class lie in every cluster.

    classes    (N,) in 0..shape[0] − 1
    clusters   (N,) in 0..shape[1] − 1

    >>> import numpy as np
    >>> class_table(np.array([0, 0, 1]), np.array([1, 1, 0]), shape=(2, 2)).tolist()
    [[0, 2], [1, 0]]
    """
    cells = np.ravel_multi_index((classes, clusters), shape)
    counts: IntArray = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    return counts


def f_measure(table: ClassTable) -> float:
    """F-measure with β = 1: every class is compared with the cluster that fits it best.

    F = Σ_i (n_i/N) max_j F(i, j), F(i, j) = 2PR/(P + R) = 2 n_ij/(n_i + n_j) with precision
    P = n_ij/n_j and recall R = n_ij/n_i. In 0..1, 1 where classes and clusters are the same
    sets; NaN for no rows. DeclarationError for what is no class × cluster table.

    Source: Larsen, Aone, "Fast and effective text mining using linear-time document
    clustering", KDD 1999; classes are true labels, or the clusters of k-means without privacy.

    >>> import numpy as np
    >>> f_measure(np.array([[2, 0], [1, 1]]))
    0.7333333333333334
    """
    counts = _checked(table)
    rows = counts.sum()
    if rows == 0:
        return float("nan")
    of_class, of_cluster = counts.sum(axis=1), counts.sum(axis=0)
    # A class and a cluster without rows meet in a cell that is 0 as well.
    both = np.maximum(of_class[:, None] + of_cluster[None, :], np.finfo(float).tiny)
    return float(of_class @ (2 * counts / both).max(axis=1) / rows)


def adjusted_rand(table: ClassTable) -> float:
    """Adjusted Rand index: agreement about pairs of rows, above what chance gives.

    1 for the same sets, about 0 for clusters that know nothing of the classes, below 0 for
    worse. 1 as well where chance alone must agree: one class and one cluster, or every
    row alone in both. NaN for no rows. DeclarationError for what is no class × cluster table.

    Source: Hubert, Arabie, "Comparing partitions", Journal of Classification, 1985.

    >>> import numpy as np
    >>> adjusted_rand(np.array([[2, 0], [0, 2]])), round(adjusted_rand(np.ones((2, 2))), 12)
    (1.0, -0.5)
    """
    counts = _checked(table)
    rows = counts.sum()
    if rows == 0:
        return float("nan")
    together = _pairs(counts)
    in_classes, in_clusters = _pairs(counts.sum(axis=1)), _pairs(counts.sum(axis=0))
    by_chance = in_classes * in_clusters / max(1.0, _pairs(rows))
    at_most = (in_classes + in_clusters) / 2
    if at_most == by_chance:
        return 1.0
    return float((together - by_chance) / (at_most - by_chance))


def _pairs(counts: Any) -> float:
    """Pairs of rows that lie together."""
    return float((counts * (counts - 1)).sum() / 2)


def _checked(table: ClassTable) -> NDArray[np.float64]:
    if table.ndim != 2 or table.size == 0 or table.min() < 0:
        raise DeclarationError(
            f"class table: expected counts ≥ 0 of shape (classes, k), got shape {table.shape}"
            + (" with a negative one" if table.size and table.min() < 0 else "")
        )
    return table.astype(np.float64)
