"""The summary: few columns, the best model first."""

import math

from dp_pipeline.reporting.metrics import SummaryTable
from dp_pipeline.reporting.pages import summary_over_epsilon, summary_over_k
from dp_pipeline_tests.reporting.samples import HALF, ONE, bought, exact, k_anonymous, measures

METRICS = ("nicv", "nicv_ratio", "nicv_floor", "f_label", "ari_label", "f_kmeans", "ari_kmeans")


def test_a_summary_has_at_most_five_columns_and_one_line_a_model():
    rows = [exact(m, e, 1.0, metric) for m in "abc" for e in (HALF, ONE) for metric in METRICS]
    summary = SummaryTable.of(rows, {})
    assert summary is not None
    assert summary.head == ("model", "NICV ratio", "NICV", "F (label)", "ARI (label)")
    assert [line[0] for line in summary.body] == ["a", "b", "c"]
    text = summary_over_epsilon(rows, {})
    assert text is not None
    caption, nothing, *lines = text.splitlines()
    assert (caption, nothing) == ("Every model at ε = 1, the best first", "")
    assert {line.count("|") - 1 for line in lines} == {5}


def test_summary_has_the_best_model_first():
    rows = [exact("a", HALF, 1.0), exact("a", ONE, 3.0), exact("b", ONE, 2.0)]
    rows += [exact("c", ONE, math.nan), bought("d", ONE, 2.5, 0.1)]
    summary = SummaryTable.of(rows, {})
    assert summary is not None
    assert summary.caption == "Every model at ε = 1, the best first"
    assert [line[0] for line in summary.body] == ["b", "d", "a", "c"]
    assert summary.body[1][1] == "2.50 ± 0.14"


def test_models_with_other_metrics_come_last():
    rows = [exact("table", ONE, 0.1, metric="avd_2")]
    rows += [exact(name, ONE, value, metric="f_label") for name, value in (("x", 0.2), ("y", 0.9))]
    summary = SummaryTable.of(rows, {})
    assert summary is not None
    assert summary.body == (("y", "0.900", "–"), ("x", "0.200", "–"), ("table", "–", "0.100"))


def test_there_is_no_summary_of_nothing():
    assert SummaryTable.of([], {}) is None
    assert summary_over_epsilon([], {}) is None
    assert summary_over_k([]) == "Nothing was released k-anonymously yet."


def test_a_hostile_model_name_makes_no_column_and_no_tag():
    text = summary_over_epsilon([exact("a|b<script>\nc", ONE, 1.0)], {})
    assert text is not None
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
