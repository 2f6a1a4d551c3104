"""What a gap is likely to be: exponential by itself, or near to what a tree says of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.noisy_gaps import FEWEST_SAID, NoisyGaps

fuzz = settings(derandomize=True, deadline=None, max_examples=60)
noisy_gaps = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9).map(np.array)


@dataclass(frozen=True)
class Uniform:
    """Noise in ± width."""

    width: float

    @property
    def reach(self) -> float:
        return self.width

    @property
    def variance(self) -> float:
        return self.width**2 / 3

    def density(self, off: np.ndarray) -> np.ndarray:
        return np.where(np.abs(off) <= self.width, 1.0, 0.0)

    def drawn(self, rng: np.random.Generator, many: int) -> np.ndarray:
        return rng.uniform(-self.width, self.width, many)


@dataclass(frozen=True)
class Normal:
    """Noise of that deviation."""

    width: float

    @property
    def reach(self) -> float:
        return 5 * self.width

    @property
    def variance(self) -> float:
        return self.width**2

    def density(self, off: np.ndarray) -> np.ndarray:
        return np.exp(-((off / self.width) ** 2) / 2)

    def drawn(self, rng: np.random.Generator, many: int) -> np.ndarray:
        return rng.normal(0, self.width, many)


both_noises = pytest.mark.parametrize("noise", [Uniform, Normal])


def gaps_of(noisy: np.ndarray, noise: Uniform | Normal, beside: float = 0.0) -> NoisyGaps:
    return NoisyGaps(noisy, np.full(len(noisy), beside), noise)


@fuzz
@given(noisy=noisy_gaps, width=st.floats(1e-3, 1e6), beside=st.floats(0, 1e6))
@both_noises
def test_likely_gaps_are_within_the_reach_of_noise(
    noise, noisy: np.ndarray, width: float, beside: float
) -> None:
    found = gaps_of(noisy, noise(width), beside).likely()
    assert np.isfinite(found).all()
    assert found.min() >= 0
    assert (found <= np.maximum(0.0, noisy + 5 * width) + 1e-6).all()


@fuzz
@given(noisy=noisy_gaps, width=st.floats(1e-3, 1e6))
@both_noises
def test_likely_gaps_keep_the_order_of_noisy_ones(noise, noisy: np.ndarray, width: float) -> None:
    found = gaps_of(noisy, noise(width)).likely()
    order = np.argsort(noisy, kind="stable")
    # The mean is over steps: a hundredth of the noise is below their width.
    assert (np.diff(found[order]) >= -0.01 * width).all()


@both_noises
def test_likely_gaps_are_nearer_than_noisy_ones_cut_at_zero(noise) -> None:
    # 20,000 gaps of mean 100; a false alarm is less likely than 10⁻⁹.
    rng = np.random.default_rng(8)
    gaps = rng.exponential(100.0, 20_000)
    for width in (10.0, 100.0, 1000.0):
        noisy = gaps + noise(width).drawn(rng, len(gaps))
        found = gaps_of(noisy, noise(width)).likely()
        cut = np.maximum(0.0, noisy)
        assert np.square(found - gaps).mean() < np.square(cut - gaps).mean()


@both_noises
def test_the_noise_of_one_way_marginals_is_taken_out(noise) -> None:
    # 20,000 gaps; a false alarm is less likely than 10⁻⁹.
    rng, noise = np.random.default_rng(9), noise(50.0)
    gaps = rng.exponential(100.0, 20_000)
    noisy = np.hypot(gaps, 300.0) + noise.drawn(rng, len(gaps))
    found, with_it = gaps_of(noisy, noise, 300.0).likely(), gaps_of(noisy, noise).likely()
    assert abs(found.mean() / gaps.mean() - 1) < 0.25
    assert np.square(found - gaps).mean() < np.square(with_it - gaps).mean() / 4
    independent = gaps_of(300.0 + noise.drawn(rng, 20_000), noise, 300.0).likely()
    assert independent.mean() < 50


@both_noises
def test_a_gap_far_above_the_mean_is_taken_as_measured(noise) -> None:
    noisy = np.zeros(2000)
    noisy[0] = 1e6
    assert gaps_of(noisy, noise(20.0)).likely()[0] == pytest.approx(1e6, abs=2)


def measured(gaps: np.ndarray, noise: Uniform | Normal, seed: int, beside: float = 0.0):
    rng = np.random.default_rng(seed)
    return gaps_of(np.hypot(gaps, beside) + noise.drawn(rng, len(gaps)), noise, beside)


@pytest.mark.parametrize("times", [0.9, 1.0, 1.15])
@pytest.mark.parametrize("beside", [0.0, 200.0])
@both_noises
def test_gaps_that_are_near_to_what_is_said_are_told_far_better(noise, beside, times) -> None:
    # 5,000 gaps, off by .2 of the noise's deviation; a false alarm is less likely than 10⁻⁹.
    rng = np.random.default_rng(6)
    said = rng.exponential(1000.0, 5000)
    noise = noise(600.0 if noise is Uniform else 346.0)
    gaps = np.maximum(0.0, times * said + rng.laplace(0, 50.0, len(said)))
    noisy = measured(gaps, noise, 7, beside)
    near, alone = noisy.likely_near(said), noisy.likely()
    assert near is not None
    assert np.square(near - gaps).mean() < np.square(alone - gaps).mean() / 8
    assert near.min() >= 0


@both_noises
def test_what_is_said_weighs_less_the_further_gaps_are_from_it(noise) -> None:
    rng, noise = np.random.default_rng(6), noise(300.0)
    said = rng.uniform(500.0, 1500.0, 4000)
    weights = []
    for off in (0.01, 0.25, 0.5):
        deviation = off * noise.variance**0.5
        noisy = measured(said + rng.laplace(0, deviation, len(said)), noise, 7)
        near = noisy.likely_near(said)
        assert near is not None
        weights.append(np.polyfit(noisy.noisy - said, near - said, 1)[0])
    assert weights[0] < 0.1
    assert 1.5 * weights[0] < weights[1]
    assert 1.2 * weights[1] < weights[2] < 1


@both_noises
def test_what_is_said_is_not_believed_of_gaps_that_are_others(noise) -> None:
    # 2,000 pairs. Twice as large, half as large, as large but far off, and independent attributes.
    rng, noise = np.random.default_rng(6), noise(300.0)
    said = rng.exponential(1000.0, 2000)
    off = rng.laplace(0, noise.variance**0.5, len(said))
    for gaps in (2 * said, 0.5 * said, np.abs(said + off), np.zeros(len(said))):
        assert measured(gaps, noise, 7).likely_near(said) is None
    assert measured(said, noise, 7).likely_near(said) is not None


@both_noises
def test_what_is_said_is_not_believed_in_much_noise(noise) -> None:
    # 2,000 gaps that are as said, of deviation 290: noise of 1.6 times that hides it.
    said = np.random.default_rng(6).uniform(500.0, 1500.0, 2000)
    for times, is_seen in ((1.0, True), (1.6, False)):
        width = 290 * times * (3**0.5 if noise is Uniform else 1)
        near = measured(said, noise(width), 7).likely_near(said)
        assert (near is not None) is is_seen
    alike = np.full(len(said), 1000.0)
    assert measured(alike, noise(10.0), 7).likely_near(alike) is None


def test_of_a_few_pairs_it_cannot_be_seen_whether_they_are_near() -> None:
    said = np.linspace(100, 900, FEWEST_SAID)
    noise = Normal(10.0)
    assert gaps_of(said, noise).likely_near(said) is not None
    assert gaps_of(said[1:], noise).likely_near(said[1:]) is None
    assert gaps_of(said[:0], noise).likely_near(said[:0]) is None


def test_some_pairs_are_taken_with_what_noise_puts_beside_them() -> None:
    gaps = NoisyGaps(np.array([5.0, 6.0, 7.0]), np.array([1.0, 2.0, 3.0]), Normal(1.0))
    some = gaps.of(np.array([2, 0]))
    assert some.noisy.tolist() == [7.0, 5.0]
    assert some.beside.tolist() == [3.0, 1.0]
    assert some.noise is gaps.noise
