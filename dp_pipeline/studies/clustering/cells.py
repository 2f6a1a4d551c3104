"""Cell: one repetition of one system at one ε on one data set.

Measuring one cell: fit the system on a curator in memory, then compare with the rows.

Systems: the models that the study compares, as the papers describe them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, Literal

from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, guarantee_of
from dp_pipeline.raw.evaluate import clustering_quality
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError
from dp_pipeline.spec.parameters import from_text
from dp_pipeline.studies.fit import timed_fit
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.study import named, opened

Planning = Literal["declared", "paid", "none"]
"""Where the number of rows N in a formula is from: the data set file, a paid noisy count,
or nowhere: the system has no such formula.
"""

PLANNINGS: tuple[Planning, ...] = ("declared", "paid")


@dataclass(frozen=True)
class System:
    """One line of the comparison.

    name        in tables and on the command line
    title       as people call it
    model       a name of ``MODELS``
    parameters  what differs from the model's defaults, as text
    """

    name: str
    title: str
    model: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        """Whether this is a variant as published, which promises less than the ε asked for."""
        return self.parameters.get("variant") == "published"

    @property
    def plannings(self) -> tuple[Planning, ...]:
        """The ways in which this system can plan."""
        return PLANNINGS if "nominal_rows" in _parameters(self.model) else ("none",)

    def build(self, spec: DatasetSpec, planning: Planning) -> Model:
        """The model for one data set; DeclarationError where it does not fit the attributes.

        k and columns are those that the data set declares for its clustering models.
        """
        texts = {**shared_parameters(spec), **self.parameters}
        if planning == "declared" and spec.nominal_rows is not None:
            texts["nominal_rows"] = str(spec.nominal_rows)
        model = from_text(MODELS[self.model], texts, of=f"{spec.name}: {self.name}")
        model.check(spec.domain)
        return model


SYSTEMS = (
    System("dp_kmeans", "DPk-means", "dp_kmeans"),
    System("dp_kmeans_halving", "DPk-means (halving)", "dp_kmeans", {"budgets": "halving"}),
    System("idp_kmeans", "IDPk-means", "idp_kmeans"),
    System("dp_kmeans_pp", "DPk-means++", "dp_kmeans_pp"),
    System("dplloyd", "DPLloyd", "dplloyd"),
    System("oept_kmeans", "OEPT", "oept_kmeans"),
    System("dplk_kmeans", "DPLK-means", "dplk_kmeans"),
    System("eug_kmeans", "EUGkM", "eug_kmeans"),
    System("hybrid_kmeans", "Hybrid", "hybrid_kmeans"),
    System("dpqt_kmeans", "DPQTk-means", "dpqt_kmeans"),
    System("privtree_kmeans", "PrivTree", "privtree_kmeans"),
    System("htree_kmeans", "HTree", "htree_kmeans"),
)
"""In the order of tables and pictures: rounds of Lloyd, then grids, then trees."""


def known_systems() -> Mapping[str, System]:
    """Every system, and for each model that has one its variant as published."""
    published = [
        System(f"{one.name}_published", f"{one.title} as published", one.model, {"variant": word})
        for one in SYSTEMS
        if not one.parameters and (word := _published_variant(one.model))
    ]
    return {one.name: one for one in (*SYSTEMS, *published)}


def find_systems(names: Sequence[str]) -> tuple[System, ...]:
    """The systems that are named, all for no name; DeclarationError for an unknown one."""
    return named(names, known_systems())


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


@dataclass(frozen=True)
class Cell:
    """What is measured at once; names as in the data set file and in ``SYSTEMS``.

    epsilon   canonical text
    """

    dataset: str
    system: str
    planning: Planning
    epsilon: str
    repetition: int

    @property
    def key(self) -> str:
        """One text a cell: what a journal knows it by, and what decides its randomness.

        Systems are compared as independent samples, so no two of them share their noise.

        >>> Cell("birch3", "eug_kmeans", "paid", "0.5", 7).key
        'birch3/eug_kmeans/paid/0.5/7'
        """
        parts = (self.dataset, self.system, self.planning, self.epsilon, str(self.repetition))
        return "/".join(parts)


def all_cells(
    dataset: str, systems: Sequence[System], epsilons: Sequence[Fraction], *, repeats: int
) -> list[Cell]:
    """Every cell of one data set, in every planning of each system."""
    return [
        Cell(dataset, system.name, planning, epsilon_text(epsilon), repetition)
        for repetition, system, epsilon in product(range(repeats), systems, epsilons)
        for planning in system.plannings
    ]


METRICS = ("nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "ari_kmeans", "f_label", "ari_label")
"""Of ``raw.evaluate.clustering_quality``; those with a label only where one is declared."""


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder."""

    folder: Path

    def __call__(self, cell: Cell) -> Row:
        """One row: the cell, what it claims and costs, its metrics, and seconds of the fit.

        A system that refuses a data set at some ε gives a row with a ``failure`` and no
        metrics: hours of other cells are not lost for it.
        """
        benchmark, epsilon = opened(self.folder, cell.dataset), Fraction(cell.epsilon)
        model = known_systems()[cell.system].build(benchmark.spec, cell.planning)
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
                model,
                benchmark.counter(),
                benchmark.spec,
                guarantee,
                epsilon=epsilon,
                key=cell.key,
            )
        except (BoundaryViolation, DeclarationError) as error:
            return {**row, "failure": str(error)}
        fit.require_claimed(guarantee, what=cell.key)
        assert isinstance(fit.released, Clusters)
        columns, centres = fit.released.columns, fit.released.centres
        quality = clustering_quality(benchmark.spec, benchmark.snapshot, columns, centres)
        known = {name: quality[name] for name in METRICS if name in quality}
        finite = {name: value for name, value in known.items() if math.isfinite(value)}
        return {**row, **finite, "seconds": seconds}


def declared_digest(spec: DatasetSpec) -> str:
    """12 hex digits of what the file of a data set says to a study; other cells than these are
    of another data set with the same name.
    """
    said = [spec.digest, spec.source.identity, spec.nominal_rows, spec.label]
    text = json.dumps([*said, shared_parameters(spec)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
