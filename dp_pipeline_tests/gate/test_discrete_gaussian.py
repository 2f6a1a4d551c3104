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

from dp_pipeline.config.errors import BoundaryViolation
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


# Edges.


@by_source
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (2, 3, 4)], ids=str)
def test_noise_keeps_the_shape_and_leaves_its_input_alone(
    source: NoiseSource, shape: tuple[int, ...]
) -> None:
    counts = np.full(shape, 1000)
    noisy = source.discrete_gaussian(counts, Fraction(3))
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert not np.shares_memory(noisy, counts)
    assert (counts == 1000).all()


@by_source
def test_noise_is_added_in_place_in_any_memory_layout(source: NoiseSource) -> None:
    counts = np.arange(24).reshape(2, 3, 4) * 10**6
    for view in (counts.T, counts[:, ::-1, ::2], np.asfortranarray(counts)):
        assert np.abs(source.discrete_gaussian(view, Fraction(2)) - view).max() < 1000


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    counts=st.lists(st.integers(int(INT64.min), int(INT64.max)), min_size=1, max_size=6),
    sigma2=st.sampled_from([Fraction(1, 3), Fraction(10), Fraction(2**80), Fraction(2**110)]),
    seed=st.integers(0, 10),
)
def test_sums_saturate_at_the_ends_of_int64_and_never_wrap(
    counts: list[int], sigma2: Fraction, seed: int
) -> None:
    noise = draws(SeededNoise(seed), len(counts), sigma2)
    noisy = SeededNoise(seed).discrete_gaussian(np.array(counts, np.int64), sigma2)
    pairs = zip(counts, noise.tolist(), strict=True)
    assert noisy.tolist() == [min(max(c + x, int(INT64.min)), int(INT64.max)) for c, x in pairs]


def test_opendp_saturates_as_we_do() -> None:
    ends = np.array([INT64.max] * 50 + [INT64.min] * 50)
    noisy = OpenDPNoise().discrete_gaussian(ends, Fraction(100))
    assert noisy[:50].min() > INT64.max - 10**4
    assert noisy[50:].max() < INT64.min + 10**4


@by_source
@pytest.mark.parametrize("sigma2", [Fraction(1, 10**6), Fraction(1, 10**400)], ids=["6", "400"])
def test_the_smallest_variances_add_nothing(source: NoiseSource, sigma2: Fraction) -> None:
    assert source.discrete_gaussian(np.array([3, -5]), sigma2).tolist() == [3, -5]


@by_source
@pytest.mark.parametrize(
    "sigma2", [Fraction(0), Fraction(-1), 1.0, 1, None, 2**110 + Fraction(1, 9), Fraction(10**400)]
)
def test_a_variance_is_refused_by_its_public_value(source: NoiseSource, sigma2) -> None:
    with pytest.raises(BoundaryViolation, match="σ²") as refused:
        source.discrete_gaussian(np.array([4321]), sigma2)
    assert "4321" not in str(refused.value)
    with pytest.raises(BoundaryViolation, match="σ²"):
        source.discrete_gaussian(np.array([]).astype(int), sigma2)


@by_source
def test_a_source_refuses_what_is_not_an_integer_array(source: NoiseSource) -> None:
    for counts in (np.array([1.0]), np.array([True]), np.array([1], object), [1]):
        with pytest.raises(BoundaryViolation, match="expected an integer array"):
            source.discrete_gaussian(counts, Fraction(1))


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


def test_a_seed_gives_the_same_sequence_of_different_draws() -> None:
    one, two = SeededNoise(9), SeededNoise(9)
    first, second = draws(one, 1000, VARIANCES[3]), draws(one, 1000, VARIANCES[3])
    assert (first == draws(two, 1000, VARIANCES[3])).all()
    assert (second == draws(two, 1000, VARIANCES[3])).all()
    assert (first != second).any()


@pytest.mark.parametrize("source", SOURCES[:2], ids=lambda source: source.name)
def test_noise_for_releases_never_repeats(source: NoiseSource) -> None:
    first, second = (draws(type(source)(), 1000, Fraction(100)) for _ in range(2))
    assert (first != second).any()  # equal by chance: below 1e-1000
