"""The study of k-anonymous tables: its numbers, what its cells share, and what ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.hamdist import HamdistForward
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import Recoded, Unchanged
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee
from dp_pipeline.publish.k_anonymous_release import coded_rows
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import BoundaryViolation, PipelineError
from dp_pipeline.studies import k_anonymity
from dp_pipeline.studies.k_anonymity import SYSTEMS, USES, MethodCell
from dp_pipeline.studies.study import Benchmark
from dp_pipeline_tests.studies.small import read_csv, results, small_study

# Whole studies, each of many selections by every method.
pytestmark = pytest.mark.chain

WholeOf = Callable[[str], Path]

LOST = {"discernibility", "average_class_size", "non_uniform_entropy"}
OF_RELEASES = {"kept", "classes", "smallest_class", "homogeneous", "largest_share", *LOST}
OF_CLASSIFIERS = {"kept", "auc_class_rate"}


def test_every_k_of_a_cell_is_one_row_with_the_numbers_of_its_use(whole_of: WholeOf) -> None:
    for row in results(whole_of("anonymity")):
        found = {name for name in OF_RELEASES | OF_CLASSIFIERS if row[name]}
        assert found == (OF_RELEASES if row["use"] == "release" else OF_CLASSIFIERS)
        if row["use"] == "release":
            assert int(row["smallest_class"]) >= int(row["k"])
            assert 0 <= float(row["homogeneous"]) <= float(row["largest_share"]) <= 1
        else:
            assert 0.3 < float(row["auc_class_rate"]) <= 1


def test_what_promises_nothing_keeps_every_bit(whole_of: WholeOf) -> None:
    rows = results(whole_of("anonymity"))
    kept = {(row["system"], float(row["kept"])) for row in rows if row["k"] == "0"}
    # One a level of the quasi-identifiers; kjig leaves out the contrary of another bit.
    assert kept == {("hamdist_forward", 10), ("no_selection", 10), ("kjig", 9)}


def test_of_each_k_a_short_selection_is_made_thrice_to_be_timed_and_once_a_fold(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    selections, recode = [], Kjig.recode

    def counted(self, rows, promise, *, seed):
        selections.append(promise.k)
        return recode(self, rows, promise, seed=seed)

    monkeypatch.setattr(Kjig, "recode", counted)
    # However busy the computer is.
    monkeypatch.setattr(k_anonymity, "_SHORT", 600.0)
    small_study("anonymity", begun_of("anonymity"), "kjig", repeats=1).run()
    # Thrice on all rows, once for the paper's protocol, and in five folds.
    assert sorted(selections) == sorted(9 * [0, 2, 10])


def test_another_k_and_another_scorer_add_to_the_folder(
    whole_of: WholeOf, begun_of: WholeOf
) -> None:
    begun = begun_of("anonymity")
    asked = {"partitions": (2,), "scorers": ("logistic",), "repeats": 1}
    small_study("anonymity", begun, "kjig", **asked).run()
    small_study("anonymity", begun, "kjig", partitions=(2, 5), repeats=1).run()
    rows = results(begun)
    places = [(row["use"], row["k"]) for row in rows]
    assert sorted(places) == sorted((use, k) for use in USES for k in ("2", "5"))
    for row in rows:
        scorers = {name for name in ("auc_logistic", "auc_class_rate") if row[name]}
        taught = {"2": {"auc_logistic", "auc_class_rate"}, "5": {"auc_class_rate"}}[row["k"]]
        assert scorers == (set() if row["use"] == "release" else taught)
    same = [row for row in rows if row["k"] == "2" and row["use"] == "nested"]
    (known,) = [
        row
        for row in results(whole_of("anonymity"))
        if (row["system"], row["use"], row["k"], row["repetition"]) == ("kjig", "nested", "2", "0")
    ]
    assert [row["auc_class_rate"] for row in same] == [known["auc_class_rate"]]


def test_each_repetition_of_a_sample_is_another_sample_and_the_first_the_declared_one(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    small_study("anonymity", tmp_path, "no_selection", dataset="some", protocols=()).run()
    spec = find_spec("some")
    samples = [Benchmark.of(spec, tmp_path, at) for at in range(2)]
    tables = [coded_rows(one.spec, one.snapshot) for one in samples]
    assert [len(rows) for rows in tables] == [60, 60]
    assert tables[0].target_counts.tolist() == tables[1].target_counts.tolist()
    different = [len(np.unique(rows.codes, axis=0)) for rows in tables]
    assert different[0] != different[1]
    assert [int(row["classes"]) for row in results(tmp_path)] == different
    assert Benchmark.of(spec, tmp_path).spec == spec
    assert [one.name for one in sorted((tmp_path / ".data" / "some").glob("study*"))] == [
        "study-7",
        "study-8",
    ]


def test_a_k_above_the_number_of_rows_leaves_the_others_their_numbers(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    asked = small_study(
        "anonymity", tmp_path, "kjig", "no_selection", dataset="few", partitions=(2, 27, 1000)
    )
    text = asked.run().read_text(encoding="utf-8")
    refused = {(row["use"], row["k"]) for row in results(tmp_path) if row["failure"]}
    # A training fold has 24 of the 30 rows.
    every = {(use, "1000") for use in USES}
    assert refused == every | {("nested", "27")}
    assert "* few nested kjig 27: k-anonymity: expected at least K=27 rows, got fewer" in text
    assert "K=27" in text
    assert "K=1000 |" not in text


def test_a_study_in_which_nothing_can_be_kept_says_why(begun_of: WholeOf) -> None:
    asked = small_study("anonymity", begun_of("anonymity"), "kjig", partitions=(1000,), repeats=1)
    with pytest.raises(PipelineError, match="got: k-anonymity: expected at least K=1000 rows"):
        asked.run()


def keep_all(_: Kjig, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG001
    return Recoded(Unchanged(rows.columns), np.zeros(len(rows), dtype=bool))


def forget_diversity(
    _: Kjig, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int
) -> Recoded:
    return HamdistForward().recode(rows, KAnonymityGuarantee(promise.k), seed=seed)


@pytest.mark.parametrize(
    ("system", "instead"), [("kjig", keep_all), ("kjig_2diverse", forget_diversity)]
)
def test_a_method_that_breaks_its_promise_ends_the_study(
    begun_of: WholeOf,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    instead: Callable[..., Recoded],
) -> None:
    monkeypatch.setattr(Kjig, "recode", instead)
    with pytest.raises(BoundaryViolation, match=r"kjig.*/release/.*: expected classes of 2 rows"):
        small_study("anonymity", begun_of("anonymity"), system, partitions=(2,), repeats=1).run()


def test_the_ranking_is_part_of_the_seconds(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, worth, begun = 0.05, HamdistForward.worth, begun_of("anonymity")

    def slow(self, rows, bits, *, seed):
        time.sleep(waited)
        return worth(self, rows, bits, seed=seed)

    monkeypatch.setattr(HamdistForward, "worth", slow)
    small_study("anonymity", begun, "hamdist_forward", protocols=("paper",), repeats=1).run()
    assert all(float(row["seconds"]) >= waited for row in read_csv(begun / "results.csv"))


def test_every_method_is_a_system() -> None:
    assert {system.algorithm for system in SYSTEMS.values()} == set(METHODS)
    assert {*METHODS, "kjig_2diverse", "no_selection"} == set(SYSTEMS)


def test_all_systems_see_the_same_folds_and_no_two_repetitions_do(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    asked = small_study("anonymity", tmp_path, scorers=("logistic", "svm"), repeats=3)
    cells = asked.cells(asked.specs[0])
    assert len({cell.key for cell in cells}) == len(cells)
    seeds = {(cell.repetition, cell.seed) for cell in cells}
    assert len(seeds) == len({seed for _, seed in seeds}) == 3
    other = MethodCell("others", "kjig", "nested", (2,), ("svm",), 0).seed
    assert other not in {seed for _, seed in seeds}
    assert all(0 <= seed < 2**32 for _, seed in seeds)
