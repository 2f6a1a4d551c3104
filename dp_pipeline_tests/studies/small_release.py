"""A small study of tables: 400 public rows of four attributes, two systems, two ε, twice."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

from dp_pipeline.ledger import Ledger
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.studies.tables.cells import find_systems
from dp_pipeline.studies.tables.report import ReleaseStudy

DECLARATION = """
name: {name}
description: A few public answers.
lineage: {name}
purpose: {purpose}
protection: {{unit: one_row}}
relation: {relation}
source: {{kind: generator, name: tic_like, options: {{seed: 1, rows: 400}}}}
attributes:
  c1: {{levels: 0..1}}
  c2: {{levels: 0..2}}
  c4: {{levels: 0..4}}
  c5: {{levels: 0..1}}
targets: {{c1: {{positive: [1]}}, c2: {{positive: [0, 2], without: [c4]}}}}
partitions: [0.5, 1]
models:
  independent: {{}}
{more}"""

CELLS = 2 * 2 * (2 + 2) + 2 * 2 + 2 * 2
"""Systems × ε × (two fits on all rows, two on four fifths), a fit for memory each, baselines."""

CLOCKED = ("seconds", "peak_mb")
"""What differs from run to run."""


def declare(
    folder: Path,
    name: str,
    *,
    purpose: str = "benchmark",
    relation: str = "add_remove",
    more: str = "",
) -> None:
    """Write the data set file ``name`` into a folder of the user's."""
    text = DECLARATION.format(name=name, purpose=purpose, relation=relation, more=more)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def small_study(
    folder: Path,
    *systems: str,
    dataset: str = "answers",
    repeats: int = 2,
    jobs: int = 1,
    delta: Fraction = Fraction(1, 10**9),
    classify: bool = True,
) -> ReleaseStudy:
    """The study of one data set in a folder; of ``independent`` and ``privbayes`` where no
    system is named.
    """
    return ReleaseStudy(
        specs=(find_spec(dataset),),
        systems=find_systems(systems or ("independent", "privbayes")),
        epsilons=(Fraction(1, 2), Fraction(2)),
        repeats=repeats,
        folder=folder,
        ledger=Ledger(folder / "ledger"),
        jobs=jobs,
        delta=delta,
        classify=classify,
    )


def results(folder: Path) -> list[dict[str, str]]:
    """results.csv, without what the clock and the allocator say."""
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if row["system"] not in ("no_privacy", "majority") and not row["failure"]:
            clocked = [row[name] for name in CLOCKED if row[name]]
            assert len(clocked) == (row["use"] != "classifier")
            assert all(float(one) > 0 for one in clocked)
    return [{name: text for name, text in row.items() if name not in CLOCKED} for row in rows]
