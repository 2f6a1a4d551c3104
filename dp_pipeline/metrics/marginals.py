"""How close released marginals are to given counts. Arrays in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.errors import DeclarationError


def total_variation(p: NDArray[Any], q: NDArray[Any]) -> float:
    """Total variation distance of two tables of probabilities of one shape.

    TVD = ½ Σ |p − q|: 0 for equal tables, 1 for disjoint ones. Nothing is
    normalised here. DeclarationError for two shapes.

    >>> import numpy as np
    >>> total_variation(np.array([0.5, 0.5]), np.array([0.75, 0.25]))
    0.25
    """
    if p.shape != q.shape:
        raise DeclarationError(f"total variation: expected one shape, got {p.shape} and {q.shape}")
    return float(np.abs(p - q).sum() / 2)


def mean_pair_error(
    exact_counts: Sequence[NDArray[Any]], probabilities: Sequence[NDArray[Any]]
) -> float:
    """Average k-way total variation distance: the mean of TVD(c/n, q) over the marginals.

    exact_counts    tables of counts c; n is each table's own sum
    probabilities   released tables q in the same order and shapes, each with sum 1

    NaN when there is no row: no counts can be divided by their sum.
    DeclarationError for no marginals, two numbers of them, or two shapes.
    Source: the k-way TVD of Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes", TODS 2017.

    >>> import numpy as np
    >>> mean_pair_error([np.array([[2, 0], [0, 2]])], [np.full((2, 2), 0.25)])
    0.5
    """
    if not exact_counts or len(exact_counts) != len(probabilities):
        raise DeclarationError(
            f"pair error: expected as many released tables as exact ones and at least one, "
            f"got {len(probabilities)} and {len(exact_counts)}"
        )
    errors = []
    for counts, q in zip(exact_counts, probabilities, strict=True):
        rows = counts.sum()
        share = counts / rows if rows else np.full(counts.shape, np.nan)
        errors.append(total_variation(share, q))
    return float(np.mean(errors))
