import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.auc import adjusted_rand, class_table, f_measure

rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)
each_metric = pytest.mark.parametrize("metric", [f_measure, adjusted_rand])


def table_of(pairs: list[tuple[int, int]]) -> np.ndarray:
    classes, clusters = np.array(pairs).T
    return class_table(classes, clusters, shape=(4, 5))


def f_by_hand(pairs: list[tuple[int, int]]) -> float:
    """Precision and recall of every class and cluster as sets of rows."""
    total = 0.0
    for number in range(4):
        of_class = {row for row, (i, _) in enumerate(pairs) if i == number}
        best = 0.0
        for cluster in range(5):
            of_cluster = {row for row, (_, j) in enumerate(pairs) if j == cluster}
            if both := len(of_class & of_cluster):
                precision, recall = both / len(of_cluster), both / len(of_class)
                best = max(best, 2 * precision * recall / (precision + recall))
        total += len(of_class) / len(pairs) * best
    return total


@given(pairs=rows)
def test_a_class_table_counts_rows(pairs):
    table = table_of(pairs)
    assert all(table[i, j] == pairs.count((i, j)) for i in range(4) for j in range(5))


@given(pairs=rows)
def test_the_f_measure_is_that_of_sets_of_rows(pairs):
    assert f_measure(table_of(pairs)) == pytest.approx(f_by_hand(pairs))


@settings(deadline=None)
@given(pairs=rows)
def test_the_adjusted_rand_index_is_that_of_scikit_learn(pairs):
    from sklearn.metrics import adjusted_rand_score

    classes, clusters = np.array(pairs).T
    expected = adjusted_rand_score(classes, clusters)
    assert adjusted_rand(table_of(pairs)) == pytest.approx(expected, abs=1e-12)


@each_metric
def test_equal_sets_are_perfect_and_no_rows_are_nothing(metric):
    assert metric(np.diag([3, 1, 4])) == 1.0
    assert metric(np.array([[5]])) == 1.0
    assert math.isnan(metric(np.zeros((2, 3), dtype=int)))


def test_the_adjusted_rand_index_of_many_rows_does_not_overflow():
    assert adjusted_rand(np.diag([1 << 31, 1 << 31])) == 1.0


@each_metric
@pytest.mark.parametrize("table", [np.zeros(3), np.zeros((0, 2)), np.array([[1, -1]])])
def test_what_is_no_table_of_counts_is_refused(metric, table):
    with pytest.raises(DeclarationError, match=r"A class table must have (shape|counts)"):
        metric(table)
