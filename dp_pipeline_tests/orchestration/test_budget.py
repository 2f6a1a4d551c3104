"""What is left decides, before anything is drawn."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256

import pytest

from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.releases.account import open_population, require_snapshot
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline_tests.orchestration.events import failures, refusal
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.raw.file_server import file_server

pytestmark = pytest.mark.chain

TIGHT = {"partitions": ["0.1", "0.5"], "ceiling": {"total": "0.7"}}
"""A ceiling that everything fits into once."""


def test_more_than_is_left_is_refused_with_exit_code_3(project: Project):
    spec = project.declare("rides", RIDES, **TIGHT)
    project.run(spec)
    before = project.files("released", "raw", "internal", "reports")
    refused = project.cli_here("run", "rides", "--new-draw", "--epsilon", "0.5")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.count("\n") == 1
    assert "requested ε=0.55, spent 0.7, left 0, ceiling 0.7" in refused.err
    assert project.files("released", "raw", "internal", "reports") == before
    assert project.spent(spec) == Fraction("0.7")


def test_a_request_that_fits_in_part_only_is_not_started(project: Project):
    spec = project.declare("rides", RIDES, **TIGHT)
    project.run(spec, epsilons=["0.1"])
    with pytest.raises(BudgetExceeded, match=r"requested ε=0\.7, spent 0\.15, left 0\.55"):
        project.run(spec, new_draw=True)
    assert project.spent(spec) == Fraction("0.15")


def test_exactly_what_is_left_is_granted(rides: Project):
    spec = rides.declare("rides", RIDES)
    for _ in range(5):
        rides.publish(spec, new_draw=True)
    # 0.1 + 0.05 into the 0.25 that is left; floats would have it left at 0.2499999999999996.
    assert rides.publish(spec, epsilon="0.1").nano == 150_000_000
    last = rides.declare("rides", RIDES, evaluation=None, publish=None, partitions=["0.1"])
    assert rides.publish(last, epsilon="0.1").nano == 100_000_000
    assert rides.ledger.balance("riders").remaining == 0


def test_dagster_shows_a_refusal_as_one_line_and_a_table(rides: Project):
    spec = rides.declare("rides", RIDES)
    for _ in range(5):
        rides.publish(spec, new_draw=True)
    before = rides.files("released")
    refused = rides.launch(spec, "dpqt_kmeans", partition="0.5", config={"new_draw": True})
    line = "rides/dpqt_kmeans at ε=0.5 refused by riders: requested ε=0.55, spent 2.75, left 0.25, "
    assert refusal(refused).startswith(line + "ceiling 3; ")
    (failed,) = failures(refused)
    metadata = failed.user_failure_data.metadata
    assert metadata["exit_code"].value == 3
    assert [(row.data["ε"], row.data["amount"]) for row in metadata["budget"].records] == [
        ("requested", "0.55"), ("spent", "2.75"), ("left", "0.25"), ("ceiling", "3"),
    ]  # fmt: skip
    assert rides.files("released") == before, "a transcript was begun"
    assert rides.spent(spec) == Fraction("2.75")


def test_two_data_sets_on_one_population_share_its_account(released_rides: Project):
    project = released_rides
    rides = project.declare("rides", RIDES)
    project.write_rows("walks.csv", ["rider,x,y", "ann,1,1", "zoe,2,2"])
    walks = project.declare("walks", RIDES, source={"kind": "csv", "path": "walks.csv"})
    project.run(walks, epsilons=["0.5"])
    assert project.spent(rides) == project.spent(walks) == Fraction("1.1")
    (account,) = project.ledger.populations()
    assert account == "riders"
    planned = plan_run(project.request(walks, new_draw=True))
    assert (planned.spent, planned.remaining) == (Fraction("1.1"), Fraction("1.9"))


def test_second_population_that_claims_same_source_is_refused(project: Project):
    project.run(project.declare("rides", RIDES), epsilons=["0.1"])
    project.declare("copies", RIDES, population="other_riders")
    refused = project.cli_here("run", "copies")
    assert refused.code == 2
    assert "belongs to population riders (release)" in refused.err
    assert project.ledger.account("other_riders") is None
    assert not (project.home.raw / "copies").exists()


def test_benchmark_over_a_protected_source_is_refused(project: Project):
    project.run(project.declare("rides", RIDES), epsilons=["0.1"])
    exposing = {
        "population": "shown",
        "purpose": "benchmark",
        "distinct_population": "really others",
    }
    spec = project.declare("shown", RIDES, **exposing)
    with pytest.raises(DeclarationError, match="is protected by population riders"):
        project.run(spec)


MIRRORED = {"population": "shown", "purpose": "benchmark", "ceiling": None, "evaluation": None}


def test_benchmark_download_of_protected_bytes_is_refused(project: Project):
    rows = b"rider,x,y\nann,1,1\n"
    with file_server() as server:
        server.files["/copy.csv"] = rows
        release = {"url": "https://example.org/a.csv", "sha256": sha256(rows).hexdigest()}
        source = {"kind": "csv", "at_most_mb": "1"}
        open_population(project.declare("rides", RIDES, source=source | release), project.home)
        mirror = source | {"url": server.url("/copy.csv")}
        benchmark = project.declare("shown", RIDES, source=mirror, **MIRRORED)
        message = refusal(project.launch(benchmark, "ingested"))
    assert f"source 'sha256:{release['sha256']}' is protected by population riders" in message
    assert rows not in project.files("raw").values()


def test_download_protected_since_is_read_no_more(project: Project):
    rows = b"rider,x,y\nann,1,1\n"
    with file_server() as server:
        server.files["/copy.csv"] = rows
        mirror = {"kind": "csv", "at_most_mb": "1", "url": server.url("/copy.csv")}
        benchmark = project.declare("shown", RIDES, source=mirror, **MIRRORED)
        assert project.launch(benchmark, "ingested").success
    ours = mirror | {"url": "https://example.org/a.csv", "sha256": sha256(rows).hexdigest()}
    with pytest.raises(DeclarationError, match="belongs to population shown"):
        open_population(project.declare("rides", RIDES, source=ours), project.home)
    changes = {"source": ours, "distinct_population": "they moved in since"}
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
    ],
    ids=["a higher ceiling", "fewer rows a person", "another relation", "benchmark"],
)
def test_account_declared_otherwise_is_refused(change: dict[str, object], rides: Project):
    rides.publish(rides.declare("rides", RIDES))
    other = rides.declare("rides", RIDES, **change)
    with pytest.raises(
        DeclarationError, match=r"population riders: the account (has|was opened with)"
    ):
        rides.run(other, new_draw=True)
    assert rides.ledger.balance("riders").spent == Fraction("0.55")


def test_plan_prices_settled_releases_and_new_draws(rides: Project):
    spec = rides.declare("rides", RIDES)
    rides.publish(spec)
    planned = plan_run(rides.request(spec))
    assert [(release.state, release.cost) for release in planned.releases] == [
        ("new", Fraction("0.15")),
        ("settled", Fraction(0)),
    ]
    assert plan_run(rides.request(spec, new_draw=True)).total_cost == Fraction("0.7")
    assert plan_run(rides.request(spec, snapshot="next")).total_cost == Fraction("0.7")
