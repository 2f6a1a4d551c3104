"""The price beside every ε; what a population has spent, and how many more releases are left."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.sections import Publication
from dp_pipeline.config.windows import Windows
from dp_pipeline.ledger import Balance
from dp_pipeline.reporting.pages import summary_over_epsilon
from dp_pipeline.reporting.prices import BudgetForecast, prices_of
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.results.accountant import LAPLACE, Spend
from dp_pipeline_tests.reporting.samples import HALF, ONE, TEN, bought, release, spec
from dp_pipeline_tests.reporting.test_report import Page, written

TENTH = Fraction(1, 10)
PUBLISHED = Publication("eug_kmeans", HALF)
WEEKS = Windows("ended_at", "week", Clock("timestamp", "UTC"), "2026-W01")
SPENT = Balance(ceiling=TEN, spent=Fraction(9))


def paid(*epsilons: Fraction, **changes: object) -> ReportedPrivateRelease:
    spends = tuple(Spend("grid", LAPLACE, epsilon, 1, 1 / epsilon) for epsilon in epsilons)
    return release(spends=spends, **changes)


def test_price_includes_the_evaluation(tmp_path: Path):
    releases = [paid(HALF, TENTH), paid(ONE, TENTH, epsilon="1", model="htree_kmeans")]
    assert prices_of(releases) == {HALF: "price ε = 0.6", ONE: "price ε = 1.1"}
    rows = [bought("eug_kmeans", HALF, 1.0, 0.1), bought("eug_kmeans", ONE, 2.0, 0.1)]
    text = written(tmp_path, rows=rows, releases=releases)
    assert 'role="columnheader">ε = 0.5, price ε = 0.6</th>' in text
    summary = summary_over_epsilon(rows, prices_of(releases))
    assert summary is not None
    assert summary.startswith("Every model at ε = 1, price ε = 1.1, the best first")


def test_price_equal_to_epsilon_is_omitted():
    assert prices_of([paid(HALF), paid(ONE, epsilon="1")]) == {}


def test_prices_at_one_epsilon_have_a_range():
    assert prices_of([paid(HALF, TENTH), paid(HALF)]) == {HALF: "price ε = 0.5 to 0.6"}


REFINED = {"epsilon": "1", "refined_from": "0.5", "refines": "ab" * 32}
"""Facts of a release at ε = 1 that refines the one of ``samples`` at ε = 0.5."""


def test_price_of_a_refinement_is_that_of_its_epsilon():
    refined = paid(HALF, TENTH, **REFINED)
    assert prices_of([refined]) == {ONE: "price ε = 1.1"}
    declared = spec(publish=Publication("eug_kmeans", ONE))
    assert (
        BudgetForecast.of(declared, Balance(ceiling=TEN, spent=ONE), [refined]).price == ONE + TENTH
    )


def test_page_sums_the_spend_of_a_missing_coarse_release(tmp_path: Path):
    base, elsewhere = paid(HALF), "cd" * 32
    refines_base = paid(HALF, **REFINED)
    refines_another = paid(HALF, **{**REFINED, "refines": elsewhere})
    for releases, cost in [
        ([base, refines_base], "1"),
        ([refines_another], "1"),
        ([base, refines_another], "1.5"),
    ]:
        text = " ".join(written(tmp_path, releases=releases).split())
        assert f"together they cost ε = {cost} at most" in text


def test_remaining_budget_is_counted_in_releases():
    declared = spec(publish=PUBLISHED)
    releases = [paid(ONE, TENTH, epsilon="1"), paid(HALF, TENTH)]
    forecast = BudgetForecast.of(declared, SPENT, releases)
    assert (forecast.price, forecast.affordable_count, forecast.unit) == (
        Fraction("0.6"),
        1,
        "releases",
    )
    weekly = BudgetForecast.of(replace(declared, refresh="weekly"), SPENT, releases)
    assert weekly.unit == "weeks"


def test_forecast_needs_a_ceiling_and_a_price():
    assert (
        BudgetForecast.of(spec(publish=PUBLISHED), SPENT, [paid(ONE, epsilon="1")]).affordable_count
        is None
    )
    assert BudgetForecast.of(spec(), SPENT, [paid(HALF)]).affordable_count is None
    limitless = Balance(ceiling=None, spent=ONE)
    assert (
        BudgetForecast.of(spec(publish=PUBLISHED), limitless, [paid(HALF)]).affordable_count is None
    )


def test_page_has_spent_and_remaining_budget(tmp_path: Path):
    forecast = BudgetForecast.of(spec(publish=PUBLISHED), SPENT, [paid(HALF, TENTH)])
    text = written(tmp_path, forecast=forecast)
    Page(text)
    assert "<dt>Spent so far</dt><dd>ε = 9 on everything ever drawn from population" in text
    assert "<dt>Left</dt><dd>ε = 1: about 1 more such release, at ε = 0.6 each</dd>" in text
    overdrawn = BudgetForecast(Balance(ceiling=ONE, spent=TEN), price=ONE)
    assert overdrawn.affordable_count == 0
    month = replace(SPENT, per_month=ONE, month="2026-11", month_spent=HALF)
    assert "; ε = 0.5 of it in 2026-11</dd>" in written(tmp_path, forecast=BudgetForecast(month))


def week(name: str, **changes: object) -> ReportedPrivateRelease:
    of = replace(spec(windows=WEEKS, within="window", each_window=ONE), window=name)
    return paid(HALF, TENTH, spec=of, window=name, **changes)


def test_remaining_weeks_use_the_newest_price():
    releases = [week("2026-W02"), week("2026-W02", model="htree_kmeans"), week("2026-W01")]
    spent = {"2026-W01": HALF, "2026-W02": Fraction("1.2")}
    four = Balance(ceiling=TEN, spent=Fraction("5.2"))
    forecast = BudgetForecast.of(releases[0].spec, four, releases, spent)
    assert (forecast.price, forecast.affordable_count, forecast.unit) == (
        Fraction("1.2"),
        4,
        "weeks",
    )
    assert forecast.fullest == ("2026-W02", Fraction("1.2"))


def test_weeks_without_a_total_have_no_forecast(tmp_path: Path):
    item = week("2026-W01")
    balance = Balance(ceiling=None, spent=Fraction("0.6"))
    forecast = BudgetForecast.of(item.spec, balance, [item], {"2026-W01": Fraction("0.6")})
    assert forecast.affordable_count is None
    text = written(tmp_path, spec=item.spec, releases=[item], forecast=forecast)
    assert "all weeks together; most on 2026-W01, ε = 0.6</dd>" in text
    assert "no total is declared, so weeks are not counted down" in text
    assert "each further week has ε = 1 of its own, and one more such week costs ε = 0.6" in text
