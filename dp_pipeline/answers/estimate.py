"""Estimate: a number with its interval; and the rule that combines estimates over replicates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from numbers import Real
from statistics import NormalDist
from typing import Literal

import numpy as np

from dp_pipeline.config.errors import DeclarationError

Basis = Literal["measured", "bounded", "model"]
"""What an interval rests on. ``measured``: one released noisy table holds all columns of the
question, so the interval covers its noise alone.
``bounded``: every pair of the columns has a noisy table or score, and the interval is wider by what
these leave open.
``model``: some column or pair has neither, so the interval assumes that columns depend on each
other as they usually do.
"""


@dataclass(frozen=True)
class Estimate:
    """An estimate of a number from a release, with its interval.

    value        the estimate, in rows, shares or the unit of a column
    low, high    ends of its interval
    level        share of intervals computed like this that hold the true number, such as 0.95
    basis        what the interval rests on: see ``Basis``

    >>> Estimate(4120, 3890, 4350)
    Estimate(4120, low=3890, high=4350, level=0.95, basis='measured')
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    basis: Basis = "measured"

    def __repr__(self) -> str:
        value, low, high = (f"{number:.6g}" for number in (self.value, self.low, self.high))
        return (
            f"Estimate({value}, low={low}, high={high}, level={self.level}, basis={self.basis!r})"
        )

    @classmethod
    def within(
        cls,
        value: float,
        deviation: float,
        *,
        level: float,
        basis: Basis,
        least: float = -np.inf,
        most: float = np.inf,
    ) -> "Estimate":
        """Return ``value`` ± z · ``deviation``, where z is the quantile for ``level``, with ends
        clipped to ``least`` and ``most`` by ``clip``."""
        reach = quantile_of_normal(level) * deviation
        return cls(value, value - reach, value + reach, level, basis).clip(least, most)

    def clip(self, least: float, most: float) -> "Estimate":
        """Return the estimate with low at least ``least`` and high at most ``most``; where its
        value is outside of these, the end stays at the value."""
        low, high = max(least, self.low), min(most, self.high)
        return replace(self, low=min(low, self.value), high=max(high, self.value))


def require_number(value: object, *, of: str) -> None:
    """Raise DeclarationError unless a value is a real number; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DeclarationError(
            f"The {of} must be a number, such as 0.95, not a value of type {type(value).__name__}"
        )


def quantile_of_normal(level: float) -> float:
    """Return z, the standard deviations that a normal interval of a level reaches to either side.

    DeclarationError unless the level is a number between 0 and 1.

    >>> round(quantile_of_normal(0.95), 2)
    1.96
    """
    require_number(level, of="level of an interval")
    if not 0 < level < 1:
        raise DeclarationError(
            f"The level of an interval must be above 0 and below 1, such as 0.95, not {level}"
        )
    return NormalDist().inv_cdf((1 + level) / 2)


def combine(results: Sequence[tuple[float, float]], *, level: float = 0.95) -> Estimate:
    """Return one estimate combined from those of several replicates.

    results   (estimate, standard error) of each replicate, as if its rows were real; at least two
    level     of the interval

    Its basis is ``model``. DeclarationError for fewer results, and for anything but pairs of
    numbers.

    With m replicates, estimates q_i and squared errors u_i: q̄ is their mean, ū the mean of u_i and
    b the variance of q_i. The variance is ū + (1 + 1/m)·b, with (m − 1)·(1 + ū/((1 + 1/m)·b))²
    degrees of freedom.
    Source: Rubin (1987), equations 3.1.2 to 3.1.6; replicates are plausible true tables, as in
    Räisä et al. (2023), "Noise-aware statistical inference with differentially private synthetic
    data", so they combine as multiple imputations do.

    >>> combine([(1.0, 0.1), (1.2, 0.1), (0.9, 0.1)]).value.__round__(3)
    1.033"""
    try:
        pairs = np.array([(float(value), float(error)) for value, error in results])
    except (TypeError, ValueError):
        raise DeclarationError(
            "The results to combine must be pairs of two numbers, an estimate and its standard "
            "error, but one is not: pass [(4120.0, 35.0), …]"
        ) from None
    if len(pairs) < 2:
        raise DeclarationError(
            f"Two or more results are needed to combine them, not {len(pairs)}: draw more "
            "replicates"
        )
    estimates, errors = pairs.T
    m, within, between = len(estimates), float((errors**2).mean()), float(estimates.var(ddof=1))
    value, variance = float(estimates.mean()), within + (1 + 1 / m) * between
    normal = Estimate.within(value, sqrt(variance), level=level, basis="model")
    if between == 0:
        return normal
    from scipy.stats import t

    freedom = (m - 1) * (1 + within / ((1 + 1 / m) * between)) ** 2
    reach = float(t.ppf((1 + level) / 2, freedom)) * sqrt(variance)
    return Estimate(value, value - reach, value + reach, level, "model")
