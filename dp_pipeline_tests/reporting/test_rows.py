"""Rows of quality numbers: order, pivot, text, RCP, and the summary with the best model first."""

import math
from dataclasses import replace
from fractions import Fraction

from dp_pipeline.reporting.metrics import (
    QualityRow,
    SummaryTable,
    from_documents,
    metrics_of,
    pivot,
    relative_rows,
    sample_words,
    sort_rows,
    to_documents,
)
from dp_pipeline.reporting.pages import summary_over_epsilon, summary_over_k
from dp_pipeline_tests.reporting.samples import HALF, ONE, TEN, bought, exact, k_anonymous, measures


def test_rows_sort_by_metric_then_model_then_epsilon_as_a_number():
    rows = [exact("b", TEN, 1.0), exact("b", Fraction(2), 2.0), exact("a", ONE, 3.0)]
    rows += [exact("z", ONE, 4.0, metric="nicv_ratio"), exact("a", ONE, 5.0, metric="auc")]
    assert [row.value for row in sort_rows(rows)] == [4.0, 3.0, 2.0, 1.0, 5.0]
    ordered = ("nicv_ratio", "nicv", "nicv_floor", "avd_2", "avd_3", "misclassified_svm/sex", "auc")
    assert metrics_of([exact("a", ONE, 1.0, name) for name in (*ordered[::-1], "nicv")]) == ordered


def test_a_pivot_has_models_down_and_epsilon_ascending_across():
    table = pivot([exact("b", TEN, 1.0), exact("a", HALF, 2.0), exact("b", HALF, 3.0)], "nicv")
    assert table.models == ("a", "b")
    assert table.epsilons == (HALF, TEN)
    assert [table.texts(model) for model in table.models] == [("2.00", "–"), ("3.00", "1.00")]
    replicates = pivot([exact("a", ONE, 1.0), exact("a", ONE, 2.0)], "nicv")
    assert replicates.texts("a") == ("1.00; 2.00",)


def test_numbers_have_their_errors():
    # √2 · 0.29 = 0.41 is the deviation of the noise.
    assert QualityRow("a", ONE, "nicv", 12.34, 0.29, "m²").text == "12.3 ± 0.4"
    assert exact("a", ONE, 12.34).text == "12.3"
    row = QualityRow("m", Fraction(1), "avd_2", 0.0123, None, "share", error=0.004)
    assert row.text == "0.012 ± 0.004 of a sample"
    assert "1,000,000 rows of a table" in sample_words([row])
    assert sample_words([replace(row, error=None)]) == ""
    assert replace(row, error=None).text == "0.0123"
    rows = [row, replace(row, error=None)]
    assert from_documents(to_documents(rows)) == rows


def test_models_are_compared_with_eug_at_their_epsilon():
    rows = [
        exact("eug_kmeans", HALF, 8.0),
        exact("eug_kmeans", ONE, 4.0),
        exact("dpqt_kmeans", HALF, 6.0),
        exact("dpqt_kmeans", ONE, 5.0),
        exact("dp_kmeans", HALF, 8.0),
        exact("dp_kmeans", HALF, 7.0, metric="nicv_floor"),
    ]
    relative = {(row.model, row.epsilon): row.value for row in relative_rows(rows)}
    expected = {("dpqt_kmeans", HALF): 25.0, ("dpqt_kmeans", ONE): -25.0, ("dp_kmeans", HALF): 0.0}
    assert relative == expected
    kinds = {(row.metric, row.scale, row.unit) for row in relative_rows(rows)}
    assert kinds == {("rcp", None, "percent")}
    # RCP needs eug at the same ε, and bought numbers are not divided.
    assert relative_rows(rows[3:4]) == relative_rows([rows[0], rows[3]]) == ()
    bought_rows = [bought(name, ONE, 8.0, 0.1) for name in ("eug_kmeans", "dpqt_kmeans")]
    assert relative_rows(bought_rows) == ()


METRICS = ("nicv", "nicv_ratio", "nicv_floor", "f_label", "ari_label", "f_kmeans", "ari_kmeans")


def test_a_summary_has_at_most_five_columns_and_one_line_a_model():
    rows = [exact(m, e, 1.0, metric) for m in "abc" for e in (HALF, ONE) for metric in METRICS]
    summary = SummaryTable.of(rows, {})
    assert summary.head == ("model", "NICV ratio", "NICV", "F (label)", "ARI (label)")
    assert [line[0] for line in summary.body] == ["a", "b", "c"]
    text = summary_over_epsilon(rows, {})
    caption, nothing, *lines = text.splitlines()
    assert (caption, nothing) == ("Every model at ε = 1, the best first", "")
    assert {line.count("|") - 1 for line in lines} == {5}


def test_summary_has_the_best_model_first():
    rows = [exact("a", HALF, 1.0), exact("a", ONE, 3.0), exact("b", ONE, 2.0)]
    rows += [exact("c", ONE, math.nan), bought("d", ONE, 2.5, 0.1)]
    summary = SummaryTable.of(rows, {})
    assert summary.caption == "Every model at ε = 1, the best first"
    assert [line[0] for line in summary.body] == ["b", "d", "a", "c"]
    assert summary.body[1][1] == "2.50 ± 0.14"


def test_models_with_other_metrics_come_last():
    rows = [exact("table", ONE, 0.1, metric="avd_2")]
    rows += [exact(name, ONE, value, metric="f_label") for name, value in (("x", 0.2), ("y", 0.9))]
    summary = SummaryTable.of(rows, {})
    assert summary.body == (("y", "0.900", "–"), ("x", "0.200", "–"), ("table", "–", "0.100"))


def test_there_is_no_summary_of_nothing():
    assert SummaryTable.of([], {}) is None
    assert summary_over_epsilon([], {}) is None
    assert summary_over_k([]) == "Nothing was released k-anonymously yet."


def test_a_hostile_model_name_makes_no_column_and_no_tag():
    text = summary_over_epsilon([exact("a|b<script>\nc", ONE, 1.0)], {})
    assert text.splitlines()[-1] == r"| a\|b\<script\> c | 1.00 |"


def test_summary_over_k_has_figures_of_methods():
    releases = [
        k_anonymous(figures={"auc": 0.9}),
        k_anonymous(k="5", measures=measures("aaabb", k=5)),
        k_anonymous(model="tree", k="5", measures=measures("aaaaa", k=5)),
    ]
    assert summary_over_k(releases).split("\n\n") == [
        "Not differentially private: a guarantee about the released rows alone.",
        "AUC of logistic regression",
        "| method | K = 2 | K = 5 |\n| :-- | --: | --: |\n| kjig | 0.900 | – |\n| tree | – | – |",
        "Share of rows in classes with one label",
        "| method | K = 2 | K = 5 |\n| :-- | --: | --: |\n| kjig | 40.0 % | 0 % |\n"
        "| tree | – | 100 % |",
    ]
    assert "AUC" not in summary_over_k(releases[1:])
