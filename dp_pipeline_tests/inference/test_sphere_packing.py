"""Packed spheres lie in the box, apart from one another, and read nothing but the box."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.inference.kmeans import pack_spheres, uniform_places
from dp_pipeline_tests.inference.test_seeding import BOX

SQUARE = (Coordinate(-1.0, 1.0), Coordinate(-1.0, 1.0))


def packed(k: int, box: tuple[Coordinate, ...] = SQUARE, seed: int = 1) -> np.ndarray:
    return pack_spheres(k, box, np.random.default_rng(seed))


def least_distance(places: np.ndarray) -> float:
    """Between any two places."""
    squares = ((places[:, None] - places) ** 2).sum(axis=2)
    return float(np.sqrt(squares[~np.eye(len(places), dtype=bool)].min()))


@settings(max_examples=40)
@given(
    k=st.integers(1, 40),
    bounds=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.001, 1e6)), min_size=1, max_size=5),
    seed=st.integers(0, 100),
)
def test_there_are_k_finite_places_inside_any_box(k, bounds, seed):
    box = tuple(Coordinate(lower, lower + width) for lower, width in bounds)
    places = packed(k, box, seed)
    assert places.shape == (k, len(box))
    for axis, interval in enumerate(box):
        assert (places[:, axis] >= interval.lower).all()
        assert (places[:, axis] <= interval.upper).all()


@pytest.mark.parametrize(("k", "seed"), [(k, seed) for k in (2, 5, 30, 300) for seed in range(3)])
def test_a_place_is_as_far_from_walls_as_from_neighbours(k: int, seed: int):
    places = packed(k, seed=seed)
    to_a_wall = (1 - np.abs(places)).min()
    radius = min(to_a_wall, least_distance(places) / 2)
    # Equal spheres of that radius fill a fair part of the square: random insertion stops
    # at 0.55 of the plane, walls take some of it, and nothing fills more than 0.91.
    assert 0.25 < k * np.pi * radius**2 / 4 < 0.91


def test_few_spheres_are_where_they_must_be():
    assert packed(1, BOX) == pytest.approx(np.array([[4.0, 0.0]]), abs=0.02)
    low, high = np.sort(packed(2, (Coordinate(0.0, 8.0),))[:, 0])
    assert low < 4 < high
    assert high - low > 3


def test_every_axis_is_packed_in_its_own_half_widths():
    square, flat = packed(20), packed(20, BOX)
    assert np.allclose(flat, square * [4.0, 1.0] + [4.0, 0.0])
    assert square.tobytes() == packed(20).tobytes()
    assert (square != packed(20, seed=2)).any()


def test_packed_places_are_further_apart_than_random_ones():
    for seed in range(5):
        random = uniform_places(50, SQUARE, np.random.default_rng(seed))
        assert least_distance(packed(50, seed=seed)) > 2 * least_distance(random)
