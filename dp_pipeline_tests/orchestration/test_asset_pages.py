"""What Dagster shows of data sets: pages of assets, in which time, and when code has changed."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parser import load_spec
from dp_pipeline.orchestration import code_versions
from dp_pipeline.orchestration.columns import LINEAGE, MAX_NAMED_LEVELS, SCHEMA
from dp_pipeline.orchestration.common import Pipeline, source_icon
from dp_pipeline.orchestration.dataset import chain_definitions, pipeline_definitions
from dp_pipeline.releases import release as releasing
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, RIDES, Project, definitions_of

MODELS: Mapping[str, Mapping[str, str]] = {
    "independent": {},
    "eug_kmeans": {"k": "3"},
    "dp_kjig": {"label": "tenure", "bits": "2"},
}


def pages(spec: DatasetSpec) -> dict[str, dg.AssetSpec]:
    """Asset without its prefix → what Dagster is told of it."""
    assets = definitions_of(spec, Home(Path("nowhere"))).resolve_all_asset_specs()
    return {"/".join(asset.key.path[1:]): asset for asset in assets}


def columns(page: dg.AssetSpec) -> dict[str, dg.TableColumn]:
    schema = page.metadata[SCHEMA]
    schema = getattr(schema, "schema", schema)
    return {column.name: column for column in schema.columns}


def sources(page: dg.AssetSpec) -> dict[str, set[str]]:
    lineage = page.metadata[LINEAGE]
    lineage = getattr(lineage, "value", lineage)
    return {
        name: {
            f"{dependency.asset_key.path[-1]}.{dependency.column_name}" for dependency in made_from
        }
        for name, made_from in lineage.deps_by_column.items()
    }


def rules(page: dg.AssetSpec, column: str) -> list[str]:
    return list(columns(page)[column].constraints.other)


@pytest.fixture
def homes(project: Project) -> DatasetSpec:
    return project.declare("homes", HOMES, models=MODELS)


def test_every_asset_has_a_side_icons_and_a_code_version(project: Project, homes: DatasetSpec):
    plants = project.declare("plants", PLANTS)
    for spec in (homes, plants):
        for name, page in pages(spec).items():
            assert page.tags["side"] in {"raw", "release", "monitoring"}, name
            assert page.tags["population"] == spec.population
            assert page.kinds, name
            assert page.code_version, name
    sides = {name: (page.tags["side"], page.group_name) for name, page in pages(homes).items()}
    assert sides["ingested"] == ("raw", "homes_1_raw")
    assert sides["independent"] == ("release", "homes_2_release")
    assert sides["budget"] == ("monitoring", "homes_3_monitoring")
    assert source_icon(homes) == "csv"
    for kind, icon in {"sklearn": "scikitlearn", "generator": "python"}.items():
        assert source_icon(replace(homes, source=replace(homes.source, kind=kind))) == icon


@pytest.mark.parametrize("owners", [[], ["ana@example.org", "team:privacy"]])
def test_owners_of_a_data_set_are_those_of_all_its_assets(owners: list[str], project: Project):
    spec = project.declare("homes", HOMES, owners=owners or None)
    assert {tuple(page.owners) for page in pages(spec).values()} == {tuple(owners)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        definitions_of(spec, project.home).resolve_all_job_defs()


def test_columns_are_shown_as_declared_and_persons_only_read(project: Project, homes: DatasetSpec):
    stages = ("ingested", "normalized", "discretized")
    ingested, normalized, discretized = (columns(pages(homes)[stage]) for stage in stages)
    number, places = ("rooms", "rent"), ("rooms.clipped", "rent.clipped")
    types = dict.fromkeys(number, "number") | {"tenure": "text"}
    assert {name: column.type for name, column in ingested.items()} == types
    assert ingested["rent"].description == "read as rent (declared: 0 to 1000)"
    assert "(declared: owner | renter | other)" in (ingested["tenure"].description or "")
    types |= dict.fromkeys(number, "int32") | dict.fromkeys(places, "float64")
    assert {name: column.type for name, column in normalized.items()} == types
    assert {column.type for column in discretized.values()} == {"uint8"}
    assets_by_name = pages(project.declare("rides", RIDES))
    assert "at most 2 are used" in (columns(assets_by_name["ingested"])["rider"].description or "")
    assert "rider" not in columns(assets_by_name["normalized"])
    assert ".rider" not in str(sources(assets_by_name["normalized"]))


def test_a_constraint_is_that_of_what_the_stage_stores(project: Project):
    rooms = {"bounds": ["1", "9"], "bins": "8", "nullable": "true"}
    ages = {"levels": ["young", "old"], "nullable": "true"}
    attributes = {**HOMES["attributes"], "rooms": rooms, "age": ages}
    spec = project.declare("homes", HOMES, attributes=attributes)
    assets_by_name = pages(replace(spec, one_hot=True))
    assert rules(assets_by_name["ingested"], "rooms") == []
    assert rules(assets_by_name["normalized"], "rooms") == ["-65536 to 65536"]
    assert rules(assets_by_name["normalized"], "rooms.clipped") == ["1 to 9"]
    assert rules(assets_by_name["normalized"], "tenure") == ["owner | renter | other"]
    # Nine cells: the last one is that of missing values.
    assert rules(assets_by_name["discretized"], "rooms") == ["0 to 8"]
    assert rules(assets_by_name["discretized"], "tenure") == ["0 to 3"]
    assert rules(assets_by_name["one_hot"], "tenure=owner") == ["0 | 1"]
    # A missing value is no level of what is stored, and a cell.
    assert rules(assets_by_name["normalized"], "age") == ["young | old"]
    assert rules(assets_by_name["discretized"], "age") == ["0 to 2"]
    assert rules(assets_by_name["independent"], "rooms") == ["1 to 9"]
    levels = [f"level{n}" for n in range(MAX_NAMED_LEVELS + 1)]
    attributes = {**HOMES["attributes"], "tenure": {"levels": levels}}
    spec = project.declare("homes", HOMES, attributes=attributes)
    assert rules(pages(spec)["normalized"], "tenure") == [f"{MAX_NAMED_LEVELS + 1} levels"]


def test_every_column_is_followed_back_to_the_source(project: Project, homes: DatasetSpec):
    assets_by_name = pages(homes)
    for asset, column, made_from in (
        ("independent", "rent", {"discretized.rent"}),
        ("discretized", "rent", {"normalized.rent.clipped"}),
        ("normalized", "rent.clipped", {"ingested.rent"}),
        ("dp_kjig", "level", {"discretized.tenure"}),
        ("dp_kjig", "class", {"discretized.rooms", "discretized.rent"}),
    ):
        assert sources(assets_by_name[asset])[column] == made_from
    assert LINEAGE not in assets_by_name["ingested"].metadata
    centres = {"rooms": {"normalized.rooms"}, "rent": {"normalized.rent"}}
    assert sources(assets_by_name["eug_kmeans"]) == centres
    bits = sources(pages(project.declare("plants", PLANTS))["one_hot"])
    assert bits["colour=red"] == {"discretized.colour"}
    # A colour may be missing; the numbers are axes.
    assert len(bits) == 4 + 2 + 3


def test_columns_are_made_of_columns_of_the_asset_above(project: Project, homes: DatasetSpec):
    for spec in (homes, project.declare("plants", PLANTS), project.declare("rides", RIDES)):
        assets_by_name = pages(spec)
        for name, page in assets_by_name.items():
            source_sets = sources(page).values() if LINEAGE in page.metadata else ()
            for source in set().union(*source_sets):
                stage, _, column = source.partition(".")
                assert column in columns(assets_by_name[stage]), (name, source)


def changed(before: dict[str, dg.AssetSpec], other: DatasetSpec) -> set[str]:
    after = pages(other)
    return {name for name in before if before[name].code_version != after[name].code_version}


READERS = {"ingested", "validated", "normalized", "discretized", *MODELS}
WIDER = {**HOMES["attributes"], "rooms": {"bounds": ["0", "9"], "bins": "4"}}
MORE = {"kind": "csv", "path": "more.csv"}


@pytest.mark.parametrize(
    ("changes", "assets"),
    [
        ({"models": {**MODELS, "eug_kmeans": {"k": "4"}}}, {"eug_kmeans"}),
        ({"models": {**MODELS, "eug_kmeans": {"k": "3", "starts": "10"}}}, set()),
        ({"attributes": WIDER}, READERS),
        ({"title": "Houses", "ceiling": {"total": "99"}}, set()),
        ({"source": MORE}, {"ingested"}),
    ],
    ids=["a parameter", "a default", "the domain", "words", "the source"],
)
def test_a_change_of_a_file_changes_the_code_that_reads_it(changes, assets, project, homes):
    project.write_rows("more.csv", ["rooms,rent,tenure", "1,300,renter"])
    other = project.declare("homes", HOMES, **{"models": MODELS, **changes})
    assert changed(pages(homes), other) == assets


def test_code_that_measures_changes_the_models_and_nothing_else(homes: DatasetSpec, monkeypatch):
    before, version = pages(homes), releasing.code_version

    def other_version(rooms: tuple[str, ...]) -> str:
        return "dp_pipeline 0 other" if "gate" in rooms else version(rooms)

    monkeypatch.setattr(releasing, "code_version", other_version)
    assert changed(before, homes) == set(MODELS)


BOUND = 3 * 10.0
"""Seconds for 200 files of 6 models: 10 on an idle machine, and others work on it too."""

WIDE: Mapping[str, Any] = {
    **HOMES,
    "ceiling": {"total": "100"},
    "attributes": {
        **{name: {"bounds": ["0", "8"], "bins": "8"} for name in ("x", "y", "z")},
        "job": {"levels": ["a", "b", "c", "d", "e"], "other": "e"},
        "sex": {"levels": ["f", "m"]},
    },
    "one_hot": "true",
    "nominal_rows": "10000",
    "partitions": ["0.1", "0.5", "1", "2"],
    "models": {
        name: {} for name in ("independent", "privbayes", "jtree", "priview", "privhd", "one_shot")
    },
}
"""Six models of a table at four ε."""


def _declared(project: Project, number: int) -> Path:
    bins = {"bounds": ["0", "100"], "bins": str(number % 50 + 2)}
    attributes = {**WIDE["attributes"], "age": bins}
    name = f"set{number}"
    return project.write_declaration(name, WIDE, population=name, attributes=attributes)


def _load(project: Project, paths: list[Path]) -> dg.Definitions:
    specs = tuple(load_spec(path) for path in paths)
    definitions = pipeline_definitions(specs, Pipeline(project.home))
    dg.Definitions.validate_loadable(definitions)
    return definitions


@pytest.mark.stack
def test_two_hundred_files_of_six_models_load_in_time(project: Project):
    """Processor time from the files to every job that Dagster shows, without any import."""
    paths = [_declared(project, number) for number in range(200)]
    # Whatever is imported late is imported by the first.
    _load(project, paths[:1])
    before = time.process_time()
    jobs = _load(project, paths).resolve_all_job_defs()
    seconds = time.process_time() - before
    assert len(jobs) == 3 * len(paths) + 1
    assert seconds < BOUND, f"{seconds:.1f} s"


def test_a_job_knows_the_assets_of_its_own_data_set_alone(project: Project):
    specs = (project.declare("plants", PLANTS), project.declare("rides", RIDES))
    definitions = pipeline_definitions(specs, Pipeline(Home(Path("nowhere"))))
    for job in definitions.resolve_all_job_defs():
        if job.name.startswith("__"):
            continue
        graph = job.asset_layer.asset_graph
        datasets = {key.path[0] for key in graph.source_asset_graph.get_all_asset_keys()}
        assert datasets == {job.name.split("_")[0]}, job.name


def test_every_job_schedule_and_sensor_says_what_it_costs(project: Project):
    specs = [
        project.declare("rides", RIDES, updates="public"),
        project.declare("walks", RIDES, refresh="weekly"),
        project.declare("plants", PLANTS),
        project.declare("weeds", PLANTS, publish=None),
    ]
    chains = [chain_definitions(spec) for spec in specs]
    sensors = [sensor for chain in chains for sensor in chain.sensors or []]
    automatic = [schedule for chain in chains for schedule in chain.schedules or []] + sensors
    jobs = [job for chain in chains for job in chain.jobs or []]
    described = {definition.name: definition.description or "" for definition in jobs + automatic}
    assert len(described) == 4 * 3 + 3 + 3 + 3
    assert {"rides_weekly", "walks_weekly_refresh", "plants_new_rows"} <= set(described)
    assert {definition.default_status.value for definition in automatic} == {"STOPPED"}
    assert all((sensor.minimum_interval_seconds or 0) >= 60 for sensor in sensors)
    for name, text in described.items():
        assert "pends nothing" in text or "0.55" in text or "ε=" in text, (name, text)
    limited = project.declare("rides", RIDES, ceiling={"total": "3", "per_month": "1"})
    jobs = {job.name: job.description or "" for job in chain_definitions(limited).jobs or []}
    description = jobs["rides_epsilon_backfill"]
    assert "cost ε=0.7 of 3, at most 1 a month" in description
    assert "`dp-pipeline plan rides`" in description


MODEL = RIDES["models"]["dpqt_kmeans"]
KEY = dg.AssetKey(["rides", "dpqt_kmeans"])
STAGES = ("ingested", "validated", "normalized")


@pytest.fixture
def released_project(project: Project) -> tuple[Project, DatasetSpec]:
    spec = project.declare("rides", RIDES)
    assert project.launch(spec, *STAGES, KEY.path[1], partition="0.5").success
    return project, spec


def newest_tags(project: Project, key: dg.AssetKey = KEY) -> dict[str, str]:
    (record,) = project.instance.fetch_materializations(key, limit=1).records
    return dict(record.asset_materialization.tags or {})


def defined(project: Project, spec: DatasetSpec) -> str | None:
    return definitions_of(spec, project.home).resolve_asset_graph().get(KEY).code_version


@pytest.mark.chain
def test_only_a_new_draw_under_newer_code_has_the_newer_version(released_project, monkeypatch):
    project, spec = released_project
    first = newest_tags(project)
    assert first["dagster/code_version"] == defined(project, spec)
    for module in (code_versions, releasing):
        monkeypatch.setattr(module, "code_version", lambda *_: "dp_pipeline 9.9.9 ffffffffffff")
    assert project.launch(spec, KEY.path[1], partition="0.5").success
    assert newest_tags(project) == first, "a replay keeps its version"
    assert first["dagster/code_version"] != defined(project, spec)
    assert project.launch(spec, KEY.path[1], partition="0.5", config={"new_draw": True}).success
    last = newest_tags(project)
    assert last["dagster/code_version"] == defined(project, spec)
    assert last["dagster/data_version"] != first["dagster/data_version"]


def stale(project: Project, spec: DatasetSpec, name: str, partition: str | None) -> list[str]:
    """Why Dagster calls an asset stale, in its words; nothing where it is fresh."""
    context = LoadingContextForTest(project.instance)
    graph = definitions_of(spec, project.home).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(project.instance, graph, context)
    key = dg.AssetKey(["rides", name])
    return [cause.reason for cause in resolver.get_stale_causes(key, partition)]


@pytest.mark.chain
def test_edit_that_changes_release_is_shown_at_its_partition(released_project):
    project, spec = released_project
    assert stale(project, spec, "dpqt_kmeans", "0.5") == []
    words = project.declare("rides", RIDES, description="Where rides end, in other words.")
    assert stale(project, words, "dpqt_kmeans", "0.5") == []
    edited = project.declare("rides", RIDES, models={"dpqt_kmeans": {**MODEL, "k": "4"}})
    assert stale(project, edited, "dpqt_kmeans", "0.5") == ["has a new code version"]
    # Dagster has no mark for all partitions together.
    assert stale(project, edited, "dpqt_kmeans", None) == []
    before = project.spent(spec)
    assert project.launch(edited, "dpqt_kmeans", partition="0.5").success
    assert stale(project, edited, "dpqt_kmeans", "0.5") == []
    # Another number of centres is found in the answers that were paid for.
    assert project.spent(spec) == before
    bounds = {"x": {"bounds": ["0", "9"]}, "y": {"bounds": ["0", "4"]}}
    wider = project.declare("rides", RIDES, attributes=bounds)
    for name in STAGES:
        assert stale(project, edited, name, None) == []
        assert stale(project, wider, name, None) == ["has a new code version"]
    assert stale(project, wider, "dpqt_kmeans", "0.5") == ["has a new code version"]


@pytest.mark.chain
def test_a_snapshot_is_reported_apart_by_its_name_alone(rides: Project, spec: DatasetSpec):
    for snapshot in ("monday", "monday", "tuesday"):
        assert rides.launch(spec, "ingested", config={"snapshot": snapshot}).success
        tags = newest_tags(rides, dg.AssetKey(["rides", "ingested"]))
        assert tags["dagster/data_version"] == snapshot
        rides.write_rows("rides.csv", ["rider,x,y", "zoe,1,1"])
