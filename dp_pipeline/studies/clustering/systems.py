"""Systems: the models that the study compares, as the papers describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.parameters import from_text
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.named import named

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
