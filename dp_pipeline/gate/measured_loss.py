"""Lower bounds of the privacy loss of a charge by draws of its noise, to compare with the proof.

Two answers that differ by the sensitivity are noised many times. The ratio of the two frequencies
of an event, less its sampling error, is a lower bound of the loss (Ding, Wang, Wang, Zhang, Kifer
2018, "Detecting violations of differential privacy"). A bound above the claim is a fault; one below
it proves nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt

import numpy as np

from dp_pipeline.gate.noise import NoiseSource, parse_noise
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, Spend

DRAWS = 400_000
"""Draws of each of the two answers, by which a loss of 1 gets a bound of .98."""

SURE = 6.0
"""Standard errors that a bound lies below its estimate: it is wrong once in 10^9 charges."""


@dataclass(frozen=True)
class MeasuredLoss:
    """The proved and the measured privacy loss of a charge, for tables that differ by ``units``.

    mechanism, scale   of the charge

    units     number of protected units, such that the loss is near 1: draws hardly show a small one
    claimed   proved upper bound of the loss for that number of units
    seen      lower bound of the loss from the draws
    """

    mechanism: str
    scale: Fraction
    units: int
    claimed: float
    seen: float

    @property
    def is_violated(self) -> bool:
        return self.seen > self.claimed


def measure_loss(spend: Spend, noise: NoiseSource, *, draws: int = DRAWS) -> MeasuredLoss | None:
    """Draw the noise of a charge many times, and return its measured and its proved privacy loss;
    None unless the noise is discrete Laplace or Gaussian.

    draws   noisy values of each of two neighbouring answers
    """
    if spend.mechanism not in (LAPLACE, GAUSSIAN):
        return None
    zeros = np.zeros(draws, np.int64)
    if spend.mechanism == LAPLACE:
        # By group privacy k units have k times the loss, and a Laplace tail reaches it.
        loss = float(spend.epsilon_of_scale)
        units = max(1, round(1 / loss))
        event = units * spend.sensitivity
        claimed = units * loss
    else:
        # A Gaussian charge has a squared L2 sensitivity and a variance.
        deviation, reach = sqrt(spend.scale), max(1, round(sqrt(spend.sensitivity)))
        units = max(1, round(deviation / reach))
        event = units * reach
        # The log ratio of P(x ≥ event) for Gaussians with means ``event`` and 0.
        grid = np.arange(event, 2 * event + int(40 * deviation) + 2, dtype=float)
        tail_of_event, tail_of_zero = (
            float(np.exp(-((grid - mean) ** 2) / (2 * deviation**2)).sum()) for mean in (event, 0)
        )
        claimed = log(tail_of_event / tail_of_zero)
    draw = noise.discrete_laplace if spend.mechanism == LAPLACE else noise.discrete_gaussian
    first, second = draw(zeros + event, spend.scale), draw(zeros, spend.scale)
    seen = _bound(first, second, event)
    return MeasuredLoss(spend.mechanism, spend.scale, units, claimed, seen)


def measure_losses(spends: Iterable[Spend], source: str) -> list[MeasuredLoss]:
    """Return the measured privacy loss of charges, once for each different mechanism, sensitivity
    and noise scale.

    source   the name of the source of noise, as ``parse_noise`` takes it

    Charges whose noise is neither discrete Laplace nor Gaussian are left out.
    """
    noise = parse_noise(source)
    scales = {(spend.mechanism, spend.sensitivity, spend.scale): spend for spend in spends}
    losses = (measure_loss(spend, noise) for spend in scales.values())
    return [loss for loss in losses if loss is not None]


def _bound(first: np.ndarray, second: np.ndarray, event: int) -> float:
    """Return a lower bound ≥ 0, six standard errors below the estimate, of the log ratio of the
    frequencies of values ≥ ``event`` in two samples."""
    first_count, second_count = float((first >= event).sum()), float((second >= event).sum())
    if not first_count or not second_count:
        return 0.0
    n = len(first)
    error = sqrt((1 - first_count / n) / first_count + (1 - second_count / n) / second_count)
    return max(0.0, log(first_count / second_count) - SURE * error)
