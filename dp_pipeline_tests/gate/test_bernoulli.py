"""Coins that fall True with probability exp(−x), and roots that are not too small."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dp_pipeline.gate import samplers
from dp_pipeline.gate.noise import root_at_least
from dp_pipeline.gate.samplers import UniformIntegers, bernoulli_exp_of_any
from dp_pipeline_tests.gate.distributions import ALARM

SIZE = 100_000

by_exponent = pytest.mark.parametrize(
    "x",
    [
        Fraction(0),
        Fraction(1, 3),
        Fraction(1),
        Fraction(7, 3),
        Fraction(5),
        Fraction(7, 3) + Fraction(1, 10**30),  # Python integers
    ],
    ids=str,
)


def chance(x: Fraction) -> float:
    """The p-value of SIZE coins against exp(−x)."""
    uniform = UniformIntegers(np.random.default_rng(1).bytes)
    small = max(x.numerator, x.denominator) < 2**63
    part = np.full(SIZE, x.numerator, np.int64 if small else object)
    came_true = int(bernoulli_exp_of_any(part, x.denominator, uniform).sum())
    return float(stats.binomtest(came_true, SIZE, math.exp(-x)).pvalue)


@by_exponent
def test_a_coin_falls_true_with_probability_exp_of_minus_x(x: Fraction) -> None:
    assert chance(x) > ALARM


def test_a_coin_without_whole_units_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = samplers.bernoulli_exp

    def always_for_a_unit(part, whole, uniform):
        return right(part, whole, uniform) | (whole == 1)

    monkeypatch.setattr(samplers, "bernoulli_exp", always_for_a_unit)
    assert chance(Fraction(7, 3)) < ALARM


def test_each_coin_has_its_own_exponent() -> None:
    uniform = UniformIntegers(np.random.default_rng(2).bytes)
    part = np.arange(10**5) % 5
    came_true = bernoulli_exp_of_any(part, 2, uniform)
    for place in range(5):
        mine = came_true[part == place]
        expected = math.exp(-place / 2)
        assert stats.binomtest(int(mine.sum()), mine.size, expected).pvalue > ALARM


@pytest.mark.parametrize("part", [np.full(1000, 2**62), np.full(1000, 10**400, object)])
def test_an_astronomical_exponent_is_false_at_once(part) -> None:
    uniform = UniformIntegers(np.random.default_rng(3).bytes)
    assert not bernoulli_exp_of_any(part, 1, uniform).any()
    assert bernoulli_exp_of_any(part[:0], 1, uniform).shape == (0,)


@settings(max_examples=150)
@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**40))
def test_a_root_is_never_too_small_and_hardly_too_large(square: Fraction) -> None:
    root = root_at_least(square)
    assert square <= root**2 < square * (1 + Fraction(1, 10**9)) ** 2
    assert Fraction(float(root)) == root


@pytest.mark.parametrize("square", [Fraction(1, 10**700), Fraction(2**110), Fraction(10**700)])
def test_integer_roots_are_right_at_any_size(square: Fraction) -> None:
    assert square <= root_at_least(square) ** 2 < square * (1 + Fraction(1, 10**9)) ** 2


def test_whole_roots_are_exact() -> None:
    assert [root_at_least(Fraction(n * n, 16)) for n in (1, 3, 10**6)] == [
        Fraction(1, 4),
        Fraction(3, 4),
        Fraction(10**6, 4),
    ]
