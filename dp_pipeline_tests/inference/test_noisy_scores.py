"""What a score is expected to be: exponential by itself, or near to what a tree predicts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.noisy_scores import CubeNoise, NoisyScores, NormalNoise, ScoreNoise

noisy_values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9).map(np.array)
MEANS = [30.0, 100.0, 300.0]


def cube(deviation: float) -> CubeNoise:
    return CubeNoise(60, deviation / CubeNoise(60, 1.0).variance ** 0.5)


both_noises = pytest.mark.parametrize("noise", [cube, NormalNoise], ids=["cube", "normal"])


def drawn(noise: ScoreNoise, rng: np.random.Generator, many: int) -> np.ndarray:
    if isinstance(noise, CubeNoise):
        radius = rng.gamma(noise.many + 1, noise.scale, many)
        return rng.uniform(-1, 1, many) * radius
    return rng.normal(0, noise.variance**0.5, many)


def scores_of(noisy: np.ndarray, noise: ScoreNoise, floor: float = 0.0) -> NoisyScores:
    return NoisyScores(noisy, np.full(len(noisy), floor), noise)


@given(noisy=noisy_values, deviation=st.floats(1e-3, 1e6), floor=st.floats(0, 1e6))
@both_noises
def test_scores_are_within_the_reach_of_noise(noise, noisy, deviation, floor):
    (expected, _), evidence = scores_of(noisy, noise(deviation), floor).expected(MEANS)
    assert np.isfinite(expected).all()
    assert np.isfinite(evidence)
    assert expected.min() >= 0
    assert (expected <= np.maximum(0.0, noisy + 6 * deviation) + 1e-6).all()


@both_noises
@pytest.mark.parametrize("deviation", [10.0, 100.0, 400.0])
def test_scores_are_nearer_than_noisy_ones_cut_at_zero(noise, deviation: float):
    # 2,000 scores of mean 100; a false alarm is less likely than 10⁻⁴.
    rng, noise = np.random.default_rng(8), noise(deviation)
    scores = rng.exponential(100.0, 2_000)
    noisy = scores + drawn(noise, rng, len(scores))
    (expected, squares), _ = scores_of(noisy, noise).expected(MEANS)
    assert np.square(expected - scores).mean() < np.square(np.maximum(0.0, noisy) - scores).mean()
    assert expected.mean() == pytest.approx(100.0, rel=0.4)
    assert squares.mean() == pytest.approx(2 * 100.0**2, rel=0.4)


@both_noises
def test_the_noise_of_one_way_marginals_is_taken_out(noise):
    # 20,000 scores; a false alarm is less likely than 10⁻⁹.
    rng, noise = np.random.default_rng(9), noise(29.0)
    scores = rng.exponential(100.0, 20_000)
    noisy = np.hypot(scores, 300.0) + drawn(noise, rng, len(scores))
    expected, with_it = (scores_of(noisy, noise, one).expected(MEANS)[0][0] for one in (300.0, 0.0))
    assert expected.mean() == pytest.approx(100.0, rel=0.25)
    assert np.square(expected - scores).mean() < np.square(with_it - scores).mean() / 4


@both_noises
def test_a_score_far_above_the_mean_is_taken_as_measured(noise):
    (expected, squares), _ = scores_of(np.array([1e6, 0.0]), noise(20.0)).expected(MEANS)
    assert [expected[0], squares[0] ** 0.5] == pytest.approx([1e6, 1e6], abs=20)
    scores = NoisyScores(np.array([5.0, 6.0, 7.0]), np.array([1.0, 2.0, 3.0]), noise(1.0))
    some = scores.of(np.array([2, 0]))
    assert (some.noisy.tolist(), some.floor.tolist()) == ([7.0, 5.0], [3.0, 1.0])
    assert some.noise is scores.noise


def measured(scores: np.ndarray, noise: ScoreNoise, floor: float = 0.0) -> NoisyScores:
    rng = np.random.default_rng(7)
    return scores_of(np.hypot(scores, floor) + drawn(noise, rng, len(scores)), noise, floor)


@pytest.mark.parametrize("floor", [0.0, 200.0])
@both_noises
def test_scores_near_to_their_prediction_are_known_better(noise, floor: float):
    # 3,000 scores, off by .2 of the noise's deviation; a false alarm is less likely than 10⁻⁹.
    rng = np.random.default_rng(6)
    prediction = rng.exponential(1000.0, 3000)
    scores = np.maximum(0.0, prediction + rng.laplace(0, 50.0, len(prediction)))
    noisy = measured(scores, noise(346.0), floor)
    (near, _), likely = noisy.expected_near(prediction)
    (alone, _), unlikely = noisy.expected([1000.0])
    assert likely > unlikely
    assert np.square(near - scores).mean() < np.square(alone - scores).mean() / 8


@both_noises
def test_a_wrong_prediction_is_unlikely(noise):
    rng, noise = np.random.default_rng(6), noise(170.0)
    prediction = rng.exponential(1000.0, 2000)
    off = rng.laplace(0, 1000.0, len(prediction))
    for scores in (3 * prediction, 0.3 * prediction, np.abs(prediction + off)):
        noisy = measured(scores, noise)
        assert noisy.expected_near(prediction)[1] < noisy.expected([float(scores.mean())])[1]


@given(
    many=st.integers(1, 400), scale=st.floats(0.5, 50), far=st.sampled_from([0.1, 0.5, 0.9, 1.1])
)
def test_cube_noise_is_as_likely_as_its_density(many: int, scale: float, far: float):
    # 60,000 draws of a radius; a false alarm in 60 cases is less likely than 10⁻⁶.
    noise, rng = CubeNoise(many, scale), np.random.default_rng(3)
    radius = rng.gamma(many + 1, scale, 60_000)
    limit = far * scale * (many + 1)
    expected = np.where(radius > limit, 1 / radius, 0.0).mean() * scale * many
    assert float(noise.density(np.array([limit]))[0]) == pytest.approx(expected, abs=0.02)
    assert noise.variance == pytest.approx(float((radius**2).mean()) / 3, rel=0.05)
