"""Whatever the noise, there are k finite centres inside the box."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.inference import kmeans
from dp_pipeline.inference.kmeans import cluster_synopsis
from dp_pipeline.results.clusters import Synopsis
from dp_pipeline_tests.inference.test_seeding import BOX


def synopsis_of(weights: list[float], cells: int = 4) -> Synopsis:
    """A grid over the box whose first cells have these weights; the others are empty."""
    table = np.zeros(cells * cells)
    table[: len(weights)] = weights
    return Synopsis.of_grid(table.reshape(cells, cells), ("x", "y"), BOX)


def centres_of(synopsis: Synopsis, k: int, seed: int = 1) -> np.ndarray:
    return cluster_synopsis(synopsis, k=k, starts=3, rng=np.random.default_rng(seed))


@settings(max_examples=60)
@example(weights=[1e15, 1e-9, 1.0, 7.0], k=3)
@example(weights=[], k=20)
@example(weights=[5.0, 1.0], k=3)
@example(weights=[-1.0] * 15 + [2.0], k=16)
@given(weights=st.lists(st.floats(-1e6, 1e6), max_size=16), k=st.integers(1, 20))
def test_any_weights_give_k_finite_centres_inside_the_box(weights: list[float], k: int):
    centres = centres_of(synopsis_of(weights), k)
    assert centres.shape == (k, 2)
    assert np.isfinite(centres).all()
    for axis, interval in enumerate(BOX):
        assert (centres[:, axis] >= interval.lower).all()
        assert (centres[:, axis] <= interval.upper).all()


def test_centres_are_positive_boxes_or_their_weighted_mean():
    synopsis = synopsis_of([5.0, 0.0, 2.0, -1.0])
    assert centres_of(synopsis, 2).tolist() == synopsis.middles[[0, 2]].tolist()
    synopsis = synopsis_of([3.0, -9.0, 1.0])
    expected = (3 * synopsis.middles[0] + synopsis.middles[2]) / 4
    assert np.allclose(centres_of(synopsis, 1)[0], expected)
    empty = synopsis_of([])
    assert (centres_of(empty, 2, seed=1) != centres_of(empty, 2, seed=2)).all()


def test_any_number_of_threads_gives_the_same_bytes():
    synopsis = synopsis_of(np.random.default_rng(3).normal(size=3600).tolist(), cells=60)
    centres = set()
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            centres.add(centres_of(synopsis, 8).tobytes())
    assert len(centres) == 1


def far_groups() -> Synopsis:
    """Ten heavy boxes side by side in one corner, and one light box in each of two others."""
    table = np.zeros((60, 60))
    table[0, :10] = 1000.0
    table[0, 59] = table[59, 0] = 100.0
    return Synopsis.of_grid(table, ("x", "y"), (Coordinate(0.0, 60.0), Coordinate(0.0, 60.0)))


def test_one_start_finds_light_groups_that_are_far():
    # A start that draws its seeds in the corner alone has no way to the others but a swap.
    synopsis = far_groups()
    for seed in range(30):
        centres = cluster_synopsis(synopsis, k=3, starts=1, rng=np.random.default_rng(seed))
        found = centres[np.lexsort(centres.round().T[::-1])]
        assert found == pytest.approx(np.array([[0.5, 5.0], [0.5, 59.5], [59.5, 0.5]]))


def test_of_many_boxes_a_few_are_searched(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    table = np.where(rng.random((30, 30)) < 0.9, 1e-3, 0.0)
    table[:4, :4] = table[-4:, -4:] = 100.0
    box = (Coordinate(0.0, 30.0), Coordinate(0.0, 30.0))
    synopsis = Synopsis.of_grid(table, ("x", "y"), box)
    exact = cluster_synopsis(synopsis, k=2, starts=3, rng=np.random.default_rng(1))
    monkeypatch.setattr(kmeans, "MOST_SEARCHED", 50)
    searched = cluster_synopsis(synopsis, k=2, starts=3, rng=np.random.default_rng(1))
    # Both are where Lloyd's iterations stop, which is at steps below a thousandth of the spread.
    assert np.sort(searched, axis=0) == pytest.approx(np.sort(exact, axis=0), abs=0.01)
