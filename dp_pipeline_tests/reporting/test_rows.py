"""Rows of quality numbers: order, pivot, text."""

from dataclasses import replace
from fractions import Fraction

from dp_pipeline.reporting.metrics import (
    QualityRow,
    from_documents,
    metrics_of,
    pivot,
    sample_words,
    sort_rows,
    to_documents,
)
from dp_pipeline_tests.reporting.samples import HALF, ONE, TEN, exact


def test_rows_sort_by_metric_then_model_then_epsilon_as_a_number():
    rows = [
        exact("b", TEN, 1.0),
        exact("b", Fraction(2), 2.0),
        exact("a", ONE, 3.0),
        exact("z", ONE, 4.0, metric="nicv_ratio"),
        exact("a", ONE, 5.0, metric="auc"),
    ]
    assert [row.value for row in sort_rows(rows)] == [4.0, 3.0, 2.0, 1.0, 5.0]


def test_a_pivot_has_models_down_and_epsilon_ascending_across():
    table = pivot([exact("b", TEN, 1.0), exact("a", HALF, 2.0), exact("b", HALF, 3.0)], "nicv")
    assert table.models == ("a", "b")
    assert table.epsilons == (HALF, TEN)
    assert [table.texts(model) for model in table.models] == [("2.00", "–"), ("3.00", "1.00")]


def test_a_bought_number_shows_the_deviation_of_its_noise():
    row = QualityRow("a", ONE, "nicv", 12.34, 0.29, "m²")
    assert row.text == "12.3 ± 0.4"  # √2 · 0.29 = 0.41
    assert exact("a", ONE, 12.34).text == "12.3"


def test_all_replicates_are_listed():
    table = pivot([exact("a", ONE, 1.0), exact("a", ONE, 2.0)], "nicv")
    assert table.texts("a") == ("1.00; 2.00",)


def test_metrics_are_listed_once_in_reading_order():
    metrics = [
        "auc",
        "misclassified_svm/sex",
        "avd_3",
        "avd_2",
        "nicv_floor",
        "nicv",
        "nicv_ratio",
        "nicv",
    ]
    rows = [exact("a", ONE, 1.0, metric=metric) for metric in metrics]
    ordered = ("nicv_ratio", "nicv", "nicv_floor", "avd_2", "avd_3", "misclassified_svm/sex", "auc")
    assert metrics_of(rows) == ordered


def test_number_of_a_sample_has_its_error():
    row = QualityRow("m", Fraction(1), "avd_2", 0.0123, None, "share", error=0.004)
    assert row.text == "0.012 ± 0.004 of a sample"
    assert "1,000,000 rows of a table" in sample_words([row])
    assert sample_words([replace(row, error=None)]) == ""
    assert replace(row, error=None).text == "0.0123"


def test_an_error_of_a_sample_is_stored():
    row = QualityRow("m", Fraction(1), "avd_2", 0.0123, None, "share", error=0.004)
    rows = [row, replace(row, error=None)]
    assert from_documents(to_documents(rows)) == rows
