"""The sensor that renews reports: once the runs of a data set are over, whoever started them.

It is on from the start, as no other: a report spends nothing, reads no row of a source, and is made
of what was released and evaluated. Nothing is put onto a shelf by the one of our own pages; that of
a data set in another project puts there what its file publishes and is cleared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import dagster as dg
from dagster import DagsterRun, DagsterRunStatus

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration.jobs import jobs_of, report_job_name
from dp_pipeline.orchestration.release_assets import KINDS
from dp_pipeline.releases.export import publications_of
from dp_pipeline.releases.release import Release

SENSOR = "renewed_reports"
SECONDS = 60
LONGEST_WAIT = 3600.0
"""Seconds that a report may be older than the newest release while further runs go on: a year of
weeks is one report at its end, and one an hour on the way.
"""

_UNFINISHED = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class Made:
    """When Dagster saw an asset for the last time.

    number   of the event: later ones are larger
    time     seconds since 1970
    """

    number: int
    time: float


@dataclass(frozen=True)
class ReportPage:
    """One report of a data set, and the assets that it tells of."""

    key: dg.AssetKey
    told: tuple[dg.AssetKey, ...]

    def newest(self, made: Mapping[dg.AssetKey, Made]) -> Made | None:
        """What it does not tell of yet, the last of it; None where it tells of everything."""
        found = [made[key] for key in self.told if key in made]
        last = max(found, key=lambda one: one.number, default=None)
        own = made.get(self.key)
        return None if last is None or (own and own.number > last.number) else last

    def is_late(self, made: Mapping[dg.AssetKey, Made]) -> bool:
        """Whether it stands for longer than a report may wait for further runs."""
        newest, own = self.newest(made), made.get(self.key)
        return newest is not None and own is not None and newest.time - own.time > LONGEST_WAIT


def pages_of(spec: DatasetSpec) -> tuple[ReportPage, ...]:
    """The reports of a data set."""
    told = {
        kind: tuple(_key(spec, kind, name) for name in (*kind.names(spec), "evaluation"))
        for kind in KINDS
        if kind.names(spec)
    }
    every = tuple(key for keys in told.values() for key in keys)
    return tuple(
        # A report of sensitive releases with an ε says what was released beside them.
        ReportPage(
            _key(spec, kind, "comparison"), every if spec.is_release and not kind.FOLDER else keys
        )
        for kind, keys in told.items()
    )


def _key(spec: DatasetSpec, kind: type[Release], name: str) -> dg.AssetKey:
    return dg.AssetKey([spec.name, *kind.FOLDER, name])


def renewal_sensor(specs: Sequence[DatasetSpec]) -> list[dg.SensorDefinition]:
    """One for all data sets, whose look is two questions to Dagster's storage however many there
    are; none where nothing is released.
    """
    pages = {spec.name: found for spec in specs if (found := pages_of(spec))}
    renewed = [dg.AssetKey([name, "budget"]) for name in pages]
    renewed += [page.key for found in pages.values() for page in found]
    if not renewed:
        return []
    shelf = "Spends nothing, reads no row of a source, and puts nothing onto a shelf."
    selection = dg.AssetSelection.assets(*renewed)
    return [_sensor(SENSOR, specs, pages, shelf, asset_selection=selection)]


def own_renewal_sensor(spec: DatasetSpec) -> list[dg.SensorDefinition]:
    """That of one data set in another project, by its own job: the executor of the project would
    import everything once for each report. None where nothing is released.
    """
    pages = pages_of(spec)
    if not pages:
        return []
    shelf = "Spends nothing and reads no row of a source."
    if publications_of(spec):
        models = dict.fromkeys(one.model for one in publications_of(spec))
        published = ReportPage(
            dg.AssetKey([spec.name, "published"]),
            tuple(dg.AssetKey([spec.name, model]) for model in models),
        )
        pages, shelf = (*pages, published), f"Puts what is published onto its shelf. {shelf}"
    told, job = {spec.name: pages}, report_job_name(spec)
    return [_sensor(f"{spec.name}_{SENSOR}", [spec], told, shelf, job_name=job)]


def _sensor(
    name: str,
    specs: Sequence[DatasetSpec],
    pages: Mapping[str, tuple[ReportPage, ...]],
    costs: str,
    **target: Any,
) -> dg.SensorDefinition:
    """costs   the end of its description
    target   the assets or the job that it may start
    """

    @cache
    def of_jobs() -> dict[str, str]:
        return {job.name: spec.name for spec in specs for job in jobs_of(spec)}  # type: ignore[attr-defined]

    @dg.sensor(
        name=name,
        **target,
        minimum_interval_seconds=SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Renew the report of a data set once its runs are over, and once an hour while "
        f"they go on. {costs}",
    )
    def renewed_reports(
        context: dg.SensorEvaluationContext,
    ) -> list[dg.RunRequest] | dg.SkipReason:
        # Runs first: one that ends between the two questions has left what it made.
        runs = context.instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED))
        busy = {name for run in runs for name in _names(run, of_jobs())}
        made = _made(context.instance, pages.values())
        asked = [_asked(name, found, made, busy) for name, found in pages.items()]
        requests = [one for one in asked if one is not None]
        return requests or dg.SkipReason("every report tells of all that was released, or waits")

    return renewed_reports


def _asked(
    name: str,
    pages: Iterable[ReportPage],
    made: Mapping[dg.AssetKey, Made],
    busy: Collection[str],
) -> dg.RunRequest | None:
    """The run that renews the reports of one data set; None where all are fresh, or may wait."""
    stale = {page: page.newest(made) for page in pages}
    due = {
        page: newest
        for page, newest in stale.items()
        if newest and (name not in busy or page.is_late(made))
    }
    if not due:
        return None
    # One that fails is not asked for again before there is something new to tell.
    last = max(newest.number for newest in due.values())
    return dg.RunRequest(
        run_key=f"{name} {last}",
        asset_selection=[*(page.key for page in due), dg.AssetKey([name, "budget"])],
    )


def _made(
    instance: dg.DagsterInstance, pages: Iterable[Sequence[ReportPage]]
) -> dict[dg.AssetKey, Made]:
    """When each report and each asset that one tells of was made for the last time."""
    keys = {key for some in pages for page in some for key in (page.key, *page.told)}
    found: dict[dg.AssetKey, Made] = {}
    for record in instance.get_asset_records(sorted(keys)):
        last = record.asset_entry.last_materialization_record
        if last is not None:
            found[record.asset_entry.asset_key] = Made(last.storage_id, last.timestamp)
    return found


def _names(run: DagsterRun, named: Mapping[str, str]) -> set[str]:
    """Data sets that a run is of: by its assets, or by its job where it is of all of them."""
    if run.asset_selection:
        return {key.path[0] for key in run.asset_selection}
    return {named[run.job_name]} if run.job_name in named else set()
