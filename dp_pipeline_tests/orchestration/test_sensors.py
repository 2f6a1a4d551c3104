"""The sensor on new rows: for data alone whose changes are public, and never for equal bytes."""

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from unittest.mock import Mock

import dagster as dg
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.source import Source
from dp_pipeline.orchestration import automation
from dp_pipeline.orchestration.common import RESOURCE, Pipeline
from dp_pipeline.orchestration.dataset import chain_definitions
from dp_pipeline.raw import source_stamps
from dp_pipeline_tests.orchestration.projects import PLANTS, RIDES, Project, definitions_of
from dp_pipeline_tests.orchestration.test_schedules import launched

OTHER = ["height,width,colour", "1,1,red"]
PUBLIC = {"updates": "public"}


@dataclass
class Sensor:
    """A data set's sensor, with the cursor that Dagster would keep."""

    project: Project
    spec: DatasetSpec
    cursor: str | None = None

    def tick(self, *, forget: bool = False) -> dg.RunRequest | str:
        """Return the run that it requests, or why there is none; ``forget`` its cursor or not."""
        definitions = definitions_of(self.spec, self.project.home)
        sensor = definitions.resolve_sensor_def(f"{self.spec.name}_new_rows")
        with dg.build_sensor_context(
            instance=self.project.instance,
            cursor=self.cursor,
            repository_def=definitions.get_repository_def(),
            resources={RESOURCE: Pipeline(self.project.home)},
        ) as context:
            tick_data = sensor.evaluate_tick(context)
        if not forget:
            self.cursor = tick_data.cursor
        return tick_data.run_requests[0] if tick_data.run_requests else tick_data.skip_message or ""


def run_request(answer: dg.RunRequest | str) -> dg.RunRequest:
    assert isinstance(answer, dg.RunRequest), answer
    return answer


def name_of(request: dg.RunRequest) -> str:
    (step,) = request.run_config["ops"].values()
    return step["config"]["snapshot"]


def sensors(spec: DatasetSpec) -> list[str]:
    return [sensor.name for sensor in chain_definitions(spec).sensors or []]


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return project.declare("plants", PLANTS)


@pytest.fixture
def sensor(project: Project, spec: DatasetSpec) -> Sensor:
    return Sensor(project, spec)


def test_only_rows_of_public_changes_have_a_sensor(project: Project):
    assert sensors(project.declare("rides", RIDES)) == []
    assert sensors(project.declare("rides", RIDES, refresh="weekly")) == []
    assert sensors(project.declare("rides", RIDES, **PUBLIC)) == ["rides_new_rows"]
    assert sensors(project.declare("plants", PLANTS)) == ["plants_new_rows"]
    generated = {"kind": "generator", "name": "trips_like", "options": {"seed": "7", "rows": "9"}}
    places = {"attributes": RIDES["attributes"], "models": RIDES["models"], "publish": None}
    assert sensors(project.declare("plants", PLANTS, source=generated, **places)) == []


def test_first_look_opens_first_snapshot_named_by_day(sensor: Sensor, monkeypatch):
    hashing, before = Mock(side_effect=automation.source_digest), datetime.now(UTC).date()
    monkeypatch.setattr(automation, "source_digest", hashing)
    request = run_request(sensor.tick())
    days = {before, datetime.now(UTC).date()}
    assert name_of(request) in {day.isoformat() for day in days}, "two days around midnight"
    assert request.partition_key == "0.5"
    assert all("same bytes" in str(sensor.tick()) for _ in range(2))
    assert hashing.call_count == 1, "bytes of one stamp are hashed once"


@pytest.mark.chain
def test_new_bytes_are_a_snapshot_and_published(project, spec, sensor):
    first = run_request(sensor.tick())
    assert launched(project, spec, first, "plants_new_snapshot")
    project.write_rows("plants.csv", OTHER)
    second = run_request(sensor.tick())
    today = datetime.now(UTC).date().isoformat()
    assert name_of(second) in {f"{name_of(first)}-2", today} - {name_of(first)}, "or past midnight"
    assert second.run_key != first.run_key
    assert launched(project, spec, second, "plants_new_snapshot")
    assert project.snapshot(spec).id == name_of(second)
    assert project.spent(spec) == 1


def test_rows_that_come_back_are_new_once_more(project: Project, sensor: Sensor):
    source, keys = project.datasets / "plants.csv", []
    old = source.read_bytes()
    for content in (old, b"height,width,colour\n", old, b"height,width,colour\n"):
        source.write_bytes(content)
        # As after a crash between the run and the cursor.
        forgotten = run_request(sensor.tick(forget=True))
        keys.append(run_request(sensor.tick()).run_key)
        assert keys[-1] == forgotten.run_key
        # Equal bytes are nothing new, whenever they are written.
        source.write_bytes(content)
        os.utime(source, (2_000_000_000, 2_000_000_000))
        assert "same bytes" in str(sensor.tick())
    assert len(set(keys)) == 4


def test_sensor_turned_on_later_sees_what_was_written(project: Project, spec: DatasetSpec):
    source = project.datasets / "plants.csv"
    os.utime(source, (1_000_000_000, 1_000_000_000))
    assert project.launch(spec, "ingested").success
    assert "same bytes" in str(Sensor(project, spec).tick())
    os.utime(source, (4_000_000_000, 4_000_000_000))
    run_request(Sensor(project, spec).tick())


def test_source_missing_or_half_is_waited_for(project: Project, sensor: Sensor, monkeypatch):
    (project.datasets / "plants.csv").unlink()
    assert "is missing" in str(sensor.tick())
    project.write_rows("plants.csv", OTHER)
    real = source_stamps.hashlib.file_digest

    def slow(file, name):  # type: ignore[no-untyped-def]
        project.write_rows("plants.csv", [*OTHER, "2,2,red"])
        return real(file, name)

    with monkeypatch.context() as patch:
        patch.setattr(source_stamps.hashlib, "file_digest", slow)
        assert "being written" in str(sensor.tick())
    run_request(sensor.tick())


def test_changes_beyond_the_ceiling_are_refused_and_remembered(rides: Project):
    sensor = Sensor(rides, rides.declare("rides", RIDES, **PUBLIC))
    assert "same bytes" in str(sensor.tick()), "prepared after it was written"
    rides.write_rows("rides.csv", ["rider,x,y", "zoe,8,4"])
    rides.spend("2.5")
    before = rides.files("raw", "released", "ledger")
    refusal = "rides refused by population riders: requested ε=0.55, spent 2.5, left 0.5, ceiling 3"
    assert all(str(sensor.tick()).startswith(refusal) for _ in range(2))
    assert rides.files("raw", "released", "ledger") == before
    four = Fraction(4)
    rides.ledger.raise_ceiling("riders", ceiling=four, reason="a new year", by="ana")
    later = Sensor(rides, rides.declare("rides", RIDES, **PUBLIC, ceiling={"total": "4"}))
    later.cursor = sensor.cursor
    run_request(later.tick())


def test_data_set_without_publication_is_only_prepared(project: Project):
    spec = project.declare("plants", PLANTS, publish=None)
    request = run_request(Sensor(project, spec).tick())
    assert request.partition_key is None
    assert launched(project, spec, request, "plants_prepare")
    assert project.spent(spec) == 0


@pytest.mark.parametrize(
    "cursor", ["", "tomorrow", "[1]", '{"stamp": "x", "colour": "red"}', '{"run_count": "2"}']
)
def test_a_cursor_that_somebody_wrote_over_is_an_empty_memory(cursor: str, sensor: Sensor):
    sensor.cursor = cursor
    run_request(sensor.tick())


def test_a_url_is_new_when_another_hash_is_declared(project: Project):
    cursor = None
    for digit in "ab":
        source = {"url": "https://example.org/a.csv", "sha256": digit * 64, "at_most_mb": "1"}
        spec = project.declare("plants", PLANTS, source={"kind": "csv", **source})
        sensor = Sensor(project, spec)
        sensor.cursor = cursor
        run_request(sensor.tick())
        assert "same bytes" in str(sensor.tick())
        cursor = sensor.cursor


def test_downloaded_units_with_a_file_of_parts_are_not_watched():
    url = "https://example.org/a.csv"
    units, parts = Source("csv", url, sha256={url: "a" * 64}), Source("csv", "/parts.csv")
    assert source_stamps.is_watchable(units)
    assert source_stamps.is_watchable(parts)
    assert not source_stamps.is_watchable(replace(units, parts=parts))
    assert source_stamps.is_watchable(replace(parts, parts=replace(parts, location="/other.csv")))
