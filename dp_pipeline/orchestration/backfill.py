"""Handing a backfill over ε to the Dagster that runs already: one run a partition."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import dagster as dg

from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.dagster_home import code_location
from dp_pipeline.orchestration.jobs import sweep_job_name
from dp_pipeline.orchestration.lineage import require_snapshot
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.schema.errors import PipelineError
from dp_pipeline.schema.spec import DatasetSpec

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


def submit_backfill(spec: DatasetSpec, home: Home, epsilons: Sequence[str]) -> None:
    """Let Dagster queue one run of every model and its evaluation a partition.

    Raises NotPrepared where there are no prepared rows, and PipelineError where Dagster refuses.
    """
    require_prepared(spec, require_snapshot(spec, home))
    words = ["job", "backfill", *code_location(), "--job", sweep_job_name(spec)]
    command = [sys.executable, "-m", "dagster", *words, "--partitions", ",".join(epsilons)]
    done = subprocess.run([*command, "--noprompt"], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise PipelineError(f"backfill: expected Dagster to queue it, got: {lines[-1]}")
