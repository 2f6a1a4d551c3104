"""A year of weeks by the ticks of their schedule: each read, charged and published once."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.ledger import balance, journal
from dp_pipeline.orchestration.jobs import epsilon_run_assets
from dp_pipeline.raw import ingest
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.releases.outcome import published_windows
from dp_pipeline.releases.roll_up import roll_up
from dp_pipeline.results.measurement import variance
from dp_pipeline_tests.orchestration.events import failures
from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.orchestration.streams import (
    EACH,
    HEAD,
    STREAM,
    run_weeks,
    ticked,
    week_options,
)

pytestmark = pytest.mark.stack

WEEKS = tuple(f"2024-W{number:02}" for number in range(1, 53))
FIRST_TICK = datetime(2024, 1, 10, 6, tzinfo=UTC)
"""The Wednesday after the first week: its end, and two days of grace."""
MISSED = (18, 19)
"""Wednesdays on which nothing ran: the next one catches up, in the same month."""
MONTH = 5 * EACH
RIDERS, AT_MOST = 12, 2


def rides() -> Iterator[str]:
    """Three rides of every rider in every week, of whom two count."""
    for week in range(len(WEEKS)):
        for number in range(3 * RIDERS):
            day = date(2024, 1, 1) + timedelta(7 * week + number % 7)
            x, y = (5 * number + week) % 8, (3 * number + week) % 4
            kind = "car" if (number + week) % 3 else "bike"
            yield f"r{number % RIDERS},{day}T12:00:00Z,{x},{y},{kind}"


class Calendar:
    """What every clock shows."""

    def __init__(self) -> None:
        self.moment = FIRST_TICK

    def now(self, _: object) -> datetime:
        return self.moment

    def seconds(self) -> int:
        return int(self.moment.timestamp())


@pytest.fixture
def calendar(monkeypatch) -> Calendar:
    clock = Calendar()
    for module in (balance, journal):
        monkeypatch.setattr(module, "datetime", clock)
    monkeypatch.setattr(ingest, "now", clock.seconds)
    return clock


def run_the_year(project: Project, spec: DatasetSpec, calendar: Calendar) -> dict[str, Fraction]:
    """Every tick of the year and the runs that it asks for; gives what each month should cost."""
    months: dict[str, Fraction] = {}
    for at in range(len(WEEKS)):
        calendar.moment = FIRST_TICK + timedelta(7 * at)
        if at in MISSED:
            continue
        requests = ticked(project, spec, calendar.moment.isoformat()).run_requests
        asked = [str(request.partition_key) for request in requests]
        late = len(MISSED) if at - 1 in MISSED else 0
        assert asked == [f"{week}-1" for week in WEEKS[at - late : at + 1]]
        for key in asked:
            ran = project.launch(spec, *epsilon_run_assets(spec), partition=key)
            assert ran.success, (key, failures(ran))
        month = calendar.moment.strftime("%Y-%m")
        months[month] = months.get(month, Fraction(0)) + len(asked) * EACH
    return months


def test_year_of_weeks_is_published_and_every_week_pays_once(tmp_path: Path, calendar: Calendar):
    project = Project(tmp_path)
    project.datasets.mkdir(parents=True)
    project.write_rows("stream.csv", [HEAD, *rides()])
    ceiling = {"each_window": str(float(EACH)), "per_month": str(float(MONTH))}
    windows = {**STREAM["windows"], "first": WEEKS[0]}
    spec = project.declare("stream", STREAM, ceiling=ceiling, windows=windows)
    months = run_the_year(project, spec, calendar)
    require_each_once(project, spec, months)
    require_read_once(project, spec)
    require_nothing_more(project, spec, calendar)
    require_year_added_up(project, spec)
    require_exports_that_verify(project, tmp_path)


def require_each_once(project: Project, spec: DatasetSpec, months: dict[str, Fraction]) -> None:
    """The sums of weeks, of months and of all of them are exact."""
    assert published_windows(spec, project.home) == WEEKS
    assert project.ledger.blocks(spec.population) == dict.fromkeys(WEEKS, EACH)
    assert project.spent(spec) == len(WEEKS) * EACH
    paid: dict[str, Fraction] = {}
    for entry in project.ledger.entries(spec.population):
        if entry.event == "reserve":
            month = entry.time[:7]
            paid[month] = paid.get(month, Fraction(0)) + Fraction(entry.nano_epsilon, 10**9)
    assert paid == months
    assert max(months.values()) == MONTH, "the limit of a month is reached"
    project.ledger.verify()


def require_read_once(project: Project, spec: DatasetSpec) -> None:
    """One snapshot a week; of every rider as many rows as count."""
    folders = {path.name for path in (project.home.raw / spec.name).iterdir() if path.is_dir()}
    assert folders == set(WEEKS)
    for week in WEEKS:
        snapshot = project.snapshot(spec, week)
        assert read_stage(snapshot, "ingested").num_rows == 3 * RIDERS
        assert read_stage(snapshot, "normalized").num_rows == AT_MOST * RIDERS


def require_nothing_more(project: Project, spec: DatasetSpec, calendar: Calendar) -> None:
    """The next tick asks for nothing, and a command over all weeks charges nothing."""
    calendar.moment += timedelta(1)
    quiet = ticked(project, spec, calendar.moment.isoformat())
    assert not quiet.run_requests
    assert "every closed window that may have rows is published" in (quiet.skip_message or "")
    before = len(project.ledger.entries())
    again = run_weeks(project, spec, *WEEKS)
    assert {(one.state, one.cost) for one in again} == {("replayed", 0)}
    assert len(again) == 2 * len(WEEKS)
    assert len(project.ledger.entries()) == before


def require_year_added_up(project: Project, spec: DatasetSpec) -> None:
    """52 times the variance of one week, and totals of all rows within six of its deviations: a
    false alarm of less than 1 in 10^6 runs.
    """
    releases = [asked.at("0.1")[0] for asked in week_options(project, spec, *WEEKS)]
    sums = {one.attributes[0]: one for one in roll_up(releases)}  # type: ignore[arg-type]
    # A table of n cells, with that of missing values, has a share of epsilon in proportion to √n.
    roots = {attribute.name: attribute.size**0.5 for attribute in spec.domain}
    assert set(sums) == set(roots)
    for name, one in sums.items():
        share = roots[name] / sum(roots.values())
        of_a_week = variance(Fraction(AT_MOST / (0.1 * share)))
        assert one.deviations == pytest.approx((len(WEEKS) * of_a_week) ** 0.5, rel=1e-3)
        assert one.single_release_deviations == pytest.approx(of_a_week**0.5, rel=1e-3)
    rows = len(WEEKS) * AT_MOST * RIDERS
    totals = [(one.counts.sum() - rows) / one.deviations[0] for one in sums.values()]
    spread = [one.counts.size for one in sums.values()]
    assert all(abs(off) < 6 * size**0.5 for off, size in zip(totals, spread, strict=True))
    trees = roll_up([asked.at("0.5")[0] for asked in week_options(project, spec, *WEEKS[1:])])  # type: ignore[arg-type]
    # One box of a week at least, and all of its noise.
    assert all(trees[0].deviations >= 0.99 * (51 * variance(AT_MOST / Fraction(1, 2))) ** 0.5)


def require_exports_that_verify(project: Project, folder: Path) -> None:
    """Each model of the first, a middle and the last week, from the files alone."""
    for week in (WEEKS[0], WEEKS[25], WEEKS[-1]):
        for model in ("independent", "htree_kmeans"):
            out = str(folder / f"{model}.{week}")
            words = ("export", "stream", model, "--window", week, "--to", out)
            project.command(*words)
            project.command("verify", out)
