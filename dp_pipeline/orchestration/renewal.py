"""The sensor that renews reports after the runs of a data set.

It is the only sensor that is on from the start: a report spends nothing and reads no row of a
source. In a project of this program it publishes no copy; in another Dagster project, it also
renews the published copies.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import dagster as dg
from dagster import DagsterRunStatus

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration.common import RELEASE_KINDS
from dp_pipeline.orchestration.jobs import jobs_of, report_job_name
from dp_pipeline.releases.export import publications_of
from dp_pipeline.releases.release import Release

SENSOR = "renewed_reports"
INTERVAL_SECONDS = 60
MAX_REPORT_AGE = 3600.0
"""Seconds by which a report may be older than the newest release while further runs go on: during
a year of weeks it is renewed once an hour, and at the end.
"""

_UNFINISHED = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


Updates = Mapping[dg.AssetKey, dg.EventLogRecord]
"""Asset → the event of its last update: later events have larger storage ids."""


@dataclass(frozen=True)
class ReportPage:
    """A report of a data set, with the assets that it shows."""

    key: dg.AssetKey
    sources: tuple[dg.AssetKey, ...]

    def missing_update(self, updates: Updates) -> dg.EventLogRecord | None:
        """Return the newest update of its assets if it is newer than the report, or if there is no
        report yet; else None, also where its assets have no update."""
        candidates = [updates[key] for key in self.sources if key in updates]
        newest = max(candidates, key=lambda update: update.storage_id, default=None)
        report = updates.get(self.key)
        is_fresh = newest is None or (report and report.storage_id > newest.storage_id)
        return None if is_fresh else newest


def report_pages(spec: DatasetSpec) -> tuple[ReportPage, ...]:
    sources = {
        kind: tuple(_key(spec, kind, name) for name in (*kind.names(spec), "evaluation"))
        for kind in RELEASE_KINDS
        if kind.names(spec)
    }
    everything = tuple(key for keys in sources.values() for key in keys)
    return tuple(
        # The report of sensitive releases with an ε names the other non-DP releases.
        ReportPage(
            _key(spec, kind, "comparison"),
            everything if spec.is_release and not kind.FOLDER else keys,
        )
        for kind, keys in sources.items()
    )


def _key(spec: DatasetSpec, kind: type[Release], name: str) -> dg.AssetKey:
    return dg.AssetKey([spec.name, *kind.FOLDER, name])


def renewal_sensor(specs: Sequence[DatasetSpec]) -> list[dg.SensorDefinition]:
    """Return one sensor for the reports of all data sets; [] if nothing is released.

    Its tick is two queries to Dagster's storage, however many data sets there are."""
    pages = {spec.name: reports for spec in specs if (reports := report_pages(spec))}
    renewed = [dg.AssetKey([name, "budget"]) for name in pages]
    renewed += [page.key for reports in pages.values() for page in reports]
    if not renewed:
        return []
    effects = "Spends nothing, reads no row of a source, and publishes no copy."
    selection = dg.AssetSelection.assets(*renewed)
    return [_sensor(SENSOR, specs, pages, effects, asset_selection=selection)]


def own_renewal_sensor(spec: DatasetSpec) -> list[dg.SensorDefinition]:
    """Return one data set's report sensor for another Dagster project; [] if nothing is released.

    It starts a job of its own: the executor of the project would import everything for each report.
    """
    pages = report_pages(spec)
    if not pages:
        return []
    effects = "Spends nothing and reads no row of a source."
    if publications_of(spec):
        models = dict.fromkeys(publication.model for publication in publications_of(spec))
        published = ReportPage(
            dg.AssetKey([spec.name, "published"]),
            tuple(dg.AssetKey([spec.name, model]) for model in models),
        )
        pages, effects = (*pages, published), f"Renews the published copies too. {effects}"
    name, job_name = f"{spec.name}_{SENSOR}", report_job_name(spec)
    return [_sensor(name, [spec], {spec.name: pages}, effects, job_name=job_name)]


def _sensor(
    name: str,
    specs: Sequence[DatasetSpec],
    pages: Mapping[str, tuple[ReportPage, ...]],
    effects: str,
    **target: Any,
) -> dg.SensorDefinition:
    """Return a sensor that renews the reports of some data sets.

    effects   the end of its description
    target    the assets or the job that it may start
    """
    keys = sorted(
        {key for reports in pages.values() for page in reports for key in (page.key, *page.sources)}
    )

    @cache
    def dataset_of_job() -> dict[str, str]:
        return {job.name: spec.name for spec in specs for job in jobs_of(spec)}  # type: ignore[attr-defined]

    @dg.sensor(
        name=name,
        **target,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Renew the report of a data set once its runs are over, and once an hour while "
        f"they go on. {effects}",
    )
    def renewed_reports(context: dg.SensorEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        # Runs first: a run that ends between the two queries has stored its updates.
        busy = set[str]()
        for run in context.instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
            if run.asset_selection:
                busy |= {key.path[0] for key in run.asset_selection}
            elif run.job_name in dataset_of_job():
                busy.add(dataset_of_job()[run.job_name])
        entries = [record.asset_entry for record in context.instance.get_asset_records(keys)]
        last = {entry.asset_key: entry.last_materialization_record for entry in entries}
        updates = {key: record for key, record in last.items() if record is not None}
        requests = [
            request
            for dataset, reports in pages.items()
            if (request := _renewal_request(dataset, reports, updates, busy))
        ]
        return requests or dg.SkipReason("every report shows all releases, or waits for a run")

    return renewed_reports


def _renewal_request(
    dataset: str, pages: Iterable[ReportPage], updates: Updates, busy: Collection[str]
) -> dg.RunRequest | None:
    """Return the run that renews a data set's outdated reports, and its budget report with them;
    None if none is outdated.

    busy   data sets with unfinished runs, whose reports are renewed only once they are
           MAX_REPORT_AGE older than the newest update
    """
    due = {}
    for page in pages:
        newest, report = page.missing_update(updates), updates.get(page.key)
        is_overdue = newest and report and newest.timestamp - report.timestamp > MAX_REPORT_AGE
        if newest and (dataset not in busy or is_overdue):
            due[page] = newest
    if not due:
        return None
    # A run that fails is not requested again before there is another update.
    last = max(newest.storage_id for newest in due.values())
    return dg.RunRequest(
        run_key=f"{dataset} {last}",
        asset_selection=[*(page.key for page in due), dg.AssetKey([dataset, "budget"])],
    )
