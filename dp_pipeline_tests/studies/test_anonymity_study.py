"""The study of k-anonymous tables: what it writes, what it shares, and what it refuses."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.hamdist import HamdistForward
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import Anonymized, Unchanged
from dp_pipeline.anonymity.partition import Promise
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.cli import main
from dp_pipeline.ledger import Account
from dp_pipeline.publish.k_anonymous_release import coded_rows
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError, PipelineError
from dp_pipeline.studies.k_anonymity.cells import USES, Cell, all_cells, find_systems, known_systems
from dp_pipeline.studies.k_anonymity.claims import CLAIMS
from dp_pipeline.studies.study import Benchmark
from dp_pipeline_tests.studies.small import finished
from dp_pipeline_tests.studies.small_anonymity import (
    CELLS,
    DECLARED,
    ROWS,
    SYSTEMS,
    declare,
    results,
    small_study,
)

LOST = {"discernibility", "average_class_size", "non_uniform_entropy"}
OF_RELEASES = {"kept", "classes", "smallest_class", "homogeneous", "largest_share", *LOST}
OF_CLASSIFIERS = {"kept", "auc_class_rate"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the benchmark ``answers``, one that is a sample, one of a few rows, one with
    no word on k-anonymity, and one data set to be released, ``secret``.
    """
    folder = tmp_path_factory.mktemp("datasets")
    declare(folder, "answers")
    declare(folder, "some", sample="  sample: {rows: 60, by: c1, seed: 7}")
    declare(folder, "few", rows=30)
    declare(folder, "silent", more="")
    more = "ceiling: {total: 4}\nallow_not_dp: true\n" + DECLARED.replace("[0, ", "[")
    declare(folder, "secret", purpose="release", more=more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DP_PIPELINE_DATASETS", str(folder))
        patch.setenv("DP_PIPELINE_HOME", str(folder / "home"))
        yield folder


@pytest.fixture(scope="module")
def done(answers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small study, finished without interruption."""
    assert answers.is_dir()
    folder = tmp_path_factory.mktemp("whole")
    small_study(folder).run()
    return folder


@pytest.fixture
def begun(done: Path, tmp_path: Path) -> Path:
    """A folder in which the rows were prepared, and nothing measured."""
    shutil.copytree(done / ".data", tmp_path / "study" / ".data")
    return tmp_path / "study"


def study(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["study", "anonymity", *arguments])


def test_every_k_of_a_cell_is_one_row_with_the_numbers_of_its_use(done: Path) -> None:
    rows = results(done)
    assert len(finished(done)) == CELLS
    assert len(rows) == ROWS
    for row in rows:
        found = {name for name in OF_RELEASES | OF_CLASSIFIERS if row[name]}
        assert found == (OF_RELEASES if row["use"] == "release" else OF_CLASSIFIERS)
        if row["use"] == "release":
            assert int(row["smallest_class"]) >= int(row["k"])
            assert 0 <= float(row["homogeneous"]) <= float(row["largest_share"]) <= 1
        else:
            assert 0.3 < float(row["auc_class_rate"]) <= 1


def test_what_promises_nothing_keeps_every_bit(done: Path) -> None:
    kept = {(row["system"], float(row["kept"])) for row in results(done) if row["k"] == "0"}
    # One a level of the quasi-identifiers; kjig leaves out the contrary of another bit.
    assert kept == {("hamdist_forward", 10), ("no_selection", 10), ("kjig", 9)}


def test_parquet_holds_what_the_csv_file_holds(done: Path) -> None:
    table = pyarrow.parquet.read_table(done / "results.parquet")
    told = [
        float(row["auc_class_rate"]) if row["auc_class_rate"] else None for row in results(done)
    ]
    assert table.column("auc_class_rate").to_pylist() == told


def test_the_summary_has_a_mean_of_all_repetitions_at_every_place(done: Path) -> None:
    with (done / "summary.csv").open(encoding="utf-8", newline="") as file:
        places = list(csv.DictReader(file))
    assert len(places) == ROWS // 2
    (place,) = [
        one for one in places if (one["use"], one["system"], one["k"]) == ("nested", "kjig", "2")
    ]
    own = [
        float(row["auc_class_rate"])
        for row in results(done)
        if (row["use"], row["system"], row["k"]) == ("nested", "kjig", "2")
    ]
    assert float(place["auc_class_rate"]) == pytest.approx(sum(own) / 2)
    assert (len(own), place["repeats"]) == (2, "2")


def test_the_report_says_of_every_claim_what_came_of_it(done: Path) -> None:
    text = (done / "report.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert claim.sentence in text
        assert claim.source in text
    assert text.count("**not measured**") == sum(len(claim.measured) for claim in CLAIMS) - 1
    assert "| run time | **held in all 2** |" in text
    for title in ("HamDist, forward", "kjig", "no selection"):
        assert f"\n| {title} | " in text


def test_every_picture_of_the_report_lies_beside_it(done: Path) -> None:
    text = (done / "report.md").read_text(encoding="utf-8")
    drawn = sorted(path.name for path in done.glob("*.png"))
    aucs = [f"auc_class_rate_{protocol}" for protocol in ("nested", "paper")]
    assert drawn == sorted(f"answers_{one}.png" for one in (*aucs, "seconds", "homogeneous"))
    assert all(f"]({name})" in text for name in drawn)


def test_more_repetitions_measure_the_new_cells_only_and_end_as_if_asked_for_at_once(
    done: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_study(begun, repeats=1).run()
    selections, recode = [], Kjig.recode

    def counted(self, rows, promise, *, seed):
        selections.append(promise.k)
        return recode(self, rows, promise, seed=seed)

    monkeypatch.setattr(Kjig, "recode", counted)
    small_study(begun).run()
    # Of each K: thrice on all rows, to be timed, once for the paper's protocol, and in five folds.
    assert sorted(selections) == sorted(9 * [0, 2, 10])
    assert results(begun) == results(done)


def test_processes_give_the_same_results(done: Path, begun: Path) -> None:
    small_study(begun, jobs=2).run()
    assert results(begun) == results(done)


def test_another_k_and_another_scorer_add_to_the_folder(done: Path, begun: Path) -> None:
    small_study(begun, "kjig", partitions=(2,), scorers=("logistic",), repeats=1).run()
    small_study(begun, "kjig", partitions=(2, 5), repeats=1).run()
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
        for row in results(done)
        if (row["system"], row["use"], row["k"], row["repetition"]) == ("kjig", "nested", "2", "0")
    ]
    assert [row["auc_class_rate"] for row in same] == [known["auc_class_rate"]]


def test_each_repetition_of_a_sample_is_another_sample_and_the_first_the_declared_one(
    answers: Path, tmp_path: Path
) -> None:
    assert answers.is_dir()
    small_study(tmp_path, "no_selection", dataset="some", protocols=()).run()
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
    answers: Path, tmp_path: Path
) -> None:
    assert answers.is_dir()
    asked = small_study(tmp_path, "kjig", "no_selection", dataset="few", partitions=(2, 27, 1000))
    text = asked.run().read_text(encoding="utf-8")
    refused = {(row["use"], row["k"]) for row in results(tmp_path) if row["failure"]}
    # A training fold has 24 of the 30 rows.
    every = {(use, "1000") for use in USES}
    assert refused == every | {("nested", "27")}
    assert "* few nested kjig 27: k-anonymity: expected at least K=27 rows, got fewer" in text
    assert "K=27" in text
    assert "K=1000 |" not in text


def test_a_study_in_which_nothing_can_be_kept_says_why(answers: Path, tmp_path: Path) -> None:
    assert answers.is_dir()
    with pytest.raises(PipelineError, match="got: k-anonymity: expected at least K=1000 rows"):
        small_study(tmp_path, "kjig", partitions=(1000,), repeats=1).run()


def keep_all(_: Kjig, rows: CodedRows, promise: Promise, *, seed: int) -> Anonymized:  # noqa: ARG001
    return Anonymized(Unchanged(rows.columns), np.zeros(len(rows), dtype=bool))


def forget_diversity(_: Kjig, rows: CodedRows, promise: Promise, *, seed: int) -> Anonymized:
    return HamdistForward().recode(rows, Promise(promise.k), seed=seed)


@pytest.mark.parametrize(
    ("system", "instead"), [("kjig", keep_all), ("kjig_2diverse", forget_diversity)]
)
def test_a_method_that_breaks_its_promise_ends_the_study(
    begun: Path, monkeypatch: pytest.MonkeyPatch, system: str, instead: Callable[..., Anonymized]
) -> None:
    monkeypatch.setattr(Kjig, "recode", instead)
    with pytest.raises(BoundaryViolation, match=r"kjig.*/release/.*: expected classes of 2 rows"):
        small_study(begun, system, partitions=(2,), repeats=1).run()


def test_the_ranking_is_part_of_the_seconds(
    answers: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers.is_dir()
    waited, worth = 0.05, HamdistForward.worth

    def slow(self, rows, bits, *, seed):
        time.sleep(waited)
        return worth(self, rows, bits, seed=seed)

    monkeypatch.setattr(HamdistForward, "worth", slow)
    small_study(begun, "hamdist_forward", repeats=1).run()
    with (begun / "results.csv").open(encoding="utf-8", newline="") as file:
        assert all(float(row["seconds"]) >= waited for row in csv.DictReader(file))


def test_a_data_set_to_be_released_is_refused_and_nothing_is_made(
    answers: Path, tmp_path: Path
) -> None:
    assert answers.is_dir()
    out = tmp_path / "out"
    refused = study("--dataset", "answers", "--dataset", "secret", "--out", str(out))
    assert refused.exit_code == 2
    assert refused.output == (
        "dp-pipeline: secret: expected purpose: benchmark for a study, got purpose: release\n"
    )
    assert not out.exists()


def test_rows_that_the_ledger_protects_are_not_studied(answers: Path, tmp_path: Path) -> None:
    assert answers.is_dir()
    asked = small_study(tmp_path / "out")
    asked.ledger.open_account(Account("answers", "one row", "add_remove", "release", Fraction(1)))
    with pytest.raises(DeclarationError, match="answers: opened with purpose 'release'"):
        asked.run()
    assert not (tmp_path / "out" / ".data").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "alpha_beta"], "method: expected one of rfka, "),
        (["--k", "-1"], "K: expected a whole number"),
        (["--k", "five"], "K: expected a whole number"),
        (["--dataset", "silent"], "silent: expected a section `k_anonymity`, got none"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    answers: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    assert answers.is_dir()
    out = tmp_path / "out"
    refused = study("--dataset", "answers", *arguments, "--out", str(out))
    assert refused.exit_code == 2, refused.output
    assert words in refused.output
    assert refused.output.count("\n") == 1
    assert not out.exists()


def test_the_command_runs_what_it_was_asked_for(answers: Path, begun: Path) -> None:
    assert answers.is_dir()
    asked = ["--dataset", "answers", "--method", "kjig", "--k", "5", "--k", "2", "--repeats", "1"]
    wished = [*asked, "--protocol", "nested", "--scorer", "class_rate", "--out", str(begun)]
    finished_study = study(*wished)
    assert finished_study.exit_code == 0, finished_study.output
    assert finished_study.output.endswith(f"report: {begun / 'report.md'}\n")
    assert finished(begun) == [
        "answers/kjig/release/2,5//0",
        "answers/kjig/nested/2,5/class_rate/0",
    ]


def test_every_method_is_a_system() -> None:
    assert {system.method for system in known_systems().values()} == set(METHODS)
    assert {*METHODS, "kjig_2diverse", "no_selection"} == set(known_systems())
    known = {name for claim in CLAIMS for name in (claim.system, claim.against)}
    assert known - {None} <= set(known_systems())


def test_all_systems_see_the_same_folds_and_no_two_repetitions_do() -> None:
    systems = find_systems(SYSTEMS)
    cells = all_cells("answers", systems, (2, 5), uses=USES, scorers=("logistic", "svm"), repeats=3)
    assert len({cell.key for cell in cells}) == len(cells)
    seeds = {(cell.repetition, cell.seed) for cell in cells}
    assert len(seeds) == len({seed for _, seed in seeds}) == 3
    other = Cell("others", "kjig", "nested", (2,), ("svm",), 0).seed
    assert other not in {seed for _, seed in seeds}
    assert all(0 <= seed < 2**32 for _, seed in seeds)
