"""Any study: its journal, what it writes, that a stopped one goes on, and what it refuses."""

import ast
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from benchmarks.papers import study
from benchmarks.papers.__main__ import main
from benchmarks.papers.report import lines_of
from benchmarks.papers.results import Summary
from benchmarks.papers.shown import REPORTS, run_study
from benchmarks.papers.study import map_cells, open_journal
from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError
from dp_pipeline.config.source import Source
from dp_pipeline.ledger import Account, Ledger
from dp_pipeline_tests.raw.file_server import file_server
from dp_pipeline_tests.studies.small import (
    CELLS,
    DATASET,
    KINDS,
    ROWS,
    cells_of,
    declare_points,
    journal,
    read_csv,
    results,
    small_study,
)

FolderOf = Callable[[str], Path]

pytestmark = pytest.mark.usefixtures("datasets")
every_study = pytest.mark.parametrize("kind", KINDS)

_PLANNED = [
    f"{m}_{p}" for m in ("f_kmeans", "f_label", "nicv_ratio", "rcp") for p in ("declared", "paid")
]
_ERRORS = [f"misclassified_{by}{of}" for by in ("svm", "logistic") for of in ("", "_c1", "_c2")]
PICTURES = {
    "clustering": ["seconds", *_PLANNED],
    "release": ["avd_2", "avd_3", "seconds", "peak_mb", *_ERRORS],
    "anonymity": ["auc_class_rate_nested", "auc_class_rate_paper", "seconds", "homogeneous"],
}
TITLES = {
    "clustering": ("DPk-means", "EUGkM"),
    "release": ("without privacy", "majority", "independent", "PrivBayes"),
    "anonymity": ("HamDist, forward", "kjig", "no selection"),
}
NO_LINE = ("without privacy", "majority", "no selection")


def command(kind: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [kind, *arguments])


def refused(result: Result) -> str:
    """Return the one line of a refusal for wrong use."""
    assert result.exit_code == 2, result.output
    assert result.output.startswith("dp-pipeline: ")
    assert result.output.count("\n") == 1
    return result.output


@every_study
def test_every_cell_is_stored_and_its_rows_are_in_the_results(finished_of: FolderOf, kind: str):
    assert len(cells_of(finished_of(kind))) == CELLS[kind]
    assert len(results(finished_of(kind))) == ROWS[kind]


@every_study
@pytest.mark.parametrize("place", [0, -1])
def test_the_summary_has_a_mean_of_all_repetitions(finished_of: FolderOf, kind: str, place: int):
    expected = read_csv(finished_of(kind) / "summary.csv")[place]
    columns = [name for name in REPORTS[kind].factors.order if name in expected]
    rows = read_csv(finished_of(kind) / "results.csv")
    rows = [row for row in rows if all(row[name] == expected[name] for name in columns)]
    measured = [name for name in rows[0] if f"{name}_se" in expected and expected.get(name)]
    assert measured
    for measure in measured:
        numbers = [float(row[measure]) for row in rows if row[measure]]
        assert float(expected[measure]) == pytest.approx(sum(numbers) / len(numbers))
        repeats = expected.get(f"{measure}_repeats", expected.get("repeats"))
        assert repeats == str(len(numbers)) == ("1" if measure == "peak_mb" else "2")


@every_study
def test_the_report_has_every_claim_system_and_picture(finished_of: FolderOf, kind: str) -> None:
    folder, claims = finished_of(kind), REPORTS[kind].claims
    text = (folder / "report.md").read_text(encoding="utf-8")
    for claim in claims:
        assert f"{claim.sentence.replace('|', '&#124;')} | {claim.source} | " in text
    attribute_sets = 2 if kind == "clustering" else 1
    # Which of two methods is faster comes out one way or another where others run beside them.
    timed = len(re.findall(r"\| run time \| \*\*(?!not measured)", text))
    verdicts = attribute_sets * sum(len(claim.measured) for claim in claims)
    assert text.count("**not measured**") == verdicts - timed
    assert timed == (kind == "anonymity")
    # The small anonymous tables have no folds, and baselines of classifiers no distance.
    for title in set(TITLES[kind]) - {"without privacy", "majority"} if kind != "anonymity" else ():
        assert f"\n| {title} | " in text
    pictures = {f"{DATASET[kind]}_{name}.png" for name in PICTURES[kind]}
    assert {path.name for path in folder.glob("*.png")} == pictures
    for name in pictures:
        assert f"]({name})" in text
        assert (folder / name).read_bytes()[:4] == b"\x89PNG"


@every_study
def test_a_picture_has_a_line_a_system_through_its_means(finished_of: FolderOf, kind: str) -> None:
    cells = [line["row"] for line in journal(finished_of(kind))[1:]]
    rows = small_study(kind, finished_of(kind)).rows(cells)
    summary = Summary.of(REPORTS[kind].factors, rows)
    every = (lines_of(summary, DATASET[kind], curve) for curve in REPORTS[kind].curves(summary))
    lines = next(filter(None, every))
    assert [line.name for line in lines] == [item for item in TITLES[kind] if item not in NO_LINE]
    for line in lines:
        levels = {"anonymity": [0, 2, 10]}.get(kind, [0.5, 2])
        assert [point.position for point in line.points] == levels
        assert all(point.bar >= 0 for point in line.points)


@every_study
def test_a_finished_study_measures_nothing_again(finished_of, copied_of, ledger, monkeypatch, kind):
    again = small_study(kind, copied_of(kind))
    monkeypatch.setattr(type(again), "measure", None)
    run_study(again, ledger)
    for name in ("results.csv", "results.jsonl", "summary.csv", "report.md"):
        assert (again.folder / name).read_bytes() == (finished_of(kind) / name).read_bytes()


@every_study
def test_only_new_repetitions_are_measured(finished_of, copied_of, ledger, monkeypatch, kind):
    copied_study, measured = small_study(kind, copied_of(kind)), []
    path, cells = copied_study.folder / "results.jsonl", cells_of(finished_of(kind))
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    first = [line for line, cell in zip(lines[1:], cells, strict=True) if cell.endswith("/0")]
    path.write_text("".join([lines[0], *first]), encoding="utf-8")
    measure = type(copied_study).measure

    def count(self, cell):
        measured.append(cell.repetition)
        return measure(self, cell)

    monkeypatch.setattr(type(copied_study), "measure", count)
    run_study(copied_study, ledger)
    assert set(measured) == {1}
    assert sorted(cells_of(copied_study.folder)) == sorted(cells)
    assert results(copied_study.folder) == results(finished_of(kind))


@every_study
def test_a_cell_gives_the_same_row_in_another_process(finished_of: FolderOf, kind: str) -> None:
    here = small_study(kind, finished_of(kind))
    cell = here.cells(here.specs[0])[0]
    measure, sent = pickle.loads(pickle.dumps((here.measure, cell)))
    rows = [dict(measure(sent)), dict(here.measure(cell))]
    for row in rows:
        # The clock of an anonymity cell lies in the numbers of each K.
        row.pop("seconds", None)
        for numbers in row.get("by_k", {}).values():
            numbers.pop("seconds")
    assert rows[0] == rows[1]


def test_a_process_that_was_killed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # The process has nothing to compute: it need not import numerical libraries.
    monkeypatch.setattr(study, "_start_worker", os.getpid)
    with pytest.raises(PipelineError, match="got one that was killed; run again to go on"):
        list(map_cells(os._exit, [9], jobs=2))


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_item_gives_its_result_once(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "_start_worker", os.getpid)
    assert sorted(map_cells(abs, [-2, 1, -3], jobs=jobs)) == [(-3, 3), (-2, 2), (1, 1)]


class Killed(BaseException):
    """What ends a process before it could do anything."""


def test_a_killed_study_goes_on_to_the_same_results(finished_of, prepared_of, ledger, monkeypatch):
    finished, folder, append = finished_of("clustering"), prepared_of("clustering"), study._append

    def tear(file, line):
        if "cell" in line and len(cells_of(folder)) == 5:
            file.write(b'{"cell": "points/eug_kmea')
            raise Killed
        append(file, line)

    monkeypatch.setattr(study, "_append", tear)
    with pytest.raises(Killed):
        run_study(small_study("clustering", folder), ledger)
    monkeypatch.setattr(study, "_append", append)
    assert not (folder / "results.jsonl").read_bytes().endswith(b"\n")
    run_study(small_study("clustering", folder), ledger)
    assert cells_of(folder) == cells_of(finished)
    assert results(folder) == results(finished)


def test_interrupted_study_ends_in_one_line(prepared_of: FolderOf, monkeypatch) -> None:
    folder = prepared_of("clustering")
    monkeypatch.setattr(study.Journal, "append", Mock(side_effect=KeyboardInterrupt))
    stopped = command("clustering", "--dataset", "points", "--out", str(folder))
    assert stopped.exit_code == 1
    line = f"dp-pipeline: {folder}: stopped; the same command goes on from here\n"
    assert stopped.output.endswith(line)


def test_cells_of_other_code_are_not_mixed_with_these(copied_of: FolderOf, ledger, monkeypatch):
    monkeypatch.setattr(study, "_ROOMS", ("gate",))
    with pytest.raises(DeclarationError, match=r"of study clustering; code .*, got .*--out"):
        run_study(small_study("clustering", copied_of("clustering")), ledger)


def test_cells_of_another_declaration_are_not_mixed_with_these(copied_of, datasets: Path, ledger):
    folder = copied_of("clustering")
    declare_points(datasets, rows=400)
    try:
        with pytest.raises(DeclarationError, match=r"points as it is declared now, .*--out"):
            run_study(small_study("clustering", folder), ledger)
    finally:
        declare_points(datasets)


@every_study
def test_all_code_that_measures_a_cell_is_in_the_header(tmp_path: Path, kind: str) -> None:
    files = {"study.py", *small_study(kind, tmp_path).measured_by}
    for file in files:
        path = Path(study.__file__).parent / file
        if not path.is_file():
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        own = {f"{item.split('.')[-1]}.py" for item in modules if item and item.startswith("bench")}
        assert own <= files | {"results.py"}, file
        rooms = {item.split(".")[1] for item in modules if item and item.startswith("dp_pipeline.")}
        expected = {*study._ROOMS, "anonymity", "releases", "files", "ledger", "threads"}
        assert rooms <= expected, file


@every_study
def test_release_data_set_is_refused(tmp_path: Path, kind: str) -> None:
    out, name = tmp_path / "out", DATASET[kind]
    words = ["--dataset", name, "--dataset", f"secret_{name}", "--out", str(out)]
    assert refused(command(kind, *words)) == (
        f"dp-pipeline: secret_{name}: expected purpose: benchmark for a study, got purpose: "
        "release\n"
    )
    assert not out.exists()


@every_study
def test_rows_that_the_ledger_protects_are_not_studied(tmp_path: Path, monkeypatch, kind: str):
    out, name, home = tmp_path / "out", DATASET[kind], tmp_path / "home"
    monkeypatch.setenv("DP_PIPELINE_HOME", str(home))
    account = Account(name, "one row", "add_remove", "release", Fraction(1))
    Ledger(home / "ledger").open_account(account)
    refusal = refused(command(kind, "--dataset", name, "--out", str(out)))
    assert f"{name}: the account was opened with purpose 'release'" in refusal
    assert not out.exists()


def test_download_with_a_protected_hash_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    rows = b"x,y,label\n1,2,3\n"
    with file_server() as server:
        server.files["/points.csv"] = rows
        source = Source("csv", server.url("/points.csv"), at_most_mb=1)
        points = replace(find_spec("points"), source=source)
        account = Account("persons", "one row", "add_remove", "release", Fraction(1))
        ledger.open_account(account, sources=[f"sha256:{sha256(rows).hexdigest()}"])
        with pytest.raises(DeclarationError, match="is protected by population persons"):
            run_study(small_study("clustering", tmp_path / "out", specs=(points,)), ledger)
    assert not list((tmp_path / "out").rglob("*.csv"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("clustering --system dp_kmean", "did you mean dp_kmeans?"),
        ("clustering --epsilon -1", "--epsilon: expected a decimal number"),
        ("clustering --dataset nowhere", "There is no data set "),
        ("clustering --dataset wdbc", "wdbc: models: expected clustering models with one and the"),
        ("release --delta 0", "--delta: expected a decimal number from 1e-99"),
        ("release --dataset birch3_like", "birch3_like: expected attributes with cells, got none"),
        ("anonymity --method alpha_beta", "the method must be one of rfka, "),
        ("anonymity --k five", "K: expected an integer"),
        ("anonymity --dataset silent", "the file has no section `k_anonymity`: add it, or name"),
    ],
)
def test_wrong_words_are_refused_in_one_line(tmp_path: Path, words: str, reason: str) -> None:
    (kind, *arguments), out = words.split(), tmp_path / "out"
    result = command(kind, "--dataset", DATASET[kind], *arguments, "--out", str(out))
    assert reason in refused(result)
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (
            "clustering --system dpqt_kmeans --epsilon 0.5",
            "points/dpqt_kmeans/declared/0.5/0 points/dpqt_kmeans/paid/0.5/0",
        ),
        (
            "release --system independent --no-classify --epsilon 0.5",
            "answers/independent/0.5/table/0 answers/independent/0.5/memory/0",
        ),
        (
            "anonymity --method hamdist_forward --k 5 --k 2 --protocol nested --scorer class_rate",
            "answers/hamdist_forward/release/2,5//0 "
            "answers/hamdist_forward/nested/2,5/class_rate/0",
        ),
    ],
)
def test_command_runs_the_requested_study(prepared_of: FolderOf, words: str, cells: str) -> None:
    kind, *arguments = words.split()
    folder = prepared_of(kind)
    places = ["--dataset", DATASET[kind], "--repeats", "1", "--out", str(folder)]
    done = command(kind, *arguments, *places)
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"report: {folder / 'report.md'}\n")
    assert "2 of 2 cells, 0:00:00 left" in done.output
    assert cells_of(folder) == cells.split()


HEADER = {"study": "counting", "code": "1"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with two cells."""
    path = tmp_path / "results.jsonl"
    with open_journal(path, HEADER) as journal:
        journal.append("a", {"value": 0.1})
        journal.append("b", {"value": None})
    return path


def rows_of(path: Path, code: str = "1") -> dict[str, object]:
    with open_journal(path, {**HEADER, "code": code}) as journal:
        return dict(journal.rows)


def append(path: Path, cell: str, code: str = "1") -> None:
    with open_journal(path, {**HEADER, "code": code}) as journal:
        journal.append(cell, {"value": 3})


def test_what_was_appended_is_there_again(path: Path) -> None:
    assert rows_of(path) == {"a": {"value": 0.1}, "b": {"value": None}}


@pytest.mark.parametrize("torn", range(1, 12))
def test_torn_last_line_is_dropped(path: Path, torn: int) -> None:
    path.write_bytes(path.read_bytes()[:-torn])
    assert list(rows_of(path)) == ["a"]
    append(path, "c")
    assert rows_of(path) == {"a": {"value": 0.1}, "c": {"value": 3}}


def test_a_torn_header_is_written_again(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])
    assert rows_of(path) == {}
    append(path, "a")
    assert list(rows_of(path)) == ["a"]


def test_a_broken_line_in_the_middle_is_damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"cell": "a"', b'"cell: "a"'))
    before = path.read_bytes()
    with pytest.raises(Damaged, match="Line 2 of"):
        rows_of(path)
    assert path.read_bytes() == before


def test_a_journal_of_other_code_is_refused_and_stays_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(DeclarationError, match=r"code 2, got .* code 1; .*--out"):
        rows_of(path, "2")
    assert path.read_bytes() == before


def test_a_journal_without_cells_becomes_that_of_other_code(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    append(path, "a", "2")
    assert list(rows_of(path, "2")) == ["a"]


def test_two_processes_do_not_write_into_one_journal(path: Path) -> None:
    with (
        open_journal(path, HEADER),
        pytest.raises(DeclarationError, match="expected no other study in this folder"),
    ):
        rows_of(path)
