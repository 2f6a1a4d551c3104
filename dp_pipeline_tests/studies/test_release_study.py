"""The study of tables: what it writes, what it leaves out, and what it refuses."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dp_pipeline.cli import main
from dp_pipeline.ledger import Account
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.privbayes import PrivBayes
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError, PipelineError
from dp_pipeline.studies.tables.cells import Cell, all_cells, find_systems, known_systems
from dp_pipeline.studies.tables.claims import CLAIMS
from dp_pipeline_tests.studies.small import finished
from dp_pipeline_tests.studies.small_release import CELLS, declare, results, small_study


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the benchmark ``answers``, the same rows where one is replaced, and one data
    set to be released, ``secret``.
    """
    folder = tmp_path_factory.mktemp("datasets")
    declare(folder, "answers")
    declare(folder, "replaced", relation="replace_one")
    declare(folder, "secret", purpose="release", more="ceiling: {total: 4}\n")
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


def study(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["study", "release", *arguments])


def test_every_cell_is_one_row_with_the_numbers_of_its_use(done: Path) -> None:
    rows = results(done)
    assert len(rows) == len(finished(done)) == CELLS
    assert Counter(row["use"] for row in rows) == {"table": 8, "classifier": 12, "memory": 4}
    for row in rows:
        found = {name for name in row if row[name] and name.startswith(("avd", "dcr", "mis"))}
        targets = {f"misclassified_{m}{t}" for m in ("svm", "logistic") for t in ("", "/c1", "/c2")}
        of_use = {"table": {"avd_2", "avd_3", "dcr"}, "classifier": targets, "memory": set()}
        assert found == of_use[row["use"]]
        assert all(0 <= float(row[name]) <= 1 for name in found)


def test_what_a_system_claims_is_in_its_rows_and_a_baseline_claims_nothing(done: Path) -> None:
    for row in results(done):
        claimed = (row["claim"], row["epsilon_charged"])
        assert claimed == (("dp", row["epsilon"]) if row["epsilon"] else ("", ""))


def test_parquet_holds_what_the_csv_file_holds(done: Path) -> None:
    table = pyarrow.parquet.read_table(done / "results.parquet")
    distances = [float(row["avd_2"]) if row["avd_2"] else None for row in results(done)]
    assert table.column("avd_2").to_pylist() == distances


def test_the_summary_has_a_mean_of_all_repetitions_at_every_place(done: Path) -> None:
    with (done / "summary.csv").open(encoding="utf-8", newline="") as file:
        places = list(csv.DictReader(file))
    assert len(places) == 2 * 2 + 2
    own = [float(row["avd_2"]) for row in results(done) if row["avd_2"]][:2]
    assert (places[0]["system"], places[0]["epsilon"]) == ("independent", "0.5")
    assert float(places[0]["avd_2"]) == pytest.approx(sum(own) / 2)
    assert (places[0]["avd_2_repeats"], places[0]["peak_mb_repeats"]) == ("2", "1")


def test_the_report_says_of_every_claim_what_came_of_it(done: Path) -> None:
    text = (done / "report.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert claim.sentence in text.replace("&#124;", "|")
        assert claim.source in text
    assert text.count("**not measured**") == sum(len(claim.measures) for claim in CLAIMS)
    for title in ("without privacy", "majority", "independent", "PrivBayes"):
        assert f"\n| {title} | " in text


def test_every_picture_of_the_report_lies_beside_it(done: Path) -> None:
    text = (done / "report.md").read_text(encoding="utf-8")
    ways = ("svm", "logistic")
    targets = [f"misclassified_{way}{target}" for way in ways for target in ("", "_c1", "_c2")]
    measures = ("avd_2", "avd_3", "seconds", "peak_mb", *targets)
    drawn = sorted(path.name for path in done.glob("*.png"))
    assert drawn == sorted(f"answers_{measure}.png" for measure in measures)
    assert all(f"]({name})" in text for name in drawn)


def test_more_repetitions_fit_the_new_cells_only_and_end_as_if_asked_for_at_once(
    done: Path, answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers.is_dir()
    shutil.copytree(done / ".data", tmp_path / "out" / ".data")
    small_study(tmp_path / "out", repeats=1).run()
    fits, fit = [], Independent.fit

    def counted(self, curator, **arguments):
        fits.append(arguments["epsilon"])
        return fit(self, curator, **arguments)

    monkeypatch.setattr(Independent, "fit", counted)
    small_study(tmp_path / "out").run()
    assert len(fits) == 4
    assert results(tmp_path / "out") == results(done)


def test_processes_give_the_same_results(done: Path, tmp_path: Path) -> None:
    small_study(tmp_path, jobs=2).run()
    assert results(tmp_path) == results(done)


def test_no_classifier_learns_where_none_is_asked_for(answers: Path, tmp_path: Path) -> None:
    assert answers.is_dir()
    small_study(tmp_path, "independent", repeats=1, classify=False).run()
    assert {row["use"] for row in results(tmp_path)} == {"table", "memory"}
    assert "misclassif" not in "".join(results(tmp_path)[0])


def test_a_study_of_another_delta_is_another_study(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "copy")
    with pytest.raises(DeclarationError, match=r"delta 1e-6, got .* delta 1e-9; .*--out"):
        small_study(tmp_path / "copy", delta=Fraction(1, 10**6)).run()


def test_a_system_with_delta_claims_the_epsilon_asked_for(answers: Path, tmp_path: Path) -> None:
    assert answers.is_dir()
    small_study(tmp_path, "one_shot_delta", repeats=1, classify=False).run()
    rows = [row for row in results(tmp_path) if row["use"] == "table"]
    assert [(row["claim"], row["epsilon_charged"]) for row in rows] == [("dp", "0.5"), ("dp", "2")]


def test_systems_that_need_a_public_number_of_rows_run_where_a_row_is_replaced_alone(
    answers: Path, tmp_path: Path
) -> None:
    assert answers.is_dir()
    asked = small_study(tmp_path, "independent", "privhd_composed")
    at_home = [replace(asked, specs=(find_spec(name),)) for name in ("answers", "replaced")]
    ran = [{cell.system for cell in one.cells(one.specs[0])} for one in at_home]
    baselines = {"no_privacy", "majority"}
    assert ran == [{"independent"} | baselines, {"independent", "privhd_composed"} | baselines]
    with pytest.raises(DeclarationError, match="answers: expected a system for add_remove"):
        small_study(tmp_path, "privhd_composed").run()
    assert not (tmp_path / "results.jsonl").exists()


def test_a_variant_as_published_is_marked_and_compared_with_nothing(
    answers: Path, tmp_path: Path
) -> None:
    assert answers.is_dir()
    named = ("privhd", "privhd_published")
    asked = small_study(tmp_path, *named, dataset="replaced", repeats=1, classify=False)
    report = asked.run().read_text(encoding="utf-8")
    marked = [row for row in results(tmp_path) if row["system"] == "privhd_published"]
    assert all(Fraction(row["epsilon_charged"]) > Fraction(row["epsilon"]) for row in marked)
    tables, apart = report.split("## As published: not comparable")
    assert apart.count("| PrivHD as published | ") == 2
    assert "PrivHD as published" not in tables.split("## Run time and memory")[0]


def test_a_system_that_refuses_leaves_the_others_their_cells(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers.is_dir()

    def refuse(*_: object, **__: object) -> None:
        raise DeclarationError("clique: expected fewer cells, got many")

    monkeypatch.setattr(PrivBayes, "check", refuse)
    report = small_study(tmp_path, repeats=1, classify=False).run().read_text(encoding="utf-8")
    assert "* answers privbayes 2: clique: expected fewer cells, got many" in report
    assert "\n| independent | " in report
    assert "\n| PrivBayes | " not in report


def test_a_study_in_which_every_system_refuses_says_why(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers.is_dir()

    def refuse(*_: object, **__: object) -> None:
        raise DeclarationError("too wide")

    monkeypatch.setattr(TableModel, "check", refuse)
    with pytest.raises(PipelineError, match="got: too wide"):
        small_study(tmp_path, "independent", repeats=1).run()


def test_a_system_that_spends_less_than_it_claims_is_refused(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers.is_dir()
    more = lambda _, epsilon, __=None: PrivacyGuarantee("dp", 2 * epsilon)  # noqa: E731
    monkeypatch.setattr(Independent, "guarantee", more)
    with pytest.raises(PipelineError, match=r"expected charges of exactly ε=1, got 0\.5"):
        small_study(tmp_path, "independent", repeats=1).run()


def test_a_system_that_discloses_more_than_it_claims_ends_the_study(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers.is_dir()
    silent = lambda _, epsilon, __=None: PrivacyGuarantee("not-dp", epsilon, "it looks")  # noqa: E731
    monkeypatch.setattr(Independent, "guarantee", silent)
    with pytest.raises(
        BoundaryViolation, match="expected a not-dp release as claimed, got a dp one"
    ):
        small_study(tmp_path, "independent", repeats=1).run()


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
        (["--system", "privhd9000"], "system: expected one of independent, "),
        (["--epsilon", "-1"], "--epsilon: expected a decimal number"),
        (["--delta", "0"], "--delta: expected a decimal number above 0"),
        (["--dataset", "birch3_like"], "birch3_like: expected attributes with cells, got none"),
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


def test_the_command_runs_what_it_was_asked_for(answers: Path, tmp_path: Path) -> None:
    assert answers.is_dir()
    asked = ["--dataset", "answers", "--system", "independent", "--repeats", "1", "--no-classify"]
    finished_study = study(*asked, "--epsilon", "0.5", "--out", str(tmp_path))
    assert finished_study.exit_code == 0, finished_study.output
    assert finished_study.output.endswith(f"report: {tmp_path / 'report.md'}\n")
    assert finished(tmp_path) == [
        "answers/independent/0.5/table/0",
        "answers/independent/0.5/memory/0",
    ]


def test_every_model_of_tables_is_a_system_and_with_delta_where_it_has_a_use_for_one() -> None:
    models = {name for name, model in MODELS.items() if issubclass(model, TableModel)}
    assert {system.model for system in known_systems().values()} == models
    concentrated = {s.model for s in known_systems().values() if s.concentrated}
    assert concentrated == {n for n in models if MODELS[n].accounts_in_rho}
    published = [one.name for one in known_systems().values() if one.is_published]
    assert not {name for claim in CLAIMS for name in (claim.system, *claim.against)} & {*published}


def test_no_two_cells_share_their_noise_and_all_systems_share_what_is_held_out() -> None:
    systems = find_systems(["independent", "privbayes"])
    cells = all_cells("answers", systems, [Fraction(1), Fraction(2)], repeats=3, classify=True)
    assert len({cell.key for cell in cells}) == len(cells)
    splits = {(cell.repetition, cell.split) for cell in cells}
    assert len(splits) == len({split for _, split in splits}) == 3
    assert Cell("others", "independent", "1", "table", 0).split not in {
        cell.split for cell in cells
    }
