"""What the pages tell when everything has run: the chain, cards, columns, plots, the budget."""

import re

import pytest

from dp_pipeline_tests.ui.dagster_ui import DagsterUi
from dp_pipeline_tests.ui.pictures import keep_picture

pytestmark = [pytest.mark.ui, pytest.mark.usefixtures("swept")]

PICTURE = "img[src^='data:image/png']"
CHAIN = ("ingested", "validated", "normalized", "eug_kmeans", "evaluation", "comparison", "budget")


def test_the_chain_of_one_data_set_is_drawn(ui: DagsterUi):
    ui.resize(1700, 720)
    ui.open_lineage('key:"rides/*"')
    ui.sees("rides_2_release")
    ui.page.get_by_role("button", name="settings", exact=True).click()
    ui.page.get_by_role("menuitem", name="Expand all groups").click()
    for asset in CHAIN:
        ui.sees(re.compile(f"^{asset}$"))
    ui.page.keyboard.press("Escape")
    keep_picture(ui.page, "lineage")


def test_a_release_has_a_card_that_opens(ui: DagsterUi):
    ui.resize(1400, 1250)
    ui.open_asset("rides/eug_kmeans", view="partitions", partition="1")
    card = ui.opened(ui.metadata("release card"))
    card.get_by_text("Cleared for release?").wait_for()
    words = card.inner_text()
    for told in ("at ε = 1", "at most 2", "ε=1.75", "ceiling is ε=2"):
        assert told in words
    keep_picture(ui.page, "release_card")


def test_a_release_reports_its_columns_and_what_it_spent(ui: DagsterUi):
    ui.open_asset("rides/eug_kmeans")
    assert "0 to 30" in ui.metadata("x").inner_text()
    assert "1.05" in ui.metadata("privacy/epsilon").inner_text()
    assert "discrete Laplace" in ui.metadata("privacy/mechanisms").inner_text()
    keep_picture(ui.page, "release")


@pytest.mark.parametrize(
    ("asset", "number"), [("eug_kmeans", "privacy/epsilon"), ("evaluation", "eug_kmeans/nicv")]
)
def test_numbers_are_plotted_over_the_partitions(ui: DagsterUi, asset: str, number: str):
    ui.open_asset(f"rides/{asset}")
    ui.page.get_by_role("button", name="Plots").click()
    ui.sees(number)
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)"
    plot = ui.page.locator("canvas").first
    plot.wait_for()
    assert plot.evaluate(f"canvas => ({drawn})(canvas).data.some(one => one)")


@pytest.mark.parametrize(
    ("asset", "entry"), [("comparison", "utility over ε"), ("budget", "privacy/spending over time")]
)
def test_a_picture_opens(ui: DagsterUi, asset: str, entry: str):
    ui.open_asset(f"rides/{asset}")
    picture = ui.opened(ui.metadata(entry)).locator(PICTURE)
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 300


def test_a_report_opens_and_loads_nothing_from_elsewhere(ui: DagsterUi):
    ui.resize(1100, 1215)
    ui.page.goto((ui.stack.project.home.reports / "rides.html").as_uri())
    ui.sees("Who is protected")
    keep_picture(ui.page, "report")


def test_the_budget_page_says_what_is_spent_and_left(ui: DagsterUi):
    ui.open_asset("rides/budget")
    for entry, amount in (("spent", "1.75"), ("left", "0.25"), ("ceiling", "2")):
        assert amount in ui.metadata(f"privacy/{entry}").inner_text()
    assert ui.metadata("privacy/releases").get_by_role("row").count() == 1 + 3
    ui.opened(ui.metadata("privacy/spending over time")).locator(PICTURE).wait_for()
    keep_picture(ui.page, "budget")
