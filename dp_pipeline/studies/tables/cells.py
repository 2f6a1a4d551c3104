"""Cell: one repetition of one system at one ε on one data set, for one use.

Measuring one cell: fit the system on a curator in memory, then compare with the rows.

Systems: the models of tables that the study compares, and their variants.
"""

from __future__ import annotations

import hashlib
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, PrivacyGuarantee, guarantee_of
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.publish.fit import Fitted
from dp_pipeline.raw.evaluate import HeldOut, table_quality
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError
from dp_pipeline.spec.parameters import from_text
from dp_pipeline.studies.fit import timed_fit
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.study import Benchmark, named, opened, seed_of

Timed = tuple[Fitted, float]
"""A fit and its seconds."""


@dataclass(frozen=True)
class System:
    """One line of the comparison.

    name           in tables and on the command line
    title          as people call it
    model          a name of ``MODELS``
    parameters     what differs from the model's defaults, as text
    concentrated   whether its ε is one at the δ of the study
    public_rows    whether it reads the number of rows: where a row is replaced, on benchmarks
    """

    name: str
    title: str
    model: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    concentrated: bool = False
    public_rows: bool = False

    @property
    def is_published(self) -> bool:
        """Whether this is a variant as published, which costs another ε than the one asked for."""
        return self.parameters.get("variant") == "published"

    def fits(self, spec: DatasetSpec) -> bool:
        """Whether the neighbours of a data set are those that the system needs."""
        return not self.public_rows or (
            spec.relation == "replace_one" and spec.protection.rows == 1
        )

    def build(self) -> Model:
        """The model, for the attributes of any data set."""
        return from_text(MODELS[self.model], self.parameters, of=self.name)

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
    System("independent_equal", "independent, equal", "independent", {"shares": "equal"}),
    System("privbayes_i", "PrivBayes, score I", "privbayes", {"score": "I"}, public_rows=True),
    System("privbayes_f", "PrivBayes, score F", "privbayes", {"score": "F"}, public_rows=True),
    System(
        "privhd_composed", "PrivHD, composed", "privhd", {"variant": "composed"}, public_rows=True
    ),
    System("privhd_peeling", "PrivHD, peeling", "privhd", {"variant": "peeling"}, public_rows=True),
    System(
        "privhd_published",
        "PrivHD as published",
        "privhd",
        {"variant": "published"},
        public_rows=True,
    ),
)


@cache
def known_systems() -> Mapping[str, System]:
    """Every model of tables with its defaults, then with δ where it has a use for one, and the
    variants of the papers that it has.
    """
    tables = [name for name, model in MODELS.items() if issubclass(model, TableModel)]
    order = [
        *(name for name in _TITLES if name in tables),
        *(n for n in tables if n not in _TITLES),
    ]
    return {one.name: one for model in order for one in _of_model(model)}


def _of_model(model: str) -> Iterator[System]:
    title, model_type = _TITLES.get(model, model), MODELS[model]
    if not model_type.needs_delta:
        yield System(model, title, model)
    if model_type.accounts_in_rho:
        yield System(f"{model}_delta", f"{title}, δ", model, concentrated=True)
    parameters = {one.name for one in fields(model_type)}  # type: ignore[arg-type]
    for variant in _VARIANTS:
        if variant.model == model and parameters >= set(variant.parameters):
            yield variant


def find_systems(names: Sequence[str]) -> tuple[System, ...]:
    """The systems that are named, all for no name; DeclarationError for an unknown one."""
    return named(names, known_systems())


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
class Cell:
    """What is measured at once.

    system    a name of ``known_systems``, or of ``BASELINES``
    epsilon   canonical text; empty for a baseline
    """

    dataset: str
    system: str
    epsilon: str
    use: Use
    repetition: int

    @property
    def key(self) -> str:
        """One text a cell: what a journal knows it by, and what decides its randomness.

        >>> Cell("nltcs", "one_shot", "0.2", "table", 7).key
        'nltcs/one_shot/0.2/table/7'
        """
        return "/".join((self.dataset, self.system, self.epsilon, self.use, str(self.repetition)))

    @property
    def split(self) -> int:
        """Decides which rows are held out: the same ones for every system and ε."""
        return seed_of("held out", f"{self.dataset}/{self.repetition}")


def all_cells(
    dataset: str,
    systems: Sequence[System],
    epsilons: Sequence[Fraction],
    *,
    repeats: int,
    classify: bool,
) -> list[Cell]:
    """Every cell of one data set; ``classify`` where it has targets that classifiers learn."""
    uses = USES[:2] if classify else USES[:1]
    each = [
        Cell(dataset, system.name, epsilon_text(epsilon), use, repetition)
        for repetition, system, epsilon, use in product(range(repeats), systems, epsilons, uses)
    ]
    once = [
        Cell(dataset, system.name, epsilon_text(epsilon), "memory", 0)
        for system, epsilon in product(systems, epsilons)
    ]
    beside = [
        Cell(dataset, name, "", "classifier", repetition)
        for repetition, name in product(range(repeats if classify else 0), BASELINES)
    ]
    return [*each, *once, *beside]


FACTS = (
    *("dataset", "system", "epsilon", "use", "repetition"),
    *("declared", "claim", "epsilon_charged", "reason", "failure"),
)
"""What every row has; the rest are numbers."""

_MEGABYTE = 1e6


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder.

    delta   of the systems that account in ρ
    """

    folder: Path
    delta: Fraction

    def __call__(self, cell: Cell) -> Row:
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

    def _fitted(self, benchmark: Benchmark, cell: Cell) -> Row:
        """What the row of a system has beside the cell."""
        spec, system = benchmark.spec, known_systems()[cell.system]
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
        done.require_claimed(guarantee, what=cell.key)
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
        quality = table_quality(spec, benchmark.snapshot, codes, classify=False)
        return {**said, "seconds": seconds, **_finite(quality)}


def _held_out(benchmark: Benchmark, cell: Cell) -> HeldOut:
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
    """12 hex digits of what the file of a data set says to a study; other cells than these are
    of another data set with the same name.
    """
    said = [spec.digest, spec.source.identity, [asdict(target) for target in spec.targets]]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
