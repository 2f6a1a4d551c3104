"""The results in docs/studies are read as this code reads them, and give the published verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.papers.report import csv_text, table_parts, verdict_parts
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
    assert len(parts) > 20
    for part in parts:
        assert f"\n\n{part}\n" in text


@pytest.mark.parametrize("kind", REPORTS)
def test_the_published_summary_is_written_as_it_is_read(kind: str) -> None:
    path = FOLDER / kind / "summary.csv"
    rows = list(summary_rows(Summary.read(REPORTS[kind].factors, path)))
    assert csv_text(list(rows[0]), rows) == path.read_bytes()
