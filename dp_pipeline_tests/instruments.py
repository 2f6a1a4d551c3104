"""Noise that remembers or forces what it answers, and curators over small populations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.release.accountant import LAPLACE, NOISY_MAX, Accountant
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline_tests.populations import TOWN, LoopCounter, Row

SILENT = Fraction(10**6)
"""At this ε the noise is 0 with probability above 1 − 10^(−1000) a cell."""


@dataclass(frozen=True)
class Draw:
    """What a noise source was handed, exact answers and the scale, and what it gave back."""

    mechanism: str
    exact: IntArray
    scale: Fraction
    answer: IntArray


@dataclass
class RecordingNoise:
    """Hands everything on to ``source`` and keeps it."""

    source: NoiseSource = field(default_factory=lambda: SeededNoise(1))
    draws: list[Draw] = field(default_factory=list)
    name: str = "recording"
    fit_for_release: bool = False

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        answer = self.source.discrete_laplace(counts, scale)
        self.draws.append(Draw(LAPLACE, counts.copy(), scale, answer.copy()))
        return answer

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        answer = self.source.noisy_max(scores, scale)
        self.draws.append(Draw(NOISY_MAX, scores.copy(), scale, np.array(answer)))
        return answer


@dataclass
class ForcedNoise:
    """The same answers whoever is asked: a function of the seed and of nothing exact.

    Any answer has positive probability under the mechanisms, so a run on forced
    answers is a possible run on every population.

    most   size of the answers, so that trees grow
    """

    seed: int
    most: int = 60
    name: str = "forced"
    fit_for_release: bool = False

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return self._rng.integers(-self.most // 3, self.most, counts.shape, dtype=np.int64)

    def noisy_max(self, scores: IntArray, _: Fraction) -> int:
        return int(self._rng.integers(scores.size))


@dataclass(frozen=True)
class NoiseOfContent:
    """Noise that a question with the same exact answer and scale always gets, however many were
    asked before.
    """

    name: str = "of content"
    fit_for_release: bool = False

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        return self._source(counts, scale).discrete_laplace(counts, scale)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        return self._source(scores, scale).noisy_max(scores, scale)

    def _source(self, exact: IntArray, scale: Fraction) -> SeededNoise:
        digest = hashlib.sha256(exact.tobytes() + str(scale).encode()).digest()
        return SeededNoise(int.from_bytes(digest[:6]))


@dataclass
class CheaperNoise:
    """A mutant: less noise than was paid for."""

    source: NoiseSource
    factor: Fraction
    name: str = "cheaper"
    fit_for_release: bool = False

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        return self.source.discrete_laplace(counts, scale / self.factor)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        return self.source.noisy_max(scores, scale / self.factor)


def curator_over(
    rows: Sequence[Row] | Counter | None,
    *,
    epsilon: Fraction = SILENT,
    reach: int = 1,
    noise: NoiseSource | None = None,
    transcript: Transcript | None = None,
    domain: Domain = TOWN,
) -> Curator:
    """A curator with a budget of ε; over rows, another counter, or (None) a transcript alone."""
    counter = LoopCounter(rows) if isinstance(rows, tuple | list) else rows
    return Curator(
        counter,
        domain=domain,
        reach=reach,
        accountant=Accountant(epsilon),
        transcript=Transcript() if transcript is None else transcript,
        noise=SeededNoise(1) if noise is None else noise,
    )
