"""Levels of missing values: which noisy tables have rows there, and what is fitted without them."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.inference.missing_levels import complete_attributes, without_last_levels
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline_tests.models.discrete import domain_of

SCALE, DEVIATION = Fraction(10), 200**0.5
"""Of Laplace noise."""


def marginal(name: str, missing: float, *, gaussian: bool = False) -> NoisyMarginal:
    counts = np.array([500, 500, round(missing)])
    return NoisyMarginal((name,), counts, 2 * SCALE**2 if gaussian else SCALE, gaussian)


@pytest.mark.parametrize(
    ("missing", "count"),
    [
        pytest.param([0.7], 0, id="one attribute, less than its noise"),
        pytest.param([1.1], 1, id="one attribute, more than its noise"),
        pytest.param([2.2] + [0.0] * 15, 0, id="the largest noise of sixteen"),
        pytest.param([2.6] + [0.0] * 15, 1, id="one of sixteen"),
        pytest.param([2.1] * 2 + [0.0] * 14, 2, id="two of sixteen, each with less"),
        pytest.param([0.9] * 16, 16, id="sixteen with more than noise together"),
        pytest.param([0.7] * 16, 0, id="sixteen with less than noise"),
        pytest.param([], 0, id="no attribute"),
    ],
)
def test_rows_above_noise_are_missing_values(missing: Sequence[float], count: int):
    tables = [
        marginal(f"x{place}", deviations * DEVIATION, gaussian=True)
        for place, deviations in enumerate(missing)
    ]
    sizes = {f"x{place}": 3 for place in range(len(missing))}
    assert len(sizes) - len(complete_attributes(tables, sizes)) == count


@pytest.mark.parametrize("cells", [1, 4, 30])
def test_noise_alone_is_rarely_missing_values(cells: int):
    """Of 20 attributes in one of 20 releases at most: .05 ± .003 of 4,000, by Chernoff's bound."""
    sizes = {"a": 3, **{f"x{place}": 3 for place in range(19)}}
    silent = [marginal(name, -999) for name in sizes if name != "a"]
    noise = np.random.default_rng(1).laplace(0, float(SCALE), (4_000, cells, 3))
    tables = [NoisyMarginal(("b", "a"), np.rint(table).astype(int), SCALE) for table in noise]
    alarms = np.mean(["a" not in complete_attributes([one, *silent], sizes) for one in tables])
    assert 0.002 < alarms <= 0.05


def test_all_tables_tell_together():
    """Each of four tables alone is below the bound, all of them above."""
    sizes = dict.fromkeys("abcd", 3)
    tables = [marginal("a", 1.2 * DEVIATION)] * 4
    quiet = [marginal(name, 0) for name in "bcd"]
    assert "a" in complete_attributes([tables[0], *quiet], sizes)
    assert "a" not in complete_attributes([*tables, *quiet], sizes)
    grouped = NoisyMarginal(("a", "b"), np.full((2, 3), 400), SCALE)
    assert complete_attributes([grouped, marginal("b", -999)], {"a": 3, "b": 3}) == {"b"}


@pytest.mark.parametrize("groups", [None, (0, 1, 1), (0, 1, 2)])
def test_a_level_of_noise_alone_is_in_no_row(groups: tuple[int, ...] | None):
    """Also where it has a group of its own, and what was paid for stays as it was."""
    groupings = {} if groups is None else {"x0": Grouping(groups)}
    pair = np.array([[500, 0, 0], [0, 500, 0], [1, 1, 1]])
    if groups == (0, 1, 1):
        pair = np.array([[500, 0, 0], [1, 501, 1]])
    counted = NoisyMarginal((), np.array(1000), SCALE)
    measured = (counted, NoisyMarginal(("x0", "x1"), pair, SCALE))
    ways = None if groups is None else OneWays.of([marginal(n, 3) for n in ("x0", "x1")], counted)
    fitted = FittedRows(measured, {"x0": 3, "x1": 3}, ways, groupings)
    domain = domain_of((3, 3), nullable=True)
    drawn, before = (
        rows.draw_table(domain.names, domain, np.random.default_rng(1), lambda _: 1000)
        for rows in (fitted.without_missing(("x0",)), fitted)
    )
    assert drawn.probabilities(("x0",))[2] == 0
    assert drawn.probabilities(("x0",))[1] == pytest.approx(0.5, abs=0.02)
    assert drawn.measured == before.measured


def test_only_the_last_level_of_a_name_is_left_out():
    table = NoisyMarginal(("a", "b"), np.arange(6).reshape(2, 3), SCALE)
    assert without_last_levels(table, {"b"}).table.tolist() == [[0, 1], [3, 4]]
    assert without_last_levels(table, {"c"}).table.tolist() == table.table.tolist()
