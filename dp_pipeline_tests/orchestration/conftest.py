from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import start_server


@pytest.fixture(scope="session", autouse=True)
def warm_server() -> None:
    """Its imports run beside the first tests."""
    start_server()


@pytest.fixture(scope="module", autouse=True)
def quick_chains(forgotten_disk: None, blank_pictures: None) -> None:
    """Every test here runs a chain or a part of one."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Nothing declared, nothing run."""
    return Project(tmp_path)


@pytest.fixture(scope="session")
def prepared_rides(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """RIDES with rows read, validated and prepared; to be copied, not used."""
    project = Project(tmp_path_factory.mktemp("rides"))
    spec = project.declare("rides", RIDES)
    assert project.launch(spec, "ingested", "validated", "normalized").success
    return project


@pytest.fixture
def rides(prepared_rides: Project, tmp_path: Path) -> Project:
    """A project of its own with RIDES prepared and nothing released."""
    return copied(prepared_rides, tmp_path / "rides")


@pytest.fixture(scope="session")
def ran_rides(prepared_rides: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """RIDES with the whole chain run at ε = 0.5; to be copied, not used."""
    project = copied(prepared_rides, tmp_path_factory.mktemp("ran") / "rides")
    project.run(project.declare("rides", RIDES), epsilons=["0.5"])
    return project


@pytest.fixture
def released_rides(ran_rides: Project, tmp_path: Path) -> Project:
    """A project of its own with RIDES released at ε = 0.5; Dagster has forgotten how."""
    return copied(ran_rides, tmp_path / "rides")


def copied(project: Project, folder: Path) -> Project:
    shutil.copytree(project.folder, folder)
    return Project(folder)
