"""A few weighted points have the weight and the costs of all, in expectation.

Means of 20,000 draws are compared at six standard errors, which are computed exactly: a false alarm
has probability about 2e-9 for each of the six means, below 2e-8 for all; the seeds are fixed.
"""

from collections.abc import Callable

import numpy as np
import pytest

from dp_pipeline.inference.kmeans import lightweight_coreset

DRAWS, SIZE = 20_000, 50
ERRORS = 6

Sampler = Callable[..., tuple[np.ndarray, np.ndarray]]


def uneven() -> tuple[np.ndarray, np.ndarray]:
    """A dense group, a few points far away, and weights from 0.1 to 1000."""
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(size=(190, 2)), rng.normal(size=(10, 2)) + 50])
    return points, 10 ** rng.uniform(-1, 3, size=200)


def squares(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distance of every point to the nearest centre."""
    return ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)


ASKED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the weight": lambda points: np.ones(len(points)),
    "the cost of one centre": lambda points: squares(points, np.array([[0.0, 0.0]])),
    "the cost of two": lambda points: squares(points, np.array([[0.0, 0.0], [50.0, 50.0]])),
}
"""Name → what each point adds, per unit of weight."""


def deviation_in_errors(sampler: Sampler, name: str) -> float:
    """How far a mean of draws is from the sum over all points, in standard errors."""
    points, weights = uneven()
    exact = weights * ASKED[name](points)
    rng, found = np.random.default_rng(2), []
    for _ in range(DRAWS // SIZE):
        few, their_weights = sampler(points, weights, size=SIZE, rng=rng)
        found.append((their_weights * ASKED[name](few)).sum())
    share = weights / weights.sum()
    spread = share * ((points - share @ points) ** 2).sum(axis=1)
    chance = (share + spread / spread.sum()) / 2
    variance = (exact**2 / chance).sum() - exact.sum() ** 2
    return abs(np.mean(found) - exact.sum()) / np.sqrt(variance / DRAWS)


def of_one_weight(
    points: np.ndarray, weights: np.ndarray, *, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A mutant: what was drawn more often than its weight says is not lowered."""
    few, _ = lightweight_coreset(points, weights, size=size, rng=rng)
    return few, np.full(size, weights.sum() / size)


@pytest.mark.parametrize("name", ASKED)
def test_weight_and_costs_are_right_in_expectation(name: str):
    assert deviation_in_errors(lightweight_coreset, name) < ERRORS


@pytest.mark.parametrize("name", [name for name in ASKED if name != "the weight"])
def test_points_that_all_weigh_the_same_are_caught(name: str):
    assert deviation_in_errors(of_one_weight, name) > ERRORS


@pytest.mark.parametrize("size", [200, 201, 10**6])
def test_all_points_are_kept_as_they_are_when_they_are_few(size: int):
    points, weights = uneven()
    kept = lightweight_coreset(points, weights, size=size, rng=np.random.default_rng(1))
    assert kept[0] is points
    assert kept[1] is weights


def test_as_many_points_as_asked_for_are_drawn_from_those_given():
    points, weights = uneven()
    few, their_weights = lightweight_coreset(
        points, weights, size=SIZE, rng=np.random.default_rng(1)
    )
    assert few.shape == (SIZE, 2)
    assert set(map(tuple, few.tolist())) <= set(map(tuple, points.tolist()))
    assert (their_weights > 0).all()


def test_points_in_one_place_are_drawn_by_their_weights():
    points, weights = np.zeros((9, 1)), np.arange(1.0, 10.0)
    _, drawn = lightweight_coreset(points, weights, size=4, rng=np.random.default_rng(1))
    assert drawn == pytest.approx(np.full(4, 45 / 4))


def test_the_same_generator_draws_the_same_points():
    points, weights = uneven()
    first, again = (
        lightweight_coreset(points, weights, size=SIZE, rng=np.random.default_rng(3))
        for _ in range(2)
    )
    assert (first[0] == again[0]).all()
    assert (first[1] == again[1]).all()
