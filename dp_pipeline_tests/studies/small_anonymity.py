"""A small study of k-anonymous tables: 300 public rows of four attributes, three systems, three K,
twice.
"""

from __future__ import annotations

import csv
from pathlib import Path

from dp_pipeline.anonymity.protocols import EvaluationProtocol
from dp_pipeline.ledger import Ledger
from dp_pipeline.metrics.classification import Scorer
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.studies.k_anonymity.cells import find_systems
from dp_pipeline.studies.k_anonymity.report import AnonymityStudy

DECLARATION = """
name: {name}
description: A few public answers.
lineage: {name}
purpose: {purpose}
protection: {{unit: one_row}}
source:
  kind: generator
  name: tic_like
  options: {{seed: 1, rows: {rows}}}
{sample}
attributes:
  c1: {{levels: 0..1}}
  c2: {{levels: 0..2}}
  c4: {{levels: 0..4}}
  c5: {{levels: 0..1}}
label: c1
partitions: [1]
models:
  independent: {{}}
{more}"""

DECLARED = "k_anonymity: {methods: {kjig: }, partitions: [0, 2, 10]}\n"

SYSTEMS = ("hamdist_forward", "kjig", "no_selection")

CELLS = 3 * 3 * 2
"""Systems × uses × repetitions."""

ROWS = (2 * 3 + 1) * 3 * 2
"""The same at every K; without a selection there is one."""


def declare(
    folder: Path,
    name: str,
    *,
    purpose: str = "benchmark",
    rows: int = 300,
    sample: str = "",
    more: str = DECLARED,
) -> None:
    """Write the data set file ``name`` into a folder of the user's."""
    text = DECLARATION.format(name=name, purpose=purpose, rows=rows, sample=sample, more=more)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def small_study(
    folder: Path,
    *systems: str,
    dataset: str = "answers",
    partitions: tuple[int, ...] = (),
    protocols: tuple[EvaluationProtocol, ...] = ("paper", "nested"),
    scorers: tuple[Scorer, ...] = ("class_rate",),
    repeats: int = 2,
    jobs: int = 1,
) -> AnonymityStudy:
    """The study of one data set in a folder; of ``SYSTEMS`` where none is named."""
    return AnonymityStudy(
        specs=(find_spec(dataset),),
        systems=find_systems(systems or SYSTEMS),
        partitions=partitions,
        protocols=protocols,
        scorers=scorers,
        repeats=repeats,
        folder=folder,
        ledger=Ledger(folder / "ledger"),
        jobs=jobs,
    )


def results(folder: Path) -> list[dict[str, str]]:
    """results.csv, without what the clock says."""
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(float(row["seconds"]) > 0 for row in rows if not row["failure"])
    return [{name: text for name, text in row.items() if name != "seconds"} for row in rows]
