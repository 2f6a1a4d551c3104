"""The study of clustering: what it writes, and that a stopped one goes on as if it never was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from dp_pipeline.cli import main
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.ledger import Account
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.eug_kmeans import EugKMeans
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError, PipelineError
from dp_pipeline.spec.source import Source
from dp_pipeline.studies.clustering import report as module
from dp_pipeline.studies.clustering.cells import SYSTEMS, Cell, find_systems, known_systems
from dp_pipeline.studies.clustering.claims import CLAIMS
from dp_pipeline.studies.clustering.report import ClusteringStudy
from dp_pipeline.studies.study import seed_of
from dp_pipeline_tests.raw.file_server import file_server
from dp_pipeline_tests.studies.small import CELLS, declare, finished, results, small_study


def study(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["study", "clustering", *arguments])


def refused(result: Result) -> str:
    """The one line of a refusal for wrong use."""
    assert result.exit_code == 2, result.output
    assert result.output.startswith("dp-pipeline: ")
    assert result.output.count("\n") == 1
    return result.output


def test_every_cell_is_one_row_of_the_results(whole: Path) -> None:
    rows = results(whole)
    assert len(rows) == len(finished(whole)) == CELLS
    assert {row["claim"] for row in rows} == {"dp"}
    assert all(row["epsilon_charged"] == row["epsilon"] for row in rows)
    for name in ("nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "f_label", "ari_label"):
        assert all(np.isfinite(float(row[name])) for row in rows), name


def test_parquet_holds_what_the_csv_file_holds(whole: Path) -> None:
    table = pyarrow.parquet.read_table(whole / "results.parquet")
    ratios = [float(row["nicv_ratio"]) for row in results(whole)]
    assert table.column("nicv_ratio").to_pylist() == ratios


def test_the_summary_has_a_mean_of_all_repetitions_at_every_place(whole: Path) -> None:
    lines = (whole / "summary.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + CELLS // 2
    assert lines[1].startswith("points,dp_kmeans,none,0.5,2,")
    own = [float(row["nicv"]) for row in results(whole) if row["system"] == "dp_kmeans"][:2]
    assert float(lines[1].split(",")[5]) == pytest.approx(sum(own) / 2)


def test_the_report_says_of_every_claim_what_came_of_it(whole: Path) -> None:
    text = (whole / "report.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert claim.sentence in text
        assert claim.source in text
    assert text.count("**not measured**") == 2 * len(CLAIMS)


def test_every_picture_of_the_report_lies_beside_it(whole: Path) -> None:
    text = (whole / "report.md").read_text(encoding="utf-8")
    drawn = sorted(path.name for path in whole.glob("*.png"))
    measures = ("f_kmeans", "f_label", "nicv_ratio", "rcp")
    over_epsilon = [f"points_{m}_{way}.png" for m in measures for way in ("declared", "paid")]
    assert drawn == sorted([*over_epsilon, "points_seconds.png"])
    assert all(f"]({name})" in text for name in drawn)


def test_a_finished_study_is_not_fitted_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    monkeypatch.setattr(EugKMeans, "fit", None)
    small_study(tmp_path / "copy").run()
    for name in ("results.csv", "results.jsonl", "report.md"):
        assert (tmp_path / "copy" / name).read_bytes() == (whole / name).read_bytes()


def test_more_repetitions_fit_the_new_cells_only(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    fits, fit = [], EugKMeans.fit

    def counted(self, curator, **arguments):
        fits.append(arguments["epsilon"])
        return fit(self, curator, **arguments)

    monkeypatch.setattr(EugKMeans, "fit", counted)
    small_study(tmp_path / "copy", repeats=3).run()
    assert len(fits) == 4
    rows = results(tmp_path / "copy")
    assert len(rows) == CELLS * 3 // 2
    assert [row for row in rows if row["repetition"] != "2"] == results(whole)


def test_a_study_that_was_killed_goes_on_to_the_same_results(whole: Path, begun: Path) -> None:
    code = module.code_version(*module.MEASURING_FILES)
    words = "from dp_pipeline_tests.studies.small import *; "
    words += f"die_after(5, Path({str(begun)!r}), {code!r})"
    killed = subprocess.run([sys.executable, "-c", words], capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert not (begun / "results.jsonl").read_bytes().endswith(b"\n")
    small_study(begun).run()
    assert finished(begun) == finished(whole)
    assert results(begun) == results(whole)


def test_processes_give_the_same_results(whole: Path, begun: Path) -> None:
    small_study(begun, jobs=2).run()
    assert sorted(finished(begun)) == sorted(finished(whole))
    assert results(begun) == results(whole)


def test_cells_of_other_code_are_not_mixed_with_these(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    monkeypatch.setattr(module, "code_version", lambda *_: "other code")
    with pytest.raises(
        DeclarationError, match=r"of study clustering; code other code, got .*--out"
    ):
        small_study(tmp_path / "copy").run()


def test_cells_of_another_declaration_are_not_mixed_with_these(
    whole: Path, datasets: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    declare(datasets, "points", nominal_rows=400)
    try:
        with pytest.raises(DeclarationError, match=r"points as it is declared now, .*--out"):
            small_study(tmp_path / "copy").run()
    finally:
        declare(datasets, "points")


def test_a_system_that_refuses_leaves_the_others_their_cells(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BoundaryViolation("grid: expected fewer cells, got many")

    monkeypatch.setattr(EugKMeans, "fit", refuse)
    report = small_study(begun).run().read_text(encoding="utf-8")
    assert "* points eug_kmeans paid 2: grid: expected fewer cells, got many" in report
    assert "| DPk-means | " in report
    assert "| EUGkM | " not in report


def test_a_study_in_which_every_system_refuses_says_why(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeclarationError("too wide")

    for system in ("dp_kmeans", "eug_kmeans"):
        model = type(known_systems()[system].build(find_spec("points"), "none"))
        monkeypatch.setattr(model, "fit", refuse)
    with pytest.raises(PipelineError, match="got: too wide"):
        small_study(begun).run()


def published(folder: Path) -> ClusteringStudy:
    """DPQTk-means sound and as published, once."""
    systems = find_systems(["dpqt_kmeans", "dpqt_kmeans_published"])
    return replace(small_study(folder, repeats=1), systems=systems)


def test_a_variant_as_published_is_marked_and_compared_with_nothing(begun: Path) -> None:
    report = published(begun).run().read_text(encoding="utf-8")
    marked = [row for row in results(begun) if row["system"] == "dpqt_kmeans_published"]
    assert len(marked) == 4
    assert {(row["claim"], row["epsilon_charged"]) for row in marked} == {("not-dp", "none")}
    assert all("box" in row["reason"] for row in marked)
    tables, apart = report.split("## As published: not comparable")
    assert apart.count("| DPQTk-means as published | ") == 4
    assert "DPQTk-means as published" not in tables.split("## Run times")[0]


def test_a_system_that_discloses_more_than_it_claims_ends_the_study(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        DpqtKMeans, "guarantee", lambda _, epsilon, __=None: PrivacyGuarantee("dp", epsilon)
    )
    with pytest.raises(
        BoundaryViolation, match="expected a dp release as claimed, got a not-dp one"
    ):
        published(begun).run()


def test_a_data_set_to_be_released_is_refused_and_nothing_is_made(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    out = tmp_path / "out"
    line = refused(study("--dataset", "points", "--dataset", "secret", "--out", str(out)))
    assert line == (
        "dp-pipeline: secret: expected purpose: benchmark for a study, got purpose: release\n"
    )
    assert not out.exists()


def test_rows_that_the_ledger_protects_are_not_studied_whatever_their_file_says_now(
    datasets: Path, tmp_path: Path
) -> None:
    assert datasets.is_dir()
    study = small_study(tmp_path / "out")
    study.ledger.open_account(Account("points", "one row", "add_remove", "release", Fraction(1)))
    with pytest.raises(DeclarationError, match="points: opened with purpose 'release'"):
        study.run()
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
        study = replace(small_study(tmp_path / "out"), specs=(points,))
        account = Account("persons", "one row", "add_remove", "release", Fraction(1))
        study.ledger.open_account(account, sources=[f"sha256:{sha256(rows).hexdigest()}"])
        with pytest.raises(DeclarationError, match="is protected by lineage persons"):
            study.run()
    assert not list((tmp_path / "out").rglob("*.csv"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--system", "kmeans3000"], "system: expected one of dp_kmeans, "),
        (["--epsilon", "-1"], "--epsilon: expected a decimal number"),
        (["--dataset", "nowhere"], "data set: expected one of "),
        (["--dataset", "wdbc"], "wdbc: models: expected clustering models with one and the same k"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    datasets: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    assert datasets.is_dir()
    out = tmp_path / "out"
    assert words in refused(study("--dataset", "points", *arguments, "--out", str(out)))
    assert not out.exists()


def test_the_command_runs_what_it_was_asked_for(datasets: Path, begun: Path) -> None:
    assert datasets.is_dir()
    asked = ["--dataset", "points", "--system", "dpqt_kmeans", "--repeats", "1"]
    done = study(*asked, "--epsilon", "0.5", "--out", str(begun))
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"report: {begun / 'report.md'}\n")
    assert "2 of 2 cells, 0:00:00 left" in done.output
    assert finished(begun) == [
        "points/dpqt_kmeans/declared/0.5/0",
        "points/dpqt_kmeans/paid/0.5/0",
    ]


STOPPABLE = """
import signal
from dp_pipeline.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
"""The command, deaf to nothing: tests that run in the background inherit an ignored Ctrl-C."""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_study_that_is_stopped_by_hand_says_so_in_one_line_and_goes_on(
    datasets: Path, begun: Path, jobs: str
) -> None:
    assert datasets.is_dir()
    asked = ["study", "clustering", "--dataset", "points", "--system", "dpqt_kmeans"]
    command = [sys.executable, "-c", STOPPABLE, *asked, "--jobs", jobs, "--out", str(begun)]
    running = subprocess.Popen(
        [*command, "--repeats", "500"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    journal = begun / "results.jsonl"
    # The header and one cell, both with the end of their line.
    while not journal.exists() or journal.read_bytes().count(b"\n") < 2:
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
    done = study(*asked[2:], "--repeats", "5", "--out", str(begun))
    assert done.exit_code == 0, done.output
    assert finished(begun)[: len(before)] == before


def test_no_two_cells_share_their_noise() -> None:
    cells = [
        Cell("points", system, "none", epsilon, repetition)
        for system in ("dp_kmeans", "idp_kmeans")
        for epsilon in ("0.1", "1")
        for repetition in range(3)
    ]
    uses = ("noise", "post-processing")
    seeds = {seed_of(use, cell.key) for cell in cells for use in uses}
    assert len(seeds) == 2 * len(cells)
    zeros = np.zeros(50, dtype=np.int64)
    drawn = [
        SeededNoise(one).discrete_laplace(zeros, Fraction(10)).tolist() for one in sorted(seeds)
    ]
    assert len({tuple(one) for one in drawn}) == len(drawn)


def test_every_system_of_the_study_is_a_model_and_every_variant_as_published_is_marked() -> None:
    assert [system.name for system in find_systems([])][: len(SYSTEMS)] == [s.name for s in SYSTEMS]
    published = [one for one in known_systems().values() if one.is_published]
    assert "idp_kmeans_published" in [one.name for one in published]
    assert all(claim.system not in published for claim in CLAIMS)
