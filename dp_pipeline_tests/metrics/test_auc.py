import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.auc import auc, macro_auc

# Few different scores, so that most rows are tied with others.
scored = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=30)


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    scores, labels = np.array(rows).T
    return scores / 10, labels


def by_pairs(scores: np.ndarray, positive: np.ndarray) -> float:
    pairs = [
        (above > below) + (above == below) / 2
        for above in scores[positive]
        for below in scores[~positive]
    ]
    return sum(pairs) / len(pairs) if pairs else float("nan")


@given(scored)
def test_it_is_the_share_of_pairs_in_the_right_order(rows):
    scores, labels = columns(rows)
    np.testing.assert_equal(auc(scores, labels > 0), by_pairs(scores, labels > 0))


def test_infinite_scores_have_a_place_in_the_order():
    assert auc(np.array([-np.inf, 0.0, np.inf]), np.array([False, False, True])) == 1


@pytest.mark.parametrize("positive", [[], [True, True], [False]])
def test_without_rows_on_both_sides_there_is_no_number(positive):
    sides = np.array(positive, dtype=bool)
    assert math.isnan(auc(np.zeros(len(sides)), sides))
    assert math.isnan(macro_auc(np.zeros((len(sides), 2)), sides.astype(int)))
    assert math.isnan(macro_auc(np.zeros((len(sides), 3)), sides.astype(int)))


@settings(deadline=None)
@given(scored.filter(lambda rows: len({label for _, label in rows}) == 3))
def test_of_many_classes_it_is_that_of_scikit_learn(rows):
    from sklearn.metrics import roc_auc_score

    first, labels = columns(rows)
    scores = np.stack([first, np.roll(first, 1), 1 - first - np.roll(first, 1)], axis=1)
    expected = roc_auc_score(labels, scores, multi_class="ovr", average="macro")
    assert macro_auc(scores, labels) == pytest.approx(expected, abs=1e-12)


def test_a_class_that_no_row_has_does_not_count():
    scores = np.array([[0.8, 0.2, 0.0], [0.9, 0.1, 0.0], [0.5, 0.1, 0.4]])
    target = np.array([0, 0, 2])
    assert macro_auc(scores, target) == 1
    assert math.isnan(macro_auc(scores[:2], target[:2]))


@given(scored)
def test_of_two_classes_it_is_the_plain_auc(rows):
    scores, labels = columns(rows)
    both = np.stack([1 - scores, scores], axis=1)
    np.testing.assert_equal(macro_auc(both, (labels > 0).astype(int)), auc(scores, labels > 0))


def test_of_two_classes_the_second_column_decides():
    assert macro_auc(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0, 1])) == 1


@pytest.mark.parametrize(
    ("metric", "scores", "target", "words"),
    [
        (auc, [0, 0, 0], [False, False], "needs one score for each of 2 rows, not scores of"),
        (macro_auc, [0, 0, 0], [0, 0, 0], "needs one score of each class for each of"),
        (auc, [0, np.nan], [True, False], "needs numbers as scores, but one score is NaN"),
    ],
)
def test_other_shapes_and_no_numbers_are_refused(metric, scores, target, words: str):
    with pytest.raises(DeclarationError, match=f"The AUC {words}"):
        metric(np.array(scores, dtype=float), np.array(target))
