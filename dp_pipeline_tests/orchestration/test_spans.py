"""Releases of several windows together: charged to each of them, with the noise of one."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import BudgetExceeded, DeclarationError, NotPrepared
from dp_pipeline.orchestration.automation import due_windows
from dp_pipeline.orchestration.runner import step_count
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.releases.account import require_snapshot
from dp_pipeline.releases.charged import ChargedRelease
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.outcome import published_windows, report_path
from dp_pipeline.releases.publish import publish
from dp_pipeline.releases.published_copy import publish_copies
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import ReleaseResult
from dp_pipeline.results.bundle import LEARNED
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.instruments import exact_tables
from dp_pipeline_tests.orchestration import streams
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.orchestration.streams import WEEKS, run_weeks, stream, week_options
from dp_pipeline_tests.orchestration.warm import assert_refused

TREE, TABLE = Fraction("0.55"), Fraction("0.15")
"""What each of its windows pays for a release, with its evaluation."""
PAIRS = [{**streams.TREES, "span": "2"}, streams.TABLES]
SPANS: dict[str, Any] = {"ceiling": {"each_window": "2"}, "publish": PAIRS}
TWO = "2026-W01..2026-W02"


def tree(outcomes: list[ReleaseResult], week: str) -> ReleaseResult:
    """The release of two weeks that belongs to one."""
    of_week = [outcome for outcome in outcomes if outcome.release.spec.window == week]
    return next(outcome for outcome in of_week if outcome.release.name == "htree_kmeans")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, DatasetSpec, Any]:
    """The second and the third week by one command; to be read, not changed."""
    project = Project(tmp_path_factory.mktemp("spans"))
    spec = stream(project, **SPANS)
    return project, spec, run_weeks(project, spec, *WEEKS[1:])


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return stream(project, **SPANS)


def test_every_window_pays_for_each_release_that_reads_it(ran: Any):
    project, spec, outcomes = ran
    paid = {"2026-W01": TREE, "2026-W02": 2 * TREE + TABLE, "2026-W03": TREE + TABLE}
    assert project.ledger.blocks(spec.population) == paid
    # All rows of a person in every window cost what all windows have paid.
    total = sum(outcome.cost for outcome in outcomes)
    assert total == project.spent(spec) == sum(paid.values()) == 4 * TREE + 2 * TABLE
    project.ledger.verify()
    assert published_windows(spec, project.home) == WEEKS[1:]
    # It plans from the release that belongs to the window before.
    assert LEARNED not in tree(outcomes, "2026-W02").bundle.facts
    learned = tree(outcomes, "2026-W03").bundle.facts[LEARNED]
    assert project.home.released / learned == tree(outcomes, "2026-W02").folder


def test_progress_includes_the_rows_of_earlier_windows(project: Project, spec: DatasetSpec):
    (week,) = week_options(project, spec, "2026-W03")
    assert step_count(week) == len(["rows", "rows", "0.1", "0.5", "report"])
    assert step_count(replace(week, span=3)) == step_count(week) + 1


def test_release_of_two_windows_counts_the_rows_of_both(ran: Any):
    project, spec, outcomes = ran
    release = tree(outcomes, "2026-W02")
    assert release.bundle.facts[WINDOW] == TWO
    assert release.bundle.facts["snapshot"] == "2026-W01+2026-W02"
    reserved = project.ledger.history(release.bundle.key)[0]
    assert reserved.facts["blocks"] == "2026-W01 2026-W02"
    assert reserved.what == f"stream/htree_kmeans of {TWO} at ε=0.5"
    both = require_snapshot(spec.at_window("2026-W02"), project.home, WEEKS[:2])
    # Two rows of each of 15 riders, in each of two weeks.
    assert read_stage(both, "normalized").num_rows == 60
    tables = [(), ("kind", "x")]
    first, second = (exact_tables(open_counter(spec, week), tables)[1] for week in both.members)
    for engine in ("memory", "stream"):
        rows, cells = exact_tables(open_counter(spec, both, engine), tables)
        assert rows == 60
        assert np.array_equal(cells, first + second)


def test_what_person_did_in_one_window_is_hidden_by_noise_of_one(ran: Any):
    """Neighbours differ in her rows of one window, of which two count there."""
    project, spec, _ = ran
    second = spec.at_window("2026-W02")
    home, tenth = project.home, Fraction(1, 10)
    release = EpsilonRelease(second, "independent", tenth, home, "seeded:1", span=2)
    scales = []
    for windows in (WEEKS[1:2], WEEKS[:2]):
        snapshot = require_snapshot(release.spec, project.home, windows)
        resolved = release.resolve(release.key(snapshot))
        release.open(resolved, snapshot).dry_run()
        counted = release.counter(snapshot)
        bundle = release.draw_bundle(resolved, counted, Transcript(), release.noise)
        scales.append([spend.scale for spend in bundle.spends])
    assert scales[0] == scales[1]
    assert release.spec.distance == 2


def test_commands_know_releases_of_several_windows(ran: Any):
    project, _, outcomes = ran
    check = project.command("check", "--replay")
    assert "4 replayed at no cost" in check
    assert "no fault" in check
    checked = project.command("data", "check", str(project.datasets / "stream.yaml"))
    assert "what is published of each week with evaluations costs 1.25" in checked
    reserved = project.ledger.history(tree(outcomes, "2026-W02").bundle.key)[0]
    assert ChargedRelease(reserved, None, project.home).command == (
        "dp-pipeline run stream --window 2026-W02 --span 2 --model htree_kmeans --epsilon 0.5"
    )
    words = ("roll-up", "stream", "--model", "htree_kmeans", "--window", "2026-W02..2026-W03")
    assert_refused(project.cli_here(*words), 2, "to be added up must be of one window each")


def test_rows_of_a_window_prepared_otherwise_are_refused(project: Project, spec: DatasetSpec):
    run_weeks(project, spec, "2026-W02")
    wider = {**streams.STREAM["attributes"], "x": {"bounds": ["0", "9"], "bins": "4"}}
    changed = stream(project, **SPANS, attributes=wider)
    names = ("ingested", "validated", "normalized", "discretized")
    assert project.launch(changed, *names, partition="2026-W02-1").success
    both = require_snapshot(changed.at_window("2026-W02"), project.home, WEEKS[:2])
    with pytest.raises(NotPrepared, match=r"Snapshot\(stream/2026-W01\) is not valid"):
        open_counter(changed, both)
    open_counter(changed, both.members[1])


def test_card_and_report_say_the_cost_of_one_and_all_windows(ran: Any):
    project, spec, _ = ran
    (path,) = (project.home.reports / "stream.cards").glob(f"htree_kmeans.{TWO}.0.5.md")
    card = " ".join(path.read_text().split())
    assert "It is of the rows of 2 weeks together, 2026-W01..2026-W02" in card
    assert "what a person did in one week costs ε = 0.55" in card
    assert "all that she did in the 2 at most ε = 1.1." in card
    # Two releases of two weeks read every week, and one of one.
    one_week = "released of one week, by itself and together with others, is ε = 1.25 as declared"
    page = " ".join(report_path(week_options(project, spec)[0]).read_text().split())
    for text in (card, page):
        assert one_week in text
        assert "Releases that are not of it read other rows" in text
        assert "at most ε = 66.25 together as declared" in text
    assert f"htree_kmeans of {TWO} at ε = 0.5" in page
    assert "rows by htree_kmeans over 2 weeks" in page


def test_a_window_without_room_refuses_all_releases_that_read_it(project: Project):
    spec = stream(project, **SPANS)
    run_weeks(project, spec, "2026-W02")
    run_weeks(project, spec, "2026-W02", snapshot="again")
    rows = len(project.ledger.entries())
    # Each of two windows has room by itself, and together they have none.
    options = week_options(project, spec, "2026-W02", "2026-W03", new_draw=True)
    both = [replace(draw, names=["htree_kmeans"]) for draw in options]
    for draw in both:
        plan_run(draw).require_budget()
    with pytest.raises(BudgetExceeded, match=r"spent in 2026-W02 1\.4, left 0\.6, each_window 2"):
        project.execute(streams.all_windows(both))
    assert len(project.ledger.entries()) == rows
    words = ("--window", "2026-W03", "--model", "independent", "--span", "2")
    assert project.cli_here("run", "stream", *words).code == 0
    # The third week has paid 0.15, the one before it 1.55.
    full = project.cli_here("run", "stream", "--window", "2026-W03")
    assert_refused(full, 3, "spent in 2026-W02 1.55, left 0.45, each_window 2")
    (third,) = week_options(project, spec, "2026-W03")
    with pytest.raises(BudgetExceeded, match="spent in 2026-W02"):
        publish(third.releases[1])


def test_a_plan_shows_what_windows_pay_and_refuses_others(project: Project):
    stream(project, **SPANS)
    planned = project.cli_here("plan", "stream", "--window", "2026-W02")
    lines = [line.split() for line in planned.out.splitlines()]
    assert ["2026-W01", "new", "0.55", "2"] in lines
    assert ["2026-W02", "new", "0.7", "2"] in lines
    assert "cost of each window" in planned.out
    assert "requested 1.25 of all windows together, under no total" in planned.out
    two = project.cli_here("plan", "stream", "--window", "2026-W02..2026-W03")
    assert ["2026-W02", "new", "1.25", "2"] in [line.split() for line in two.out.splitlines()]
    assert "requested 2.5 of all windows together" in two.out
    assert project.ledger.populations() == ()
    early = project.cli_here("run", "stream", "--window", "2026-W01..2026-W03")
    assert_refused(early, 2, "over 2 windows up to 2026-W01 needs a window before 2026-W01")
    limits, first = "The span of a release must be 1 to", "is the first: name a later window, or"
    for span, line in (("401", limits), ("-1", limits), ("9", first)):
        wrong = project.cli_here("plan", "stream", "--window", "2026-W03", "--span", span)
        assert_refused(wrong, 2, line)
    assert project.ledger.populations() == ()
    project.command("plan", "stream", "--model", "independent", "--window", "2026-W01")
    stream(project, delta="0.000001", ceiling={"each_window": "9"})
    words = ("--window", "2026-W02", "--model", "independent", "--span", "2")
    wrong = project.cli_here("plan", "stream", *words)
    assert_refused(wrong, 2, "with `delta` a release must be of one window, as ρ of")


def test_command_releases_over_as_many_windows_as_it_says(project: Project):
    spec = stream(project)
    words = ("--model", "independent", "--window", "2026-W03")
    done = project.command("run", "stream", *words, "--span", "3")
    assert "2026-W01..2026-W03" in done
    assert "charged by this run: 0.45" in done
    assert project.ledger.blocks(spec.population) == dict.fromkeys(WEEKS, TABLE)
    # Beside what is published of the window, and no part of it.
    assert published_windows(spec, project.home) == ()
    assert "charged by this run: 0" in project.command("run", "stream", *words, "--span", "3")
    rolled = project.cli_here("roll-up", "stream", *words)
    assert_refused(rolled, 1, "the window is not released: `dp-pipeline run")


def test_refined_release_of_two_windows_is_not_paid_anew(project: Project):
    models = {"independent": {}}
    spec = stream(project, models=models, publish={"model": "independent", "epsilon": "0.5"})
    run_weeks(project, spec, "2026-W02", epsilon="0.1", span=2)
    run_weeks(project, spec, "2026-W02", epsilon="0.5", span=2, refine="0.1")
    paid = project.ledger.blocks(spec.population)
    # Of the larger ε, and of two evaluations.
    assert paid == dict.fromkeys(WEEKS[:2], Fraction(6, 10))
    (again,) = run_weeks(project, spec, "2026-W02", epsilon="0.5", span=2)
    assert (again.state, again.cost) == ("replayed", 0)
    assert again.bundle.facts["snapshot"] == "2026-W01+2026-W02"
    assert project.ledger.blocks(spec.population) == paid


def test_two_windows_cost_twice_where_all_rows_are_protected(project: Project):
    """A person who is in both changes what is counted by twice as much as the noise hides."""
    protection = {**streams.STREAM["protection"], "within": "ever"}
    spec = stream(project, **{**SPANS, "protection": protection, "ceiling": {"total": "1.6"}})
    run_weeks(project, spec, "2026-W02")
    assert project.spent(spec) == 2 * TREE + TABLE
    with pytest.raises(BudgetExceeded, match=r"requested ε=1\.25, spent 1\.25, left 0\.35"):
        run_weeks(project, spec, "2026-W03")
    with pytest.raises(DeclarationError, match=r"a total (of|must be) at least (ρ=)?1\.25"):
        stream(project, **{**SPANS, "protection": protection, "ceiling": {"total": "1.2"}})


def test_new_snapshot_of_one_window_makes_another_release(project: Project):
    spec = stream(project, **SPANS, models={"independent": {}, "htree_kmeans": {"k": "2"}})
    first = tree(run_weeks(project, spec, "2026-W02"), "2026-W02")
    run_weeks(project, spec, "2026-W01", epsilon="0.1", span=1, snapshot="again")
    (request,) = week_options(project, spec, "2026-W02")
    assert {release.model: release.state for release in plan_run(request).releases} == {
        "htree_kmeans": "new",
        "independent": "settled",
    }
    second = tree(project.execute(streams.all_windows([request])), "2026-W02")
    assert second.bundle.facts["snapshot"] == "2026-W01.again+2026-W02"
    assert (second.state, first.bundle.key == second.bundle.key) == ("charged", False)


def test_release_of_two_windows_is_in_partition_of_its_last(project: Project, spec: DatasetSpec):
    names = ("ingested", "validated", "normalized", "discretized")
    released = ("htree_kmeans", "independent", "evaluation")
    assert project.launch(spec, *names, partition="2026-W02-1").success
    refused = project.launch(spec, "htree_kmeans", partition="2026-W02-1")
    assert "no snapshot of 2026-W01 is prepared" in refusal(refused)
    assert project.launch(spec, *names, partition="2026-W01-1").success
    assert project.launch(spec, *released, partition="2026-W02-1").success
    paid = {"2026-W01": TREE, "2026-W02": TREE + TABLE}
    assert project.ledger.blocks(spec.population) == paid


def test_a_tick_reads_the_windows_before_first(project: Project, spec: DatasetSpec):
    assert due_windows(spec, project.home, spec.time_windows.closing_time("2026-W01")) == ()
    first, second = streams.ticked(project, spec, "2026-01-14T06:00").run_requests
    assert (first.partition_key, second.partition_key) == ("2026-W01-1", "2026-W02-1")
    read = {key.path[-1] for key in first.asset_selection}
    assert read == {"ingested", "validated", "normalized", "discretized"}
    assert second.asset_selection is None
    run_weeks(project, spec, "2026-W02")
    (later,) = streams.ticked(project, spec, "2026-01-21T06:00").run_requests
    assert (later.partition_key, later.asset_selection) == ("2026-W03-1", None)


def test_releases_of_two_weeks_are_brought_out_and_put_on_shelf(project: Project):
    """The newest is that of the last window that it is of."""
    spec = stream(project, **SPANS)
    run_weeks(project, spec, *WEEKS[1:])
    out = str(project.folder / "out")
    for words, windows in (((), "2026-W02..2026-W03"), (("--window", "2026-W02"), TWO)):
        project.command("export", spec.name, "htree_kmeans", *words, "--to", out)
        card = json.loads(Path(out, "card.json").read_text(encoding="utf-8"))
        assert card["guarantee"]["facts"][WINDOW] == windows
    project.command("verify", out)
    shelved = publish_copies(spec.of_all_windows(), project.home)
    assert set(shelved) == {"htree_kmeans", "independent"}
    assert all(copy is not None for copy in shelved.values())
