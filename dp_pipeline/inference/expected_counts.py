"""Expected counts: what a noisy table says of few rows, by what its cells have in common.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.inference.consistency import SMALLEST_VARIANCE
from dp_pipeline.inference.earlier import believed
from dp_pipeline.inference.noisy_scores import IMPOSSIBLE, NoisyScores, NormalNoise, ScoreNoise
from dp_pipeline.results.measurement import NoisyMarginal

OCCUPIED = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The part of the cells that may have rows; there is also the case that all have equally many."""


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise in one cell."""

    variance: float

    @property
    def reach(self) -> float:
        """Seven standard deviations: beyond are five cells in 100,000."""
        return 7 * sqrt(self.variance)

    def density(self, off: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-np.abs(off) * (2 / self.variance) ** 0.5))


def expected_table(measured: NoisyMarginal, rows: float) -> NoisyMarginal:
    """Return the mean of every cell given its noisy count, of sum ``rows``, as a noisy table.

    A cell has rows with a chance of one of ``OCCUPIED``, and then an exponential number of them;
    or all cells have equally many. Each of these counts as far as it makes the noisy table likely:
    one that is mostly noise comes out flat, one of few levels keeps them, and one of little noise
    stays as it is.
    """
    noisy, mean = measured.table.astype(np.float64).ravel(), rows / measured.table.size
    variance = max(measured.variance, SMALLEST_VARIANCE)
    noise = NormalNoise(variance**0.5) if measured.gaussian else LaplaceNoise(variance)
    cells = NoisyScores(noisy, np.zeros(len(noisy)), noise)
    means, evidence = [np.full(len(noisy), mean)], [_log_density(noise, noisy - mean).sum()]
    empty = _log_density(noise, noisy)
    for part in OCCUPIED:
        expected, likely = cells.integrate(cells.exponential(mean / part))
        either = np.logaddexp(likely + np.log(part), empty + np.log(max(1 - part, 1e-12)))
        means.append(expected * np.exp(likely + np.log(part) - either))
        evidence.append(either.sum())
    chances = np.exp(np.array(evidence) - max(evidence))
    table = (chances[:, None] * np.array(means)).sum(axis=0) / chances.sum()
    counts = np.rint(table * rows / max(float(table.sum()), 1.0)).astype(np.int64)
    return believed(measured.attributes, counts.reshape(measured.table.shape), variance)


def _log_density(noise: ScoreNoise, off: FloatArray) -> FloatArray:
    return np.log(np.maximum(noise.density(off), np.exp(IMPOSSIBLE)))
