"""One-way marginals: how many rows they agree on, and shares near their counts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.fitted_tree import OneWays, estimate_rows
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal, variance

COLOUR, SMOKES = [500, 300, 200], [900, 100]
LEVELS = {"colour": 3, "smokes": 2}
huge = st.integers(-100, 100) | st.integers(-(2**62), 2**62)


def marginal(name: str, table: list[int], scale: str = "1") -> NoisyMarginal:
    return NoisyMarginal((name,), np.array(table), Fraction(scale))


def test_the_number_of_rows_is_a_weighted_mean_of_totals():
    first, second = marginal("colour", [10, 20, 30], "2"), marginal("smokes", [50, 50], "1/2")
    weights = 1 / np.array([3 * variance(first.scale), 2 * variance(second.scale)])
    expected = (weights * [60, 100]).sum() / weights.sum()
    assert estimate_rows((first, second)) == round(expected)
    silent = (marginal("colour", COLOUR, "1/10000"), marginal("smokes", [899, 101], "1/1000000"))
    assert estimate_rows(silent) == 1000
    for scale, rows in (("1/1000", 200), ("1000000", 100)):
        counted = NoisyMarginal((), np.array(200), Fraction(scale))
        assert OneWays.of([marginal("smokes", [50, 50])], counted).rows == rows


@pytest.mark.parametrize("table", [[-5, 1, 1], [0, 0, 0], [-(2**62), 0, 0]])
def test_there_are_never_fewer_than_no_rows(table: list[int]):
    assert estimate_rows((marginal("colour", table),)) == 0
    assert OneWays.of([marginal("colour", table)]).rows == 1


@given(
    colour=st.lists(huge, min_size=3, max_size=3),
    smokes=st.lists(st.integers(-100, 100), min_size=2, max_size=2),
    pair=st.lists(st.integers(-100, 100), min_size=6, max_size=6),
)
def test_any_noisy_counts_give_shares_and_at_least_one_row(colour, smokes, pair):
    both = NoisyMarginal(("smokes", "colour"), np.array(pair).reshape(2, 3), Fraction(1))
    for ways in (
        OneWays.of([marginal("colour", colour), marginal("smokes", smokes)]),
        OneWays.within([both], {"colour": 3, "smokes": 2}),
    ):
        assert ways.rows >= 1
        assert {name: len(levels) for name, levels in ways.shares.items()} == LEVELS
        for levels in ways.shares.values():
            assert (levels >= 0).all()
            assert levels.sum() == pytest.approx(1)


def test_shares_are_those_of_the_counts_where_these_add_up():
    ways = OneWays.of([marginal("colour", COLOUR), marginal("smokes", SMOKES)])
    assert ways.shares["colour"].tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert ways.shares["smokes"].tolist() == pytest.approx([0.9, 0.1])
    assert [marginal.attributes for marginal in ways.measured] == [("colour",), ("smokes",)]
    # Over groups they have sums and noise.
    groups = {"colour": Grouping((0, 0, 1)), "smokes": Grouping((0, 1))}
    colour, smokes = ways.grouped(groups)
    assert (colour.table.tolist(), smokes.table.tolist()) == ([800, 200], SMOKES)
    assert smokes.variance == ways.measured[1].variance
    assert colour.variance * 2 == pytest.approx(ways.measured[0].variance * 3)


def test_two_tables_of_an_attribute_count_by_their_noise():
    # Variances of 4 and 1, about: the mean is a fifth and four fifths.
    first = NoisyMarginal(("smokes",), np.array([100, 0]), Fraction(400), gaussian=True)
    second = NoisyMarginal(("smokes",), np.array([0, 100]), Fraction(100), gaussian=True)
    ways = OneWays.of([first, second])
    assert ways.rows == 100
    assert ways.shares["smokes"].tolist() == pytest.approx([0.2, 0.8])


def test_one_ways_inside_larger_tables_are_their_sums():
    pair = NoisyMarginal(("smokes", "colour"), np.array([[5, 1, 0], [2, 1, 1]]), Fraction(1))
    ways = OneWays.within([pair], {"colour": 3, "smokes": 2})
    assert (ways.rows, ways.measured) == (pytest.approx(10), ())
    assert ways.shares["smokes"].tolist() == pytest.approx([0.6, 0.4])
    assert ways.shares["colour"].tolist() == pytest.approx([0.7, 0.2, 0.1])
