"""The schedules and sensors of one data set: off until somebody turns them on. What they answer is
decided by the calendar, the declarations and the ledger, without a look at a row.

There is no sensor for sensitive rows whose changes are not public: that something was released
would tell that a row changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any

import dagster as dg

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.clock import DAY
from dp_pipeline.config.dataset import DatasetSpec, Publication
from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.config.windows import TEMPLATE, Windows
from dp_pipeline.orchestration import jobs
from dp_pipeline.orchestration.common import Pipeline, PipelineResource, partition_key
from dp_pipeline.raw.ingest import SourceStamp, source_digest, source_stamp
from dp_pipeline.raw.snapshot import current_snapshot
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.outcome import is_prepared, is_run_dry, published_windows
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_plan import plan_run

Answer = dg.RunRequest | dg.SkipReason


def publish_current(
    spec: DatasetSpec, publication: Publication, pipeline: Pipeline, *, run_key: str
) -> Answer:
    """Publish from the current snapshot: a replay at no cost once it was published."""
    refusal = _refusal(spec, publication, pipeline, snapshot="")
    if refusal is not None:
        return refusal
    return dg.RunRequest(
        run_key=run_key,
        partition_key=epsilon_text(publication.epsilon),
        asset_selection=[
            dg.AssetKey([spec.name, one]) for one in jobs.published_assets(spec, publication)
        ],
    )


def publish_new_snapshot(
    spec: DatasetSpec, publication: Publication, pipeline: Pipeline, *, snapshot: str, run_key: str
) -> Answer:
    """Open a snapshot and publish from it, in one run: a new charge."""
    refusal = _refusal(spec, publication, pipeline, snapshot=snapshot)
    if refusal is not None:
        return refusal
    return dg.RunRequest(
        run_key=run_key,
        partition_key=epsilon_text(publication.epsilon),
        run_config=ingest_config(spec, snapshot),
    )


def ingest_config(spec: DatasetSpec, snapshot: str) -> dict[str, Any]:
    """Configuration of a run that opens a snapshot."""
    return {"ops": {f"{spec.name}__ingested": {"config": {"snapshot": snapshot}}}}


def _refusal(
    spec: DatasetSpec, publication: Publication, pipeline: Pipeline, *, snapshot: str
) -> dg.SkipReason | None:
    """The one line of a budget that does not allow it; other mistakes are raised and turn the
    tick red.
    """
    options = RunOptions(
        spec,
        EpsilonRelease,
        (publication.model,),
        (epsilon_text(publication.epsilon),),
        pipeline.home,
        pipeline.noise,
        snapshot=snapshot,
    )
    try:
        plan_run(options).require_budget()
    except BudgetExceeded as refused:
        return dg.SkipReason(str(refused))
    return None


# Dagster reads the annotations of these functions when they are defined, so they are not deferred.


MONDAY_MORNING = "0 6 * * 1"
_ONCE = "A refused or failed week is not tried again before the next."


def schedules_of(spec: DatasetSpec) -> list[dg.ScheduleDefinition]:
    """The one that publishes what is declared, where something is."""
    if spec.windows is not None:
        return [_windows(spec)]
    if spec.publish is None:
        return []
    make = _refresh if spec.refresh == "weekly" else _replay
    return [make(spec, spec.publish)]


def _replay(spec: DatasetSpec, publication: Publication) -> dg.ScheduleDefinition:
    """Publish from the current snapshot: the same one is replayed at no cost."""

    @dg.schedule(
        name=f"{spec.name}_weekly",
        cron_schedule=MONDAY_MORNING,
        job_name=jobs.sweep_job_name(spec),
        description=f"Publish {jobs.publication_text(spec, publication)} every Monday at 06:00 "
        f"UTC, from the current snapshot: at no cost once it was published from there. {_ONCE}",
        execution_timezone="UTC",
    )
    def weekly(context: dg.ScheduleEvaluationContext, dp_pipeline: PipelineResource) -> Answer:
        key = _run_key(context.scheduled_execution_time, publication)
        return publish_current(spec, publication, dp_pipeline, run_key=key)

    return weekly


def _refresh(spec: DatasetSpec, publication: Publication) -> dg.ScheduleDefinition:
    """Publish from a new snapshot of each ISO week, whether or not any row changed: what is done
    must not tell. Its name is not the other schedule's: who turned on what is free pays for
    nothing.
    """

    @dg.schedule(
        name=f"{spec.name}_weekly_refresh",
        cron_schedule=MONDAY_MORNING,
        job_name=jobs.new_snapshot_job_name(spec),
        description=f"Open a new snapshot every Monday at 06:00 UTC, changed or not, and publish "
        f"{jobs.publication_text(spec, publication)} from it: every week is charged. A week that "
        f"the ceiling does not allow is skipped before anything is read. {_ONCE}",
        execution_timezone="UTC",
    )
    def refresh(context: dg.ScheduleEvaluationContext, dp_pipeline: PipelineResource) -> Answer:
        time = context.scheduled_execution_time
        key = _run_key(time, publication)
        return publish_new_snapshot(
            spec, publication, dp_pipeline, snapshot=iso_week(time), run_key=key
        )

    return refresh


MOST_A_TICK = 60
"""Windows that one tick asks for: those that were missed are caught up, the oldest first."""


def _windows(spec: DatasetSpec) -> dg.ScheduleDefinition:
    """Publish every window once it is over and its grace too; what was missed is caught up."""
    windows = spec.cut
    when = "5 * * * *" if windows.every == "hour" else "0 6 * * *"
    published = "; ".join(jobs.publication_text(spec, one) for one in spec.publications)

    @dg.schedule(
        name=f"{spec.name}_each_window",
        cron_schedule=when,
        job_name=jobs.sweep_job_name(spec),
        description=f"Once a {windows.every} is over{_and_more(windows.grace)}, read it and "
        f"publish {published}. Asked every {'hour' if windows.every == 'hour' else 'day'}: windows "
        "that were missed are caught up, each is charged once, and one that failed is tried again. "
        "Before the first is published it is the newest alone that is asked for. Windows before it "
        f"that a release of several is of too are read first. {_which(spec)}",
        execution_timezone=windows.clock.zone,
    )
    def each_window(
        context: dg.ScheduleEvaluationContext, dp_pipeline: PipelineResource
    ) -> list[dg.RunRequest] | dg.SkipReason:
        moment = context.scheduled_execution_time
        due = due_windows(spec, dp_pipeline.home, int(moment.timestamp()))
        if not due:
            return dg.SkipReason(_why_none(spec, dp_pipeline.home))
        return _window_runs(spec, dp_pipeline, due, tick=moment.isoformat())

    return each_window


def _has_file_each(spec: DatasetSpec) -> bool:
    """Whether each window has a file or a folder of its own here, by what is declared."""
    source = spec.source.whole or spec.source
    is_here = not source.is_remote and source.download is None
    return is_here and all(TEMPLATE in one for one in source.locations)


def _may_have_rows(spec: DatasetSpec, window: str) -> bool:
    """Whether a window is asked for at all, by declarations and by which files there are: rows are
    not looked at, and not when they were written.
    """
    if not _has_file_each(spec):
        return True
    return source_stamp(spec.at_window(window).source) is not None


def _which(spec: DatasetSpec) -> str:
    """Which windows may have rows, in a sentence."""
    if _has_file_each(spec):
        return "A window without a file is not asked for."
    end = f"up to the last, {spec.cut.last}" if spec.cut.last else "as no `last` one is declared"
    return (
        f"Every window is asked for, {end}, until one is released that has next to no rows by its "
        "noisy count where an earlier one had many."
    )


def _why_none(spec: DatasetSpec, home: Home) -> str:
    """Why no window is due, in one line."""
    published = published_windows(spec, home)
    if published and _is_at_its_end(spec, home, published):
        return (
            f"{spec.name}: {published[-1]} has next to no rows by its noisy count, so none behind "
            f"it is asked for: declare it as the `last` one, or publish a later one by hand, "
            f"`dp-pipeline run {spec.name} --window NAME`, once there are rows again"
        )
    return f"{spec.name}: every window that is over and may have rows is published"


def _is_at_its_end(spec: DatasetSpec, home: Home, published: Sequence[str]) -> bool:
    """Whether nothing is asked for behind the newest published window. A file of its own says by
    itself that there is another one.
    """
    return not _has_file_each(spec) and is_run_dry(spec, home, published[-MOST_A_TICK:])


def due_windows(spec: DatasetSpec, home: Home, moment: int) -> tuple[str, ...]:
    """The windows that are over and not published, oldest first: those behind the newest one that
    is, and those that failed between it and the first one; before any is, the newest alone. Those
    that cannot have rows are left out.

    A gap is asked for while it is among the last ones before the newest: for what never comes no
    run is started for ever.

    moment   seconds since 1970 in UTC
    """
    published = published_windows(spec, home)
    if not published:
        closed = reversed(spec.cut.closed(moment))
        newest = next((one for one in closed if _may_have_rows(spec, one)), None)
        if newest is None or spec.cut.start(newest) < spec.cut.start(spec.first_published):
            return ()  # Releases of several windows cannot end with it.
        return (newest,)
    behind: list[str] = []
    if not _is_at_its_end(spec, home, published):
        later = spec.cut.closed(moment, after=published[-1])
        behind += islice((one for one in later if _may_have_rows(spec, one)), MOST_A_TICK)
    gaps = (one for one in _gaps(spec.cut, published) if _may_have_rows(spec, one))
    newest_first = islice(gaps, MOST_A_TICK - len(behind))
    return (*reversed(tuple(newest_first)), *behind)


def _gaps(windows: Windows, published: Sequence[str]) -> Iterator[str]:
    """Those of the last ones before the newest published that are not, and are behind the first,
    newest first.
    """
    name: str | None = published[-1]
    for _ in range(MOST_A_TICK):
        if name is None or name == published[0]:
            return
        name = windows.preceding(name)
        if name is not None and name not in published:
            yield name


def _window_runs(
    spec: DatasetSpec, pipeline: Pipeline, due: tuple[str, ...], *, tick: str
) -> list[dg.RunRequest] | dg.SkipReason:
    """A run for each window that its ceiling allows; in one line why there is none."""
    allowed, refused = [], ""
    for name in due:
        levels = EpsilonRelease.levels(spec)
        asked = RunOptions(
            spec, EpsilonRelease, EpsilonRelease.names(spec), levels, pipeline.home, pipeline.noise
        )
        try:
            plan_run(replace(asked.of_window(name), published=True)).require_budget()
        except BudgetExceeded as error:
            refused = refused or str(error)
            continue
        allowed.append(name)
    if not allowed:
        return dg.SkipReason(refused)
    rows = [dg.AssetKey([spec.name, stage]) for stage in jobs.raw_stages(spec)]
    read_first = [
        dg.RunRequest(
            run_key=f"rows of {name} {tick}",
            partition_key=partition_key(spec.cut, name),
            asset_selection=rows,
        )
        for name in _not_read(spec, pipeline.home, allowed)
    ]
    return read_first + [
        dg.RunRequest(run_key=f"{name} {tick}", partition_key=partition_key(spec.cut, name))
        for name in allowed
    ]


def _not_read(spec: DatasetSpec, home: Home, due: Sequence[str]) -> list[str]:
    """The windows before, of which releases of several are too, that nobody has read, oldest
    first.
    """
    span = spec.most_span
    before = {one for name in due for one in spec.cut.ending_with(name, span)} - {*due}
    is_open = home.ledger.account(spec.population) is not None
    return [
        one for one in sorted(before) if not (is_open and is_prepared(spec.at_window(one), home))
    ]


def _and_more(grace: int) -> str:
    """How long after its end a window is read, in words; nothing where that is at once.

    >>> _and_more(2 * DAY), _and_more(9000), _and_more(0)
    (', and 2 days more', ', and 150 minutes more', '')
    """
    if not grace:
        return ""
    for seconds, name in ((DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds")):
        if not grace % seconds:
            return f", and {grace // seconds} {name} more"
    raise AssertionError("every whole number is one of seconds")


def iso_week(time: datetime) -> str:
    """The name of the week's snapshot.

    >>> iso_week(datetime(2027, 1, 1))
    '2026-W53'
    """
    year, week, _ = time.isocalendar()
    return f"{year}-W{week:02d}"


def _run_key(time: datetime, publication: Publication) -> str:
    return f"{iso_week(time)}-{epsilon_text(publication.epsilon)}"


@dataclass(frozen=True)
class Watched:
    """The sensor's memory, kept by Dagster between two looks.

    stamp, digest   of the bytes that were looked at last
    taken           digest of those that a snapshot was made of; empty before the first
    runs            how many runs were asked for: a look that is forgotten in a crash asks for
                    the same run once more, not for another
    """

    stamp: str = ""
    digest: str = ""
    taken: str = ""
    runs: int = 0

    @classmethod
    def from_cursor(cls, cursor: str | None) -> Watched:
        """What was remembered; nothing at first, and after somebody wrote anything else there."""
        try:
            return cls(**json.loads(cursor or "{}"))
        except (TypeError, ValueError):
            return cls()

    def to_cursor(self) -> str:
        """As text, for Dagster."""
        return json.dumps(asdict(self))

    @property
    def is_new(self) -> bool:
        """Whether the bytes are others than those of the last snapshot."""
        return self.digest != self.taken

    @property
    def run_key(self) -> str:
        """Of the run that is due."""
        return f"{self.runs + 1}-{self.digest[:16]}"

    def after_run(self) -> Watched:
        """Once the run was asked for."""
        return replace(self, taken=self.digest, runs=self.runs + 1)


def look(spec: DatasetSpec, home: Home, known: Watched) -> Watched | None:
    """What is known after one more look; None while the source is not there or being written.

    Bytes are read where a stamp changed, and only hashed.
    """
    stamp = source_stamp(spec.source)
    if stamp is None or stamp.text == known.stamp:
        return None if stamp is None else known
    digest = source_digest(spec.source)
    if digest is None:
        return None
    seen = replace(known, stamp=stamp.text, digest=digest)
    if not known.taken and _is_older(spec, home, stamp):
        return replace(seen, taken=digest)
    return seen


def free_snapshot_name(spec: DatasetSpec, home: Home, today: date) -> str:
    """The calendar day, with a number where a snapshot of that day is there."""
    for number in count(1):
        name = today.isoformat() if number == 1 else f"{today.isoformat()}-{number}"
        if not Path(home.raw, spec.name, name).exists():
            return name
    raise AssertionError("count never ends")


def _is_older(spec: DatasetSpec, home: Home, stamp: SourceStamp) -> bool:
    """Whether the source was written before the current snapshot was read from it."""
    snapshot = current_snapshot(home.raw, spec.name, b"", spec.window)
    if snapshot is None or not snapshot.exists():
        return False
    read = snapshot.manifest.get("read_at")
    if read is None:
        return False
    return stamp.changed_at is None or stamp.changed_at < datetime.fromisoformat(read)


# Dagster reads the annotations of these functions when they are defined, so they are not deferred.


SECONDS = 60


def sensors_of(spec: DatasetSpec) -> list[dg.SensorDefinition]:
    """One where the rows' changes are public and can be seen from outside."""
    return [_new_rows(spec)] if jobs.is_watched(spec) else []


def _new_rows(spec: DatasetSpec) -> dg.SensorDefinition:
    job_name, then = jobs.prepare_job_name(spec), "prepare it; spends nothing"
    if spec.publish is not None:
        job_name = jobs.new_snapshot_job_name(spec)
        then = (
            f"publish {jobs.publication_text(spec, spec.publish)} from it: every change is charged"
        )

    @dg.sensor(
        job_name,
        name=f"{spec.name}_new_rows",
        minimum_interval_seconds=SECONDS,
        description=f"Open a new snapshot when the source of {spec.name} has other bytes than "
        f"before, and {then}. That it changed may be seen by anyone.",
    )
    def new_rows(context: dg.SensorEvaluationContext, dp_pipeline: PipelineResource) -> Answer:
        seen = look(spec, dp_pipeline.home, Watched.from_cursor(context.cursor))
        if seen is None:
            return dg.SkipReason(f"{spec.name}: its source is not there, or being written")
        context.update_cursor(seen.to_cursor())
        if not seen.is_new:
            return dg.SkipReason(f"{spec.name}: its source has the same bytes as before")
        name = free_snapshot_name(spec, dp_pipeline.home, datetime.now(UTC).date())
        answer: Answer
        key = seen.run_key
        if spec.publish is None:
            answer = dg.RunRequest(run_key=key, run_config=ingest_config(spec, name))
        else:
            answer = publish_new_snapshot(
                spec, spec.publish, dp_pipeline, snapshot=name, run_key=key
            )
        if isinstance(answer, dg.RunRequest):
            context.update_cursor(seen.after_run().to_cursor())
        return answer

    return new_rows
