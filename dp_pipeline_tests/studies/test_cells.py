"""Cells of each study: held-out rows, numbers, what they share, and what ends a study."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import anonymity, clustering, tables
from benchmarks.papers.anonymity import USES
from benchmarks.papers.shown import run_study
from benchmarks.papers.study import Benchmark, key_of
from benchmarks.papers.tables import SplitTable
from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.coded_rows import KAnonymityGuarantee
from dp_pipeline.anonymity.method import Recoding, Unchanged
from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.errors import (
    BoundaryViolation,
    DeclarationError,
    NotPrepared,
    PipelineError,
)
from dp_pipeline.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import mark_validated
from dp_pipeline.releases.k_anonymous_release import coded_rows
from dp_pipeline_tests.raw.written import ingested, written_spec
from dp_pipeline_tests.studies.small import results, small_study

FolderOf = Callable[[str], Path]

pytestmark = pytest.mark.usefixtures("datasets")

LOST = {"discernibility", "average_class_size", "non_uniform_entropy"}
OF_RELEASES = {"kept", "classes", "smallest_class", "homogeneous", "largest_share", *LOST}
OF_CLASSIFIERS = {"kept", "auc_class_rate"}
HALF, UNTAUGHT = Fraction(1, 2), {"teaches_classifiers": False}


def refuse(*_: object, **__: object) -> None:
    raise DeclarationError("expected fewer cells, got many")


def run_text(kind: str, folder: Path, ledger: Ledger, *systems: str, **fields: object) -> str:
    study = small_study(kind, folder, *systems, **{"repeats": 1, **fields})
    return run_study(study, ledger).read_text(encoding="utf-8")


def test_a_clustering_row_has_what_was_paid_and_all_metrics(finished_of: FolderOf) -> None:
    rows = results(finished_of("clustering"))
    assert {row["claim"] for row in rows} == {"dp"}
    assert all(row["epsilon_charged"] == row["epsilon"] for row in rows)
    for name in ("nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "f_label", "ari_label"):
        assert all(math.isfinite(float(row[name])) for row in rows), name


def test_a_row_of_a_table_has_the_numbers_of_its_use(finished_of: FolderOf) -> None:
    rows = results(finished_of("release"))
    assert Counter(row["use"] for row in rows) == {"table": 8, "classifier": 12, "memory": 4}
    for row in rows:
        numbers = {name for name in row if row[name] and name.startswith(("avd", "dcr", "mis"))}
        targets = {f"misclassified_{m}{t}" for m in ("svm", "logistic") for t in ("", "/c1", "/c2")}
        of_use = {"table": {"avd_2", "avd_3", "dcr"}, "classifier": targets, "memory": set()}
        assert numbers == of_use[row["use"]]
        assert all(0 <= float(row[name]) <= 1 for name in numbers)
        # A baseline claims nothing.
        claimed = (row["claim"], row["epsilon_charged"])
        assert claimed == (("dp", row["epsilon"]) if row["epsilon"] else ("", ""))


@pytest.mark.chain
def test_every_k_is_a_row_with_the_numbers_of_its_use(finished_of: FolderOf) -> None:
    rows = results(finished_of("anonymity"))
    for row in rows:
        numbers = {name for name in OF_RELEASES | OF_CLASSIFIERS if row[name]}
        assert numbers == (OF_RELEASES if row["use"] == "release" else OF_CLASSIFIERS)
        if row["use"] == "release":
            assert int(row["smallest_class"]) >= int(row["k"])
            assert 0 <= float(row["homogeneous"]) <= float(row["largest_share"]) <= 1
        else:
            assert 0.3 < float(row["auc_class_rate"]) <= 1
    remaining = {(row["system"], float(row["kept"])) for row in rows if row["k"] == "0"}
    # One a level of the three quasi-identifiers, and one for a missing cell of each.
    assert remaining == {("hamdist_forward", 13), ("no_selection", 13), ("kjig", 13)}


@pytest.mark.parametrize(
    ("kind", "broken", "fields", "refusal", "titles"),
    [
        ("clustering", ("eug_kmeans", "fit"), {}, "points eug_kmeans paid", ("DPk-means", "EUGkM")),
        (
            "release",
            ("privbayes", "check"),
            UNTAUGHT,
            "answers privbayes",
            ("independent", "PrivBayes"),
        ),
    ],
)
def test_a_refusal_leaves_other_systems_their_cells(
    prepared_of, ledger, monkeypatch, kind, broken, fields, refusal, titles
):
    monkeypatch.setattr(MODELS[broken[0]], broken[1], refuse)
    text = run_text(kind, prepared_of(kind), ledger, **fields)
    assert f"* {refusal} 2: expected" in text
    assert [f"\n| {title} | " in text for title in titles] == [True, False]


def test_study_reports_why_systems_refuse(prepared_of: FolderOf, ledger, monkeypatch) -> None:
    monkeypatch.setattr(TableModel, "check", refuse)
    # Baselines have numbers all the same: they are no systems.
    with pytest.raises(PipelineError, match="a system that can be run, got: expected fewer cells"):
        run_text("release", prepared_of("release"), ledger, "independent")


@pytest.mark.parametrize(
    ("kind", "dataset", "systems", "title"),
    [
        ("clustering", "points", ("dpqt_kmeans", "dpqt_kmeans_published"), "DPQTk-means"),
        ("release", "replaced", ("privhd", "privhd_published"), "PrivHD"),
    ],
)
def test_a_published_variant_is_compared_with_nothing(
    tmp_path, ledger, kind, dataset, systems, title
):
    text = run_text(kind, tmp_path, ledger, *systems, dataset=dataset)
    flagged = [row for row in results(tmp_path) if row["system"] == systems[1]]
    for row in flagged:
        if kind == "clustering":
            assert (row["claim"], row["epsilon_charged"]) == ("not-dp", "none")
            assert "box" in row["reason"]
        else:
            assert Fraction(row["epsilon_charged"]) > Fraction(row["epsilon"])
    before, apart = text.split("## As published: not comparable")
    assert apart.count(f"| {title} as published | ") == 1
    assert f"{title} as published" not in before.split("## Run time")[0]


CLAIM = "must be {} as its model claims, but it is {}"


@pytest.mark.parametrize(
    ("kind", "system", "guarantee", "words"),
    [
        ("clustering", "dpqt_kmeans_published", ("dp", HALF), CLAIM.format("dp", "not-dp")),
        ("release", "independent", ("dp", 2 * HALF), r"must spend exactly ε=1, not 0\.5"),
        ("release", "independent", ("not-dp", HALF, "it looks"), CLAIM.format("not-dp", "dp")),
    ],
)
def test_a_broken_claim_ends_a_study(
    prepared_of, ledger, monkeypatch, kind, system, guarantee, words
):
    model = MODELS[system.removesuffix("_published")]
    monkeypatch.setattr(model, "guarantee", lambda *_: PrivacyGuarantee(*guarantee))
    with pytest.raises(PipelineError, match=words):
        run_text(kind, prepared_of(kind), ledger, system, epsilons=(HALF,))


def recode_nothing(_, rows, promise, *, seed):  # noqa: ARG001
    return Recoding(Unchanged(rows.columns), np.zeros(len(rows), dtype=bool))


def recode_for_k_alone(_, rows, promise, *, seed):
    return METHODS["hamdist_forward"]().recode(rows, KAnonymityGuarantee(promise.k), seed=seed)


@pytest.mark.chain
@pytest.mark.parametrize(
    ("system", "recode"), [("kjig", recode_nothing), ("kjig_2diverse", recode_for_k_alone)]
)
def test_a_broken_promise_ends_a_study(prepared_of, ledger, monkeypatch, system, recode):
    monkeypatch.setattr(METHODS["kjig"], "recode", recode)
    with pytest.raises(BoundaryViolation, match=r"kjig.*/release/.*: expected classes of 2 rows"):
        run_text("anonymity", prepared_of("anonymity"), ledger, system, partitions=(2,))


def test_cells_share_rows_and_no_noise(tmp_path: Path) -> None:
    for kind, seed in (("clustering", None), ("release", "split"), ("anonymity", "seed")):
        study = small_study(kind, tmp_path, repeats=3)
        cells = study.cells(study.specs[0])
        assert len({key_of(cell) for cell in cells}) == len(cells)
        if seed:
            seeds = {(cell.repetition, getattr(cell, seed)) for cell in cells}
            assert len(seeds) == len({number for _, number in seeds}) == 3
            other = getattr(cells[0]._replace(dataset="others"), seed)
            assert other not in {number for _, number in seeds}


def test_every_model_and_method_is_a_system() -> None:
    models = {name for name, model in MODELS.items() if issubclass(model, TableModel)}
    assert {system.algorithm for system in tables.SYSTEMS.values()} == models
    with_delta = {system.algorithm for system in tables.SYSTEMS.values() if system.has_delta}
    assert with_delta == {name for name in models if MODELS[name].accounts_in_rho}
    models = {name for name, model in MODELS.items() if issubclass(model, Clustering)}
    assert {system.algorithm for system in clustering.SYSTEMS.values()} <= models
    published = {name for name, item in clustering.SYSTEMS.items() if item.is_published}
    assert "idp_kmeans_published" in published
    assert {*METHODS, "kjig_2diverse", "no_selection"} == set(anonymity.SYSTEMS)


def test_systems_that_need_public_rows_run_where_one_is_replaced(tmp_path: Path, ledger: Ledger):
    baselines = {"no_privacy", "majority"}
    for dataset, systems in (("answers", set()), ("replaced", {"privhd_composed"})):
        study = small_study("release", tmp_path, "independent", "privhd_composed", dataset=dataset)
        cells = study.cells(study.specs[0])
        assert {cell.system for cell in cells} == {"independent", *systems, *baselines}
    with pytest.raises(DeclarationError, match="answers: expected a system for add_remove"):
        run_text("release", tmp_path, ledger, "privhd_composed")
    assert not (tmp_path / "results.jsonl").exists()


def test_a_study_of_another_delta_is_another_study(prepared_of: FolderOf, ledger: Ledger) -> None:
    folder = prepared_of("release")
    fields = {**UNTAUGHT, "epsilons": (HALF,)}
    run_text("release", folder, ledger, "one_shot_delta", **fields)
    rows = results(folder)
    assert {row["use"] for row in rows} == {"table", "memory"}
    assert {(row["claim"], row["epsilon_charged"]) for row in rows} == {("dp", "0.5")}
    study = small_study("release", folder, "one_shot_delta", **fields)
    with pytest.raises(DeclarationError, match=r"delta 1e-6, got .* delta 1e-9; .*--out"):
        run_study(replace(study, delta=Fraction(1, 10**6)), ledger)


@pytest.mark.chain
def test_of_each_k_a_short_selection_is_timed_thrice(prepared_of: FolderOf, ledger, monkeypatch):
    selections, recode = [], METHODS["kjig"].recode

    def count(self, rows, promise, *, seed):
        selections.append(promise.k)
        return recode(self, rows, promise, seed=seed)

    monkeypatch.setattr(METHODS["kjig"], "recode", count)
    # However busy the computer is.
    monkeypatch.setattr(anonymity, "SHORT_SECONDS", 600.0)
    run_text("anonymity", prepared_of("anonymity"), ledger, "kjig")
    # Thrice on all rows, once for the paper's protocol, and in five folds.
    assert sorted(selections) == sorted(9 * [0, 2, 10])


def test_another_k_and_another_scorer_add_to_the_folder(prepared_of: FolderOf, ledger: Ledger):
    folder, method = prepared_of("anonymity"), "hamdist_forward"
    run_text("anonymity", folder, ledger, method, partitions=(2,), scorers=("logistic",))
    run_text("anonymity", folder, ledger, method, partitions=(2, 5))
    rows = results(folder)
    places = [(row["use"], row["k"]) for row in rows]
    assert sorted(places) == sorted((use, k) for use in USES for k in ("2", "5"))
    for row in rows:
        scorers = {name for name in ("auc_logistic", "auc_class_rate") if row[name]}
        taught = {"2": {"auc_logistic", "auc_class_rate"}, "5": {"auc_class_rate"}}[row["k"]]
        assert scorers == (set() if row["use"] == "release" else taught)


def test_each_repetition_of_a_sample_is_another_sample(tmp_path: Path, ledger: Ledger) -> None:
    fields = {"dataset": "some", "protocols": (), "repeats": 2}
    run_text("anonymity", tmp_path, ledger, "no_selection", **fields)
    spec = find_spec("some")
    samples = [Benchmark.of(spec, tmp_path, repetition) for repetition in range(2)]
    assert samples[0].spec == spec
    rows = [coded_rows(sample.spec, sample.snapshot) for sample in samples]
    assert [len(table) for table in rows] == [60, 60]
    different = [len(np.unique(table.codes, axis=0)) for table in rows]
    assert different[0] != different[1]
    assert [int(row["classes"]) for row in results(tmp_path)] == different


def test_k_above_the_rows_keeps_other_numbers(tmp_path: Path, ledger: Ledger) -> None:
    fields = {"dataset": "few", "partitions": (2, 27, 1000)}
    text = run_text("anonymity", tmp_path, ledger, "hamdist_forward", "no_selection", **fields)
    failures = {(row["use"], row["k"]) for row in results(tmp_path) if row["failure"]}
    # A training fold has 24 of the 30 rows.
    assert failures == {(use, "1000") for use in USES} | {("nested", "27")}
    refusal = "There are fewer rows than K=27"
    assert f"* few nested hamdist_forward 27: {refusal}" in text
    assert "K=27" in text
    assert "K=1000 |" not in text


PEOPLE = "{age: {bounds: [0, 16], bins: 2}, sex: {levels: [f, m]}, job: {levels: [a, b, c]}}"
TARGETS = "targets: {sex: {positive: [m]}, job: {positive: [b, c], without: [age]}}"
MANY = {"age": [0, 14] * 10, "sex": ["f", "m"] * 10, "job": ["a", "b"] * 9 + ["a", "c"]}


def split_table(folder: Path, columns=MANY, *, seed: int = 0) -> SplitTable:
    """Young people are f and a, old ones m and b or c."""
    spec = written_spec(folder, PEOPLE, more=TARGETS)
    snapshot = ingested(folder, columns)
    mark_validated(spec, snapshot, structural=True, refused=False)
    prepare(spec, snapshot)
    return SplitTable(Benchmark(spec, snapshot), seed)


def sexes(rows: SplitTable, part: int) -> np.ndarray:
    return rows._codes.column("sex").to_numpy()[rows._rows[part]]


def test_engine_counts_four_fifths(tmp_path: Path) -> None:
    half = split_table(tmp_path)
    counted = half.counter().count([("age", "sex")])[0].open_at_the_gate()
    remaining, tested = half._fitted["sex"], sexes(half, 1)
    assert counted.tolist() == [[(remaining == 0).sum(), 0], [0, (remaining == 1).sum()]]
    assert (len(remaining), len(tested)) == (16, 4)
    assert remaining.sum() + tested.sum() == 10


def test_another_seed_holds_other_rows_out(tmp_path: Path) -> None:
    item = split_table(tmp_path)
    other = SplitTable(item.benchmark, 1)
    assert item._rows[1].tolist() != other._rows[1].tolist()
    assert sorted([*item._rows[0], *item._rows[1]]) == list(range(20))


def test_easy_target_is_learned_without_privacy(tmp_path: Path) -> None:
    names = [f"misclassified_{m}{t}" for m in ("svm", "logistic") for t in ("/sex", "/job", "")]
    assert split_table(tmp_path).misclassified_without_privacy() == dict.fromkeys(names, 0.0)


def test_opposite_table_teaches_the_opposite(tmp_path: Path) -> None:
    item = split_table(tmp_path)
    young = np.arange(40) % 2
    released = {"age": young, "sex": 1 - young, "job": young}
    result = item.misclassified(released)
    assert result["misclassified_svm/sex"] == 1.0
    assert result["misclassified_svm"] == (1.0 + result["misclassified_svm/job"]) / 2


def test_the_majority_answers_alike_for_all(tmp_path: Path) -> None:
    item = split_table(tmp_path)
    tested = int(sexes(item, 1).sum())
    most = int(item._fitted["sex"].sum()) > 8
    wrong = item.misclassified_by_majority()["misclassified_svm/sex"]
    assert wrong == ((4 - tested) if most else tested) / 4


def test_without_rows_to_test_on_there_is_no_number(tmp_path: Path) -> None:
    few = split_table(tmp_path, {"age": [1], "sex": ["f"], "job": ["a"]})
    result = few.misclassified_without_privacy()
    assert all(math.isnan(value) for value in result.values())


def test_rows_that_were_not_prepared_are_not_read(tmp_path: Path) -> None:
    spec = written_spec(tmp_path, PEOPLE, more=TARGETS)
    with pytest.raises(NotPrepared):
        SplitTable(Benchmark(spec, ingested(tmp_path, MANY)), 0).counter()
