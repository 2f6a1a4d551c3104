"""What classifiers learn, in which folds, and the scores of rows by them."""

import math
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics import classification
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.classification import (
    MOST_DIFFERENT_ROWS,
    SCORERS,
    LinearClassifier,
    misclassification,
    predict_attribute,
    scores,
    split_rows,
    stratified_folds,
    train,
)

SIZES = {"a": 2, "b": 3}
each_method = pytest.mark.parametrize("method", ["svm", "logistic"])
rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans()), max_size=12)


def table(people: list[tuple[int, int, bool]]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    a, b, yes = np.array(people, dtype=np.int64).reshape(-1, 3).T
    return {"a": a, "b": b}, yes.astype(bool)


def error_of(method: str, learn: list, test: list) -> float:
    return misclassification(train(method, *table(learn), SIZES), *table(test))


@each_method
@settings(max_examples=30)
@given(learn=rows, test=rows.filter(bool))
def test_whatever_the_rows_the_error_is_a_share(method, learn, test):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 <= error_of(method, learn, test) <= 1


@each_method
def test_what_follows_from_a_level_is_learned(method):
    people = [(a, b, b == 2) for a in (0, 1) for b in (0, 1, 2)] * 10
    assert error_of(method, people, people) == 0
    asking = [(0, 2, True), (1, 2, False), (0, 0, True), (1, 1, True)]
    assert error_of(method, people, asking) == 3 / 4


@each_method
def test_rows_of_one_class_get_the_majority(method):
    test = [(0, 0, True), (1, 1, False), (1, 2, False)]
    assert error_of(method, [(0, 1, True), (1, 1, True)], test) == 2 / 3
    assert error_of(method, [(0, 1, False)], test) == 1 / 3
    assert error_of(method, [], test) == 1 / 3
    answers = np.array([True, True, False])
    blind = train(method, {}, answers, SIZES)
    assert misclassification(blind, {}, answers) == 1 / 3


@each_method
def test_constant_columns_and_unseen_levels_are_classified(method):
    people = [(0, 0, index % 3 > 0) for index in range(9)]
    assert error_of(method, people, [(1, 2, True), (0, 0, True)]) == 0


def test_the_majority_is_negative_in_a_tie():
    assert train("svm", {}, np.array([True, False]), SIZES).intercept < 0


def test_no_rows_to_test_are_no_number():
    assert math.isnan(error_of("svm", [(0, 0, True)], []))
    message = "Each column must have one code for each of 3 rows, but a has 2"
    with pytest.raises(DeclarationError, match=message):
        train("svm", {"a": np.zeros(2, int)}, np.zeros(3, bool), SIZES)


def test_classifier_has_one_integer_a_cell():
    classifier = train("logistic", *table([(0, 0, True), (1, 1, False), (1, 0, True)]), SIZES)
    assert classifier.columns == ("a", "b")
    assert [len(weights) for weights in classifier.weights] == [2, 3]
    numbers = [weight for weights in classifier.weights for weight in weights]
    assert {type(number) for number in (*numbers, classifier.intercept)} == {int}


def test_a_row_is_positive_above_nothing_and_not_at_it():
    rule = LinearClassifier(("a", "b"), ((-1, 1), (0, 1, -1)), 0)
    codes = {"a": np.array([0, 1, 1, 0]), "b": np.array([1, 2, 0, 0])}
    assert rule.answers(codes, rows=4).tolist() == [False, False, True, False]


def test_of_many_rows_a_seeded_sample_is_learned_from(monkeypatch):
    monkeypatch.setattr(classification, "MOST_TRAINING_ROWS", 40)
    codes = {"a": np.arange(1000) % 2, "b": np.arange(1000) % 3}
    answers = codes["a"] == 1
    recorder = Mock(side_effect=classification._bits)
    monkeypatch.setattr(classification, "_bits", recorder)
    first, again = (train("svm", codes, answers, SIZES) for _ in range(2))
    assert first == again
    assert [len(call.args[0]["a"]) for call in recorder.call_args_list] == [40, 40]
    assert misclassification(first, codes, answers) == 0


@given(rows=st.integers(0, 200), seed=st.integers(0, 9))
def test_split_rows_are_disjoint_and_a_fifth(rows, seed):
    learn, test = split_rows(rows, seed=seed)
    assert len(test) == rows // 5
    assert sorted([*learn.tolist(), *test.tolist()]) == list(range(rows))
    assert test.tolist() == split_rows(rows, seed=seed)[1].tolist()


@each_method
def test_a_level_that_no_learned_row_has_is_never_the_answer(method):
    rng = np.random.default_rng(7)
    table = {"a": rng.integers(0, 2, 600), "b": np.repeat([0, 1, 2, 3], 150)}
    learned = {name: codes[table["b"] < 3] for name, codes in table.items()}
    accuracy, _ = predict_attribute(method, learned, learned, "b", {"a": 2, "b": 9})
    assert accuracy >= 1 / 3


def test_only_the_learned_level_is_predicted():
    table = {"a": np.array([0, 1, 0]), "b": np.array([0, 0, 0])}
    assert predict_attribute("logistic", table, table, "b", {"a": 2, "b": 2})[0] == 1.0


def test_rows_are_tested_block_by_block_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classification, "ROWS_A_BLOCK", 4)
    bit = LinearClassifier(("a",), ((-1, 1),), 0)
    codes = {"a": np.arange(11) % 2}
    answers = np.array([index in (1, 3, 5, 7, 10) for index in range(11)])
    assert misclassification(bit, codes, answers) == 2 / 11


targets = st.lists(st.integers(0, 3), max_size=40).map(lambda labels: np.array(labels, dtype=int))


@given(targets, st.integers(2, 7), st.integers(0, 3))
def test_folds_are_of_one_size_and_have_every_class_in_its_ratio(target, folds, seed):
    numbers = stratified_folds(target, folds, seed=seed)
    assert np.ptp(np.bincount(numbers, minlength=folds)) <= 1
    for label in range(4):
        assert np.ptp(np.bincount(numbers[target == label], minlength=folds)) <= 1


@given(targets, st.integers(2, 7))
def test_every_row_is_in_one_fold_which_the_seed_decides(target, folds):
    numbers = stratified_folds(target, folds, seed=1)
    assert numbers.shape == target.shape
    assert set(numbers.tolist()) <= set(range(folds))
    np.testing.assert_array_equal(stratified_folds(target, folds, seed=1), numbers)


def test_another_seed_holds_out_other_rows_and_makes_other_folds():
    assert split_rows(100, seed=0)[1].tolist() != split_rows(100, seed=1)[1].tolist()
    target = np.arange(40) % 2
    first, other = (stratified_folds(target, 5, seed=seed) for seed in (0, 1))
    assert (first != other).any()


each_scorer = pytest.mark.parametrize("scorer", SCORERS)
each_solver = pytest.mark.parametrize("scorer", ["logistic", "svm"])
people = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)), max_size=12)


def scored_table(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
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
        class_scores = scores(scorer, *scored_table(learn), scored_table(ask)[0], 3)
    assert class_scores.shape == (len(ask), 3)
    assert np.isfinite(class_scores).all()


@each_scorer
def test_what_follows_from_a_bit_is_learned(scorer):
    learn, target = scored_table([(a, b, 2 * b) for a in (0, 1) for b in (0, 1)] * 10)
    assert macro_auc(scores(scorer, learn, target, learn, 3), target) == 1
    assert macro_auc(scores(scorer, learn, target // 2, learn, 2), target // 2) == 1


@each_scorer
def test_with_nothing_to_learn_overall_rates_are_the_score(scorer):
    ask, asked_target = scored_table([(0, 1, 0), (1, 1, 1), (1, 0, 1)])
    one_class = scores(scorer, *scored_table([(0, 1, 1), (1, 1, 1)]), ask, 2)
    assert one_class.tolist() == [[0, 1]] * 3
    assert scores(scorer, *scored_table([]), ask, 2).tolist() == [[0.5, 0.5]] * 3
    target = np.array([0, 1, 1, 1])
    blind = scores(scorer, np.zeros((4, 0)), target, np.zeros((3, 0)), 2)
    assert blind.tolist() == [[0.25, 0.75]] * 3
    assert scores(scorer, ask, asked_target, np.zeros((0, 2)), 2).shape == (0, 2)
    for class_scores in (one_class, blind):
        assert macro_auc(class_scores, asked_target) == 0.5


def test_class_rates_are_those_of_the_equal_rows():
    learn, target = scored_table([(0, 0, 1), (0, 0, 1), (0, 0, 0), (1, 1, 0)])
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
    learn, target = scored_table([(0, 1, 0), (1, 1, 1)])
    with pytest.raises(DeclarationError, match="must be one of logistic, class_rate, svm, not"):
        scores("forest", learn, target, learn, 2)
    with pytest.raises(DeclarationError, match="one class for each row"):
        scores("svm", learn, target[:1], learn, 2)
    message = r"The rows to score must have 2 features, not shape \(2, 1\)"
    with pytest.raises(DeclarationError, match=message):
        scores("svm", learn, target, learn[:, :1], 2)
