"""The study of k-anonymous tables: measure every cell, then write tables, pictures and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_pipeline.anonymity.protocols import EvaluationProtocol
from dp_pipeline.metrics.scorers import Scorer
from dp_pipeline.orchestration.anonymity_rows import declared_anonymity
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.anonymity.cell import Cell, all_cells
from dp_pipeline.studies.anonymity.measuring import FACTS, Measuring, declared_digest
from dp_pipeline.studies.anonymity.pictures import pictures
from dp_pipeline.studies.anonymity.report import report
from dp_pipeline.studies.anonymity.summary import Summary
from dp_pipeline.studies.anonymity.systems import System
from dp_pipeline.studies.benchmark import Benchmark
from dp_pipeline.studies.code import code_version
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.results import require_measured, with_error, write_results
from dp_pipeline.studies.study import Study

MEASURING_FILES = (
    *(f"studies/anonymity/{name}.py" for name in ("cell", "measuring", "systems")),
    "orchestration/anonymity_rows.py",
)
"""Of this study's code, what finished cells depend on."""


@dataclass(frozen=True, kw_only=True)
class AnonymityStudy(Study[Cell]):
    """Methods of k-anonymity on data sets that declare what they are to be used on.

    partitions   K, ascending; empty: those that each data set lists
    protocols    how classifiers are taught; releases are looked at with any of them
    scorers      the classifiers
    """

    systems: tuple[System, ...]
    partitions: tuple[int, ...]
    protocols: tuple[EvaluationProtocol, ...]
    scorers: tuple[Scorer, ...]

    def header(self) -> dict[str, str]:
        """The code that measured."""
        return {"study": "anonymity", "code": code_version(*MEASURING_FILES, rooms=("anonymity",))}

    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """Of every system; DeclarationError without a section ``k_anonymity``."""
        declared = declared_anonymity(spec)
        return all_cells(
            spec.name,
            self.systems,
            self.partitions or declared.partitions,
            uses=("release", *self.protocols),
            scorers=self.scorers,
            repeats=self.repeats,
        )

    def declared(self, spec: DatasetSpec) -> str:
        """Attributes, rows, quasi-identifiers and label."""
        return declared_digest(spec)

    def prepared(self, benchmark: Benchmark) -> None:
        """Every repetition's sample, where the data set is one."""
        if benchmark.spec.source.sample is not None:
            for repetition in range(1, self.repeats):
                Benchmark.of(benchmark.spec, self.folder, repetition).prepare(self.ledger)

    def measuring(self) -> Measuring:
        """Selects in the benchmarks in the folder."""
        return Measuring(self.folder)

    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Tables, pictures, report.md; PipelineError when every system refused."""
        summary = Summary.of(rows)
        require_measured(self.folder, measured=bool(summary.means), failures=summary.failures)
        columns = dict.fromkeys((*FACTS, *summary.measures))
        shown = list(pictures(summary))
        return write_results(
            self.folder,
            rows=[{**columns, **row} for row in summary.rows],
            means=_summary_rows(summary),
            shown=shown,
            text=report(summary, len(rows), shown, header),
        )


def _summary_rows(summary: Summary) -> list[Row]:
    """One row a place; ``…_se`` are standard errors."""
    rows: list[Row] = []
    for place, means in summary.means.items():
        row: dict[str, Any] = dict(zip(("dataset", "use", "system", "k"), place, strict=True))
        row["repeats"] = max(mean.repeats for mean in means.values())
        for measure in summary.measures:
            row |= with_error(measure, means.get(measure))
        rows.append(row)
    return rows
