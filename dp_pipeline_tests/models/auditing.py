"""A black-box audit: two neighbouring populations, many runs, one event, two exact bounds.

The event is chosen on one half of the runs and bounded on the other
(Clopper–Pearson), so the choice costs nothing. The certified ε is a lower
bound on the true one: above the claim it proves a violation; below, there is
no evidence of one, and no more than that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.samplers import geometric_noise
from dp_pipeline.models.base import Model, Released
from dp_pipeline.results.accountant import LAPLACE, NOISY_MAX
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.populations import Row

ALPHA = 1e-4
"""Chance that a sound model is certified above its claim, for one audit."""


class NextDraw(Exception):
    """A model asks for noise beyond the answers that it was given."""

    def __init__(self, mechanism: str, exact: IntArray, scale: Fraction) -> None:
        super().__init__("next draw")
        self.mechanism, self.exact, self.scale = mechanism, exact, scale

    def drawn(self, noise: SeededNoise, scale: Fraction, many: int) -> IntArray:
        """Independent answers at some scale, (many, m); a choice is one number."""
        tiled = np.tile(self.exact.ravel(), (many, 1))
        if self.mechanism == LAPLACE:
            return noise.discrete_laplace(tiled, scale)
        # ``noisy_argmax``, many at a time: geometric noise, ties to the lowest index.
        tiled += geometric_noise(tiled.size, scale, noise._uniform).reshape(tiled.shape)
        return tiled.argmax(axis=1)[:, None]


@dataclass
class GivenAnswers:
    """Answers in their order; NextDraw after the last."""

    answers: tuple[IntArray, ...]
    name: str = "given"
    is_releasable: bool = False
    given: int = 0

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        if self.given == len(self.answers):
            raise NextDraw(LAPLACE, counts, scale)
        self.given += 1
        return self.answers[self.given - 1].reshape(counts.shape)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        if self.given == len(self.answers):
            raise NextDraw(NOISY_MAX, scores, scale)
        self.given += 1
        return int(self.answers[self.given - 1][0])


Features = Callable[[Released], Sequence[float]]
"""A few numbers of what was released."""


@dataclass(frozen=True)
class Experiment:
    """A model, what is read off its release, and the noise (divided by ``cheaper``)."""

    model: Model
    features: Features
    epsilon: Fraction
    cheaper: Fraction = Fraction(1)

    def runs(self, rows: Sequence[Row], *, many: int, seed: int) -> NDArray[np.float64]:
        """The features of ``many`` independent runs over these rows, (many, m), in random order.

        Runs that have had the same answers so far go on together: what they ask next is the
        same (a model is a function of its transcript), and all their noise is drawn at once.
        """
        noise, found, repeats = SeededNoise(seed), [], []
        waiting: list[tuple[tuple[IntArray, ...], int]] = [((), many)]
        while waiting:
            answers, together = waiting.pop()
            try:
                found.append(self._features(rows, answers))
                repeats.append(together)
            except NextDraw as asked:
                noisy = asked.drawn(noise, asked.scale / self.cheaper, together)
                distinct, counts = np.unique(noisy, axis=0, return_counts=True)
                waiting += [
                    ((*answers, one), int(n)) for one, n in zip(distinct, counts, strict=True)
                ]
        every = np.repeat(np.array(found, dtype=float), repeats, axis=0)
        return np.random.default_rng(seed).permutation(every)

    def _features(self, rows: Sequence[Row], answers: tuple[IntArray, ...]) -> Sequence[float]:
        curator = curator_over(rows, epsilon=self.epsilon, noise=GivenAnswers(answers))
        rng = np.random.default_rng(1)
        return self.features(self.model.fit(curator, epsilon=self.epsilon, rng=rng))


_Event = Callable[[NDArray[np.float64]], NDArray[np.bool_]]


def certified_epsilon(
    one: NDArray[np.float64], other: NDArray[np.float64], *, alpha: float = ALPHA
) -> float:
    """A lower bound on ε, right with probability 1 − α, of features (n, m) of two neighbours.

    Events: all features at least, or all at most, some values of them.
    """
    half = len(one) // 2
    events = _events(np.concatenate([one[:half], other[:half]]))

    def bound(event: _Event, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        return _log_ratio(event(a).sum(), event(b).sum(), len(a), alpha)

    choices = list(product(events, (False, True)))

    def halves(swapped: bool, part: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return (other[part], one[part]) if swapped else (one[part], other[part])

    best, swapped = max(choices, key=lambda c: bound(c[0], *halves(c[1], slice(half))))
    return bound(best, *halves(swapped, slice(half, None)))


def _events(sample: NDArray[np.float64]) -> list[_Event]:
    levels = [np.unique(np.quantile(column, np.linspace(0, 1, 9))) for column in sample.T]

    def at_least(values: NDArray[np.float64]) -> _Event:
        return lambda features: (features >= values).all(axis=1)

    def at_most(values: NDArray[np.float64]) -> _Event:
        return lambda features: (features <= values).all(axis=1)

    corners = [np.array(corner) for corner in product(*levels)]
    return [kind(corner) for corner in corners for kind in (at_least, at_most)]


def _log_ratio(hits: int, other_hits: int, runs: int, alpha: float) -> float:
    """log of the lowest plausible P(event) over the highest plausible P'(event)."""
    if hits == 0:
        return -np.inf
    low = beta.ppf(alpha / 2, hits, runs - hits + 1)
    high = beta.ppf(1 - alpha / 2, other_hits + 1, runs - other_hits) if other_hits < runs else 1.0
    return float(np.log(low / high))
