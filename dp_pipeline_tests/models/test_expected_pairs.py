"""The pairs that a plan foresees, and those that a release then measures."""

import tracemalloc
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.measurement import NoiseRate
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.discrete import domain_of

SURVEY = (8, 6, 10, 5, 9, 2, 7, 4, 12, 3, 6)
PURE = NoiseRate(concentrated=False, distance=1)


def counter_of(domain: Domain, rows: int, tie: float) -> MemoryCounter:
    """Rows of five hidden kinds, to which attributes are tied more or less."""
    rng, codes = np.random.default_rng(1), {}
    kinds = rng.integers(0, 5, rows)
    for name in domain.names:
        size = domain[name].size
        chances = 1 / np.arange(1, size + 1)
        free = rng.choice(size, rows, p=chances / chances.sum())
        is_tied = rng.random(rows) < tie * rng.uniform(0.2, 1.8)
        tied = rng.permutation(size)[kinds % size]
        codes[name] = np.where(is_tied, tied, free).astype(np.int32)
    return MemoryCounter(domain, coordinates={}, codes=codes, rows=rows)


def measured_pairs(domain: Domain, counter: MemoryCounter, epsilon: Fraction, seed: int) -> int:
    noise = SeededNoise(seed)
    curator = curator_over(counter, epsilon=epsilon, domain=domain, noise=noise)
    table = OneShot(synthetic_rows=10).fit(
        curator, epsilon=epsilon, rng=np.random.default_rng(seed)
    )
    tables = (sorted(one.attributes) for one in table.measured)
    return len({pair for names in tables for pair in combinations(names, 2)})


@pytest.mark.chain
@pytest.mark.parametrize(
    ("sizes", "rows", "tie", "epsilon"),
    [
        (SURVEY, 5000, 0.5, "0.05"),
        (SURVEY, 20_000, 0.3, "0.2"),
        (SURVEY, 20_000, 0.3, "1"),
        ((20,) * 8, 20_000, 0.4, "0.05"),
        ((20,) * 8, 20_000, 0.4, "1"),
        ((30,) * 12, 2000, 0.5, "1"),
        ((2, 3, 4, 5, 6, 7), 1000, 0.3, "0.05"),
        ((176, 80), 5000, 0.5, "1"),
    ],
)
def test_number_of_measured_pairs_was_foreseen_within_two(sizes, rows, tie, epsilon: str):
    """By any dependence between none and a strong one."""
    domain, amount = domain_of(sizes), Fraction(epsilon)
    foreseen = OneShot().expected_pairs(domain, rows, amount, PURE)
    assert foreseen is not None
    assert foreseen.total == len(sizes) * (len(sizes) - 1) // 2
    counter = counter_of(domain, rows, tie)
    for seed in range(3):
        measured = measured_pairs(domain, counter, amount, seed)
        assert foreseen.measured[0] - 2 <= measured <= foreseen.measured[-1] + 2


def test_a_forecast_of_many_attributes_takes_little_memory():
    tracemalloc.start()
    foreseen = OneShot().expected_pairs(domain_of((5,) * 60), 9822, Fraction(2), PURE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert foreseen.measured[0] < foreseen.measured[1] <= foreseen.measured[-1]
    assert peak < 200e6, "1,770 pairs tried at once take 3 GB"


def test_more_amount_or_rows_never_foresee_a_larger_error():
    errors = [
        OneShot().expected_pairs(domain_of(SURVEY), rows, amount, PURE).error
        for rows, amount in ((500, Fraction(1, 5)), (5000, Fraction(1, 5)), (5000, Fraction(2)))
    ]
    assert errors == sorted(errors, reverse=True)


def test_model_that_measures_no_pair_foresees_none():
    assert Independent().expected_pairs(domain_of(SURVEY), 100, Fraction(1), PURE) is None
