"""What Dagster is told: chains, descriptions, partitions, jobs, schedules. No row is read."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from dp_pipeline.config.catalogue import available_datasets, dataset_files
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.models import MODELS
from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.orchestration import patients, projects
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, RIDES, Project, definitions_of
from dp_pipeline_tests.orchestration.streams import ticked


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DatasetSpec, ...]]:
    """Every built-in data set, and three of ours."""
    project = Project(tmp_path_factory.mktemp("all"))
    for name, declaration in {"plants": PLANTS, "rides": RIDES, "homes": HOMES}.items():
        project.declare(name, declaration)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DP_PIPELINE_DATA", str(project.folder))
        patch.setenv("DP_PIPELINE_DATASETS", str(project.datasets))
        patch.setenv("DP_PIPELINE_SHOWN", " ".join(dataset_files()))
        yield available_datasets()


@pytest.fixture(scope="module")
def definitions(specs: tuple[DatasetSpec, ...], tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("home")
    yield pipeline_definitions(specs, Pipeline(Home(root / "data")))
    assert not list(root.iterdir()), "declaring made something"


def defined(spec: DatasetSpec) -> dg.Definitions:
    return definitions_of(spec, Home(Path("nowhere")))


def of(specs: tuple[DatasetSpec, ...], name: str) -> DatasetSpec:
    return next(spec for spec in specs if spec.name == name)


def key_of(spec: DatasetSpec, name: str) -> dg.AssetKey:
    return dg.AssetKey([spec.name, *name.split("/")])


def names_of(spec: DatasetSpec) -> set[str]:
    assets = defined(spec).resolve_asset_graph().get_all_asset_keys()
    assert {key.path[0] for key in assets} == {spec.name}
    return {"/".join(key.path[1:]) for key in assets}


def test_every_data_set_is_there_and_has_stages_it_needs(specs):
    assert {spec.name for spec in specs} == {*dataset_files(), "plants", "rides", "homes"}
    raw = {"ingested", "validated", "normalized"}
    internal = {"evaluation", "comparison", "budget"}
    assert names_of(of(specs, "rides")) == raw | internal | {"published", "dpqt_kmeans"}
    assert names_of(of(specs, "homes")) == raw | internal | {"discretized"} | set(HOMES["models"])


PREPARED = {"ingested": "", "validated": "ingested", "normalized": "validated"}
METHODS = "k_anonymous/kjig k_anonymous/mutual_information"
CHAINS = {
    "plants": PREPARED
    | {"discretized": "normalized", "one_hot": "discretized", "comparison": "evaluation"}
    | dict.fromkeys(PLANTS["models"], "one_hot")
    | dict.fromkeys(("evaluation", "budget"), "eug_kmeans independent")
    | {"published": "independent"},
    "patients": PREPARED
    | {"discretized": "normalized", "comparison": "evaluation", "evaluation": "independent"}
    | dict.fromkeys(("independent", *METHODS.split()), "discretized")
    | {"k_anonymous/evaluation": METHODS, "k_anonymous/comparison": "k_anonymous/evaluation"}
    | {"budget": f"independent {METHODS}"},
}
"""Data set → asset → those that it is made of."""


@pytest.mark.parametrize("name", CHAINS)
def test_chain_goes_from_rows_to_releases_to_reports(name: str, specs, project: Project):
    spec = patients.declare(project) if name == "patients" else of(specs, name)
    graph = defined(spec).resolve_asset_graph()
    assert {name: set(parents.split()) for name, parents in CHAINS[name].items()} == {
        name: {"/".join(key.path[1:]) for key in graph.get(key_of(spec, name)).parent_keys}
        for name in names_of(spec)
    }


def test_the_lineage_of_units_shows_both_sources(tmp_path: Path) -> None:
    spec = Project(tmp_path).declare("families", projects.FAMILIES)
    graph = defined(spec).resolve_asset_graph()
    ingested = graph.get(dg.AssetKey(["families", "ingested"]))
    assert {key.path[-1] for key in ingested.parent_keys} == {"units", "persons"}
    assert all(graph.get(key).description for key in ingested.parent_keys)


def test_everything_says_what_it_is_and_has_a_group(definitions: dg.Definitions):
    described: dict[str, str | None] = {}
    for asset in definitions.assets or []:
        described |= {str(spec.key): spec.description for spec in asset.specs}
        described |= {str(check.key): check.description for check in asset.check_specs}
    described |= {job.name: job.description for job in definitions.jobs or []}
    schedules = list(definitions.schedules or [])
    described |= {schedule.name: schedule.description for schedule in schedules}
    assert {schedule.default_status for schedule in schedules} == {dg.DefaultScheduleStatus.STOPPED}
    assert (len(schedules), len(described) > 200) == (24, True)
    assert [name for name, text in described.items() if not (text or "").strip()] == []
    specs = list(definitions.resolve_all_asset_specs())
    groups = {spec.group_name for spec in specs}
    assert "default" not in groups
    anonymous = {spec.key.path[0] for spec in specs if spec.key.path[1] == "k_anonymous"}
    assert {"wdbc", "adult_2000", "breast_cancer_wisconsin"} <= anonymous
    assert len(groups) == 3 * len({spec.key.path[0] for spec in specs}) + len(anonymous)


def test_nothing_is_retried_and_only_free_reports_start_alone(definitions: dg.Definitions):
    for asset in definitions.assets or []:
        assert asset.node_def.retry_policy is None, asset.key
        assert asset.backfill_policy is None, asset.key
    assert definitions.executor is dg.in_process_executor
    for job in definitions.resolve_all_job_defs():
        assert job.op_retry_policy is None, job.name
        assert not [tag for tag in job.tags if "retries" in tag], job.name
        assert job.executor_def is dg.in_process_executor, job.name
    automatic = {
        "/".join(spec.key.path[1:])
        for spec in definitions.resolve_all_asset_specs()
        if spec.automation_condition is not None
    }
    assert automatic == {"comparison", "budget", "published", "k_anonymous/comparison"}


def test_partitions_are_listed_levels_ascending(definitions, specs):
    graph = definitions.resolve_asset_graph()
    # Windows: dp_pipeline_tests/orchestration/test_windows.py.
    for spec in (spec for spec in specs if spec.windows is None):
        for name in names_of(spec):
            partitions = graph.get(key_of(spec, name)).partitions_def
            keys = None if partitions is None else tuple(partitions.get_partition_keys())
            expected = spec.partition_keys if name in MODELS or name == "evaluation" else None
            if name.startswith("k_anonymous/") and name != "k_anonymous/comparison":
                expected = spec.k_anonymity.partition_keys
            assert keys == expected, name


@pytest.mark.parametrize(
    ("name", "released"),
    [
        ("homes_epsilon_backfill", {*HOMES["models"], "evaluation"}),
        ("wdbc_k_backfill", {f"k_anonymous/{one}" for one in ("kjig", "rfka", "evaluation")}),
    ],
)
def test_backfill_job_selects_rows_and_all_that_is_made_of_them(name, released, definitions):
    job = definitions.resolve_job_def(name)
    selected = {"/".join(key.path[1:]) for key in job.asset_layer.executable_asset_keys}
    assert selected >= {"ingested", "validated", "normalized", "discretized"} | released
    assert not selected & {"comparison", "published", "budget"}


def test_a_tick_requests_one_run_named_by_week_and_epsilon(project: Project):
    spec = project.declare("rides", RIDES)
    # The Monday of the first ISO week of 2027 … and the Friday before it, in week 53 of 2026.
    for day, week in (("2027-01-04", "2027-W01"), ("2027-01-01", "2026-W53")):
        (request,) = ticked(project, spec, f"{day}T06:00", "rides_weekly").run_requests
        assert request.run_key == f"{week}-0.5"
        assert request.partition_key == "0.5"
        names = ("ingested", "validated", "normalized", "dpqt_kmeans", "evaluation")
        assert request.asset_selection == [dg.AssetKey(["rides", name]) for name in names]


def test_dagster_reads_definitions_that_environment_names(project: Project, monkeypatch):
    project.declare("rides", RIDES)
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("DP_PIPELINE_DATA", "DP_PIPELINE_SHOWN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "dp_pipeline.definitions", raising=False)
    defs = importlib.import_module("dp_pipeline.definitions").defs
    monkeypatch.delitem(sys.modules, "dp_pipeline.definitions")
    groups = {key.path[0] for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert groups == {"rides"}
    dg.Definitions.validate_loadable(defs)


def test_definitions_without_a_home_are_refused(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("DP_PIPELINE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeclarationError, match=r"is not in a project.*workspace\.yaml"):
        Pipeline.from_environment()


def test_a_data_set_file_that_is_refused_takes_no_other_away(project: Project, monkeypatch):
    project.declare("plants", PLANTS)
    project.write_declaration("rides", RIDES, ceiling={"total": "0.2"})
    project.write_declaration("homes", HOMES, models={"independent": {"depth": "9"}})
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(project.datasets))
    monkeypatch.setenv("DP_PIPELINE_SHOWN", "rides plants homes")
    refused: dict[str, str] = {}
    definitions = pipeline_definitions(available_datasets(refused), Pipeline(project.home), refused)
    dg.Definitions.validate_loadable(definitions)
    shown = {spec.key.path[0]: spec for spec in definitions.resolve_all_asset_specs()}
    assert set(shown) == {"plants", "rides", "homes"}
    assert "expected a total of at least 0.7" in (shown["rides"].description or "")
    assert "homes: independent: " in (shown["homes"].description or "")
    with pytest.raises(DeclarationError, match=r"rides\.yaml"):
        available_datasets()
