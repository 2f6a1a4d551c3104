"""The results in docs/studies are read as this code reads them, and give the published verdicts."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.papers.__main__ import main
from benchmarks.papers.report import FORMATS, claim_rows, csv_text
from benchmarks.papers.results import Summary, summary_rows
from benchmarks.papers.shown import REPORTS

FOLDER = Path(__file__).parents[2] / "docs/studies"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


UNPAIRED = [kind for kind in REPORTS if not REPORTS[kind].factors.is_paired]
"""Pairs of repetitions are in no summary."""


@pytest.mark.parametrize(("kind", "heading"), [("clustering", "Clustering"), ("release", "Tables")])
def test_the_page_has_the_verdict_on_each_claim(kind: str, heading: str) -> None:
    report = REPORTS[kind]
    verdicts: dict[int, dict[str, list[int]]] = {}
    for row in claim_rows(report, Summary.read(report.factors, FOLDER / kind / "summary.csv")):
        claim = verdicts.setdefault(int(str(row["claim"])), {})
        counts = claim.setdefault(str(row["measured_by"]), [0, 0])
        counts[0] += row["held"] == "yes"
        counts[1] += row["outcome"] == "worse"
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = dict(re.findall(r"^\| (\d+) \|(.*)$", section, re.MULTILINE))
    assert len(lines) == len(report.claims)
    for number, counted in verdicts.items():
        shown = re.findall(r"(\d+) / (\d+)", lines[str(number)])
        assert [[int(held), int(contrary)] for held, contrary in shown] == list(counted.values())


@pytest.mark.parametrize("kind", REPORTS)
def test_the_published_summary_is_written_as_it_is_read(kind: str) -> None:
    path = FOLDER / kind / "summary.csv"
    rows = list(summary_rows(Summary.read(REPORTS[kind].factors, path)))
    assert csv_text(list(rows[0]), rows) == path.read_bytes()


@pytest.mark.parametrize("kind", UNPAIRED)
def test_the_published_claims_follow_from_the_summary(kind: str) -> None:
    report, folder = REPORTS[kind], FOLDER / kind
    rows = list(claim_rows(report, Summary.read(report.factors, folder / "summary.csv")))
    assert csv_text(list(rows[0]), rows) == (folder / "claims.csv").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_figures_are_drawn_again_from_the_summary(form: str, tmp_path: Path, monkeypatch):
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
