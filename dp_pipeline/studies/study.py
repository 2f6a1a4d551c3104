"""Study: measure the cells that are not finished yet, then write what came of all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from dp_pipeline.ledger import Ledger
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.benchmark import Benchmark
from dp_pipeline.studies.journal import Journal, Row, open_journal
from dp_pipeline.studies.progress import progress
from dp_pipeline.studies.workers import each


class AnyCell(Protocol):
    """What is measured at once, and known by one text."""

    @property
    def repetition(self) -> int:
        """Which one of the same: early ones of every system come first."""
        ...

    @property
    def key(self) -> str:
        """What a journal knows it by."""
        ...


Cell = TypeVar("Cell", bound=AnyCell)


@dataclass(frozen=True, kw_only=True)
class Study(ABC, Generic[Cell]):
    """What is to be measured, and where to.

    folder   results, pictures, report, and the prepared rows in ``.data``
    ledger   of the project: what it protects is not studied
    jobs     processes; results do not depend on it
    """

    specs: tuple[DatasetSpec, ...]
    repeats: int
    folder: Path
    ledger: Ledger
    jobs: int = 1

    def run(self) -> Path:
        """Measure the cells that are not in the folder yet; the path of the report.

        The files are of all cells in the folder, those of earlier runs included.
        DeclarationError, before anything is read or written, for a data set to be released or
        whose rows a lineage of the project protects, one without a system to run, and for a
        folder with cells of other code or data.
        """
        benchmarks = [Benchmark.of(spec, self.folder) for spec in self.specs]
        for spec in self.specs:
            for source in spec.source.identities:
                self.ledger.require_public(spec.lineage, source)
        cells = [cell for spec in self.specs for cell in self.cells(spec)]
        cells.sort(key=lambda cell: cell.repetition)
        header = self.header()
        with open_journal(self.folder / "results.jsonl", header) as journal:
            self._require_same_data(journal)
            missing = [cell for cell in cells if cell.key not in journal.rows]
            if missing:
                self._measure(missing, benchmarks, journal)
            return self.write(list(journal.rows.values()), header)

    @abstractmethod
    def header(self) -> dict[str, str]:
        """What makes the cells: other cells are not mixed with these."""

    @abstractmethod
    def cells(self, spec: DatasetSpec) -> list[Cell]:
        """Every cell of one data set; DeclarationError where there is nothing to run."""

    @abstractmethod
    def declared(self, spec: DatasetSpec) -> str:
        """What the file of a data set says to this study; in every row, as ``declared``."""

    @abstractmethod
    def prepared(self, benchmark: Benchmark) -> None:
        """What is computed once for all cells of a prepared data set."""

    @abstractmethod
    def measuring(self) -> Callable[[Cell], Row]:
        """Measures a cell; pickled where there are several processes."""

    @abstractmethod
    def write(self, rows: Sequence[Row], header: Mapping[str, str]) -> Path:
        """Every file but the journal, from finished cells; the path of the report."""

    def _require_same_data(self, journal: Journal) -> None:
        declared = {spec.name: self.declared(spec) for spec in self.specs}
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
            benchmark.prepare(self.ledger)
            self.prepared(benchmark)
        with progress(len(cells)) as on_finished:
            for cell, row in each(self.measuring(), cells, jobs=self.jobs):
                journal.append(cell.key, row)
                on_finished(cell.key)
