"""The results in docs/studies are read as this code reads them, and give the published verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.papers.__main__ import main
from benchmarks.papers.report import FORMATS, claim_rows, csv_text, table_parts, verdict_parts
from benchmarks.papers.results import Summary, summary_rows
from benchmarks.papers.shown import REPORTS

FOLDER = Path(__file__).parents[2] / "docs/studies"


@pytest.mark.parametrize("kind", REPORTS)
def test_the_published_summary_gives_the_published_report(kind: str) -> None:
    report, folder = REPORTS[kind], FOLDER / kind
    summary = Summary.read(report.factors, folder / "summary.csv")
    text = (folder / "report.md").read_text(encoding="utf-8")
    parts = [part for name in summary.datasets for part in table_parts(report, summary, name)]
    # Pairs of repetitions are in no summary.
    parts += [] if report.factors.is_paired else verdict_parts(report, summary)
    assert len(parts) >= 6
    for part in parts:
        assert f"\n\n{part}\n" in text


@pytest.mark.parametrize("kind", REPORTS)
def test_the_published_summary_is_written_as_it_is_read(kind: str) -> None:
    path = FOLDER / kind / "summary.csv"
    rows = list(summary_rows(Summary.read(REPORTS[kind].factors, path)))
    assert csv_text(list(rows[0]), rows) == path.read_bytes()


@pytest.mark.parametrize("kind", [k for k in REPORTS if not REPORTS[k].factors.is_paired])
def test_the_published_claims_follow_from_the_summary(kind: str) -> None:
    report, folder = REPORTS[kind], FOLDER / kind
    rows = list(claim_rows(report, Summary.read(report.factors, folder / "summary.csv")))
    assert csv_text(list(rows[0]), rows) == (folder / "claims.csv").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_figures_are_drawn_again_from_the_summary(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the empty pictures of other tests
    summary = (FOLDER / "anonymity/summary.csv").read_text(encoding="utf-8").splitlines()
    few = [line for line in summary if line.startswith(("dataset,", "wdbc,release,"))]
    (tmp_path / "summary.csv").write_text("\n".join(few), encoding="utf-8")
    command = ["draw", "anonymity", str(tmp_path), "--format", form]
    assert CliRunner().invoke(main, command).exit_code == 0
    figure = tmp_path / f"wdbc_homogeneous.{form}"
    first = figure.read_bytes()
    assert first[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
    assert CliRunner().invoke(main, command).exit_code == 0
    assert figure.read_bytes() == first
