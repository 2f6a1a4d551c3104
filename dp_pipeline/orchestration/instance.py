"""Dagster's own home: run history and event log, apart from the ledger."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import dagster as dg

from dp_pipeline.orchestration.home import Home

_QUIET = "telemetry:\n  enabled: false\nnux:\n  enabled: false\n"


def dagster_instance(home: Home) -> dg.DagsterInstance:
    """The persistent instance of this project; ``DAGSTER_HOME`` where it is set, else made."""
    folder = Path(os.environ.setdefault("DAGSTER_HOME", str(home.root.parent / ".dagster_home")))
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "dagster.yaml"
    if not settings.exists():
        declared = home.root.parent / "dagster.yaml"
        if declared.is_file():
            shutil.copyfile(declared, settings)
        else:
            settings.write_text(_QUIET, encoding="utf-8")
    return dg.DagsterInstance.get()
