"""Dagster's own home: run history and event log, apart from the ledger."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import dagster as dg

from dp_pipeline.ledger.home import Home
from dp_pipeline.schema.errors import PipelineError

_QUIET = "telemetry:\n  enabled: false\nnux:\n  enabled: false\n"


def dagster_instance(home: Home) -> dg.DagsterInstance:
    """The persistent instance of this project; ``DAGSTER_HOME`` where it is set, else made.

    Raises PipelineError where no such folder can be.
    """
    named = os.environ.get("DAGSTER_HOME")
    # Dagster itself wants an absolute path.
    folder = Path(named or home.root.parent / ".dagster_home").resolve()
    os.environ["DAGSTER_HOME"] = str(folder)
    try:
        _make(folder, declared=home.root.parent / "dagster.yaml")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise PipelineError(
            f"DAGSTER_HOME: expected a folder that can be written, got {folder}: {reason}"
        ) from None
    return dg.DagsterInstance.get()


def _make(folder: Path, *, declared: Path) -> None:
    """The folder with its settings: the project's own where it declares some."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "dagster.yaml"
    if settings.exists():
        return
    if declared.is_file():
        shutil.copyfile(declared, settings)
    else:
        settings.write_text(_QUIET, encoding="utf-8")
