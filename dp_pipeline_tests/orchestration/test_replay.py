"""Asking again is free, byte for byte and without a row, after the rows were retired too."""

import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction

import dagster as dg
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, NotPrepared
from dp_pipeline.models import MODELS
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline_tests.models.test_planning import CHANGED
from dp_pipeline_tests.orchestration.events import charged, materializations
from dp_pipeline_tests.orchestration.projects import HOMES, RIDES, Declaration, Project
from dp_pipeline_tests.orchestration.warm import assert_refused

COST = Fraction("0.55")


def with_model(project: Project, **parameters: str) -> DatasetSpec:
    declared = {"k": "3", "nominal_rows": "40", **parameters}
    return project.declare("rides", RIDES, models={"dpqt_kmeans": declared})


@pytest.fixture
def first(rides: Project, spec: DatasetSpec) -> PublishedBundle:
    published = rides.publish(spec)
    assert (published.state, published.nano) == ("charged", 550_000_000)
    return published


def test_dagster_ledger_and_command_line_agree_to_the_last_nano(project: Project):
    # Neither a float sum nor a rounded one is right here: 2 · (0.1 + 1e-9) + 3 · 7e-9 + …
    levels = {"partitions": ["0.100000001", "0.3"], "evaluation": {"epsilon": "0.050000007"}}
    spec = project.declare("rides", RIDES, **levels, publish=None)
    project.run(spec)
    project.run(spec, epsilons=["0.100000001"], new_draw=True)
    bundles = project.files("released")
    again = project.run(spec)
    assert {(release.state, release.cost) for release in again} == {("replayed", 0)}
    assert project.files("released") == bundles
    exact = 2 * Fraction("0.100000001") + Fraction("0.3") + 3 * Fraction("0.050000007")
    assert project.spent(spec) == exact
    assert project.launch(spec, "dpqt_kmeans", partition="0.100000001").success
    after = project.files("released")
    changed = [name for name in after if after[name] != bundles[name]]
    assert [path.rpartition("/")[2] for path in changed] == ["partition-0.100000001.json"]
    assert charged(project, spec) == exact
    entries = materializations(project, spec)[dg.AssetKey(["rides", "dpqt_kmeans"])]["0.100000001"]
    states = [entry["privacy/state"].value for entry in entries]
    assert states == ["replayed", "charged", "charged"], "the newest first"
    (account,) = json.loads(project.command("budget", "--json"))["accounts"]
    assert (Fraction(account["spent"]), Fraction(account["left"])) == (exact, 3 - exact)
    assert account["releases"] == "3"


TRANSCRIPTS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "cut": (lambda lines: lines[:-1], "is not the one that was settled"),
    "edited": (lambda lines: [lines[0], lines[1][:-9] + b"\n", *lines[2:]], "is damaged: restore"),
    "beheaded": (lambda lines: [*lines[1:], b"\n"], "is damaged: restore"),
    "gone": (lambda _: [], "is missing: restore it from a backup"),
}


@pytest.mark.parametrize("change", TRANSCRIPTS)
def test_settled_release_is_not_drawn_again_without_answers(change, rides, spec, first):
    path, (edit, words) = first.folder.parent / "transcript.jsonl", TRANSCRIPTS[change]
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))
    if change == "gone":
        path.unlink()
    assert rides.publish(spec).bundle.to_json() == first.bundle.to_json()
    with pytest.raises(Damaged, match=words):
        rides.publish(with_model(rides, k="2"))
    shutil.rmtree(first.folder)
    with pytest.raises(Damaged, match="transcript"):
        rides.publish(rides.declare("rides", RIDES))
    assert rides.spent(spec) == COST


def test_another_k_reuses_answers_and_leaves_bought_quality_out(rides, spec, first):
    stored = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    for path in rides.snapshot(spec).folder.glob("*.parquet"):
        path.unlink()
    other = rides.publish(with_model(rides, k="2"))
    assert (other.state, other.nano) == ("replayed", 0)
    assert other.bundle.key == first.bundle.key
    assert other.bundle.quality == {}
    assert other.bundle.spent == Fraction("0.5")
    assert other.bundle.charged == first.bundle.charged == first.bundle.spent == Fraction("0.55")
    assert other.bundle.spent_text == "0.55"
    assert len(other.bundle.tables["centres"]["x"]) == 2
    for column, values in first.bundle.tables["synopsis"].items():
        assert other.bundle.tables["synopsis"][column].tolist() == values.tolist()
    assert rides.spent(spec) == COST
    again = rides.publish(rides.declare("rides", RIDES))
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == stored


@pytest.mark.parametrize("delta", [None, "0.000000001"], ids=["in epsilon", "in rho"])
def test_tables_of_other_post_processing_are_replays(delta: str | None, project: Project):
    tables = {name: model for name, model in MODELS.items() if issubclass(model, TableModel)}
    names = [name for name, model in tables.items() if delta is None or model.accounts_in_rho]
    others = {
        name: {
            field.name: str(CHANGED[field.name])
            for field in fields(tables[name])
            if not field.metadata["measuring"]
        }
        for name in names
    }
    limits = {"delta": delta, "ceiling": {"total": "100"}}
    spec = project.declare("homes", HOMES, models={name: {} for name in names}, **limits)
    project.prepare(spec)
    first = {name: project.publish(spec, model=name, epsilon="1") for name in names}
    assert {published.state for published in first.values()} == {"charged"}
    spent, other_spec = (
        project.spent(spec),
        project.declare("homes", HOMES, models=others, **limits),
    )
    for name, published in first.items():
        again = project.publish(other_spec, model=name, epsilon="1")
        assert (again.state, again.nano, again.bundle.key) == ("replayed", 0, published.bundle.key)
        assert again.bundle.transcript == published.bundle.transcript
        assert again.folder != published.folder
    assert project.spent(spec) == spent > 0


def test_the_chain_shows_no_bought_quality_for_another_k(released_rides: Project):
    (other,) = released_rides.run(with_model(released_rides, k="2"), epsilons=["0.5"])
    assert (other.state, other.cost, other.quality) == ("replayed", 0, ())


MODEL = RIDES["models"]["dpqt_kmeans"]
SAME: tuple[Declaration, ...] = (
    {"title": "Another title"},
    {"description": "Other words"},
    {"publish": None},
    {"models": {"dpqt_kmeans": {**MODEL, "variant": "sound"}}},
)
OTHER: tuple[Declaration, ...] = (
    {"evaluation": {"epsilon": "0.06"}},
    {"evaluation": None},
    {"models": {"dpqt_kmeans": {**MODEL, "nominal_rows": "41"}}},
    {"models": {"dpqt_kmeans": {**MODEL, "gamma": "0.4"}}},
)


@pytest.mark.parametrize("changes", [*SAME, *OTHER])
def test_only_what_is_measured_makes_another_release(changes, rides, first):
    other = rides.publish(rides.declare("rides", RIDES, **changes))
    is_same = changes in SAME
    assert other.state == ("replayed" if is_same else "charged")
    assert (other.bundle.key == first.bundle.key) is is_same


@pytest.mark.parametrize("tag", [None, "dagster/parent_run_id", "dagster/parent_backfill_id"])
def test_new_draw_that_is_executed_again_replays_its_own(tag: str | None, released_rides: Project):
    spec = released_rides.declare("rides", RIDES)
    options = {"partition": "0.5", "config": {"new_draw": True}}
    assert released_rides.launch(spec, "dpqt_kmeans", **options).success
    assert released_rides.spent(spec) == 2 * COST
    tags = {} if tag is None else {tag: "a" * 8}
    assert released_rides.launch(spec, "dpqt_kmeans", **options, tags=tags).success
    assert released_rides.spent(spec) == (3 if tag is None else 2) * COST


VALUE = b"6.5"


def rows_left(project: Project) -> list[str]:
    names = project.files("raw")
    return [name for name in names if not name.endswith(("/manifest.json", "/.lock"))]


def test_rows_and_exact_numbers_go_as_the_ledger_says(
    released_rides: Project, released_spec: DatasetSpec
):
    snapshot = released_rides.snapshot(released_spec)
    assert any("custodian" in name for name in rows_left(released_rides))
    spent, releases = released_rides.spent(released_spec), released_rides.files("released")
    # A draft of another data set stops no retirement.
    (released_rides.datasets / "draft.yaml").write_text("name: TODO\n", encoding="utf-8")
    assert f"rides/{snapshot.id}" in released_rides.command("data", "retire", "rides", "--yes")
    assert rows_left(released_rides) == ["data/raw/rides/current"]
    assert released_rides.spent(released_spec) == spent
    assert released_rides.files("released") == releases
    assert_refused(released_rides.cli_here("data", "retire", "draft", "--yes"), 2)
    newest = released_rides.ledger.entries()[-1]
    assert (newest.event, newest.population) == ("retired", "riders")
    assert newest.facts["snapshots"] == f"rides/{snapshot.id}"
    released_rides.ledger.verify()


def test_retired_release_is_replayed_alone(released_rides: Project, released_spec: DatasetSpec):
    before = released_rides.publish(released_spec)
    assert released_rides.cli_here("data", "retire", "rides", "--yes").code == 0
    spent = released_rides.spent(released_spec)
    after = released_rides.publish(released_spec)
    assert (after.state, after.nano) == ("replayed", 0)
    assert after.bundle.to_json() == before.bundle.to_json()
    for question in ({"epsilon": "0.1"}, {"new_draw": True}):
        with pytest.raises(NotPrepared, match=r"the rows of the snapshot were removed on .*"):
            released_rides.publish(released_spec, **question)  # type: ignore[arg-type]
    assert released_rides.spent(released_spec) == spent
    old = released_rides.snapshot(released_spec).id
    refused = released_rides.cli_here("run", "rides", "--snapshot", old, "--epsilon", "0.1")
    assert_refused(refused, 1, "the rows of the snapshot were removed on")
    released_rides.command("run", "rides", "--snapshot", "again", "--epsilon", "0.1")
    assert released_rides.snapshot(released_spec).id == "again"


def test_without_a_yes_nothing_is_touched(released_rides: Project):
    before, entries = released_rides.files("raw"), released_rides.ledger.entries()
    result = released_rides.cli("data", "retire", "rides")
    assert result.code == 1
    assert "Delete these rows for ever?" in result.out
    assert released_rides.files("raw") == before
    assert released_rides.ledger.entries() == entries


def test_every_data_set_of_a_population_is_retired(
    released_rides: Project, released_spec: DatasetSpec
):
    home = released_rides.home
    key = released_rides.ledger.key(released_spec.population)
    together, other = (Snapshot(home.raw / name / "first", key) for name in ("walks", "plants"))
    for snapshot, population in ((together, released_spec.population), (other, "garden")):
        snapshot.store_table("ingested", lambda file: file.write(VALUE))
        snapshot.record(population=population)
    retire = ("data", "retire", "rides", "--yes")
    assert "walks/first" in released_rides.command(*retire)
    assert together.is_retired()
    assert other.checked_path("ingested").read_bytes() == VALUE
    assert released_rides.command(*retire) == "population riders: no rows are stored here\n"


def test_retirement_stopped_halfway_is_finished(
    released_rides: Project, released_spec: DatasetSpec
):
    """The ledger says retired, the rows are there: until the end they are as they were."""
    snapshot = released_rides.snapshot(released_spec)
    released_rides.ledger.retire(released_spec.population, [f"rides/{snapshot.id}"], by="somebody")
    assert snapshot.checked_path("normalized").is_file()
    assert released_rides.cli_here("data", "retire", "rides", "--yes").code == 0
    assert snapshot.is_retired()
    assert [entry.event for entry in released_rides.ledger.entries()].count("retired") == 2
    released_rides.ledger.verify()
