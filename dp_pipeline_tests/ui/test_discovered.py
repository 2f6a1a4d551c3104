"""Real columns by clicks: a domain is discovered and paid for, and a release is made with it."""

from fractions import Fraction

import pytest

from dp_pipeline_tests.ui.conftest import Tab
from dp_pipeline_tests.ui.dagster_ui import DagsterUi
from dp_pipeline_tests.ui.pictures import keep_picture

pytestmark = pytest.mark.ui

OF_ONE_PERSON = "Nirgendwo"


@pytest.fixture(scope="module", autouse=True)
def shops(tab: Tab) -> None:
    """The purchases: prepared by one click, released at ε = 0.5 and 1 by others."""
    with tab() as ui:
        ui.wait_for_runs()
        ui.prepare("shops")
        ui.follow("Success")
        for epsilon in "0.5", "1":
            ui.open_asset("shops/one_shot")
            ui.materialize([epsilon])
            ui.follow("Success")


def test_discovered_domain_says_what_was_found_and_what_it_cost(ui: DagsterUi):
    balance = ui.stack.project.ledger.balance("customers")
    assert (balance.spent, balance.delta_spent) == (Fraction("2.5"), Fraction(1, 10**6))
    ui.open_asset("shops/domain")
    assert ui.metadata("privacy/epsilon").inner_text().split()[-1] == "1"
    words = ui.metadata("domain").inner_text()
    assert all(zone in words for zone in ("Altstadt", "Hafen", "Messe", "Ried"))
    assert OF_ONE_PERSON not in words
    keep_picture(ui.page, "domain")


def test_every_check_of_a_discovery_is_green(ui: DagsterUi):
    ui.open_asset("shops/domain", view="checks")
    ui.sees("Succeeded")
    assert ui.page.get_by_text("Failed", exact=True).count() == 0


def test_card_says_what_was_discovered_and_retained(ui: DagsterUi):
    ui.open_asset("shops/one_shot", view="partitions", partition="0.5")
    card = ui.opened(ui.metadata("release card")).inner_text()
    assert "zone, fare for ε=1 and δ=1e-6" in card
    assert "never age [0, 20) with card adult" in card


def test_checks_of_rows_warn_of_the_row_that_breaks_a_constraint(ui: DagsterUi):
    ui.open_asset("shops/validated", view="checks")
    ui.sees("keeps_constraint_1")
    ui.sees("Failed")
