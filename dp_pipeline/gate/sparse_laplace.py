"""Discrete Laplace noise on a table of which nearly all cells are empty, and few are kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_pipeline.gate.discrete_laplace import (
    IntArray,
    geometric_noise,
    laplace_noise,
    saturating_sum,
)
from dp_pipeline.gate.survivors import number_of_survivors
from dp_pipeline.gate.words import UniformIntegers


def sparse_laplace(
    occupied: IntArray, scale: Fraction, *, cells: int, threshold: int, uniform: UniformIntegers
) -> IntArray:
    """Noise on every cell of a table; those that reach the threshold, (kept, 2), by key.

    occupied   int64 (m, 2): key and count of the cells that are not empty, each key once
    cells      of the whole table, up to 2^62; keys are 0 … cells − 1
    threshold  least noisy count that is kept, at least 1
    returns    int64 (kept, 2): key and noisy count

    Promise: the answer has exactly the distribution of adding independent discrete Laplace
    noise to all cells, empty ones included, and keeping those ≥ threshold. The work does not
    grow with the number of cells.

    *Proof.* Cells have independent noise, so they can be drawn apart. Occupied ones are drawn
    as they are. Of *all* cells, let those be marked whose own noise X would reach the
    threshold alone: independent, each with p = P(X ≥ threshold). Their number is
    Binomial(cells, p), and given the number every set of so many cells is as likely as any
    other: different uniform keys. Marks on occupied cells are thrown away, which changes
    nothing for the others. Given X ≥ threshold ≥ 1, P(X = threshold + m) ∝ e^(−m/scale):
    X − threshold is one-sided geometric, and needs no memory of how it got there. Sorted by
    key, the answer does not say which cells were occupied. ∎

    Source: Cormode, Procopiuc, Srivastava, Tran, "Differentially Private Summaries for Sparse
    Data" (ICDT 2012), whose geometric noise is the discrete Laplace.
    """
    noisy = saturating_sum(occupied[:, 1], laplace_noise(len(occupied), scale, uniform))
    kept = noisy >= threshold
    marked = _different(number_of_survivors(cells, threshold, scale, uniform), cells, uniform)
    empty = marked[~np.isin(marked, occupied[:, 0])]
    least = np.full(len(empty), threshold, dtype=np.int64)
    reached = saturating_sum(least, geometric_noise(len(empty), scale, uniform))
    keys = np.concatenate([occupied[kept, 0], empty])
    found = np.stack([keys, np.concatenate([noisy[kept], reached])], axis=1)
    return np.asarray(found[np.argsort(keys)], np.int64)


def _different(many: int, bound: int, uniform: UniformIntegers) -> IntArray:
    """A uniform set of ``many`` different integers below ``bound``: repeats are drawn again."""
    found: set[int] = set()
    while len(found) < many:
        # Never more than are missing, so it is as if they were drawn one by one.
        found.update(uniform.below(bound, many - len(found)).tolist())
    return np.array(sorted(found), dtype=np.int64)
