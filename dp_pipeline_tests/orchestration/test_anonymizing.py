"""A k-anonymous release: what its table promises, what it is called, and what is refused."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import Recoding, Unchanged
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.config.sections import KAnonymity
from dp_pipeline.ledger import Ledger
from dp_pipeline.releases import evaluate as evaluating
from dp_pipeline.releases import k_anonymous_release
from dp_pipeline.releases.evaluate import evaluate
from dp_pipeline.releases.k_anonymous_release import guarantee_for
from dp_pipeline.releases.k_anonymous_tables import (
    AUC,
    ONE_LABEL_AUC,
    k_anonymous_tables,
    keeps_guarantee,
    measures_of,
)
from dp_pipeline.releases.publish import publish
from dp_pipeline.releases.release import OTHER_NON_DP, other_non_dp_releases
from dp_pipeline.releases.report import compare
from dp_pipeline.results.bundle import Bundle, table_digest
from dp_pipeline_tests.orchestration import patients
from dp_pipeline_tests.orchestration.events import materializations
from dp_pipeline_tests.orchestration.faults import stopped
from dp_pipeline_tests.orchestration.patients import ROWS, WARD, anonymized, declare, ready
from dp_pipeline_tests.orchestration.projects import Project


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return ready(project)


def recorded(ledger: Ledger) -> list[str]:
    return [entry.what for entry in ledger.not_dp_releases("ward")]


def lines_of(bundle: Bundle) -> list[tuple[str, ...]]:
    released = bundle.tables["released"]
    columns = [values.tolist() for name, values in released.items() if name != "ill"]
    return list(zip(*columns, strict=True))


def test_bundle_lies_below_data_set_and_method(project: Project, spec: DatasetSpec):
    published = anonymized(project, spec, method="mutual_information", k=5)
    below = published.folder.relative_to(project.home.released)
    assert below.parts[:3] == ("patients", "k_anonymous", "mutual_information")
    assert published.bundle.key.startswith(below.parts[3])
    assert keeps_guarantee(published.bundle)
    assert {path.name for path in published.folder.iterdir()} == {
        *("bundle.json", "card.md", "seal"),
        *(f"{name}.parquet" for name in ("released", "columns", "measures", "suppressed")),
    }
    assert recorded(project.ledger) == ["patients/k_anonymous/mutual_information at K=5"]


def test_rows_and_columns_lie_in_an_order_of_their_own(project: Project, spec: DatasetSpec):
    before = anonymized(project, spec, method="mutual_information").bundle
    lines = list(zip(*(v.tolist() for v in before.tables["released"].values()), strict=True))
    assert lines == sorted(lines)
    names = before.tables["columns"]["name"].tolist()
    assert names == [name for name in before.tables["released"] if name != "ill"]
    sources = before.tables["columns"]["source"].tolist()
    assert sources == sorted(sources, key=["age", "sex"].index), "the order in which they were kept"
    after_spec = ready(project, rows=[*reversed(ROWS)], snapshot="turned")
    after = anonymized(project, after_spec, method="mutual_information").bundle
    assert after.key != before.key
    digests = [{n: table_digest(t) for n, t in bundle.tables.items()} for bundle in (before, after)]
    assert digests[0] == digests[1], "the order of the source is in it"


def test_every_declared_setting_makes_another_release(project: Project, spec: DatasetSpec):
    known = {**patients.PATIENTS["k_anonymity"], "methods": {"kjig": {}, "rfka": {"trees": "10"}}}
    trees = {"methods": {"kjig": {}, "rfka": {"trees": "11"}}}
    settings: list[dict[str, Any]] = [{}, {"seed": "7"}, {"suppress": "0.1"}, {"diversity": "1"}]
    snapshot, keys = project.snapshot(spec), []
    for changes in (*settings, {"attributes": "age"}, trees):
        other = declare(project, k_anonymity={**known, **changes})
        for k in (2, 5):
            release = patients.release_of(project, other, method="rfka", k=k)
            keys.append(release.key(snapshot).digest)
    # Without a declared diversity rfka has 1 already.
    assert len(set(keys)) == len(keys) - 2
    assert keys[:2] == keys[6:8]
    public = declare(project, WARD)
    assert spec.digest == public.digest
    first, other = (patients.release_of(project, dataset) for dataset in (spec, public))
    assert first.key(snapshot).digest != other.key(snapshot).digest


def test_release_without_permission_is_not_made(project: Project, spec: DatasetSpec, monkeypatch):
    bundle, forbidden = anonymized(project, spec).bundle, replace(spec, allow_not_dp=False)
    before, words = project.files("ledger", "released", "raw"), "k_anonymity: sensitive rows may be"
    for module in (k_anonymous_release, evaluating):
        monkeypatch.setattr(module, "coded_rows", Mock(side_effect=AssertionError))
    with pytest.raises(DeclarationError, match=words):
        anonymized(project, forbidden, k=5)
    with pytest.raises(DeclarationError, match=words):
        evaluate(forbidden, project.home, {"kjig": bundle})
    assert project.files("ledger", "released", "raw") == before
    with pytest.raises(DeclarationError, match="k_anonymity: expected `allow_not_dp: true`"):
        declare(project, allow_not_dp=None)


@pytest.mark.parametrize("k", [0, 1])
def test_k_that_promises_nothing_is_refused_on_release_data(k, project: Project, spec: DatasetSpec):
    declared = spec.k_anonymity.model_copy(update={"partitions": (k, 2)})
    with pytest.raises(DeclarationError, match="a table of sensitive rows needs a K of at least"):
        anonymized(project, replace(spec, k_anonymity=declared), k=k)
    assert recorded(project.ledger) == []


TOO_FEW: dict[str, tuple[Sequence[str], str]] = {
    "fewer rows than K": (ROWS[:4], "There are fewer rows than K=5: choose a smaller K"),
    "no row": ((), "There are fewer rows than K=5: choose a smaller K"),
    "one label": (
        [row.replace("yes", "no") for row in ROWS],
        "The rows have fewer than 2 different labels: declare a smaller `diversity`",
    ),
}


@pytest.mark.parametrize(("rows", "words"), TOO_FEW.values(), ids=TOO_FEW)
def test_broken_promise_releases_nothing_and_stays_recorded(rows, words, project: Project):
    spec = ready(project, rows=rows)
    for _ in range(2):
        with pytest.raises(TooFewRows) as refused:
            anonymized(project, spec, k=5)
        assert str(refused.value) == f"patients/k_anonymous/kjig at K=5: {words}"
        assert refused.value.exit_code == 1
    assert not list(project.home.released.rglob("*.json"))
    assert recorded(project.ledger) == ["patients/k_anonymous/kjig at K=5"]
    events = [entry.event for entry in project.ledger.entries("ward") if entry.kind == "not-dp"]
    assert events == ["reserve", "interrupted"], "it was looked at twice"


def test_method_that_breaks_its_promise_is_seen(project: Project, spec: DatasetSpec, monkeypatch):
    release = patients.release_of(project, spec)
    careless, recode = guarantee_for(release.declared, "kjig", k=0), release.method.recode

    def break_promise(_: object, rows: CodedRows, __: object, *, seed: int) -> Recoding:
        return recode(rows, careless, seed=seed)

    monkeypatch.setattr(type(release.method), "recode", break_promise)
    with pytest.raises(BoundaryViolation, match="k-anonymous as declared, but it did not: nothing"):
        publish(release)
    assert not list(project.home.released.rglob("*.json"))


def test_file_without_quasi_identifiers_is_refused(project: Project):
    label = {"ill": {"levels": ["no", "yes"]}}
    for attributes in (label, {"age": {"bounds": ["0", "80"]}, **label}):
        with pytest.raises(DeclarationError, match="an attribute besides the label that has"):
            declare(project, attributes=attributes)


@pytest.mark.parametrize("names", [("age", "age"), ("age", "ill")], ids=["twice", "as the label"])
def test_table_with_two_columns_of_one_name_is_refused(names: tuple[str, str]):
    columns = tuple(Column(name, ("a", "b")) for name in names)
    rows = CodedRows(columns, np.array([[0, 1], [0, 1]]), np.array([0, 1]), ("no", "yes"))
    everything = Recoding(Unchanged(columns), np.zeros(2, dtype=np.bool_))
    with pytest.raises(BoundaryViolation, match="The columns of a released table must have"):
        k_anonymous_tables(rows, everything, KAnonymityGuarantee(2), label="ill", is_public=True)


@pytest.mark.parametrize("rows", [(), ROWS[:1]], ids=["no row", "one row"])
def test_k_that_promises_nothing_releases_any_public_rows(rows: Sequence[str], project: Project):
    spec = ready(project, WARD, rows=rows, k_anonymity={"methods": {"kjig": {}}})
    published = anonymized(project, spec, k=0)
    assert measures_of(published.bundle)["rows"] == len(rows)
    assert keeps_guarantee(published.bundle)
    assert anonymized(project, spec, k=0).bundle.to_json() == published.bundle.to_json()
    quality = evaluate(spec, project.home, {"kjig": published.bundle})
    assert np.isnan({row.metric: row.value for row in quality}["auc"])
    assert "NOT k-ANONYMOUS (K = 0)" in (published.folder / "card.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("rows", "classes", "k"),
    [
        (["25,f,yes", "25,f,no"] * 4, 1, 8),
        ([",,yes", ",,no"] * 3, 1, 6),
        ([",,yes", ",,no", "10,f,yes", "10,f,no"] * 3, 2, 6),
    ],
)
def test_rows_alike_are_a_class_and_missing_values_are_a_level(rows, classes, k, project: Project):
    declared = patients.PATIENTS["attributes"]
    nullable = {name: {**declared[name], "nullable": "true"} for name in ("age", "sex")}
    spec = ready(project, rows=rows, attributes=declared | nullable)
    bundle = anonymized(project, spec, k=5).bundle
    measures, lines = measures_of(bundle), lines_of(bundle)
    names = ("classes", "k", "homogeneous_rows")
    assert [measures[name] for name in names] == [classes, k, 0]
    assert (len(set(lines)), min(map(lines.count, lines))) == (classes, k)
    assert list(bundle.tables["released"])[-1] == "ill"
    assert keeps_guarantee(bundle)


@pytest.mark.parametrize("base", [WARD, patients.PATIENTS], ids=["public", "sensitive"])
def test_suppressed_rows_are_counted_of_public_rows_alone(base: dict[str, Any], project: Project):
    some = {**patients.PATIENTS["k_anonymity"], "suppress": "0.05"}
    spec = ready(project, base, rows=[*patients.LONELY, "50,m,yes"], k_anonymity=some)
    published = anonymized(project, spec, method="mutual_information", k=5)
    suppressed = published.bundle.tables["suppressed"]
    by_label = {"label": ["no", "yes"], "rows": [0, 1], "share": [0, 1 / 16]}
    expected = {"rows": [1]} if spec.is_release else by_label
    assert {name: values.tolist() for name, values in suppressed.items()} == expected
    assert measures_of(published.bundle)["rows"] == 30
    line = "1 row, where at most 5 % could be. This number is exact.\n"
    assert (line in (published.folder / "card.md").read_text("utf-8")) is spec.is_release


def test_auc_of_zero_at_one_label_is_a_number(project: Project, monkeypatch):
    recode = Kjig.recode
    monkeypatch.setattr(
        Kjig, "recode", lambda *words, **seed: replace(recode(*words, **seed), auc=0.0)
    )
    measures = measures_of(anonymized(project, ready(project, WARD, rows=ROWS * 2)).bundle)
    assert (measures[AUC], measures[ONE_LABEL_AUC]) == (0, 0)


@pytest.mark.parametrize("method", ["kjig", "mondrian"])
def test_containment_is_measured_of_bits_and_never_of_boxes(method: str, project: Project):
    attributes = {**patients.PATIENTS["attributes"], "age": {"bounds": ["0", "80"], "bins": "2"}}
    methods = {"kjig": {"shape": "columns"}, "mondrian": {}}
    settings = {"methods": methods, "partitions": ["2"], "diversity": "1"}
    spec = ready(project, WARD, rows=ROWS * 2, attributes=attributes, k_anonymity=settings)
    measures = measures_of(anonymized(project, spec, method=method).bundle)
    assert measures["classes"] > 1
    assert np.isnan(measures["containment_k"]) == (method == "mondrian")


def test_allowed_release_may_leave_and_benchmark_may_not(project: Project, spec: DatasetSpec):
    bundle = anonymized(project, spec).bundle
    assert (bundle.kind, bundle.model, bundle.spent_text) == ("not-dp", "kjig", "none")
    bundle.require_exportable()
    public = Project(project.folder / "public")
    public_spec = ready(public, WARD)
    release = anonymized(public, public_spec).bundle
    with pytest.raises(BoundaryViolation, match="not differentially private: k-anonymity has no ε"):
        release.require_exportable()
    # On public rows no later release says that there is one without ε.
    assert public.ledger.balance("ward").not_dp == 1
    assert other_non_dp_releases(public_spec, public.ledger) == []
    later = public.publish(public_spec, model="independent", epsilon="1").bundle
    assert OTHER_NON_DP not in later.facts
    page = compare(public_spec, public.home, {}).path.read_text(encoding="utf-8")
    assert "ALSO RELEASED" not in page


def test_kjig_keeps_two_labels_a_class_for_sensitive_labels():
    def promised(method: str, k: int = 5, **declared: Any) -> KAnonymityGuarantee:
        return guarantee_for(KAnonymity(methods={method: {}}, **declared), method, k=k)

    assert [promised(method).diversity for method in ("kjig", "rfka")] == [2, 1]
    assert promised("kjig", sensitive_label="false").diversity == 1
    for method in ("kjig", "rfka"):
        assert promised(method, diversity="3").diversity == 3
        # A K that promises nothing promises no diversity.
        assert promised(method, k=0).is_empty
        assert all(promised(method, k=k, diversity="3").is_empty for k in (0, 1))


EARLIER = "patients/k_anonymous/kjig at K=2, snapshot 2026-11-22"


def test_every_later_release_of_the_persons_names_it(project: Project, spec: DatasetSpec):
    before = project.publish(spec, model="independent", epsilon="0.5")
    stored = before.bundle.to_json()
    first = anonymized(project, spec)
    after = project.publish(spec, model="independent", epsilon="1").bundle
    other = project.declare("visits", patients.PATIENTS, k_anonymity=None, allow_not_dp=None)
    project.prepare(other)
    of_other = project.publish(other, model="independent", epsilon="1").bundle
    second = anonymized(project, spec, k=5)
    again = project.publish(spec, model="independent", epsilon="1").bundle
    for bundle in (after, of_other, second.bundle, again):
        assert bundle.facts[OTHER_NON_DP] == EARLIER
    assert project.ledger.history(after.key)[0].facts[OTHER_NON_DP] == EARLIER
    assert "kjig at K=2" in (second.folder / "card.md").read_text("utf-8").replace("\\", "")
    # What was released before it does not, made again from its answers or not.
    shutil.rmtree(before.folder)
    rebuilt = project.publish(spec, model="independent", epsilon="0.5").bundle
    assert rebuilt.to_json() == stored
    assert not any(OTHER_NON_DP in bundle.facts for bundle in (rebuilt, first.bundle))


def test_dagster_says_it_of_private_releases_replayed_ones_too(project: Project, spec: DatasetSpec):
    assert project.launch(spec, "independent", partition="0.5").success
    anonymized(project, spec)
    assert project.launch(spec, "independent", partition="0.5").success
    now, then = materializations(project, spec)[dg.AssetKey(["patients", "independent"])]["0.5"]
    assert now["privacy/state"].value == "replayed"
    assert EARLIER in now["privacy/other non-DP releases"].value
    assert "privacy/other non-DP releases" not in then


def test_what_was_started_and_never_finished_is_reported(project: Project, spec: DatasetSpec):
    with stopped("before the first look"):
        anonymized(project, spec)
    assert other_non_dp_releases(spec, project.ledger) == [EARLIER]
