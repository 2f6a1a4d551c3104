"""When Dagster says that code has changed: until a new draw, and never after a mere replay."""

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import code_versions
from dp_pipeline.releases import release as releasing
from dp_pipeline_tests.orchestration.projects import RIDES, Project, definitions_of

pytestmark = pytest.mark.chain

MODEL = RIDES["models"]["dpqt_kmeans"]
KEY = dg.AssetKey(["rides", "dpqt_kmeans"])
STAGES = ("ingested", "validated", "normalized")


@pytest.fixture
def drawn(project: Project) -> tuple[Project, DatasetSpec]:
    spec = project.declare("rides", RIDES)
    assert project.launch(spec, *STAGES, KEY.path[1], partition="0.5").success
    return project, spec


def newest_tags(project: Project, key: dg.AssetKey = KEY) -> dict[str, str]:
    (record,) = project.instance.fetch_materializations(key, limit=1).records
    return dict(record.asset_materialization.tags or {})


def defined(project: Project, spec: DatasetSpec) -> str | None:
    return definitions_of(spec, project.home).resolve_asset_graph().get(KEY).code_version


def test_only_a_new_draw_under_newer_code_has_the_newer_version(drawn, monkeypatch):
    project, spec = drawn
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


def test_edit_that_changes_release_is_shown_at_its_partition(drawn):
    project, spec = drawn
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


def test_a_snapshot_is_reported_apart_by_its_name_alone(rides: Project, spec: DatasetSpec):
    for snapshot in ("monday", "monday", "tuesday"):
        assert rides.launch(spec, "ingested", config={"snapshot": snapshot}).success
        tags = newest_tags(rides, dg.AssetKey(["rides", "ingested"]))
        assert tags["dagster/data_version"] == snapshot
        rides.write_rows("rides.csv", ["rider,x,y", "zoe,1,1"])
