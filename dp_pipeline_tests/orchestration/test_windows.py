"""Releases that go on window by window: each read once, charged once, and learned from."""

from __future__ import annotations

import csv
import json
import re
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from dagster._core.errors import DagsterUnknownPartitionError

from dp_pipeline.config.dataset import WINDOW, DatasetSpec
from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError, NotPrepared
from dp_pipeline.config.parser import load_spec
from dp_pipeline.inference.earlier import EarlierTables, believed
from dp_pipeline.ledger import Reservation
from dp_pipeline.orchestration import instance
from dp_pipeline.orchestration.automation import due_windows
from dp_pipeline.orchestration.common import RESOURCE, Pipeline
from dp_pipeline.orchestration.jobs import SEQUENTIAL_TAG
from dp_pipeline.orchestration.partitions import partition_key, window_of_key
from dp_pipeline.orchestration.runner import RunFailed, execute
from dp_pipeline.raw import ingest
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.outcome import published_windows, report_path
from dp_pipeline.releases.publish import publish
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.releases.roll_up import roll_up, summed
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import RunResult
from dp_pipeline.results.bundle import LEARNED
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import variance
from dp_pipeline_tests.orchestration.projects import Project, definitions_of
from dp_pipeline_tests.orchestration.warm import ended, start
from dp_pipeline_tests.orchestration.windows_killers import POINTS, publish_weeks_and_die

pytestmark = pytest.mark.chain

STREAM: dict[str, Any] = {
    "description": "Rides of one town, week by week: sensitive.",
    "population": "riders",
    "purpose": "release",
    "protection": {"unit": "rows_of_person", "column": "rider", "at_most": "2", "within": "window"},
    "windows": {"column": "ended", "every": "week", "first": "2026-W01", "grace": "2 days"},
    "ceiling": {"each_window": "1.4"},
    "source": {"kind": "csv", "path": "stream.csv"},
    "attributes": {
        "x": {"bounds": ["0", "8"], "bins": "4"},
        "y": {"bounds": ["0", "4"], "bins": "2"},
        "kind": {"levels": ["bike", "car"]},
    },
    "partitions": ["0.1", "0.5"],
    "models": {
        "htree_kmeans": {"k": "2", "columns": "x y", "plan_from": "previous", "smooth": "true"},
        "independent": {},
    },
    "publish": [
        {"model": "htree_kmeans", "epsilon": "0.5"},
        {"model": "independent", "epsilon": "0.1"},
    ],
    "evaluation": {"epsilon": "0.05"},
}
HTREE = STREAM["models"]["htree_kmeans"]
HEAD = "rider,ended,x,y,kind"
WEEKS = ("2026-W01", "2026-W02", "2026-W03")
MONDAY = {"2026-W01": "2025-12-29", "2026-W02": "2026-01-05", "2026-W03": "2026-01-12"}
EACH = Fraction(7, 10)
"""What is published of a week: 0.5 and 0.1, and an evaluation of each."""


def rides(week: str, many: int = 40) -> list[str]:
    """Rows of one week, the last of them in its last second."""
    rng = np.random.default_rng(int(week[-2:]))
    x, y = rng.uniform(0, 8, many), rng.uniform(0, 4, many)
    day = MONDAY[week]
    last = ["2026-01-04", "2026-01-11", "2026-01-18"][WEEKS.index(week)]
    times = [f"{day}T00:00:00Z", *[f"{day}T12:{n % 60:02d}:00Z" for n in range(many - 2)]]
    times.append(f"{last}T23:59:59Z")
    return [
        f"r{n % 15},{time},{x[n]:.2f},{y[n]:.2f},{'car' if n % 3 else 'bike'}"
        for n, time in enumerate(times)
    ]


@pytest.fixture(autouse=True)
def november(monkeypatch: pytest.MonkeyPatch) -> None:
    """All weeks of the tests are over."""
    moment = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
    monkeypatch.setattr(ingest, "now", lambda: moment)


def stream(project: Project, **changes: Any) -> DatasetSpec:
    project.datasets.mkdir(parents=True, exist_ok=True)
    if not (project.datasets / "stream.csv").exists():
        lines = [HEAD, *(line for week in WEEKS for line in rides(week)), "r99,,1,1,car"]
        project.write_rows("stream.csv", lines)
    return project.declare("stream", STREAM, **changes)


def requests(
    project: Project, spec: DatasetSpec, *weeks: str, epsilon: str = "", **options: Any
) -> list[RunOptions]:
    names, levels = EpsilonRelease.names(spec), [epsilon] if epsilon else ["0.1", "0.5"]
    asked = RunOptions(
        spec,
        EpsilonRelease,
        names,
        levels,
        project.home,
        "opendp",
        published=not epsilon,
        **options,
    )
    return [asked.of_window(week) for week in weeks or WEEKS]


def run(project: Project, asked: list[RunOptions]) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instance, "dagster_instance", lambda _: nullcontext(project.instance))
        return list(execute(together(asked), lambda _: None))


def together(asked: list[RunOptions]) -> RunOptions:
    """All of these windows by one run."""
    windows = tuple(one.spec.window for one in asked)
    return replace(asked[0], spec=asked[0].spec.of_all_windows(), windows=windows)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, DatasetSpec, Any]]:
    """Three weeks published by one command; to be read, not changed."""
    project = Project(tmp_path_factory.mktemp("stream"))
    spec = stream(project)
    with pytest.MonkeyPatch.context() as patch:
        moment = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
        patch.setattr(ingest, "now", lambda: moment)
        yield project, spec, run(project, requests(project, spec))


def test_every_window_is_charged_what_is_published_of_it(ran: Any) -> None:
    project, spec, found = ran
    assert [(one.release.spec.window, one.release.name) for one in found] == [
        (week, name) for week in WEEKS for name in ("independent", "htree_kmeans")
    ]
    assert all(one.state == "charged" for one in found)
    assert project.ledger.blocks(spec.population) == dict.fromkeys(WEEKS, EACH)
    assert project.spent(spec) == 3 * EACH
    project.ledger.verify()


def test_the_balance_of_a_window_is_the_sum_of_what_its_draws_cost(ran: Any) -> None:
    project, spec, _ = ran
    drawn: dict[str, Fraction] = {}
    of = {
        one.key: one.facts["blocks"] for one in project.ledger.entries() if one.event == "reserve"
    }
    for entry in project.ledger.entries():
        if entry.event == "settled":
            cost = sum((spend.epsilon for spend in entry.spends), Fraction(0))
            drawn[of[entry.key]] = drawn.get(of[entry.key], Fraction(0)) + cost
    assert drawn == project.ledger.blocks(spec.population)


def test_the_scales_that_were_drawn_prove_what_each_window_has_paid(ran: Any) -> None:
    project, spec, found = ran
    proved = dict.fromkeys(WEEKS, Fraction(0))
    for one in found:
        spends = (spend.epsilon_of_scale for spend in one.bundle.spends)
        proved[one.release.spec.window] += sum(spends, Fraction(0))
    assert proved == project.ledger.blocks(spec.population)


def test_no_row_is_in_two_windows_and_those_without_a_time_are_in_none(ran: Any) -> None:
    project, spec, _ = ran
    key, seen = project.ledger.key(spec.population), []
    for week in WEEKS:
        snapshot = current_snapshot(project.home.raw, spec.name, key, week)
        assert snapshot is not None and snapshot.id == week
        rows = read_stage(snapshot, "ingested")
        seen += [time for time in rows.column("ended").to_pylist() if time]
        # At most two rows of each of 15 riders, whatever other weeks have of them; none of the
        # sixteenth, whose row has no time.
        assert read_stage(snapshot, "normalized").num_rows == 30
    assert len(seen) == 3 * 40
    assert sorted(seen) == sorted(line.split(",")[1] for week in WEEKS for line in rides(week))


def test_a_second_run_and_a_new_plan_find_everything_paid(ran: Any) -> None:
    project, spec, _ = ran
    again = run(project, requests(project, spec))
    assert {(one.state, one.cost) for one in again} == {("replayed", 0)}
    for one in requests(project, spec):
        planned = plan_run(one)
        assert (planned.total_cost, planned.remaining) == (0, Fraction(14, 10) - EACH)
        assert {release.state for release in planned.releases} == {"settled"}


def test_the_report_says_what_one_week_costs_and_what_a_year_does(ran: Any) -> None:
    project, spec, _ = ran
    page = " ".join(report_path(requests(project, spec)[0]).read_text().split())
    assert "Everything that is released of one week is ε = 0.7 as declared" in page
    assert "never more than ε = 1.4" in page
    assert "at most ε = 37.1 together as declared" in page
    assert "Noisy number of rows over time" in page
    for week in WEEKS:
        assert f"htree_kmeans of {week} at ε = 0.5" in page
    (card,) = (project.home.reports / "stream.cards").glob("independent.2026-W02.*.md")
    assert "one week of one person: all rows of that week with the same rider" in card.read_text()


def test_a_window_plans_from_the_one_before_and_is_made_again_from_its_answers(ran: Any) -> None:
    project, _spec, found = ran
    trees = {one.release.spec.window: one for one in found if one.release.name == "htree_kmeans"}
    assert LEARNED not in trees["2026-W01"].bundle.facts
    for before, week in (("2026-W01", "2026-W02"), ("2026-W02", "2026-W03")):
        learned = trees[week].bundle.facts[LEARNED]
        assert project.home.released / learned == trees[before].folder
        assert trees[week].bundle.facts[WINDOW] == week
        release = trees[week].release
        require_reproducible(release, require_intact(release, trees[week].folder))
        # All of ε on the leaves at once, none on finding them.
        assert len(trees[week].bundle.spends) < len(trees["2026-W01"].bundle.spends) + 1
    assert all(
        LEARNED not in one.bundle.facts for one in found if one.release.name == "independent"
    )


def test_rows_that_come_late_are_never_looked_at(project: Project) -> None:
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01"))
    before = project.files("raw")
    lines = (project.datasets / "stream.csv").read_text().splitlines()
    project.write_rows("stream.csv", [*lines, "late,2026-01-01T00:00:00Z,1,1,car"])
    again = run(project, requests(project, spec, "2026-W01", "2026-W02"))
    assert [one.state for one in again] == ["replayed"] * 2 + ["charged"] * 2
    after = project.files("raw")
    assert {name: one for name, one in after.items() if "W02" not in name} == before


def test_a_window_that_is_not_over_is_not_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(project)
    moment = spec.cut.closing_time("2026-W02") - 1
    monkeypatch.setattr(ingest, "now", lambda: moment)
    with pytest.raises(RunFailed, match="got 2026-W02, which is read from 2026-01-14 00:00 UTC on"):
        run(project, requests(project, spec, "2026-W02"))
    assert project.spent(spec) == 0
    run(project, requests(project, spec, "2026-W01"))
    monkeypatch.setattr(ingest, "now", lambda: 0)
    # A clock that is put back takes nothing away, and reads nothing anew.
    assert {one.state for one in run(project, requests(project, spec, "2026-W01"))} == {"replayed"}


def test_a_new_snapshot_of_a_window_is_a_new_charge_on_the_same_window(project: Project) -> None:
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01"))
    run(project, requests(project, spec, "2026-W01", snapshot="again"))
    assert project.ledger.blocks(spec.population) == {"2026-W01": 2 * EACH}
    with pytest.raises(BudgetExceeded, match=r"spent in 2026-W01 1\.4, left 0, each_window 1\.4"):
        run(project, requests(project, spec, "2026-W01", snapshot="third"))
    names = {path.name for path in (project.home.raw / "stream").iterdir() if path.is_dir()}
    assert names == {"2026-W01", "2026-W01.again"}
    assert {one.state for one in run(project, requests(project, spec, "2026-W01"))} == {"replayed"}


def test_a_window_is_swept_over_epsilon_beside_what_is_published(project: Project) -> None:
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01"))
    swept = run(project, requests(project, spec, "2026-W01", epsilon="0.1"))
    states = {one.release.name: one.state for one in swept}
    assert states == {"htree_kmeans": "charged", "independent": "replayed"}
    assert project.ledger.blocks(spec.population)["2026-W01"] == EACH + Fraction(15, 100)
    assert {one.state for one in run(project, requests(project, spec, "2026-W01"))} == {"replayed"}


def test_a_run_that_was_killed_goes_on_under_its_charge(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01"))
    settle = Reservation.settle

    def dies(self: Reservation, *args: Any, **kwargs: Any) -> None:
        if "htree_kmeans of 2026-W02" in self.charge.what:
            raise KeyboardInterrupt
        settle(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Reservation, "settle", dies)
        with pytest.raises((KeyboardInterrupt, RunFailed)):
            run(project, requests(project, spec))
    after = run(project, requests(project, spec))
    states = {(one.release.spec.window, one.release.name): one.state for one in after}
    assert states["2026-W01", "htree_kmeans"] == "replayed"
    assert states["2026-W02", "htree_kmeans"] == "resumed"
    assert states["2026-W03", "htree_kmeans"] == "charged"
    assert project.ledger.blocks(spec.population) == dict.fromkeys(WEEKS, EACH)
    project.ledger.verify()


@pytest.mark.parametrize("point", POINTS)
def test_sigkill_in_the_middle_of_all_weeks_charges_nothing_twice(
    point: str, project: Project
) -> None:
    spec, words = stream(project), project.folder / "words"
    words.mkdir()
    moment = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
    child = start(words, publish_weeks_and_die, project.folder, point, "2026-W02", moment)
    result = ended(child, words)
    assert result.code == -signal.SIGKILL, result.err
    project.ledger.verify()
    blocks = project.ledger.blocks(spec.population)
    assert blocks["2026-W01"] == EACH
    assert "2026-W03" not in blocks
    after = run(project, requests(project, spec))
    states = {(one.release.spec.window, one.release.name): one.state for one in after}
    assert states["2026-W01", "htree_kmeans"] == "replayed"
    again = {"before the row": "charged", "settled": "replayed"}.get(point, "resumed")
    assert states["2026-W02", "htree_kmeans"] == again
    assert states["2026-W03", "htree_kmeans"] == "charged"
    assert project.ledger.blocks(spec.population) == dict.fromkeys(WEEKS, EACH)
    project.ledger.verify()


def test_a_window_published_before_the_one_it_could_have_learned_from_stays_as_it_is(
    project: Project,
) -> None:
    """Else every window behind a late one would be another release, with another charge."""
    spec = stream(project)
    first = run(project, requests(project, spec, "2026-W02"))
    run(project, requests(project, spec, "2026-W01"))
    again = run(project, requests(project, spec, "2026-W02"))
    assert {one.state for one in again} == {"replayed"}
    assert [one.bundle.key for one in again] == [one.bundle.key for one in first]
    assert all(LEARNED not in one.bundle.facts for one in again)
    for one in again:
        # Made again from its answers, it learns as little as it did.
        require_reproducible(one.release, require_intact(one.release, one.folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": {**STREAM["attributes"], "x": {"bounds": ["0", "9"], "bins": "4"}}},
        {"models": {**STREAM["models"], "htree_kmeans": {**HTREE, "k": "3"}}},
    ],
)
def test_a_release_under_another_declaration_is_not_learned_from(
    changes: dict[str, Any], project: Project
) -> None:
    run(project, requests(project, stream(project), "2026-W01"))
    after = run(project, requests(project, stream(project, **changes), "2026-W02"))
    assert {one.state for one in after} == {"charged"}
    assert all(LEARNED not in one.bundle.facts for one in after)


def test_a_damaged_release_is_not_learned_from(project: Project) -> None:
    spec = stream(project)
    (tree,) = [
        one
        for one in run(project, requests(project, spec, "2026-W01"))
        if one.release.name == "htree_kmeans"
    ]
    table = next(tree.folder.glob("synopsis.parquet"))
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    with pytest.raises(RunFailed, match="expected it as it was stored, got another"):
        run(project, requests(project, spec, "2026-W02"))
    # The other model learns nothing, and was charged.
    assert project.ledger.blocks(spec.population)["2026-W02"] == Fraction(15, 100)
    # A week is published once all of it is.
    assert published_windows(spec, project.home) == ("2026-W01",)


def test_a_pointer_to_the_release_of_another_window_is_refused(project: Project) -> None:
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01", "2026-W02"))
    folder = project.home.released / "stream" / "independent"
    text = (folder / "partition-2026-W01.0.1.json").read_text()
    (folder / "partition-2026-W02.0.1.json").write_text(text)
    done = project.cli_here("roll-up", "stream", "--model", "independent", "--window", "2026-W02")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "last window: expected a pointer to a release of 2026-W02, got one to" in done.err


def test_runs_over_windows_wait_for_each_other(project: Project) -> None:
    """Each plans from the release of the one before."""
    job = definitions_of(stream(project), project.home).resolve_job_def("stream_windows")
    assert job.tags[SEQUENTIAL_TAG] == "stream"


def test_a_file_of_each_window_is_read_by_its_name(project: Project) -> None:
    project.datasets.mkdir(parents=True)
    (project.datasets / "weeks").mkdir()
    # A row of another week in a week's file belongs to no release of it.
    stray = "r1,2026-01-06T00:00:00Z,1,1,car"
    for week in WEEKS[:2]:
        extra = [stray] if week == "2026-W01" else []
        project.write_rows(f"weeks/{week}.csv", [HEAD, *rides(week), *extra])
    project.write_rows("stream.csv", [HEAD])
    spec = stream(project, source={"kind": "csv", "path": "weeks/{window}.csv"})
    run(project, requests(project, spec, *WEEKS[:2]))
    key = project.ledger.key(spec.population)
    for week in WEEKS[:2]:
        snapshot = current_snapshot(project.home.raw, spec.name, key, week)
        assert snapshot is not None
        assert read_stage(snapshot, "ingested").num_rows == 40
    with pytest.raises(RunFailed, match="2026-W03"):
        run(project, requests(project, spec, "2026-W03"))
    held = (f"file:{project.datasets / 'weeks'}", f"dataset:{spec.name}")
    assert project.ledger.claims() == tuple((name, "riders") for name in held)


def test_where_all_rows_of_a_person_are_protected_windows_add(project: Project) -> None:
    protection = {**STREAM["protection"], "within": "ever"}
    spec = stream(project, protection=protection, ceiling={"total": "1.5"})
    run(project, requests(project, spec, *WEEKS[:2]))
    with pytest.raises(BudgetExceeded, match=r"spent 1\.4, left 0\.1, ceiling 1\.5"):
        run(project, requests(project, spec, "2026-W03"))
    with pytest.raises(BudgetExceeded):
        publish(
            EpsilonRelease.at(
                spec.at_window("2026-W02"), "independent", "0.5", project.home, noise="opendp"
            )
        )


def test_a_run_of_no_window_is_refused_by_name(project: Project) -> None:
    spec = stream(project)
    release = EpsilonRelease.at(spec, "independent", "0.1", project.home, noise="opendp")
    with pytest.raises((DeclarationError, NotPrepared), match="expected one of its windows"):
        publish(release)


# In Dagster.


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
def test_dagster_calls_a_window_by_a_day_that_it_can_read(
    every: str, name: str, key: str, project: Project
) -> None:
    firsts = {"week": "2026-W01", "quarter": "2026-Q1", "month": "2026-01", "day": "2026-01-01"}
    windows = {"column": "ended", "every": every, "first": firsts.get(every, "2026")}
    cut = stream(project, windows={**windows, "zone": "Europe/Zurich"}).cut
    assert partition_key(cut, name) == key
    assert window_of_key(cut, key) == name
    for wrong in ("", "2026-W53", "never", "2026-13", key + "0"):
        assert window_of_key(cut, wrong) in (None, wrong)


def test_a_window_is_one_partition_of_every_asset_but_the_reports(project: Project) -> None:
    spec = stream(project)
    graph = definitions_of(spec, project.home).resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        partitions = graph.get(key).partitions_def
        if key.path[-1] in ("comparison", "published", "budget"):
            assert partitions is None
        else:
            assert isinstance(partitions, dg.TimeWindowPartitionsDefinition)
            assert partitions.get_partition_keys()[:2] == ["2026-W01-1", "2026-W02-1"]


def test_one_click_on_a_week_reads_and_publishes_it(project: Project) -> None:
    spec = stream(project)
    names = ("ingested", "validated", "normalized", "discretized", "htree_kmeans", "independent")
    result = project.launch(spec, *names, "evaluation", partition="2026-W02-1")
    assert result.success
    assert project.ledger.blocks(spec.population) == {"2026-W02": EACH}
    (document,) = (project.home.internal / "stream" / "evaluation").glob("*.json")
    assert document.name == "2026-W02.json"
    totals = json.loads(document.read_text())["value"]["totals"]
    assert set(totals) == {"htree_kmeans", "independent"}
    for key in ("2025-W50-1", "0.5", "2026-W02-2"):
        with pytest.raises(DagsterUnknownPartitionError):
            project.launch(spec, "independent", partition=key)


def ticked(project: Project, spec: DatasetSpec, moment: str) -> Any:
    definitions = definitions_of(spec, project.home)
    schedule = definitions.resolve_schedule_def("stream_each_window")
    time = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    context = dg.build_schedule_context(
        scheduled_execution_time=time,
        repository_def=definitions.get_repository_def(),
        resources={RESOURCE: Pipeline(project.home)},
    )
    return schedule.evaluate_tick(context)


def test_a_tick_asks_for_the_windows_that_are_over_and_behind_the_newest(project: Project) -> None:
    spec = stream(project)
    keys = [one.partition_key for one in ticked(project, spec, "2026-01-07T06:00").run_requests]
    assert keys == ["2026-W01-1"]
    # Of several that are over, and none published, the newest.
    first = ticked(project, spec, "2026-01-29T06:00").run_requests
    assert [one.partition_key for one in first] == ["2026-W04-1"]
    run(project, requests(project, spec, "2026-W01"))
    assert published_windows(spec, project.home) == ("2026-W01",)
    quiet = ticked(project, spec, "2026-01-13T06:00")
    assert not quiet.run_requests
    assert "every closed window that may have rows is published" in (quiet.skip_message or "")
    late = ticked(project, spec, "2026-01-29T06:00")
    assert [one.partition_key for one in late.run_requests] == [
        "2026-W02-1",
        "2026-W03-1",
        "2026-W04-1",
    ]
    assert due_windows(spec, project.home, spec.cut.closing_time("2026-W02")) == ("2026-W02",)


def test_a_tick_asks_for_nothing_behind_the_last_window(project: Project) -> None:
    spec = stream(project, windows={**STREAM["windows"], "last": "2026-W03"})
    late = "2026-11-23T06:00"
    keys = [one.partition_key for one in ticked(project, spec, late).run_requests]
    assert keys == ["2026-W03-1"]
    run(project, requests(project, spec))
    tick = ticked(project, spec, late)
    assert not tick.run_requests
    assert "every closed window that may have rows is published" in (tick.skip_message or "")
    graph = definitions_of(spec, project.home).resolve_asset_graph()
    partitions = graph.get(dg.AssetKey(["stream", "ingested"])).partitions_def
    assert partitions is not None
    assert list(partitions.get_partition_keys()) == ["2026-W01-1", "2026-W02-1", "2026-W03-1"]
    with pytest.raises(DeclarationError, match="none behind the last, 2026-W03, got 2026-W04"):
        requests(project, spec, "2026-W04")


@pytest.mark.parametrize("path", ["weeks/{window}.csv", "weeks/week={window}"])
def test_a_tick_asks_for_windows_alone_that_have_a_file(path: str, project: Project) -> None:
    kind = "csv" if path.endswith("csv") else "parquet"
    spec = stream(project, source={"kind": kind, "path": path})

    def written(week: str) -> None:
        file = project.datasets / path.replace("{window}", week)
        file = file if kind == "csv" else file / "part.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def asked() -> list[str | None]:
        tick = ticked(project, spec, "2026-02-24T06:00")
        return [one.partition_key for one in tick.run_requests or []]

    assert asked() == []
    written("2026-W02")
    assert asked() == ["2026-W02-1"]
    folder = project.home.released / "stream"
    for name in ("htree_kmeans/partition-2026-W02.0.5", "independent/partition-2026-W02.0.1"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").touch()
    assert asked() == []
    written("2026-W04")
    written("2026-W06")
    assert asked() == ["2026-W04-1", "2026-W06-1"]


def test_a_tick_asks_for_no_more_of_a_file_that_has_come_to_its_end(project: Project) -> None:
    """By noisy counts alone: 4,000 rows of 2,000 persons, then none."""
    lines = [
        f"r{n % 2000},{MONDAY[week]}T12:{n % 60:02d}:00Z,{n % 80 / 10},{n % 40 / 10},car"
        for week in WEEKS[:2]
        for n in range(4000)
    ]
    project.datasets.mkdir(parents=True)
    project.write_rows("stream.csv", [HEAD, *lines])
    spec = stream(project)
    run(project, requests(project, spec, *WEEKS[:2]))
    late = "2026-02-24T06:00"
    keys = [one.partition_key for one in ticked(project, spec, late).run_requests]
    assert keys == [f"2026-W0{week}-1" for week in (3, 4, 5, 6, 7)]
    empty = run(project, requests(project, spec, "2026-W03"))
    (line,) = [line for one in empty if one.release.name == "independent" for line in one.warnings]
    assert "No rows to be seen" in line
    tick = ticked(project, spec, late)
    assert not tick.run_requests
    assert "2026-W03 has next to no rows by its noisy count" in (tick.skip_message or "")
    # What is published by hand behind it is taken up again, whatever it holds.
    with_rows = [line.replace("2026-01-05", "2026-01-19") for line in lines[4000:]]
    project.write_rows("stream.csv", [HEAD, *lines, *with_rows])
    run(project, requests(project, spec, "2026-W04"))
    keys = [one.partition_key for one in ticked(project, spec, late).run_requests]
    assert keys == ["2026-W05-1", "2026-W06-1", "2026-W07-1"]


def test_a_stream_of_few_rows_is_not_taken_for_one_that_has_ended(project: Project) -> None:
    spec = stream(project)
    run(project, requests(project, spec, *WEEKS[:2]))
    assert ticked(project, spec, "2026-02-24T06:00").run_requests


def test_a_tick_beyond_the_total_is_one_line(project: Project) -> None:
    spec = stream(project, ceiling={"each_window": "1", "total": "1"})
    run(project, requests(project, spec, "2026-W01"))
    tick = ticked(project, spec, "2026-01-14T06:00")
    assert not tick.run_requests
    assert "left 0.3, ceiling 1" in (tick.skip_message or "")


def test_windows_are_asked_for_by_name_on_the_command_line(project: Project) -> None:
    stream(project)
    planned = project.cli_here("plan", "stream", "--window", "2026-W01..2026-W02")
    assert planned.code == 0
    assert "Plan of stream, 2 windows" in planned.out
    assert "requested 1.4 of all windows together, under no total" in planned.out
    one = project.cli_here("plan", "stream", "--window", "2026-W02")
    assert "Plan of stream 2026-W02" in one.out
    assert "requested 0.7, spent in 2026-W02 0, left 1.4, each_window 1.4" in one.out
    assert "; all windows together: spent 0, ceiling no limit" in one.out
    wrong = project.cli_here("plan", "stream", "--window", "2026-02")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "window: expected a week such as 2026-W41, got '2026-02'" in wrong.err


def test_the_steward_is_told_which_week_failed_and_has_its_pages_written(ran: Any) -> None:
    project, spec, _ = ran
    failures = {"2026-W01": (), "2026-W02": ("bounds__x",)}
    result = RunResult(together(requests(project, spec)), (), failures=failures)
    assert result.failing.window == "2026-W02"
    written = project.cli_here("data", "docs", "stream", "--window", "2026-W02")
    assert (written.code, written.err) == (0, "")
    assert "raw/stream/2026-W02/great_expectations" in written.out
    refused = project.cli_here("data", "docs", "stream")
    assert refused.code == 2
    assert "--window: expected one whose rows were read, such as 2026-W01, got none" in refused.err


def test_weeks_are_added_up_to_a_month_for_nothing(ran: Any) -> None:
    project, _spec, _ = ran
    before = len(project.ledger.entries())
    weeks = "2026-W01..2026-W03"
    done = project.cli_here("roll-up", "stream", "--model", "independent", "--window", weeks)
    assert (done.code, done.err) == (0, "")
    lines = Path(done.out.split(": ", 1)[1].strip()).read_text().splitlines()
    assert lines[0] == "attributes,cell,rows,deviation,deviation of one release"
    cells = [line.split(",") for line in lines[1:] if line.startswith("kind,")]
    assert [one[1] for one in cells] == ["bike", "car"]
    total, direct = float(cells[0][3]), float(cells[0][4])
    assert total == pytest.approx(direct * 3**0.5, rel=0.01)
    assert len(project.ledger.entries()) == before
    words = ("roll-up", "stream", "--model", "independent", "--window", weeks, "--json")
    told = json.loads(project.cli_here(*words).out)
    assert done.out == f"independent: {told['files']['independent']}\n"
    assert (told["format"], told["windows"][0]) == (1, weeks.partition("..")[0])
    missing = project.cli_here(
        "roll-up", "stream", "--model", "independent", "--window", "2026-W09"
    )
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert "expected a release, got none" in missing.err


def test_trees_of_weeks_are_added_up_over_the_boxes_that_all_of_them_tell(ran: Any) -> None:
    """From noisy answers as they were drawn, though what is released of them is smoothed."""
    project, _, _ = ran
    before = len(project.ledger.entries())
    words = ("roll-up", "stream", "--model", "htree_kmeans", "--window")
    done = project.cli_here(*words, "2026-W02..2026-W03")
    assert (done.code, done.err) == (0, "")
    head, *lines = csv.reader(Path(done.out.split(": ", 1)[1].strip()).read_text().splitlines())
    assert head == ["attributes", "cell", "rows", "deviation", "deviation of one release"]
    assert {line[0] for line in lines} == {"x, y"}
    boxes = [[float(end) for end in re.split(" to |, ", line[1])] for line in lines]
    assert sum((x[1] - x[0]) * (x[3] - x[2]) for x in boxes) == pytest.approx(8 * 4)
    assert all(float(line[3]) == pytest.approx(float(line[4]) * 2**0.5, rel=0.01) for line in lines)
    # ε = 0.5 at two rows a person: scale 4 in each box of each week, of at least one box.
    assert all(float(line[3]) >= 0.99 * (2 * variance(Fraction(4))) ** 0.5 for line in lines)
    assert len(project.ledger.entries()) == before
    grown = project.cli_here(*words, "2026-W01..2026-W03")
    assert (grown.code, grown.err.count("\n")) == (2, 1)
    assert "stream/htree_kmeans of 2026-W01 at ε=0.5: expected boxes that were each" in grown.err


@pytest.mark.parametrize(
    ("model", "parameters", "got"),
    [
        ("dplk_kmeans", {"k": "2", "columns": "x y"}, "got centres alone"),
        ("oept_kmeans", {"k": "2", "columns": "x y"}, "got centres alone"),
        ("htree_kmeans", {"k": "2", "columns": "x y"}, "got a tree that was not planned from the"),
        ("dp_kjig", {"label": "kind"}, "got classes by bits that each window chooses for itself"),
    ],
)
def test_a_roll_up_says_what_a_model_releases_in_place_of_counts_to_add_up(
    model: str, parameters: dict[str, str], got: str, project: Project
) -> None:
    publish_half = {"model": model, "epsilon": "0.5"}
    spec = stream(project, models={model: parameters}, publish=publish_half)
    (asked,) = requests(project, spec, "2026-W02", epsilon="0.5")
    run(project, [asked])
    (release,) = asked.releases
    assert isinstance(release, EpsilonRelease)
    with pytest.raises(DeclarationError, match=f"of 2026-W02 at ε=0.5: expected .*, {got}"):
        roll_up([release])


def test_a_tree_of_pairs_tells_the_groups_of_levels_that_its_tables_are_over(
    project: Project,
) -> None:
    spec = stream(project, models={"mst": {}}, publish={"model": "mst", "epsilon": "0.5"})
    found = run(project, requests(project, spec, *WEEKS[:2], epsilon="0.5"))
    assert all(len(one.bundle.tables["groups"]["group"]) == 4 + 2 + 2 for one in found)
    sums = roll_up([one.release for one in found])
    rows = [one.bundle.tables["cells"]["noisy_count"][:4] for one in found]
    assert sums[0].attributes == ("x",)
    assert sums[0].counts.tolist() == (rows[0] + rows[1]).tolist()


@pytest.mark.parametrize(("other", "added"), [((0, 0, 1), True), ((0, 1, 1), False)])
def test_weeks_that_group_levels_otherwise_add_up_tables_of_one_attribute_alone(
    other: tuple[int, ...], added: bool
) -> None:
    def known(groups: tuple[int, ...]) -> EarlierTables:
        alone = believed(("x",), np.array([5, 6, 7]), 2.0)
        pair = believed(("x", "y"), np.array([[1, 2], [3, 4]]), 2.0)
        return EarlierTables((alone, pair), {"x": Grouping(groups)})

    both = [known((0, 0, 1)), known(other)]
    single, pair = (summed(both, names) for names in (("x",), ("x", "y")))
    assert single is not None
    assert single.table.tolist() == [10, 12, 14]
    assert float(single.variance) == pytest.approx(4)
    assert (pair is not None) == added


def test_windows_that_have_measured_no_table_together_are_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(project)
    found = run(project, requests(project, spec, *WEEKS[:2], epsilon="0.1"))
    releases = [one.release for one in found if one.release.name == "independent"]
    assert len(roll_up(releases)) == 3
    monkeypatch.setattr("dp_pipeline.releases.roll_up.summed", lambda *_: None)
    with pytest.raises(DeclarationError, match="table that all of these windows have measured"):
        roll_up(releases)


def test_smoothed_tables_are_not_added_up(project: Project) -> None:
    models = {"one_shot": {"plan_from": "previous", "smooth": "true"}}
    spec = stream(project, models=models, publish={"model": "one_shot", "epsilon": "0.5"})
    (asked,) = requests(project, spec, "2026-W02", epsilon="0.5")
    (release,) = asked.releases
    assert isinstance(release, EpsilonRelease)
    with pytest.raises(DeclarationError, match="got smoothed ones, which share noise"):
        roll_up([release])


@pytest.mark.parametrize(
    ("model", "epsilon", "changes"),
    [
        (
            "independent",
            "0.1",
            {"attributes": {**STREAM["attributes"], "kind": {"levels": ["car", "bike"]}}},
        ),
        (
            "htree_kmeans",
            "0.5",
            {"attributes": {**STREAM["attributes"], "x": {"bounds": ["0", "9"], "bins": "4"}}},
        ),
        (
            "one_shot",
            "0.5",
            {"models": {"one_shot": {"plan_from": "previous", "smooth": "false"}}},
        ),
    ],
)
def test_windows_that_were_released_under_another_file_are_not_added_up(
    model: str, epsilon: str, changes: dict[str, Any], project: Project
) -> None:
    """As many levels in another order, other bounds, numbers that were smoothed then."""
    smooth = {"plan_from": "previous", "smooth": "true"}
    own: dict[str, Any] = {
        "models": {model: smooth if model == "one_shot" else STREAM["models"][model]},
        "publish": {"model": model, "epsilon": epsilon},
    }
    run(project, requests(project, stream(project, **own), "2026-W01"))
    edited = stream(project, **{**own, **changes})
    releases = [
        one
        for asked in requests(project, edited, "2026-W01", epsilon=epsilon)
        for one in asked.releases
        if isinstance(one, EpsilonRelease)
    ]
    with pytest.raises(DeclarationError, match=r"of 2026-W01 .* of today's file, got"):
        roll_up(releases)


def test_a_pointer_to_rows_of_another_window_is_refused(project: Project) -> None:
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01", "2026-W02"))
    (project.home.raw / "stream" / "current.2026-W02").write_text("2026-W01")
    release = EpsilonRelease.at(
        spec.at_window("2026-W02"), "independent", "0.5", project.home, noise="opendp"
    )
    with pytest.raises(Damaged, match="expected the name of the current snapshot"):
        publish(release)


def test_a_data_set_that_cuts_the_same_persons_by_another_column_is_refused(
    project: Project,
) -> None:
    """A row of one week by one column and of another by the other would be paid for in neither."""
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01"))
    windows = {**STREAM["windows"], "column": "began"}
    other = project.write_declaration(
        "others", STREAM, windows=windows, source={"kind": "csv", "path": "others.csv"}
    )
    with pytest.raises(
        DeclarationError, match="population riders: opened with windows 'every week"
    ):
        run(project, requests(project, load_spec(other), "2026-W01"))


def test_check_and_the_other_commands_know_windows(project: Project) -> None:
    spec = stream(project)
    run(project, requests(project, spec, "2026-W01", "2026-W02"))
    check = project.cli_here("check", "--replay")
    assert (check.code, check.err) == (0, "")
    assert "4 replayed at no cost" in check.out
    assert "no fault" in check.out
    shown = project.cli_here("budget")
    assert "riders: 2 windows charged, of 1.4 each; the fullest is 2026-W01 with 0.7" in shown.out
    exported = project.cli_here("budget", "export")
    assert ",2026-W02," in exported.out
    checked = project.cli_here("data", "check", str(project.datasets / "stream.yaml"))
    assert (checked.code, checked.err) == (0, "")
    retired = project.cli_here("data", "retire", "stream", "--yes")
    assert retired.code == 0, retired.err
    assert {one.state for one in run(project, requests(project, spec, "2026-W01"))} == {"replayed"}
