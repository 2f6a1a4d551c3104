"""Numbers, charges, parameters, progress and rows of quality numbers as text."""

import math
import sys
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.parameters import fact_text, fact_values, texts_of
from dp_pipeline.models import MODELS
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
from dp_pipeline.reporting.text import (
    LONGEST,
    LONGEST_QUESTION,
    cost_text,
    count_text,
    noisy_text,
    number_text,
    parameter_words,
    progress,
    question_words,
)
from dp_pipeline_tests.reporting.samples import HALF, ONE, TEN, bought, exact, k_anonymous, measures

NUMBERS: list[tuple[float, str]] = [
    (0.0, "0"), (-0.0, "0"), (0.5, "0.500"), (9.999, "10.0"), (999.6, "1,000"), (-12.34, "-12.3"),
    (123456.0, "123,000"), (0.000123, "0.000123"), (0.00001, "1.00×10⁻⁵"), (1e6, "1.00×10⁶"),
    (5e-324, "4.94×10⁻³²⁴"), (-1e308, "-1.00×10³⁰⁸"), (math.nan, "n/a"), (math.inf, "n/a"),
]  # fmt: skip
NOISY: list[tuple[float, float, str]] = [
    (12.34, 0.41, "12.3 ± 0.4"), (12.34, 0.14, "12.3 ± 0.14"), (1234.0, 3.0, "1,230 ± 3"),
    (0.0, 0.4, "0.0 ± 0.4"), (0.001234, 5.0, "0 ± 5"), (12.34, 0.0, "12.3 ± 0"),
    (0.0, 0.0, "0 ± 0"), (1.234e-7, 2e-8, "(1.2 ± 0.2)×10⁻⁷"), (math.nan, 1.0, "n/a"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), NUMBERS)
def test_a_number_shows_three_significant_digits(value: float, text: str):
    assert number_text(value) == text


@pytest.mark.parametrize(("value", "deviation", "text"), NOISY)
def test_a_noisy_number_shows_no_digit_below_its_noise(value: float, deviation: float, text: str):
    assert noisy_text(value, deviation) == text


@given(st.text(max_size=200))
def test_no_question_is_long(kind: str):
    words = question_words(kind)
    assert len(words) <= LONGEST_QUESTION
    assert kind.startswith(words.removesuffix("…"))
    # Units of the grid are left out of distances alone.
    plain = "clipped squared distance to 3 released centres"
    assert question_words(f"{plain}, clip 135288970239490 shift 27") == plain
    assert question_words("marginal of clip 1 shift 2") == "marginal of clip 1 shift 2"


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**6))
def test_cost_is_exact_or_approximate(cost: Fraction):
    text = cost_text(cost)
    if text.startswith("≈"):
        assert len(str(cost)) > LONGEST or (cost * 10**9).denominator == 1
    else:
        assert Fraction(text) == cost


def test_a_count_keeps_its_digits_below_a_million():
    texts = [count_text(count) for count in (0, 1, 999_999, 1_000_000, -5)]
    assert texts == ["0", "1", "999,999", "1.00×10⁶", "-5"]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({}, "none"),
        ({"columns": "()", "k": "8"}, "columns: all; k: 8"),
        ({"columns": str(("x",))}, "columns: x"),
        ({"columns": str(("x", "it's")), "share": "1/3"}, "columns: x, it's; share: 1/3"),
        ({"synthetic_rows": "None"}, "synthetic_rows: not set"),
        ({"integer": "(a, b"}, "integer: (a, b"),
    ],
)
def test_parameters_are_plain_words(texts: dict[str, str], words: str):
    assert parameter_words(fact_text(texts)) == words


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("measuring", [True, False])
def test_no_parameter_of_any_model_has_a_mark_of_a_program(name: str, measuring: bool):
    words = parameter_words(fact_text(texts_of(MODELS[name](), measuring=measuring)))
    assert not set("(){}'\"") & set(words)
    assert "None" not in words


@given(st.text(max_size=60))
def test_text_that_holds_no_parameters_stays_as_it_is(text: str):
    if not text.strip().startswith("{"):
        assert parameter_words(text) == text


@pytest.mark.parametrize("text", ["{'k': '8'}", "[1]", "{" * 100_000, '"k"', "null"])
def test_text_of_another_program_stays_as_it_is(text: str):
    assert parameter_words(text) == text


@pytest.mark.chain
@given(
    st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text("ab'\"\\{}", max_size=9))
)
def test_any_parameter_value_has_words(texts: dict[str, str]):
    words = parameter_words(fact_text(texts))
    by_name = (f"{name}: {texts[name] or 'none'}" for name in sorted(texts))
    assert words == ("; ".join(by_name) or "none")
    assert fact_values(fact_text(texts)) == texts


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_gets_one_plain_line_a_step(terminal: bool, quiet: bool, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress(2, quiet=quiet) as on_step:
        on_step("rides: rows")
        before = capsys.readouterr()
        on_step("rides: ε=0.1")
    after = capsys.readouterr()
    assert before.out + after.out == ""
    if quiet:
        assert before.err + after.err == ""
    elif terminal:
        assert " …\n" not in before.err + after.err
    else:
        # A line is there before its step ends.
        assert (before.err, after.err) == ("rides: rows …\n", "rides: ε=0.1 …\n")


def test_rows_sort_by_metric_then_model_then_epsilon_as_a_number():
    rows = [exact("b", TEN, 1.0), exact("b", Fraction(2), 2.0), exact("a", ONE, 3.0)]
    rows += [exact("z", ONE, 4.0, metric="nicv_ratio"), exact("a", ONE, 5.0, metric="auc")]
    assert [row.value for row in sort_rows(rows)] == [4.0, 3.0, 2.0, 1.0, 5.0]
    ordered = ("nicv_ratio", "nicv", "nicv_floor", "avd_2", "avd_3", "misclassified_svm/sex", "auc")
    assert metrics_of([exact("a", ONE, 1.0, name) for name in (*ordered[::-1], "nicv")]) == ordered


def test_a_pivot_has_models_down_and_epsilon_ascending_across():
    table = pivot([exact("b", TEN, 1.0), exact("a", HALF, 2.0), exact("b", HALF, 3.0)], "nicv")
    assert table.models == ("a", "b")
    assert table.levels == (HALF, TEN)
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
        "| method | K = 2 |\n| :-- | --: |\n| kjig | 0.900 |",
        "Share of rows in classes with one label",
        "| method | K = 2 | K = 5 |\n| :-- | --: | --: |\n| kjig | 40.0 % | 0 % |\n"
        "| tree | – | 100 % |",
    ]
    assert "AUC" not in summary_over_k(releases[1:])
