"""AUC from counts of classes is that of their rows; its gradient is what one row more changes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.metrics.auc import ClassAuc, macro_auc


@st.composite
def counted(draw: st.DrawFn, *, least: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts and scores of some classes; scores are often tied."""
    classes, labels = draw(st.integers(1, 6)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = rng.integers(0, draw(st.sampled_from([2, 50])), (classes, labels)) / 7
    return rng.integers(least, 6, (classes, labels)), scores


@settings(max_examples=100)
@given(counted())
def test_it_equals_the_auc_of_the_rows(table) -> None:
    counts, scores = table
    places = np.repeat(np.arange(counts.size), counts.ravel())
    classes, target = np.divmod(places, counts.shape[1])
    actual, expected = ClassAuc.of(counts, scores).value, macro_auc(scores[classes], target)
    assert actual == pytest.approx(expected, nan_ok=True)


@given(counted(least=1))
def test_the_gradient_is_what_a_small_part_of_a_row_changes(table) -> None:
    counts, scores = table
    many = counts * 10**5
    actual = ClassAuc.of(many, scores)
    for cell in np.ndindex(*counts.shape):
        extra = many.copy()
        extra[cell] += 1
        change = ClassAuc.of(extra, scores).value - actual.value
        assert change == pytest.approx(actual.gradient[cell], rel=1e-2, abs=1e-10)


@pytest.mark.parametrize("counts", [np.zeros((2, 2), int), np.array([[3, 0], [1, 0]])])
def test_without_two_labels_there_is_no_number(counts: np.ndarray) -> None:
    actual = ClassAuc.of(counts, np.eye(2))
    assert math.isnan(actual.value)
    assert actual.gradient.tolist() == [[0, 0], [0, 0]]
