"""A noisy table is drawn to flat, or to few levels, as far as its noise leaves open."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.inference.consistency import project_to_simplex
from dp_pipeline.inference.expected_counts import expected_table
from dp_pipeline.results.measurement import NoisyMarginal

both_noises = pytest.mark.parametrize("gaussian", [False, True], ids=["laplace", "gaussian"])


def noisy(counts: np.ndarray, scale: int, *, gaussian: bool, seed: int = 0) -> NoisyMarginal:
    noise, exact = SeededNoise(seed), Fraction(scale)
    draw = noise.discrete_gaussian if gaussian else noise.discrete_laplace
    return NoisyMarginal(
        ("a",),
        draw(counts, exact**2 if gaussian else exact),
        exact**2 if gaussian else exact,
        gaussian,
    )


@both_noises
def test_little_noise_leaves_a_table_as_it_is(*, gaussian: bool) -> None:
    counts = np.array([4000, 0, 2500, 30, 9000, 10])
    table = expected_table(noisy(counts, 3, gaussian=gaussian), float(counts.sum())).table
    assert np.abs(table - counts).max() < 40


@both_noises
def test_a_table_of_noise_is_flat(*, gaussian: bool) -> None:
    counts = np.random.default_rng(1).multinomial(200, np.full(50, 0.02))
    table = expected_table(noisy(counts, 400, gaussian=gaussian), 200.0).table
    assert table.min() >= 0
    assert np.abs(table - 4).sum() < 0.25 * 200


@both_noises
def test_levels_that_are_alike_come_out_alike(*, gaussian: bool) -> None:
    counts = np.full(50, 20)
    table = expected_table(noisy(counts, 15, gaussian=gaussian), 1000.0).table
    assert np.abs(table - counts).mean() < 3


@both_noises
@pytest.mark.parametrize("levels", [3, 40], ids=["few levels", "most levels"])
def test_cells_are_nearer_than_projected_ones(levels: int, *, gaussian: bool) -> None:
    errors = np.zeros(2)
    for seed in range(20):
        shares = np.random.default_rng(seed).dirichlet(np.full(levels, 5.0))
        counts = np.zeros(40, dtype=np.int64)
        counts[:levels] = np.random.default_rng(seed).multinomial(3000, shares)
        one = noisy(counts, 60, gaussian=gaussian, seed=seed)
        tables = expected_table(one, 3000.0).table, project_to_simplex(one.table, 3000.0)
        errors += [np.abs(table - counts).sum() for table in tables]
    assert errors[0] < errors[1] * (1.0 if levels == 40 else 1.1)
