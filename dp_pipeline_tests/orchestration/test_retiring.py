"""`dp-pipeline data retire`: rows go, ledger and releases stay, and replays cost nothing."""

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import assert_refused

pytestmark = pytest.mark.chain

VALUE = b"6.5"


@pytest.fixture
def spec(released_rides: Project) -> DatasetSpec:
    return released_rides.declare("rides", RIDES)


def rows_left(project: Project) -> list[str]:
    names = project.files("raw")
    return [name for name in names if not name.endswith(("/manifest.json", "/.lock"))]


def test_rows_and_exact_numbers_go_as_the_ledger_says(released_rides: Project, spec: DatasetSpec):
    snapshot = released_rides.snapshot(spec)
    assert any("custodian" in name for name in rows_left(released_rides))
    spent, releases = released_rides.spent(spec), released_rides.files("released")
    # A draft of another data set stops no retirement.
    (released_rides.datasets / "draft.yaml").write_text("name: TODO\n", encoding="utf-8")
    assert f"rides/{snapshot.id}" in released_rides.command("data", "retire", "rides", "--yes")
    assert rows_left(released_rides) == ["data/raw/rides/current"]
    assert released_rides.spent(spec) == spent
    assert released_rides.files("released") == releases
    assert_refused(released_rides.cli_here("data", "retire", "draft", "--yes"), 2)
    newest = released_rides.ledger.entries()[-1]
    assert (newest.event, newest.population) == ("retired", "riders")
    assert newest.facts["snapshots"] == f"rides/{snapshot.id}"
    released_rides.ledger.verify()


def test_retired_release_is_replayed_alone(released_rides: Project, spec: DatasetSpec):
    before = released_rides.publish(spec)
    assert released_rides.cli_here("data", "retire", "rides", "--yes").code == 0
    spent = released_rides.spent(spec)
    after = released_rides.publish(spec)
    assert (after.state, after.nano) == ("replayed", 0)
    assert after.bundle.to_json() == before.bundle.to_json()
    for question in ({"epsilon": "0.1"}, {"new_draw": True}):
        with pytest.raises(NotPrepared, match=r"the rows of the snapshot were removed on .*"):
            released_rides.publish(spec, **question)  # type: ignore[arg-type]
    assert released_rides.spent(spec) == spent


def test_new_snapshot_is_released_and_old_refused(released_rides: Project, spec: DatasetSpec):
    old = released_rides.snapshot(spec).id
    assert released_rides.cli_here("data", "retire", "rides", "--yes").code == 0
    refused = released_rides.cli_here("run", "rides", "--snapshot", old, "--epsilon", "0.1")
    assert_refused(refused, 1, "the rows of the snapshot were removed on")
    released_rides.command("run", "rides", "--snapshot", "again", "--epsilon", "0.1")
    assert released_rides.snapshot(spec).id == "again"


def test_without_a_yes_nothing_is_touched(released_rides: Project):
    before, entries = released_rides.files("raw"), released_rides.ledger.entries()
    result = released_rides.cli("data", "retire", "rides")
    assert result.code == 1
    assert "Delete these rows for ever?" in result.out
    assert released_rides.files("raw") == before
    assert released_rides.ledger.entries() == entries


def test_every_data_set_of_a_population_is_retired(released_rides: Project, spec: DatasetSpec):
    home = released_rides.home
    key = released_rides.ledger.key(spec.population)
    together, other = (Snapshot(home.raw / name / "first", key) for name in ("walks", "plants"))
    for snapshot, population in ((together, spec.population), (other, "garden")):
        snapshot.store_table("ingested", lambda file: file.write(VALUE))
        snapshot.record(population=population)
    retire = ("data", "retire", "rides", "--yes")
    assert "walks/first" in released_rides.command(*retire)
    assert together.is_retired()
    assert other.checked_path("ingested").read_bytes() == VALUE
    assert released_rides.command(*retire) == "population riders: no rows are stored here\n"


def test_retirement_stopped_halfway_is_finished(released_rides: Project, spec: DatasetSpec):
    """The ledger says retired, the rows are there: until the end they are as they were."""
    snapshot = released_rides.snapshot(spec)
    released_rides.ledger.retire(spec.population, [f"rides/{snapshot.id}"], by="somebody")
    assert snapshot.checked_path("normalized").is_file()
    assert released_rides.cli_here("data", "retire", "rides", "--yes").code == 0
    assert snapshot.is_retired()
    assert [entry.event for entry in released_rides.ledger.entries()].count("retired") == 2
    released_rides.ledger.verify()
