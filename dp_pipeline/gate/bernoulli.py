"""Coins that fall True with probability exp(−x), exact for every rational x ≥ 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.gate.discrete_laplace import bernoulli_exp
from dp_pipeline.gate.words import UniformIntegers, WholeNumbers


def bernoulli_exp_of_any(
    part: WholeNumbers, whole: int, uniform: UniformIntegers
) -> NDArray[np.bool_]:
    """True with probability exp(−part / whole), for each part ≥ 0, however large.

    part   int64, or Python integers (dtype object) where ``part`` or ``whole`` is too large

    Canonne, Kamath, Steinke 2020, Algorithm 1 for γ > 1: exp(−γ) is exp(−1) as often as γ has
    whole units, times exp(−rest). One unit is drawn for all at a time, and the first that fails
    decides: about ln(size) rounds, even if every γ is astronomical.
    """
    answer = np.ones(part.size, np.bool_)
    units = part // whole
    running = np.flatnonzero(units > 0)
    while running.size:
        came_true = bernoulli_exp(np.ones(running.size, np.uint16), 1, uniform)
        answer[running[~came_true]] = False
        running = running[came_true]
        units[running] -= 1
        running = running[units[running] > 0]
    left = np.flatnonzero(answer)
    answer[left] = bernoulli_exp(part[left] % whole, whole, uniform)
    return answer
