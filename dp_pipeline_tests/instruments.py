"""Noise that remembers or forces what it answers, and curators over small populations."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Domain, Relation
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.gate.table_curator import PaidMarginals
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


def exact_tables(counter: Counter, marginals: Sequence[tuple[str, ...]]) -> list[IntArray]:
    """Return the exact tables of counts, opened without a charge."""
    return [table.open_at_the_gate() for table in counter.count(marginals)]


def dense(occupied: IntArray, cells: int) -> IntArray:
    """A small table with all its cells, of the key and count of those that are not empty."""
    assert cells <= 1 << 16, "expected a table small enough to compare"
    table = np.zeros(cells, dtype=np.int64)
    table[occupied[:, 0]] = occupied[:, 1]
    return table


MECHANISM_OF = {
    "discrete_laplace": LAPLACE,
    "sparse_laplace": LAPLACE,
    "refined_laplace": REFINED,
    "discrete_linf": LINF,
    "noisy_max": NOISY_MAX,
    "discrete_gaussian": GAUSSIAN,
    "exponential_choice": EXPONENTIAL,
}


class DrawingNoise:
    """A noise source whose methods, but for those that it has, are one: ``_draw`` of their name."""

    is_releasable = False

    def __getattr__(self, kind: str) -> Any:
        if kind not in MECHANISM_OF:
            raise AttributeError(kind)
        return partial(self._draw, kind)

    def sparse_laplace(self, occupied: IntArray, scale: Fraction, **cells: int) -> IntArray:
        return self._draw("sparse_laplace", occupied, scale, **cells)


@dataclass
class RecordingNoise(DrawingNoise):
    """Hands everything on to ``source`` and keeps it."""

    source: NoiseSource = field(default_factory=lambda: SeededNoise(1))
    draws: list[Draw] = field(default_factory=list)
    refined: list[tuple[IntArray, Fraction, Fraction]] = field(default_factory=list)
    name: str = "recording"

    def _draw(self, kind: str, exact: IntArray, *sizes: Any, **cells: int) -> Any:
        answer, scale = getattr(self.source, kind)(exact, *sizes, **cells), sizes[-1]
        if kind == "sparse_laplace":
            exact = dense(exact, cells["cells"])
        elif kind == "refined_laplace":
            first, coarser, finer = sizes
            self.refined.append((first.copy(), coarser, finer))
            scale = coarser * finer / (coarser - finer)
        self.draws.append(Draw(MECHANISM_OF[kind], exact.copy(), scale, np.array(answer)))
        return answer


@dataclass
class ForcedNoise(DrawingNoise):
    """Answers that nothing exact decides: a run on them is possible on every population.

    most   size of the answers, so that trees grow
    """

    seed: int
    most: int = 60
    name: str = "forced"

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        return self._rng.integers(-self.most // 3, self.most, counts.shape, dtype=np.int64)

    def sparse_laplace(self, *_: Any, cells: int, threshold: int, **__: Any) -> IntArray:
        keys = np.unique(self._rng.integers(0, cells, size=3))
        counts = threshold + self._rng.integers(0, self.most, size=len(keys))
        return np.stack([keys, counts], axis=1)

    def noisy_max(self, scores: IntArray, _: Fraction) -> int:
        return int(self._rng.integers(scores.size))

    def _draw(self, kind: str, exact: IntArray, *sizes: Any) -> Any:
        answer = self.noisy_max if kind == "exponential_choice" else self.discrete_laplace
        return answer(exact, sizes[-1])


@dataclass(frozen=True)
class NoiseOfContent(DrawingNoise):
    """Noise that the same exact answer and scale always get, however many came before."""

    name: str = "of content"

    def _draw(self, kind: str, exact: IntArray, *sizes: Any, **cells: int) -> Any:
        digest = hashlib.sha256(exact.tobytes() + str(sizes[-1]).encode()).digest()
        source = SeededNoise(int.from_bytes(digest[:6]))
        return getattr(source, kind)(exact, *sizes, **cells)


@dataclass
class CheaperNoise(DrawingNoise):
    """A mutant: less noise than was paid for, by a factor in every standard deviation."""

    source: NoiseSource
    factor: Fraction
    name: str = "cheaper"

    def _draw(self, kind: str, exact: IntArray, *sizes: Any, **cells: int) -> Any:
        factor = self.factor**2 if kind == "discrete_gaussian" else self.factor
        less = [size / factor if isinstance(size, Fraction) else size for size in sizes]
        return getattr(self.source, kind)(exact, *less, **cells)


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
    benchmark: bool = False,
    relation: Relation = "add_remove",
    paid_marginals: PaidMarginals | None = None,
) -> Curator:
    """A curator with a budget of ε, or of ρ, or that of an accountant; over rows, another counter,
    or (None) a transcript alone.
    """
    counter = LoopCounter(rows) if isinstance(rows, tuple | list) else rows
    executor = QueryExecutor(
        counter,
        Accountant(epsilon, currency) if accountant is None else accountant,
        Transcript() if transcript is None else transcript,
        SeededNoise(1) if noise is None else noise,
    )
    paid = {} if paid_marginals is None else paid_marginals
    return Curator(executor, domain, distance, benchmark, relation, paid)
