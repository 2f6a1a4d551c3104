"""The study of private clustering: its systems, and how one cell is measured.

A cell is one repetition of one system at one ε on one data set: the system is fitted on a
curator in memory, then compared with the rows.
"""

from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import product
from typing import Any, Literal, NamedTuple

from benchmarks.papers.results import Row, System
from benchmarks.papers.study import (
    Benchmark,
    Study,
    finite,
    guarantee_facts,
    key_of,
    timed_fit,
)
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.config.parameters import from_text
from dp_pipeline.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, guarantee_of
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.raw.evaluate import clustering_quality, exact_points, reference_centres
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.threads import one_thread

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
        """Return the model for one data set, with the k and columns that this declares for its
        clustering models; DeclarationError where it does not fit the attributes.
        """
        texts = {**shared_parameters(spec), **self.parameters}
        if planning == "declared" and spec.nominal_rows is not None:
            texts["nominal_rows"] = str(spec.nominal_rows)
        model = from_text(MODELS[self.algorithm], texts, of=f"{spec.name}: {self.name}")
        model.check(spec.domain)
        return model


def shared_parameters(spec: DatasetSpec) -> dict[str, str]:
    """Return k and columns, as text, of the clustering models that a data set declares.

    DeclarationError unless they declare one k and the same columns.
    """
    declared = {
        tuple((name, texts[name]) for name in ("k", "columns") if name in texts)
        for texts in spec.models.values()
        if "k" in texts
    }
    if len(declared) != 1:
        raise DeclarationError(
            f"{spec.name}: models: expected clustering models with one and the same k, "
            f"got {len(declared) or 'none'}"
        )
    return dict(declared.pop())


def _parameters(model: str) -> dict[str, Any]:
    return {field.name: field.metadata for field in fields(MODELS[model])}  # type: ignore[arg-type]


SOUND = (
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
    for sound in SOUND
    if not sound.parameters
    and (variant := _parameters(sound.algorithm).get("variant"))
    and (word := variant["parse"]("published"))
)
"""The variant as published of each model that has one."""

_OTHERS = tuple(
    ClusteringSystem(name, name, name)
    for name, model in MODELS.items()
    if issubclass(model, Clustering) and name not in {sound.algorithm for sound in SOUND}
)
"""Models of other packages."""

SYSTEMS = {system.name: system for system in (*SOUND, *_OTHERS, *_PUBLISHED)}


class ClusteringCell(NamedTuple):
    """Names as in the data set file and in ``SYSTEMS``; ``epsilon`` is canonical text."""

    dataset: str
    system: str
    planning: Planning
    epsilon: str
    repetition: int


METRICS = ("nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "ari_kmeans", "f_label", "ari_label")
"""Of ``raw.evaluate.clustering_quality``; those with a label only where one is declared."""


@dataclass(frozen=True, kw_only=True)
class ClusteringStudy(Study):
    """Private k-means systems on data sets with clustering models.

    epsilons   empty: those that each data set lists
    """

    name = "clustering"
    measured_by = ("clustering.py",)

    systems: tuple[ClusteringSystem, ...]
    epsilons: tuple[Fraction, ...] = ()

    def cells(self, spec: DatasetSpec) -> list[ClusteringCell]:
        """Return those of every planning of each system; DeclarationError without clustering
        models.
        """
        for system in self.systems:
            system.build(spec, system.plannings[0])
        epsilons = [epsilon_text(epsilon) for epsilon in self.epsilons or spec.partitions]
        return [
            ClusteringCell(spec.name, system.name, planning, epsilon, repetition)
            for repetition, system, epsilon in product(range(self.repeats), self.systems, epsilons)
            for planning in system.plannings
        ]

    def facts(self, spec: DatasetSpec) -> list[object]:
        """Return N, label, k and columns."""
        return [spec.nominal_rows, spec.label, shared_parameters(spec)]

    def prepare(self, benchmark: Benchmark, ledger: Ledger) -> None:
        """Prepare the rows, and k-means without privacy: not by several processes at once."""
        super().prepare(benchmark, ledger)
        spec, shared = benchmark.spec, shared_parameters(benchmark.spec)
        columns = tuple(shared.get("columns", "").split()) or spec.domain.numeric
        points = exact_points(spec, benchmark.snapshot, columns)
        if len(points):
            with one_thread():
                reference_centres(spec, benchmark.snapshot, columns, points, k=int(shared["k"]))

    def measure(self, cell: ClusteringCell) -> Row:
        """Return the cell, what it claims and costs, its metrics, and seconds of the fit."""
        benchmark, epsilon, key = self.benchmark(cell.dataset), Fraction(cell.epsilon), key_of(cell)
        model = SYSTEMS[cell.system].build(benchmark.spec, cell.planning)
        guarantee = guarantee_of(model, epsilon)
        row = {
            **cell._asdict(),
            "declared": self.declared(benchmark.spec),
            **guarantee_facts(guarantee),
            **dict.fromkeys((*METRICS, "seconds")),
            "failure": "",
        }
        try:
            fitted, seconds = timed_fit(
                model, benchmark.counter(), benchmark.spec, guarantee, epsilon=epsilon, key=key
            )
        except (BoundaryViolation, DeclarationError) as error:
            return {**row, "failure": str(error)}
        fitted.require_guaranteed(what=key)
        assert isinstance(fitted.released, Clusters)
        columns, centres = fitted.released.columns, fitted.released.centres
        quality = clustering_quality(benchmark.spec, benchmark.snapshot, columns, centres)
        known_figures = {name: quality[name] for name in METRICS if name in quality}
        return {**row, **finite(known_figures), "seconds": seconds}
