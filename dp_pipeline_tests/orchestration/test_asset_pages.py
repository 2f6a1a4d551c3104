"""What an asset's page shows before any run: group, icons, owners, tags, code, columns."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration.columns import LINEAGE, MAX_NAMED_LEVELS, SCHEMA
from dp_pipeline.orchestration.common import source_icon
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


@pytest.mark.parametrize("owners", [[], ["ana@example.org", "team:privacy"]])
def test_owners_of_a_data_set_are_those_of_all_its_assets(owners: list[str], project: Project):
    spec = project.declare("homes", HOMES, owners=owners or None)
    assert {tuple(page.owners) for page in pages(spec).values()} == {tuple(owners)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        definitions_of(spec, project.home).resolve_all_job_defs()


def test_a_bundled_source_has_the_icon_of_its_library(homes: DatasetSpec):
    assert source_icon(homes) == "csv"
    for kind, icon in {"sklearn": "scikitlearn", "generator": "python"}.items():
        assert source_icon(replace(homes, source=replace(homes.source, kind=kind))) == icon


def test_columns_are_shown_with_what_was_declared_of_them(homes: DatasetSpec):
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


def test_the_person_column_is_read_and_never_prepared(project: Project):
    assets_by_name = pages(project.declare("rides", RIDES))
    assert "at most 2 are used" in (columns(assets_by_name["ingested"])["rider"].description or "")
    assert "rider" not in columns(assets_by_name["normalized"])
    assert ".rider" not in str(sources(assets_by_name["normalized"]))


def test_many_levels_are_counted_and_not_listed(project: Project):
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
