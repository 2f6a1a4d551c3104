"""The study of private clustering: measure every cell, then write tables, pictures and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

from dp_pipeline.ledger import Ledger
from dp_pipeline.raw.comparison import keep_reference
from dp_pipeline.schema.errors import DeclarationError, PipelineError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.benchmark import Benchmark
from dp_pipeline.studies.clustering.cell import Cell, all_cells
from dp_pipeline.studies.clustering.measuring import Measuring, declared_digest
from dp_pipeline.studies.clustering.pictures import pictures
from dp_pipeline.studies.clustering.report import report
from dp_pipeline.studies.clustering.summary import MEASURES, Summary, sorted_rows
from dp_pipeline.studies.clustering.systems import System, shared_parameters
from dp_pipeline.studies.code import code_version
from dp_pipeline.studies.journal import Journal, Row, open_journal
from dp_pipeline.studies.progress import progress
from dp_pipeline.studies.tables import write_csv, write_parquet, write_whole
from dp_pipeline.studies.workers import each, one_thread

MEASURING_FILES = tuple(
    f"studies/clustering/{name}.py" for name in ("cell", "measuring", "systems")
)
"""Of this study's code, what finished cells depend on."""


@dataclass(frozen=True)
class ClusteringStudy:
    """What is to be measured, and where to.

    epsilons   empty: those that each data set lists
    folder     results, pictures, report, and the prepared rows in ``.data``
    ledger     of the project: what it protects is not studied
    jobs       processes; results do not depend on it
    """

    specs: tuple[DatasetSpec, ...]
    systems: tuple[System, ...]
    epsilons: tuple[Fraction, ...]
    repeats: int
    folder: Path
    ledger: Ledger
    jobs: int = 1

    def run(self) -> Path:
        """Measure the cells that are not in the folder yet; the path of the report.

        The files are of all cells in the folder, those of earlier runs included.
        DeclarationError, before anything is read or written, for a data set to be released or
        whose rows a lineage of the project protects, one without clustering models, and for a
        folder with cells of other code or data.
        """
        benchmarks = [Benchmark.of(spec, self.folder) for spec in self.specs]
        for spec in self.specs:
            self.ledger.require_public(spec.lineage, spec.source.identity)
        cells = [cell for spec in self.specs for cell in self._cells(spec)]
        cells.sort(key=lambda cell: cell.repetition)
        header = {"study": "clustering", "code": code_version(*MEASURING_FILES)}
        with open_journal(self.folder / "results.jsonl", header) as journal:
            self._require_same_data(journal)
            missing = [cell for cell in cells if cell.key not in journal.rows]
            if missing:
                self._measure(missing, benchmarks, journal)
            return write_results(self.folder, list(journal.rows.values()), header)

    def _cells(self, spec: DatasetSpec) -> list[Cell]:
        for system in self.systems:
            system.build(spec, system.plannings[0])
        epsilons = self.epsilons or spec.partitions
        return all_cells(spec.name, self.systems, epsilons, repeats=self.repeats)

    def _require_same_data(self, journal: Journal) -> None:
        declared = {spec.name: declared_digest(spec) for spec in self.specs}
        for row in journal.rows.values():
            if row["declared"] != declared.get(row["dataset"], row["declared"]):
                raise DeclarationError(
                    f"{self.folder}: expected cells of {row['dataset']} as it is declared now, "
                    "got cells of another declaration; name another folder with --out"
                )

    def _measure(
        self, cells: Sequence[Cell], benchmarks: Sequence[Benchmark], journal: Journal
    ) -> None:
        for benchmark in benchmarks:
            benchmark.prepare()
            _keep_reference(benchmark)
        with progress(len(cells)) as on_finished:
            for cell, row in each(Measuring(self.folder), cells, jobs=self.jobs):
                journal.append(cell.key, row)
                on_finished(cell.key)


def _keep_reference(benchmark: Benchmark) -> None:
    """k-means without privacy is computed once, and not by several processes at the same time."""
    spec, snapshot = benchmark.spec, benchmark.snapshot
    shared = shared_parameters(spec)
    columns = tuple(shared.get("columns", "").split()) or spec.domain.numeric
    with one_thread():
        keep_reference(spec, snapshot, columns, k=int(shared["k"]))


def write_results(folder: Path, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
    """Every file but the journal, from finished cells; the path of ``report.md``.

    PipelineError when every system refused.
    """
    in_order = sorted_rows(rows)
    summary = Summary.of(in_order)
    if not summary.means:
        why = next(iter(summary.failures.values()), "no cell")
        raise PipelineError(f"{folder}: expected a system that can be run, got: {why}")
    write_csv(folder / "results.csv", in_order)
    write_parquet(folder / "results.parquet", in_order)
    write_csv(folder / "summary.csv", _summary_rows(summary))
    shown = list(pictures(summary))
    for picture in shown:
        write_whole(folder / picture.file, picture.content)
    path = folder / "report.md"
    write_whole(path, report(summary, in_order, shown, header).encode())
    return path


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
            mean = every.get(measure)
            row[measure] = None if mean is None else mean.value
            row[f"{measure}_se"] = mean.error if mean and isfinite(mean.error) else None
        rows.append(row)
    return rows
