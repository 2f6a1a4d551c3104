"""Counts from noisy tables that overlap: no negative cells, one total, and each by its noise."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.clique_join import clique_counts
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of

SIZES = {"a": 2, "b": 3, "c": 2}
SETS = [("a", "b"), ("b", "c"), ("a",), ("b",)]


def noisy(names: tuple[str, ...], seed: int, *, spread: float) -> NoisyMarginal:
    """A table of a hundred rows in every cell, or of noise alone."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(100, spread, [SIZES[name] for name in names])
    return NoisyMarginal(names, np.rint(cells).astype(np.int64), Fraction(10))


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), spread=st.floats(0, 1e6), total=st.none() | st.floats(1, 1e6))
def test_cells_are_not_negative_and_all_tables_have_one_total(seed, spread, total):
    measured = [noisy(names, seed + at, spread=spread) for at, names in enumerate(SETS)]
    counts = clique_counts(measured, total=total)
    sums = [table.sum() for table in counts.values()]
    assert list(counts) == SETS
    assert min(table.min() for table in counts.values()) >= 0
    assert sums == pytest.approx([sums[0]] * 4)
    assert sums[0] == pytest.approx(total) if total is not None else sums[0] >= 1 - 1e-9


def test_without_negative_cells_tables_agree_on_what_they_share():
    counts = clique_counts([noisy(names, 5, spread=10.0) for names in SETS])
    for left, right in combinations(counts, 2):
        both = [name for name in left if name in right]
        one, other = (marginal_of(counts[names], names, both) for names in (left, right))
        assert one == pytest.approx(other)


def test_tables_of_one_set_count_by_their_noise():
    measured = [
        NoisyMarginal(("a",), np.array([10, 20]), Fraction(1, 100)),
        NoisyMarginal(("a",), np.array([1000, 2000]), Fraction(10**6)),
    ]
    (table,) = clique_counts(measured).values()
    assert table.round(3).tolist() == [10.0, 20.0]
    (nothing,) = clique_counts([NoisyMarginal(("a",), np.array([-50, -60]), Fraction(10))]).values()
    assert nothing.sum() == pytest.approx(1)
