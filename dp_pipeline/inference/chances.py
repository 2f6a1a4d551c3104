"""Chances of one event, given features, that fit wanted sums and stay near where they start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.spec.encoding import FloatArray, IntArray

STEPS = 25
SETTLED = 1e-6
"""What sums may be off in the end, as a share of the rows."""

ENOUGH = 1e-4
"""Of what a step promises, that it has to bring; also the smallest part of a step."""


def fitted_chances(
    start: FloatArray, features: FloatArray, rows: IntArray, wanted: FloatArray, doubt: FloatArray
) -> FloatArray:
    """The chance in every group (g,) for which the event has the wanted sums of features.

    start      (g,) from 0 to 1; where it is 0 or 1 it stays
    features   (g, f)
    rows       (g,) of each group
    wanted     (f,) Σ over groups of rows · chance · feature
    doubt      (f,) above 0: what a sum may be off for one nat of its log-potential

    Nearest to ``start`` in relative entropy, Σ rows · KL(chance ‖ start), beside
    ½ Σ off² / doubt: its dual in the log-potentials is convex, and Newton's method minimises it.

    >>> start, features = np.array([0.5, 0.5]), np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> rows, wanted, doubt = np.array([50, 50]), np.array([50.0, 40.0]), np.array([1e-3, 1e-3])
    >>> fitted_chances(start, features, rows, wanted, doubt).round(2).tolist()
    [0.2, 0.8]
    """
    free = (start > 0) & (start < 1) & (rows > 0)
    if not free.any():
        return start
    wanted = wanted - (start * rows)[~free] @ features[~free]
    logits = np.log(start[free]) - np.log1p(-start[free])
    dual = _Dual(logits, features[free], rows[free].astype(np.float64), wanted, doubt)
    chances = start.copy()
    chances[free] = _chance(dual.minimum())
    return chances


def _chance(logits: FloatArray) -> FloatArray:
    # Half of a hyperbolic tangent: an exponential would overflow where a chance is next to 0.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logits))


@dataclass(frozen=True, eq=False)
class _Dual:
    """Σ rows · log(1 + exp(logits)) − ⟨wanted, θ⟩ + ½ Σ doubt · θ², with logits = start +
    features · θ.
    """

    start: FloatArray
    features: FloatArray
    rows: FloatArray
    wanted: FloatArray
    doubt: FloatArray

    def minimum(self) -> FloatArray:
        """The logits where it is least."""
        theta = np.zeros(len(self.wanted))
        value, logits = self._at(theta)
        for _ in range(STEPS):
            chance = _chance(logits)
            slope = (self.rows * chance) @ self.features - self.wanted + self.doubt * theta
            if np.abs(slope).max() <= SETTLED * self.rows.sum():
                break
            step = self._step(chance, slope)
            part, promised = 1.0, float(slope @ step)
            after, there = self._at(theta - step)
            while after > value - ENOUGH * part * promised and part > ENOUGH:
                part /= 2
                after, there = self._at(theta - part * step)
            if after >= value:
                break
            theta, value, logits = theta - part * step, after, there
        return logits

    def _at(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The value, and the logits."""
        logits = self.start + self.features @ theta
        told = float(self.wanted @ theta) - float(self.doubt @ theta**2) / 2
        return float(self.rows @ np.logaddexp(0.0, logits)) - told, logits

    def _step(self, chance: FloatArray, slope: FloatArray) -> FloatArray:
        weights = self.rows * chance * (1 - chance)
        curvature = (self.features * weights[:, None]).T @ self.features + np.diag(self.doubt)
        return np.asarray(np.linalg.solve(curvature, slope))
