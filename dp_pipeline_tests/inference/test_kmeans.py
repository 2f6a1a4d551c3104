"""k-means over noisy boxes: starts, packed spheres, swaps of centres, and a few weighted points.

Means of 20,000 draws of a coreset are compared at six standard errors, which are computed exactly:
a false alarm has probability below 2e-8 for all; the seeds are fixed.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.inference import kmeans
from dp_pipeline.inference.kmeans import (
    _NearestPairs,
    cluster_synopsis,
    dense_seeds,
    lightweight_coreset,
    pack_spheres,
    spread_seeds,
    swap_centres,
    uniform_places,
)
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


places = arrays(np.float64, (12, 2), elements=st.integers(-9, 9).map(float))
weights_of_all = arrays(np.float64, 12, elements=st.sampled_from([0.0, 0.5, 1.0, 100.0]))

LINE = np.array([[0.0], [0.0], [10.0], [10.0], [999.5], [1000.5]])
STUCK = np.array([[5.0], [999.5], [1000.5]])
"""Of cost 100: the two near pairs share a centre, the far pair has two. The optimum costs 0.5."""


def squares(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
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
        in_order = centres[np.lexsort(centres.round().T[::-1])]
        assert in_order == pytest.approx(np.array([[0.5, 5.0], [0.5, 59.5], [59.5, 0.5]]))


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


DRAWS, SIZE = 20_000, 50


def uneven() -> tuple[np.ndarray, np.ndarray]:
    """A dense group, a few points far away, and weights from 0.1 to 1000."""
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(size=(190, 2)), rng.normal(size=(10, 2)) + 50])
    return points, 10 ** rng.uniform(-1, 3, size=200)


ASKED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the weight": lambda points: np.ones(len(points)),
    "the cost of one centre": lambda points: squares(points, np.zeros((1, 2)))[:, 0],
    "the cost of two": lambda points: squares(points, np.array([[0.0] * 2, [50.0] * 2])).min(
        axis=1
    ),
}
"""Name → what each point adds, per unit of weight."""


@pytest.mark.parametrize("name", ASKED)
def test_weight_and_costs_are_right_in_expectation(name: str):
    points, weights = uneven()
    exact = weights * ASKED[name](points)
    rng, sums = np.random.default_rng(2), []
    for _ in range(DRAWS // SIZE):
        few, their_weights = lightweight_coreset(points, weights, size=SIZE, rng=rng)
        sums.append((their_weights * ASKED[name](few)).sum())
    share = weights / weights.sum()
    spread = share * ((points - share @ points) ** 2).sum(axis=1)
    chance = (share + spread / spread.sum()) / 2
    variance = (exact**2 / chance).sum() - exact.sum() ** 2
    assert abs(np.mean(sums) - exact.sum()) < 6 * np.sqrt(variance / DRAWS)


def test_as_many_points_as_asked_for_are_drawn_from_those_given():
    points, weights = uneven()

    def sampled(size: int) -> tuple[np.ndarray, np.ndarray]:
        return lightweight_coreset(points, weights, size=size, rng=np.random.default_rng(1))

    for size in (200, 201, 10**6):
        assert sampled(size)[0] is points
        assert sampled(size)[1] is weights
    (few, their_weights), again = sampled(SIZE), sampled(SIZE)
    assert few.shape == (SIZE, 2)
    assert set(map(tuple, few.tolist())) <= set(map(tuple, points.tolist()))
    assert (their_weights > 0).all()
    assert (few.tobytes(), their_weights.tobytes()) == tuple(part.tobytes() for part in again)
    points, weights = np.zeros((9, 1)), np.arange(1.0, 10.0)
    assert sampled(4)[1] == pytest.approx(np.full(4, 45 / 4))
