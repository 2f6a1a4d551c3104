"""The jobs of one data set, with their highest cost; and backfills, one run for each partition."""

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.sections import Publication
from dp_pipeline.models import build_model, price_of_everything
from dp_pipeline.models.base import declared_guarantee, price
from dp_pipeline.orchestration.common import RELEASE_KINDS
from dp_pipeline.orchestration.instance import code_location
from dp_pipeline.raw.snapshot import stages_of
from dp_pipeline.raw.source_stamps import is_watchable
from dp_pipeline.releases.domain_release import NAME
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.export import publications_of
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease

SEQUENTIAL_TAG = "dp_pipeline/sequential"
"""The tag of runs that Dagster starts one after the other, for each data set, by dagster.yaml: each
window plans from the release of the preceding one.
"""


def jobs_of(spec: DatasetSpec) -> list[dg.job]:  # type: ignore[valid-type]
    """Return every job of one data set, not yet bound to assets."""
    cost = _discovery_text(spec) if spec.to_discover else "Spends nothing."
    description = f"Read, validate and prepare the rows of {spec.name}. {cost}"
    prepare = _job(spec, prepare_job_name(spec), raw_stages(spec), description)
    report = _report_job(spec)
    if spec.windows is not None:
        return [prepare, _windows_job(spec), report]
    jobs = [prepare, _epsilon_job(spec), report]
    if spec.publish is not None and (spec.refresh or is_watched(spec)):
        jobs.append(_new_snapshot_job(spec, spec.publish))
    return [*jobs, _k_anonymity_job(spec)] if spec.k_anonymity else jobs


def is_watched(spec: DatasetSpec) -> bool:
    """Return whether a sensor may watch the source: no windows, and public, noticeable changes."""
    return spec.windows is None and spec.may_watch_source and is_watchable(spec.source)


def prepare_job_name(spec: DatasetSpec) -> str:
    return f"{spec.name}_prepare"


def backfill_job_name(spec: DatasetSpec) -> str:
    return f"{spec.name}_epsilon_backfill" if spec.windows is None else f"{spec.name}_windows"


def new_snapshot_job_name(spec: DatasetSpec) -> str:
    return f"{spec.name}_new_snapshot"


def report_job_name(spec: DatasetSpec) -> str:
    return f"{spec.name}_report"


def raw_stages(spec: DatasetSpec) -> tuple[str, ...]:
    domain = (NAME,) if spec.to_discover else ()
    return ("ingested", "validated", *domain, *stages_of(spec.widest))


def publication_assets(spec: DatasetSpec, publication: Publication) -> tuple[str, ...]:
    return (*raw_stages(spec), publication.model, "evaluation")


def epsilon_run_assets(spec: DatasetSpec) -> tuple[str, ...]:
    """Return the names of all assets of one ε, or of one window, in order."""
    return (*raw_stages(spec), *EpsilonRelease.names(spec), "evaluation")


def publication_text(spec: DatasetSpec, publication: Publication) -> str:
    """Return the model, data set, ε, price and span of a publication as text."""
    guarantee = declared_guarantee(spec, build_model(spec, publication.model), publication.epsilon)
    cost = spec.currency.labelled_text(price(spec, guarantee))
    text = f"{publication.model} of {spec.name} at ε={epsilon_text(publication.epsilon)}"
    if publication.span == 1:
        return f"{text} for {cost}"
    windows = f"{publication.span} {spec.time_windows.every}s"
    return f"{text}, of {windows} that end with it, for {cost} of each"


def _job(
    spec: DatasetSpec,
    name: str,
    assets: Iterable[str],
    description: str,
    tags: Mapping[str, str] | None = None,
) -> dg.job:  # type: ignore[valid-type]
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(*([spec.name, *asset.split("/")] for asset in assets)),
        description=description,
        tags=dict(tags or {}),
        # Other executors start a process for each step, which imports for seconds.
        executor_def=dg.in_process_executor,
    )


def _preparation_text(spec: DatasetSpec) -> str:
    text = "Rows that are not prepared yet are read and prepared first"
    return f"{text}. {_discovery_text(spec)}" if spec.to_discover else f"{text}, which is free."


def _discovery_text(spec: DatasetSpec) -> str:
    return f"Once a snapshot it pays for discovering {', '.join(spec.to_discover)}."


def _epsilon_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    total = spec.currency.labelled_text(price_of_everything(spec))
    description = (
        f"Release {spec.name} with every model at one ε; backfill it over all ε. "
        f"{_preparation_text(spec)} All partitions together cost {total} {_limits_text(spec)}; "
        f"earlier releases are replayed at no cost. `dp-pipeline plan {spec.name}` shows what is "
        "still to be paid and what is left."
    )
    return _job(spec, backfill_job_name(spec), epsilon_run_assets(spec), description)


def _windows_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    published = "; ".join(publication_text(spec, entry) for entry in spec.publications)
    description = (
        f"Read one window of {spec.name} and publish {published}; backfill it over many windows. "
        f"{_limits_text(spec)}; earlier releases are replayed at no cost. "
        f"`dp-pipeline plan {spec.name} --window …` shows what is still to be paid and what is "
        "left."
    )
    tags = {SEQUENTIAL_TAG: spec.name}
    return _job(spec, backfill_job_name(spec), epsilon_run_assets(spec), description, tags)


def _report_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    published = ("published",) if publications_of(spec) else ()
    renew = ", renew the published copies" if published else ""
    description = (
        f"Compare the releases of {spec.name}{renew}, and report its budget. Spends nothing."
    )
    kinds = (kind for kind in RELEASE_KINDS if kind.names(spec))
    comparisons = ("/".join((*kind.FOLDER, "comparison")) for kind in kinds)
    return _job(spec, report_job_name(spec), (*comparisons, *published, "budget"), description)


def _new_snapshot_job(spec: DatasetSpec, publication: Publication) -> dg.job:  # type: ignore[valid-type]
    description = (
        f"Open the snapshot that the configuration of `ingested` names, and publish "
        f"{publication_text(spec, publication)}. A new snapshot is a new charge, whether or not "
        "any row changed."
    )
    assets = publication_assets(spec, publication)
    return _job(spec, new_snapshot_job_name(spec), assets, description)


def _k_anonymity_job(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    description = (
        f"Release {spec.name} with every k-anonymous method at one K; backfill it over all K. "
        f"{_preparation_text(spec)} Spends no ε and is not differentially private: the ledger "
        "counts every release, and two of them disclose more than each."
    )
    names = (*KAnonymousRelease.names(spec), "evaluation")
    paths = ("/".join((*KAnonymousRelease.FOLDER, name)) for name in names)
    return _job(spec, f"{spec.name}_k_backfill", (*raw_stages(spec), *paths), description)


def _limits_text(spec: DatasetSpec) -> str:
    if spec.windows is not None:
        each, total = spec.each_window, spec.ceiling
        limits = [] if each is None else [f"{epsilon_text(each)} for each window"]
        limits += [] if total is None else [f"{epsilon_text(total)} for all of them"]
        return f"The limit is {' and '.join(limits)}" if limits else "There is no limit"
    if spec.ceiling is None:
        return "without a ceiling"
    month = "" if spec.per_month is None else f", at most {epsilon_text(spec.per_month)} a month"
    return f"of {epsilon_text(spec.ceiling)}{month}"


QUEUE_DAEMON = "QUEUED_RUN_COORDINATOR"
"""Dagster's name of the daemon that starts waiting runs."""

MAX_SILENCE = 90  # seconds; the daemon reports itself every 30


def require_daemon(instance: dg.DagsterInstance, *, now: float) -> None:
    """Raise PipelineError unless Dagster's daemon was active in the last MAX_SILENCE seconds.

    Without it the runs would wait, and be charged when Dagster is started one day.

    now   seconds since 1970
    """
    heartbeat = instance.get_daemon_heartbeats().get(QUEUE_DAEMON)
    if heartbeat is None or now - heartbeat.timestamp > MAX_SILENCE:
        raise PipelineError(
            "The backfill needs a running Dagster daemon: start `dp-pipeline ui`, or use "
            "`dp-pipeline run`, which needs none"
        )


def submit_backfill(spec: DatasetSpec, partitions: Sequence[str]) -> None:
    """Queue one run for each partition in Dagster, with every model and its evaluation.

    partitions   ε, or partition keys of windows

    Rows that are not prepared are prepared first. Raises PipelineError where Dagster refuses.
    """
    words = ["job", "backfill", *code_location(), "--job", backfill_job_name(spec)]
    command = [sys.executable, "-m", "dagster", *words, "--partitions", ",".join(partitions)]
    done = subprocess.run([*command, "--noprompt"], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise PipelineError(
            f"{spec.name}: Dagster refused to queue the backfill and says: {lines[-1]} "
            "(`dp-pipeline run` needs no queue)"
        )
