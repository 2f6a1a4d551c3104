"""Any study: what it writes, that a stopped one goes on as if it never was, what it refuses."""

from __future__ import annotations

import ast
import builtins
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dp_pipeline.cli import main
from dp_pipeline.ledger import Account
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.source import Source
from dp_pipeline.studies import clustering, k_anonymity, study, tables
from dp_pipeline.studies.report import lines_of
from dp_pipeline.studies.results import Summary
from dp_pipeline_tests.raw.file_server import file_server
from dp_pipeline_tests.studies.small import (
    CELLS,
    DATASET,
    KINDS,
    ROWS,
    declare_points,
    finished,
    journal,
    read_csv,
    results,
    small_study,
)

WholeOf = Callable[[str], Path]

every_study = pytest.mark.parametrize("kind", KINDS)

_ERRORS = [f"misclassified_{by}{of}" for by in ("svm", "logistic") for of in ("", "_c1", "_c2")]
PICTURES = {
    "clustering": {
        "points_seconds.png",
        *(
            f"points_{measure}_{planning}.png"
            for measure in ("f_kmeans", "f_label", "nicv_ratio", "rcp")
            for planning in ("declared", "paid")
        ),
    },
    "release": {
        f"answers_{measure}.png" for measure in ("avd_2", "avd_3", "seconds", "peak_mb", *_ERRORS)
    },
    "anonymity": {
        f"answers_{measure}.png"
        for measure in ("auc_class_rate_nested", "auc_class_rate_paper", "seconds", "homogeneous")
    },
}
TITLES = {
    "clustering": ("DPk-means", "EUGkM"),
    "release": ("without privacy", "majority", "independent", "PrivBayes"),
    "anonymity": ("HamDist, forward", "kjig", "no selection"),
}


def command(kind: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["study", kind, *arguments])


def refused(result: Result) -> str:
    """The one line of a refusal for wrong use."""
    assert result.exit_code == 2, result.output
    assert result.output.startswith("dp-pipeline: ")
    assert result.output.count("\n") == 1
    return result.output


@every_study
def test_every_cell_is_in_the_journal_and_its_rows_in_the_results(
    whole_of: WholeOf, kind: str
) -> None:
    assert len(finished(whole_of(kind))) == CELLS[kind]
    assert len(results(whole_of(kind))) == ROWS[kind]


@every_study
def test_parquet_holds_what_the_csv_file_holds(whole_of: WholeOf, kind: str) -> None:
    table = pyarrow.parquet.read_table(whole_of(kind) / "results.parquet")
    stored = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in table.to_pylist()
    ]
    assert stored == read_csv(whole_of(kind) / "results.csv")


@every_study
@pytest.mark.parametrize("place", [0, -1])
def test_the_summary_has_a_mean_of_all_repetitions_at_every_place(
    whole_of: WholeOf, kind: str, place: int
) -> None:
    known = read_csv(whole_of(kind) / "summary.csv")[place]
    factors = small_study(kind, whole_of(kind)).factors
    columns = [name for name in factors.order if name in known]
    rows = [
        row
        for row in read_csv(whole_of(kind) / "results.csv")
        if all(row[name] == known[name] for name in columns)
    ]
    measured = [name for name in known if f"{name}_se" in known and known[name] and name in rows[0]]
    assert measured
    for measure in measured:
        numbers = [float(row[measure]) for row in rows if row[measure]]
        assert float(known[measure]) == pytest.approx(sum(numbers) / len(numbers))
        repeats = known.get(f"{measure}_repeats", known.get("repeats"))
        assert repeats == str(len(numbers)) == ("1" if measure == "peak_mb" else "2")


@every_study
def test_the_report_says_of_every_claim_what_came_of_it(whole_of: WholeOf, kind: str) -> None:
    text = (whole_of(kind) / "report.md").read_text(encoding="utf-8")
    claims = small_study(kind, whole_of(kind)).claims
    for claim in claims:
        assert f"{claim.sentence.replace('|', '&#124;')} | {claim.source} | " in text
    ways = 2 if kind == "clustering" else 1
    # Which of two methods is faster comes out one way or another where others run beside them.
    timed = len(re.findall(r"\| run time \| \*\*(?!not measured)", text))
    verdicts = ways * sum(len(claim.measured) for claim in claims)
    assert text.count("**not measured**") == verdicts - timed
    assert timed == (kind == "anonymity")
    for title in TITLES[kind]:
        assert f"\n| {title} | " in text


@every_study
def test_every_picture_of_the_report_lies_beside_it(whole_of: WholeOf, kind: str) -> None:
    text = (whole_of(kind) / "report.md").read_text(encoding="utf-8")
    drawn = {path.name for path in whole_of(kind).glob("*.png")}
    assert drawn == PICTURES[kind]
    assert all(f"]({name})" in text for name in drawn)
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in whole_of(kind).glob("*.png"))


@every_study
def test_a_picture_has_a_line_a_system_through_its_means(whole_of: WholeOf, kind: str) -> None:
    asked = small_study(kind, whole_of(kind))
    summary = Summary.of(
        asked.factors, asked.rows([line["row"] for line in journal(whole_of(kind))[1:]])
    )
    levels = {"anonymity": ["0", "2", "10"]}.get(kind, ["0.5", "2"])
    curve = next(iter(asked.curves(summary)))
    measure = {"clustering": "nicv_ratio", "release": "avd_2", "anonymity": "auc_logistic"}[kind]
    assert curve.measure == measure
    shown = next(one for one in asked.curves(summary) if lines_of(summary, DATASET[kind], one))
    lines = lines_of(summary, DATASET[kind], shown)
    titles = [title for title in TITLES[kind] if title not in ("without privacy", "majority")]
    assert [line.name for line in lines] == [one for one in titles if one != "no selection"]
    for line in lines:
        assert [text for text, _ in line.points] == levels
        assert all(mean.repeats == 2 for _, mean in line.points)


@every_study
def test_a_finished_study_measures_nothing_again(
    whole_of: WholeOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    shutil.copytree(whole_of(kind), tmp_path / "copy")
    asked = small_study(kind, tmp_path / "copy")
    monkeypatch.setattr(type(asked), "measuring", None)
    asked.run()
    for name in ("results.csv", "results.jsonl", "summary.csv", "report.md"):
        assert (tmp_path / "copy" / name).read_bytes() == (whole_of(kind) / name).read_bytes()


@every_study
def test_more_repetitions_measure_the_new_cells_only_and_end_as_if_asked_for_at_once(
    whole_of: WholeOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    shutil.copytree(whole_of(kind), tmp_path / "copy")
    path = tmp_path / "copy" / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    first = [line for line, cell in zip(lines[1:], finished(whole_of(kind)), strict=True)
             if cell.endswith("/0")]  # fmt: skip
    path.write_text("".join([lines[0], *first]), encoding="utf-8")
    measured: list[str] = []
    asked = small_study(kind, tmp_path / "copy")
    measure = asked.measuring()

    def counted(cell):
        measured.append(cell.key)
        return measure(cell)

    monkeypatch.setattr(type(asked), "measuring", lambda _: counted)
    asked.run()
    assert measured
    assert all(cell.endswith("/1") for cell in measured)
    assert sorted(finished(tmp_path / "copy")) == sorted(finished(whole_of(kind)))
    assert results(tmp_path / "copy") == results(whole_of(kind))


@every_study
def test_cells_are_sent_to_other_processes_and_give_the_same_row_there(
    whole_of: WholeOf, kind: str
) -> None:
    asked = small_study(kind, whole_of(kind))
    cell = asked.cells(asked.specs[0])[0]
    measure, sent = pickle.loads(pickle.dumps((asked.measuring(), cell)))
    rows = [dict(measure(sent)), dict(measure(cell))]
    for row in rows:
        # The clock of an anonymity cell lies in the numbers of each K.
        row.pop("seconds", None)
        for numbers in row.get("by_k", {}).values():
            numbers.pop("seconds")
    assert rows[0] == rows[1]


class Killed(BaseException):
    """What ends a process before it could do anything."""


def test_a_study_that_was_killed_goes_on_to_the_same_results(
    whole_of: WholeOf, begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, begun, append = whole_of("clustering"), begun_of("clustering"), study._append

    def torn(file, line):
        if "cell" in line and len(finished(begun)) == 5:
            file.write(b'{"cell": "points/eug_kmea')
            raise Killed
        append(file, line)

    monkeypatch.setattr(study, "_append", torn)
    with pytest.raises(Killed):
        small_study("clustering", begun).run()
    monkeypatch.setattr(study, "_append", append)
    assert not (begun / "results.jsonl").read_bytes().endswith(b"\n")
    small_study("clustering", begun).run()
    assert finished(begun) == finished(whole)
    assert results(begun) == results(whole)


def test_a_study_that_is_stopped_by_hand_says_so_in_one_line(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begun_of("clustering")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(study.Journal, "append", stop)
    asked = ["--dataset", "points", "--system", "dpqt_kmeans", "--out", str(begun)]
    stopped = command("clustering", *asked)
    assert stopped.exit_code == 1
    line = f"dp-pipeline: {begun}: stopped; the same command goes on from here\n"
    assert stopped.output.endswith(line)


STOPPABLE = """
import signal
from dp_pipeline.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
"""The command, deaf to nothing: tests that run in the background inherit an ignored Ctrl-C."""


@pytest.mark.chain
def test_processes_give_the_same_results_until_they_are_stopped_by_hand_in_one_line(
    whole_of: WholeOf, begun_of: WholeOf
) -> None:
    whole, begun = whole_of("clustering"), begun_of("clustering")
    asked = ["study", "clustering", "--dataset", "points", "--jobs", "2", "--out", str(begun)]
    systems = ["--system", "dp_kmeans", "--system", "eug_kmeans", "--epsilon", "2"]
    running = subprocess.Popen(
        [sys.executable, "-c", STOPPABLE, *asked, *systems, "--repeats", "500"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    path = begun / "results.jsonl"
    # The header and three cells, all with the end of their line.
    while not path.exists() or path.read_bytes().count(b"\n") < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # The whole group, as a terminal does.
    os.killpg(running.pid, signal.SIGINT)
    _, words = running.communicate(timeout=60)
    assert words.endswith(f"dp-pipeline: {begun}: stopped; the same command goes on from here\n")
    assert words.count("dp-pipeline: ") == 1
    assert "Traceback" not in words
    assert running.returncode == 1
    before = finished(begun)
    small_study("clustering", begun).run()
    assert finished(begun)[: len(before)] == before
    same = [row for row in results(begun) if row["repetition"] in ("0", "1")]
    assert same == results(whole)


def test_cells_of_other_code_are_not_mixed_with_these(
    whole_of: WholeOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole_of("clustering"), tmp_path / "copy")
    monkeypatch.setattr(study, "code_version", lambda *_, **__: "other code")
    with pytest.raises(
        DeclarationError, match=r"of study clustering; code other code, got .*--out"
    ):
        small_study("clustering", tmp_path / "copy").run()


def test_cells_of_another_declaration_are_not_mixed_with_these(
    whole_of: WholeOf, datasets: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole_of("clustering"), tmp_path / "copy")
    declare_points(datasets, rows=400)
    try:
        with pytest.raises(DeclarationError, match=r"points as it is declared now, .*--out"):
            small_study("clustering", tmp_path / "copy").run()
    finally:
        declare_points(datasets)


def test_words_may_change_without_making_finished_cells_void_and_what_measures_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "studies/k_anonymity.py"
    for room in (*study._ROOMS, "studies"):
        (tmp_path / room).mkdir()
    (tmp_path / "studies" / "study.py").touch()
    monkeypatch.setattr(study.resources, "files", lambda _: tmp_path)

    def version(text: str, *, metric: str = "") -> str:
        (tmp_path / file).write_text(text, encoding="utf-8")
        (tmp_path / "metrics" / "auc.py").write_text(metric, encoding="utf-8")
        study.code_version.cache_clear()
        return study.code_version(file)

    first = version(f"measure\n{study.SAID}\nclaim")
    assert version(f"measure\n{study.SAID}\nanother claim") == first
    assert version(f"measure more\n{study.SAID}\nclaim") != first
    assert version(f"measure\n{study.SAID}\nclaim", metric="other") != first
    study.code_version.cache_clear()


@pytest.mark.parametrize("module", [clustering, tables, k_anonymity])
def test_what_measures_a_cell_uses_nothing_that_stands_below_the_line(module) -> None:
    source = Path(module.__file__).read_text(encoding="utf-8")
    measuring, line, said = source.partition(study.SAID)
    assert line
    assert "class Measuring" in measuring
    below = {
        name.id
        for node in ast.parse(said).body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    below |= {getattr(node, "name", "") for node in ast.parse(said).body}
    used = {node.id for node in ast.walk(ast.parse(measuring)) if isinstance(node, ast.Name)}
    assert {"FACTORS", "CLAIMS"} <= below
    assert not used & (below - {*dir(builtins)})


@every_study
def test_a_data_set_to_be_released_is_refused_and_nothing_is_made(
    datasets: Path, tmp_path: Path, kind: str
) -> None:
    assert datasets.is_dir()
    out, name = tmp_path / "out", DATASET[kind]
    asked = ["--dataset", name, "--dataset", f"secret_{name}", "--out", str(out)]
    assert refused(command(kind, *asked)) == (
        f"dp-pipeline: secret_{name}: expected purpose: benchmark for a study, got purpose: "
        "release\n"
    )
    assert not out.exists()


@every_study
def test_rows_that_the_ledger_protects_are_not_studied_whatever_their_file_says_now(
    datasets: Path, tmp_path: Path, kind: str
) -> None:
    assert datasets.is_dir()
    asked, name = small_study(kind, tmp_path / "out"), DATASET[kind]
    asked.ledger.open_account(Account(name, "one row", "add_remove", "release", Fraction(1)))
    with pytest.raises(DeclarationError, match=f"{name}: opened with purpose 'release'"):
        asked.run()
    assert not (tmp_path / "out" / ".data").exists()
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_a_download_that_the_ledger_protects_by_its_hash_is_not_studied(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    rows = b"x,y,label\n1,2,3\n"
    with file_server() as server:
        server.files["/points.csv"] = rows
        source = Source("csv", server.url("/points.csv"), at_most_mb=1)
        points = replace(find_spec("points"), source=source)
        asked = small_study("clustering", tmp_path / "out", specs=(points,))
        account = Account("persons", "one row", "add_remove", "release", Fraction(1))
        asked.ledger.open_account(account, sources=[f"sha256:{sha256(rows).hexdigest()}"])
        with pytest.raises(DeclarationError, match="is protected by population persons"):
            asked.run()
    assert not list((tmp_path / "out").rglob("*.csv"))


def test_rows_that_cannot_be_downloaded_leave_no_folder_and_say_what_else_there_is(
    tmp_path: Path, datasets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DP_PIPELINE_DATA", raising=False)
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    text, out = (datasets / "points.yaml").read_text(encoding="utf-8"), tmp_path / "out"
    (tmp_path / "points_like.yaml").write_text(text.replace("points", "points_like"), "utf-8")
    (line,) = [one for one in text.splitlines() if one.startswith("source:")]
    download = "{url: 'http://127.0.0.1:9/points.csv', at_most_mb: 1}"
    remote = f"source: {{kind: csv, path: $DP_PIPELINE_DATA/points.csv, download: {download}}}"
    (tmp_path / "points.yaml").write_text(text.replace(line, remote), "utf-8")
    result = command("clustering", "--dataset", "points", "--repeats", "1", "--out", str(out))
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "a server that answers, got" in result.output
    assert "`export DP_PIPELINE_DATA=FOLDER` names a folder with points.csv; " in result.output
    assert "points_like is generated, and needs neither" in result.output
    assert not out.exists()
    (out / "kept").mkdir(parents=True)
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path))
    again = command("clustering", "--dataset", "points", "--out", str(out))
    assert f"read from {tmp_path / 'points.csv'} where that is there" in again.output
    assert (out / "kept").is_dir(), "what was there before stays"


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("clustering", ["--system", "kmeans3000"], "system: expected one of dp_kmeans, "),
        ("clustering", ["--epsilon", "-1"], "--epsilon: expected a decimal number"),
        ("clustering", ["--dataset", "nowhere"], "data set: expected one of "),
        (
            "clustering",
            ["--dataset", "wdbc"],
            "wdbc: models: expected clustering models with one and the same k",
        ),
        ("release", ["--system", "privhd9000"], "system: expected one of independent, "),
        ("release", ["--epsilon", "-1"], "--epsilon: expected a decimal number"),
        ("release", ["--delta", "0"], "--delta: expected a decimal number above 0"),
        (
            "release",
            ["--dataset", "birch3_like"],
            "birch3_like: expected attributes with cells, got none",
        ),
        ("anonymity", ["--method", "alpha_beta"], "method: expected one of rfka, "),
        ("anonymity", ["--k", "-1"], "K: expected a whole number"),
        ("anonymity", ["--k", "five"], "K: expected a whole number"),
        (
            "anonymity",
            ["--dataset", "silent"],
            "silent: expected a section `k_anonymity`, got none",
        ),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    datasets: Path, tmp_path: Path, kind: str, arguments: list[str], words: str
) -> None:
    assert datasets.is_dir()
    out = tmp_path / "out"
    asked = ["--dataset", DATASET[kind], *arguments, "--out", str(out)]
    assert words in refused(command(kind, *asked))
    assert not out.exists()


@pytest.mark.parametrize(
    ("kind", "arguments", "cells"),
    [
        (
            "clustering",
            ["--system", "dpqt_kmeans", "--epsilon", "0.5"],
            ["points/dpqt_kmeans/declared/0.5/0", "points/dpqt_kmeans/paid/0.5/0"],
        ),
        (
            "release",
            ["--system", "independent", "--no-classify", "--epsilon", "0.5"],
            ["answers/independent/0.5/table/0", "answers/independent/0.5/memory/0"],
        ),
        (
            "anonymity",
            [*("--method", "kjig", "--k", "5", "--k", "2"),
             *("--protocol", "nested", "--scorer", "class_rate")],
            ["answers/kjig/release/2,5//0", "answers/kjig/nested/2,5/class_rate/0"],
        ),
    ],
)  # fmt: skip
def test_the_command_runs_what_it_was_asked_for(
    begun_of: WholeOf, kind: str, arguments: list[str], cells: list[str]
) -> None:
    begun = begun_of(kind)
    asked = ["--dataset", DATASET[kind], *arguments, "--repeats", "1", "--out", str(begun)]
    done = command(kind, *asked)
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"report: {begun / 'report.md'}\n")
    assert "2 of 2 cells, 0:00:00 left" in done.output
    assert finished(begun) == cells
