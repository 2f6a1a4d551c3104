"""A bundle that is not as it was settled is refused by name, wherever bundles are read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dp_pipeline
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.releases import model_questions
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.model_questions import ModelQuestions
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.replay import MADE_AGAIN, pointed_bundle, read_document
from dp_pipeline.releases.report import compare, compare_k_anonymous
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_result import release_results
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import Bundle, table_digest
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.forging import reseal
from dp_pipeline_tests.orchestration.interrupting import prepared as prepared_rides
from dp_pipeline_tests.orchestration.patients import anonymized, declare, prepared
from dp_pipeline_tests.orchestration.projects import RIDES, Project

pytestmark = pytest.mark.chain

REFUSED = (
    r"bundle rides/dpqt_kmeans/\w+/bundle-\w+: expected it as it was stored, got another; move "
)
COST = Fraction("0.55")
TWO = {"dpqt_kmeans": {"k": "2", "nominal_rows": "40"}}


def bundle_folder(project: Project) -> Path:
    (path,) = project.home.released.rglob("bundle.json")
    return path.parent


def document(folder: Path, change: Callable[[dict], None]) -> None:
    path = folder / "bundle.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    change(found)
    path.write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")


def say_less_epsilon(folder: Path) -> None:
    document(folder, lambda found: found["facts"].update(epsilon="0.0001"))


def say_newer_code(folder: Path) -> None:
    document(folder, lambda found: found["facts"].update(code="dp_pipeline 99"))


def spend_less(folder: Path) -> None:
    document(folder, lambda found: found["spends"].pop())


def move_the_centres(folder: Path) -> None:
    """With a digest that fits."""
    path = folder / "centres.parquet"
    table = pq.read_table(path)
    moved = table.set_column(0, "x", pa.array([one + 1 for one in table["x"].to_pylist()]))
    pq.write_table(moved, path)
    columns = {name: moved[name].to_numpy() for name in moved.column_names}
    document(folder, lambda found: found["tables"].update(centres=table_digest(columns)))


def put_a_file_beside(folder: Path) -> None:
    (folder / "card.md").write_text("# ε = 0.0001", encoding="utf-8")


def put_a_folder_beside(folder: Path) -> None:
    (folder / "more").mkdir()


def lose_a_table(folder: Path) -> None:
    (folder / "centres.parquet").unlink()


def lose_the_seal(folder: Path) -> None:
    (folder / "seal").unlink()


def break_the_text(folder: Path) -> None:
    (folder / "bundle.json").write_bytes(b"\xff{")


EDITS = (
    *(say_less_epsilon, say_newer_code, spend_less, move_the_centres, put_a_file_beside),
    *(put_a_folder_beside, lose_a_table, lose_the_seal, break_the_text),
)


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    """RIDES, prepared."""
    spec = project.declare("rides", RIDES)
    prepared_rides(project, spec)
    return spec


@pytest.fixture
def released(project: Project, spec: DatasetSpec) -> Project:
    """RIDES released at ε = 0.5, with what its assets would hand on, without Dagster."""
    folder = project.publish(spec).folder.relative_to(project.home.released)
    pointer = {"folder": str(folder), "state": "charged", "nano": "550000000"}
    at = project.home.released / "rides" / "dpqt_kmeans" / "partition-0.5.json"
    at.write_text(json.dumps({"format": FORMAT, "value": pointer}), encoding="utf-8")
    evaluated = project.home.internal / "rides" / "evaluation" / "0.5.json"
    evaluated.parent.mkdir(parents=True)
    document = {"rows": [], "pointers": {"dpqt_kmeans": pointer}}
    evaluated.write_text(json.dumps({"format": FORMAT, "value": document}), encoding="utf-8")
    return project


def evaluations(project: Project, spec: DatasetSpec) -> dict:
    folder = project.home.internal / spec.name / "evaluation"
    return {path.stem: read_document(path) for path in folder.glob("*.json")}


def replay(project: Project, spec: DatasetSpec) -> object:
    return project.publish(spec)


def show_outcomes(project: Project, spec: DatasetSpec) -> object:
    return list(release_results(project.request(spec, epsilons=["0.5"])))


def write_the_report(project: Project, spec: DatasetSpec) -> object:
    return compare(spec, project.home, evaluations(project, spec))


def follow_a_pointer(project: Project, spec: DatasetSpec) -> object:
    pointer = read_document(project.home.released / "rides" / "dpqt_kmeans" / "partition-0.5.json")
    return pointed_bundle(spec, project.home, pointer, model="dpqt_kmeans", epsilon="0.5")


READERS = (replay, show_outcomes, write_the_report, follow_a_pointer)


def test_every_reader_takes_a_bundle_as_it_was_settled(
    released: Project, spec: DatasetSpec
) -> None:
    assert all(read(released, spec) for read in READERS)


@pytest.mark.parametrize("edit", EDITS)
def test_whatever_is_edited_every_reader_refuses_the_bundle_by_name(
    edit: Callable[[Path], None], released: Project, spec: DatasetSpec
) -> None:
    before = released.files("reports", "internal")
    edit(bundle_folder(released))
    for read in READERS:
        with pytest.raises(Damaged, match=REFUSED) as refused:
            read(released, spec)
        assert len(str(refused.value).splitlines()) == 1
    assert released.files("reports", "internal") == before
    assert released.spent(spec) == COST


@pytest.mark.parametrize("asset", ["dpqt_kmeans", "evaluation", "comparison"])
def test_assets_of_dagster_refuse_an_edited_bundle(asset: str, released_rides: Project) -> None:
    spec = released_rides.declare("rides", RIDES)
    say_less_epsilon(bundle_folder(released_rides))
    partition = None if asset == "comparison" else "0.5"
    result = released_rides.launch(spec, asset, partition=partition)
    assert "expected it as it was stored, got another" in refusal(result)


def test_a_bundle_that_is_moved_away_is_made_again_at_no_cost(
    released: Project, spec: DatasetSpec
) -> None:
    folder = bundle_folder(released)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    say_less_epsilon(folder)
    with pytest.raises(Damaged, match="it is made again from its answers at no cost"):
        released.publish(spec)
    shutil.move(folder, released.folder / "away")
    again = released.publish(spec)
    assert (again.state, again.nano, released.spent(spec)) == ("replayed", 0, COST)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def exchange(one: Path, other: Path) -> None:
    away = one.with_name("away")
    one.rename(away)
    other.rename(one)
    away.rename(other)


@pytest.mark.parametrize("what", ["bundles", "releases", "variants"])
def test_two_genuine_bundles_that_change_places_are_refused(
    what: str, project: Project, spec: DatasetSpec
) -> None:
    first = project.publish(spec)
    other = project.declare("rides", RIDES, models=TWO)
    second = project.publish(other) if what == "variants" else project.publish(spec, epsilon="0.1")
    if what == "releases":
        # Transcript and bundle of one in the place of the other's.
        exchange(first.folder.parent, second.folder.parent)
    else:
        exchange(first.folder, second.folder)
    with pytest.raises(Damaged, match=REFUSED):
        project.publish(spec)
    with pytest.raises(Damaged, match=REFUSED):
        project.publish(other) if what == "variants" else project.publish(spec, epsilon="0.1")


@pytest.mark.parametrize("edit", [say_less_epsilon, say_newer_code, move_the_centres])
def test_a_bundle_of_other_centres_that_no_ledger_row_names_is_refused_too(
    edit: Callable[[Path], None], project: Project, spec: DatasetSpec
) -> None:
    project.publish(spec)
    other = project.declare("rides", RIDES, models=TWO)
    edit(project.publish(other).folder)
    with pytest.raises(Damaged, match=REFUSED):
        project.publish(other)


def test_what_is_sealed_and_not_what_the_ledger_settled_is_refused(
    released: Project, spec: DatasetSpec
) -> None:
    folder = bundle_folder(released)
    say_less_epsilon(folder)
    reseal(released.release(spec), folder)
    for read in READERS:
        with pytest.raises(Damaged, match=REFUSED):
            read(released, spec)


def test_a_seal_is_of_one_population_and_one_place(project: Project, spec: DatasetSpec) -> None:
    published = project.publish(spec)
    store, key = BundleStore(project.home.released), project.ledger.key("riders")
    assert store.sealed(published.folder, key=key).key == published.bundle.key
    with pytest.raises(Damaged):
        store.sealed(published.folder, key=bytes(32))
    copy = published.folder.with_name("bundle-copy")
    shutil.copytree(published.folder, copy)
    with pytest.raises(Damaged):
        store.sealed(copy, key=key)


def test_a_replay_fits_no_model_to_find_out(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.publish(spec)

    def fitted(*_: object, **__: object) -> None:
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(model_questions, "fit", fitted)
    assert project.publish(spec).state == "replayed"


def test_a_bundle_that_was_changed_before_it_was_settled_is_not_settled(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:

    class Crash(BaseException):
        pass

    def settle(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr("dp_pipeline.ledger.Reservation.settle", settle)
        project.publish(spec)
    folder = bundle_folder(project)
    say_less_epsilon(folder)
    with pytest.raises(Damaged, match=REFUSED):
        project.publish(spec)
    shutil.move(folder, project.folder / "away")
    again = project.publish(spec)
    assert (again.state, again.nano, again.bundle.facts["epsilon"]) == ("resumed", 0, "0.5")


def test_a_lost_bundle_that_newer_code_makes_otherwise_says_so_and_is_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = project.declare("rides", RIDES, evaluation=None)
    prepared_rides(project, spec)
    first = project.publish(spec)
    shutil.rmtree(first.folder)
    real = ModelQuestions.bundle

    def newer(*arguments: Any, **named: Any) -> Bundle:
        made = real(*arguments, **named)
        moved = {
            name: {column: values + 1 for column, values in table.items()}
            for name, table in made.tables.items()
        }
        return replace(made, tables=moved)

    with monkeypatch.context() as patch:
        # The same answers, and other numbers made of them.
        patch.setattr(ModelQuestions, "bundle", newer)
        again = project.publish(spec)
    assert again.bundle.to_json() != first.bundle.to_json()
    assert MADE_AGAIN in again.bundle.facts
    assert MADE_AGAIN not in first.bundle.facts
    assert project.publish(spec).bundle.to_json() == again.bundle.to_json()
    say_less_epsilon(again.folder)
    with pytest.raises(Damaged, match=REFUSED):
        project.publish(spec)


@pytest.mark.parametrize("name", ["model", "epsilon", "dataset"])
def test_a_pointer_to_another_genuine_release_is_refused(
    name: str, released: Project, spec: DatasetSpec
) -> None:
    pointer = read_document(released.home.released / "rides/dpqt_kmeans/partition-0.5.json")
    expected = {"model": "dpqt_kmeans", "epsilon": "0.5", name: "another"}
    if name == "dataset":
        del expected["dataset"]
        spec = replace(spec, name="another")
    with pytest.raises(Damaged, match=f"{name}: expected a pointer to a release of another"):
        pointed_bundle(spec, released.home, pointer, **expected)


def test_a_pointer_out_of_the_store_is_refused(released: Project, spec: DatasetSpec) -> None:
    folder = bundle_folder(released)
    shutil.copytree(folder, outside := released.folder / "outside")
    for named in ("../../outside", str(outside)):
        with pytest.raises(Damaged, match="expected a pointer to a folder in"):
            pointed_bundle(spec, released.home, {"folder": named})


# k-anonymous releases.


@pytest.fixture
def made(project: Project) -> tuple[Project, DatasetSpec, PublishedBundle]:
    spec = declare(project)
    prepared(project, spec)
    return project, spec, anonymized(project, spec)


def another_row(folder: Path) -> None:
    path = folder / "released.parquet"
    table = pq.read_table(path).slice(1)
    pq.write_table(table, path)
    columns = {name: table[name].to_numpy().astype(str) for name in table.column_names}
    document(folder, lambda found: found["tables"].update(released=table_digest(columns)))


def a_better_promise(folder: Path) -> None:
    document(folder, lambda found: found["facts"].update(k="50"))


def a_better_card(folder: Path) -> None:
    path = folder / "card.md"
    path.write_text(path.read_text(encoding="utf-8").replace("NOT ", ""), encoding="utf-8")


@pytest.mark.parametrize("edit", [another_row, a_better_promise, a_better_card])
def test_a_k_anonymous_bundle_or_its_card_that_was_edited_is_refused_by_every_reader(
    edit: Callable[[Path], None], made: tuple[Project, DatasetSpec, PublishedBundle]
) -> None:
    project, spec, anonymous = made
    folder = anonymous.folder.relative_to(project.home.released)
    pointer = {"folder": str(folder), "state": "charged", "nano": "0"}
    at = project.home.released / "patients" / "k_anonymous" / "kjig" / "partition-2.json"
    at.write_text(json.dumps({"format": FORMAT, "value": pointer}), encoding="utf-8")
    request = RunOptions(spec, KAnonymousRelease, ["kjig"], ["2"], project.home)
    evaluated = {"2": {"pointers": {"kjig": pointer}, "rows": []}}
    readers: tuple[Callable[[], object], ...] = (
        lambda: anonymized(project, spec),
        lambda: list(release_results(request)),
        lambda: compare_k_anonymous(spec, project.home, evaluated),
    )
    for read in readers:
        assert read()
    edit(anonymous.folder)
    words = (
        r"bundle patients/k_anonymous/kjig/\w+/bundle-\w+: expected it as it was stored.*put a copy"
    )
    for read in readers:
        with pytest.raises(Damaged, match=words):
            read()


def test_a_k_anonymous_bundle_that_was_changed_before_it_was_settled_is_not_settled(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = declare(project)
    prepared(project, spec)

    class Crash(BaseException):
        pass

    def settle(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr("dp_pipeline.ledger.Reservation.settle", settle)
        anonymized(project, spec)
    a_better_promise(bundle_folder(project))
    with pytest.raises(Damaged, match="expected it as it was stored"):
        anonymized(project, spec)


# The class of faults.

MAY_READ_UNSETTLED = {"publish", "replay"}
"""Rooms that read a bundle before it is settled, and the one that compares it."""


def rooms_that_say(words: str) -> set[str]:
    """Rooms of the package with these words in their code."""
    return {
        path.stem
        for path in Path(dp_pipeline.__file__).parent.rglob("*.py")
        if words in path.read_text(encoding="utf-8")
    }


def test_no_other_room_reads_a_bundle_without_asking_the_ledger() -> None:
    assert rooms_that_say(".sealed(") == MAY_READ_UNSETTLED
    assert rooms_that_say('"bundle.json"') == {"store"}
