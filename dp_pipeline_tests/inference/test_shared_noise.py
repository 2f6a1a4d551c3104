"""An amount is divided so that no bit of it would be better spent elsewhere."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.inference.shared_noise import SharedNoise
from dp_pipeline.results.measurement import NoiseRate

SIZES = {"a": 2, "b": 9, "c": 4, "d": 30}
EPSILON, RHO = NoiseRate(concentrated=False, distance=1), NoiseRate(concentrated=True, distance=1)

both_rates = pytest.mark.parametrize("rate", [EPSILON, RHO], ids=["epsilon", "rho"])


def shared(
    rate: NoiseRate, *, untold: float = 40.0, paid: float = 0.01, weighs: bool = False
) -> SharedNoise:
    gaps, weights = np.full((4, 4), untold), np.ones((4, 4))
    weights[0, 2] = weights[2, 0] = 7.0
    return SharedNoise(
        SIZES, SIZES, dict.fromkeys(SIZES, paid), gaps, rate, weights if weighs else None
    )


def error(problem: SharedNoise, tables, amounts) -> float:
    """Σ of all pairs' errors, by loops."""
    sizes, total = problem.sizes, 0.0
    names, paid = list(sizes), dict(problem.before)
    for name, amount in zip(names, amounts[len(tables) :], strict=True):
        paid[name] += amount
    known = {n: 1 / (sizes[n] * problem.rate.deviation(paid[n])) ** 2 for n in names}
    for table, amount in zip(tables, amounts, strict=False):
        cells = np.prod([sizes[n] for n in table])
        for n in table:
            known[n] += 1 / (cells * sizes[n] * problem.rate.deviation(amount) ** 2)
    for pair in combinations(names, 2):
        place = names.index(pair[0]), names.index(pair[1])
        own = [problem.untold[place] ** 2]
        for table, amount in zip(tables, amounts, strict=False):
            if set(pair) <= set(table):
                cells = np.prod([sizes[n] for n in table])
                free = (sizes[pair[0]] - 1) * (sizes[pair[1]] - 1)
                own.append(cells * free * problem.rate.deviation(amount) ** 2)
        told = min(own[1:], default=own[0])
        counted = 1.0 if problem.weights is None else problem.weights[place]
        total += counted * np.sqrt(1 / known[pair[0]] + 1 / known[pair[1]] + told)
    return float(total)


TABLES = [("a", "b"), ("b", "c", "d")]


@both_rates
@pytest.mark.parametrize("weighs", [False, True])
def test_the_error_left_is_that_of_what_is_measured(rate: NoiseRate, *, weighs: bool) -> None:
    for tables in (TABLES, []):
        problem = shared(rate, weighs=weighs)
        amounts = np.concatenate(problem.amounts(tables, 0.9))
        expected = error(problem, tables, amounts)
        assert problem.error(tables, 0.9) == pytest.approx(expected)


@both_rates
@pytest.mark.parametrize("weighs", [False, True])
def test_how_fast_the_error_falls_is_its_derivative(rate: NoiseRate, *, weighs: bool) -> None:
    problem, amounts = shared(rate, weighs=weighs), np.array([0.2, 0.3, 0.05, 0.1, 0.15, 0.2])
    telling, shares = problem.telling(TABLES), amounts[None] / amounts.sum()
    falls = problem.falls(telling, shares, float(amounts.sum()))[0]
    step = 1e-6
    slopes = []
    for at in range(len(amounts)):
        more, less = amounts.copy(), amounts.copy()
        more[at] += step
        less[at] -= step
        both = [error(problem, TABLES, one) for one in (more, less)]
        slopes.append((both[1] - both[0]) / (2 * step))
    ratios = np.array(slopes) / falls
    assert ratios == pytest.approx(np.full(len(ratios), ratios[0]), rel=1e-4)


@both_rates
@pytest.mark.parametrize("weighs", [False, True])
def test_no_move_of_amounts_gains(rate: NoiseRate, *, weighs: bool) -> None:
    problem = shared(rate, weighs=weighs)
    tables, singles = problem.amounts(TABLES, 1.0)
    amounts = np.concatenate([tables, singles])
    assert amounts.sum() == pytest.approx(1.0)
    least = error(problem, TABLES, amounts)
    for one, other in combinations(range(len(amounts)), 2):
        for sign in (1, -1):
            moved = amounts.copy()
            step = sign * 0.1 * min(amounts[one], amounts[other])
            moved[one] += step
            moved[other] -= step
            assert error(problem, TABLES, moved) > least * (1 - 1e-3)


def test_a_table_that_tells_a_one_way_leaves_less_for_it() -> None:
    problem = shared(EPSILON, paid=1e-3)
    _, alone = problem.amounts([("c", "d")], 1.0)
    _, told = problem.amounts([("a", "b")], 1.0)
    assert told[:2].sum() < alone[:2].sum()


def test_a_table_over_groups_tells_no_one_way_marginal() -> None:
    grouped = {**SIZES, "d": 3}
    problem = SharedNoise(SIZES, grouped, dict.fromkeys(SIZES, 0.01), np.zeros((4, 4)), EPSILON)
    assert problem.telling([("a", "d")]).ways.tolist() == [[[1 / 12, 0.0, 0.0, 0.0]]]
