import warnings
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics import classification
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.classification import MOST_DIFFERENT_ROWS, SCORERS, scores

each_scorer = pytest.mark.parametrize("scorer", SCORERS)
each_solver = pytest.mark.parametrize("scorer", ["logistic", "svm"])
people = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)), max_size=12)


def table(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return codes[:, :2].astype(np.float64), codes[:, 2]


def noisy_rows(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Four bits, the first two of which tell something about the class."""
    rng = np.random.default_rng(5)
    bits = (rng.random((rows, 4)) < 0.4).astype(np.float64)
    return bits, (bits[:, 0] + bits[:, 1] + rng.integers(0, 2, rows)).astype(int) % classes


@each_scorer
@settings(max_examples=30)
@given(learn=people, ask=people)
def test_whatever_the_rows_scores_are_finite(scorer, learn, ask):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        class_scores = scores(scorer, *table(learn), table(ask)[0], 3)
    assert class_scores.shape == (len(ask), 3)
    assert np.isfinite(class_scores).all()


@each_scorer
def test_what_follows_from_a_bit_is_learned(scorer):
    learn, target = table([(a, b, 2 * b) for a in (0, 1) for b in (0, 1)] * 10)
    assert macro_auc(scores(scorer, learn, target, learn, 3), target) == 1
    assert macro_auc(scores(scorer, learn, target // 2, learn, 2), target // 2) == 1


@each_scorer
def test_with_nothing_to_learn_overall_rates_are_the_score(scorer):
    ask, asked_target = table([(0, 1, 0), (1, 1, 1), (1, 0, 1)])
    one_class = scores(scorer, *table([(0, 1, 1), (1, 1, 1)]), ask, 2)
    assert one_class.tolist() == [[0, 1]] * 3
    assert scores(scorer, *table([]), ask, 2).tolist() == [[0.5, 0.5]] * 3
    target = np.array([0, 1, 1, 1])
    blind = scores(scorer, np.zeros((4, 0)), target, np.zeros((3, 0)), 2)
    assert blind.tolist() == [[0.25, 0.75]] * 3
    assert scores(scorer, ask, asked_target, np.zeros((0, 2)), 2).shape == (0, 2)
    for class_scores in (one_class, blind):
        assert macro_auc(class_scores, asked_target) == 0.5


def test_class_rates_are_those_of_the_equal_rows():
    learn, target = table([(0, 0, 1), (0, 0, 1), (0, 0, 0), (1, 1, 0)])
    class_scores = scores("class_rate", learn, target, np.array([[0, 0], [1, 1], [0, 1]]), 2)
    np.testing.assert_allclose(class_scores[:, 1], [(2 + 0.5) / 4, (0 + 0.5) / 2, 0.5])
    np.testing.assert_allclose(class_scores.sum(axis=1), 1)


def test_class_rates_group_numbers_to_the_last_digit():
    learn = np.array([[0.1 + 0.2], [0.3], [-1.0], [300.0]])
    class_scores = scores("class_rate", learn, np.array([0, 1, 1, 0]), learn, 2)
    assert class_scores[:, 1].tolist() == [0.25, 0.75, 0.75, 0.25]


@each_scorer
def test_a_class_that_was_not_learned_is_scored_alike(scorer):
    learn, target = noisy_rows(60, 2)
    class_scores = scores(scorer, learn, target, learn, 4)
    assert np.unique(class_scores[:, 2:]).size == 1
    np.testing.assert_array_equal(class_scores[:, :2], scores(scorer, learn, target, learn, 2))


@each_scorer
@pytest.mark.parametrize("classes", [2, 3])
def test_equal_rows_have_equal_scores_in_any_order(scorer, classes):
    learn, target = noisy_rows(100, classes)
    class_scores = scores(scorer, learn, target, learn, classes)
    _, groups = np.unique(learn, axis=0, return_inverse=True)
    for group in np.unique(groups):
        assert len(np.unique(class_scores[groups == group], axis=0)) == 1
    order = np.random.default_rng(1).permutation(100)
    again = scores(scorer, learn[order], target[order], learn[order], classes)
    np.testing.assert_array_equal(again, class_scores[order])


def with_every_row(scorer: str, learn: np.ndarray, target: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    if scorer == "logistic":
        return LogisticRegression(max_iter=1000).fit(learn, target).predict_proba(learn)
    class_scores = SVC().fit(learn, target).decision_function(learn)
    return class_scores if class_scores.ndim == 2 else np.stack([-class_scores, class_scores], 1)


@each_solver
@pytest.mark.parametrize("classes", [2, 3])
def test_rows_that_are_alike_are_learned_from_once(scorer, classes):
    learn, target = noisy_rows(300, classes)
    expected = with_every_row(scorer, learn, target)
    class_scores = scores(scorer, learn, target, learn, classes)
    np.testing.assert_allclose(class_scores, expected, atol=0.005)


@each_solver
def test_of_too_many_rows_a_seeded_sample_is_learned_from(scorer, monkeypatch):
    rng = np.random.default_rng(2)
    learn, target = rng.random((200, 2)), np.zeros(200, dtype=int)
    target[learn[:, 0] > 0.5] = 1
    most, solved = dict.fromkeys(MOST_DIFFERENT_ROWS, 50), classification._learn_and_score
    recorder = Mock(side_effect=solved)
    monkeypatch.setattr(classification, "MOST_DIFFERENT_ROWS", most)
    monkeypatch.setattr(classification, "_learn_and_score", recorder)
    class_scores = scores(scorer, learn, target, learn, 2)
    assert 50 <= len(recorder.call_args.args[1].target) <= 52
    assert macro_auc(class_scores, target) > 0.9
    np.testing.assert_array_equal(scores(scorer, learn, target, learn, 2), class_scores)


@each_solver
@pytest.mark.parametrize("place", [0, 77, 199])
def test_no_class_is_lost_from_the_sample(scorer, place, monkeypatch):
    most = dict.fromkeys(MOST_DIFFERENT_ROWS, 10)
    monkeypatch.setattr(classification, "MOST_DIFFERENT_ROWS", most)
    learn, target = np.linspace(0, 1, 200)[:, None], np.zeros(200, dtype=int)
    learn[place], target[place] = 2, 1
    assert macro_auc(scores(scorer, learn, target, learn, 2), target) == 1


def test_other_shapes_and_unknown_scorers_are_refused():
    learn, target = table([(0, 1, 0), (1, 1, 1)])
    with pytest.raises(DeclarationError, match="must be one of logistic, class_rate, svm, not"):
        scores("forest", learn, target, learn, 2)
    with pytest.raises(DeclarationError, match="one class for each row"):
        scores("svm", learn, target[:1], learn, 2)
    message = r"The rows to score must have 2 features, not shape \(2, 1\)"
    with pytest.raises(DeclarationError, match=message):
        scores("svm", learn, target, learn[:, :1], 2)
