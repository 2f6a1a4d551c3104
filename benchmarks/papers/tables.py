"""The study of private tables: its systems, and how one cell is measured.

A cell is one repetition of one system at one ε on one data set, for one use: the system is fitted
on a curator in memory, then compared with the rows.

HeldOut: a fifth of the prepared rows, which no model sees before it is tested.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.papers.results import Row, System
from benchmarks.papers.study import (
    Benchmark,
    Study,
    finite,
    guarantee_facts,
    key_of,
    seed_of,
    timed_fit,
)
from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import Codes, IntArray
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.config.parameters import from_text
from dp_pipeline.metrics.classification import misclassification, split_rows, train
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import guarantee_of
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.evaluate import METHODS, SAMPLING_ERROR, table_quality
from dp_pipeline.raw.snapshot import require_prepared
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.results.synthetic_table import SyntheticTable


@dataclass(frozen=True)
class TableSystem(System):
    """A model of tables, or a variant of one.

    has_delta          whether its ε is one at the δ of the study
    needs_public_rows  whether it reads the number of rows: where a row is replaced, on benchmarks
    """

    has_delta: bool = False
    needs_public_rows: bool = False

    def fits(self, spec: DatasetSpec) -> bool:
        """Return whether the neighbours of a data set are those that the system needs."""
        is_replaced = spec.relation == "replace_one" and spec.protection.rows == 1
        return is_replaced or not self.needs_public_rows


_TITLES = {
    "independent": "independent",
    "threshold_filter": "filter",
    "priview": "PriView",
    "jtree": "JTree",
    "privbayes": "PrivBayes",
    "privhd": "PrivHD",
    "mst": "MST",
    "aim_like": "AIM-like",
    "one_shot": "one_shot",
}
"""In the order of tables and pictures: baselines, the papers, then what is to beat them. A model
that is not named here comes last.
"""

_VARIANTS = (
    TableSystem("independent_equal", "independent, equal", "independent", {"shares": "equal"}),
    *(
        TableSystem(name, title, name.split("_")[0], {parameter: text}, needs_public_rows=True)
        for name, title, parameter, text in (
            ("privbayes_i", "PrivBayes, score I", "score", "I"),
            ("privbayes_f", "PrivBayes, score F", "score", "F"),
            ("privhd_composed", "PrivHD, composed", "variant", "composed"),
            ("privhd_peeling", "PrivHD, peeling", "variant", "peeling"),
            ("privhd_published", "PrivHD as published", "variant", "published"),
        )
    ),
)


def _systems() -> Iterator[TableSystem]:
    """Return every model of tables with its defaults, then with δ where it has a use for one, and
    the variants of the papers that it has.
    """
    tables = [name for name, model in MODELS.items() if issubclass(model, TableModel)]
    for name in dict.fromkeys([*(name for name in _TITLES if name in tables), *tables]):
        title, model = _TITLES.get(name, name), MODELS[name]
        if not model.needs_delta:
            yield TableSystem(name, title, name)
        if model.accounts_in_rho:
            yield TableSystem(f"{name}_delta", f"{title}, δ", name, has_delta=True)
        parameters = {field.name for field in fields(model)}  # type: ignore[arg-type]
        for variant in _VARIANTS:
            if variant.algorithm == name and parameters >= set(variant.parameters):
                yield variant


SYSTEMS = {system.name: system for system in _systems()}

Use = Literal["table", "classifier", "memory"]
"""``table``: fitted on all rows and compared with them; ``classifier``: fitted on four fifths,
and what classifiers learn from it tested on the others; ``memory``: fitted once more, slowly,
while what it allocates is added up.
"""

USES: tuple[Use, ...] = ("table", "classifier", "memory")

NO_PRIVACY, MAJORITY = "no_privacy", "majority"
BASELINES = (NO_PRIVACY, MAJORITY)
"""What classifiers are compared with: taught by true rows, or with one answer for all."""


class TableCell(NamedTuple):
    """What is measured at once.

    system    a name of ``SYSTEMS``, or of ``BASELINES``
    epsilon   canonical text; empty for a baseline
    """

    dataset: str
    system: str
    epsilon: str
    use: Use
    repetition: int

    @property
    def split(self) -> int:
        """Decides which rows are held out: the same ones for every system and ε."""
        return seed_of("held out", f"{self.dataset}/{self.repetition}")


@dataclass(frozen=True, kw_only=True)
class ReleaseStudy(Study):
    """Models of tables on data sets with discrete attributes.

    epsilons             empty: those that each data set lists
    delta                of the systems that account in ρ
    teaches_classifiers  whether classifiers learn the targets that a data set declares
    """

    name = "release"
    measured_by = ("tables.py",)

    systems: tuple[TableSystem, ...]
    delta: Fraction
    epsilons: tuple[Fraction, ...] = ()
    teaches_classifiers: bool = True

    def header(self) -> dict[str, str]:
        """Return the code that measured, and δ."""
        return {**super().header(), "delta": delta_text(self.delta)}

    def cells(self, spec: DatasetSpec) -> list[TableCell]:
        """Return those of the systems that fit its neighbours; DeclarationError where none does,
        and without attributes that have cells.
        """
        systems = [system.name for system in self.systems if system.fits(spec)]
        if not spec.domain.discrete:
            raise DeclarationError(f"{spec.name}: expected attributes with cells, got none")
        if not systems:
            raise DeclarationError(
                f"{spec.name}: expected a system for {spec.relation}, got none that was asked for"
            )
        is_classified = self.teaches_classifiers and bool(spec.targets)
        epsilons = [epsilon_text(epsilon) for epsilon in self.epsilons or spec.partitions]
        places, times = list(product(systems, epsilons)), range(self.repeats)
        fits = product(times, places, USES[:2] if is_classified else USES[:1])
        baselines = product(times if is_classified else (), BASELINES)
        return [
            *(TableCell(spec.name, *place, use, repetition) for repetition, place, use in fits),
            *(TableCell(spec.name, *place, "memory", 0) for place in places),
            *(
                TableCell(spec.name, name, "", "classifier", repetition)
                for repetition, name in baselines
            ),
        ]

    def facts(self, spec: DatasetSpec) -> list[object]:
        """Return the targets."""
        return [[asdict(target) for target in spec.targets]]

    def measure(self, cell: TableCell) -> Row:
        """Return the cell, what it claims and costs, and the numbers of its use.

        ``table``: ``seconds`` of the fit, and ``avd_k`` and ``dcr`` of
        ``raw.evaluate.table_quality``; ``classifier``: those of ``SplitTable``; ``memory``:
        ``peak_mb``, the most megabytes that Python and NumPy held for the fit.
        """
        benchmark = self.benchmark(cell.dataset)
        facts = dict.fromkeys(("claim", "epsilon_charged", "reason", "failure"), "")
        row = {**cell._asdict(), "declared": self.declared(benchmark.spec), **facts}
        held_out_rows = SplitTable(benchmark, cell.split) if cell.use == "classifier" else None
        if cell.system == NO_PRIVACY:
            assert held_out_rows is not None
            return {**row, **finite(held_out_rows.misclassified_without_privacy())}
        if cell.system == MAJORITY:
            assert held_out_rows is not None
            return {**row, **finite(held_out_rows.misclassified_by_majority())}
        return {**row, **self._measure_fit(benchmark, cell, held_out_rows)}

    def _measure_fit(
        self, benchmark: Benchmark, cell: TableCell, held_out_rows: SplitTable | None
    ) -> Row:
        """Return what the row of a system has beside the cell."""
        spec, system, key = benchmark.spec, SYSTEMS[cell.system], key_of(cell)
        model = from_text(MODELS[system.algorithm], system.parameters, of=system.name)
        epsilon, delta = Fraction(cell.epsilon), self.delta if system.has_delta else None
        counter = benchmark.counter() if held_out_rows is None else held_out_rows.counter()
        peak = 0
        try:
            model.check(spec.domain)
            guarantee = guarantee_of(model, epsilon, delta, domain=spec.domain)
            if cell.use == "memory":
                tracemalloc.start()
            fitted, seconds = timed_fit(model, counter, spec, guarantee, epsilon=epsilon, key=key)
            peak = tracemalloc.get_traced_memory()[1]
        except (BoundaryViolation, DeclarationError) as error:
            return {"failure": str(error)}
        finally:
            tracemalloc.stop()
        fitted.require_guaranteed(what=key)
        facts = guarantee_facts(guarantee)
        if cell.use == "memory":
            return {**facts, "peak_mb": peak / 1e6}
        assert isinstance(fitted.released, SyntheticTable)
        table = fitted.released
        codes = dict(zip(table.attributes, table.codes.T, strict=True))
        if held_out_rows is not None:
            return {**facts, **finite(held_out_rows.misclassified(codes))}
        quality = table_quality(spec, benchmark.snapshot, codes, classify=False)
        # A study states the error over its repetitions.
        reference = {name: x for name, x in quality.items() if not name.startswith(SAMPLING_ERROR)}
        return {**facts, "seconds": seconds, **finite(reference)}


@dataclass(frozen=True)
class SplitTable:
    """Four fifths of the prepared rows to fit on, and a fifth to test on: the papers' protocol.

    seed   decides by chance which rows are tested on

    NotPrepared, when rows are read, unless the benchmark is prepared.
    """

    benchmark: Benchmark
    seed: int

    def counter(self) -> MemoryCounter:
        """Return a new engine over the rows to fit on."""
        fitted, domain = self._rows[0], self.benchmark.spec.domain
        stored = read_stage(self.benchmark.snapshot, "normalized")
        return MemoryCounter(
            domain,
            coordinates=_select_rows(stored, domain.numeric, fitted),
            codes=self._fitted,
            rows=len(fitted),
        )

    def misclassified(self, released: Codes) -> dict[str, float]:
        """Return the share of the tested rows that classifiers learned from a table get wrong.

        released   codes of every attribute with cells

        ``misclassified_svm/<attribute>`` and ``misclassified_logistic/<attribute>`` of every
        declared target, and their means as ``misclassified_svm`` and ``misclassified_logistic``;
        NaN where no row is tested on.
        """
        return self._misclassified(released)

    def misclassified_without_privacy(self) -> dict[str, float]:
        """Return the same, learned from the rows to fit on."""
        return self.misclassified(self._fitted)

    def misclassified_by_majority(self) -> dict[str, float]:
        """Return the same, where the only answer is that of most of the rows to fit on."""
        return self._misclassified(self._fitted, has_columns=False)

    def _misclassified(self, table: Codes, *, has_columns: bool = True) -> dict[str, float]:
        spec = self.benchmark.spec
        tested = _select_rows(self._codes, spec.domain.discrete, self._rows[1])
        shares: dict[str, float] = {}
        for method in METHODS:
            by_target = {}
            for target in spec.targets:
                codes, answers = target.classification_task(table, spec.domain)
                sizes = {attribute: spec.domain[attribute].size for attribute in codes}
                # Without columns a classifier answers as most rows do.
                classifier = train(method, codes if has_columns else {}, answers, sizes)
                share = misclassification(
                    classifier, *target.classification_task(tested, spec.domain)
                )
                by_target[f"misclassified_{method}/{target.attribute}"] = share
            mean = float(np.mean(list(by_target.values())))
            shares |= {**by_target, f"misclassified_{method}": mean}
        return shares

    @cached_property
    def _codes(self) -> pa.Table:
        require_prepared(self.benchmark.spec, self.benchmark.snapshot)
        return read_stage(self.benchmark.snapshot, "discretized")

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray]:
        return split_rows(self._codes.num_rows, seed=self.seed)

    @cached_property
    def _fitted(self) -> dict[str, NDArray[Any]]:
        return _select_rows(self._codes, self.benchmark.spec.domain.discrete, self._rows[0])


def _select_rows(
    table: pa.Table, names: tuple[str, ...], rows: IntArray
) -> dict[str, NDArray[Any]]:
    return {name: table.column(name).to_numpy()[rows] for name in names}
