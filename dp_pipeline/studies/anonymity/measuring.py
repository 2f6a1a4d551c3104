"""Measuring one cell: select at every K, then look at what is released or teach classifiers."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dp_pipeline.anonymity.coded_rows import CodedRows
from dp_pipeline.anonymity.method import Anonymized
from dp_pipeline.anonymity.promise import Promise, TooFewRows
from dp_pipeline.anonymity.protocols import ProtocolResult, evaluate_over
from dp_pipeline.metrics.disclosure import smallest_class
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline.metrics.information_loss import information_loss
from dp_pipeline.metrics.label_diversity import distinct_labels, homogeneous_rows, largest_share
from dp_pipeline.orchestration.anonymity_rows import coded_rows, declared_anonymity
from dp_pipeline.schema.errors import BoundaryViolation
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.anonymity.cell import Cell
from dp_pipeline.studies.anonymity.systems import System, known_systems
from dp_pipeline.studies.benchmark import opened
from dp_pipeline.studies.journal import Row

FACTS = ("dataset", "system", "use", "k", "repetition", "declared", "failure")
"""What every row of the results has; the rest are numbers."""

_SHORT = 1.0
"""Seconds."""

Numbers = Mapping[str, float | str]
"""Of one K: measures, or the line of a ``failure``."""


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder."""

    folder: Path

    def __call__(self, cell: Cell) -> Row:
        """One row: the cell, and ``by_k``, the numbers of each K as text.

        ``release``: ``seconds`` of the selection, ``kept`` columns, ``classes``, rows of the
        ``smallest_class``, the share of rows in ``homogeneous`` classes, the ``largest_share``
        of a label in a class, and what was lost: ``discernibility``, ``average_class_size`` and
        ``non_uniform_entropy``; ``paper`` and ``nested``: ``auc_…`` of every scorer, ``seconds``
        and ``kept``, all means over folds.

        A K that cannot be kept has a ``failure`` and no numbers: the others are not lost for it.
        """
        benchmark = opened(self.folder, cell.dataset, cell.repetition)
        rows = coded_rows(benchmark.spec, benchmark.snapshot)
        # Solvers take long to be imported, which is no part of a selection's time.
        import sklearn.ensemble  # noqa: F401

        return {
            "dataset": cell.dataset,
            "system": cell.system,
            "use": cell.use,
            "repetition": cell.repetition,
            "declared": declared_digest(opened(self.folder, cell.dataset).spec),
            "by_k": {str(k): numbers for k, numbers in _by_k(cell, rows).items()},
        }


def _by_k(cell: Cell, rows: CodedRows) -> dict[int, Numbers]:
    system, left = known_systems()[cell.system], list(cell.partitions)
    found: dict[int, Numbers] = {}
    while left:
        try:
            measured = _measured(cell, system, left, rows)
        except TooFewRows as error:
            # The largest K is the first that there are too few rows for.
            found[left.pop()] = {"failure": str(error)}
        else:
            return dict(zip(left, measured, strict=True)) | found
    return found


def _measured(cell: Cell, system: System, ks: list[int], rows: CodedRows) -> list[Numbers]:
    promises = [system.promise(k) for k in ks]
    if cell.use == "release":
        return [_released(cell, system, promise, rows) for promise in promises]
    results = evaluate_over(
        rows, system.build(), promises, protocol=cell.use, scorers=cell.scorers, seed=cell.seed
    )
    return [_taught(result) for result in results]


def _taught(result: ProtocolResult) -> Numbers:
    aucs = {f"auc_{scorer}": value for scorer, value in result.aucs.items()}
    return _finite({**aucs, "seconds": result.seconds, "kept": result.kept})


def _released(cell: Cell, system: System, promise: Promise, rows: CodedRows) -> Numbers:
    found, seconds = _timed(lambda: system.build().recode(rows, promise, seed=cell.seed))
    released = found.release(rows)
    labels = len(released.target_levels)
    classes = EquivalenceClasses.of(released.codes, released.target, labels=labels)
    _require_kept(cell, promise, classes)
    # Loss is told row by row, before what is released was put in order.
    kept = rows.some(~found.suppressed)
    loss = information_loss(
        kept.codes,
        found.recoding.released(kept).codes,
        about=found.recoding.about,
        k=promise.k,
        suppressed=len(rows) - len(kept),
    )
    return _finite(
        {
            **loss.facts(),
            "seconds": seconds,
            "kept": float(len(released.columns)),
            "classes": len(classes),
            "smallest_class": smallest_class(classes.sizes),
            "homogeneous": homogeneous_rows(classes) / max(1, classes.rows),
            "largest_share": largest_share(classes),
        }
    )


def _timed(select: Callable[[], Anonymized]) -> tuple[Anonymized, float]:
    """A selection and its seconds. A short one is made three times and the middle time taken: a
    process that was put aside for a moment would look slow.
    """
    seconds: list[float] = []
    while len(seconds) < 3 and min(seconds, default=0.0) < _SHORT:
        began = time.perf_counter()
        found = select()
        seconds.append(time.perf_counter() - began)
    return found, statistics.median(seconds)


def _require_kept(cell: Cell, promise: Promise, classes: EquivalenceClasses) -> None:
    k, diversity = smallest_class(classes.sizes), distinct_labels(classes)
    if not promise.is_empty and (k < promise.k or diversity < promise.diversity):
        raise BoundaryViolation(
            f"{cell.key}: expected classes of {promise.k} rows and {promise.diversity} labels or "
            f"more, got one of {k} rows and one of {diversity} labels"
        )


def _finite(numbers: Mapping[str, float]) -> Numbers:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def declared_digest(spec: DatasetSpec) -> str:
    """12 hex digits of what the file of a data set says to a study; other cells than these are
    of another data set with the same name.
    """
    said = [spec.digest, spec.source.identity, spec.label, declared_anonymity(spec).attributes]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
