"""The study of k-anonymous tables: its methods, and how one cell is measured.

A cell is one repetition of one system on one data set, for one use, at every K: the system selects
at every K, then what is released is looked at, or classifiers are taught.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from benchmarks.papers.information_loss import information_loss
from benchmarks.papers.results import Row, System
from benchmarks.papers.study import Benchmark, Study, finite, key_of, seed_of
from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.method import Recoding
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.ledger import Ledger
from dp_pipeline.metrics.classification import Scorer
from dp_pipeline.metrics.disclosure import (
    distinct_labels,
    homogeneous_rows,
    largest_share,
    smallest_class,
)
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline.releases.k_anonymous_protocols import EvaluationProtocol, evaluate_over
from dp_pipeline.releases.k_anonymous_release import coded_rows, declared_k_anonymity

NO_SELECTION = "no_selection"
"""What the others are compared with: every bit is released, and nothing promised."""


@dataclass(frozen=True)
class MethodSystem(System):
    """A method of k-anonymity with its defaults.

    diversity   different labels that each class must have, where K promises something
    """

    diversity: int = 1

    def promise(self, k: int) -> KAnonymityGuarantee:
        """Return what every release at K has to keep; no row may be left out for it."""
        return KAnonymityGuarantee(k, self.diversity if k > 1 else 1)


_TITLES = {
    "rfka": "RFKA",
    "hamdist_backward": "HamDist, backward",
    "hamdist_ratio": "HamDist, ratio",
    "hamdist_forward": "HamDist, forward",
    "mutual_information": "mutual information",
    "impurity": "impurity",
    "kjig": "kjig",
    "mondrian": "Mondrian",
    "tree": "tree",
    "cluster_k_anonymity": "clusters",
}
"""In the order of tables and pictures: the paper's two, its search in other orders, then what is
to beat them. A method that is not named here comes last.
"""


def _systems() -> Iterator[MethodSystem]:
    """Return every method, kjig with two labels a class too, and what is no method."""
    for method in dict.fromkeys([*(method for method in _TITLES if method in METHODS), *METHODS]):
        yield MethodSystem(method, _TITLES.get(method, method), method)
        if method == "kjig":
            yield MethodSystem("kjig_2diverse", "kjig, 2-diverse", method, diversity=2)
    yield MethodSystem(NO_SELECTION, "no selection", "hamdist_forward")


SYSTEMS = {system.name: system for system in _systems()}

Use = Literal["release", "paper", "nested"]
"""``release``: selected on all rows, timed, and what is released looked at; ``paper`` and
``nested``: what classifiers learn from releases, by ``anonymity.protocols``.
"""

USES: tuple[Use, ...] = ("release", "paper", "nested")


class MethodCell(NamedTuple):
    """What is measured at once: a forest's ranking is shared by every K.

    system       a name of ``SYSTEMS``
    partitions   the K, ascending
    scorers      of the uses that teach classifiers; none for ``release``
    """

    dataset: str
    system: str
    use: Use
    partitions: tuple[int, ...]
    scorers: tuple[Scorer, ...]
    repetition: int

    @property
    def seed(self) -> int:
        """Of folds and forests, 32 bits: the same in one repetition for every system, use and K,
        so that they can be compared fold by fold.
        """
        return seed_of("folds and forests", f"{self.dataset}/{self.repetition}") % (1 << 32)


Numbers = Mapping[str, float | str]
"""Of one K: measures, or the line of a ``failure``."""


@dataclass(frozen=True, kw_only=True)
class AnonymityStudy(Study):
    """Methods of k-anonymity on data sets that declare what they are to be used on.

    partitions   K, ascending; empty: those that each data set lists
    protocols    how classifiers are taught; releases are looked at with any of them
    scorers      the classifiers
    """

    name = "anonymity"
    measured_by = (
        "anonymity.py",
        "information_loss.py",
        "anonymity/",
        "releases/k_anonymous_protocols.py",
        "releases/k_anonymous_release.py",
    )

    systems: tuple[MethodSystem, ...]
    partitions: tuple[int, ...] = ()
    protocols: tuple[EvaluationProtocol, ...] = ("paper", "nested")
    scorers: tuple[Scorer, ...] = ("logistic", "svm")

    def cells(self, spec: DatasetSpec) -> list[MethodCell]:
        """Return those of every system; what keeps everything has no K. DeclarationError without
        a section ``k_anonymity``.
        """
        partitions = tuple(self.partitions or declared_k_anonymity(spec).partitions)
        uses: tuple[Use, ...] = ("release", *self.protocols)
        return [
            MethodCell(
                spec.name,
                system.name,
                use,
                (0,) if system.name == NO_SELECTION else partitions,
                () if use == "release" else self.scorers,
                repetition,
            )
            for repetition, system, use in product(range(self.repeats), self.systems, uses)
        ]

    def facts(self, spec: DatasetSpec) -> list[object]:
        """Return label and quasi-identifiers."""
        return [spec.label, declared_k_anonymity(spec).attributes]

    def prepare(self, benchmark: Benchmark, ledger: Ledger) -> None:
        """Prepare the rows; every repetition's sample, where the data set is one."""
        repeats = 1 if benchmark.spec.source.sample is None else self.repeats
        for repetition in range(repeats):
            self.benchmark(benchmark.spec.name, repetition).prepare(ledger)

    def measure(self, cell: MethodCell) -> Row:
        """Return the cell, and ``by_k``, the numbers of each K as text.

        ``release``: those of ``_measure_release``; ``paper`` and ``nested``: ``auc_…`` of every
        scorer, ``seconds`` and ``kept`` columns, all means over folds. A K that cannot be kept has
        a ``failure`` and no numbers: the others are not lost for it.
        """
        benchmark = self.benchmark(cell.dataset, cell.repetition)
        rows = coded_rows(benchmark.spec, benchmark.snapshot)
        # Solvers take long to be imported, which is no part of a selection's time.
        import sklearn.ensemble  # noqa: F401

        (declared,) = (spec for spec in self.specs if spec.name == cell.dataset)
        return {
            "dataset": cell.dataset,
            "system": cell.system,
            "use": cell.use,
            "repetition": cell.repetition,
            "declared": self.declared(declared),
            "by_k": {str(k): numbers for k, numbers in _measure_by_k(cell, rows).items()},
        }

    def rows(self, cells: Sequence[Row]) -> list[Row]:
        """Return one a K and repetition. Cells that measured a K twice, each with scorers or other
        K of its own, are one row: what both have is the same but for the clock.
        """
        merged: dict[tuple[Any, ...], dict[str, Any]] = {}
        for cell in cells:
            for k, numbers in cell["by_k"].items():
                cell_row = {
                    "dataset": "",
                    "system": "",
                    "use": "",
                    "k": int(k),
                    **cell,
                    "failure": "",
                }
                del cell_row["by_k"]
                key = (*(cell_row[name] for name in ("dataset", "system", "use", "repetition")), k)
                row = merged.setdefault(key, cell_row)
                row |= {**numbers, **row, "failure": numbers.get("failure", "")}
        return list(merged.values())


def _measure_by_k(cell: MethodCell, rows: CodedRows) -> dict[int, Numbers]:
    partitions, failures = list(cell.partitions), {}
    while partitions:
        try:
            measured = _measure_all(cell, partitions, rows)
        except TooFewRows as error:
            # The largest K is the first that there are too few rows for.
            failures[partitions.pop()] = {"failure": str(error)}
        else:
            return {**dict(zip(partitions, measured, strict=True)), **failures}
    return {**failures}


def _measure_all(cell: MethodCell, partitions: list[int], rows: CodedRows) -> list[Numbers]:
    promises = [SYSTEMS[cell.system].promise(k) for k in partitions]
    if cell.use == "release":
        return [_measure_release(cell, promise, rows) for promise in promises]
    method = build_method(SYSTEMS[cell.system].algorithm, {}, of=cell.system)
    results = evaluate_over(
        rows, method, promises, protocol=cell.use, scorers=cell.scorers, seed=cell.seed
    )
    return [
        finite(
            {
                **{f"auc_{scorer}": value for scorer, value in result.aucs.items()},
                "seconds": result.seconds,
                "kept": result.released_columns,
            }
        )
        for result in results
    ]


def _measure_release(cell: MethodCell, promise: KAnonymityGuarantee, rows: CodedRows) -> Numbers:
    """Return what was lost, ``seconds`` of the selection, ``kept`` columns, ``classes``, rows of
    the ``smallest_class``, the share of rows in ``homogeneous`` classes, and the ``largest_share``
    of a label in a class.
    """
    algorithm = SYSTEMS[cell.system].algorithm
    recoded, seconds = _time_selection(
        lambda: build_method(algorithm, {}, of=cell.system).recode(rows, promise, seed=cell.seed)
    )
    released = recoded.release(rows)
    labels = len(released.target_levels)
    classes = EquivalenceClasses.of(released.codes, released.target, labels=labels)
    _require_promise(cell, promise, classes)
    # Loss is told row by row, before what is released was put in order.
    retained = rows.select(~recoded.suppressed)
    loss = information_loss(
        retained.codes,
        recoded.rule.recode(retained).codes,
        about=recoded.rule.source_positions,
        k=promise.k,
        suppressed=len(rows) - len(retained),
    )
    return finite(
        {
            **loss,
            "seconds": seconds,
            "kept": float(len(released.columns)),
            "classes": len(classes),
            "smallest_class": smallest_class(classes.sizes),
            "homogeneous": homogeneous_rows(classes) / max(1, classes.rows),
            "largest_share": largest_share(classes),
        }
    )


SHORT_SECONDS = 1.0


def _time_selection(select: Callable[[], Recoding]) -> tuple[Recoding, float]:
    """Return a selection and its seconds. A short one is made three times and the middle time
    taken: a process that was put aside for a moment would look slow.
    """
    seconds: list[float] = []
    while len(seconds) < 3 and min(seconds, default=0.0) < SHORT_SECONDS:
        started = time.perf_counter()
        recoded = select()
        seconds.append(time.perf_counter() - started)
    return recoded, statistics.median(seconds)


def _require_promise(
    cell: MethodCell, promise: KAnonymityGuarantee, classes: EquivalenceClasses
) -> None:
    k, diversity = smallest_class(classes.sizes), distinct_labels(classes)
    if not promise.is_empty and (k < promise.k or diversity < promise.diversity):
        raise BoundaryViolation(
            f"{key_of(cell)}: expected classes of {promise.k} rows and {promise.diversity} labels "
            f"or more, got one of {k} rows and one of {diversity} labels"
        )
