"""The schedules and the sensor of one data set, off until somebody turns them on.

The calendar, declarations and the ledger decide which runs they start; no row is read. There is no
sensor for sensitive rows whose changes are not public: a release would disclose that a row changed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, date, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, Self

import dagster as dg

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.clock import DAY
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.config.sections import Publication
from dp_pipeline.config.windows import TEMPLATE, Windows
from dp_pipeline.orchestration import jobs
from dp_pipeline.orchestration.common import Pipeline, PipelineResource
from dp_pipeline.orchestration.partitions import partition_key
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.raw.source_stamps import source_digest, source_stamp
from dp_pipeline.releases import outcome
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_plan import plan_run

TickResult = dg.RunRequest | dg.SkipReason


def publication_request(
    spec: DatasetSpec,
    publication: Publication,
    pipeline: Pipeline,
    *,
    run_key: str,
    snapshot: str = "",
) -> TickResult:
    """Return the run that publishes one model, or the reason if the budget is too small.

    run_key    Dagster starts no second run with the same key
    snapshot   name of a new snapshot, whose release is a new charge; empty: the current snapshot,
               whose release is replayed at no cost once it was published

    Other errors are raised, and Dagster shows a failed tick.
    """
    epsilon = epsilon_text(publication.epsilon)
    models, levels = (publication.model,), (epsilon,)
    options = RunOptions(
        spec, EpsilonRelease, models, levels, pipeline.home, pipeline.noise, snapshot=snapshot
    )
    try:
        plan_run(options).require_budget()
    except BudgetExceeded as refusal:
        return dg.SkipReason(str(refusal))
    if snapshot:
        config = ingest_config(spec, snapshot)
        return dg.RunRequest(run_key=run_key, partition_key=epsilon, run_config=config)
    assets = jobs.publication_assets(spec, publication)
    selection = [dg.AssetKey([spec.name, name]) for name in assets]
    return dg.RunRequest(run_key=run_key, partition_key=epsilon, asset_selection=selection)


def ingest_config(spec: DatasetSpec, snapshot: str) -> dict[str, Any]:
    return {"ops": {f"{spec.name}__ingested": {"config": {"snapshot": snapshot}}}}


MONDAY_MORNING = "0 6 * * 1"
_NO_RETRY = "A refused or failed week is not tried again before the next."


def schedules_of(spec: DatasetSpec) -> list[dg.ScheduleDefinition]:
    if spec.windows is not None:
        return [_window_schedule(spec)]
    if spec.publish is None:
        return []
    return [_weekly_schedule(spec, spec.publish)]


def _weekly_schedule(spec: DatasetSpec, publication: Publication) -> dg.ScheduleDefinition:
    """Return the schedule that publishes a model every Monday.

    It replays the release of the current snapshot; with ``refresh`` it opens a new snapshot,
    whether or not a row changed, as its runs must not disclose that. The two have different names,
    as one of them costs something.
    """
    text, is_refresh = jobs.publication_text(spec, publication), spec.refresh == "weekly"
    name, job_name = f"{spec.name}_weekly", jobs.backfill_job_name(spec)
    description = (
        f"Publish {text} every Monday at 06:00 UTC, from the current snapshot: at no cost once it "
        "was published from there."
    )
    if is_refresh:
        name, job_name = f"{name}_refresh", jobs.new_snapshot_job_name(spec)
        description = (
            f"Open a new snapshot every Monday at 06:00 UTC, changed or not, and publish {text} "
            "from it: every week is charged. A week that the ceiling does not allow is skipped "
            "before anything is read."
        )

    @dg.schedule(
        name=name,
        cron_schedule=MONDAY_MORNING,
        job_name=job_name,
        description=f"{description} {_NO_RETRY}",
        execution_timezone="UTC",
    )
    def weekly(context: dg.ScheduleEvaluationContext, dp_pipeline: PipelineResource) -> TickResult:
        week = iso_week(context.scheduled_execution_time)
        key = f"{week}-{epsilon_text(publication.epsilon)}"
        snapshot = week if is_refresh else ""
        return publication_request(spec, publication, dp_pipeline, run_key=key, snapshot=snapshot)

    return weekly


MAX_WINDOWS_PER_TICK = 60
"""Missed windows that one tick requests, at most, the oldest first."""


def _window_schedule(spec: DatasetSpec) -> dg.ScheduleDefinition:
    """Return the schedule that publishes every closed window after its grace, and missed ones."""
    windows = spec.time_windows
    is_hourly = windows.every == "hour"
    publications = "; ".join(jobs.publication_text(spec, entry) for entry in spec.publications)

    @dg.schedule(
        name=f"{spec.name}_each_window",
        cron_schedule="5 * * * *" if is_hourly else "0 6 * * *",
        job_name=jobs.backfill_job_name(spec),
        description=f"Once a {windows.every} has ended{_grace_text(windows.grace)}, read it and "
        f"publish {publications}. Every {'hour' if is_hourly else 'day'} missed windows are caught "
        "up, each is charged once, and one that failed is tried again. Before the first window is "
        "published, only the newest one is requested. Earlier windows that a release of several "
        f"reads too are read first. {_window_choice_text(spec)}",
        execution_timezone=windows.clock.zone,
    )
    def each_window(
        context: dg.ScheduleEvaluationContext, dp_pipeline: PipelineResource
    ) -> list[dg.RunRequest] | dg.SkipReason:
        moment = context.scheduled_execution_time
        due = due_windows(spec, dp_pipeline.home, int(moment.timestamp()))
        if due:
            return _window_runs(spec, dp_pipeline, due, tick=moment.isoformat())
        published = outcome.published_windows(spec, dp_pipeline.home)
        if published and _has_ended(spec, dp_pipeline.home, published):
            return dg.SkipReason(
                f"{spec.name}: the {outcome.DRY_WINDOWS} windows up to {published[-1]} have next "
                "to no rows by their noisy counts, so no later window is requested: declare the "
                "`last` one, or publish a later one by hand, "
                f"`dp-pipeline run {spec.name} --window NAME`, once there are rows again"
            )
        return dg.SkipReason(f"{spec.name}: every closed window that may have rows is published")

    return each_window


def _has_file_each(spec: DatasetSpec) -> bool:
    source = spec.source.template or spec.source
    is_local = not source.is_remote and source.download is None
    return is_local and all(TEMPLATE in location for location in source.locations)


def _may_have_rows(spec: DatasetSpec, window: str) -> bool:
    return not _has_file_each(spec) or source_stamp(spec.at_window(window).source) is not None


def _window_choice_text(spec: DatasetSpec) -> str:
    if _has_file_each(spec):
        return "A window without a file is not requested."
    if spec.time_windows.last:
        end = f"up to the last, {spec.time_windows.last}"
    else:
        end = f"at most {outcome.DRY_WINDOWS} at a time, as no `last` one is declared"
    return (
        f"Every window is requested, {end}, until {outcome.DRY_WINDOWS} released ones in a row "
        "have next to no rows by their noisy counts where an earlier one had many."
    )


def _has_ended(spec: DatasetSpec, home: Home, published: Sequence[str]) -> bool:
    """Return whether the source seems to have ended after the published windows (oldest first).

    It is False where each window has a file, as that file shows whether there is another window.
    """
    recent = published[-MAX_WINDOWS_PER_TICK:]
    return not _has_file_each(spec) and outcome.has_source_ended(spec, home, recent)


def due_windows(spec: DatasetSpec, home: Home, moment: int) -> tuple[str, ...]:
    """Return the closed windows to publish, oldest first; those that cannot have rows are left out.

    They are the windows after the newest published one, and unpublished ones among the last 60
    before it, together at most 60. Of those after it at most ``DRY_WINDOWS`` are due where neither
    files nor a declared last window show which ones come, and none once the source has ended.
    Before any is published, the newest alone is due; none if it is before the first complete one.

    moment   seconds since 1970 in UTC
    """
    published = outcome.published_windows(spec, home)
    if not published:
        newest_first = reversed(spec.time_windows.closed(moment))
        newest = next((window for window in newest_first if _may_have_rows(spec, window)), None)
        start = spec.time_windows.start
        if newest is None or start(newest) < start(spec.first_complete_window):
            return ()  # Too few windows precede it for the releases of several windows.
        return (newest,)
    later: list[str] = []
    if not _has_ended(spec, home, published):
        closed = spec.time_windows.closed(moment, after=published[-1])
        candidates = (window for window in closed if _may_have_rows(spec, window))
        # Without a file each and a `last`, the next rows may never come: each empty one is charged.
        is_known = _has_file_each(spec) or spec.time_windows.last
        later += islice(candidates, MAX_WINDOWS_PER_TICK if is_known else outcome.DRY_WINDOWS)
    gaps = _gaps(spec.time_windows, published)
    gaps = (window for window in gaps if _may_have_rows(spec, window))
    newest_gaps = tuple(islice(gaps, MAX_WINDOWS_PER_TICK - len(later)))
    return (*reversed(newest_gaps), *later)


def _gaps(windows: Windows, published: Sequence[str]) -> Iterator[str]:
    name: str | None = published[-1]
    for _ in range(MAX_WINDOWS_PER_TICK):
        if name is None or name == published[0]:
            return
        name = windows.preceding(name)
        if name is not None and name not in published:
            yield name


def _window_runs(
    spec: DatasetSpec, pipeline: Pipeline, due: tuple[str, ...], *, tick: str
) -> list[dg.RunRequest] | dg.SkipReason:
    names, levels = EpsilonRelease.names(spec), EpsilonRelease.levels(spec)
    options = RunOptions(spec, EpsilonRelease, names, levels, pipeline.home, pipeline.noise)
    allowed, refusals = [], []
    for window in due:
        try:
            plan_run(replace(options.of_window(window), published=True)).require_budget()
        except BudgetExceeded as refusal:
            refusals.append(str(refusal))
        else:
            allowed.append(window)
    if not allowed:
        return dg.SkipReason(refusals[0])
    rows = [dg.AssetKey([spec.name, stage]) for stage in jobs.raw_stages(spec)]
    ending_with, span = spec.time_windows.ending_with, spec.max_span
    # Releases of several windows need the rows of earlier ones.
    earlier = {name for window in allowed for name in ending_with(window, span)} - {*allowed}
    is_open = pipeline.home.ledger.account(spec.population) is not None
    row_runs = [
        dg.RunRequest(
            run_key=f"rows of {window} {tick}",
            partition_key=partition_key(spec.time_windows, window),
            asset_selection=rows,
        )
        for window in sorted(earlier)
        if not (is_open and outcome.is_prepared(spec.at_window(window), pipeline.home))
    ]
    return row_runs + [
        dg.RunRequest(
            run_key=f"{window} {tick}", partition_key=partition_key(spec.time_windows, window)
        )
        for window in allowed
    ]


def _grace_text(grace: int) -> str:
    """Return the grace time after a window's end as text; empty for none.

    >>> _grace_text(2 * DAY), _grace_text(9000), _grace_text(0)
    (', and 2 days more', ', and 150 minutes more', '')
    """
    if not grace:
        return ""
    units = ((DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
    seconds, name = next(unit for unit in units if not grace % unit[0])
    return f", and {grace // seconds} {name} more"


def iso_week(time: datetime) -> str:
    """Return the ISO week of a time, which names the snapshot of the week.

    >>> iso_week(datetime(2027, 1, 1))
    '2026-W53'
    """
    year, week, _ = time.isocalendar()
    return f"{year}-W{week:02d}"


@dataclass(frozen=True)
class SourceCursor:
    """The state about a source that its sensor stores between two ticks.

    stamp             stamp of the file when it was last hashed
    digest            digest of its bytes at that time
    snapshot_digest   digest of the bytes that the last snapshot was made of; empty before the first
    run_count         number of requested runs: after a crash a tick requests the same run again
    """

    stamp: str = ""
    digest: str = ""
    snapshot_digest: str = ""
    run_count: int = 0

    @classmethod
    def from_text(cls, text: str | None) -> Self:
        """Return the cursor that a text stores; an empty cursor for any other text."""
        try:
            cursor = cls(**json.loads(text or "{}"))
        except (TypeError, ValueError):
            return cls()
        is_valid = [type(value) for value in astuple(cursor)] == [str, str, str, int]
        return cursor if is_valid else cls()

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def run_key(self) -> str:
        return f"{self.run_count + 1}-{self.digest[:16]}"


def observe_source(spec: DatasetSpec, home: Home, cursor: SourceCursor) -> SourceCursor | None:
    """Return a cursor with the present ``stamp`` and ``digest`` of the source; the same cursor if
    the stamp has not changed, and None if the source is missing or being written.

    Its bytes are read only to hash them. An empty ``snapshot_digest`` becomes their digest if the
    current snapshot was read after their last change. ``run_count`` stays.
    """
    stamp = source_stamp(spec.source)
    if stamp is None or stamp.text == cursor.stamp:
        return None if stamp is None else cursor
    digest = source_digest(spec.source)
    if digest is None:
        return None
    observed = replace(cursor, stamp=stamp.text, digest=digest)
    if cursor.snapshot_digest:
        return observed
    snapshot = current_snapshot(home.raw, spec.name, b"", spec.window)
    if snapshot is None or not snapshot.exists():
        return observed
    read_at, changed_at = snapshot.manifest.get("read_at"), stamp.changed_at
    is_unchanged = read_at and (changed_at is None or changed_at < datetime.fromisoformat(read_at))
    return replace(observed, snapshot_digest=digest) if is_unchanged else observed


def free_snapshot_name(spec: DatasetSpec, home: Home, today: date) -> str:
    """Return the date as a snapshot name, with a number if a snapshot of that day exists."""
    day, folder = today.isoformat(), Path(home.raw, spec.name)
    names = (day if number == 1 else f"{day}-{number}" for number in count(1))
    return next(name for name in names if not (folder / name).exists())


INTERVAL_SECONDS = 60


def sensors_of(spec: DatasetSpec) -> list[dg.SensorDefinition]:
    """Return a list of the sensor for new rows; [] unless their changes are public and visible."""
    if not jobs.is_watched(spec):
        return []
    job_name, action = jobs.prepare_job_name(spec), "prepare it; spends nothing"
    if spec.publish is not None:
        text = jobs.publication_text(spec, spec.publish)
        job_name = jobs.new_snapshot_job_name(spec)
        action = f"publish {text} from it: every change is charged"

    @dg.sensor(
        job_name,
        name=f"{spec.name}_new_rows",
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Open a new snapshot when the source of {spec.name} has other bytes than "
        f"before, and {action}. That it changed may be seen by anyone.",
    )
    def new_rows(context: dg.SensorEvaluationContext, dp_pipeline: PipelineResource) -> TickResult:
        cursor = observe_source(spec, dp_pipeline.home, SourceCursor.from_text(context.cursor))
        if cursor is None:
            return dg.SkipReason(f"{spec.name}: its source is missing, or being written")
        context.update_cursor(cursor.to_text())
        if cursor.digest == cursor.snapshot_digest:
            return dg.SkipReason(f"{spec.name}: its source has the same bytes as before")
        name = free_snapshot_name(spec, dp_pipeline.home, datetime.now(UTC).date())
        key, entry = cursor.run_key, spec.publish
        result: TickResult
        if entry is None:
            result = dg.RunRequest(run_key=key, run_config=ingest_config(spec, name))
        else:
            result = publication_request(spec, entry, dp_pipeline, run_key=key, snapshot=name)
        if isinstance(result, dg.RunRequest):
            run_count = cursor.run_count + 1
            cursor = replace(cursor, snapshot_digest=cursor.digest, run_count=run_count)
            context.update_cursor(cursor.to_text())
        return result

    return [new_rows]
