"""Ripple: no negative cell is left, the total stays, and marginals stay near."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.consistency import project_to_simplex, ripple
from dp_pipeline.results.measurement import marginal_of

AXES = tuple("abcdefgh")
shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


def noisy(shape: tuple[int, ...], seed: int, mean: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 10, shape)


@given(shape=shapes, seed=st.integers(0, 999), mean=st.sampled_from([-20.0, 0.0, 2.0, 50.0]))
def test_no_cell_is_negative_and_the_total_stays(shape: tuple[int, ...], seed: int, mean: float):
    table = noisy(shape, seed, mean)
    rippled = ripple(table)
    assert rippled.shape == shape
    assert (rippled >= 0).all()
    assert np.isclose(rippled.sum(), max(0.0, table.sum()))
    assert np.allclose(ripple(np.abs(table)), np.abs(table))


def test_a_negative_cell_takes_alike_from_its_neighbours():
    cube = [[[-6.0, 10], [10, 10]], [[10, 10], [10, 10]]]
    assert np.allclose(ripple(np.array(cube)), [[[0, 8], [8, 10]], [[8, 10], [10, 10]]])
    table = np.array([[-6.0, 9, 9], [9, 9, 9]])
    assert np.allclose(ripple(table), [[0, 7, 7], [7, 9, 9]])
    # (−8 → 0, 2 → −2, 9 → 5, 9), then −2 is taken from 0 and 9, and so on along the square.
    rippled = ripple(np.array([[-8.0, 2.0], [9.0, 9.0]]), tolerance=1e-9)
    assert rippled[0].tolist() == [0, 0]
    assert rippled.sum() == pytest.approx(12)
    assert rippled[1, 0] < rippled[1, 1]


def test_the_neighbours_are_walked_through_one_by_one_alike():
    """Another way: lists of neighbours instead of sums along axes."""
    table = noisy((2, 3, 2), 5, 4.0)
    cells = dict(np.ndenumerate(table))
    for _ in range(200):
        lacking = {at: min(value, 0.0) for at, value in cells.items()}
        cells = {at: max(value, 0.0) for at, value in cells.items()}
        for at, other in itertools.permutations(cells, 2):
            if sum(a != b for a, b in zip(at, other, strict=True)) == 1:
                cells[other] += lacking[at] / 4
    expected = np.array(list(cells.values())).reshape(2, 3, 2)
    assert np.allclose(ripple(table, tolerance=1e-9), expected, atol=1e-6)


def test_marginals_move_less_than_when_negative_cells_are_cut():
    """100 sparse tables of 256 cells with noise, of 1,920 rows: by how much the 8 one-way
    marginals move on average. Cut and scaled, every cell pays for noise that is anywhere. Seeded.
    """

    def moved(after: np.ndarray, before: np.ndarray) -> float:
        return float(np.mean([np.abs(marginal_of(after - before, AXES, (a,))) for a in AXES]))

    rippled, cut = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        table = rng.laplace(0, 8, (2,) * 8)
        table.ravel()[rng.integers(0, 256, 12)] += 160
        positive = np.maximum(table, 0)
        rippled.append(moved(ripple(table), table))
        cut.append(moved(positive * (table.sum() / positive.sum()), table))
    assert np.mean(rippled) < 0.7 * np.mean(cut)


def test_a_total_of_nothing_or_less_leaves_nothing():
    for table in (np.zeros((2, 2)), np.array([5.0, -9.0]), np.array(-3), np.array([5, -5])):
        assert not ripple(table).any()
    assert ripple(np.array(3)).item() == 3
    table = np.full((2,) * 8, -1.0)
    table[(0,) * 8] = 255.001
    rippled = ripple(table)
    assert (rippled >= 0).all()
    assert rippled.sum() == pytest.approx(table.sum())
    assert project_to_simplex(table, float(table.sum())).argmax() == rippled.argmax()
