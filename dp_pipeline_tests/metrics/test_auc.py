"""AUC and indices of clusters, of rows and of counts of classes: by pairs, by hand, by others."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.auc import ClassAuc, adjusted_rand, auc, class_table, f_measure, macro_auc

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
