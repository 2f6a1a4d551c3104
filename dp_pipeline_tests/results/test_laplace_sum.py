"""The tail of a sum of discrete Laplace numbers equals its convolution, and its margin is tight."""

from fractions import Fraction
from functools import cache
from math import ceil

import numpy as np
import pytest

from dp_pipeline.results.bit_classes import margin_of_sum, tail_of_sum

SCALES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10)]
BETA = Fraction(1, 20)


@cache
def convolved(terms: int, scale: Fraction) -> tuple[np.ndarray, int]:
    """Probabilities of the sum, by summing products, and the place of 0; what is cut off has
    probability below 1e-20.
    """
    end = ceil(50 * scale) + 10
    q = np.exp(-1 / float(scale))
    single = (1 - q) / (1 + q) * q ** np.abs(np.arange(-end, end + 1))
    total = np.array([1.0])
    for _ in range(terms):
        total = np.convolve(total, single)
    return total, terms * end


@pytest.mark.parametrize("terms", [1, 2, 3, 10, 30])
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_tail_and_margin_are_those_of_the_convolution(terms: int, scale: Fraction):
    probabilities, zero = convolved(terms, scale)
    for above in (0, 1, 2, 5, 17, 60):
        expected = probabilities[zero + above + 1 :].sum()
        assert tail_of_sum(terms, scale, above) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    tails = probabilities[zero:][::-1].cumsum()[::-1]
    for beta in (Fraction(1, 2), BETA, Fraction(1, 1000)):
        margin = margin_of_sum(terms, scale, most=beta)
        assert tails[margin + 1] <= beta
        assert margin == 0 or tails[margin] > beta


@pytest.mark.parametrize(
    ("terms", "scale", "margin"),
    [
        (1, Fraction(1, 10**6), 0),
        (256, Fraction(1, 10**6), 0),
        # About 1.645 standard deviations of a normal number; about b·ln 10 of a Laplace one.
        (256, Fraction(3), 111),
        (1, Fraction(10**9), 2_302_585_093),
    ],
)
def test_no_scale_is_too_small_or_too_large(terms: int, scale: Fraction, margin: int):
    assert margin_of_sum(terms, scale, most=BETA) == pytest.approx(margin, abs=1, rel=1e-8)
