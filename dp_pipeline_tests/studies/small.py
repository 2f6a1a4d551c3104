"""A small study: 325 public rows, two systems, two ε, two repetitions; twelve cells."""

from __future__ import annotations

import csv
import json
import os
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.ledger import Ledger
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.studies import journal
from dp_pipeline.studies.clustering import report
from dp_pipeline.studies.clustering.cells import find_systems
from dp_pipeline.studies.clustering.report import ClusteringStudy

DECLARATION = """
name: {name}
description: A few public points.
lineage: {name}
purpose: {purpose}
protection: {{unit: one_row}}
source: {{kind: generator, name: unbalance_like, options: {{seed: 1, rows: 325}}}}
attributes:
  x: {{bounds: [0, 1000000]}}
  y: {{bounds: [0, 1000000]}}
  label: {{levels: [1, 2, 3, 4, 5, 6, 7, 8]}}
label: label
nominal_rows: {nominal_rows}
partitions: [0.5, 1]
models:
  dpqt_kmeans: {{k: 3}}
  eug_kmeans: {{k: 3}}
{more}"""

CELLS = 12
"""EUGkM plans with N in two ways, DPk-means in none: 3 × two ε × two repetitions."""


def declare(
    folder: Path, name: str, *, purpose: str = "benchmark", nominal_rows: int = 325, more: str = ""
) -> None:
    """Write the data set file ``name`` into a folder of the user's."""
    text = DECLARATION.format(name=name, purpose=purpose, nominal_rows=nominal_rows, more=more)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def small_study(folder: Path, *, repeats: int = 2, jobs: int = 1) -> ClusteringStudy:
    """The study of ``points`` in a folder."""
    return ClusteringStudy(
        specs=(find_spec("points"),),
        systems=find_systems(["dp_kmeans", "eug_kmeans"]),
        epsilons=(Fraction(1, 2), Fraction(2)),
        repeats=repeats,
        folder=folder,
        ledger=Ledger(folder / "ledger"),
        jobs=jobs,
    )


def results(folder: Path) -> list[dict[str, str]]:
    """results.csv, without what the clock says."""
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(float(row.pop("seconds")) > 0 for row in rows)
    return rows


def finished(folder: Path) -> list[str]:
    """The cells in the journal, in their order."""
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["cell"] for line in lines[1:]]


def die_after(cells: int, folder: Path, code: str) -> None:
    """Run the small study and be killed in the middle of writing the next line.

    code   the version of the code that goes on: in a working tree a file may change in between
    """
    write = journal._write
    report.code_version = lambda *_: code

    def write_or_die(file: Any, line: dict[str, Any]) -> None:
        if len(finished(folder)) == cells:
            file.write(json.dumps(line).encode()[:40])
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        write(file, line)

    # The header is written before there is a journal to count in.
    journal._write = lambda file, line: (write_or_die if "cell" in line else write)(file, line)
    small_study(folder).run()
