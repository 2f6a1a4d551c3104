"""Swaps of centres: never a higher cost, and out of a corner that k-means' steps do not leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import KMeans

from dp_pipeline.inference import kmeans
from dp_pipeline.inference.kmeans import _NearestPairs, swap_centres

places = arrays(np.float64, (12, 2), elements=st.integers(-9, 9).map(float))
weights_of_all = arrays(np.float64, 12, elements=st.sampled_from([0.0, 0.5, 1.0, 100.0]))

LINE = np.array([[0.0], [0.0], [10.0], [10.0], [999.5], [1000.5]])
STUCK = np.array([[5.0], [999.5], [1000.5]])
"""Of cost 100: the two near pairs share a centre, the far pair has two. The optimum costs 0.5."""


def squares(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances by the definition, (n, k)."""
    return ((points[:, None] - centres) ** 2).sum(axis=2)


def cost(points: np.ndarray, weights: np.ndarray, centres: np.ndarray) -> float:
    return float((weights * squares(points, centres).min(axis=1)).sum())


def swap(
    points: np.ndarray, centres: np.ndarray, weights: np.ndarray, *, steps: int = 50, seed: int = 1
) -> tuple[np.ndarray, bool]:
    return swap_centres(points, weights, centres, steps=steps, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(10))
def test_a_known_optimum_is_found_from_where_lloyd_stays(seed: int):
    everybody = np.ones(len(LINE))
    stays = KMeans(3, init=STUCK, n_init=1).fit(LINE).cluster_centers_
    assert np.sort(stays, axis=0).tolist() == STUCK.tolist()
    moved, any_made = swap(LINE, STUCK, everybody, seed=seed)
    assert any_made
    # 5 is still beside a pair until the next step of Lloyd's.
    settled = KMeans(3, init=moved, n_init=1).fit(LINE).cluster_centers_
    assert cost(LINE, everybody, STUCK) == 100
    assert np.sort(settled, axis=0).ravel() == pytest.approx([0, 10, 1000])
    assert cost(LINE, everybody, settled) == 0.5


@given(points=places, weights=weights_of_all, k=st.integers(2, 6), seed=st.integers(0, 99))
def test_a_cost_never_rises(points: np.ndarray, weights: np.ndarray, k: int, seed: int):
    centres, before = points[:k] + 0.25, points[:k] + 0.25
    last = cost(points, weights, centres)
    for steps in (1, 2, 10):
        centres, any_made = swap(points, centres, weights, steps=steps, seed=seed)
        now = cost(points, weights, centres)
        assert now < last if any_made else now == last
        last = now
    assert (points[:k] + 0.25 == before).all()


@given(
    points=places,
    k=st.integers(2, 6),
    moves=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 11)), max_size=8),
)
def test_after_any_swaps_the_nearest_are_as_defined(points, k, moves):
    centres = points[:k].copy()
    nearest = _NearestPairs(points, centres)
    for j, to in moves:
        centres[j % k] = points[to]
        nearest.move(j % k, squares(points, points[to : to + 1])[:, 0], points, centres)
    expected = squares(points, centres)
    every = np.arange(len(points))
    assert (nearest.first != nearest.second).all()
    assert np.allclose(expected[every, nearest.first], np.sort(expected, axis=1)[:, 0])
    assert np.allclose(expected[every, nearest.second], np.sort(expected, axis=1)[:, 1])
    assert np.allclose([nearest.to_first, nearest.to_second], np.sort(expected, axis=1)[:, :2].T)


def test_points_are_looked_at_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch):
    points = np.random.default_rng(1).normal(size=(101, 3))
    whole = _NearestPairs(points, points[:7])
    monkeypatch.setattr(kmeans, "_BLOCK_CELLS", 70)
    blocks = _NearestPairs(points, points[:7])
    assert (whole.first == blocks.first).all()
    assert (whole.second == blocks.second).all()


@pytest.mark.parametrize("weights", [np.ones(6), np.zeros(6)], ids=["on every place", "nowhere"])
def test_where_nothing_costs_anything_nothing_moves(weights: np.ndarray):
    points = np.repeat([[1.0], [5.0]], 3, axis=0)
    centres, any_made = swap(points, points[[0, 3]], weights)
    assert (centres == points[[0, 3]]).all()
    assert not any_made


def test_points_without_weight_draw_no_centre():
    weights = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    for seed in range(20):
        assert 10.0 not in swap(LINE, np.array([[0.0], [500.0]]), weights, seed=seed)[0]
