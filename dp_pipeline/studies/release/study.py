"""The study of private tables: measure every cell, then write tables, pictures and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.schema.currency import delta_text
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.benchmark import Benchmark
from dp_pipeline.studies.code import code_version
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.release.cell import Cell, all_cells
from dp_pipeline.studies.release.measuring import FACTS, Measuring, declared_digest
from dp_pipeline.studies.release.pictures import pictures
from dp_pipeline.studies.release.report import report
from dp_pipeline.studies.release.summary import Summary, measures_of, sorted_rows
from dp_pipeline.studies.release.systems import System
from dp_pipeline.studies.results import require_measured, with_error, write_results
from dp_pipeline.studies.study import Study

MEASURING_FILES = tuple(f"studies/release/{name}.py" for name in ("cell", "measuring", "systems"))
"""Of this study's code, what finished cells depend on."""


@dataclass(frozen=True, kw_only=True)
class ReleaseStudy(Study[Cell]):
    """Models of tables on data sets with discrete attributes.

    epsilons   empty: those that each data set lists
    delta      of the systems that account in ρ
    classify   whether classifiers are taught the targets that a data set declares
    """

    epsilons: tuple[Fraction, ...]
    systems: tuple[System, ...]
    delta: Fraction
    classify: bool = True

    def header(self) -> dict[str, str]:
        """The code that measured, and δ."""
        code = code_version(*MEASURING_FILES)
        return {"study": "release", "code": code, "delta": delta_text(self.delta)}

    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """Of the systems that fit its neighbours; DeclarationError where none does, and without
        attributes that have cells.
        """
        systems = [system for system in self.systems if system.fits(spec)]
        if not spec.domain.discrete:
            raise DeclarationError(f"{spec.name}: expected attributes with cells, got none")
        if not systems:
            raise DeclarationError(
                f"{spec.name}: expected a system for {spec.relation}, got none that was asked for"
            )
        return all_cells(
            spec.name,
            systems,
            self.epsilons or spec.partitions,
            repeats=self.repeats,
            classify=self.classify and bool(spec.targets),
        )

    def declared(self, spec: DatasetSpec) -> str:
        """Attributes, rows and targets."""
        return declared_digest(spec)

    def prepared(self, benchmark: Benchmark) -> None:
        """Nothing is shared by the cells but the rows."""

    def measuring(self) -> Measuring:
        """Fits over the benchmarks in the folder."""
        return Measuring(self.folder, self.delta)

    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Tables, pictures, report.md."""
        return _written(self.folder, rows, header)


def _written(folder: Path, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
    """Every file but the journal, from finished cells; the path of ``report.md``.

    PipelineError when every system refused.
    """
    in_order = sorted_rows(rows)
    summary = Summary.of(in_order)
    measured = any(summary.systems(dataset) for dataset in summary.datasets)
    require_measured(folder, measured=measured, failures=summary.failures)
    columns = dict.fromkeys((*FACTS, *measures_of(in_order)))
    shown = list(pictures(summary))
    return write_results(
        folder,
        rows=[{**columns, **row} for row in in_order],
        means=_summary_rows(summary),
        shown=shown,
        text=report(summary, in_order, shown, header),
    )


def _summary_rows(summary: Summary) -> list[Row]:
    """One row a place; ``…_se`` are standard errors."""
    rows: list[Row] = []
    for place, means in summary.means.items():
        row: dict[str, Any] = dict(zip(("dataset", "system", "epsilon"), place, strict=True))
        for measure in summary.measures:
            mean = means.get(measure)
            row |= with_error(measure, mean)
            row[f"{measure}_repeats"] = 0 if mean is None else mean.repeats
        rows.append(row)
    return rows
