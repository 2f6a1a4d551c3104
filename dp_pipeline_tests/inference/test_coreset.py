"""A few weighted points have the weight and the costs of all, in expectation.

Means of 20,000 draws are compared at six standard errors, which are computed exactly: a false alarm
has probability about 2e-9 for each of the six means, below 2e-8 for all; the seeds are fixed.
"""

from collections.abc import Callable

import numpy as np
import pytest

from dp_pipeline.inference.kmeans import lightweight_coreset

DRAWS, SIZE = 20_000, 50


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
