"""Private models: one file each, one line each here."""

from __future__ import annotations

from collections.abc import Mapping

from dp_pipeline.models.base import Model
from dp_pipeline.models.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.eug_kmeans import EugKMeans
from dp_pipeline.models.independent import Independent
from dp_pipeline.models.parameters import from_text
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

MODELS: Mapping[str, type[Model]] = {
    "dpqt_kmeans": DpqtKMeans,
    "eug_kmeans": EugKMeans,
    "independent": Independent,
}


def build_model(spec: DatasetSpec, name: str) -> Model:
    """The model that a data set declares, with its parameters, checked against the attributes.

    A declared ``nominal_rows`` reaches every model that plans with one.
    """
    if name not in MODELS or name not in spec.models:
        declared = ", ".join([model for model in spec.models if model in MODELS] or MODELS)
        raise DeclarationError(f"{spec.name}: model: expected one of {declared}, got {name[:60]!r}")
    model_type = MODELS[name]
    texts = dict(spec.models[name])
    if spec.nominal_rows is not None and "nominal_rows" in getattr(
        model_type, "__dataclass_fields__", {}
    ):
        texts.setdefault("nominal_rows", str(spec.nominal_rows))
    model = from_text(model_type, texts, of=f"{spec.name}: {name}")
    model.check(spec.domain)
    return model
