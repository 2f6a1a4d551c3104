"""Releases that go on window by window: each read once, charged once, and learned from."""

import csv
import json
import re
import shutil
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterUnknownPartitionError

from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.orchestration.jobs import SEQUENTIAL_TAG
from dp_pipeline.orchestration.partitions import partition_key, window_of_key
from dp_pipeline.orchestration.runner import RunFailed
from dp_pipeline.raw import ingest
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.outcome import evaluations, published_windows, report_path
from dp_pipeline.releases.publish import publish
from dp_pipeline.releases.replay import read_document, require_intact, require_reproducible
from dp_pipeline.releases.roll_up import roll_up
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import ReleaseResult, RunResult
from dp_pipeline.results.bundle import LEARNED
from dp_pipeline.results.measurement import variance
from dp_pipeline_tests.orchestration import streams
from dp_pipeline_tests.orchestration.projects import Project, definitions_of
from dp_pipeline_tests.orchestration.streams import WEEKS, run_weeks, stream, week_options
from dp_pipeline_tests.orchestration.warm import assert_refused

ATTRIBUTES: dict[str, Any] = streams.STREAM["attributes"]
WIDER = {**ATTRIBUTES, "x": {"bounds": ["0", "9"], "bins": "4"}}
SMOOTH = {"plan_from": "previous", "smooth": "true"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, DatasetSpec, Any]:
    """Three weeks published by one command; to be read, not changed."""
    project = Project(tmp_path_factory.mktemp("stream"))
    spec = stream(project)
    return project, spec, run_weeks(project, spec)


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return stream(project)


def states_of(outcomes: list[ReleaseResult]) -> set[str]:
    return {outcome.state for outcome in outcomes}


def test_every_window_is_charged_once_as_its_scales_prove(ran: Any):
    project, spec, outcomes = ran
    assert [(outcome.release.spec.window, outcome.release.name) for outcome in outcomes] == [
        (week, name) for week in WEEKS for name in ("independent", "htree_kmeans")
    ]
    assert states_of(outcomes) == {"charged"}
    proved = dict.fromkeys(WEEKS, Fraction(0))
    for outcome in outcomes:
        spends = (spend.epsilon_of_scale for spend in outcome.bundle.spends)
        proved[outcome.release.spec.window] += sum(spends, Fraction(0))
    assert proved == project.ledger.blocks(spec.population) == dict.fromkeys(WEEKS, streams.EACH)
    assert project.spent(spec) == 3 * streams.EACH
    project.ledger.verify()
    again = run_weeks(project, spec)
    assert {(outcome.state, outcome.cost) for outcome in again} == {("replayed", 0)}
    for options in week_options(project, spec):
        planned = plan_run(options)
        assert (planned.total_cost, planned.remaining) == (0, Fraction(14, 10) - streams.EACH)
        assert {release.state for release in planned.releases} == {"settled"}


def test_every_row_with_a_time_is_in_one_window(ran: Any):
    project, spec, _ = ran
    seen = []
    for week in WEEKS:
        snapshot = project.snapshot(spec, week)
        assert snapshot.id == week
        seen += filter(None, read_stage(snapshot, "ingested").column("ended").to_pylist())
        # At most two rows of each of 15 riders, whatever other weeks have of them; none of the
        # sixteenth, whose row has no time.
        assert read_stage(snapshot, "normalized").num_rows == 30
    assert sorted(seen) == sorted(
        line.split(",")[1] for week in WEEKS for line in streams.rides(week)
    )


def test_report_says_what_one_week_costs_and_what_year_does(ran: Any):
    project, spec, _ = ran
    page = " ".join(report_path(week_options(project, spec)[0]).read_text().split())
    assert "Everything that is released of one week is ε = 0.7 as declared" in page
    assert "never more than ε = 1.4" in page
    assert "at most ε = 37.1 together as declared" in page
    assert "Noisy number of rows over time" in page
    for week in WEEKS:
        assert f"htree_kmeans of {week} at ε = 0.5" in page
    (card,) = (project.home.reports / "stream.cards").glob("independent.2026-W02.*.md")
    assert "one week of one person: all rows of that week with the same rider" in card.read_text()


def test_window_plans_from_the_one_before_and_is_rebuilt(ran: Any):
    project, _spec, outcomes = ran
    tables, trees = outcomes[::2], outcomes[1::2]
    assert not any(LEARNED in outcome.bundle.facts for outcome in (trees[0], *tables))
    for before, tree in pairwise(trees):
        assert project.home.released / tree.bundle.facts[LEARNED] == before.folder
        assert tree.bundle.facts[WINDOW] == tree.release.spec.window
        require_reproducible(tree.release, require_intact(tree.release, tree.folder))
        # All of ε on the leaves at once, none on finding them.
        assert len(tree.bundle.spends) < len(trees[0].bundle.spends) + 1


def test_rows_that_come_late_are_never_looked_at(project: Project, spec: DatasetSpec):
    run_weeks(project, spec, "2026-W01")
    before = project.files("raw")
    lines = (project.datasets / "stream.csv").read_text().splitlines()
    project.write_rows("stream.csv", [*lines, "late,2026-01-01T00:00:00Z,1,1,car"])
    again = run_weeks(project, spec, "2026-W01", "2026-W02")
    assert [outcome.state for outcome in again] == ["replayed"] * 2 + ["charged"] * 2
    after = project.files("raw")
    assert {name: content for name, content in after.items() if "W02" not in name} == before


def test_a_window_that_is_not_over_is_not_read(project: Project, spec: DatasetSpec, monkeypatch):
    moment = spec.time_windows.closing_time("2026-W02") - 1
    monkeypatch.setattr(ingest, "now", lambda: moment)
    closed = "the window 2026-W02 is not yet closed and is read from 2026-01-14 00:00 UTC on"
    with pytest.raises(RunFailed, match=closed):
        run_weeks(project, spec, "2026-W02")
    assert project.spent(spec) == 0
    run_weeks(project, spec, "2026-W01")
    monkeypatch.setattr(ingest, "now", lambda: 0)
    # A clock that is put back takes nothing away, and reads nothing anew.
    assert states_of(run_weeks(project, spec, "2026-W01")) == {"replayed"}


def test_new_snapshot_is_a_new_charge_on_its_window(project: Project, spec: DatasetSpec):
    run_weeks(project, spec, "2026-W01")
    run_weeks(project, spec, "2026-W01", snapshot="again")
    assert project.ledger.blocks(spec.population) == {"2026-W01": 2 * streams.EACH}
    with pytest.raises(BudgetExceeded, match=r"spent in 2026-W01 1\.4, left 0, each_window 1\.4"):
        run_weeks(project, spec, "2026-W01", snapshot="third")
    names = {path.name for path in (project.home.raw / "stream").iterdir() if path.is_dir()}
    assert names == {"2026-W01", "2026-W01.again"}
    assert states_of(run_weeks(project, spec, "2026-W01")) == {"replayed"}


def test_window_is_swept_over_epsilon_beside_publication(project: Project, spec: DatasetSpec):
    run_weeks(project, spec, "2026-W01")
    swept = run_weeks(project, spec, "2026-W01", epsilon="0.1")
    states = {outcome.release.name: outcome.state for outcome in swept}
    assert states == {"htree_kmeans": "charged", "independent": "replayed"}
    assert project.ledger.blocks(spec.population)["2026-W01"] == streams.EACH + Fraction(15, 100)
    assert states_of(run_weeks(project, spec, "2026-W01")) == {"replayed"}


def test_late_window_changes_no_later_release(project: Project, spec: DatasetSpec):
    """Else every window behind a late one would be another release, with another charge."""
    first = run_weeks(project, spec, "2026-W02")
    run_weeks(project, spec, "2026-W01")
    again = run_weeks(project, spec, "2026-W02")
    assert states_of(again) == {"replayed"}
    assert [outcome.bundle.key for outcome in again] == [outcome.bundle.key for outcome in first]
    for outcome in again:
        assert LEARNED not in outcome.bundle.facts
        # Made again from its answers, it learns as little as it did.
        require_reproducible(outcome.release, require_intact(outcome.release, outcome.folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": WIDER},
        {"models": {**streams.STREAM["models"], "htree_kmeans": {**streams.HTREE, "k": "3"}}},
    ],
)
def test_a_release_under_another_declaration_is_not_learned_from(changes, project: Project):
    run_weeks(project, stream(project), "2026-W01")
    after = run_weeks(project, stream(project, **changes), "2026-W02")
    assert states_of(after) == {"charged"}
    assert all(LEARNED not in outcome.bundle.facts for outcome in after)


def test_a_damaged_release_is_not_learned_from(project: Project, spec: DatasetSpec):
    run_weeks(project, spec, "2026-W01")
    (table,) = (project.home.released / "stream" / "htree_kmeans").rglob("synopsis.parquet")
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    with pytest.raises(RunFailed, match="is not as it was stored: move"):
        run_weeks(project, spec, "2026-W02")
    # The other model learns nothing, and was charged.
    assert project.ledger.blocks(spec.population)["2026-W02"] == Fraction(15, 100)
    # A week is published once all of it is.
    assert published_windows(spec, project.home) == ("2026-W01",)


def test_a_pointer_to_another_window_is_refused(project: Project, spec: DatasetSpec):
    run_weeks(project, spec, "2026-W01", "2026-W02")
    folder = project.home.released / "stream" / "independent"
    text = (folder / "partition-2026-W01.0.1.json").read_text()
    (folder / "partition-2026-W02.0.1.json").write_text(text)
    done = project.cli_here("roll-up", "stream", "--model", "independent", "--window", "2026-W02")
    assert_refused(done, 1, "must name a release whose last window is 2026-W02, but it names")
    run = "run `dp-pipeline run stream --window 2026-W02 --model"
    assert_refused(done, 1, f"{run} independent --epsilon 0.1` again, at no cost")
    trees = project.home.released / "stream" / "htree_kmeans"
    text = (trees / "partition-2026-W01.0.5.json").read_text()
    (trees / "partition-2026-W02.0.5.json").write_text(text)
    with pytest.raises(RunFailed, match=f"{run} htree_kmeans --epsilon 0.5` again, at no cost"):
        run_weeks(project, spec, "2026-W03")
    (project.home.raw / "stream" / "current.2026-W02").write_text("2026-W01")
    with pytest.raises(Damaged, match="of a snapshot of window 2026-W02, but it does not"):
        publish(project.release(spec.at_window("2026-W02"), model="independent"))


def test_a_file_of_each_window_is_read_by_its_name(project: Project):
    (project.datasets / "weeks").mkdir(parents=True)
    # A row of another week in a week's file belongs to no release of it.
    stray = "r1,2026-01-06T00:00:00Z,1,1,car"
    for week in WEEKS[:2]:
        extra = [stray] if week == "2026-W01" else []
        project.write_rows(f"weeks/{week}.csv", [streams.HEAD, *streams.rides(week), *extra])
    project.write_rows("stream.csv", [streams.HEAD])
    spec = stream(project, source={"kind": "csv", "path": "weeks/{window}.csv"})
    run_weeks(project, spec, *WEEKS[:2])
    for week in WEEKS[:2]:
        assert read_stage(project.snapshot(spec, week), "ingested").num_rows == 40
    with pytest.raises(RunFailed, match="2026-W03"):
        run_weeks(project, spec, "2026-W03")
    claimed = (f"file:{project.datasets / 'weeks'}", f"dataset:{spec.name}")
    assert project.ledger.claims() == tuple((name, "riders") for name in claimed)


def test_one_off_comes_first_and_weeks_later(project: Project):
    """What was released before is still counted, at twice its ε, and still there."""
    project.run(streams.one_off(project, partitions=["0.5", "1"]), epsilons=["1"])
    week = ("stream", "--window", "2026-W01")
    spec = stream(project, ceiling={"each_window": "2.8"})
    planned = project.command("plan", *week)
    counted = "what was spent before, 1.05, then counts as 2.1 in every window"
    assert f"budget add-windows stream --reason …` adds them once; {counted}" in planned
    assert "requested 0.7, spent in 2026-W01 2.1, left 0.7" in planned
    refused = project.cli_here("run", *week)
    assert refused.code == 2
    assert "opened without windows" in refused.err
    added = project.command("budget", "add-windows", "stream", "--reason", "weekly from now on")
    assert "what was spent before, 1.05, counts as 2.1 in every window" in added
    assert project.cli_here("budget", "add-windows", "stream", "--reason", "again").code == 2
    run_weeks(project, spec, *WEEKS[:2])
    balance = project.ledger.balance("riders", WEEKS[:1])
    assert (balance.remaining, balance.spent) == (0, Fraction("1.05") + 2 * streams.EACH)
    assert published_windows(spec, project.home) == WEEKS[:2]
    added = "Releases of all rows, before there were weeks, add ε=2.1 to what each week costs"
    report = report_path(streams.all_windows(week_options(project, spec)))
    pages = [report, *project.home.reports.rglob("*2026*.md")]
    assert len(pages) == 5
    for page in pages:
        assert added in " ".join(page.read_text(encoding="utf-8").split()), page
    assert set(evaluations(spec, project.home, EpsilonRelease)) == set(WEEKS[:2])
    for command in (("budget", "verify"), ("check",), ("budget", "export")):
        project.command(*command)


@pytest.mark.parametrize(
    ("every", "name", "key"),
    [
        ("week", "2026-W53", "2026-W53-1"),
        ("quarter", "2026-Q2", "2026-04"),
        ("month", "2026-02", "2026-02"),
        ("day", "2026-03-29", "2026-03-29"),
        ("year", "2026", "2026"),
    ],
)
def test_dagster_calls_a_window_by_a_day_that_it_can_read(every, name, key, project: Project):
    firsts = {"week": "2026-W01", "quarter": "2026-Q1", "month": "2026-01", "day": "2026-01-01"}
    section = {"column": "ended", "every": every, "first": firsts.get(every, "2026")}
    windows = stream(project, windows={**section, "zone": "Europe/Zurich"}).time_windows
    assert partition_key(windows, name) == key
    assert window_of_key(windows, key) == name
    for wrong in ("", "2026-W53", "never", "2026-13", key + "0"):
        assert window_of_key(windows, wrong) in (None, wrong)
    for year in ("0001", "9999"):
        assert window_of_key(windows, year + key[4:]) is None


def test_window_is_one_partition_of_every_asset_but_reports(project: Project, spec: DatasetSpec):
    definitions = definitions_of(spec, project.home)
    # Each window plans from the release of the one before, so their runs wait for each other.
    assert definitions.resolve_job_def("stream_windows").tags[SEQUENTIAL_TAG] == "stream"
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        partitions = graph.get(key).partitions_def
        if key.path[-1] in ("comparison", "published", "budget"):
            assert partitions is None
        else:
            assert isinstance(partitions, dg.TimeWindowPartitionsDefinition)
            assert partitions.get_partition_keys()[:2] == ["2026-W01-1", "2026-W02-1"]


def test_one_click_on_a_week_reads_and_publishes_it(project: Project, spec: DatasetSpec):
    names = ("ingested", "validated", "normalized", "discretized", "htree_kmeans", "independent")
    result = project.launch(spec, *names, "evaluation", partition="2026-W02-1")
    assert result.success
    assert project.ledger.blocks(spec.population) == {"2026-W02": streams.EACH}
    (document,) = (project.home.internal / "stream" / "evaluation").glob("*.json")
    assert document.name == "2026-W02.json"
    assert set(read_document(document)["totals"]) == {"htree_kmeans", "independent"}
    for key in ("2025-W50-1", "0.5", "2026-W02-2"):
        with pytest.raises(DagsterUnknownPartitionError):
            project.launch(spec, "independent", partition=key)


def test_windows_are_requested_by_name(project: Project, spec: DatasetSpec):
    planned = project.command("plan", "stream", "--window", "2026-W01..2026-W02")
    assert "Plan of stream, 2 windows" in planned
    assert "requested 1.4 of all windows together, under no total" in planned
    planned = project.command("plan", "stream", "--window", "2026-W02")
    assert "Plan of stream 2026-W02" in planned
    assert "requested 0.7, spent in 2026-W02 0, left 1.4, each_window 1.4" in planned
    assert "; all windows together: spent 0, ceiling no limit" in planned
    wrong = project.cli_here("plan", "stream", "--window", "2026-02")
    assert_refused(wrong, 2, "window: expected a week such as 2026-W41, from 1900 to 9989, got")
    for command in (["run"], ["plan"], ["backfill"], ["export", "--to", "out"]):
        later = project.cli_here(*command, "stream", "--window", "2126-W01")
        assert_refused(later, 2, "2126-W01 must be over, with its grace, but it is not: it can be")
    with pytest.raises(DeclarationError, match="is read in windows, so --window must name one"):
        publish(project.release(spec, model="independent", epsilon="0.1"))


def test_failed_week_is_named_and_has_its_data_docs(ran: Any):
    project, spec, _ = ran
    failures = {"2026-W01": (), "2026-W02": ("bounds__x",)}
    result = RunResult(streams.all_windows(week_options(project, spec)), (), failures=failures)
    assert result.failing_spec.window == "2026-W02"
    written = project.command("data", "docs", "stream", "--window", "2026-W02")
    assert "raw/stream/2026-W02/great_expectations" in written
    words = "The data set stream is read in windows, so --window must name one"
    assert_refused(project.cli_here("data", "docs", "stream"), 2, words)


def test_weeks_are_added_up_to_a_month_for_nothing(ran: Any):
    project, _spec, _ = ran
    before = len(project.ledger.entries())
    weeks = "2026-W01..2026-W03"
    done = project.command("roll-up", "stream", "--model", "independent", "--window", weeks)
    lines = Path(done.split(": ", 1)[1].strip()).read_text().splitlines()
    assert lines[0] == "attributes,cell,rows,deviation,deviation of one release"
    cells = [line.split(",") for line in lines[1:] if line.startswith("kind,")]
    assert [cell[1] for cell in cells] == ["bike", "car", "missing"]
    total, direct = float(cells[0][3]), float(cells[0][4])
    assert total == pytest.approx(direct * 3**0.5, rel=0.01)
    assert len(project.ledger.entries()) == before
    words = ("roll-up", "stream", "--model", "independent", "--window", weeks, "--json")
    document = json.loads(project.cli_here(*words).out)
    assert done == f"independent: {document['files']['independent']}\n"
    assert (document["format"], document["windows"][0]) == (1, weeks.partition("..")[0])
    words = ("roll-up", "stream", "--model", "independent", "--window", "2026-W09")
    assert_refused(project.cli_here(*words), 1, "the window is not released: `dp-pipeline run")


def test_trees_of_weeks_are_added_up_over_common_boxes(ran: Any):
    """From noisy answers as they were drawn, though what is released of them is smoothed."""
    project, _, _ = ran
    before = len(project.ledger.entries())
    words = ("roll-up", "stream", "--model", "htree_kmeans", "--window")
    done = project.command(*words, "2026-W02..2026-W03")
    head, *lines = csv.reader(Path(done.split(": ", 1)[1].strip()).read_text().splitlines())
    assert head == ["attributes", "cell", "rows", "deviation", "deviation of one release"]
    assert {line[0] for line in lines} == {"x, y"}
    boxes = [[float(end) for end in re.split(" to |, ", line[1])] for line in lines]
    assert sum((x[1] - x[0]) * (x[3] - x[2]) for x in boxes) == pytest.approx(8 * 4)
    assert all(float(line[3]) == pytest.approx(float(line[4]) * 2**0.5, rel=0.01) for line in lines)
    # ε = 0.5 at two rows a person: scale 4 in each box of each week, of at least one box.
    assert all(float(line[3]) >= 0.99 * (2 * variance(Fraction(4))) ** 0.5 for line in lines)
    assert len(project.ledger.entries()) == before
    boxes_differ = "stream/htree_kmeans of 2026-W01 at ε=0.5: the boxes must each be"
    remedy = "its own noise was large: leave this window out"
    assert_refused(project.cli_here(*words, "2026-W01..2026-W03"), 2, boxes_differ, remedy)


@pytest.mark.parametrize(
    ("model", "parameters", "got"),
    [
        ("dplk_kmeans", {"k": "2", "columns": "x y"}, "centres alone"),
        ("oept_kmeans", {"k": "2", "columns": "x y"}, "centres alone"),
        ("htree_kmeans", {"k": "2", "columns": "x y"}, "a tree that was not planned from the"),
        ("dp_kjig", {"label": "kind"}, "classes by bits that each window chooses for itself"),
        ("one_shot", SMOOTH, "smoothed numbers of several windows share noise"),
    ],
)
def test_roll_up_says_what_a_model_releases_instead(model, parameters, got, project: Project):
    spec = stream(project, models={model: parameters}, publish={"model": model, "epsilon": "0.5"})
    (outcome,) = run_weeks(project, spec, "2026-W02", epsilon="0.5")
    place = r"(of 2026-W02 at ε=0\.5|stream: one_shot)"
    with pytest.raises(DeclarationError, match=f"{place}: .*{got}"):
        roll_up([outcome.release])


def test_tree_of_pairs_reports_its_groups_of_levels(project: Project):
    spec = stream(project, models={"mst": {}}, publish={"model": "mst", "epsilon": "0.5"})
    outcomes = run_weeks(project, spec, *WEEKS[:2], epsilon="0.5")
    assert all(len(outcome.bundle.tables["groups"]["group"]) == 5 + 3 + 3 for outcome in outcomes)
    sums = roll_up([outcome.release for outcome in outcomes])
    rows = [outcome.bundle.tables["cells"]["noisy_count"][:5] for outcome in outcomes]
    assert sums[0].attributes == ("x",)
    assert sums[0].counts.tolist() == (rows[0] + rows[1]).tolist()


@pytest.mark.parametrize(
    ("model", "epsilon", "changes"),
    [
        ("independent", "0.1", {"attributes": {**ATTRIBUTES, "kind": {"levels": ["car", "bike"]}}}),
        ("htree_kmeans", "0.5", {"attributes": WIDER}),
        ("one_shot", "0.5", {"models": {"one_shot": SMOOTH | {"smooth": "false"}}}),
    ],
)
def test_windows_released_under_another_file_are_not_added_up(model, epsilon, changes, project):
    """As many levels in another order, other bounds, numbers that were smoothed then."""
    own: dict[str, Any] = {
        "models": {model: SMOOTH if model == "one_shot" else streams.STREAM["models"][model]},
        "publish": {"model": model, "epsilon": epsilon},
    }
    run_weeks(project, stream(project, **own), "2026-W01")
    edited = stream(project, **{**own, **changes})
    releases = [project.release(edited.at_window("2026-W01"), model=model, epsilon=epsilon)]
    words = r"of 2026-W01 .* made with (other decl|the para.*file now)"
    with pytest.raises(DeclarationError, match=words):
        roll_up(releases)


def test_windows_by_another_column_are_refused(project: Project, spec: DatasetSpec):
    """A row of one week by one column and of another by the other would be paid for in neither."""
    run_weeks(project, spec, "2026-W01")
    windows = {**streams.STREAM["windows"], "column": "began"}
    source = {"kind": "csv", "path": "others.csv"}
    other = project.write_declaration("others", streams.STREAM, windows=windows, source=source)
    with pytest.raises(DeclarationError, match="the account was opened with windows 'every week"):
        run_weeks(project, load_spec(other), "2026-W01")


def test_commands_of_the_budget_and_of_rows_know_windows(project: Project, spec: DatasetSpec):
    run_weeks(project, spec, "2026-W01", "2026-W02")
    line = "riders: 2 windows charged, of 1.4 each; the fullest is 2026-W01 with 0.7"
    assert line in project.command("budget")
    assert ",2026-W02," in project.command("budget", "export")
    project.command("data", "retire", "stream", "--yes")
    assert states_of(run_weeks(project, spec, "2026-W01")) == {"replayed"}


@pytest.mark.parametrize("is_edited", [False, True], ids=["as it was", "its word edited"])
@pytest.mark.parametrize("take", [shutil.copytree, shutil.move], ids=["copied", "moved"])
def test_rows_of_one_window_are_not_read_under_another_name(project, spec, take, is_edited):
    """They would be paid for by the other window, beyond the limit of their own."""
    run_weeks(project, spec, "2026-W01")
    raw = project.home.raw / "stream"
    take(raw / "2026-W01", raw / "2026-W02")
    (raw / "current.2026-W02").write_text("2026-W02")
    manifest = raw / "2026-W02" / "manifest.json"
    if is_edited:
        manifest.write_text(manifest.read_text().replace("2026-W01", "2026-W02"))
    words = "not as it was stored" if is_edited else "the folder holds the manifest of snapshot"
    with pytest.raises((Damaged, RunFailed), match=words):
        run_weeks(project, spec, "2026-W02")
    assert project.ledger.blocks(spec.population) == {"2026-W01": streams.EACH}
