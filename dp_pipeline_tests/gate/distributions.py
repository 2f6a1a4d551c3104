"""Exact distributions and the goodness-of-fit tests that the gate's tests share."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.noise import ExactNoise, NoiseSource, OpenDPNoise, SeededNoise

ALARM = 1e-8
"""False-alarm rate of one statistical test. Fewer than 100 of them in this folder draw fresh
randomness, so the family-wise rate is below 1e-6; the seeded ones give the same result for ever.
Every bin below expects 50 draws and more, where the chi-square tail is good to a small factor."""

SCALES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10), Fraction(1000)]

SOURCES = [OpenDPNoise(), ExactNoise(), SeededNoise(1)]
by_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)

INT64 = np.iinfo(np.int64)
ADDED = ("discrete_laplace", "discrete_gaussian")
"""Both kinds of noise that are added to counts, of a scale and of a variance."""
CHOICES = ("noisy_max", "exponential_choice")

Cdf = Callable[[NDArray[np.int64], Fraction], NDArray[np.float64]]


def draws(source: NoiseSource, many: int, size: Fraction, kind: str = ADDED[0]) -> IntArray:
    return getattr(source, kind)(np.zeros(many, np.int64), size)


def laplace_cdf(x: NDArray[np.int64], scale: Fraction) -> NDArray[np.float64]:
    """P(X ≤ x) of the discrete Laplace."""
    q = math.exp(-1 / scale)
    above = np.power(q, np.maximum(x, 0) + 1.0) / (1 + q)
    return np.where(x >= 0, 1 - above, np.power(q, np.maximum(-x, 0) * 1.0) / (1 + q))


def geometric_cdf(x: NDArray[np.int64], scale: Fraction) -> NDArray[np.float64]:
    """P(X ≤ x) of the one-sided geometric."""
    return np.where(x >= 0, -np.expm1(-(np.maximum(x, 0) + 1.0) / float(scale)), 0.0)


def gaussian_cdf(x: NDArray[np.int64], sigma2: Fraction) -> NDArray[np.float64]:
    """P(X ≤ x) of the discrete Gaussian, by summing over 40 standard deviations."""
    distance = math.ceil(40 * math.sqrt(sigma2)) + 1
    support = np.arange(-distance, distance + 1)
    cumulated = np.cumsum(np.exp(-(support**2) / (2 * float(sigma2))))
    return cumulated[np.clip(x, -distance, distance) + distance] / cumulated[-1]


def exponential_probabilities(scores: tuple[int, ...], scale: float) -> list[float]:
    """P(index) of the exponential mechanism: ∝ exp(score / scale)."""
    weights = [math.exp((score - max(scores)) / scale) for score in scores]
    return [weight / math.fsum(weights) for weight in weights]


def log_probability_of_splits(
    biased: NDArray[np.int64], splits: Sequence[bool], scale: Fraction
) -> float:
    """ln P(these bits) when box j is split where biased_j + discrete Laplace > 0."""
    q, total = math.exp(-1 / scale), 0.0
    for b, split in zip(biased.tolist(), splits, strict=True):
        # P(X ≥ m); P(X ≤ −b) = P(X ≥ b), by symmetry.
        m = 1 - b if split else b
        total += math.log(q**m / (1 + q)) if m >= 1 else math.log1p(-(q ** (1 - m)) / (1 + q))
    return total


def fit(draws: NDArray[np.int64], scale: Fraction, cdf: Cdf = laplace_cdf) -> float:
    """The p-value of Pearson's chi-square test of ``draws`` against a distribution."""
    edges, probabilities = _bins(scale, cdf)
    expected = probabilities * draws.size
    assert expected.min() >= 50
    counted = np.bincount(np.searchsorted(edges, draws), minlength=expected.size)
    return float(stats.chisquare(counted, expected).pvalue)


def fit_of_choices(counts: NDArray[np.int64], chances: list[float]) -> float:
    """The p-value of Pearson's chi-square test of how often each index was chosen."""
    return float(stats.chisquare(counts, np.array(chances) * counts.sum()).pvalue)


def noisy_max_probabilities(scores: tuple[int, ...], scale: float) -> list[float]:
    """P(index) of noisy max with one-sided geometric noise, ties to the lowest, by enumeration."""
    q = math.exp(-1 / scale)

    def below(bound: int) -> float:
        return 1 - q ** max(bound, 0)

    def wins(i: int, x: int) -> float:
        """P(no other candidate beats the noisy score of i when its noise is x)."""
        top = scores[i] + x
        # Earlier ones win ties, so they must stay below; later ones may be level.
        return math.prod(below(top - score + (j > i)) for j, score in enumerate(scores) if j != i)

    last = math.ceil(45 * scale) + max(scores) - min(scores)  # the tail beyond is below 1e-19
    return [math.fsum((1 - q) * q**x * wins(i, x) for x in range(last)) for i in range(len(scores))]


def permute_and_flip_probabilities(scores: tuple[int, ...], scale: float) -> list[float]:
    """P(index) of permute-and-flip: in random order, take a candidate w.p. exp((s − max)/scale)."""
    heads = [math.exp((score - max(scores)) / scale) for score in scores]
    chances = [0.0] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        reached = 1 / math.factorial(len(scores))
        for i in order:
            chances[i] += reached * heads[i]
            reached *= 1 - heads[i]
    return chances


def _bins(scale: Fraction, cdf: Cdf) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Upper ends of about 32 bins (…, edge] of similar and exact probabilities, and those."""
    distance = math.ceil(12 * (math.sqrt(scale) if cdf is gaussian_cdf else scale)) + 2
    support = np.arange(-distance, distance)
    cumulated = cdf(support, scale)
    at = np.unique(np.searchsorted(cumulated, np.arange(1, 32) / 32))
    at = at[(cumulated[at] > 0.005) & (cumulated[at] < 0.995)]
    return support[at], np.diff(np.concatenate([[0.0], cumulated[at], [1.0]]))
