import math
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics import classification
from dp_pipeline.metrics.classification import (
    LinearClassifier,
    misclassification,
    predict_attribute,
    split_rows,
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


def test_another_seed_holds_out_other_rows():
    assert split_rows(100, seed=0)[1].tolist() != split_rows(100, seed=1)[1].tolist()


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
