"""What is left decides, before anything is drawn: of one release, and of a backfill over ε."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from hashlib import sha256
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.ledger import Balance
from dp_pipeline.orchestration import jobs
from dp_pipeline.orchestration.checks import NOT_NEAR, WITHIN, budget_checks
from dp_pipeline.orchestration.jobs import MAX_SILENCE, backfill_job_name, require_daemon
from dp_pipeline.orchestration.metadata import balance_metadata, budget_report
from dp_pipeline.raw import prepare
from dp_pipeline.raw.snapshot import forget_preparation, require_prepared
from dp_pipeline.releases.account import open_population, require_snapshot
from dp_pipeline.releases.noisy_release import NoisyDrawing
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline_tests.ledger.population import account, charge, release
from dp_pipeline_tests.orchestration.events import check_results, failures, metadata_of, refusal
from dp_pipeline_tests.orchestration.projects import PUBLIC, RIDES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused
from dp_pipeline_tests.raw.file_server import file_server


def test_more_than_is_left_is_refused_with_exit_code_3(project: Project):
    spec = project.declare("rides", RIDES, ceiling={"total": "0.7"})
    project.run(spec, epsilons=["0.1"])
    before = project.files("released", "raw", "internal", "reports")
    # A part of it would fit.
    refused = project.cli_here("run", "rides", "--new-draw")
    assert_refused(refused, 3, "requested ε=0.7, spent 0.15, left 0.55, ceiling 0.7")
    assert project.files("released", "raw", "internal", "reports") == before
    assert project.spent(spec) == Fraction("0.15")


def test_exactly_what_is_left_is_granted(rides: Project, spec: DatasetSpec):
    rides.spend("2.75")
    # 0.1 + 0.05 into the 0.25 that is left; floats would have it left at 0.2499999999999996.
    assert rides.publish(spec, epsilon="0.1").nano == 150_000_000
    last = rides.declare("rides", RIDES, evaluation=None, publish=None, partitions=["0.1"])
    assert rides.publish(last, epsilon="0.1").nano == 100_000_000
    assert rides.ledger.balance("riders").remaining == 0


def test_dagster_shows_a_refusal_as_one_line_and_a_table(rides: Project, spec: DatasetSpec):
    rides.spend("2.75")
    before = rides.files("released")
    new_draw = {"new_draw": True}
    refused = rides.launch(spec, "dpqt_kmeans", partition="0.5", config=new_draw)
    line = "rides/dpqt_kmeans at ε=0.5 refused by riders: requested ε=0.55, spent 2.75, left 0.25, "
    assert refusal(refused).startswith(line + "ceiling 3; ")
    (failed,) = failures(refused)
    metadata = failed.user_failure_data.metadata
    assert metadata["exit_code"].value == 3
    rows = {row.data["ε"]: row.data["amount"] for row in metadata["budget"].records}
    assert rows == {"requested": "0.55", "spent": "2.75", "left": "0.25", "ceiling": "3"}
    assert rides.files("released") == before, "a transcript was begun"
    assert rides.spent(spec) == Fraction("2.75")
    assert rides.launch(spec, "budget").success
    results = {r.check_name: (r.passed, r.severity) for r in check_results(rides, spec)}
    assert results[WITHIN] == (True, dg.AssetCheckSeverity.ERROR)
    assert results[NOT_NEAR] == (False, dg.AssetCheckSeverity.WARN)
    metadata = metadata_of(rides, spec, "budget")
    assert "base64" in metadata["privacy/spending over time"].value


def test_two_data_sets_on_one_population_share_its_account(released_rides: Project):
    walks = released_rides.declare("walks", RIDES)
    released_rides.run(walks, epsilons=["0.5"])
    assert released_rides.ledger.populations() == ("riders",)
    planned = plan_run(released_rides.request(walks, new_draw=True))
    assert (planned.balance.spent, planned.remaining) == (Fraction("1.1"), Fraction("1.9"))


DOWNLOADED = b"rider,x,y\nann,1,1\n"
DIGEST = sha256(DOWNLOADED).hexdigest()
OURS = {"kind": "csv", "at_most_mb": "1", "url": "https://example.org/a.csv", "sha256": DIGEST}


@pytest.fixture
def benchmark(project: Project) -> Iterator[DatasetSpec]:
    """A benchmark that downloads the same bytes from another address."""
    with file_server() as server:
        server.files["/copy.csv"] = DOWNLOADED
        mirror = {"kind": "csv", "at_most_mb": "1", "url": server.url("/copy.csv")}
        yield project.declare("shown", RIDES, source=mirror, population="shown", **PUBLIC)


def test_benchmark_download_of_protected_bytes_is_refused(project: Project, benchmark: DatasetSpec):
    open_population(project.declare("rides", RIDES, source=OURS), project.home)
    message = refusal(project.launch(benchmark, "ingested"))
    assert f"source 'sha256:{DIGEST}' is protected by population riders" in message
    assert DOWNLOADED not in project.files("raw").values()


def test_download_protected_since_is_read_no_more(project: Project, benchmark: DatasetSpec):
    assert project.launch(benchmark, "ingested").success
    with pytest.raises(DeclarationError, match="belongs to population shown"):
        open_population(project.declare("rides", RIDES, source=OURS), project.home)
    changes = {"source": OURS, "distinct_population": "they moved in since"}
    open_population(project.declare("rides", RIDES, **changes), project.home)
    assert "is protected by population riders" in refusal(project.launch(benchmark, "ingested"))
    with pytest.raises(DeclarationError, match="is protected by population riders"):
        require_snapshot(benchmark, project.home)


@pytest.mark.parametrize(
    "change",
    [
        {"ceiling": {"total": "4"}},
        {"protection": {"unit": "rows_of_person", "column": "rider", "at_most": "1"}},
        {"relation": "replace_one"},
        {"purpose": "benchmark"},
        {"delta": "0.000000001", "ceiling": {"total": "5"}},
    ],
    ids=["a higher ceiling", "fewer rows a person", "another relation", "benchmark", "in rho"],
)
def test_account_declared_otherwise_is_refused(change: dict[str, object], rides: Project):
    rides.publish(rides.declare("rides", RIDES))
    other = rides.declare("rides", RIDES, **change)
    line = r"population riders: the account (has|was opened with)"
    with pytest.raises(DeclarationError, match=line):
        rides.run(other, new_draw=True)
    assert rides.ledger.balance("riders").spent == Fraction("0.55")


def test_plan_prices_settled_releases_and_new_draws(rides: Project, spec: DatasetSpec):
    rides.publish(spec)
    planned = plan_run(rides.request(spec))
    assert [(release.state, release.cost) for release in planned.releases] == [
        ("new", Fraction("0.15")),
        ("settled", Fraction(0)),
    ]
    assert plan_run(rides.request(spec, new_draw=True)).total_cost == Fraction("0.7")
    assert plan_run(rides.request(spec, snapshot="next")).total_cost == Fraction("0.7")


YEAR, MONTH = {"ceiling": Fraction(1)}, {"ceiling": Fraction(1), "per_month": Fraction("0.1")}
WEEK = {"ceiling": None, "window_ceiling": Fraction(1), "window": "2026-W01"}


@pytest.mark.parametrize(
    ("limits", "spent", "expected"),
    [
        (YEAR, "0", (True, True)),
        (YEAR, "0.799999999", (True, True)),
        (YEAR, "0.8", (True, False)),
        (YEAR, "1", (True, False)),
        (YEAR, "1.000000001", (False, False)),
        (MONTH, "0.079", (True, True)),
        (MONTH, "0.08", (True, False)),
        (MONTH, "0.11", (False, False)),
        ({"ceiling": None}, "1000", (True, True)),
        (WEEK, "0.9", (True, True)),
        (WEEK, "2", (False, True)),
    ],
)
def test_a_warning_stands_from_80_percent_of_a_limit_on(limits, spent, expected):
    amounts = dict.fromkeys(("spent", "month_spent", "window_spent"), Fraction(spent))
    balance = Balance(**limits, **amounts)
    within, not_near = budget_checks(balance)
    assert (within.passed, not_near.passed) == expected


def test_amounts_are_numbers_with_exact_ones_beside_them():
    limits = {"ceiling": Fraction(3), "per_month": Fraction(1), "month": "2026-11"}
    balance = Balance(**limits, spent=Fraction(1), month_spent=Fraction("0.25"))
    (result, _) = budget_checks(balance)
    amounts = {"spent": 1, "left": 2, "ceiling": 3, "limit of a month": 1}
    amounts |= {"spent in 2026-11": 0.25, "left in 2026-11": 0.75}
    metadata = {name: entry.value for name, entry in result.metadata.items()}
    assert metadata == {f"privacy/{name}": amount for name, amount in amounts.items()}
    assert {type(entry) for entry in metadata.values()} == {float}
    metadata = balance_metadata(Balance(ceiling=None, spent=Fraction(11, 60)))
    values = {name: entry.value for name, entry in metadata.items()}
    assert values["privacy/spent"] == 0.1833
    assert values["privacy/exact spent"] == "11/60"
    assert values["privacy/ceiling"] == "none"


def test_budget_report_draws_charges_and_counts_verified_rows(project: Project):
    ledger = project.ledger
    ledger.open_account(account())
    release(ledger, charge("at ε=1", epsilon="1"))
    metadata = budget_report(ledger, "trips")
    assert metadata["ledger/verified rows"].value == 2
    assert metadata["privacy/spent"].value == 1
    assert len(metadata["privacy/spending over time"].value) < 70_000
    (line,) = metadata["privacy/releases"].records
    assert (line.data["release"], line.data["sum"]) == ("trips/grid at ε=1", "1")


EPSILONS = ("0.1", "0.2", "0.3", "0.4")
MODELS = {"dpqt_kmeans": {"k": "3", "nominal_rows": "40"}, "eug_kmeans": {"k": "3"}}
SWEPT = {"partitions": list(EPSILONS), "publish": None, "models": MODELS}
PRICE = 2 * (Fraction("1.0") + 4 * Fraction("0.05"))
"""Two models at four ε, each with its evaluation."""


def swept(project: Project, spec: DatasetSpec) -> list[bool]:
    job = backfill_job_name(spec)
    return [project.run_job(spec, job, epsilon).success for epsilon in EPSILONS]


def reserved(project: Project) -> Counter[str]:
    entries = project.ledger.entries("riders")
    return Counter(entry.what for entry in entries if entry.event == "reserve")


def failing(monkeypatch, *, draws: tuple[int, ...], after: bool) -> None:
    """Some of the next draws end in an error, before or after their noise was drawn."""
    real, done = NoisyDrawing.draw, iter(range(100))

    def draw(*arguments: Any, **named: Any) -> object:
        is_lost = next(done) in draws
        bundle = real(*arguments, **named) if after or not is_lost else None
        if is_lost:
            raise RuntimeError("injected")
        return bundle

    monkeypatch.setattr(NoisyDrawing, "draw", draw)


@pytest.mark.parametrize("after", [False, True], ids=["before the noise", "after the noise"])
def test_half_failed_backfill_pays_what_is_left(after, rides, monkeypatch):
    spec = rides.declare("rides", RIDES, **SWEPT)
    with monkeypatch.context() as patch:
        failing(patch, draws=(1, 4), after=after)
        first = swept(rides, spec)
    assert first.count(False) == 2
    paid = rides.spent(spec)
    assert paid <= PRICE
    assert swept(rides, spec) == [True] * 4
    assert rides.spent(spec) == PRICE
    assert set(reserved(rides).values()) == {1}
    assert len(reserved(rides)) == 8
    assert swept(rides, spec) == [True] * 4
    assert rides.spent(spec) == PRICE, "the third launch replays"


def test_backfill_that_ends_at_ceiling_goes_on_where_it_stopped(rides: Project):
    tight = rides.declare("rides", RIDES, **SWEPT)
    rides.spend("1.5")
    # 0.3, 0.5, 0.7 and 0.9 into 1.5 that is left: the fourth fits with neither of its models.
    assert swept(rides, tight) == [True, True, True, False]
    assert rides.spent(tight) == 3
    rides.ledger.raise_ceiling("riders", ceiling=Fraction(4), reason="more", by="ana")
    raised = rides.declare("rides", RIDES, **SWEPT, ceiling={"total": "4"})
    assert swept(rides, raised) == [True] * 4
    assert rides.spent(raised) == Fraction("1.5") + PRICE
    assert set(reserved(rides).values()) == {1}


def test_a_backfill_needs_a_daemon_that_was_heard_of_lately():
    now, instance = 1_000_000.0, Mock()
    beats = instance.get_daemon_heartbeats
    beats.return_value = {jobs.QUEUE_DAEMON: Mock(timestamp=now - MAX_SILENCE)}
    require_daemon(instance, now=now)
    for silent in ({}, {jobs.QUEUE_DAEMON: Mock(timestamp=now - MAX_SILENCE - 1)}):
        beats.return_value = silent
        with pytest.raises(PipelineError, match="The backfill needs a running Dagster daemon"):
            require_daemon(instance, now=now)


def test_a_backfill_before_rows_are_prepared_prepares_them_once(project: Project):
    spec = project.declare("rides", RIDES, **SWEPT)
    assert swept(project, spec) == [True] * 4
    assert project.spent(spec) == PRICE
    stored = project.files("raw")
    project.write_rows("rides.csv", ["rider,x,y", "zoe,8,4"])
    assert swept(project, spec) == [True] * 4
    assert project.files("raw") == stored, "prepared rows stay as they are"
    assert project.cli_here("data", "retire", "rides", "--yes").code == 0
    assert swept(project, spec) == [True] * 4
    assert project.spent(spec) == PRICE


def test_runs_that_prepare_the_same_rows_at_once_store_them_once(rides: Project, monkeypatch):
    spec, storing = rides.declare("rides", RIDES), Mock(side_effect=prepare.store_parts)
    forget_preparation(rides.snapshot(spec))
    monkeypatch.setattr(prepare, "store_parts", storing)

    def normalize(_: int) -> None:
        prepare.prepare_stage(spec, rides.snapshot(spec), "normalized", again=False)

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(normalize, range(4))) == [None] * 4
    stages = [call.args[1] for call in storing.call_args_list]
    assert stages == ["normalized", "left_out"]
    require_prepared(spec, rides.snapshot(spec))


def test_command_refuses_what_does_not_fit_without_a_daemon(rides: Project):
    rides.declare("rides", RIDES)
    rides.spend("2.5")
    result = rides.cli_here("backfill", "rides", "--epsilon", "0.5")
    assert result.code == 3
    assert "requested ε=0.55, spent 2.5, left 0.5, ceiling 3" in result.err
