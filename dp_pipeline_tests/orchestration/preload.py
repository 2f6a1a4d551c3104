"""Imported by the warm server only: begins a run and fails, which imports what is imported late.

Without threads: a child that is forked beside one could wait for a lock that nobody holds.
"""

import os
import sqlite3
import tempfile
import threading
from pathlib import Path

import pytest
import sqlalchemy
from matplotlib.figure import Figure
from sqlalchemy import event

from dp_pipeline.config.errors import PipelineError
from dp_pipeline.orchestration.runner import execute
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import WARM_SERVER


def begin_a_run() -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        project = Project(Path(folder))
        patch.setenv("DAGSTER_HOME", project.environment["DAGSTER_HOME"])
        request = project.request(project.declare("rides", RIDES))
        (project.datasets / "rides.csv").unlink()
        with pytest.raises(PipelineError):
            execute(request, lambda _: None)
    assert threading.active_count() == 1


def forget_the_disk(connection: object, _: object) -> None:
    """Dagster's files, not the ledger's, are left to the kernel to write: no power is cut here."""
    if not isinstance(connection, sqlite3.Connection):
        return
    for _, _, path in connection.execute("PRAGMA database_list").fetchall():
        if path.endswith(".db"):
            connection.execute("PRAGMA synchronous = OFF")


# Pytest looks for doctests in every file and imports this one too.
if WARM_SERVER in os.environ:
    event.listen(sqlalchemy.Engine, "connect", forget_the_disk)
    # As in the tests beside it: what is drawn is looked at in the tests of reporting.
    Figure.draw = lambda *_: None
    begin_a_run()
