"""Noise on all cells of a sparse table, and the large ones kept: as if all had been drawn."""

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import sparse_sampler
from dp_pipeline.gate.noise import ExactNoise, OpenDPNoise, SeededNoise
from dp_pipeline.gate.samplers import UniformIntegers
from dp_pipeline.gate.sparse_sampler import sparse_laplace
from dp_pipeline_tests.gate.distributions import ALARM, laplace_cdf

COUNTS = (0, 3, 0, 1)
"""A table of four cells, two of them empty."""

SCALE, THRESHOLD = Fraction(7, 3), 2
DRAWS = 1000

Outcome = tuple[int, ...]
"""What each cell shows: 0 below the threshold, else 1, 2, … for the threshold, one more, …"""


def chances(count: int) -> list[float]:
    """P(what a cell with this count shows); the last is for everything larger."""
    steps = np.arange(THRESHOLD - 1, THRESHOLD + 2) - count
    upto = laplace_cdf(steps, SCALE)
    return [*np.diff([0, *upto]), 1 - upto[-1]]


def shown(kept: np.ndarray) -> Outcome:
    cells = [0] * len(COUNTS)
    for key, noisy in kept.tolist():
        cells[key] = min(3, noisy - THRESHOLD + 1)
    return tuple(cells)


def p_value(draw: Callable[[], np.ndarray]) -> float:
    """Of what all cells show together, and each by itself, as independent discrete Laplace noise
    on each: the least of five, times five.
    """
    counts = Counter(shown(draw()) for _ in range(DRAWS))
    every = np.array(np.meshgrid(*[range(4)] * len(COUNTS), indexing="ij")).reshape(4, -1).T
    of_cells = [chances(count) for count in COUNTS]
    expected = [
        DRAWS * np.prod([p[at] for p, at in zip(of_cells, outcome, strict=True)])
        for outcome in every.tolist()
    ]
    pairs = [(counts[tuple(one)], e) for one, e in zip(every.tolist(), expected, strict=True)]
    common = [pair for pair in pairs if pair[1] >= 50]
    rare = np.sum([pair for pair in pairs if pair[1] < 50], axis=0)
    together = stats.chisquare(*np.array([*common, rare]).T).pvalue
    alone = [
        stats.chisquare(
            [sum(n for one, n in counts.items() if one[cell] == index) for index in range(4)],
            DRAWS * np.array(p),
        ).pvalue
        for cell, p in enumerate(of_cells)
    ]
    return 5 * float(min(together, *alone))


def drawing(seed: int) -> Callable[[], np.ndarray]:
    uniform = UniformIntegers(random.Random(seed).randbytes)
    asked = {"cells": len(COUNTS), "threshold": THRESHOLD, "uniform": uniform}
    return partial(sparse_laplace, np.array([[1, 3], [3, 1]]), SCALE, **asked)


def test_all_cells_together_are_as_if_each_had_its_own_noise() -> None:
    assert p_value(drawing(1)) > ALARM


def test_a_tail_that_begins_one_too_high_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    geometric = sparse_sampler.geometric_noise
    monkeypatch.setattr(sparse_sampler, "geometric_noise", lambda *of: geometric(*of) + 1)
    assert p_value(drawing(1)) < ALARM


def test_marks_on_occupied_cells_that_count_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "isin", lambda one, _: np.zeros(len(one), dtype=bool))
    assert p_value(drawing(1)) < ALARM


def test_as_many_marks_as_empty_cells_would_have_are_caught(monkeypatch):
    # The number is of all cells: drawn for the empty ones alone, half of the marks are lost.
    number = sparse_sampler.threshold_binomial
    monkeypatch.setattr(
        sparse_sampler, "threshold_binomial", lambda cells, *of: number(cells - 2, *of)
    )
    assert p_value(drawing(1)) < ALARM


every_source = pytest.mark.parametrize(
    "noise", [SeededNoise(1), ExactNoise(), OpenDPNoise()], ids=lambda one: one.name
)


@every_source
def test_a_table_larger_than_any_array_comes_in_order(noise) -> None:
    cells = 1 << 62
    keys = np.array([5, 7 << 40, cells - 1])
    occupied = np.stack([keys, [10**6, 3, 10**6]], axis=1)
    kept = noise.sparse_laplace(occupied, Fraction(10), cells=cells, threshold=380)
    assert kept.dtype == np.int64
    assert (np.diff(kept[:, 0]) > 0).all()
    assert (kept[:, 1] >= 380).all()
    assert {5, cells - 1} <= set(kept[:, 0].tolist())
    # 76 of the empty cells on average: below 20 or above 200 once in 10^12 runs.
    assert 20 < len(kept) < 200


@every_source
def test_an_empty_table_gives_noise_and_floats_are_refused(noise) -> None:
    empty = np.zeros((0, 2), dtype=np.int64)
    assert noise.sparse_laplace(empty, Fraction(1), cells=9, threshold=40).shape == (0, 2)
    kept = noise.sparse_laplace(empty, Fraction(1000), cells=1000, threshold=1)
    assert 300 < len(kept) < 700
    with pytest.raises(BoundaryViolation, match="must hold integers"):
        noise.sparse_laplace(empty.astype(float), Fraction(1), cells=9, threshold=1)


def test_different_numbers_are_a_uniform_set() -> None:
    uniform = UniformIntegers(random.Random(3).randbytes)
    sets = Counter(
        tuple(sparse_sampler._sample_distinct(2, 4, uniform).tolist()) for _ in range(DRAWS)
    )
    assert len(sets) == 6
    assert stats.chisquare(list(sets.values())).pvalue > ALARM
    assert sparse_sampler._sample_distinct(50, 50, uniform).tolist() == list(range(50))
