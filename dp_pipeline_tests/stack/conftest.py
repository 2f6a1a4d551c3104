from collections.abc import Iterator

import pytest

from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.stack.city import declare_city, prepare
from dp_pipeline_tests.stack.dagster_stack import DagsterStack, running_stack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterStack]:
    """All of Dagster over RIDES and CITY, prepared and not released; each test leaves it idle."""
    project = Project(tmp_path_factory.mktemp("stack"))
    prepare(project, project.declare("rides", RIDES), "first")
    prepare(project, declare_city(project), "first")
    with running_stack(project) as running:
        yield running
