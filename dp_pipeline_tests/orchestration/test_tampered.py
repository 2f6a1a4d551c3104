"""Law of every kind of release: a bundle that is not as it was settled is refused by name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dp_pipeline
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.models.base import ModelFit
from dp_pipeline.orchestration import checks
from dp_pipeline.orchestration.checks import INTACT, REBUILT, fault_result
from dp_pipeline.releases import release as releasing
from dp_pipeline.releases import replay
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.releases.report import compare, compare_k_anonymous
from dp_pipeline.releases.run_options import RunOptions
from dp_pipeline.releases.run_result import release_results
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.orchestration.faults import EDITS, edit_document, reseal
from dp_pipeline_tests.orchestration.kinds import KINDS, Case
from dp_pipeline_tests.orchestration.projects import RIDES, Project

ANOTHER = "not as it was stored"
POINTER = "rides/dpqt_kmeans/partition-0.5.json"
TWO = {"dpqt_kmeans": {"k": "2", "nominal_rows": "40"}}
OF_TABLES = ("a row of its table", "a cut table", "a lost table")
RESEALED = "a fact, sealed anew"
EDITED = sorted({*product(KINDS, (*EDITS, RESEALED))} - {*product(["domain"], OF_TABLES)})


def faults(release: Release, published: PublishedBundle) -> dict[str, str | None]:
    """Check → the line of its fault, or None."""
    results = (
        fault_result(INTACT, lambda: require_intact(release, published.folder)),
        fault_result(REBUILT, lambda: require_reproducible(release, published.bundle)),
    )
    lines = (None if done.passed else str(done.metadata["fault"].value) for done in results)
    return dict(zip((INTACT, REBUILT), lines, strict=True))


def tamper(edit: str, release: Release, folder: Path) -> None:
    EDITS["a fact" if edit == RESEALED else edit](folder)
    if edit == RESEALED:
        reseal(release, folder)


@pytest.mark.parametrize(("settled", "edit"), EDITED, indirect=["settled"])
def test_edited_bundle_is_refused_by_name(edit: str, settled: Case):
    published, spent = settled.publish(), settled.spent
    tamper(edit, settled.release, published.folder)
    place = published.folder.relative_to(settled.project.home.released)
    remedy = "made again from its answers at no cost" if settled.is_dp else "put a copy"
    for read in (settled.publish, lambda: require_intact(settled.release, published.folder)):
        with pytest.raises(Damaged, match=remedy) as refused:
            read()
        assert str(refused.value).startswith(f"bundle {place} is {ANOTHER}: ")
        assert len(str(refused.value).splitlines()) == 1
    assert settled.spent == spent


@pytest.fixture
def spec(released_rides: Project) -> DatasetSpec:
    return released_rides.declare("rides", RIDES)


def bundle_folder(project: Project) -> Path:
    (path,) = project.home.released.rglob("bundle.json")
    return path.parent


def evaluations(project: Project, spec: DatasetSpec) -> dict[str, Any]:
    folder = project.home.internal / spec.name / "evaluation"
    return {path.stem: replay.read_document(path) for path in folder.glob("*.json")}


def follow_a_pointer(project: Project, spec: DatasetSpec) -> object:
    pointer = replay.read_document(project.home.released / POINTER)
    return replay.pointed_bundle(spec, project.home, pointer, model="dpqt_kmeans", epsilon="0.5")


READERS: tuple[Callable[[Project, DatasetSpec], object], ...] = (
    lambda project, spec: project.publish(spec),
    lambda project, spec: list(release_results(project.request(spec, epsilons=["0.5"]))),
    lambda project, spec: compare(spec, project.home, evaluations(project, spec)),
    follow_a_pointer,
)


@pytest.mark.parametrize("edit", ["a fact", "a row of its table", "one more file", RESEALED])
def test_every_reader_refuses_an_edited_bundle(edit, released_rides: Project, spec: DatasetSpec):
    assert all(read(released_rides, spec) for read in READERS)
    before = released_rides.files("internal")
    tamper(edit, released_rides.release(spec), bundle_folder(released_rides))
    for read in READERS:
        with pytest.raises(Damaged, match=ANOTHER):
            read(released_rides, spec)
    assert released_rides.files("internal") == before
    assert released_rides.spent(spec) == Fraction("0.55")


@pytest.mark.parametrize("settled", ["k-anonymous"], indirect=True)
@pytest.mark.parametrize("file", ["card.md", "released.parquet", "bundle.json"])
def test_k_anonymous_readers_refuse_an_edited_bundle(file: str, settled: Case):
    project, spec, anonymous = settled.project, settled.spec, settled.publish()
    folder = anonymous.folder.relative_to(project.home.released)
    pointer = {"folder": str(folder), "state": "charged", "nano": "0"}
    path = project.home.released / "patients/k_anonymous/kjig/partition-2.json"
    path.write_text(json.dumps({"format": FORMAT, "value": pointer}), encoding="utf-8")
    options = RunOptions(spec, KAnonymousRelease, ["kjig"], ["2"], project.home)
    evaluated = {"2": {"pointers": {"kjig": pointer}, "rows": []}}
    readers: tuple[Callable[[], object], ...] = (
        settled.publish,
        lambda: list(release_results(options)),
        lambda: compare_k_anonymous(spec, project.home, evaluated),
    )
    assert all(read() for read in readers)
    content = (anonymous.folder / file).read_bytes()
    (anonymous.folder / file).write_bytes(content.replace(b"NOT ", b"") + b" ")
    for read in readers:
        with pytest.raises(Damaged, match=rf"bundle {folder} is {ANOTHER}: put a copy"):
            read()


@pytest.mark.parametrize("name", ["model", "epsilon", "dataset"])
def test_pointer_to_another_release_is_refused(name, released_rides: Project, spec: DatasetSpec):
    pointer = replay.read_document(released_rides.home.released / POINTER)
    expected = {"model": "dpqt_kmeans", "epsilon": "0.5", name: "another"}
    if name == "dataset":
        del expected["dataset"]
        spec = replace(spec, name="another")
    command = f"`dp-pipeline run {spec.name} --model {expected['model']} --epsilon "
    words = f"must name a release whose {name} is another, but it names .*: run {command}"
    with pytest.raises(Damaged, match=words):
        replay.pointed_bundle(spec, released_rides.home, pointer, **expected)


def test_pointer_out_of_the_store_is_refused(released_rides: Project, spec: DatasetSpec):
    folder = bundle_folder(released_rides)
    shutil.copytree(folder, outside := released_rides.folder / "outside")
    for named in ("../../outside", str(outside)):
        with pytest.raises(Damaged, match="must name the folder of a release in"):
            replay.pointed_bundle(spec, released_rides.home, {"folder": named})


Stored = tuple[Project, EpsilonRelease, PublishedBundle]


@pytest.fixture
def stored(rides: Project) -> Stored:
    spec = rides.declare("rides", RIDES)
    return rides, rides.release(spec), rides.publish(spec)


def of_two_centres(stored: Stored) -> Stored:
    """Other centres of the same answers: the ledger has no digest of their bundle."""
    project, *_ = stored
    other = project.declare("rides", RIDES, models=TWO)
    published = project.publish(other)
    assert published.state == "replayed"
    return project, project.release(other), published


@pytest.mark.parametrize("level", ["bundles", "releases", "variants"])
def test_bundles_that_change_places_are_refused(level: str, rides: Project):
    spec = rides.declare("rides", RIDES)
    first = rides.publish(spec)
    if level == "variants":
        spec_of_other, options = rides.declare("rides", RIDES, models=TWO), {}
    else:
        spec_of_other, options = spec, {"epsilon": "0.1"}
    second = rides.publish(spec_of_other, **options)
    folders = [first.folder, second.folder]
    if level == "releases":
        # Transcript and bundle of one in the place of the other's.
        folders = [folder.parent for folder in folders]
    away = folders[0].rename(rides.folder / "away")
    folders[1].rename(folders[0])
    away.rename(folders[1])
    for read in (lambda: rides.publish(spec), lambda: rides.publish(spec_of_other, **options)):
        with pytest.raises(Damaged, match=ANOTHER):
            read()


@pytest.mark.parametrize("edit", ["a fact", "the code", "a row of its table"])
def test_bundle_that_no_ledger_row_names_is_refused(edit: str, stored: Stored):
    project, release, published = of_two_centres(stored)
    EDITS[edit](published.folder)
    with pytest.raises(Damaged, match=ANOTHER):
        project.publish(release.spec)


def test_seal_is_of_one_population_and_one_place(stored: Stored):
    project, _, published = stored
    store, key = BundleStore(project.home.released), project.ledger.key("riders")
    assert store.read_sealed(published.folder, key=key).key == published.bundle.key
    copy = published.folder.with_name("bundle-copy")
    shutil.copytree(published.folder, copy)
    for folder, secret in ((published.folder, bytes(32)), (copy, key)):
        with pytest.raises(Damaged):
            store.read_sealed(folder, key=secret)


def test_rebuilt_bundle_by_newer_code_says_so(rides: Project, monkeypatch):
    spec = rides.declare("rides", RIDES, evaluation=None)
    first = rides.publish(spec)
    shutil.rmtree(first.folder)
    real = EpsilonRelease.draw_bundle

    def newer(*arguments: Any, **named: Any) -> Bundle:
        bundle = real(*arguments, **named)
        centres = {name: values + 1 for name, values in bundle.tables["centres"].items()}
        return replace(bundle, tables={**bundle.tables, "centres": centres})

    with monkeypatch.context() as patch:
        # The same answers, and other numbers made of them.
        patch.setattr(EpsilonRelease, "draw_bundle", newer)
        again = rides.publish(spec)
    assert again.bundle.to_json() != first.bundle.to_json()
    assert replay.MADE_AGAIN in again.bundle.facts
    assert replay.MADE_AGAIN not in first.bundle.facts
    assert rides.publish(spec).bundle.to_json() == again.bundle.to_json()
    EDITS["a fact"](again.folder)
    with pytest.raises(Damaged, match=ANOTHER):
        rides.publish(spec)


def forged(release: Release, published: PublishedBundle, change: Callable[[dict], object]) -> Any:
    edit_document(published.folder, change)
    return replace(published, bundle=reseal(release, published.folder))


def cheaper(document: dict) -> None:
    """Other charges, of the same sum."""
    first, second = document["spends"][:2]
    part = Fraction(first["epsilon"]) / 2
    first["epsilon"] = str(part)
    second["epsilon"] = str(Fraction(second["epsilon"]) + part)


def better(fact: str) -> Callable[[dict], object]:
    return lambda document: document["facts"].update({fact: "better"})


@pytest.mark.parametrize(
    ("is_settled", "change", "words"),
    [
        (True, cheaper, ANOTHER),
        (True, better("releasable"), ANOTHER),
        (False, cheaper, "the charges are not those of the ledger: restore the folder"),
        *(
            (False, better(fact), f"the fact {fact} is not that of the ledger")
            for fact in ("releasable", "unit", "population")
        ),
    ],
)
def test_forged_bundle_is_seen_by_both_checks(change, words, stored: Stored, *, is_settled):
    _, release, published = stored if is_settled else of_two_centres(stored)
    assert faults(release, published) == {INTACT: None, REBUILT: None}
    fault_lines = faults(release, forged(release, published, change))
    assert words in str(fault_lines[INTACT])
    assert "the stored answers do not give this release again" in str(fault_lines[REBUILT])


def test_changed_number_is_seen_and_not_told(stored: Stored):
    _, release, published = stored
    for path in sorted(published.folder.glob("*.parquet")):
        content, table = path.read_bytes(), pq.read_table(path)
        column = table.column_names[0]
        secret = pa.array([7.125] * table.num_rows)
        pq.write_table(table.set_column(0, column, secret), path)
        line = str(faults(release, published)[INTACT])
        assert (ANOTHER in line, "7.125" in line) == (True, False), path.name
        path.write_bytes(content)
    assert faults(release, published)[INTACT] is None


@pytest.mark.parametrize("change", ["other answers", "an answer less"])
def test_changed_transcript_is_seen_by_both_checks(change: str, stored: Stored):
    _, release, published = stored
    key = replay.key_of(release, published.bundle)
    path = release.store.transcript_path(key)
    transcript, lines = Transcript(path), path.read_bytes().splitlines(keepends=True)
    if change == "an answer less":
        path.write_bytes(b"".join(lines[:-1]))
    else:
        path.unlink()
        Transcript.create(path, key.digest)
        other = Transcript(path)
        for record in transcript.records[1:]:
            other.store(record.question, record.answer + 1)
    fault_lines = faults(release, published)
    assert "The transcript of rides/dpqt_kmeans at ε=0.5" in str(fault_lines[INTACT])
    assert fault_lines[REBUILT] is not None


def by_older_code(published: PublishedBundle, **changes: Any) -> PublishedBundle:
    facts = {**published.bundle.facts, "code": "dp_pipeline 0"}
    return replace(published, bundle=replace(published.bundle, facts=facts, **changes))


def test_other_code_that_rebuilds_otherwise_is_a_warning(stored: Stored, monkeypatch):
    _, release, published = stored
    alike = checks.release_checks(release, by_older_code(published))[-1]
    assert (alike.check_name, alike.passed) == (REBUILT, True)
    monkeypatch.setattr(releasing, "code_version", lambda *_: "dp_pipeline 99")
    turned = replace(published.bundle, spends=published.bundle.spends[::-1])
    other = replace(published, bundle=turned)
    warned = checks.release_checks(release, other)[-1]
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_release_by_the_code_of_today_is_not_fitted_again(stored: Stored, monkeypatch):
    project, release, published = stored

    def fitted(*_: object, **__: object) -> None:
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(ModelFit, "fit_model", fitted)
    assert project.publish(release.spec).state == "replayed"
    assert all(check.passed for check in checks.release_checks(release, published)[-2:])
    with pytest.raises(AssertionError, match="a model was fitted"):
        checks.release_checks(release, by_older_code(published))


SPENT_BY = ["clustering", "table", "domain", "two windows", "refinement"]


@pytest.mark.parametrize("settled", SPENT_BY, indirect=True)
def test_spend_that_was_not_drawn_is_seen(settled: Case):
    release, published = settled.release, settled.publish()
    first, *other_spends = published.bundle.spends
    cheat = replace(published.bundle, spends=(replace(first, scale=first.scale / 2), *other_spends))
    run_checks = checks.domain_checks if settled.name == "domain" else checks.release_checks
    for bundle, is_sound in ((published.bundle, True), (cheat, False)):
        results = run_checks(release, replace(published, bundle=bundle))
        passed = {result.check_name: result.passed for result in results}
        assert passed["spent_equals_claim"] is is_sound


def test_no_other_file_reads_a_bundle_without_the_ledger():
    files = [*Path(dp_pipeline.__file__).parent.rglob("*.py")]
    for words, rooms in ((".read_sealed(", {"publish", "replay"}), ('"bundle.json"', {"store"})):
        assert {path.stem for path in files if words in path.read_text("utf-8")} == rooms
