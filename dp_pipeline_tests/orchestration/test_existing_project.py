"""Data sets beside what a Dagster project has of its own: nothing of either is changed."""

import os
import re
import shutil
import stat
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import dagster as dg
import pytest
import yaml
from dagster.components.core import package_entry
from dagster.components.testing.utils import create_defs_folder_sandbox

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.dagster import RESOURCE, DataSets, dataset_definitions, pipeline_resource
from dp_pipeline.orchestration.common import one_line_failures
from dp_pipeline.releases.home import HOME_VARIABLE
from dp_pipeline_tests.orchestration.events import failures, refusal
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, QUIET, RIDES, Project


class Unused(dg.IOManager):
    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        raise AssertionError(f"asked to store {context.asset_key.to_user_string()}: {obj!r}")

    load_input = handle_output  # type: ignore[assignment]


@dg.asset
def rain(pipeline: dg.ResourceParam[int]) -> dg.MaterializeResult:
    """The project's own, of its own pipeline."""
    return dg.MaterializeResult(metadata={"litres": pipeline})


def own(**more: Any) -> dg.Definitions:
    return dg.Definitions(assets=[rain], resources={"pipeline": 40, **more})


@pytest.fixture(autouse=True)
def environment(monkeypatch) -> None:
    for name in (HOME_VARIABLE, "DP_PIPELINE_NOISE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(project: Project) -> Path:
    project.declare("rides", RIDES)
    return project.datasets / "rides.yaml"


def merged(project: Project, file: Path, *beside: dg.Definitions) -> dg.Definitions:
    """RIDES and what a project has, which has to load."""
    home = project.home.root
    definitions = dg.Definitions.merge(*beside, dataset_definitions(file, home=home))
    dg.Definitions.validate_loadable(definitions)
    return definitions


def test_project_keeps_its_own_and_our_jobs_run_in_one_process(project: Project, file: Path):
    job = dg.define_asset_job("theirs", [rain])
    theirs = dg.Definitions(executor=dg.multiprocess_executor, jobs=[job])
    definitions = merged(project, file, own(), theirs)
    assert rain.key in definitions.resolve_asset_graph().get_all_asset_keys()
    assert set(definitions.resources or {}) == {"pipeline", RESOURCE}
    executors = {job.name: job.executor_def.name for job in definitions.resolve_all_job_defs()}
    ours = {name: executors.pop(name) for name in list(executors) if name.startswith("rides_")}
    assert (len(ours), set(ours.values())) == (3, {"in_process"})
    assert set(executors.values()) == {"multiprocess"}
    prepare = definitions.resolve_job_def("rides_prepare")
    selected = {key.path[-1] for key in prepare.asset_layer.selected_asset_keys}
    assert selected == {"ingested", "validated", "normalized"}, "none of the project's"
    assert {"rides_prepare", "rides_epsilon_backfill", "rides_report"} <= {*ours}
    (schedule,) = definitions.schedules or []
    assert schedule.name == "rides_weekly"
    checks = definitions.resolve_asset_graph().asset_check_keys
    assert dg.AssetCheckKey(dg.AssetKey(["rides", "budget"]), "within_the_ceiling") in checks


def test_two_data_sets_of_two_calls_share_one_resource(project: Project, file: Path):
    project.declare("plants", PLANTS)
    plants = dataset_definitions(project.datasets / "plants.yaml", home=str(project.home.root))
    definitions = merged(project, file, own(), plants)
    groups = {key.path[0] for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert groups == {"rain", "rides", "plants"}
    both = (file, str(project.datasets / "plants.yaml"))
    in_one_call = dataset_definitions(*both, home=project.home.root)
    assert in_one_call.resources == {RESOURCE: (plants.resources or {})[RESOURCE]}
    assert len(in_one_call.assets or []) == len(definitions.assets or []) - 1
    names = {sensor.name for sensor in definitions.sensors or []}
    assert {"rides_renewed_reports", "plants_renewed_reports"} <= names


def test_what_a_project_calls_as_ours_is_refused(project: Project, file: Path):
    asset = dg.Definitions(assets=[dg.AssetSpec(["rides", "ingested"])])
    job = dg.Definitions(jobs=[dg.define_asset_job("rides_prepare", [rain])])
    for theirs, words in ((asset, "rides"), (dg.Definitions.merge(own(), job), "rides_prepare")):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match=words):
            merged(project, file, theirs)
    elsewhere = dataset_definitions(file, home=project.folder / "elsewhere")
    for theirs in (own(**{RESOURCE: 40}), elsewhere):
        with pytest.raises(dg.DagsterInvariantViolationError, match=f"same key '{RESOURCE}'"):
            merged(project, file, theirs)


def test_a_project_hands_in_the_resource_itself(project: Project, file: Path):
    bare = dataset_definitions(file, resources=False)
    assert not bare.resources
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=RESOURCE):
        dg.Definitions.validate_loadable(bare)
    handed = {RESOURCE: pipeline_resource(home=project.home.root, noise="exact")}
    dg.Definitions.validate_loadable(dg.Definitions.merge(own(**handed), bare))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"home": "data"}, "The home of a project must be an absolute path, as"),
        ({"home": "/tmp", "noise": "none"}, "The source of noise must be opendp, exact or seeded"),
        ({"home": "/tmp", "resources": False}, "dataset_definitions takes no home"),
        ({"noise": "exact", "resources": False}, "dataset_definitions takes no noise"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, words, project, file, monkeypatch):
    with pytest.raises(DeclarationError, match=words) as refused:
        dataset_definitions(file, **options)
    assert "\n" not in str(refused.value)
    with pytest.raises(DeclarationError, match="needs at least one data set"):
        dataset_definitions(home="/tmp")
    monkeypatch.setenv(HOME_VARIABLE, str(project.home.root))
    assert pipeline_resource() is pipeline_resource(home=project.home.root)
    with pytest.raises(DeclarationError, match=f"which {HOME_VARIABLE} names"):
        dataset_definitions(file, home=project.folder / "elsewhere")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "ceiling": ({"ceiling": {"total": "0.2"}}, "expected a total of at least 0.7 for all models"),
    "model": ({"models": {"dpqt": {}}, "publish": None}, "not 'dpqt'"),
    "parameter": ({"models": {"dpqt_kmeans": {"k": "none"}}}, "got 'none'"),
    "source": ({"source": {"kind": "csv", "path": "$NOWHERE/a.csv"}}, "rides.yaml:"),
}


@pytest.mark.parametrize("wrong", [*WRONG, "not YAML", "no file", "no name", "no variable"])
def test_data_set_refused_takes_nothing_away(wrong: str, project: Project, file: Path, monkeypatch):
    monkeypatch.delenv("DP_PIPELINE_DATA", raising=False)
    project.declare("plants", PLANTS)
    changes, words = WRONG.get(wrong, ({}, ""))
    project.write_declaration("rides", RIDES, **changes)
    named: dict[str, tuple[str | Path, str]] = {
        "no file": (project.folder / "rides.yaml", ""),
        "no name": ("trip", "did you mean trips"),
        "no variable": ("adult", "DP_PIPELINE_DATA"),
    }
    if wrong == "not YAML":
        file.write_text("name: [", encoding="utf-8")
    name, words = named.get(wrong, (file, words))
    ours = dataset_definitions(name, project.datasets / "plants.yaml", home=project.home.root)
    definitions = dg.Definitions.merge(own(), ours)
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    assert {rain.key, dg.AssetKey(["plants", "budget"])} <= graph.get_all_asset_keys()
    (refused,) = [key for key in graph.get_all_asset_keys() if key.path[-1] == "refused"]
    asset = graph.get(refused)
    assert refused.path[0] == Path(name).stem
    assert (asset.is_executable, asset.group_name) == (False, f"{refused.path[0]}_refused")
    assert words in (asset.description or "")
    assert "\n" not in (asset.description or "")


def test_a_second_file_of_the_same_name_is_refused_alone(project: Project, file: Path):
    other = project.folder / "rides.yaml"
    other.write_bytes(file.read_bytes())
    ours = dataset_definitions(file, other, home=project.home.root)
    dg.Definitions.validate_loadable(ours)
    keys = ours.resolve_asset_graph().get_all_asset_keys()
    assert {dg.AssetKey(["rides", name]) for name in ("budget", "refused")} <= keys


def test_asset_files_are_private_and_the_projects_as_before(project: Project, tmp_path: Path):
    spec = project.declare("rides", RIDES)
    before = os.umask(0o022)
    try:
        with one_line_failures(spec):
            (tmp_path / "ours").touch()
        with pytest.raises(dg.Failure), one_line_failures(spec):
            raise DeclarationError("rides: refused")
        (tmp_path / "theirs").touch()
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "theirs")}
    assert modes == {"ours": 0o600, "theirs": 0o644}


PAGE = Path(__file__).parents[2] / "docs/existing_dagster_project.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("number", range(3))
def test_the_code_of_the_page_loads_as_it_stands_there(number: int, project: Project):
    assert len(BLOCKS) == 3
    names = {"__file__": str(project.datasets / "definitions.py"), "__name__": "definitions"}
    exec(compile(BLOCKS[number], str(PAGE), "exec"), names)
    definitions: Any = names["defs"]
    dg.Definitions.validate_loadable(definitions)
    assert definitions.resolve_job_def("rides_prepare").executor_def.name == "in_process"
    executor = definitions.resolve_implicit_global_asset_job_def().executor_def
    assert (executor.name == "multiprocess") == ("multiprocess_executor" in BLOCKS[number])
    handed = (definitions.resources or {})[RESOURCE]
    assert handed is pipeline_resource(home=project.datasets / "data")
    assert not (project.datasets / "data").exists()


def test_the_component_of_the_page_names_files_beside_its_own(file: Path):
    written, _ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=DataSets, defs_yaml_contents=yaml.safe_load(written)
        )
        shutil.copy(file, path)
        with sandbox.load_component_and_build_defs(path) as (_, definitions):
            dg.Definitions.validate_loadable(definitions)
            assert definitions.resolve_job_def("rides_prepare")
            expected = pipeline_resource(home=sandbox.project_root.resolve() / "data")
            assert (definitions.resources or {})[RESOURCE] is expected


@pytest.mark.parametrize("form", ["yaml", "python"])
def test_a_scaffolded_component_has_a_data_set_that_loads(form: Literal["yaml", "python"]):
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=DataSets, scaffold_format=form, defs_path="rides"
        )
        spec = load_spec(path / "rides.yaml")
        assert (spec.name, spec.population) == ("rides", "rides_riders")
        with sandbox.build_all_defs() as definitions:
            dg.Definitions.validate_loadable(definitions)
            assert set(definitions.resources or {}) == {RESOURCE}
            assert definitions.resolve_job_def("rides_prepare")


@pytest.mark.chain
def test_a_table_of_duckdb_becomes_a_release_by_yaml_alone(project: Project):
    duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

    @dg.asset(key=["analytics", "visits"])
    def visits() -> None:
        with duckdb.connect(str(project.datasets / "clinic.duckdb")) as connection:
            connection.execute("CREATE TABLE visits AS SELECT 40 AS rent FROM range(500)")

    source = {"kind": "sql", "database": "duckdb:///clinic.duckdb", "query": "SELECT * FROM visits"}
    changes = {"attributes": {"rent": HOMES["attributes"]["rent"]}, "models": {"independent": {}}}
    path = project.write_declaration("visits", HOMES, source=source, **changes)
    attributes = {"files": [str(path)], "home": str(project.home.root)}
    attributes |= {"deps": ["analytics/visits"], "translation": {"owners": ["team:privacy"]}}
    defs = {"type": "dp_pipeline.dagster.DataSets", "attributes": attributes}
    keys = ["ingested", "validated", "normalized", "discretized", "independent"]
    first = dg.define_asset_job("first", ["analytics/visits"])
    second = dg.define_asset_job("second", [dg.AssetKey(["visits", key]) for key in keys])
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=DataSets, defs_yaml_contents=defs)
        with sandbox.load_component_and_build_defs(path) as (_, ours):
            theirs = dg.Definitions(assets=[visits], jobs=[first, second])
            definitions = dg.Definitions.merge(theirs, ours)
            graph = definitions.resolve_asset_graph()
            ingested = graph.get(dg.AssetKey(["visits", "ingested"]))
            assert ingested.parent_keys == {visits.key}
            owned = graph.get_all_asset_keys() - {visits.key}
            assert all(graph.get(key).owners == ["team:privacy"] for key in owned)
            for job, partition in (("first", None), ("second", "1")):
                done = definitions.resolve_job_def(job).execute_in_process(
                    instance=project.instance, partition_key=partition, run_config=QUIET
                )
                assert done.success
    assert project.ledger.balance("town").spent == 1


def test_dg_lists_the_component():
    declared = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    modules = declared["project"]["entry-points"][package_entry.DG_PLUGIN_ENTRY_POINT_GROUP]
    listed = package_entry.discover_package_objects(list(modules.values()))
    assert [key.to_typename() for key in listed] == ["dp_pipeline.dagster.DataSets"]


def job_of(definitions: dg.Definitions, project: Project) -> dg.ExecuteInProcessResult:
    """The project's own job over prepared RIDES: a release and its budget, at ε = 0.5."""
    return definitions.resolve_job_def("theirs").execute_in_process(
        instance=project.instance, partition_key="0.5", run_config=QUIET, raise_on_error=False
    )


def theirs(*assets: str) -> dg.Definitions:
    """A job of the project over assets of RIDES, which tries each step three times."""
    keys = [dg.AssetKey(["rides", name]) for name in assets]
    job = dg.define_asset_job("theirs", keys, op_retry_policy=dg.RetryPolicy(max_retries=2))
    return dg.Definitions(jobs=[job])


@pytest.mark.chain
def test_the_projects_io_manager_is_never_asked(project: Project, file: Path):
    names = ("ingested", "validated", "normalized", "dpqt_kmeans", "evaluation", "budget")
    definitions = merged(project, file, own(io_manager=Unused()), theirs(*names))
    result = job_of(definitions, project)
    assert result.success, failures(result)
    assert project.ledger.balance("riders").spent == Fraction("0.55")


@pytest.mark.chain
def test_refusal_is_not_retried_by_a_job_that_retries(rides: Project, spec: DatasetSpec):
    rides.spend("2.9")
    definitions = merged(rides, rides.datasets / "rides.yaml", own(), theirs("dpqt_kmeans"))
    assert "refused by" in refusal(job_of(definitions, rides))
    assert rides.spent(spec) == Fraction("2.9")
