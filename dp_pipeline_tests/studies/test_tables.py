"""The study of tables: its numbers, what it leaves out, and what ends it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.models import MODELS
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.privbayes import PrivBayes
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError, PipelineError
from dp_pipeline.studies.tables import SYSTEMS, TableCell
from dp_pipeline_tests.studies.small import results, small_study

WholeOf = Callable[[str], Path]


def test_every_cell_is_one_row_with_the_numbers_of_its_use(whole_of: WholeOf) -> None:
    rows = results(whole_of("release"))
    assert Counter(row["use"] for row in rows) == {"table": 8, "classifier": 12, "memory": 4}
    for row in rows:
        found = {name for name in row if row[name] and name.startswith(("avd", "dcr", "mis"))}
        targets = {f"misclassified_{m}{t}" for m in ("svm", "logistic") for t in ("", "/c1", "/c2")}
        of_use = {"table": {"avd_2", "avd_3", "dcr"}, "classifier": targets, "memory": set()}
        assert found == of_use[row["use"]]
        assert all(0 <= float(row[name]) <= 1 for name in found)


def test_what_a_system_claims_is_in_its_rows_and_a_baseline_claims_nothing(
    whole_of: WholeOf,
) -> None:
    for row in results(whole_of("release")):
        claimed = (row["claim"], row["epsilon_charged"])
        assert claimed == (("dp", row["epsilon"]) if row["epsilon"] else ("", ""))


def test_no_classifier_learns_where_none_is_asked_for(begun_of: WholeOf) -> None:
    begun = begun_of("release")
    small_study("release", begun, "independent", repeats=1, classify=False).run()
    assert {row["use"] for row in results(begun)} == {"table", "memory"}
    assert "misclassif" not in "".join(results(begun)[0])


def test_a_study_of_another_delta_is_another_study(whole_of: WholeOf, tmp_path: Path) -> None:
    shutil.copytree(whole_of("release"), tmp_path / "copy")
    with pytest.raises(DeclarationError, match=r"delta 1e-6, got .* delta 1e-9; .*--out"):
        small_study("release", tmp_path / "copy", delta=Fraction(1, 10**6)).run()


def test_a_system_with_delta_claims_the_epsilon_asked_for(begun_of: WholeOf) -> None:
    begun = begun_of("release")
    small_study("release", begun, "one_shot_delta", repeats=1, classify=False).run()
    rows = [row for row in results(begun) if row["use"] == "table"]
    assert [(row["claim"], row["epsilon_charged"]) for row in rows] == [("dp", "0.5"), ("dp", "2")]


def test_systems_that_need_a_public_number_of_rows_run_where_a_row_is_replaced_alone(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    ran = []
    for dataset in ("answers", "replaced"):
        asked = small_study("release", tmp_path, "independent", "privhd_composed", dataset=dataset)
        ran.append({cell.system for cell in asked.cells(asked.specs[0])})
    baselines = {"no_privacy", "majority"}
    assert ran == [{"independent"} | baselines, {"independent", "privhd_composed"} | baselines]
    with pytest.raises(DeclarationError, match="answers: expected a system for add_remove"):
        small_study("release", tmp_path, "privhd_composed").run()
    assert not (tmp_path / "results.jsonl").exists()


def test_a_variant_as_published_is_marked_and_compared_with_nothing(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    named = ("privhd", "privhd_published")
    asked = small_study("release", tmp_path, *named, dataset="replaced", repeats=1, classify=False)
    report = asked.run().read_text(encoding="utf-8")
    marked = [row for row in results(tmp_path) if row["system"] == "privhd_published"]
    assert all(Fraction(row["epsilon_charged"]) > Fraction(row["epsilon"]) for row in marked)
    tables, apart = report.split("## As published: not comparable")
    assert apart.count("| PrivHD as published | ") == 2
    assert "PrivHD as published" not in tables.split("## Run time and memory")[0]


def test_a_system_that_refuses_leaves_the_others_their_cells(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeclarationError("clique: expected fewer cells, got many")

    monkeypatch.setattr(PrivBayes, "check", refuse)
    asked = small_study("release", begun_of("release"), repeats=1, classify=False)
    report = asked.run().read_text(encoding="utf-8")
    assert "* answers privbayes 2: clique: expected fewer cells, got many" in report
    assert "\n| independent | " in report
    assert "\n| PrivBayes | " not in report


def test_a_study_in_which_every_system_refuses_says_why(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeclarationError("too wide")

    monkeypatch.setattr(TableModel, "check", refuse)
    # Baselines have numbers all the same: they are no systems.
    with pytest.raises(PipelineError, match="got: too wide"):
        small_study("release", begun_of("release"), "independent", repeats=1).run()


@pytest.mark.parametrize(
    ("guarantee", "error", "words"),
    [
        (
            lambda _, epsilon, __=None: PrivacyGuarantee("dp", 2 * epsilon),
            PipelineError,
            r"expected charges of exactly ε=1, got 0\.5",
        ),
        (
            lambda _, epsilon, __=None: PrivacyGuarantee("not-dp", epsilon, "it looks"),
            BoundaryViolation,
            "expected a not-dp release as claimed, got a dp one",
        ),
    ],
    ids=["spends less", "discloses more"],
)
def test_a_system_that_keeps_not_to_what_it_claims_ends_the_study(
    begun_of: WholeOf,
    monkeypatch: pytest.MonkeyPatch,
    guarantee: Callable[..., PrivacyGuarantee],
    error: type[PipelineError],
    words: str,
) -> None:
    monkeypatch.setattr(Independent, "guarantee", guarantee)
    with pytest.raises(error, match=words):
        small_study("release", begun_of("release"), "independent", repeats=1).run()


def test_every_model_of_tables_is_a_system_and_with_delta_where_it_has_a_use_for_one() -> None:
    models = {name for name, model in MODELS.items() if issubclass(model, TableModel)}
    assert {system.algorithm for system in SYSTEMS.values()} == models
    concentrated = {system.algorithm for system in SYSTEMS.values() if system.concentrated}
    assert concentrated == {name for name in models if MODELS[name].accounts_in_rho}


def test_no_two_cells_share_their_noise_and_all_systems_share_what_is_held_out(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    asked = small_study("release", tmp_path, repeats=3)
    cells = asked.cells(asked.specs[0])
    assert len({cell.key for cell in cells}) == len(cells)
    splits = {(cell.repetition, cell.split) for cell in cells}
    assert len(splits) == len({split for _, split in splits}) == 3
    other = TableCell("others", "independent", "1", "table", 0)
    assert other.split not in {cell.split for cell in cells}
