"""One answer from noisy tables that overlap: no negative cell, one total, and each by its noise."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.agreed_tables import AgreedTables
from dp_pipeline.inference.clique_join import clique_counts
from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.inference.views import view_tables
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
TABLES = (("a", "b", "c"), ("b", "d"), ("a", "c", "d"))


def cells_by_noise(measured: list[NoisyMarginal]) -> dict[tuple[str, ...], np.ndarray]:
    return dict(AgreedTables.of(measured, SIZES).cells)


each_way = pytest.mark.parametrize("agree", [cells_by_noise, view_tables, clique_counts])


def noisy(mean: float, spread: float, seed: int, *, noise: float = 0.0) -> list[NoisyMarginal]:
    """Tables of one population with cells about ``mean``, and noise of this deviation."""
    rng = np.random.default_rng(seed)
    whole, measured = rng.normal(mean, spread, tuple(SIZES.values())), []
    for names in TABLES:
        table = marginal_of(np.rint(whole), tuple(SIZES), names)
        drawn = np.rint(table + rng.normal(0, noise, table.shape)).astype(np.int64)
        measured.append(NoisyMarginal(names, drawn, max(Fraction(1, 1000), Fraction(noise))))
    return measured


@each_way
def test_exact_tables_stay_as_they_are(agree):
    measured = noisy(250, 50, 1)
    tables = agree(measured)
    assert tuple(tables) == TABLES
    assert all(np.allclose(tables[one.attributes], one.table, atol=0.01) for one in measured)
    both = AgreedTables.of(measured, SIZES)
    assert both.rows == pytest.approx(measured[0].table.sum())
    for pair in combinations(SIZES, 2):
        exact = next(one for one in measured if {*pair} <= {*one.attributes})
        expected = marginal_of(exact.table, exact.attributes, pair)
        assert np.allclose(both.pair(*pair)[0], expected, atol=0.01)
        assert np.allclose(both.one_way(pair[0]), expected.sum(axis=1), atol=0.01)


@each_way
@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    mean=st.sampled_from([-50.0, 10.0, 100.0]),
    noise=st.sampled_from([1.0, 30.0, 1e6]),
)
def test_any_noise_gives_cells_of_one_total_and_none_negative(agree, seed, mean, noise):
    measured = noisy(mean, 20, seed, noise=noise)
    tables = agree(measured)
    sums = [table.sum() for table in tables.values()]
    assert all((table >= 0).all() for table in tables.values())
    assert np.allclose(sums, sums[0])
    if agree is clique_counts:
        assert sums[0] >= 1 - 1e-9
        assert sum(clique_counts(measured, total=7.0)["b", "d"].ravel()) == pytest.approx(7)
    elif agree is cells_by_noise:
        assert sums[0] > 0


def test_tables_nearly_agree_on_what_they_share():
    for seed, way in enumerate([clique_counts, *[cells_by_noise] * 20]):
        positive = noisy(100, 10, seed, noise=10)
        tables = way(positive if way is clique_counts else noisy(10, 5, seed, noise=30))
        for left, right in combinations(TABLES, 2):
            both = [name for name in left if name in right]
            first, second = (marginal_of(tables[table], table, both) for table in (left, right))
            most = 1e-6 if way is clique_counts else 0.06
            assert np.abs(first - second).max() < most * first.sum()


def test_tables_of_one_set_count_by_their_noise():
    measured = [
        NoisyMarginal(("a",), np.array([10, 20]), Fraction(1, 100)),
        NoisyMarginal(("a",), np.array([1000, 2000]), Fraction(10**6)),
    ]
    (table,) = clique_counts(measured).values()
    assert table.round(3).tolist() == [10.0, 20.0]


def test_the_number_of_rows_is_a_table_too():
    counted = TableEstimate((), np.array(1000.0), 1.0)
    measured = TableEstimate(("a", "b"), np.full((2, 3), 100.0), 1e6)
    tables = AgreedTables.of([counted, measured], {"a": 2, "b": 3})
    assert list(tables.cells) == [("a", "b")]
    assert tables.rows == pytest.approx(1000, abs=0.1)
    without_rows = [TableEstimate(("a", "b"), np.full((2, 3), -50.0), 1.0)]
    assert np.allclose(AgreedTables.of(without_rows, SIZES).cells["a", "b"], 1 / 6)


def test_a_noisy_table_counts_for_little_beside_a_better_one():
    good = TableEstimate(("a", "b"), np.array([[60.0, 0.0, 40.0], [30.0, 30.0, 40.0]]), 1.0)
    bad = TableEstimate(("a", "c"), np.array([[180.0, 120.0], [0.0, 0.0]]), 10_000.0)
    tables = AgreedTables.of([good, bad], SIZES)
    assert np.allclose(tables.one_way("a"), [100, 100], atol=1)
