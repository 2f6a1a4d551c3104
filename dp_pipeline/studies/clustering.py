"""The study of private clustering: systems, one cell, the papers' claims, and what is shown.

A cell is one repetition of one system at one ε on one data set: the system is fitted on a
curator in memory, then compared with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal

from dp_pipeline.files import one_thread
from dp_pipeline.metrics.clustering import rcp
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, guarantee_of
from dp_pipeline.raw.evaluate import clustering_quality, keep_reference
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError
from dp_pipeline.spec.parameters import from_text
from dp_pipeline.studies.charts import Scale
from dp_pipeline.studies.claims import OURS, SURE, Measured, PaperClaim
from dp_pipeline.studies.report import Cost, Curve, Table
from dp_pipeline.studies.results import Factors, Mean, Place, Row, Summary, System
from dp_pipeline.studies.study import Benchmark, Cell, Study, digest_of, opened, timed_fit

Planning = Literal["declared", "paid", "none"]
"""Where the number of rows N in a formula is from: the data set file, a paid noisy count,
or nowhere: the system has no such formula.
"""

PLANNINGS: tuple[Planning, ...] = ("declared", "paid")


@dataclass(frozen=True)
class ClusteringSystem(System):
    """A model of centres, with k and columns of the data set."""

    @property
    def plannings(self) -> tuple[Planning, ...]:
        """The ways in which this system can plan."""
        return PLANNINGS if "nominal_rows" in _parameters(self.algorithm) else ("none",)

    def build(self, spec: DatasetSpec, planning: Planning) -> Model:
        """The model for one data set; DeclarationError where it does not fit the attributes.

        k and columns are those that the data set declares for its clustering models.
        """
        texts = {**shared_parameters(spec), **self.parameters}
        if planning == "declared" and spec.nominal_rows is not None:
            texts["nominal_rows"] = str(spec.nominal_rows)
        model = from_text(MODELS[self.algorithm], texts, of=f"{spec.name}: {self.name}")
        model.check(spec.domain)
        return model


def shared_parameters(spec: DatasetSpec) -> dict[str, str]:
    """k and columns, as text, of the clustering models that a data set declares.

    DeclarationError unless they declare one k and the same columns.
    """
    found = {
        tuple((name, texts[name]) for name in ("k", "columns") if name in texts)
        for texts in spec.models.values()
        if "k" in texts
    }
    if len(found) != 1:
        raise DeclarationError(
            f"{spec.name}: models: expected clustering models with one and the same k, "
            f"got {len(found) or 'none'}"
        )
    return dict(found.pop())


def _parameters(model: str) -> dict[str, Any]:
    return {one.name: one.metadata for one in fields(MODELS[model])}  # type: ignore[arg-type]


def _published_variant(model: str) -> str | None:
    """``published`` where the model has such a variant."""
    variant = _parameters(model).get("variant")
    return variant["parse"]("published") if variant else None


_SOUND = (
    ClusteringSystem("dp_kmeans", "DPk-means", "dp_kmeans"),
    ClusteringSystem(
        "dp_kmeans_halving", "DPk-means (halving)", "dp_kmeans", {"budgets": "halving"}
    ),
    ClusteringSystem("idp_kmeans", "IDPk-means", "idp_kmeans"),
    ClusteringSystem("dp_kmeans_pp", "DPk-means++", "dp_kmeans_pp"),
    ClusteringSystem("dplloyd", "DPLloyd", "dplloyd"),
    ClusteringSystem("oept_kmeans", "OEPT", "oept_kmeans"),
    ClusteringSystem("dplk_kmeans", "DPLK-means", "dplk_kmeans"),
    ClusteringSystem("eug_kmeans", "EUGkM", "eug_kmeans"),
    ClusteringSystem("hybrid_kmeans", "Hybrid", "hybrid_kmeans"),
    ClusteringSystem("dpqt_kmeans", "DPQTk-means", "dpqt_kmeans"),
    ClusteringSystem("privtree_kmeans", "PrivTree", "privtree_kmeans"),
    ClusteringSystem("htree_kmeans", "HTree", "htree_kmeans"),
)
"""Rounds of Lloyd, then grids, then trees."""


_PUBLISHED = tuple(
    ClusteringSystem(
        f"{sound.name}_published", f"{sound.title} as published", sound.algorithm, {"variant": word}
    )
    for sound in _SOUND
    if not sound.parameters and (word := _published_variant(sound.algorithm))
)
"""Of each model that has one, its variant as published."""

SYSTEMS = {system.name: system for system in (*_SOUND, *_PUBLISHED)}


@dataclass(frozen=True)
class ClusteringCell(Cell):
    """Names as in the data set file and in ``SYSTEMS``.

    epsilon   canonical text

    >>> ClusteringCell("birch3", "eug_kmeans", "paid", "0.5", 7).key
    'birch3/eug_kmeans/paid/0.5/7'
    """

    dataset: str
    system: str
    planning: Planning
    epsilon: str
    repetition: int


METRICS = ("nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "ari_kmeans", "f_label", "ari_label")
"""Of ``raw.evaluate.clustering_quality``; those with a label only where one is declared."""


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder."""

    folder: Path

    def __call__(self, cell: ClusteringCell) -> Row:
        """One row: the cell, what it claims and costs, its metrics, and seconds of the fit.

        A system that refuses a data set at some ε gives a row with a ``failure`` and no
        metrics: hours of other cells are not lost for it.
        """
        benchmark, epsilon = opened(self.folder, cell.dataset), Fraction(cell.epsilon)
        model = SYSTEMS[cell.system].build(benchmark.spec, cell.planning)
        guarantee = guarantee_of(model, epsilon)
        row: dict[str, Any] = {
            **asdict(cell),
            "declared": declared_digest(benchmark.spec),
            "claim": guarantee.kind,
            "epsilon_charged": guarantee.composed,
            "reason": guarantee.reason,
            **dict.fromkeys((*METRICS, "seconds")),
            "failure": "",
        }
        try:
            fit, seconds = timed_fit(
                model, benchmark.counter(), benchmark.spec, guarantee, epsilon=epsilon, key=cell.key
            )
        except (BoundaryViolation, DeclarationError) as error:
            return {**row, "failure": str(error)}
        fit.require_guaranteed(guarantee, what=cell.key)
        assert isinstance(fit.released, Clusters)
        columns, centres = fit.released.columns, fit.released.centres
        quality = clustering_quality(benchmark.spec, benchmark.snapshot, columns, centres)
        known = {name: quality[name] for name in METRICS if name in quality}
        finite = {name: value for name, value in known.items() if math.isfinite(value)}
        return {**row, **finite, "seconds": seconds}


def declared_digest(spec: DatasetSpec) -> str:
    """Attributes, rows, N, label, k and columns."""
    said = [spec.digest, spec.source.identity, spec.nominal_rows, spec.label]
    return digest_of([*said, shared_parameters(spec)])


# Below stands what the study claims and shows: no cell depends on it.

REFERENCE = "eug_kmeans"
"""RCP compares with it."""


def _rcp(summary: Summary, place: Place) -> Mean | None:
    """RCP of the mean NICVs, in percent; its error by the delta method, because the two
    means are independent: |X/E|·√((s_X/X)² + (s_E/E)²).
    """
    reference = summary.mean(place._replace(system=REFERENCE), "nicv")
    own = summary.mean(place, "nicv")
    if own is None or reference is None or place.system == REFERENCE or not own.value:
        return None
    value = rcp(reference=reference.value, candidate=own.value)
    relative = sqrt((own.error / own.value) ** 2 + (reference.error / reference.value) ** 2)
    error = 100 * own.value / reference.value * relative
    return Mean(value, error, min(own.repeats, reference.repeats))


FACTORS = Factors(
    systems=SYSTEMS,
    level="epsilon",
    letter="ε",
    way="planning",
    ways=PLANNINGS,
    order={
        "dataset": str,
        "system": list(SYSTEMS).index,
        "planning": str,
        "epsilon": Fraction,
        "repetition": int,
    },
    facts=("declared", "claim", "epsilon_charged", "reason"),
    derived={"rcp": _rcp},
)

_NICV = (Measured("", "nicv_ratio", way=None),)
"""Over that without privacy."""
_F_LABEL = (Measured("", "f_label", lower_is_better=False, way=None),)
_F_KMEANS = (Measured("", "f_kmeans", lower_is_better=False, way=None),)
_RCP = (Measured("", "rcp", lower_is_better=False, way=None, is_difference=True),)

DPQT_PAPER = "Zhang, Cheng 2021 (DPQTk-means)"
IDPK_PAPER = "Li et al. (IDPk-means)"
SU_PAPER = "Su et al. 2016 (EUGkM, DPLloyd, Hybrid)"
HU_PAPER = "Hu et al. (DPk-means++)"
REN_PAPER = "Ren et al. 2017 (DPLK-means)"
YU_PAPER = "Yu et al. 2016 (OEPT)"
_ROUNDS = ("dp_kmeans", "idp_kmeans", "dp_kmeans_pp")

CLAIMS = (
    PaperClaim(
        DPQT_PAPER,
        "DPQTk-means has a lower NICV than EUGkM at every ε.",
        "dpqt_kmeans",
        _NICV,
        ("eug_kmeans",),
    ),
    PaperClaim(
        DPQT_PAPER,
        "The RCP of DPQTk-means against EUGkM is positive everywhere.",
        "dpqt_kmeans",
        _RCP,
        ("eug_kmeans",),
    ),
    PaperClaim(
        DPQT_PAPER,
        "DPQTk-means has a lower NICV than DPk-means, IDPk-means and DPk-means++.",
        "dpqt_kmeans",
        _NICV,
        _ROUNDS,
    ),
    PaperClaim(
        DPQT_PAPER,
        "DPQTk-means has a higher F-measure than DPk-means, IDPk-means, DPk-means++ and EUGkM "
        "(classes: the labels of the data).",
        "dpqt_kmeans",
        _F_LABEL,
        (*_ROUNDS, "eug_kmeans"),
    ),
    PaperClaim(
        DPQT_PAPER,
        "The same F-measure where the data have no labels "
        "(classes: the clusters of k-means without privacy).",
        "dpqt_kmeans",
        _F_KMEANS,
        (*_ROUNDS, "eug_kmeans"),
    ),
    PaperClaim(
        IDPK_PAPER,
        "IDPk-means has a lower NICV than DPk-means.",
        "idp_kmeans",
        _NICV,
        ("dp_kmeans",),
    ),
    PaperClaim(
        IDPK_PAPER,
        "IDPk-means is more usable than DPk-means at low ε (up to 0.1): higher F-measure "
        "(classes: the clusters of k-means without privacy).",
        "idp_kmeans",
        _F_KMEANS,
        ("dp_kmeans",),
        up_to=Fraction(1, 10),
    ),
    PaperClaim(SU_PAPER, "EUGkM has a lower NICV than DPLloyd.", "eug_kmeans", _NICV, ("dplloyd",)),
    PaperClaim(
        SU_PAPER,
        "Hybrid has a lower NICV than both EUGkM and DPLloyd.",
        "hybrid_kmeans",
        _NICV,
        ("eug_kmeans", "dplloyd"),
    ),
    PaperClaim(
        HU_PAPER,
        "DPk-means++ has a lower NICV than DPk-means.",
        "dp_kmeans_pp",
        _NICV,
        ("dp_kmeans",),
    ),
    PaperClaim(
        REN_PAPER,
        "DPLK-means has a lower NICV than DPk-means.",
        "dplk_kmeans",
        _NICV,
        ("dp_kmeans",),
    ),
    PaperClaim(
        YU_PAPER, "OEPT has a lower NICV than DPk-means.", "oept_kmeans", _NICV, ("dp_kmeans",)
    ),
    PaperClaim(
        OURS,
        "DPk-means with a fixed number of equal rounds has a lower NICV than with halving budgets.",
        "dp_kmeans",
        _NICV,
        ("dp_kmeans_halving",),
    ),
    PaperClaim(
        OURS,
        "The NICV of HTree is no worse than the best of DPQTk-means, EUGkM and PrivTree.",
        "htree_kmeans",
        _NICV,
        ("dpqt_kmeans", "eug_kmeans", "privtree_kmeans"),
        rule="no worse",
    ),
)


_OF_N = {
    "declared": "N in formulas is the declared number of rows.",
    "paid": "N in formulas is a noisy count, paid for.",
}
_HIGHER = Scale("F-measure (higher is better)", "linear")
_SHOWN = {
    "nicv_ratio": (
        "NICV ratio",
        Scale("NICV ÷ NICV without privacy (log scale)", "log", ((1.0, "without privacy"),)),
        "NICV over the NICV of k-means without privacy (1 is as good; lower is better)",
    ),
    "rcp": (
        "RCP against EUGkM",
        Scale("RCP in percent", "signed log", ((0.0, "as EUGkM"),)),
        "RCP: percent of EUGkM's NICV that is saved (positive is better than EUGkM)",
    ),
    "f_label": (
        "F-measure, classes: labels",
        _HIGHER,
        "F-measure against the labels of the data (higher is better)",
    ),
    "f_kmeans": (
        "F-measure, classes: k-means without privacy",
        _HIGHER,
        "F-measure against the clusters of k-means without privacy (higher is better)",
    ),
}
"""Measure → title of its picture, its axis, and the words above its table."""

_WITHOUT_N = ", ".join(system.title for system in _SOUND if system.plannings == ("none",))


@dataclass(frozen=True, kw_only=True)
class ClusteringStudy(Study[ClusteringCell]):
    """Private k-means systems on data sets with clustering models.

    epsilons   empty: those that each data set lists
    """

    epsilons: tuple[Fraction, ...]
    systems: tuple[ClusteringSystem, ...]

    name = "clustering"
    file = "studies/clustering.py"
    factors = FACTORS
    claims = CLAIMS
    title = "Private clustering: the papers' figures, measured again"
    intro = "Benchmark data only: every number here is exact and none of it is private."
    claims_head = "What the papers claim, and whether it held"
    claims_words = (
        f"A claim holds at a place (data set, ε) where the difference of the means is beyond "
        f"{SURE:g} standard errors of the difference; the contrary holds where it is so the other "
        "way round. In between, nothing is said. With 30 repetitions about 0.3 % of pairs that "
        "are in truth equal get a verdict by chance; with fewer than 10, far more."
    )
    settings = (
        "noise: the exact discrete Laplace sampler, seeded by the cell; every cell its own",
        "N in a formula: declared (the data set file's number of rows, as the papers have it) or "
        f"paid for (a noisy count out of the same ε); {_WITHOUT_N} read none, and stand "
        "in both tables with the same numbers",
        "a number is a mean ± its standard error",
    )
    titles_of_ways: ClassVar = {"declared": "N declared", "paid": "N paid for"}
    costs = (
        Cost(
            "seconds",
            "seconds",
            "seconds of one fit",
            "seconds (log scale)",
            "Mean over ε and plannings; one thread, wall clock, without reading the rows.",
        ),
    )
    costs_head = (
        "Run times",
        "Seconds of one fit (wall clock, one thread, rows in memory), mean over ε and plannings:",
    )
    published: ClassVar = {"nicv_ratio": "NICV ratio"}

    def cells(self, spec: DatasetSpec) -> list[ClusteringCell]:
        """In every planning of each system; DeclarationError without clustering models."""
        for system in self.systems:
            system.build(spec, system.plannings[0])
        epsilons = [epsilon_text(epsilon) for epsilon in self.epsilons or spec.partitions]
        return [
            ClusteringCell(spec.name, system.name, planning, epsilon, repetition)
            for repetition, system, epsilon in product(range(self.repeats), self.systems, epsilons)
            for planning in system.plannings
        ]

    declared = staticmethod(declared_digest)

    def prepared(self, benchmark: Benchmark) -> None:
        """k-means without privacy: not by several processes at the same time."""
        shared = shared_parameters(benchmark.spec)
        columns = tuple(shared.get("columns", "").split()) or benchmark.spec.domain.numeric
        with one_thread():
            keep_reference(benchmark.spec, benchmark.snapshot, columns, k=int(shared["k"]))

    def measuring(self) -> Measuring:
        """Fits over the benchmarks in the folder."""
        return Measuring(self.folder)

    def curves(self, summary: Summary) -> Iterable[Curve]:
        """Every measure over ε in every planning."""
        return [
            Curve(measure, f"{measure}_{way}", f", N {way}: {words}", scale, _OF_N[way], way)
            for way in summary.ways
            for measure, (words, scale, _) in _SHOWN.items()
        ]

    def tables(self, summary: Summary) -> Iterable[Table]:
        """The same measures."""
        return [
            Table(measure, f"{words}; {self.titles_of_ways[way]}", way)
            for measure, (_, _, words) in _SHOWN.items()
            for way in summary.ways
        ]
