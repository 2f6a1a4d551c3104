"""Lines through labels beside a solver's logistic regression, and scores along them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from dp_pipeline.anonymity import label_lines
from dp_pipeline.anonymity.label_lines import LabelLines, LabelScores
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline_tests.anonymity.populations import coded_rows, flags


def kinds_of_rows(labels: int, features: int, kinds: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Shares, and how many rows of each label have them; labels go with lines."""
    rng = np.random.default_rng(labels * features)
    seen = rng.random((kinds, features))
    pull = seen @ rng.normal(0, 2, (features, labels))
    likely = np.exp(pull - pull.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    return seen, np.array([rng.multinomial(6, each) for each in likely])


@pytest.mark.parametrize("labels", [2, 3, 5])
@pytest.mark.parametrize("features", [3, 20, 100])
def test_chances_are_those_of_logistic_regression(labels, features):
    seen, counts = kinds_of_rows(labels, features)
    rows = np.repeat(np.arange(len(seen)), labels)
    solver = LogisticRegression(max_iter=5_000, tol=1e-8)
    solver.fit(seen[rows], np.tile(np.arange(labels), len(seen)), sample_weight=counts.ravel())
    found = LabelLines.of(seen, counts).chances(seen)
    assert np.abs(found - solver.predict_proba(seen)).max() < 0.03
    assert np.allclose(found.sum(axis=1), 1)


def test_a_label_between_two_others_is_likeliest_between_them():
    place = np.arange(9.0)[:, None]
    counts = 100 * np.eye(4, dtype=np.int64)[np.arange(9) // 3]
    chances = LabelLines.of(place, counts).chances(np.array([[0.0], [4], [8]]))
    assert chances.argmax(axis=1).tolist() == [0, 1, 2]
    # No row has the fourth.
    assert (chances[:, 3] < 1e-6).all()


def test_rows_of_one_kind_have_the_overall_chances():
    lines = LabelLines.of(np.array([[0.5, 1.0]]), np.array([[3, 1]]))
    assert np.allclose(lines.chances(np.array([[0.0, 7.0]])), [[0.75, 0.25]], atol=0.01)
    lines = LabelLines.of(np.zeros((2, 0)), np.array([[3, 0], [2, 0]]))
    assert lines.chances(np.zeros((1, 0)))[0, 0] > 0.999


def test_large_tables_have_one_step(monkeypatch):
    seen, counts = kinds_of_rows(2, 10)
    five = LabelLines.of(seen, counts).chances(seen)[:, 1]
    monkeypatch.setattr(label_lines, "_MOST_PRODUCTS", 1)
    one = LabelLines.of(seen, counts).chances(seen)[:, 1]
    assert not np.allclose(one, five)
    assert np.corrcoef(np.argsort(np.argsort(one)), np.argsort(np.argsort(five)))[0, 1] > 0.95


def scores_of(rows: CodedRows) -> np.ndarray:
    return LabelScores.of(rows, KAnonymityGuarantee(1)).scores(rows.codes)


def test_a_score_parts_the_labels_of_what_they_go_with():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (500, 2))
    rows = CodedRows(flags(2), codes, codes[:, 0].copy(), ("no", "yes"))
    scores = scores_of(rows)
    assert scores.shape == (500, 1)
    assert (scores == np.rint(scores)).all()
    high, low = scores[codes[:, 0] == 1, 0], scores[codes[:, 0] == 0, 0]
    assert abs(high.mean() - low.mean()) > 20 * max(high.std(), low.std())
    assert scores_of(replace(rows, target=np.zeros(500, dtype=np.int64))).shape == (500, 0)


def test_scores_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (200, 6))
    rows = CodedRows(flags(6), codes, rng.integers(0, 3, 200), ("a", "b", "c"))
    order = rng.permutation(200)
    assert (scores_of(rows.some(order)) == scores_of(rows)[order]).all()


STEPS = Column("step", tuple("abcdefghi"), ordered=True)
KINDS = Column("kind", tuple("abcdefghi"))


def rare_between(column: Column) -> CodedRows:
    """Twenty rows of each level, a few more of which are ill from one level to the next; but of the
    fifth level one row.
    """
    codes = np.delete(np.repeat(np.arange(9), 20), np.arange(81, 100))
    nth = np.concatenate([np.arange(1 if level == 4 else 20) for level in range(9)])
    return CodedRows((column,), codes[:, None], (nth < 2 * codes) * 1, ("well", "ill"))


@pytest.mark.parametrize("column", [STEPS, KINDS])
def test_a_level_that_few_rows_have_has_the_weight_of_others(column):
    (alone,) = LabelScores.of(rare_between(column), KAnonymityGuarantee(1)).of_levels
    (merged,) = LabelScores.of(rare_between(column), KAnonymityGuarantee(10)).of_levels
    rare, others = merged[4], np.delete(merged, 4, axis=0)
    assert len(np.unique(alone)) > len(np.unique(merged)) > 2
    assert (others == rare).any()


@settings(max_examples=100, deadline=None)
@given(rows=coded_rows(at_least=8), k=st.integers(2, 4), diversity=st.integers(1, 2))
def test_levels_of_one_weight_are_as_many_as_a_class(rows, k, diversity):
    found = LabelScores.of(rows, KAnonymityGuarantee(k, diversity))
    for at, weights in enumerate(found.of_levels):
        if weights.any():
            groups = np.unique(weights, axis=0, return_inverse=True)[1][rows.codes[:, at]]
            assert np.bincount(groups).min() >= k
            assert all(len(set(rows.target[groups == one])) >= diversity for one in set(groups))


def test_merged_levels_leave_the_most_telling_step():
    # Ten rows of each level: with the step at the fourth there would be no place for the fifth's.
    codes = np.repeat(np.arange(9), 10)
    rows = CodedRows((STEPS,), codes[:, None], (codes >= 5) * 1, ("no", "yes"))
    (weights,) = LabelScores.of(rows, KAnonymityGuarantee(20)).of_levels
    assert weights[4, 0] != weights[5, 0]
    assert weights[3, 0] == weights[4, 0]
