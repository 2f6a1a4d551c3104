"""AgreedTables: one answer from noisy tables that overlap, with less noise than each of them."""

from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.inference.agreed_tables import AgreedTables
from dp_pipeline.inference.consistency import TableEstimate
from dp_pipeline.results.measurement import marginal_of

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
TABLES = (("a", "b", "c"), ("b", "d"), ("a", "c", "d"))


def whole(seed: int, most: int = 500) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, tuple(SIZES.values()))


def noisy(cells: np.ndarray, variance: float, seed: int = 0) -> list[TableEstimate]:
    rng, estimates = np.random.default_rng(seed), []
    for names in TABLES:
        table = marginal_of(cells, tuple(SIZES), names)
        noise = rng.normal(0, variance**0.5, table.shape)
        estimates.append(TableEstimate(names, table + noise, variance))
    return estimates


def test_exact_tables_stay_as_they_are():
    cells = whole(1)
    tables = AgreedTables.of(noisy(cells, 1e-12), SIZES)
    assert tables.rows == pytest.approx(cells.sum())
    assert tuple(tables.cells) == TABLES
    pairs = {pair: tables.pair(*pair)[0] for pair in combinations(SIZES, 2)}
    for names, table in {**tables.cells, **pairs, ("b",): tables.one_way("b")}.items():
        assert np.allclose(table, marginal_of(cells, tuple(SIZES), names), atol=0.01)


def test_any_noise_gives_cells_of_one_total_and_none_negative():
    for seed in range(20):
        tables = AgreedTables.of(noisy(whole(seed, 20), 900.0, seed), SIZES)
        assert all((table >= 0).all() for table in tables.cells.values())
        assert np.allclose([table.sum() for table in tables.cells.values()], tables.rows)
        assert tables.rows > 0
        for left, right in combinations(TABLES, 2):
            both = [name for name in left if name in right]
            first, second = (marginal_of(tables.cells[t], t, both) for t in (left, right))
            assert np.abs(first - second).max() < 0.06 * tables.rows


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
