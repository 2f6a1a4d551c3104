"""The number of empty cells that reach a threshold: exact, however many cells there are."""

import random
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from dp_pipeline.gate import sparse_sampler
from dp_pipeline.gate.samplers import UniformIntegers
from dp_pipeline.gate.sparse_sampler import (
    MAX_CELLS,
    MAX_THRESHOLD_SCALES,
    expected_above_threshold,
    invert_distribution,
    threshold_binomial,
)
from dp_pipeline_tests.gate.distributions import ALARM

DRAWS = 2500
CASES = {
    "two cells": (2, 1, Fraction(1)),
    "a few cells": (18, 2, Fraction(7, 3)),
    "many cells": (10**6, 25, Fraction(2)),
    "as many cells as keys": (MAX_CELLS, 400, Fraction(10)),
    "half the noise": (40, 1, Fraction(1000)),
}


def words(seed: int) -> UniformIntegers:
    return UniformIntegers(random.Random(seed).randbytes)


def chance(threshold: int, scale: Fraction) -> float:
    return expected_above_threshold(1, threshold, scale)


def drawn(cells: int, threshold: int, scale: Fraction, seed: int = 1) -> np.ndarray:
    uniform = words(seed)
    return np.array([threshold_binomial(cells, threshold, scale, uniform) for _ in range(DRAWS)])


def p_value(numbers: np.ndarray, cells: int, p: float) -> float:
    """Of the numbers as draws of Binomial(cells, p), in bins that expect fifty and more."""
    law = stats.binom(cells, p) if cells < 2**31 else stats.poisson(cells * p)
    edges = np.unique(law.ppf(np.linspace(0, 1, 20)[1:-1]).astype(int))
    counts = np.histogram(numbers, [-1, *edges + 0.5, np.inf])[0]
    expected = DRAWS * np.diff([0, *law.cdf(edges), 1])
    kept = expected > 50
    counts = np.append(counts[kept], counts[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    kept = expected > 0
    return float(
        stats.chisquare(counts[kept], expected[kept] * DRAWS / expected[kept].sum()).pvalue
    )


@pytest.mark.chain
@pytest.mark.parametrize("case", CASES)
def test_the_number_is_binomial(case: str) -> None:
    cells, threshold, scale = CASES[case]
    numbers = drawn(cells, threshold, scale)
    assert ((numbers >= 0) & (numbers <= cells)).all()
    assert p_value(numbers, cells, chance(threshold, scale)) > ALARM


def test_a_threshold_one_row_too_low_is_caught() -> None:
    numbers = drawn(10**6, 24, Fraction(2))
    assert p_value(numbers, 10**6, chance(25, Fraction(2))) < ALARM


def test_the_expected_number_counts_the_tail_of_the_noise() -> None:
    x = np.arange(-2000, 2000)
    weights = np.exp(-np.abs(x) / 7.0)
    tail = weights[x >= 30].sum() / weights.sum()
    assert expected_above_threshold(1000, 30, Fraction(7)) == pytest.approx(1000 * tail)


def distribution(case: str, digits: int, upto: int) -> list[Decimal]:
    """F(0), F(1), … computed another way: each term by itself, from logarithms."""
    cells, threshold, scale = CASES[case]
    with localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        q = (-1 / (Decimal(scale.numerator) / scale.denominator)).exp()
        p = q**threshold / (1 + q)
        probabilities, total, log = [], Decimal(0), Decimal(0)
        for k in range(upto):
            total += (log + k * p.ln() + (cells - k) * (1 - p).ln()).exp()
            log += Decimal(cells - k).ln() - Decimal(k + 1).ln()
            probabilities.append(total)
        return probabilities


def bits_of(share: Decimal, bits: int) -> int:
    """The first bits of a number below 1."""
    with localcontext(Context(prec=400)):
        return int(share * (1 << bits))


@pytest.mark.parametrize("case", CASES)
def test_numbers_next_to_every_value_are_inverted_rightly(case: str) -> None:
    # 2^-120 is nearer than any draw will be, and far enough for 80 digits.
    cells, threshold, scale = CASES[case]
    for k, upto in enumerate(distribution(case, 120, min(cells, 30))):
        place = bits_of(upto, 128)
        for step in (-256, 256):
            told = invert_distribution(
                cells, threshold, scale, uniform_bits=place + step, bits=128, digits=80
            )
            assert told == (k if step < 0 else k + 1)


@pytest.mark.parametrize("case", CASES)
def test_numbers_too_near_to_a_value_need_more_digits(case: str) -> None:
    cells, threshold, scale = CASES[case]
    (upto,) = distribution(case, 300, 1)
    place = bits_of(upto, 300)
    for step in (-1000, 1000):
        asked = {"uniform_bits": place + step, "bits": 300}
        assert invert_distribution(cells, threshold, scale, digits=80, **asked) is None
        assert invert_distribution(cells, threshold, scale, digits=320, **asked) == (
            0 if step < 0 else 1
        )


def test_an_undecided_draw_gets_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def slowly(*of: object, uniform_bits: int, bits: int, digits: int) -> int | None:
        asked.append((uniform_bits, bits, digits))
        if digits < 320:
            return None
        return invert_distribution(*of, uniform_bits=uniform_bits, bits=bits, digits=digits)  # type: ignore[arg-type]

    monkeypatch.setattr(sparse_sampler, "invert_distribution", slowly)
    threshold_binomial(100, 3, Fraction(2), words(1))
    assert [question[1:] for question in asked] == [(128, 80), (256, 160), (384, 320)]
    # The bits that are known stay.
    assert all(late[0] >> 128 == early[0] for early, late in pairwise(asked))


def test_the_smallest_and_largest_inputs_are_answered() -> None:
    tiny = Fraction(1, 10**6)
    assert threshold_binomial(MAX_CELLS, MAX_THRESHOLD_SCALES, Fraction(1), words(1)) == 0
    assert threshold_binomial(MAX_CELLS, 1, tiny, words(1)) == 0
    assert threshold_binomial(1, 1, Fraction(2**55), words(1)) in (0, 1)
    # All digits of U are 1: F never gets there in 80 digits, and the last cell ends it.
    assert (
        invert_distribution(3, 1, Fraction(9), uniform_bits=(1 << 128) - 1, bits=128, digits=80)
        == 3
    )
