"""Seconds of k-anonymous selection: the kernel, kjig, and RFKA's forest beside plain fits of it.

    .venv/bin/python benchmarks/anonymity.py

Generated rows: 42 bits of a million rows for the kernel (target 0.5 s), 2,000 rows of seven
columns for kjig (0.1 s for columns alone, 1 s for the best shape) and for the forest, whose fit and
importances together are to take at most 1.5 times as long as fitting it twice.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from dp_pipeline.anonymity.bit_search import ClassPartition, accept_in_order
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import bit_matrix, one_hot_bits
from dp_pipeline.anonymity.ranking import fit_forest, permutation_importance

# ruff: noqa: T201


SIZES = (5, 5, 7, 13, 6, 2, 4)
TREES = 300


def seconds(work: Callable[[], Any], *, repeats: int = 3) -> float:
    """Best wall time of some runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def people(rows: int) -> CodedRows:
    """Skewed codes, and a label that depends on three of them."""
    rng = np.random.default_rng(11)
    drawn = [np.minimum(rng.geometric(0.35, rows) - 1, size - 1) for size in SIZES]
    told = drawn[0] + drawn[1] - 1.5 * drawn[2] + rng.normal(0, 1.5, rows)
    columns = tuple(
        Column(f"x{at}", tuple(map(str, range(size))), ordered=at < 2)
        for at, size in enumerate(SIZES)
    )
    return CodedRows(columns, np.stack(drawn, axis=1), (told > 0).astype(np.int64), ("no", "yes"))


def kernel() -> None:
    """One pass over the bits of a million rows, from codes to the kept bits."""
    rows = people(1_000_000)
    bits = one_hot_bits(rows.columns)
    order = np.random.default_rng(5).permutation(len(bits)).tolist()
    guarantee = KAnonymityGuarantee(k=10)
    taken = seconds(lambda: accept_in_order(ClassPartition(rows, bits, guarantee), order))
    print(f"search of {len(bits)} bits, {len(rows):,} rows: {taken:.2f} s (at most 0.5)")


def kjig() -> None:
    """A whole selection, at the smallest and the largest K of the papers."""
    for method in (Kjig("columns"), Kjig()):
        for many, k in product((2_000, 100_000), (2, 50)):
            rows, promise = people(many), KAnonymityGuarantee(k)
            taken = seconds(partial(method.recode, rows, promise, seed=0))
            print(f"kjig, {method.shape}, {many:,} rows, K = {k}: {taken:.4f} s")


def forest() -> None:
    """Fit and importances against two fits."""
    rows = people(2_000)
    bits = one_hot_bits(rows.columns)
    matrix = np.ascontiguousarray(bit_matrix(bits, rows.codes, rows.columns), dtype=np.float32)

    def fit() -> Any:
        return fit_forest(matrix, rows.target, trees=TREES, seed=1)

    fitted = fit()
    fits = seconds(fit, repeats=2)

    def judge() -> Any:
        return permutation_importance(fitted, matrix, rows.target, rng=np.random.default_rng(1))

    judged = seconds(judge, repeats=2)
    ratio = (fits + judged) / (2 * fits)
    print(f"forest of {TREES} trees: fit {fits:.2f} s, importances {judged:.2f} s")
    print(f"both together: {ratio:.2f} times two fits (at most 1.5)")


if __name__ == "__main__":
    kernel()
    kjig()
    forest()
