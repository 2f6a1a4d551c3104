"""A full disk, a damaged history, odd files: one line in commands and in Dagster, charged once."""

import errno
import itertools
import os
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.config.system_errors import system_error
from dp_pipeline.orchestration.instance import dagster_instance
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.config.test_system_errors import MAKE, ODD
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.projects import RIDES, Project

RELEASED = Fraction("0.55")
"""What RIDES at ε = 0.5 and its evaluation cost."""


class FullDisk:
    """Refuses one write that is to be kept, the n-th."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, descriptor: int) -> None:  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_is_one_line_and_charged_once(rides: Project, spec: DatasetSpec, monkeypatch):
    for number in itertools.count(1):
        disk = FullDisk(number)
        monkeypatch.setattr(os, "fsync", disk)
        try:
            published = rides.publish(spec)
        except (OSError, PipelineError) as error:
            line = str(error if isinstance(error, PipelineError) else system_error(error))
            assert "No space left on device; free some space" in line
            assert "\n" not in line
            assert rides.spent(spec) in (0, RELEASED)
        else:
            break
    assert number > 5
    assert disk.left > 0
    assert published.state in ("charged", "resumed", "replayed")
    assert rides.spent(spec) == RELEASED
    rides.ledger.verify()


def test_dagster_reports_the_systems_reason_on_release_data(rides: Project, monkeypatch):
    spec = rides.declare("rides", RIDES)
    monkeypatch.setattr(os, "fsync", FullDisk(1))
    line = refusal(rides.launch(spec, "dpqt_kmeans", partition="0.5"))
    assert "No space left on device; free some space" in line


@pytest.mark.parametrize("damaged", ["history/runs.db", "schedules/schedules.db"])
def test_a_damaged_history_is_one_line_that_says_what_is_lost(damaged, tmp_path: Path, monkeypatch):
    for name in ("DAGSTER_HOME", "DP_PIPELINE_DAGSTER"):
        monkeypatch.setenv(name, "")
    home = Home(tmp_path / "data")
    dagster_instance(home).dispose()
    path = tmp_path / ".dagster_home" / damaged
    path.write_bytes(bytes(range(256)) * 64)
    with pytest.raises(Exception, match="file is not a database") as raised:
        dagster_instance(home)
    line = str(system_error(raised.value))
    assert line.startswith("Dagster's run history: it is damaged")
    assert "the ledger, which is kept elsewhere, loses nothing" in line


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder"])
def test_a_source_that_is_no_file_is_refused_and_not_waited_for(kind, project: Project):
    spec = project.declare("rides", RIDES)
    source = project.datasets / "rides.csv"
    source.unlink()
    MAKE[kind](source)
    line = refusal(project.launch(spec, "ingested"))
    assert line.endswith(f"expected a file that can be read, got {ODD[kind]}: put a file there")
