"""A settled release of a table comes back under any other post-processing, and costs nothing."""

import shutil
from dataclasses import fields

import pytest

from dp_pipeline.models import MODELS
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline_tests.models.test_planning import CHANGED
from dp_pipeline_tests.orchestration.projects import HOMES, Project

TABLES = [name for name, model_type in MODELS.items() if issubclass(model_type, TableModel)]
CONCENTRATED = [name for name in TABLES if MODELS[name].accounts_in_rho]
BILLIONTH = "0.000000001"
CASES = [(name, None) for name in TABLES] + [(name, BILLIONTH) for name in CONCENTRATED]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, Project]:
    """HOMES with rows read, validated and prepared, by δ; to be copied, not used."""
    projects = {}
    for delta in (None, BILLIONTH):
        projects[delta] = Project(tmp_path_factory.mktemp("homes"))
        spec = projects[delta].declare("homes", HOMES, delta=delta, models={"independent": {}})
        stages = ("ingested", "validated", "normalized", "discretized")
        assert projects[delta].launch(spec, *stages).success
    return projects


@pytest.mark.parametrize(
    ("name", "delta"),
    CASES,
    ids=[f"{name}, {'rho' if delta else 'epsilon'}" for name, delta in CASES],
)
def test_any_other_post_processing_of_settled_table_is_replay(prepared, tmp_path, name, delta):
    project = Project(shutil.copytree(prepared[delta].folder, tmp_path / "homes"))
    declared = {"delta": delta, "publish": None}
    spec = project.declare("homes", HOMES, **declared, models={name: {}})
    first = project.publish(spec, model=name, epsilon="1")
    spent = project.spent(spec)
    assert first.state == "charged"
    for field in fields(MODELS[name]):
        if field.metadata["measuring"]:
            continue
        changed = {name: {field.name: str(CHANGED[field.name])}}
        other = project.declare("homes", HOMES, **declared, models=changed)
        again = project.publish(other, model=name, epsilon="1")
        assert (again.state, again.nano, again.bundle.key) == ("replayed", 0, first.bundle.key)
        assert again.bundle.transcript == first.bundle.transcript
        assert again.folder != first.folder
    assert project.spent(spec) == spent > 0
