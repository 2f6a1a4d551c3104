"""The study of private clustering: measure every cell, then write tables, pictures and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.raw.comparison import keep_reference
from dp_pipeline.release.one_thread import one_thread
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.benchmark import Benchmark
from dp_pipeline.studies.clustering.cell import Cell, all_cells
from dp_pipeline.studies.clustering.measuring import Measuring, declared_digest
from dp_pipeline.studies.clustering.pictures import pictures
from dp_pipeline.studies.clustering.report import report
from dp_pipeline.studies.clustering.summary import MEASURES, Summary, sorted_rows
from dp_pipeline.studies.clustering.systems import System, shared_parameters
from dp_pipeline.studies.code import code_version
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.results import require_measured, with_error, write_results
from dp_pipeline.studies.study import Study

MEASURING_FILES = tuple(
    f"studies/clustering/{name}.py" for name in ("cell", "measuring", "systems")
)
"""Of this study's code, what finished cells depend on."""


@dataclass(frozen=True, kw_only=True)
class ClusteringStudy(Study[Cell]):
    """Private k-means systems on data sets with clustering models.

    epsilons   empty: those that each data set lists
    """

    epsilons: tuple[Fraction, ...]
    systems: tuple[System, ...]

    def header(self) -> dict[str, str]:
        """The code that measured."""
        return {"study": "clustering", "code": code_version(*MEASURING_FILES)}

    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """In every planning of each system; DeclarationError without clustering models."""
        for system in self.systems:
            system.build(spec, system.plannings[0])
        epsilons = self.epsilons or spec.partitions
        return all_cells(spec.name, self.systems, epsilons, repeats=self.repeats)

    def declared(self, spec: DatasetSpec) -> str:
        """Attributes, rows, N, label, k and columns."""
        return declared_digest(spec)

    def prepared(self, benchmark: Benchmark) -> None:
        """k-means without privacy: not by several processes at the same time."""
        spec, snapshot = benchmark.spec, benchmark.snapshot
        shared = shared_parameters(spec)
        columns = tuple(shared.get("columns", "").split()) or spec.domain.numeric
        with one_thread():
            keep_reference(spec, snapshot, columns, k=int(shared["k"]))

    def measuring(self) -> Measuring:
        """Fits over the benchmarks in the folder."""
        return Measuring(self.folder)

    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Tables, pictures, report.md."""
        return _written(self.folder, rows, header)


def _written(folder: Path, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
    """Every file but the journal, from finished cells; the path of ``report.md``.

    PipelineError when every system refused.
    """
    in_order = sorted_rows(rows)
    summary = Summary.of(in_order)
    require_measured(folder, measured=bool(summary.means), failures=summary.failures)
    shown = list(pictures(summary))
    return write_results(
        folder,
        rows=in_order,
        means=_summary_rows(summary),
        shown=shown,
        text=report(summary, in_order, shown, header),
    )


def _summary_rows(summary: Summary) -> list[Row]:
    """One row a place; ``…_se`` are standard errors, and RCP of a system that plans with no N
    is against EUGkM with N declared.
    """
    rows: list[Row] = []
    for place, means in summary.means.items():
        dataset, system, planning, epsilon = place
        row: dict[str, Any] = dict(
            zip(("dataset", "system", "planning", "epsilon"), place, strict=True)
        )
        row["repeats"] = means["seconds"].repeats
        against = "declared" if planning == "none" else planning
        every = {**means, "rcp": summary.mean(dataset, system, against, epsilon, "rcp")}
        for measure in (*MEASURES, "rcp"):
            row |= with_error(measure, every.get(measure))
        rows.append(row)
    return rows
