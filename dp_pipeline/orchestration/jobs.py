"""Jobs of one data set: what is started together, and what it costs at most.

Handing a backfill over ε to the Dagster that runs already: one run a partition.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec, Publication
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.models import build_model, price_of_everything
from dp_pipeline.models.base import declared_guarantee, price
from dp_pipeline.orchestration.instance import code_location
from dp_pipeline.raw.ingest import is_watchable
from dp_pipeline.raw.prepare import stages_of
from dp_pipeline.releases.domain_release import NAME
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.export import publications_of
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease


def jobs_of(spec: DatasetSpec) -> list[dg.job]:  # type: ignore[valid-type]
    """Every job of one data set, not bound to its assets yet."""
    if spec.windows is not None:
        return [_prepare(spec), _windows(spec), _report(spec)]
    jobs = [_prepare(spec), _sweep(spec), _report(spec)]
    if spec.publish is not None and (spec.refresh or is_watched(spec)):
        jobs.append(_new_snapshot(spec, spec.publish))
    return [*jobs, _anonymize(spec)] if spec.k_anonymity else jobs


def is_watched(spec: DatasetSpec) -> bool:
    """Whether a sensor may start runs: where the rows' changes are public and can be seen from
    outside. Windows are read when the calendar says so.
    """
    return spec.windows is None and spec.may_watch_source and is_watchable(spec.source)


def prepare_job_name(spec: DatasetSpec) -> str:
    """Of the job that reads and prepares the rows."""
    return f"{spec.name}_prepare"


def sweep_job_name(spec: DatasetSpec) -> str:
    """Of the job to backfill over ε, or over windows."""
    return f"{spec.name}_epsilon_backfill" if spec.windows is None else f"{spec.name}_windows"


def new_snapshot_job_name(spec: DatasetSpec) -> str:
    """Of the job that opens a snapshot and publishes from it."""
    return f"{spec.name}_new_snapshot"


def raw_stages(spec: DatasetSpec) -> tuple[str, ...]:
    """Assets of the raw chain, in order."""
    domain = (NAME,) if spec.to_discover else ()
    return ("ingested", "validated", *domain, *stages_of(spec.widest))


def published_assets(spec: DatasetSpec, publication: Publication) -> tuple[str, ...]:
    """What publishes one model: its rows, the model, its evaluation."""
    return (*raw_stages(spec), publication.model, "evaluation")


def publication_text(spec: DatasetSpec, publication: Publication) -> str:
    """Model, ε and price of what is published, in words."""
    guarantee = declared_guarantee(spec, build_model(spec, publication.model), publication.epsilon)
    cost = spec.currency.said(price(spec, guarantee))
    what = f"{publication.model} of {spec.name} at ε={epsilon_text(publication.epsilon)}"
    if publication.span == 1:
        return f"{what} for {cost}"
    return f"{what}, of {publication.span} {spec.cut.every}s that end with it, for {cost} of each"


IN_TURN = "dp_pipeline/in_turn"
"""The tag of runs of which Dagster starts one after the other, those of one data set: dagster.yaml
says so. Each window plans from the release of the one before.
"""


def _job(
    spec: DatasetSpec,
    name: str,
    assets: Iterable[str],
    *,
    description: str,
    tags: Mapping[str, str] | None = None,
) -> dg.job:  # type: ignore[valid-type]
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(*([spec.name, *one.split("/")] for one in assets)),
        description=description,
        tags=dict(tags or {}),
        # Each process of another executor imports for seconds before it works for one.
        executor_def=dg.in_process_executor,
    )


def _prepare(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """The raw chain."""
    costs = _discovery(spec) if spec.to_discover else "Spends nothing."
    description = f"Read, validate and prepare the rows of {spec.name}. {costs}"
    return _job(spec, prepare_job_name(spec), raw_stages(spec), description=description)


def _rows_first(spec: DatasetSpec) -> str:
    """What a job for an ε or a K does before it releases anything, and what that costs."""
    what = "Rows that are not prepared yet are read and prepared first"
    return f"{what}. {_discovery(spec)}" if spec.to_discover else f"{what}, which is free."


def _discovery(spec: DatasetSpec) -> str:
    return f"Once a snapshot it pays for discovering {', '.join(spec.to_discover)}."


def _sweep(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """Every model and its evaluation at one ε, from rows that are prepared where they are not."""
    total = spec.currency.said(price_of_everything(spec))
    description = (
        f"Release {spec.name} with every model at one ε; backfill it over all of them. "
        f"{_rows_first(spec)} All partitions together cost {total} {_limits(spec)}; what was "
        f"released before is replayed at no cost. `dp-pipeline plan {spec.name}` says what is "
        "still to be paid and what is left."
    )
    return _job(spec, sweep_job_name(spec), level_assets(spec), description=description)


def level_assets(spec: DatasetSpec) -> tuple[str, ...]:
    """Everything that is made at one ε, or of one window, in order."""
    return (*raw_stages(spec), *EpsilonRelease.names(spec), "evaluation")


def _windows(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """All that is made of one window, from its rows to what is published of it."""
    published = "; ".join(publication_text(spec, one) for one in spec.publications)
    description = (
        f"Read one window of {spec.name} and publish {published}; backfill it over as many as "
        f"there are. {_limits(spec)}; what was published before is replayed at no cost. "
        f"`dp-pipeline plan {spec.name} --window …` says what is still to be paid and what is left."
    )
    return _job(
        spec,
        sweep_job_name(spec),
        level_assets(spec),
        description=description,
        tags={IN_TURN: spec.name},
    )


def report_job_name(spec: DatasetSpec) -> str:
    """Of the job that renews what is told of a data set."""
    return f"{spec.name}_report"


def _report(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """Comparisons, what is published, and the budget report."""
    shelf = ("published",) if publications_of(spec) else ()
    put = ", put what is published onto its shelf" if shelf else ""
    description = (
        f"Compare what was released of {spec.name}{put}, and report its budget. Spends nothing."
    )
    kinds = (kind for kind in (EpsilonRelease, KAnonymousRelease) if kind.names(spec))
    pages = ("/".join((*kind.FOLDER, "comparison")) for kind in kinds)
    return _job(spec, report_job_name(spec), (*pages, *shelf, "budget"), description=description)


def _new_snapshot(spec: DatasetSpec, publication: Publication) -> dg.job:  # type: ignore[valid-type]
    """The raw chain on a new snapshot, one model on it at one ε, and its evaluation."""
    description = (
        f"Open the snapshot that the configuration of `ingested` names, and publish "
        f"{publication_text(spec, publication)}. A new snapshot is a new charge, whether or not "
        "any row changed."
    )
    names = published_assets(spec, publication)
    return _job(spec, new_snapshot_job_name(spec), names, description=description)


def _anonymize(spec: DatasetSpec) -> dg.job:  # type: ignore[valid-type]
    """Every k-anonymous method and their evaluation at one K: the job to backfill over K."""
    description = (
        f"Release {spec.name} with every k-anonymous method at one K; backfill it over all of "
        f"them. {_rows_first(spec)} Spends no ε and is not differentially private: the ledger "
        "counts every release, and two of them tell more than each."
    )
    names = (*KAnonymousRelease.names(spec), "evaluation")
    paths = ("/".join((*KAnonymousRelease.FOLDER, name)) for name in names)
    assets = (*raw_stages(spec), *paths)
    return _job(spec, f"{spec.name}_k_backfill", assets, description=description)


def _limits(spec: DatasetSpec) -> str:
    if spec.windows is not None:
        each, total = spec.each_window, spec.ceiling
        limits = [] if each is None else [f"{epsilon_text(each)} for each window"]
        limits += [] if total is None else [f"{epsilon_text(total)} for all of them"]
        return f"The limit is {' and '.join(limits)}" if limits else "There is no limit"
    if spec.ceiling is None:
        return "without a ceiling"
    month = "" if spec.per_month is None else f", at most {epsilon_text(spec.per_month)} a month"
    return f"of {epsilon_text(spec.ceiling)}{month}"


DAEMON = "QUEUED_RUN_COORDINATOR"
"""The daemon that starts waiting runs, in Dagster's words."""

SILENT_SECONDS = 90
"""It says that it is there every 30 seconds."""


def require_daemon(instance: dg.DagsterInstance, *, now: float) -> None:
    """PipelineError unless a daemon has been heard of lately: without one the runs would wait,
    and be charged whenever somebody starts Dagster.

    now   seconds since 1970
    """
    heard = instance.get_daemon_heartbeats().get(DAEMON)
    if heard is None or now - heard.timestamp > SILENT_SECONDS:
        raise PipelineError(
            "backfill: expected a running Dagster daemon, got none: start `dp-pipeline ui`, or "
            "use `dp-pipeline run`, which needs none"
        )


def submit_backfill(spec: DatasetSpec, partitions: Sequence[str]) -> None:
    """Let Dagster queue one run of every model and its evaluation a partition, each of which
    prepares the rows that are not prepared. PipelineError where Dagster refuses.

    partitions   ε, or windows as Dagster calls them
    """
    words = ["job", "backfill", *code_location(), "--job", sweep_job_name(spec)]
    command = [sys.executable, "-m", "dagster", *words, "--partitions", ",".join(partitions)]
    done = subprocess.run([*command, "--noprompt"], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise PipelineError(f"backfill: expected Dagster to queue it, got: {lines[-1]}")
