"""The exponential mechanism over a vector of whole scores, exact for every rational scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_pipeline.gate.bernoulli import bernoulli_exp_of_any
from dp_pipeline.gate.discrete_laplace import IntArray
from dp_pipeline.gate.words import UniformIntegers, WholeNumbers

_BATCH = 1 << 12
"""Proposals at a time: many enough for NumPy, few enough where every proposal is a good one."""


def exponential_choice(scores: IntArray, scale: Fraction, uniform: UniformIntegers) -> int:
    """An index i with P(i) = exp(scores_i / scale) / Σ_j exp(scores_j / scale).

    scores   int64, at least one; ``mechanisms.choose_exponential`` says what the choice costs

    Rejection: propose an index uniformly, accept it with probability exp(−(max − score) / scale),
    and answer the first that is accepted.

    Proof. A proposal is index i *and* accepted with probability exp(−(max − scores_i)/scale)/m,
    for m candidates. Proposals are independent and alike, so given that one is the first to be
    accepted it is i with probability proportional to this, that is to exp(scores_i / scale):
    max and m are the same for every i. Drawing proposals in batches and reading them in order
    changes nothing, since what follows the first accepted one is thrown away. ∎

    The largest score accepts whenever it is proposed: m proposals are expected at most, even
    where one candidate has all the probability. About 3 ms for 4,000 candidates, 50 ms for 10^5.
    """
    gaps = _gaps(scores, scale)
    batch = min(scores.size, _BATCH)
    while True:
        proposed = uniform.below(scores.size, batch)
        accepted = bernoulli_exp_of_any(gaps[proposed], scale.numerator, uniform)
        first = np.flatnonzero(accepted)[:1]
        if first.size:
            return int(proposed[first[0]])


def _gaps(scores: IntArray, scale: Fraction) -> WholeNumbers:
    """(max − score) · d of every candidate, for scale = n / d; int64 where they and n fit."""
    top, bottom = int(scores.max()), int(scores.min())
    if max((top - bottom) * scale.denominator, scale.numerator) > np.iinfo(np.int64).max:
        wide: WholeNumbers = (top - scores.astype(object)) * scale.denominator
        return wide
    return np.asarray((top - scores) * scale.denominator)
