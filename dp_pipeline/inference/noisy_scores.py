"""The expected dependence of pairs of attributes, given their noisy scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray

STEPS = 48
"""Numerical: values of a score over which its mean is computed."""

IMPOSSIBLE = -700.0
"""Numerical: log-likelihood of a score that no prior explains; e⁻⁷⁰⁰ is nearly the least float."""

WIDTHS = 0.05 * 2.0 ** np.arange(5)
"""Widths of a prediction's error that are tried, in standard deviations of the noise: a grid."""


@dataclass(frozen=True)
class NormalNoise:
    """Gaussian noise of a score, with a standard deviation in rows."""

    deviation: float

    @property
    def reach(self) -> float:
        """The largest noise considered, in rows: five standard deviations."""
        return 5 * self.deviation

    @property
    def variance(self) -> float:
        return self.deviation**2

    def density(self, off: FloatArray) -> FloatArray:
        """Return the density of the noise at these values, in rows, up to a factor."""
        return np.asarray(np.exp(-((off / self.deviation) ** 2) / 2))


@dataclass(frozen=True)
class CubeNoise:
    """The noise of the L∞ mechanism in one of ``many`` numbers: uniform in ±R, where R has a Gamma
    distribution of shape many + 1 and of ``scale``, in rows."""

    many: int
    scale: float

    @property
    def reach(self) -> float:
        """The largest noise considered, in rows: four standard deviations above the mean of R."""
        return self.scale * (self.many + 1 + 4 * sqrt(self.many + 1))

    @property
    def variance(self) -> float:
        """The variance of the noise, a third of the mean of R²."""
        return self.scale**2 * (self.many + 1) * (self.many + 2) / 3

    def density(self, off: FloatArray) -> FloatArray:
        """Return the density of the noise at each number of rows ``off``, up to a factor: the mean
        of 1/R, where an R below |off| counts as 0."""
        from scipy.special import gammaincc

        return np.asarray(gammaincc(self.many, np.abs(off) / self.scale))


ScoreNoise = NormalNoise | CubeNoise


@dataclass(frozen=True)
class NoisyScores:
    """Noisy scores of pairs of attributes: √(g² + b²) plus noise, for a dependence of g rows and a
    floor of b.

    noisy    (pairs,) measured scores, in rows
    floor    (pairs,) b, the rows by which the noise of one-way marginals raises them
    noise    noise of one score
    """

    noisy: FloatArray
    floor: FloatArray
    noise: ScoreNoise

    def of(self, places: IntArray) -> NoisyScores:
        """Return the noisy scores of the pairs at these positions alone."""
        return replace(self, noisy=self.noisy[places], floor=self.floor[places])

    def expected(self, means: Sequence[float], *, power: float = 1.0) -> tuple[FloatArray, float]:
        """Return the posterior means of each dependence g and of g² (2, pairs), in rows and squared
        rows, under equally likely exponential priors, and the log-likelihood of all scores.

        means   means of the priors, in rows
        power   exponent of each prior's likelihood: below 1 where pairs share noise
        """
        results = [self.integrate(self.exponential_prior(mean)) for mean in means]
        evidence = np.array([log_evidence.sum() for _, log_evidence in results])
        chances = np.exp(power * (evidence - evidence.max()))
        likely = sum(c * moments for c, (moments, _) in zip(chances.tolist(), results, strict=True))
        total = float(chances.sum())
        return np.asarray(likely / total), float(evidence.max() + np.log(total / len(means)))

    def expected_near(self, prediction: FloatArray) -> tuple[FloatArray, float]:
        """Return the posterior means of each dependence g and of g² (2, pairs), in rows and squared
        rows, under a Laplace prior around a prediction, and the log-likelihood of all scores.

        prediction   (pairs,) in rows; the width of the prior is the likeliest of ``WIDTHS``
        """
        widths = (np.sqrt(self.noise.variance) * WIDTHS).tolist()
        results = [self.integrate(self._laplace_prior(prediction, width)) for width in widths]
        likely, evidence = max(results, key=lambda result: float(result[1].sum()))
        return likely, float(evidence.sum() - np.log(len(widths)))

    @staticmethod
    def exponential_prior(mean: float) -> Callable[[FloatArray], FloatArray]:
        """Return the log-density of an exponential prior, as a function of dependences in rows.

        mean   of the prior, in rows
        """
        return lambda scores: -scores / mean - np.log(mean)

    @staticmethod
    def _laplace_prior(middle: FloatArray, width: float) -> Callable[[FloatArray], FloatArray]:
        # The part of the distribution that is above 0.
        above = np.log(width * (2 - np.exp(-middle / width)))[:, None]
        return lambda scores: -np.abs(scores - middle[:, None]) / width - above

    def integrate(
        self, log_prior: Callable[[FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the posterior means of each dependence g and of g² (2, pairs), in rows and squared
        rows, and the log-likelihood of each score (pairs,) up to a constant.

        log_prior   log-density of dependences in rows, (pairs, steps) → the same shape
        """
        noisy, reach, floor = self.noisy, self.noise.reach, self.floor
        low = np.sqrt(np.maximum(0.0, np.maximum(0.0, noisy - reach) ** 2 - floor**2))
        width = np.maximum(0.0, noisy + reach - low)
        steps = (np.arange(STEPS) + 0.5) / STEPS
        # Squares of steps: denser where an exponential distribution has its mass.
        scores = low[:, None] + width[:, None] * steps**2
        before = log_prior(scores)
        largest = before.max(axis=1, keepdims=True)
        weights = np.exp(before - largest) * steps
        weights *= self.noise.density(noisy[:, None] - np.hypot(scores, floor[:, None]))
        total = weights.sum(axis=1)
        # False where even a dependence of 0 would have a score far above the measured one.
        is_seen = total > 0
        # A weight stands for as many rows as there are between two steps.
        spacing = 2 * np.maximum(width, np.finfo(float).tiny) / STEPS
        evidence = np.log(np.where(is_seen, total, 1.0)) + np.log(spacing) + largest[:, 0]
        evidence = np.where(is_seen, evidence, IMPOSSIBLE)
        sums = np.stack([(weights * scores).sum(axis=1), (weights * scores**2).sum(axis=1)])
        return sums / np.where(is_seen, total, 1.0), evidence
