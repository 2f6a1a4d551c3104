"""Discrete Gaussian noise of the three sources: right distribution, right edges, right refusals.

False alarms: see ``distributions.ALARM`` (1e-8 a test, below 1e-6 for the folder).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dp_pipeline.gate import samplers
from dp_pipeline.gate.noise import ExactNoise, NoiseSource, OpenDPNoise, SeededNoise
from dp_pipeline.gate.samplers import UniformIntegers, gaussian_noise
from dp_pipeline_tests.gate.distributions import ALARM, fit, gaussian_cdf, same

SOURCES = [OpenDPNoise(), ExactNoise(), SeededNoise(1)]
VARIANCES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(100), Fraction(1000**2)]
INT64 = np.iinfo(np.int64)

by_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
by_our_source = pytest.mark.parametrize("source", SOURCES[1:], ids=lambda source: source.name)
by_variance = pytest.mark.parametrize("sigma2", VARIANCES, ids=str)


def draws(source: NoiseSource, size: int, sigma2: Fraction) -> NDArray[np.int64]:
    return source.discrete_gaussian(np.zeros(size, np.int64), sigma2)


@by_variance
@by_our_source
def test_our_noise_is_the_discrete_gaussian(source: NoiseSource, sigma2: Fraction) -> None:
    assert fit(draws(source, 200_000, sigma2), sigma2, gaussian_cdf) > ALARM


@by_variance
def test_our_noise_is_the_noise_of_opendp(sigma2: Fraction) -> None:
    theirs = draws(OpenDPNoise(), 20_000, sigma2)
    assert fit(theirs, sigma2, gaussian_cdf) > ALARM
    assert same(draws(ExactNoise(), 100_000, sigma2), theirs, sigma2, gaussian_cdf) > ALARM
    assert same(draws(SeededNoise(2), 100_000, sigma2), theirs, sigma2, gaussian_cdf) > ALARM


@pytest.mark.parametrize(
    ("sigma2", "nearly"),
    [
        (Fraction(5 * 10**8, 123_457), Fraction(5 * 10**8, 123_457)),  # squares pass 64 bits
        (Fraction(2**61 + 1, 2**58), Fraction(8)),
        (Fraction(7, 3) + Fraction(1, 10**30), Fraction(7, 3)),
        (Fraction(1, 2) - Fraction(1, 10**30), Fraction(1, 2)),
    ],
    ids=str,
)
def test_variances_of_many_digits_give_the_same_distribution(
    sigma2: Fraction, nearly: Fraction
) -> None:
    assert fit(draws(SeededNoise(3), 40_000, sigma2), nearly, gaussian_cdf) > ALARM


@pytest.mark.parametrize(("bits", "dtype"), [(100, np.int64), (140, object)])
def test_draws_of_any_size_stay_exact(bits: int, dtype: type) -> None:
    uniform = UniformIntegers(np.random.default_rng(8).bytes)
    drawn = gaussian_noise(4000, Fraction(2**bits), uniform)
    assert drawn.dtype == dtype
    thousandths = (drawn // 2 ** (bits // 2 - 10)).astype(np.int64)
    assert fit(thousandths, Fraction(2**20), gaussian_cdf) > ALARM


def one_percent_too_little_deviation(size: int, sigma2: Fraction, _) -> NDArray[np.int64]:
    return draws(SeededNoise(6), size, sigma2 * Fraction(98, 100))


def rounded_float_gaussian(size: int, sigma2: Fraction, _) -> NDArray[np.int64]:
    drawn = np.random.default_rng(6).normal(scale=float(sigma2) ** 0.5, size=size)
    return np.rint(drawn).astype(np.int64)


def every_proposal_kept(size: int, sigma2: Fraction, patch) -> NDArray[np.int64]:
    patch.setattr(samplers, "_accepted_gaussian", lambda proposed, *_: proposed)
    return draws(SeededNoise(6), size, sigma2)


def exponent_doubled(size: int, sigma2: Fraction, patch) -> NDArray[np.int64]:
    right = samplers.bernoulli_exp_of_any

    def doubled(part, whole, uniform):
        return right(2 * part, whole, uniform)

    patch.setattr(samplers, "bernoulli_exp_of_any", doubled)
    return draws(SeededNoise(6), size, sigma2)


@pytest.mark.parametrize(
    "mutant",
    [
        one_percent_too_little_deviation,
        rounded_float_gaussian,
        every_proposal_kept,
        exponent_doubled,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_a_wrong_sampler_is_caught(mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = mutant(400_000, Fraction(2), monkeypatch)
    assert fit(drawn, Fraction(2), gaussian_cdf) < ALARM


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**30), max_value=2**110))
def test_opendp_is_handed_no_less_noise_than_was_paid_for(sigma2: Fraction) -> None:
    from opendp import measurements

    handed: list[float] = []

    def watched(*_, scale: float):
        handed.append(scale)
        return list

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurements, "make_gaussian", watched)
        OpenDPNoise().discrete_gaussian(np.array([1]), sigma2)
    assert sigma2 <= Fraction(handed[0]) ** 2 < sigma2 * (1 + Fraction(3, 10**9))
