"""Starts made from a box or a noisy grid: always k places in the box, dense or far apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.inference.kmeans import dense_seeds, spread_seeds, uniform_places
from dp_pipeline.results.clusters import Synopsis

BOX = (Coordinate(0.0, 8.0), Coordinate(-1.0, 1.0))
CELLS = 4


def grid_of(weights: dict[tuple[int, int], float]) -> Synopsis:
    """Four by four cells over the box; those not named are empty."""
    table = np.zeros((CELLS, CELLS))
    for cell, weight in weights.items():
        table[cell] = weight
    return Synopsis.of_grid(table, ("x", "y"), BOX)


def middle(cell: tuple[int, int]) -> tuple[float, float]:
    return 2 * cell[0] + 1.0, cell[1] / 2 - 0.75


def seeded(seeds_of, synopsis: Synopsis, k: int, seed: int = 1) -> list:
    seeds = seeds_of(synopsis, k=k, box=BOX, rng=np.random.default_rng(seed))
    assert seeds.shape == (k, 2)
    return cells_of(seeds)


def cells_of(seeds: np.ndarray) -> list[tuple[float, float]]:
    return [tuple(seed) for seed in seeds.tolist()]


@pytest.mark.parametrize("seeds_of", [dense_seeds, spread_seeds])
@settings(max_examples=30)
@given(
    weights=st.lists(st.floats(-1e9, 1e9), min_size=16, max_size=16),
    k=st.integers(1, 20),
    seed=st.integers(0, 10),
)
def test_any_weights_give_k_places_and_full_cells_first(seeds_of, weights, k: int, seed: int):
    synopsis = Synopsis.of_grid(np.array(weights).reshape(CELLS, CELLS), ("x", "y"), BOX)
    seeds = set(seeded(seeds_of, synopsis, k, seed))
    assert len(seeds) == k
    assert all(0 <= x <= 8 and -1 <= y <= 1 for x, y in seeds)
    positive = set(cells_of(synopsis.middles[synopsis.weights > 0]))
    assert len(positive & seeds) == min(k, len(positive))


def test_uniform_places_are_drawn_from_the_whole_box():
    places = uniform_places(4000, BOX, np.random.default_rng(1))
    # Six standard errors: false alarms below 4e-9 each.
    assert places.mean(axis=0) == pytest.approx([4, 0], abs=6 * 8 / np.sqrt(12 * 4000))
    assert places.min(axis=0) == pytest.approx([0, -1], abs=0.05)
    assert places.max(axis=0) == pytest.approx([8, 1], abs=0.05)


def test_dense_seeds_are_heavy_cells_not_side_by_side():
    weights = {(0, 0): 90.0, (0, 1): 80.0, (1, 1): 70.0, (3, 3): 10.0}
    with_corner = grid_of({**weights, (0, 3): 20.0})
    assert seeded(dense_seeds, with_corner, 3) == [*map(middle, ((0, 0), (0, 3), (3, 3)))]
    # Cells beside a dense one come last.
    chosen = [*map(middle, ((0, 0), (3, 3), (0, 1), (1, 1)))]
    assert seeded(dense_seeds, grid_of(weights), 4) == chosen


def test_spread_seeds_leave_no_far_cluster_out():
    # Two near cells and one far: a seed that is not far has 1/300 of the squared distance.
    near_and_far = grid_of({(0, 0): 10.0, (0, 1): 10.0, (3, 3): 10.0})
    heavy = grid_of({(0, 0): 1e12, (3, 3): 1.0, (1, 2): 1.0})
    for seed in range(50):
        assert middle((3, 3)) in seeded(spread_seeds, near_and_far, 2, seed)
        assert seeded(spread_seeds, heavy, 1, seed) == [middle((0, 0))]
