"""What a steward sees who asks for more than is left: the last file, as it leaves a failed run."""

from fractions import Fraction

import pytest

from dp_pipeline_tests.ui.dagster_ui import DagsterUi
from dp_pipeline_tests.ui.test_releases import CHECKS

pytestmark = pytest.mark.ui

NEW_DRAW = "ops: {rides__eug_kmeans: {config: {new_draw: true}}}"
"""Draw once more, at the full price."""


@pytest.mark.usefixtures("swept")
def test_click_too_many_is_one_red_line_and_a_table(ui: DagsterUi):
    ui.open_asset("rides/eug_kmeans")
    ui.materialize(["0.5"], config=NEW_DRAW)
    ui.follow("Failure")
    ui.sees("rides/eug_kmeans at ε=0.5 refused by riders: requested ε=0.55, spent 1.75, left 0.25")
    table = ui.metadata("budget").inner_text().split()
    amounts = ["requested", "0.55", "spent", "1.75", "left", "0.25", "ceiling", "2"]
    assert table[table.index("requested") :] == amounts
    assert ui.spent == Fraction("1.75")
    # The release of before stands, and so does what was found of it.
    ui.open_asset("rides/eug_kmeans", view="checks")
    ui.page.get_by_text("Succeeded", exact=True).nth(CHECKS - 2).wait_for()
    assert ui.page.get_by_text("Execution failed").count() == 0
