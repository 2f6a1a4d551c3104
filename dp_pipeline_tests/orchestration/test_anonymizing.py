"""A k-anonymous release: recorded before the first look, made once, replayed without one."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.method import Recoding, Unchanged
from dp_pipeline.config.dataset import DatasetSpec, KAnonymity
from dp_pipeline.config.errors import BoundaryViolation, Damaged, DeclarationError, NotPrepared
from dp_pipeline.ledger import Ledger, Reservation
from dp_pipeline.raw.snapshot import forget_preparation
from dp_pipeline.releases import evaluate as evaluating
from dp_pipeline.releases import k_anonymous_release
from dp_pipeline.releases.evaluate import evaluate
from dp_pipeline.releases.k_anonymous_release import guarantee_for
from dp_pipeline.releases.k_anonymous_tables import k_anonymous_tables, keeps_guarantee, measures_of
from dp_pipeline.releases.publish import publish
from dp_pipeline.results.bundle import table_digest
from dp_pipeline_tests.orchestration.patients import (
    LONELY,
    PATIENTS,
    ROWS,
    WARD,
    anonymized,
    declare,
    prepared,
    release_of,
)
from dp_pipeline_tests.orchestration.projects import Project

pytestmark = pytest.mark.chain


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    """PATIENTS with their rows prepared."""
    spec = declare(project)
    prepared(project, spec)
    return spec


def not_dp_rows(ledger: Ledger) -> list[str]:
    return [entry.what for entry in ledger.not_dp_releases("ward")]


def events_of(ledger: Ledger) -> list[str]:
    """What became of k-anonymous releases, in order."""
    return [entry.event for entry in ledger.entries("ward") if entry.kind == "not-dp"]


def modes(folder: Path) -> dict[str, int]:
    """Of the bundle in ``folder``, what lies in it, and its release's folder."""
    kinds = {"the release": folder.parent, "bundle": folder, "text": folder / "bundle.json"}
    kinds["table"] = next(folder.glob("*.parquet"))
    return {name: stat.S_IMODE(path.stat().st_mode) for name, path in kinds.items()}


def unread(*_: object) -> None:
    raise AssertionError("somebody looked at the rows")


def test_a_release_is_recorded_without_epsilon_and_settled(project: Project, spec: DatasetSpec):
    made = anonymized(project, spec)
    assert made.state == "charged"
    assert events_of(project.ledger) == ["reserve", "settled"]
    assert not_dp_rows(project.ledger) == ["patients/k_anonymous/kjig at K=2"]
    assert project.spent(spec) == 0
    assert project.ledger.balance("ward").not_dp == 1
    project.ledger.verify()


def test_the_row_is_in_the_ledger_before_the_first_look(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    seen: list[list[str]] = []
    look = k_anonymous_release.coded_rows

    def looked(*of: object) -> object:
        seen.append(events_of(project.ledger))
        return look(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(k_anonymous_release, "coded_rows", looked)
    anonymized(project, spec)
    assert seen == [["reserve"]]


def test_the_bundle_is_on_disk_before_the_row_is_settled(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    release = release_of(project, spec)
    key = release.key(project.snapshot(spec))
    folder = release.store.bundle_path(key, {})
    settled: list[bool] = []
    settle = Reservation.settle

    def watched(*given: Any, **named: Any) -> None:
        settled.append(folder.is_dir())
        settle(*given, **named)

    monkeypatch.setattr(Reservation, "settle", watched)
    anonymized(project, spec)
    assert settled == [True]


def test_the_bundle_lies_below_data_set_and_method_under_its_key(
    project: Project, spec: DatasetSpec
):
    made = anonymized(project, spec, method="mutual_information", k=5)
    below = made.folder.relative_to(project.home.released)
    assert below.parts[:3] == ("patients", "k_anonymous", "mutual_information")
    assert made.bundle.key.startswith(below.parts[3])
    assert {path.name for path in made.folder.iterdir()} == {
        *("bundle.json", "card.md", "seal"),
        *(f"{name}.parquet" for name in ("released", "columns", "measures", "suppressed")),
    }


@pytest.mark.parametrize("method", ["kjig", "mutual_information"])
@pytest.mark.parametrize("k", [2, 5])
def test_every_class_of_the_released_rows_has_k_rows(
    method: str, k: int, project: Project, spec: DatasetSpec
):
    bundle = anonymized(project, spec, method=method, k=k).bundle
    released = bundle.tables["released"]
    assert list(released)[-1] == "ill"
    lines = list(zip(*(v.tolist() for name, v in released.items() if name != "ill"), strict=True))
    assert min(map(lines.count, lines)) >= k
    assert measures_of(bundle)["k"] == min(map(lines.count, lines))
    assert keeps_guarantee(bundle)


def test_rows_and_columns_lie_in_an_order_of_their_own(project: Project, spec: DatasetSpec):
    before = anonymized(project, spec, method="mutual_information").bundle
    lines = list(zip(*(v.tolist() for v in before.tables["released"].values()), strict=True))
    assert lines == sorted(lines)
    names = before.tables["columns"]["name"].tolist()
    assert names == [name for name in before.tables["released"] if name != "ill"]
    sources = before.tables["columns"]["source"].tolist()
    assert sources == sorted(sources, key=["age", "sex"].index), "the order in which they were kept"
    project.write_rows("patients.csv", ["age,sex,ill", *reversed(ROWS)])
    prepared(project, spec, "turned")
    after = anonymized(project, spec, method="mutual_information").bundle
    assert after.key != before.key
    digests = [{n: table_digest(t) for n, t in one.tables.items()} for one in (before, after)]
    assert digests[0] == digests[1], "the order of the source is in it"


def test_a_second_run_replays_the_same_bytes_and_looks_at_nothing(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    first = anonymized(project, spec)
    stored = project.files("released")
    ledger = project.ledger.entries()
    monkeypatch.setattr(k_anonymous_release, "coded_rows", unread)
    (project.snapshot(spec).table_path("discretized")).unlink()
    again = anonymized(project, spec)
    assert again.state == "replayed"
    assert again.bundle.to_json() == first.bundle.to_json()
    assert project.files("released") == stored
    assert project.ledger.entries() == ledger


def test_of_several_at_once_one_looks_and_the_others_replay(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    looks: list[object] = []
    look = k_anonymous_release.coded_rows

    def looked(*of: object) -> object:
        looks.append(of)
        return look(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(k_anonymous_release, "coded_rows", looked)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: anonymized(project, spec), range(4)))
    assert sorted(one.state for one in made) == ["charged", *["replayed"] * 3]
    assert len({one.bundle.to_json() for one in made}) == len(looks) == 1
    assert events_of(project.ledger) == ["reserve", "settled"]


def test_what_is_asked_otherwise_is_another_release(project: Project, spec: DatasetSpec):
    known = {**PATIENTS["k_anonymity"], "methods": {"kjig": {}, "rfka": {"trees": "10"}}}
    snapshot, keys = project.snapshot(spec), []
    for changes in (
        {},
        {"seed": "7"},
        {"suppress": "0.1"},
        {"diversity": "1"},
        {"attributes": "age"},
        {"methods": {"kjig": {}, "rfka": {"trees": "11"}}},
    ):
        other = declare(project, k_anonymity={**known, **changes})
        keys.append(release_of(project, other, method="rfka", k=2).key(snapshot).digest)
        keys.append(release_of(project, other, method="rfka", k=5).key(snapshot).digest)
    # Without a declared diversity rfka has 1 already.
    assert len(set(keys)) == len(keys) - 2
    assert keys[:2] == keys[6:8]


def test_release_data_that_the_file_does_not_allow_is_refused_and_nothing_recorded(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    spec = declare(project)
    prepared(project, spec)
    unallowed = replace(spec, allow_not_dp=False)
    before = project.ledger.entries()
    monkeypatch.setattr(k_anonymous_release, "coded_rows", unread)
    with pytest.raises(DeclarationError, match="expected `allow_not_dp: true`"):
        anonymized(project, unallowed)
    assert project.ledger.entries() == before
    assert not (project.home.released / "patients").exists()


def test_a_file_that_does_not_allow_it_is_refused_when_it_is_loaded(project: Project):
    with pytest.raises(DeclarationError, match=r"k_anonymity: expected `allow_not_dp: true`"):
        declare(project, allow_not_dp=None)


@pytest.mark.parametrize("k", [0, 1])
def test_a_k_that_promises_nothing_is_refused_on_release_data(
    k: int, project: Project, spec: DatasetSpec
):
    declared = KAnonymity(**{**vars(spec.k_anonymity), "partitions": (k, 2)})
    other = replace(spec, k_anonymity=declared)
    with pytest.raises(DeclarationError, match="expected a K of at least 2"):
        anonymized(project, other, k=k)
    assert not_dp_rows(project.ledger) == []


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"k": 3}, "K: expected one of 2, 5, got 3"),
        ({"method": "rfka"}, "method: expected one of kjig, mutual_information, got 'rfka'"),
    ],
)
def test_what_is_not_declared_is_refused(
    what: dict[str, object], words: str, project: Project, spec: DatasetSpec
):
    with pytest.raises(DeclarationError, match=words):
        anonymized(project, spec, **what)
    assert not_dp_rows(project.ledger) == []


def test_a_data_set_without_the_section_has_no_such_release(project: Project):
    spec = declare(project, k_anonymity=None)
    prepared(project, spec)
    with pytest.raises(DeclarationError, match="expected a section `k_anonymity`, got none"):
        anonymized(project, spec)


def test_rows_that_were_not_prepared_are_not_read_and_nothing_is_recorded(project: Project):
    spec = declare(project)
    with pytest.raises(NotPrepared):
        anonymized(project, spec)
    prepared(project, spec)
    forget_preparation(project.snapshot(spec))
    with pytest.raises(NotPrepared):
        anonymized(project, spec)
    assert not_dp_rows(project.ledger) == []


TOO_FEW: dict[str, tuple[Sequence[str], str]] = {
    "fewer rows than K": (ROWS[:4], "k-anonymity: expected at least K=5 rows, got fewer"),
    "nobody": ((), "k-anonymity: expected at least K=5 rows, got fewer"),
    "one label": (
        [row.replace("yes", "no") for row in ROWS],
        "diversity: expected at least 2 different labels, got fewer",
    ),
}


@pytest.mark.parametrize("population", TOO_FEW)
def test_where_no_table_keeps_the_promise_nothing_is_released_and_the_row_stays(
    population: str, project: Project
):
    rows, words = TOO_FEW[population]
    spec = declare(project, rows=rows)
    prepared(project, spec)
    for _ in range(2):
        with pytest.raises(TooFewRows) as refused:
            anonymized(project, spec, k=5)
        assert str(refused.value) == f"patients/k_anonymous/kjig at K=5: {words}"
        assert refused.value.exit_code == 1
    assert not list(project.home.released.rglob("*.json"))
    assert not_dp_rows(project.ledger) == ["patients/k_anonymous/kjig at K=5"]
    assert events_of(project.ledger) == ["reserve", "interrupted"], "it was looked at twice"


@pytest.mark.parametrize("rows", [(), ROWS[:1]], ids=["nobody", "one row"])
def test_a_k_that_promises_nothing_releases_whatever_there_is(
    rows: Sequence[str], project: Project
):
    spec = declare(project, WARD, rows=rows, k_anonymity={"methods": {"kjig": {}}})
    prepared(project, spec)
    made = anonymized(project, spec, k=0)
    assert measures_of(made.bundle)["rows"] == len(rows)
    assert keeps_guarantee(made.bundle)
    assert anonymized(project, spec, k=0).bundle.to_json() == made.bundle.to_json()
    rows = evaluate(spec, project.home, {"kjig": made.bundle})
    figures = {row.metric: row.value for row in rows}
    assert np.isnan(figures["auc"])
    assert "NOT k-ANONYMOUS (K = 0)" in (made.folder / "card.md").read_text(encoding="utf-8")


def test_identical_rows_are_one_class(project: Project):
    spec = declare(project, rows=["25,f,yes", "25,f,no"] * 4)
    prepared(project, spec)
    found = measures_of(anonymized(project, spec, k=5).bundle)
    assert (found["classes"], found["k"], found["homogeneous_rows"]) == (1, 8, 0)


def test_missing_values_everywhere_are_a_level_of_their_own(project: Project):
    attributes = {
        "age": {"bounds": ["0", "80"], "bins": "4", "nullable": "true"},
        "sex": {"levels": ["f", "m"], "nullable": "true"},
        "ill": {"levels": ["no", "yes"]},
    }
    spec = declare(project, rows=[",,yes", ",,no"] * 3, attributes=attributes)
    prepared(project, spec)
    bundle = anonymized(project, spec, k=5).bundle
    assert (measures_of(bundle)["classes"], measures_of(bundle)["rows"]) == (1, 6)
    some = [*[",,yes", ",,no"] * 3, *["10,f,yes", "10,f,no"] * 3]
    spec = declare(project, rows=some, attributes=attributes)
    prepared(project, spec, "some")
    bundle = anonymized(project, spec, k=5).bundle
    assert (measures_of(bundle)["classes"], measures_of(bundle)["k"]) == (2, 6)
    assert keeps_guarantee(bundle)


def test_without_quasi_identifiers_the_file_is_refused(project: Project):
    only = {"ill": {"levels": ["no", "yes"]}}
    with pytest.raises(DeclarationError, match=r"attributes: expected attributes with cells"):
        declare(project, attributes=only)
    numbers = {"age": {"bounds": ["0", "80"]}, **only}
    with pytest.raises(DeclarationError, match=r"expected attributes with cells"):
        declare(project, attributes=numbers)


SOME = {**PATIENTS["k_anonymity"], "suppress": "0.05"}


def test_public_rows_are_left_out_as_declared_and_counted_by_label(project: Project):
    spec = declare(project, WARD, rows=[*LONELY, "50,m,yes"], k_anonymity=SOME)
    prepared(project, spec)
    bundle = anonymized(project, spec, method="mutual_information", k=5).bundle
    left_out = bundle.tables["suppressed"]
    assert left_out["label"].tolist() == ["no", "yes"]
    assert left_out["rows"].tolist() == [0, 1]
    assert left_out["share"].tolist() == [0, 1 / 16]
    assert measures_of(bundle)["rows"] == 30


def test_of_sensitive_rows_that_are_left_out_the_total_is_told_alone(project: Project):
    spec = declare(project, rows=[*LONELY, "50,m,yes"], k_anonymity=SOME)
    prepared(project, spec)
    made = anonymized(project, spec, method="mutual_information", k=5)
    assert {name: v.tolist() for name, v in made.bundle.tables["suppressed"].items()} == {
        "rows": [1]
    }
    assert measures_of(made.bundle)["rows"] == 30
    card = (made.folder / "card.md").read_text(encoding="utf-8")
    assert "1 row, where at most 5 % could be. This number is exact.\n" in card


def test_what_tells_labels_of_public_rows_is_no_release_of_sensitive_ones(project: Project):
    sensitive, public = declare(project), declare(project, WARD)
    prepared(project, sensitive)
    snapshot = project.snapshot(sensitive)
    keys = {release_of(project, spec).key(snapshot).digest for spec in (sensitive, public)}
    assert sensitive.digest == public.digest
    assert len(keys) == 2


@pytest.mark.parametrize("method", ["kjig", "mondrian"])
def test_containment_is_measured_of_bits_and_never_of_boxes(method: str, project: Project):
    attributes = {**PATIENTS["attributes"], "age": {"bounds": ["0", "80"], "bins": "2"}}
    methods = {"kjig": {"shape": "columns"}, "mondrian": {}}
    known = {"methods": methods, "partitions": ["2"], "diversity": "1"}
    spec = declare(project, WARD, rows=ROWS * 2, attributes=attributes, k_anonymity=known)
    prepared(project, spec)
    found = measures_of(anonymized(project, spec, method=method).bundle)
    assert found["classes"] > 1
    assert np.isnan(found["containment_k"]) == (method == "mondrian")


@pytest.mark.parametrize("method", ["kjig", "mondrian"])
def test_bins_that_differ_after_six_digits_lose_no_column(method: str, project: Project):
    attributes = {
        **PATIENTS["attributes"],
        "age": {"bounds": ["20200100", "20200110"], "bins": "10"},
    }
    rows = [f"{20200100 + at}.5,f,{ill}" for at in range(10) for ill in ("no", "yes") * 3]
    known = {"methods": {"kjig": {}, "mondrian": {}}, "partitions": ["5"]}
    spec = declare(project, WARD, rows=rows, attributes=attributes, k_anonymity=known)
    prepared(project, spec)
    tables = anonymized(project, spec, method=method, k=5).bundle.tables
    names = tables["columns"]["name"].tolist()
    assert [name for name in tables["released"] if name != "ill"] == names
    texts = zip(*(v.tolist() for n, v in tables["released"].items() if n != "ill"), strict=True)
    assert len(set(texts)) == 10, "a class a day"


@pytest.mark.parametrize("names", [("age", "age"), ("age", "ill")], ids=["twice", "as the label"])
def test_a_table_with_two_columns_of_one_name_is_refused(names: tuple[str, str]):
    columns = tuple(Column(name, ("a", "b")) for name in names)
    rows = CodedRows(columns, np.array([[0, 1], [0, 1]]), np.array([0, 1]), ("no", "yes"))
    everything = Recoding(Unchanged(columns), np.zeros(2, dtype=np.bool_))
    with pytest.raises(BoundaryViolation, match="expected columns of different names"):
        k_anonymous_tables(rows, everything, KAnonymityGuarantee(2), label="ill", is_public=True)


def test_what_the_file_does_not_allow_is_not_evaluated_and_its_rows_are_not_read(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    bundle = anonymized(project, spec).bundle
    unallowed = replace(spec, allow_not_dp=False)
    monkeypatch.setattr(evaluating, "coded_rows", unread)
    with pytest.raises(DeclarationError, match="expected `allow_not_dp: true`"):
        evaluate(unallowed, project.home, {"kjig": bundle})
    assert not (project.snapshot(spec).folder / "custodian").exists()


def test_a_bundle_that_was_exchanged_whole_is_refused(project: Project, spec: DatasetSpec):
    first = anonymized(project, spec)
    other = anonymized(project, spec, k=5)
    for path in first.folder.iterdir():
        path.write_bytes((other.folder / path.name).read_bytes())
    with pytest.raises(Damaged, match="expected it as it was stored, got another"):
        anonymized(project, spec)


@pytest.mark.parametrize("name", ["bundle.json", "released.parquet", "card.md", "seal"])
def test_a_bundle_that_lost_a_part_is_refused(name: str, project: Project, spec: DatasetSpec):
    (anonymized(project, spec).folder / name).unlink()
    with pytest.raises(Damaged, match="expected it as it was stored, got another"):
        anonymized(project, spec)


def test_a_method_that_breaks_its_promise_releases_nothing(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    release = release_of(project, spec)
    careless = guarantee_for(release.declared, "kjig", k=0)
    recode = release.method.recode
    monkeypatch.setattr(
        type(release.method),
        "recode",
        lambda _, rows, __, *, seed: recode(rows, careless, seed=seed),
    )
    with pytest.raises(BoundaryViolation, match="expected a table that keeps its promise"):
        publish(release)
    assert not list(project.home.released.rglob("*.json"))


def test_the_card_lies_with_the_bundle_and_says_that_it_is_no_privacy(
    project: Project, spec: DatasetSpec
):
    made = anonymized(project, spec)
    card = (made.folder / "card.md").read_text(encoding="utf-8")
    assert card.startswith("# NOT DIFFERENTIALLY PRIVATE")
    assert "K = 2" in card
    assert "allow\\_not\\_dp" in card or "allow_not_dp" in card


def test_a_release_that_the_file_allows_may_leave_and_one_of_a_benchmark_may_not(
    project: Project, spec: DatasetSpec
):
    made = anonymized(project, spec).bundle
    assert (made.kind, made.model, made.spent_text) == ("not-dp", "kjig", "none")
    made.require_exportable()
    public = Project(project.folder / "public")
    ward = declare(public, WARD)
    prepared(public, ward)
    shown = anonymized(public, ward).bundle
    with pytest.raises(BoundaryViolation, match="not differentially private: k-anonymity has no ε"):
        shown.require_exportable()


def test_kjig_keeps_two_labels_a_class_where_the_label_is_sensitive():
    sensitive = KAnonymity({"kjig": {}}, ("age",))
    assert guarantee_for(sensitive, "kjig", k=5).diversity == 2
    assert guarantee_for(sensitive, "rfka", k=5).diversity == 1
    assert guarantee_for(sensitive, "kjig", k=0).is_empty, "K = 0 keeps everything"
    open_label = KAnonymity({"kjig": {}}, ("age",), sensitive_label=False)
    assert guarantee_for(open_label, "kjig", k=5).diversity == 1
    declared = KAnonymity({"kjig": {}}, ("age",), diversity=3)
    assert {guarantee_for(declared, name, k=5).diversity for name in ("kjig", "rfka")} == {3}


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("method", ["kjig", "rfka"])
def test_a_k_that_promises_nothing_promises_no_diversity_even_where_it_is_declared(
    method: str, k: int
):
    declared = KAnonymity({method: {}}, ("age",), diversity=3)
    assert guarantee_for(declared, method, k=k).is_empty


def test_a_release_without_epsilon_is_as_open_as_one_with(project: Project, spec: DatasetSpec):
    published = project.publish(spec, model="independent", epsilon="1")
    without, with_epsilon = modes(anonymized(project, spec).folder), modes(published.folder)
    assert without["the release"] == with_epsilon["the release"] == 0o700
    assert without == with_epsilon
