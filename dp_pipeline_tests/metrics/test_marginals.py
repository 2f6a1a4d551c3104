"""Which sets of attributes are compared, and the error of a number that noise moves."""

from collections import Counter
from itertools import chain, combinations

import numpy as np
import pytest

from dp_pipeline.metrics.marginals import (
    MOST_PAIRS,
    MOST_TRIPLES,
    MOST_WAYS,
    REDRAWS,
    attribute_sets,
    redraw_error,
)


def test_all_sets_are_compared_where_they_are_few():
    names = tuple("abcde")
    assert attribute_sets(names, 2) == tuple(combinations(names, 2))
    assert attribute_sets(names, 5) == (names,)
    assert attribute_sets(names, 6) == ()


@pytest.mark.parametrize(("k", "most"), [(2, MOST_PAIRS), (3, MOST_TRIPLES), (6, MOST_WAYS)])
def test_sample_of_sets_depends_on_names_only(k, most):
    names = tuple(f"x{position}" for position in range(86))
    chosen = attribute_sets(names, k)
    assert chosen == attribute_sets(names, k)
    assert len(chosen) == len(set(chosen)) == most
    for attributes in chosen:
        assert attributes == tuple(sorted(set(attributes), key=names.index))
        assert len(attributes) == k
    assert chosen != attribute_sets(names[::-1], k)


def test_a_sample_takes_every_attribute_about_as_often():
    # Each of 40 attributes is in 3·500/40 = 37.5 of the sets, deviation 5.9: six of those.
    names = tuple(f"x{index}" for index in range(40))
    times = Counter(chain.from_iterable(attribute_sets(names, 3)))
    assert set(times) == set(names)
    assert min(times.values()) > 2
    assert max(times.values()) < 73


def total(table: np.ndarray) -> float:
    return float(table.sum())


def test_the_error_of_a_sum_is_its_standard_deviation():
    # √(2 · 9) · 5 = 21.2; the spread of 200 draws of a sum of nine is 6 %: four of those.
    assert redraw_error(total, np.zeros((3, 3)), scale=5.0) == pytest.approx(21.2, rel=0.24)


def test_a_bias_is_part_of_the_error():
    def biased(table: np.ndarray) -> float:
        return 0.0 if (table == 7).all() else 100.0

    assert redraw_error(biased, np.full(2, 7.0), scale=1.0) == 100.0


def test_what_noise_does_not_move_has_no_error():
    assert redraw_error(lambda _: 0.5, np.ones((2, 2)), scale=1.0) == 0.0


def test_one_table_has_one_error():
    believed = np.arange(6.0).reshape(2, 3)
    first, again = (redraw_error(total, believed, scale=3.0) for _ in range(2))
    assert first == again
    assert REDRAWS >= 100
