"""The study of private tables: systems, one cell, what is claimed, and what is shown.

A cell is one repetition of one system at one ε on one data set, for one use: the system is fitted
on a curator in memory, then compared with the rows.
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal

from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Fitted, Model, PrivacyGuarantee, guarantee_of
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.evaluate import SAMPLING_ERROR, HeldOut, table_quality
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.spec.amounts import delta_text, epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError
from dp_pipeline.spec.parameters import from_text
from dp_pipeline.studies.charts import Scale
from dp_pipeline.studies.claims import OURS, SURE, Measured, PaperClaim
from dp_pipeline.studies.report import Cost, Curve, Table
from dp_pipeline.studies.results import Factors, Row, Summary, System
from dp_pipeline.studies.study import Benchmark, Cell, Study, digest_of, opened, seed_of, timed_fit

Timed = tuple[Fitted, float]
"""A fit and its seconds."""


@dataclass(frozen=True)
class TableSystem(System):
    """A model of tables, or a variant of one.

    concentrated   whether its ε is one at the δ of the study
    public_rows    whether it reads the number of rows: where a row is replaced, on benchmarks
    """

    concentrated: bool = False
    public_rows: bool = False

    def fits(self, spec: DatasetSpec) -> bool:
        """Whether the neighbours of a data set are those that the system needs."""
        return not self.public_rows or (
            spec.relation == "replace_one" and spec.protection.rows == 1
        )

    def build(self) -> Model:
        """The model, for the attributes of any data set."""
        return from_text(MODELS[self.algorithm], self.parameters, of=self.name)

    def guarantee(self, spec: DatasetSpec, epsilon: Fraction, delta: Fraction) -> PrivacyGuarantee:
        """What it promises on a data set; ``delta`` is that of the study."""
        asked = delta if self.concentrated else None
        return guarantee_of(self.build(), epsilon, asked, domain=spec.domain)


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
    TableSystem("privbayes_i", "PrivBayes, score I", "privbayes", {"score": "I"}, public_rows=True),
    TableSystem("privbayes_f", "PrivBayes, score F", "privbayes", {"score": "F"}, public_rows=True),
    TableSystem(
        "privhd_composed", "PrivHD, composed", "privhd", {"variant": "composed"}, public_rows=True
    ),
    TableSystem(
        "privhd_peeling", "PrivHD, peeling", "privhd", {"variant": "peeling"}, public_rows=True
    ),
    TableSystem(
        "privhd_published",
        "PrivHD as published",
        "privhd",
        {"variant": "published"},
        public_rows=True,
    ),
)


def _of_model(model: str) -> Iterator[TableSystem]:
    title, model_type = _TITLES.get(model, model), MODELS[model]
    if not model_type.needs_delta:
        yield TableSystem(model, title, model)
    if model_type.accounts_in_rho:
        yield TableSystem(f"{model}_delta", f"{title}, δ", model, concentrated=True)
    parameters = {one.name for one in fields(model_type)}  # type: ignore[arg-type]
    for variant in _VARIANTS:
        if variant.algorithm == model and parameters >= set(variant.parameters):
            yield variant


def _order() -> Iterator[str]:
    tables = [name for name, model in MODELS.items() if issubclass(model, TableModel)]
    yield from (name for name in _TITLES if name in tables)
    yield from (name for name in tables if name not in _TITLES)


SYSTEMS = {system.name: system for model in _order() for system in _of_model(model)}
"""Every model of tables with its defaults, then with δ where it has a use for one, and the variants
of the papers that it has.
"""

Use = Literal["table", "classifier", "memory"]
"""``table``: fitted on all rows and compared with them; ``classifier``: fitted on four fifths,
and what classifiers learn from it tested on the others; ``memory``: fitted once more, slowly,
while what it allocates is added up.
"""

USES: tuple[Use, ...] = ("table", "classifier", "memory")

NO_PRIVACY, MAJORITY = "no_privacy", "majority"
BASELINES = (NO_PRIVACY, MAJORITY)
"""What classifiers are compared with: taught by true rows, or with one answer for all."""


@dataclass(frozen=True)
class TableCell(Cell):
    """What is measured at once.

    system    a name of ``SYSTEMS``, or of ``BASELINES``
    epsilon   canonical text; empty for a baseline

    >>> TableCell("nltcs", "one_shot", "0.2", "table", 7).key
    'nltcs/one_shot/0.2/table/7'
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


_MEGABYTE = 1e6


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder.

    delta   of the systems that account in ρ
    """

    folder: Path
    delta: Fraction

    def __call__(self, cell: TableCell) -> Row:
        """One row: the cell, what it claims and costs, and the numbers of its use.

        ``table``: ``seconds`` of the fit, and ``avd_k`` and ``dcr`` of
        ``raw.evaluate.table_quality``; ``classifier``: those of ``raw.evaluate.HeldOut``;
        ``memory``: ``peak_mb``, the most megabytes that Python and NumPy held for the fit.

        A system that refuses a data set at some ε gives a row with a ``failure`` and no
        numbers: hours of other cells are not lost for it.
        """
        benchmark = opened(self.folder, cell.dataset)
        row = {
            **asdict(cell),
            "declared": declared_digest(benchmark.spec),
            **dict.fromkeys(("claim", "epsilon_charged", "reason", "failure"), ""),
        }
        if cell.system in BASELINES:
            return {**row, **_finite(_baseline(_held_out(benchmark, cell), cell.system))}
        return {**row, **self._fitted(benchmark, cell)}

    def _fitted(self, benchmark: Benchmark, cell: TableCell) -> Row:
        """What the row of a system has beside the cell."""
        spec, system = benchmark.spec, SYSTEMS[cell.system]
        epsilon, model = Fraction(cell.epsilon), system.build()
        held_out = _held_out(benchmark, cell) if cell.use == "classifier" else None
        counter = benchmark.counter() if held_out is None else held_out.counter()
        try:
            model.check(spec.domain)
            guarantee = system.guarantee(spec, epsilon, self.delta)

            def fit() -> Timed:
                return timed_fit(model, counter, spec, guarantee, epsilon=epsilon, key=cell.key)

            (done, seconds), peak = _traced(fit) if cell.use == "memory" else (fit(), 0)
        except (BoundaryViolation, DeclarationError) as error:
            return {"failure": str(error)}
        done.require_guaranteed(guarantee, what=cell.key)
        said = {
            "claim": guarantee.kind,
            "epsilon_charged": guarantee.composed,
            "reason": guarantee.reason,
        }
        if cell.use == "memory":
            return {**said, "peak_mb": peak / _MEGABYTE}
        codes = _codes(done)
        if held_out is not None:
            return {**said, **_finite(held_out.misclassified(codes))}
        told = table_quality(spec, benchmark.snapshot, codes, classify=False)
        # A study states the error over its repetitions.
        quality = {name: one for name, one in told.items() if not name.startswith(SAMPLING_ERROR)}
        return {**said, "seconds": seconds, **_finite(quality)}


def _held_out(benchmark: Benchmark, cell: TableCell) -> HeldOut:
    return HeldOut(benchmark.spec, benchmark.snapshot, cell.split)


def _baseline(held_out: HeldOut, name: str) -> dict[str, float]:
    if name == NO_PRIVACY:
        return held_out.misclassified_without_privacy()
    return held_out.misclassified_by_majority()


def _traced(fit: Callable[[], Timed]) -> tuple[Timed, int]:
    """A fit, several times as slow, and the most bytes that were held at once for it."""
    tracemalloc.start()
    try:
        return fit(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _codes(fit: Fitted) -> dict[str, Any]:
    assert isinstance(fit.released, SyntheticTable)
    return dict(zip(fit.released.attributes, fit.released.codes.T, strict=True))


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def declared_digest(spec: DatasetSpec) -> str:
    """Attributes, rows and targets."""
    said = [spec.digest, spec.source.identity, [asdict(target) for target in spec.targets]]
    return digest_of(said)


# Below stands what the study claims and shows: no cell depends on it.

FACTORS = Factors(
    systems=SYSTEMS,
    level="epsilon",
    letter="ε",
    order={
        "dataset": str,
        "system": [*SYSTEMS, *BASELINES].index,
        "epsilon": lambda text: Fraction(text or 0),
        "use": USES.index,
        "repetition": int,
    },
    facts=("declared", "claim", "epsilon_charged", "reason"),
    baselines=dict.fromkeys(BASELINES, ""),
)

DISTANCES = tuple(Measured(f"AVD k={k}", f"avd_{k}") for k in (2, 3, 5, 6))
ERRORS = (
    Measured("SVM", "misclassified_svm"),
    Measured("logistic regression", "misclassified_logistic"),
)
"""Means over the declared targets."""
SECONDS = (Measured("run time", "seconds"),)

PRIVHD_PAPER = "Zhang et al. 2018 (PrivHD)"
JTREE_PAPER = "Chen et al. 2015 (JTree)"
AIM_PAPER = "McKenna et al. 2022 (AIM)"

CLAIMS = (
    PaperClaim(
        PRIVHD_PAPER,
        "PrivHD (tuned) has a lower AVD than PrivBayes, JTree and PriView.",
        "privhd",
        DISTANCES,
        ("privbayes", "jtree", "priview"),
    ),
    PaperClaim(
        PRIVHD_PAPER,
        "The same of PrivHD by mutual information, its comparisons composed, "
        "where a row is replaced.",
        "privhd_composed",
        DISTANCES,
        ("privbayes_i", "jtree", "priview"),
    ),
    PaperClaim(
        PRIVHD_PAPER,
        "The same of PrivHD by mutual information, its edges peeled, where a row is replaced.",
        "privhd_peeling",
        DISTANCES,
        ("privbayes_i", "jtree", "priview"),
    ),
    PaperClaim(PRIVHD_PAPER, "A bigger ε lowers the AVD of PrivHD (tuned).", "privhd", DISTANCES),
    PaperClaim(
        PRIVHD_PAPER,
        "Classifiers taught by PrivHD (tuned) misclassify less than those taught by PrivBayes and "
        "JTree.",
        "privhd",
        ERRORS,
        ("privbayes", "jtree"),
    ),
    PaperClaim(
        PRIVHD_PAPER,
        "PrivHD (tuned) takes less time than PrivBayes and JTree.",
        "privhd",
        SECONDS,
        ("privbayes", "jtree"),
    ),
    PaperClaim(
        JTREE_PAPER,
        "JTree (its sparse-vector step made sound) has a lower AVD than PrivBayes.",
        "jtree",
        DISTANCES,
        ("privbayes",),
    ),
    PaperClaim(
        AIM_PAPER,
        "AIM (a likeness of it) has a lower AVD than MST.",
        "aim_like_delta",
        DISTANCES[:2],
        ("mst_delta",),
    ),
    PaperClaim(OURS, "A bigger ε lowers the AVD of one_shot.", "one_shot", DISTANCES),
    PaperClaim(
        OURS,
        "The AVD of one_shot is no worse than the best of PrivBayes, PrivHD (tuned) and "
        "independent with equal shares.",
        "one_shot",
        DISTANCES,
        ("privbayes", "privhd", "independent_equal"),
        rule="no worse",
    ),
    PaperClaim(
        OURS,
        "The AVD of one_shot is within 8 % of independent with shares ∝ √|Ω|.",
        "one_shot",
        DISTANCES,
        ("independent",),
        rule="no worse",
        factor=1.08,
    ),
    PaperClaim(
        OURS,
        "With δ, the AVD of one_shot is no worse than that of MST.",
        "one_shot_delta",
        DISTANCES,
        ("mst_delta",),
        rule="no worse",
    ),
    PaperClaim(
        OURS,
        "With δ, the AVD of one_shot is at most 1.15 times that of the likeness of AIM.",
        "one_shot_delta",
        DISTANCES,
        ("aim_like_delta",),
        rule="no worse",
        factor=1.15,
    ),
    PaperClaim(
        OURS,
        "Classifiers taught by one_shot misclassify no more than those taught by the best of "
        "PrivBayes and PrivHD (tuned).",
        "one_shot",
        ERRORS,
        ("privbayes", "privhd"),
        rule="no worse",
    ),
)


_METHODS = {"svm": "SVM", "logistic": "logistic regression"}
_DISTANCE = Scale("AVD (log scale)", "log")
_ERROR = Scale("share of wrong answers", "linear")


def measure_title(measure: str) -> str | None:
    """What a measure that is shown over ε is called; None for the others.

    >>> measure_title("avd_3"), measure_title("misclassified_svm/sex"), measure_title("seconds")
    ('average 3-way variation distance', 'misclassification of sex by SVM', None)
    """
    what, _, target = measure.partition("/")
    if what.startswith("avd_"):
        return f"average {what.removeprefix('avd_')}-way variation distance"
    method = _METHODS.get(what.removeprefix("misclassified_"))
    if method is None:
        return None
    if not target:
        return f"misclassification by {method}, mean over targets"
    return f"misclassification of {target} by {method}"


@dataclass(frozen=True, kw_only=True)
class ReleaseStudy(Study[TableCell]):
    """Models of tables on data sets with discrete attributes.

    epsilons   empty: those that each data set lists
    delta      of the systems that account in ρ
    classify   whether classifiers are taught the targets that a data set declares
    """

    epsilons: tuple[Fraction, ...]
    systems: tuple[TableSystem, ...]
    delta: Fraction
    classify: bool = True

    name = "release"
    file = "studies/tables.py"
    factors = FACTORS
    claims = CLAIMS
    title = "Private tables: the papers' figures, measured again"
    intro = "Benchmark data only: every number here is exact and none of it is private."
    claims_words = (
        f"A claim holds at a place (data set, ε) where the difference of the means is beyond "
        f"{SURE:g} standard errors of the difference; the contrary holds where it is so the other "
        "way round. In between, nothing is said; what is claimed to be no worse holds there too. "
        "With 30 repetitions about 0.3 % of pairs that are in truth equal get a verdict by chance; "
        "with 10, 1 %; with fewer, far more."
    )
    settings = (
        "noise: the exact samplers, seeded by the cell; every cell its own",
        "the number of rows is private, except where a row is replaced and a method needs it",
        "a system with δ in its name promises (ε, δ), and accounts in ρ; the others promise ε",
        "AVD: average k-way variation distance between synthetic and true rows, over all pairs, "
        "and over the same 500 triples and 100 larger sets where there are more; the model "
        "was fitted on all rows",
        "misclassification: of classifiers taught by synthetic rows, when asked about a fifth of "
        "the true rows, which the model did not see either: a new fifth every repetition, the "
        "same for every system",
        "seconds: wall clock, one thread, rows in memory; peak memory: what Python and NumPy "
        "allocate for one more fit, added up as it goes",
        "a number is a mean ± its standard error",
    )
    once = ("peak_mb",)
    repeats_by_measure = True
    costs = (
        Cost(
            "seconds",
            "seconds",
            "seconds of one fit",
            "seconds (log scale)",
            "Mean over ε; one thread, wall clock, without reading the rows.",
        ),
        Cost(
            "peak_mb",
            "peak MB",
            "peak memory of one fit",
            "MB (log scale)",
            "Largest over ε; what Python and NumPy allocate for the fit, without the rows.",
            is_peak=True,
        ),
    )
    costs_head = (
        "Run time and memory",
        "Of one fit: seconds, mean over ε; most megabytes, largest over ε.",
    )
    published: ClassVar = {"avd_2": "AVD k=2", "avd_3": "AVD k=3"}
    baseline_titles: ClassVar = {NO_PRIVACY: "without privacy", MAJORITY: "majority"}

    def header(self) -> dict[str, str]:
        """The code that measured, and δ."""
        return {**super().header(), "delta": delta_text(self.delta)}

    def cells(self, spec: DatasetSpec) -> list[TableCell]:
        """Of the systems that fit its neighbours; DeclarationError where none does, and without
        attributes that have cells.
        """
        systems = [system.name for system in self.systems if system.fits(spec)]
        if not spec.domain.discrete:
            raise DeclarationError(f"{spec.name}: expected attributes with cells, got none")
        if not systems:
            raise DeclarationError(
                f"{spec.name}: expected a system for {spec.relation}, got none that was asked for"
            )
        classify = self.classify and bool(spec.targets)
        epsilons = [epsilon_text(epsilon) for epsilon in self.epsilons or spec.partitions]
        places, times = list(product(systems, epsilons)), range(self.repeats)
        each = product(times, places, USES[:2] if classify else USES[:1])
        beside = product(times if classify else (), BASELINES)
        return [
            *(TableCell(spec.name, *place, use, at) for at, place, use in each),
            *(TableCell(spec.name, *place, "memory", 0) for place in places),
            *(TableCell(spec.name, name, "", "classifier", at) for at, name in beside),
        ]

    declared = staticmethod(declared_digest)

    def measuring(self) -> Measuring:
        """Fits over the benchmarks in the folder."""
        return Measuring(self.folder, self.delta)

    def curves(self, summary: Summary) -> Iterable[Curve]:
        """Distances, then errors of classifiers."""
        baselines = {NO_PRIVACY: "no privacy", MAJORITY: "majority"}
        for measure in summary.measures:
            words, is_distance = measure_title(measure), measure.startswith("avd_")
            if words is not None:
                yield Curve(
                    measure,
                    measure.replace("/", "_"),
                    f": {words}",
                    _DISTANCE if is_distance else _ERROR,
                    "Lower is better.",
                    references={} if is_distance else baselines,
                )

    def tables(self, summary: Summary) -> Iterable[Table]:
        """The same, and the distance to the closest record."""
        for measure in summary.measures:
            words = measure_title(measure)
            if measure == "dcr":
                yield Table(measure, "Distance to the closest record (a sanity figure, no promise)")
            elif words is not None:
                yield Table(measure, f"{words[0].upper()}{words[1:]} (lower is better)")
