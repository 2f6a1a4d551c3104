"""How far the noise of a table goes; and how tables share an amount with the least noise."""

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.results.measurement import NoiseRate, NoisyMarginal

CELLS = np.zeros(20_000, np.int64)
SCALES = [Fraction(1, 9), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(30), Fraction(1000)]


def moments(weight_of: list[float]) -> tuple[float, float]:
    """Mean |x| and variance, summed over 1, 2, … with these weights and once 0 with weight 1."""
    total = 1 + 2 * sum(weight_of)
    sums = [sum(x**power * w for x, w in enumerate(weight_of, 1)) for power in (1, 2)]
    return 2 * sums[0] / total, 2 * sums[1] / total


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_moments_are_the_sums_over_all_whole_numbers(scale: Fraction):
    numbers = range(1, 60 * max(30, int(scale)))
    laplace = moments([exp(-x / scale) for x in numbers])
    gaussian = moments([exp(-(x**2) / (2 * scale)) for x in numbers])
    for expected, kind in ((laplace, False), (gaussian, True)):
        noisy = NoisyMarginal(("a",), CELLS, scale, gaussian=kind)
        assert (noisy.mean_noise, noisy.variance) == pytest.approx(expected, rel=1e-9)


def test_moments_of_any_scale_are_finite_and_without_a_step():
    def noisy(scale: Fraction, *, gaussian: bool = True) -> NoisyMarginal:
        return NoisyMarginal(("a",), CELLS, scale, gaussian=gaussian)

    for scale, kind in product((Fraction(1, 10**9), Fraction(10**30)), (False, True)):
        assert 0 < noisy(scale, gaussian=kind).mean_noise < 1e31
        assert 0 < noisy(scale, gaussian=kind).variance < 1e61
    below, above = noisy(Fraction(10**4)), noisy(Fraction(10**4) + Fraction(1, 10**9))
    assert above.mean_noise == pytest.approx(below.mean_noise, rel=1e-5)
    assert above.variance == pytest.approx(below.variance, rel=1e-9)


both = pytest.mark.parametrize("concentrated", [False, True], ids=["Laplace", "Gaussian"])
weights = st.lists(st.floats(0.5, 1e4), min_size=1, max_size=6)


@both
@pytest.mark.parametrize("distance", [1, 7])
def test_deviation_and_variance_are_those_of_a_table(concentrated: bool, distance: int):
    amount = Fraction(1, 5000)
    scale = Fraction(distance**2) / (2 * amount) if concentrated else distance / amount
    table = NoisyMarginal(("a",), np.zeros(2, np.int64), scale, gaussian=concentrated)
    rate = NoiseRate(concentrated, distance)
    assert rate.mean_noise(float(amount)) == pytest.approx(table.mean_noise, rel=0.01)
    assert rate.variance(float(amount)) == pytest.approx(table.variance, rel=0.01)


@given(
    concentrated=st.booleans(),
    weights=weights,
    amount=st.floats(1e-4, 10),
    parts=st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
)
def test_no_split_of_the_amount_has_less_noise_than_the_shares(
    concentrated, weights, amount, parts
):
    rate = NoiseRate(concentrated, distance=3)

    def noise(shares: list[float]) -> float:
        amounts = [amount * share / sum(shares) for share in shares]
        return sum(w * rate.mean_noise(part) for w, part in zip(weights, amounts, strict=True))

    least = noise([rate.relative_share(weight) for weight in weights])
    assert noise(parts[: len(weights)]) >= least * (1 - 1e-9)


@both
def test_shares_for_an_exact_split_are_whole_and_at_least_one(concentrated: bool):
    shares = NoiseRate(concentrated, 1).integer_shares([0.0, 1e-9, 1.0, 4.0])
    assert shares[:3] == [1, 1, 1000]
    assert shares[3] == pytest.approx(1000 * 4 ** (2 / 3 if concentrated else 0.5), abs=1)
    assert all(type(share) is Fraction for share in shares)
