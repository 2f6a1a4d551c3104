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


def dense(synopsis: Synopsis, k: int, seed: int = 1) -> np.ndarray:
    return dense_seeds(synopsis, k=k, box=BOX, rng=np.random.default_rng(seed))


def spread(synopsis: Synopsis, k: int, seed: int = 1) -> np.ndarray:
    return spread_seeds(synopsis, k=k, box=BOX, rng=np.random.default_rng(seed))


def cells_of(seeds: np.ndarray) -> list[tuple[float, float]]:
    return [tuple(seed) for seed in seeds.tolist()]


@pytest.mark.parametrize("seeds_of", [dense, spread])
@settings(max_examples=30)
@given(
    weights=st.lists(st.floats(-1e9, 1e9), min_size=16, max_size=16),
    k=st.integers(1, 20),
    seed=st.integers(0, 10),
)
def test_any_weights_give_k_places_and_full_cells_first(seeds_of, weights, k, seed):
    synopsis = Synopsis.of_grid(np.array(weights).reshape(CELLS, CELLS), ("x", "y"), BOX)
    seeds = seeds_of(synopsis, k, seed)
    assert seeds.shape == (k, 2)
    for axis, interval in enumerate(BOX):
        assert (seeds[:, axis] >= interval.lower).all()
        assert (seeds[:, axis] <= interval.upper).all()
    assert len(set(cells_of(seeds))) == k
    positive = set(cells_of(synopsis.middles[synopsis.weights > 0]))
    assert len(positive & set(cells_of(seeds))) == min(k, len(positive))


def test_uniform_places_are_drawn_from_the_whole_box():
    places = uniform_places(4000, BOX, np.random.default_rng(1))
    # Six standard errors: false alarms below 4e-9 each.
    assert places.mean(axis=0) == pytest.approx([4, 0], abs=6 * 8 / np.sqrt(12 * 4000))
    assert places.min(axis=0) == pytest.approx([0, -1], abs=0.05)
    assert places.max(axis=0) == pytest.approx([8, 1], abs=0.05)


def test_dense_seeds_are_heavy_cells_not_side_by_side():
    synopsis = grid_of({(0, 0): 90.0, (0, 1): 80.0, (1, 1): 70.0, (3, 3): 10.0, (0, 3): 20.0})
    assert cells_of(dense(synopsis, 3)) == [middle((0, 0)), middle((0, 3)), middle((3, 3))]


def test_cells_beside_a_dense_one_come_last():
    synopsis = grid_of({(0, 0): 90.0, (0, 1): 80.0, (1, 1): 70.0, (3, 3): 10.0})
    chosen = [middle((0, 0)), middle((3, 3)), middle((0, 1)), middle((1, 1))]
    assert cells_of(dense(synopsis, 4)) == chosen


def test_spread_seeds_leave_no_far_cluster_out():
    # Two near cells and one far: a seed that is not far has 1/300 of the squared distance.
    synopsis = grid_of({(0, 0): 10.0, (0, 1): 10.0, (3, 3): 10.0})
    for seed in range(50):
        chosen = cells_of(spread(synopsis, 2, seed))
        assert middle((3, 3)) in chosen


def test_spread_seeds_start_where_there_is_weight():
    synopsis = grid_of({(0, 0): 1e12, (3, 3): 1.0, (1, 2): 1.0})
    assert all(cells_of(spread(synopsis, 1, seed)) == [middle((0, 0))] for seed in range(50))
