"""One small study of each kind: a few hundred public rows, two or three systems, twice."""

import csv
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.papers import anonymity, clustering, tables
from benchmarks.papers.study import Study, select_systems
from dp_pipeline.config.catalogue import find_spec

KINDS = ("clustering", "release", "anonymity")

_HEAD = """
name: {name}
description: A few public rows.
population: {name}
purpose: {purpose}
protection: {{unit: one_row}}
"""

_POINTS = """
source: {kind: generator, name: unbalance_like, options: {seed: 1, rows: 325}}
attributes:
  x: {bounds: [0, 1000000]}
  y: {bounds: [0, 1000000]}
  label: {levels: [1, 2, 3, 4, 5, 6, 7, 8]}
label: label
partitions: [0.5, 1]
models:
  dpqt_kmeans: {k: 3}
  eug_kmeans: {k: 3}
"""

_ANSWERS = """
source: {kind: generator, name: tic_like, options: {seed: 1, rows: ROWS}SAMPLE}
attributes:
  c1: {levels: 0..1}
  c2: {levels: 0..2}
  c4: {levels: 0..4}
  c5: {levels: 0..1}
label: c1
targets: {c1: {positive: [1]}, c2: {positive: [0, 2], without: [c4]}}
partitions: [0.5, 1]
models:
  independent: {}
"""

METHODS = "k_anonymity: {methods: {kjig: }, partitions: [0, 2, 10]}\n"

DATASET = {"clustering": "points", "release": "answers", "anonymity": "answers"}

CELLS = {
    # EUGkM plans with N in two ways, DPk-means in none: 3 × two ε × two repetitions.
    "clustering": 12,
    # Systems × ε × (two fits on all rows, two on four fifths), a fit for memory each, baselines.
    "release": 2 * 2 * (2 + 2) + 2 * 2 + 2 * 2,
    # Systems × uses × repetitions.
    "anonymity": 3 * 3 * 2,
}
ROWS = {**CELLS, "anonymity": (2 * 3 + 1) * 3 * 2}
"""Every K is a row; without a selection there is one."""

CLOCKED = ("seconds", "peak_mb")
"""What differs from run to run."""


def declare_points(folder: Path, name: str = "points", *, rows: int = 325, **head: str) -> None:
    """Write a data set file with two coordinates; ``rows`` is the declared number."""
    _declare(folder, name, f"{_POINTS}nominal_rows: {rows}\n", **head)


def declare_answers(
    folder: Path, name="answers", *, rows=300, sample="", methods=METHODS, **head: str
) -> None:
    """Write a data set file with four nominal columns."""
    body = _ANSWERS.replace("ROWS", str(rows)).replace("SAMPLE", sample)
    _declare(folder, name, body + methods, **head)


def _declare(folder: Path, name: str, body: str, *, purpose="benchmark", extra="") -> None:
    text = _HEAD.format(name=name, purpose=purpose) + body + extra
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def small_study(kind: str, folder: Path, *systems: str, dataset: str = "", **changes: Any) -> Study:
    """Return the study of this kind in a folder; ``changes`` are fields of it."""
    specs = (find_spec(dataset or DATASET[kind]),)
    fields: dict[str, Any] = {"specs": specs, "repeats": 2, "folder": folder}
    if kind == "anonymity":
        names = systems or ("hamdist_forward", "kjig", "no_selection")
        fields |= {"systems": select_systems(names, anonymity.SYSTEMS), "scorers": ("class_rate",)}
        return anonymity.AnonymityStudy(**{**fields, **changes})
    fields["epsilons"] = (Fraction(1, 2), Fraction(2))
    if kind == "clustering":
        names = systems or ("dp_kmeans", "eug_kmeans")
        fields["systems"] = select_systems(names, clustering.SYSTEMS)
        return clustering.ClusteringStudy(**{**fields, **changes})
    names = systems or ("independent", "privbayes")
    fields |= {"systems": select_systems(names, tables.SYSTEMS), "delta": Fraction(1, 10**9)}
    return tables.ReleaseStudy(**{**fields, **changes})


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def results(folder: Path) -> list[dict[str, str]]:
    """Return results.csv without what the clock and the allocator say."""
    rows = read_csv(folder / "results.csv")
    assert all(float(row[name]) > 0 for row in rows for name in CLOCKED if row.get(name))
    return [{name: text for name, text in row.items() if name not in CLOCKED} for row in rows]


def journal(folder: Path) -> Sequence[Mapping[str, Any]]:
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def cells_of(folder: Path) -> list[str]:
    return [line["cell"] for line in journal(folder)[1:]]
