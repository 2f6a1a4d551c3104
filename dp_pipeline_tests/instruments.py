"""Noise that remembers or forces what it answers, and curators over small populations."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.results.accountant import (
    EXPONENTIAL,
    GAUSSIAN,
    LAPLACE,
    LINF,
    NOISY_MAX,
    REFINED,
    Accountant,
)
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.populations import TOWN, LoopCounter, Row

SILENT = Fraction(10**6)
"""At this ε the noise is 0 with probability above 1 − 10^(−1000) a cell."""


@dataclass(frozen=True)
class Draw:
    """What a noise source was handed, exact answers and the scale, and what it gave back.

    scale   of the discrete Gaussian: its σ²
    """

    mechanism: str
    exact: IntArray
    scale: Fraction
    answer: IntArray


def dense(occupied: IntArray, cells: int) -> IntArray:
    """A small table with all its cells, of the key and count of those that are not empty."""
    assert cells <= 1 << 16, "expected a table small enough to compare"
    table = np.zeros(cells, dtype=np.int64)
    table[occupied[:, 0]] = occupied[:, 1]
    return table


@dataclass
class RecordingNoise:
    """Hands everything on to ``source`` and keeps it."""

    source: NoiseSource = field(default_factory=lambda: SeededNoise(1))
    draws: list[Draw] = field(default_factory=list)
    refined: list[tuple[IntArray, Fraction, Fraction]] = field(default_factory=list)
    name: str = "recording"
    is_releasable: bool = False

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        answer = self.source.discrete_laplace(counts, scale)
        self.draws.append(Draw(LAPLACE, counts.copy(), scale, answer.copy()))
        return answer

    def sparse_laplace(
        self, occupied: IntArray, scale: Fraction, *, cells: int, threshold: int
    ) -> IntArray:
        answer = self.source.sparse_laplace(occupied, scale, cells=cells, threshold=threshold)
        self.draws.append(Draw(LAPLACE, dense(occupied, cells), scale, answer.copy()))
        return answer

    def refined_laplace(
        self, counts: IntArray, first: IntArray, scale: Fraction, finer: Fraction
    ) -> IntArray:
        self.refined.append((first.copy(), scale, finer))
        answer = self.source.refined_laplace(counts, first, scale, finer)
        added = scale * finer / (scale - finer)
        self.draws.append(Draw(REFINED, counts.copy(), added, answer.copy()))
        return answer

    def discrete_linf(self, counts: IntArray, scale: Fraction) -> IntArray:
        answer = self.source.discrete_linf(counts, scale)
        self.draws.append(Draw(LINF, counts.copy(), scale, answer.copy()))
        return answer

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        answer = self.source.noisy_max(scores, scale)
        self.draws.append(Draw(NOISY_MAX, scores.copy(), scale, np.array(answer)))
        return answer

    def discrete_gaussian(self, counts: IntArray, sigma2: Fraction) -> IntArray:
        answer = self.source.discrete_gaussian(counts, sigma2)
        self.draws.append(Draw(GAUSSIAN, counts.copy(), sigma2, answer.copy()))
        return answer

    def exponential_choice(self, scores: IntArray, scale: Fraction) -> int:
        answer = self.source.exponential_choice(scores, scale)
        self.draws.append(Draw(EXPONENTIAL, scores.copy(), scale, np.array(answer)))
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
    is_releasable: bool = False

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return self._rng.integers(-self.most // 3, self.most, counts.shape, dtype=np.int64)

    def sparse_laplace(self, *_: Any, cells: int, threshold: int, **__: Any) -> IntArray:
        keys = np.unique(self._rng.integers(0, cells, size=3))
        counts = threshold + self._rng.integers(0, self.most, size=len(keys))
        return np.stack([keys, counts], axis=1)

    def refined_laplace(
        self, counts: IntArray, _: IntArray, scale: Fraction, __: Fraction
    ) -> IntArray:
        return self.discrete_laplace(counts, scale)

    def discrete_linf(self, counts: IntArray, scale: Fraction) -> IntArray:
        return self.discrete_laplace(counts, scale)

    def noisy_max(self, scores: IntArray, _: Fraction) -> int:
        return int(self._rng.integers(scores.size))

    def discrete_gaussian(self, counts: IntArray, sigma2: Fraction) -> IntArray:
        return self.discrete_laplace(counts, sigma2)

    def exponential_choice(self, scores: IntArray, scale: Fraction) -> int:
        return self.noisy_max(scores, scale)


@dataclass(frozen=True)
class NoiseOfContent:
    """Noise that a question with the same exact answer and scale always gets, however many were
    asked before.
    """

    name: str = "of content"
    is_releasable: bool = False

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        return self._source(counts, scale).discrete_laplace(counts, scale)

    def sparse_laplace(
        self, occupied: IntArray, scale: Fraction, *, cells: int, threshold: int
    ) -> IntArray:
        source = self._source(occupied, scale)
        return source.sparse_laplace(occupied, scale, cells=cells, threshold=threshold)

    def refined_laplace(
        self, counts: IntArray, first: IntArray, scale: Fraction, finer: Fraction
    ) -> IntArray:
        return self._source(counts, finer).refined_laplace(counts, first, scale, finer)

    def discrete_linf(self, counts: IntArray, scale: Fraction) -> IntArray:
        return self._source(counts, scale).discrete_linf(counts, scale)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        return self._source(scores, scale).noisy_max(scores, scale)

    def discrete_gaussian(self, counts: IntArray, sigma2: Fraction) -> IntArray:
        return self._source(counts, sigma2).discrete_gaussian(counts, sigma2)

    def exponential_choice(self, scores: IntArray, scale: Fraction) -> int:
        return self._source(scores, scale).exponential_choice(scores, scale)

    def _source(self, exact: IntArray, scale: Fraction) -> SeededNoise:
        digest = hashlib.sha256(exact.tobytes() + str(scale).encode()).digest()
        return SeededNoise(int.from_bytes(digest[:6]))


@dataclass
class CheaperNoise:
    """A mutant: less noise than was paid for, by a factor in every standard deviation."""

    source: NoiseSource
    factor: Fraction
    name: str = "cheaper"
    is_releasable: bool = False

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        return self.source.discrete_laplace(counts, scale / self.factor)

    def sparse_laplace(
        self, occupied: IntArray, scale: Fraction, *, cells: int, threshold: int
    ) -> IntArray:
        less = scale / self.factor
        return self.source.sparse_laplace(occupied, less, cells=cells, threshold=threshold)

    def refined_laplace(
        self, counts: IntArray, first: IntArray, scale: Fraction, finer: Fraction
    ) -> IntArray:
        less = scale / self.factor, finer / self.factor
        return self.source.refined_laplace(counts, first, *less)

    def discrete_linf(self, counts: IntArray, scale: Fraction) -> IntArray:
        return self.source.discrete_linf(counts, scale / self.factor)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        return self.source.noisy_max(scores, scale / self.factor)

    def discrete_gaussian(self, counts: IntArray, sigma2: Fraction) -> IntArray:
        return self.source.discrete_gaussian(counts, sigma2 / self.factor**2)

    def exponential_choice(self, scores: IntArray, scale: Fraction) -> int:
        return self.source.exponential_choice(scores, scale / self.factor)


def curator_over(
    rows: Sequence[Row] | Counter | None,
    *,
    epsilon: Fraction = SILENT,
    distance: int = 1,
    noise: NoiseSource | None = None,
    transcript: Transcript | None = None,
    domain: Domain = TOWN,
    currency: Currency = PURE,
    accountant: Accountant | None = None,
    **declared: Any,
) -> Curator:
    """A curator with a budget of ε, or of ρ, or that of an accountant; over rows, another counter,
    or (None) a transcript alone.

    declared   ``benchmark`` and ``relation``, where they are not those of a release
    """
    counter = LoopCounter(rows) if isinstance(rows, tuple | list) else rows
    return Curator(
        counter,
        domain=domain,
        distance=distance,
        accountant=Accountant(epsilon, currency) if accountant is None else accountant,
        transcript=Transcript() if transcript is None else transcript,
        noise=SeededNoise(1) if noise is None else noise,
        **declared,
    )
