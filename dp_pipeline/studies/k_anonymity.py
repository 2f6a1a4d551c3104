"""The study of k-anonymous tables: methods, one cell, what is claimed, and what is shown.

A cell is one repetition of one system on one data set, for one use, at every K: the system selects
at every K, then what is released is looked at, or classifiers are taught.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.method import Method, Recoded
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.protocols import EvaluationProtocol, ProtocolResult, evaluate_over
from dp_pipeline.metrics.classification import SCORERS, Scorer
from dp_pipeline.metrics.disclosure import (
    distinct_labels,
    homogeneous_rows,
    largest_share,
    smallest_class,
)
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses, information_loss
from dp_pipeline.publish.k_anonymous_release import coded_rows, declared_k_anonymity
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation
from dp_pipeline.studies.charts import Across, Scale
from dp_pipeline.studies.claims import OURS, SURE, Measured, PaperClaim
from dp_pipeline.studies.report import Curve, Table
from dp_pipeline.studies.results import Factors, Mean, Row, Summary, System
from dp_pipeline.studies.study import Benchmark, Cell, Study, digest_of, opened, seed_of

NO_SELECTION = "no_selection"
"""What the others are compared with: every bit is released, and nothing promised."""


@dataclass(frozen=True)
class MethodSystem(System):
    """A method of k-anonymity with its defaults.

    diversity   different labels that each class must have, where K promises something
    """

    diversity: int = 1

    def build(self) -> Method:
        """The method."""
        return build_method(self.algorithm, {}, of=self.name)

    def promise(self, k: int) -> KAnonymityGuarantee:
        """What every release at K has to keep; no row may be left out for it."""
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


def _systems() -> Iterable[MethodSystem]:
    """Every method, kjig with two labels a class too, and what is no method."""
    named = [method for method in _TITLES if method in METHODS]
    for method in (*named, *(method for method in METHODS if method not in _TITLES)):
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

_SEED_BITS = 32
"""As scikit-learn has them."""


@dataclass(frozen=True)
class MethodCell(Cell):
    """What is measured at once: a forest's ranking is shared by every K.

    system       a name of ``SYSTEMS``
    partitions   the K, ascending
    scorers      of the uses that teach classifiers; none for ``release``

    >>> MethodCell("wdbc", "rfka", "nested", (2, 5), ("logistic",), 3).key
    'wdbc/rfka/nested/2,5/logistic/3'
    """

    dataset: str
    system: str
    use: Use
    partitions: tuple[int, ...]
    scorers: tuple[Scorer, ...]
    repetition: int

    @property
    def seed(self) -> int:
        """Of folds and forests: the same in one repetition for every system, use and K, so that
        they can be compared fold by fold.
        """
        return seed_of("folds and forests", f"{self.dataset}/{self.repetition}") % (1 << _SEED_BITS)


_SHORT = 1.0
"""Seconds."""

Numbers = Mapping[str, float | str]
"""Of one K: measures, or the line of a ``failure``."""


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder."""

    folder: Path

    def __call__(self, cell: MethodCell) -> Row:
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


def _by_k(cell: MethodCell, rows: CodedRows) -> dict[int, Numbers]:
    system, left = SYSTEMS[cell.system], list(cell.partitions)
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


def _measured(
    cell: MethodCell, system: MethodSystem, ks: list[int], rows: CodedRows
) -> list[Numbers]:
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


def _released(
    cell: MethodCell, system: MethodSystem, promise: KAnonymityGuarantee, rows: CodedRows
) -> Numbers:
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


def _timed(select: Callable[[], Recoded]) -> tuple[Recoded, float]:
    """A selection and its seconds. A short one is made three times and the middle time taken: a
    process that was put aside for a moment would look slow.
    """
    seconds: list[float] = []
    while len(seconds) < 3 and min(seconds, default=0.0) < _SHORT:
        began = time.perf_counter()
        found = select()
        seconds.append(time.perf_counter() - began)
    return found, statistics.median(seconds)


def _require_kept(
    cell: MethodCell, promise: KAnonymityGuarantee, classes: EquivalenceClasses
) -> None:
    k, diversity = smallest_class(classes.sizes), distinct_labels(classes)
    if not promise.is_empty and (k < promise.k or diversity < promise.diversity):
        raise BoundaryViolation(
            f"{cell.key}: expected classes of {promise.k} rows and {promise.diversity} labels or "
            f"more, got one of {k} rows and one of {diversity} labels"
        )


def _finite(numbers: Mapping[str, float]) -> Numbers:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def declared_digest(spec: DatasetSpec) -> str:
    """Attributes, rows, quasi-identifiers and label."""
    said = [spec.digest, spec.source.identity, spec.label, declared_k_anonymity(spec).attributes]
    return digest_of(said)


# Below stands what the study claims and shows: no cell depends on it.

FACTORS = Factors(
    systems=SYSTEMS,
    level="k",
    letter="K",
    way="use",
    ways=USES,
    order={
        "dataset": str,
        "use": USES.index,
        "system": list(SYSTEMS).index,
        "k": int,
        "repetition": int,
    },
    facts=("declared",),
    baselines={NO_SELECTION: "0"},
    paired=True,
    least=2,
)

PAPER_SVM = Measured("AUC by SVM (paper)", "auc_svm", False, "paper")
PAPER_LOGISTIC = Measured("AUC by logistic regression (paper)", "auc_logistic", False, "paper")
NESTED_SVM = Measured("AUC by SVM (nested)", "auc_svm", False, "nested")
NESTED_LOGISTIC = Measured("AUC by logistic regression (nested)", "auc_logistic", False, "nested")
SECONDS = Measured("run time", "seconds", way="release")
HOMOGENEOUS = Measured("rows in classes with one label", "homogeneous", way="release")

AUCS = (PAPER_SVM, PAPER_LOGISTIC, NESTED_LOGISTIC, NESTED_SVM)

RFKA_PAPER = "Huang, Zhu (RFKA)"

_READINGS = {
    "hamdist_backward": "the bit of least distance is dropped",
    "hamdist_ratio": "the bit is dropped that frees most rows for its distance",
    "hamdist_forward": "RFKA's search in the order of the distance",
}
"""The paper on Greedy_Hamdist could not be read: each reading of it is compared with."""

CLAIMS = (
    *(
        PaperClaim(
            RFKA_PAPER,
            f"The AUC of RFKA is no lower than that of Greedy_Hamdist at every K ({reading}).",
            "rfka",
            AUCS,
            (name,),
            rule="no worse",
        )
        for name, reading in _READINGS.items()
    ),
    *(
        PaperClaim(
            RFKA_PAPER,
            f"RFKA is faster than Greedy_Hamdist ({reading}; distances in closed form).",
            "rfka",
            (SECONDS,),
            (name,),
        )
        for name, reading in _READINGS.items()
    ),
    PaperClaim(
        RFKA_PAPER,
        "The AUC of RFKA falls as K grows (as the figures show): lower than at the K before.",
        "rfka",
        AUCS,
        falls=True,
    ),
    PaperClaim(
        OURS,
        "The AUC of kjig is no lower than that of RFKA at every K.",
        "kjig",
        (NESTED_LOGISTIC, NESTED_SVM),
        ("rfka",),
        rule="no worse",
    ),
    PaperClaim(
        OURS,
        "The AUC of kjig is higher than that of RFKA at every K.",
        "kjig",
        (NESTED_LOGISTIC, NESTED_SVM),
        ("rfka",),
    ),
    PaperClaim(
        OURS,
        "kjig with 2-diversity leaves no row in a class with one label.",
        "kjig_2diverse",
        (HOMOGENEOUS,),
        at_most=0.0,
    ),
    PaperClaim(OURS, "kjig selects in at most one second.", "kjig", (SECONDS,), at_most=1.0),
)


_SCORERS = {"logistic": "logistic regression", "svm": "SVM", "class_rate": "rates of classes"}
_AUCS = tuple(
    (use, f"auc_{scorer}", f"AUC by {_SCORERS[scorer]} ({use})")
    for use in ("paper", "nested")
    for scorer in SCORERS
)
_NO_SELECTION = {NO_SELECTION: SYSTEMS[NO_SELECTION].title}
_CURVES = (
    *(
        Curve(
            measure,
            f"{measure}_{use}",
            f": {words}",
            Scale("AUC", "linear"),
            "",
            use,
            _NO_SELECTION,
        )
        for use, measure, words in _AUCS
    ),
    Curve(
        "seconds",
        "seconds",
        ": seconds of one selection",
        Scale("seconds (log scale)", "log"),
        "Ranking included, one thread.",
        "release",
    ),
    Curve(
        "homogeneous",
        "homogeneous",
        ": rows in classes with one label",
        Scale("share of rows", "linear"),
        "",
        "release",
        _NO_SELECTION,
    ),
)


def _plain(mean: Mean) -> str:
    return number_text(mean.value)


def _short(mean: Mean) -> str:
    return f"{mean.value:,.4g}"


_TABLES = (
    *(Table(measure, words, use) for use, measure, words in _AUCS),
    *(
        Table(measure, words, "release", text)
        for measure, words, text in (
            ("seconds", "Seconds of one selection", _plain),
            ("homogeneous", "Rows in classes with one label", _plain),
            ("largest_share", "Largest share of one label in a class", _plain),
            ("kept", "Columns that are released", _short),
            ("smallest_class", "Rows of the smallest class", _short),
            ("non_uniform_entropy", "Bits of a row that its release leaves open", _short),
            ("average_class_size", "Rows a class, in units of K", _short),
            ("discernibility", "Pairs of rows that look alike", _short),
        )
    ),
)


@dataclass(frozen=True, kw_only=True)
class AnonymityStudy(Study[MethodCell]):
    """Methods of k-anonymity on data sets that declare what they are to be used on.

    partitions   K, ascending; empty: those that each data set lists
    protocols    how classifiers are taught; releases are looked at with any of them
    scorers      the classifiers
    """

    systems: tuple[MethodSystem, ...]
    partitions: tuple[int, ...]
    protocols: tuple[EvaluationProtocol, ...]
    scorers: tuple[Scorer, ...]

    name = "anonymity"
    file = "studies/k_anonymity.py"
    measures_in = ("publish/k_anonymous_release.py",)
    rooms = ("anonymity",)
    factors = FACTORS
    claims = CLAIMS
    title = "k-anonymous tables: the paper's figures, measured again"
    intro = (
        "Benchmark data only: every number here is exact. k-anonymity is a syntactic promise: none "
        "of these tables is private."
    )
    claims_words = (
        "A claim holds at a place (data set, K) where the mean difference of the pairs of one "
        f"repetition is beyond {SURE:g} of its standard errors; the contrary holds where it is so "
        "the other way round. In between, nothing is said; what is claimed to be no lower holds "
        "there too. What is claimed of every release, holds where no repetition is against it. "
        "With 5 repetitions 4 % of pairs that are in truth equal get a verdict by chance; with "
        "10, 1.5 %; with 30, 0.6 %."
    )
    repetitions = "repetitions of each number"
    settings = (
        "a repetition: other folds and another forest; where the data set is a sample, another "
        "sample, drawn by the declared seed + the number of the repetition; all systems see "
        "the same rows in the same folds",
        "every method with its defaults (forests: 1000 trees); no row is left out; quasi-"
        "identifiers and label as the data set file declares them, its other wishes aside",
        "nested: selected in the training rows of each of 5 folds, tested on the rows of the "
        "fold, recoded by the public rule",
        "paper: selected once on all rows, then 5 folds of what is released: what is selected "
        "knows the rows that are tested on",
        "the paper's figures are AUC by SVM in its own protocol, and seconds, over K",
        "release: selected once on all rows; seconds are of one selection with its ranking "
        "(of one shorter than a second, the middle of three), wall clock, one thread; classes "
        "are of what is released",
        "distances of the SVM are rounded to hundredths: many of the few different rows that "
        "are released lie on its margin, where a solver's last digits would order them",
        "Greedy_Hamdist: only the abstract of its paper could be read; three readings, with "
        "the distances in closed form",
        "a number is a mean ± its standard error; where the data set is no sample it tells "
        "what folds and forests do, not what other people's rows would",
    )
    across = Across("K: rows of every class, at least (0: nothing is promised)", is_log=False)

    def cells(self, spec: DatasetSpec) -> list[MethodCell]:
        """Of every system; what keeps everything has no K. DeclarationError without a section
        ``k_anonymity``.
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

    declared = staticmethod(declared_digest)

    def prepared(self, benchmark: Benchmark) -> None:
        """Every repetition's sample, where the data set is one."""
        if benchmark.spec.source.sample is not None:
            for repetition in range(1, self.repeats):
                Benchmark.of(benchmark.spec, self.folder, repetition).prepare(self.ledger)

    def measuring(self) -> Measuring:
        """Selects in the benchmarks in the folder."""
        return Measuring(self.folder)

    def rows(self, cells: Sequence[Row]) -> Iterable[Row]:
        """One a K and repetition. Cells that measured a K twice, each with scorers or other K of
        its own, are one row: what both have is the same but for the clock.
        """
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for cell in cells:
            for k, numbers in cell["by_k"].items():
                known = {"dataset": "", "system": "", "use": "", "k": int(k), **cell, "failure": ""}
                del known["by_k"]
                row = found.setdefault((*FACTORS.place(known), known["repetition"]), known)
                row |= {**numbers, **row, "failure": numbers.get("failure", "")}
        return found.values()

    def curves(self, summary: Summary) -> Iterable[Curve]:  # noqa: ARG002
        """AUCs, seconds, homogeneous rows."""
        return _CURVES

    def tables(self, summary: Summary) -> Iterable[Table]:  # noqa: ARG002
        """The same, and what is released and lost."""
        return _TABLES
