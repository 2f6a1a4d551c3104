"""Charts over K: small, drawn for anything, the same look of a method in all of them."""

import math

import pytest

from dp_pipeline.reporting.figures import Picture, line_chart
from dp_pipeline.reporting.figures.curves import k_anonymity_panel
from dp_pipeline.reporting.releases import figure_over_k
from dp_pipeline_tests.reporting.samples import k_anonymous, measures
from dp_pipeline_tests.reporting.test_charts import line_styles, pixels

pytestmark = pytest.mark.chain

NAN = math.nan


def plot(values: dict[str, dict[int, float]], figure: str = "auc") -> Picture:
    return line_chart([k_anonymity_panel(values, figure=figure)], title="t", footnote="")


def auc(**values: dict[int, float]) -> Picture:
    return plot(values)


def test_a_plot_shows_its_numbers():
    flat, steep = {2: 0.9, 50: 0.9}, {2: 0.9, 50: 0.8}
    plots = [auc(a=flat, b=steep), auc(a=steep, b=steep), auc(b=flat, a=steep)]
    assert line_styles(*plots) == 3
    assert line_styles(plots[0], auc(a=flat, b=steep)) == 1
    # K = 0 has a place of its own.
    assert line_styles(auc(a={0: 0.9, 2: 0.8}), auc(a={1: 0.9, 2: 0.8}), auc(a={2: 0.8})) == 3
    # A method keeps its look when another one has no numbers.
    lines = {"b": {2: 0.9, 5: 0.8}}
    assert line_styles(auc(a={2: NAN}, **lines), auc(**lines)) == 2


def test_a_k_without_a_number_breaks_the_line():
    broken, absent, unbroken = (
        auc(a={0: 0.9, 2: 0.85, 5: 0.8}, b={0: 0.9, **middle, 5: 0.8})
        for middle in ({2: NAN}, {}, {2: 0.85})
    )
    assert line_styles(broken, absent) == 1
    assert line_styles(unbroken, absent) == 2


MANY = {f"a_long_name_{index}": {k: index + k for k in range(30)} for index in range(30)}
FAR = {"a": {2: 0.001}, "b": {5: 900.0}}


@pytest.mark.parametrize("figure", ["auc", "seconds", "kept"])
@pytest.mark.parametrize("values", [{}, {"a": {}}, {"a": {2: NAN, 5: math.inf}}, FAR, MANY])
@pytest.mark.usefixtures("coarse")
def test_chart_over_k_takes_awkward_numbers(values, figure: str):
    pixels(plot(values, figure))


def test_a_figure_is_that_of_the_releases_that_have_it():
    releases = [
        k_anonymous(figures={"auc": 0.9, "seconds": 0.1}),
        k_anonymous(k="5", measures=measures("aabbb", k=5), figures={"auc": NAN}),
        k_anonymous(model="tree"),
    ]
    assert figure_over_k(releases[::2], "auc") == {"kjig": {2: 0.9}}
    assert list(figure_over_k(releases, "auc")["kjig"]) == [2, 5]
    assert figure_over_k(releases, "kept") == {}
