"""An amount is divided so that no bit of it would be better spent elsewhere."""

from collections.abc import Mapping
from itertools import combinations, permutations

import numpy as np
import pytest

from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.expected_error import ExpectedError
from dp_pipeline.results.measurement import NoiseRate

SIZES = {"a": 2, "b": 9, "c": 4, "d": 30}
EPSILON, RHO = NoiseRate(concentrated=False, distance=1), NoiseRate(concentrated=True, distance=1)
TABLES = [("a", "b"), ("b", "c", "d")]

both_rates = pytest.mark.parametrize("rate", [EPSILON, RHO], ids=["epsilon", "rho"])
both_weights = pytest.mark.parametrize("weighs", [False, True])


def model(
    rate: NoiseRate,
    *,
    unexplained: float = 40.0,
    paid: float = 0.01,
    weighs: bool = False,
    grouped: Mapping[str, int] = SIZES,
) -> ExpectedError:
    scores, weights = np.full((4, 4), unexplained), np.ones((4, 4))
    weights[0, 2] = weights[2, 0] = 7.0
    return ExpectedError(
        SIZES,
        grouped,
        dict.fromkeys(SIZES, paid),
        Dependence(tuple(SIZES), scores, np.zeros((4, 4))),
        rate,
        weights if weighs else None,
    )


def error_by_loops(expected: ExpectedError, tables, amounts) -> float:
    """Σ of all pairs' errors."""
    sizes, total = expected.sizes, 0.0
    names, paid = list(sizes), dict(expected.paid)
    cells = [np.prod([sizes[n] for n in table]) for table in tables]
    noise = [expected.rate.mean_noise(amount) ** 2 for amount in amounts[: len(tables)]]
    for name, amount in zip(names, amounts[len(tables) :], strict=True):
        paid[name] += amount
    known = {n: 1 / (sizes[n] * expected.rate.mean_noise(paid[n])) ** 2 for n in names}
    for place, table in enumerate(tables):
        for n in table:
            known[n] += 1 / (cells[place] * sizes[n] * noise[place])
    for i, j in combinations(range(len(names)), 2):
        a, b = names[i], names[j]
        errors = [
            cells[place] * (sizes[a] - 1) * (sizes[b] - 1) * noise[place]
            for place, table in enumerate(tables)
            if {a, b} <= set(table)
        ]
        left = min(errors, default=expected.dependence.scores[i, j] ** 2)
        weight = 1.0 if expected.weights is None else expected.weights[i, j]
        total += weight * np.sqrt(1 / known[a] + 1 / known[b] + left)
    return float(total)


@both_rates
@both_weights
@pytest.mark.parametrize("tables", [TABLES, []])
def test_error_is_that_of_what_is_measured(rate: NoiseRate, tables, *, weighs: bool):
    expected = model(rate, weighs=weighs)
    amounts = np.concatenate(expected.divide(tables, 0.9))
    assert expected.least_error(tables, 0.9) == pytest.approx(
        error_by_loops(expected, tables, amounts)
    )


@both_rates
@both_weights
def test_falls_are_the_derivative_of_the_error(rate: NoiseRate, *, weighs: bool):
    expected, amounts = model(rate, weighs=weighs), np.array([0.2, 0.3, 0.05, 0.1, 0.15, 0.2])
    total, slopes = float(amounts.sum()), []
    falls = expected.slopes(expected.information(TABLES), amounts[None] / total, total)[0]
    for move in 1e-6 * np.eye(len(amounts)):
        more, less = (error_by_loops(expected, TABLES, amounts + s * move) for s in (1, -1))
        slopes.append(less - more)
    ratios = np.array(slopes) / falls
    assert ratios == pytest.approx(np.full(len(ratios), ratios[0]), rel=1e-4)


@both_rates
@both_weights
def test_no_move_of_amounts_gains(rate: NoiseRate, *, weighs: bool):
    expected = model(rate, weighs=weighs)
    amounts = np.concatenate(expected.divide(TABLES, 1.0))
    assert amounts.sum() == pytest.approx(1.0)
    least = error_by_loops(expected, TABLES, amounts)
    for giver, taker in permutations(range(len(amounts)), 2):
        moved, step = amounts.copy(), 0.1 * min(amounts[giver], amounts[taker])
        moved[giver] -= step
        moved[taker] += step
        assert error_by_loops(expected, TABLES, moved) > least * (1 - 1e-3)


def test_a_table_leaves_less_for_its_one_way_marginals():
    expected = model(EPSILON, paid=1e-3)
    _, alone = expected.divide([("c", "d")], 1.0)
    _, measured = expected.divide([("a", "b")], 1.0)
    assert measured[:2].sum() < alone[:2].sum()
    packed = [("a", "b"), ("c", "d")]
    of_tables, of_singles = model(EPSILON, paid=0.0).divide(packed, 0.7, singles=False)
    assert of_tables.sum() == pytest.approx(0.7)
    assert of_singles.tolist() == [0.0] * 4


def test_a_table_over_groups_says_no_one_way_marginal():
    expected = model(EPSILON, grouped={**SIZES, "d": 3})
    assert expected.information([("a", "d")]).precision.tolist() == [[[1 / 12, 0.0, 0.0, 0.0]]]


@both_rates
def test_numbers_of_tables_of_pairs_have_their_errors(rate: NoiseRate):
    expected = model(rate, unexplained=300.0)
    order = np.array([5, 0, 3, 1, 2, 4])
    pairs = [list(combinations(SIZES, 2))[place] for place in order]
    errors = [expected.least_error(pairs[:count], 2.0) for count in (0, 2, 6)]
    assert expected.errors_by_pair_count(order, [0, 2, 6], 2.0) == pytest.approx(errors, rel=0.01)
