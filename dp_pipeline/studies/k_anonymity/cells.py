"""Cell: one repetition of one system on one data set, for one use, at every K.

Measuring one cell: select at every K, then look at what is released or teach classifiers.

Systems: the methods that the study compares, each with what it promises.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.method import Anonymized, Method
from dp_pipeline.anonymity.partition import Promise, TooFewRows
from dp_pipeline.anonymity.protocols import ProtocolResult, evaluate_over
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.metrics.classification import Scorer
from dp_pipeline.metrics.disclosure import (
    distinct_labels,
    homogeneous_rows,
    largest_share,
    smallest_class,
)
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses, information_loss
from dp_pipeline.publish.k_anonymous_release import coded_rows, declared_anonymity
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.study import named, opened, seed_of

NO_SELECTION = "no_selection"
"""What the others are compared with: every bit is released, and nothing promised."""


@dataclass(frozen=True)
class System:
    """One line of the comparison.

    name        in tables and on the command line
    title       as people call it
    method      a name of ``METHODS``; its parameters are the defaults
    diversity   different labels that each class must have, where K promises something
    """

    name: str
    title: str
    method: str
    diversity: int = 1

    def build(self) -> Method:
        """The method."""
        return build_method(self.method, {}, of=self.name)

    def promise(self, k: int) -> Promise:
        """What every release at K has to keep; no row may be left out for it."""
        return Promise(k, self.diversity if k > 1 else 1)


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


@cache
def known_systems() -> Mapping[str, System]:
    """Every method, kjig with two labels a class too, and what is no method."""
    order = [*(one for one in _TITLES if one in METHODS), *(m for m in METHODS if m not in _TITLES)]
    found = {}
    for method in order:
        found[method] = System(method, _TITLES.get(method, method), method)
        if method == "kjig":
            found["kjig_2diverse"] = System("kjig_2diverse", "kjig, 2-diverse", method, 2)
    found[NO_SELECTION] = System(NO_SELECTION, "no selection", "hamdist_forward")
    return found


def find_systems(names: Sequence[str]) -> tuple[System, ...]:
    """The systems that are named, all for no name; DeclarationError for an unknown one."""
    return named(names, known_systems(), what="method")


Use = Literal["release", "paper", "nested"]
"""``release``: selected on all rows, timed, and what is released looked at; ``paper`` and
``nested``: what classifiers learn from releases, by ``anonymity.protocols``.
"""

USES: tuple[Use, ...] = ("release", "paper", "nested")

_SEED_BITS = 32
"""As scikit-learn has them."""


@dataclass(frozen=True)
class Cell:
    """What is measured at once: a forest's ranking is shared by every K.

    system       a name of ``known_systems``
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
    def key(self) -> str:
        """One text a cell: what a journal knows it by.

        >>> Cell("wdbc", "rfka", "nested", (2, 5), ("logistic",), 3).key
        'wdbc/rfka/nested/2,5/logistic/3'
        """
        many = (",".join(map(str, self.partitions)), ",".join(self.scorers))
        return "/".join((self.dataset, self.system, self.use, *many, str(self.repetition)))

    @property
    def seed(self) -> int:
        """Of folds and forests: the same in one repetition for every system, use and K, so that
        they can be compared fold by fold.
        """
        return seed_of("folds and forests", f"{self.dataset}/{self.repetition}") % (1 << _SEED_BITS)


def all_cells(
    dataset: str,
    systems: Sequence[System],
    partitions: Sequence[int],
    *,
    uses: Sequence[Use],
    scorers: Sequence[Scorer],
    repeats: int,
) -> list[Cell]:
    """Every cell of one data set. What keeps everything has no K."""
    return [
        Cell(
            dataset,
            system.name,
            use,
            (0,) if system.name == NO_SELECTION else tuple(partitions),
            () if use == "release" else tuple(scorers),
            repetition,
        )
        for repetition, system, use in product(range(repeats), systems, uses)
    ]


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
