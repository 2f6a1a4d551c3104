"""RCP of exact numbers, and of nothing else."""

from fractions import Fraction

from dp_pipeline.reporting.metrics import relative_rows
from dp_pipeline_tests.reporting.samples import HALF, ONE, bought, exact


def test_models_are_compared_with_eug_at_their_epsilon():
    rows = [
        exact("eug_kmeans", HALF, 8.0),
        exact("eug_kmeans", ONE, 4.0),
        exact("dpqt_kmeans", HALF, 6.0),
        exact("dpqt_kmeans", ONE, 5.0),
        exact("dp_kmeans", HALF, 8.0),
        exact("dp_kmeans", HALF, 7.0, metric="nicv_floor"),
    ]
    result = {(row.model, row.epsilon): row.value for row in relative_rows(rows)}
    expected = {("dpqt_kmeans", HALF): 25.0, ("dpqt_kmeans", ONE): -25.0, ("dp_kmeans", HALF): 0.0}
    assert result == expected
    assert {(row.metric, row.scale, row.unit) for row in relative_rows(rows)} == {
        ("rcp", None, "percent")
    }


def test_rcp_needs_eug_at_the_same_epsilon():
    assert relative_rows([exact("dpqt_kmeans", ONE, 5.0)]) == ()
    assert relative_rows([exact("dpqt_kmeans", ONE, 5.0), exact("eug_kmeans", HALF, 5.0)]) == ()


def test_bought_numbers_are_not_divided():
    epsilon = Fraction(1)
    rows = [bought("eug_kmeans", epsilon, 8.0, 0.1), bought("dpqt_kmeans", epsilon, 6.0, 0.1)]
    assert relative_rows(rows) == ()
