"""A noisy table says how far its noise goes, whatever kind it is of."""

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest

from dp_pipeline.results.measurement import NoisyMarginal

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
