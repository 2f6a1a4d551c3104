"""Prices, what charges were for, what a population has left, and its budget over time."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.dates import num2date

from dp_pipeline.config.amounts import NANO, PURE, Currency
from dp_pipeline.config.clock import Clock
from dp_pipeline.config.sections import Publication
from dp_pipeline.config.windows import Windows
from dp_pipeline.ledger import Balance, Entry, Ledger
from dp_pipeline.reporting.figures.budget import budget_staircase
from dp_pipeline.reporting.figures.picture import MOST_BYTES, Picture
from dp_pipeline.reporting.pages import summary_over_epsilon
from dp_pipeline.reporting.prices import BudgetForecast, prices_of
from dp_pipeline.reporting.releases import (
    EVALUATION,
    ONE_WAYS,
    PAIRS,
    ROWS,
    STRUCTURE,
    TABLES,
    ReportedPrivateRelease,
    steps_of,
)
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, NOISY_MAX, Spend
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline_tests.ledger.population import account, charge
from dp_pipeline_tests.ledger.population import release as settle
from dp_pipeline_tests.reporting.samples import HALF, ONE, TEN, bought, release, spec
from dp_pipeline_tests.reporting.test_report import written

TENTH = Fraction(1, 10)
PUBLISHED = Publication(model="eug_kmeans", epsilon="0.5")
WEEKS = Windows("ended_at", "week", Clock("timestamp", "UTC"), "2026-W01")
SPENT = Balance(ceiling=TEN, spent=Fraction(9))


def paid(*epsilons: Fraction, **changes: object) -> ReportedPrivateRelease:
    spends = tuple(Spend("grid", LAPLACE, epsilon, 1, 1 / epsilon) for epsilon in epsilons)
    return release(spends=spends, **changes)


def forecast_of(releases, balance=SPENT, publish=PUBLISHED, **changes: Any) -> BudgetForecast:
    return BudgetForecast.of(spec(publish=publish, **changes), balance, releases)


def test_price_includes_the_evaluation(tmp_path: Path):
    releases = [paid(HALF, TENTH), paid(ONE, TENTH, epsilon="1", model="htree_kmeans")]
    assert prices_of(releases) == {HALF: "price ε = 0.6", ONE: "price ε = 1.1"}
    rows = [bought("eug_kmeans", HALF, 1.0, 0.1), bought("eug_kmeans", ONE, 2.0, 0.1)]
    text = written(tmp_path, rows=rows, releases=releases)
    assert 'role="columnheader">ε = 0.5, price ε = 0.6</th>' in text
    summary = summary_over_epsilon(rows, prices_of(releases))
    assert summary.startswith("Every model at ε = 1, price ε = 1.1, the best first")


def test_prices_are_omitted_at_epsilon_or_have_a_range():
    assert prices_of([paid(HALF), paid(ONE, epsilon="1")]) == {}
    assert prices_of([paid(HALF, TENTH), paid(HALF)]) == {HALF: "price ε = 0.5 to 0.6"}
    # The price of a refinement is that of its ε.
    refined = paid(HALF, TENTH, **REFINED)
    assert prices_of([refined]) == {ONE: "price ε = 1.1"}
    published = Publication(model="eug_kmeans", epsilon="1")
    assert forecast_of([refined], publish=published).price == ONE + TENTH


REFINED = {"epsilon": "1", "refined_from": "0.5", "refines": "ab" * 32}
"""Facts of a release at ε = 1 that refines the one of ``samples`` at ε = 0.5."""


def test_page_sums_the_spend_of_a_missing_coarse_release(tmp_path: Path):
    base, refines_base = paid(HALF), paid(HALF, **REFINED)
    refines_another = paid(HALF, **{**REFINED, "refines": "cd" * 32})
    costs = {"1": [base, refines_base], "1.5": [base, refines_another]}
    for cost, releases in [*costs.items(), ("1", [refines_another])]:
        text = " ".join(written(tmp_path, releases=releases).split())
        assert f"together they cost ε = {cost} at most" in text


def test_remaining_budget_is_counted_in_releases():
    releases = [paid(ONE, TENTH, epsilon="1"), paid(HALF, TENTH)]
    forecast = forecast_of(releases)
    assert (forecast.price, forecast.affordable_count) == (Fraction("0.6"), 1)
    assert forecast.unit == "releases"
    assert forecast_of(releases, refresh="weekly").unit == "weeks"
    # A forecast needs a ceiling and a price.
    limitless = Balance(ceiling=None, spent=ONE)
    assert forecast_of([paid(ONE, epsilon="1")]).affordable_count is None
    assert forecast_of([paid(HALF)], publish=None).affordable_count is None
    assert forecast_of([paid(HALF)], limitless).affordable_count is None


def test_page_has_the_remaining_budget(tmp_path: Path):
    text = written(tmp_path, forecast=forecast_of([paid(HALF, TENTH)]))
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
    assert (forecast.price, forecast.affordable_count) == (Fraction("1.2"), 4)
    assert (forecast.unit, forecast.fullest) == ("weeks", ("2026-W02", Fraction("1.2")))


def test_weeks_without_a_total_have_no_forecast(tmp_path: Path):
    item = week("2026-W01")
    balance = Balance(ceiling=None, spent=Fraction("0.6"))
    forecast = BudgetForecast.of(item.spec, balance, [item], {"2026-W01": Fraction("0.6")})
    assert forecast.affordable_count is None
    text = written(tmp_path, spec=item.spec, releases=[item], forecast=forecast)
    assert "all weeks together; most on 2026-W01, ε = 0.6</dd>" in text
    assert "no total is declared, so weeks are not counted down" in text
    assert "each further week has ε = 1 of its own, and one more such week costs ε = 0.6" in text


def laplace(kind: str, tenths: int) -> Spend:
    return Spend(kind, LAPLACE, tenths * TENTH, 1, 1 / (tenths * TENTH))


SPENDS = (
    laplace("number of rows", 1),
    laplace("marginal of a", 1),
    laplace("marginal of b", 1),
    laplace("scores of 3 tables", 1),
    Spend("edge 1", NOISY_MAX, TENTH, 1, 2 / TENTH),
    laplace("marginal of a, b", 3),
    laplace("cells of a, b from 4 rows on", 2),
)
TABLE = Bundle(
    key="k",
    facts={"kind": "dp", "evaluation": "none"},
    spends=SPENDS,
    quality={},
    tables={"cliques": {"attributes": np.array(["a, b"])}},
    transcript="chain",
)


def steps_by_name(bundle: Bundle) -> dict[str, tuple[int, Fraction, Fraction]]:
    return {step.name: (step.charges, step.cost, step.share) for step in steps_of(bundle)}


def test_charges_are_added_up_by_what_they_were_for():
    assert steps_by_name(TABLE) == {
        ROWS: (1, TENTH, TENTH),
        ONE_WAYS: (2, 2 * TENTH, 2 * TENTH),
        STRUCTURE: (2, 2 * TENTH, 2 * TENTH),
        TABLES: (2, 5 * TENTH, 5 * TENTH),
    }
    with_pairs = replace(TABLE, spends=(*SPENDS, laplace("pairs of persons by age", 1)))
    assert steps_by_name(with_pairs)[PAIRS] == (1, TENTH, Fraction(1, 11))
    assert steps_of(replace(TABLE, tables={"centres": {"x": np.zeros(1)}})) == ()


def test_what_bought_quality_is_a_step_of_its_own():
    bought = (laplace("number of rows", 2), laplace("error of 1 released marginals", 3))
    quality = {"avd_2": NoisyNumber(0.1, 0.01, "share")}
    changes = {"facts": {"evaluation": "0.5"}, "spends": SPENDS + bought, "quality": quality}
    steps = steps_by_name(replace(TABLE, **changes))
    assert steps[ROWS] == (1, TENTH, TENTH / Fraction(3, 2))
    assert steps[EVALUATION] == (2, Fraction(1, 2), Fraction(1, 3))
    assert sum(share for _, _, share in steps.values()) == 1


def test_steps_are_counted_in_what_the_population_pays_in():
    gaussian = Spend("marginal of a, b", GAUSSIAN, TENTH, 1, 5 * Fraction(1), "zcdp")
    facts = {"evaluation": "none", "delta": "0.000000001", "currency": "zcdp"}
    paid = replace(TABLE, facts=facts, spends=(gaussian, SPENDS[0]))
    steps = steps_by_name(paid)
    assert steps[TABLES][1] == TENTH
    assert sum(cost for _, cost, _ in steps.values()) == paid.spent == TENTH + TENTH**2 / 2


def at(month: int, day: int) -> datetime:
    return datetime(2026, month, day, 12, tzinfo=UTC)


def row(event: str, time: datetime, *, amount: str = "0", **facts: str) -> Entry:
    """A row of the ledger of riders, as far as a picture of their budget reads it."""
    nano = int(Fraction(amount) * NANO)
    kind = "dp" if event == "reserve" else None
    return Entry(1, event, time.isoformat(), "riders", "k", None, kind, nano, "", facts, *"phs", ())


ACCOUNT = row("account", at(1, 1), ceiling="3", per_month="1")
RAISE = row("raise", at(3, 1), ceiling="4")
CHARGES = (
    row("reserve", at(1, 5), amount="0.5"),
    row("reserve", at(1, 12), amount="0.25"),
    row("reserve", at(2, 3), amount="0.5"),
    row("reserve", at(4, 1), amount="1"),
)
"""Four charges in three months, under a ceiling that was raised once."""


def staircase(*entries: Entry, population: str = "riders", currency: Currency = PURE) -> Picture:
    return budget_staircase(population, entries, currency)


def heights(picture: Picture) -> list[list[float]]:
    """What each stepped line of a picture shows: first what is spent, then the limits."""
    lines = picture.figure.axes[0].lines
    return [list(line.get_ydata())[:-1] for line in lines if line.get_drawstyle() == "steps-post"]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger")
    ledger.open_account(account("riders", ceiling="3", per_month=Fraction(2)))
    return ledger


def test_the_rows_of_a_ledger_tell_its_history(ledger: Ledger):
    settle(ledger, charge("ab", population="riders", epsilon="0.5"))
    settle(ledger, charge("free", population="riders", epsilon="0"))
    ledger.raise_ceiling("riders", ceiling=Fraction(5), per_month=None, reason="more", by="ana")
    settle(ledger, charge("cd", population="riders", epsilon="0.25"))
    past = heights(staircase(*ledger.entries("riders")))
    assert past == [[0, 0.5, 0.75], [3, 5], [2]]


def test_an_account_in_rho_has_its_limits_in_rho(tmp_path: Path):
    ledger = Ledger(tmp_path / "ledger")
    opened = account("riders", ceiling="3", delta=Fraction(1, 10**9))
    ledger.open_account(opened)
    entries = [*ledger.entries("riders"), CHARGES[0]]
    picture = staircase(*entries, currency=opened.currency)
    assert opened.limit is not None
    assert heights(picture) == [[0, 0.5], [float(opened.limit)]]
    assert picture.alt_text.startswith("ρ, sum of all charges over time.")


def test_sums_grow_charge_by_charge_and_months_are_added_up():
    picture = staircase(ACCOUNT, *CHARGES, RAISE)
    assert heights(picture) == [[0, 0.5, 0.75, 1.25, 2.25], [3, 4], [1]]
    bars = {
        f"{num2date(x):%Y-%m-%d}": y
        for bar in picture.figure.axes[0].collections
        for x, y in bar.get_paths()[0].vertices.tolist()
        if y
    }
    ends = {"2026-01-01": 0.75, "2026-02-01": 0.5, "2026-04-01": 1, "2026-05-01": 1}
    assert bars == ends | {"2026-03-01": 0.5}


@pytest.mark.chain
@pytest.mark.parametrize(
    "entries",
    [
        (ACCOUNT, *CHARGES, RAISE),
        (row("account", at(1, 1), ceiling="3", per_month="none"), *CHARGES),
        (row("account", at(1, 1), ceiling="none"), *CHARGES),
        (ACCOUNT,),
        (ACCOUNT, row("reserve", at(1, 1), amount="0.000000001")),
        (ACCOUNT, *(row("reserve", at(1, 1 + day % 28), amount="1") for day in range(3000))),
    ],
    ids=["all", "no month", "no limit", "nothing", "a nano-ε", "3000 charges"],
)
@pytest.mark.parametrize("population", ["riders", "riders of a $long$ name " * 9])
def test_a_staircase_is_a_small_picture(entries: tuple[Entry, ...], population: str):
    picture = staircase(*entries, population=population, currency=Currency(Fraction(1, 10**9))).png
    assert len(picture) < MOST_BYTES
    # A browser window of 1300 pixels shows so many whole in Dagster's dialog.
    assert int.from_bytes(picture[16:20], "big") <= 900


@pytest.mark.chain
def test_equal_histories_give_equal_pictures():
    without_month = row("account", at(1, 1), ceiling="3")
    first, again, *alternatives = (
        staircase(*entries, *CHARGES).svg for entries in ([ACCOUNT], [ACCOUNT], [without_month], [])
    )
    assert first == again
    assert first not in alternatives


def test_simultaneous_charges_are_summed():
    charged = row("reserve", at(1, 5), amount="1")
    assert heights(staircase(charged, charged)) == [[0, 1, 2]]
