"""Private models: one file each, one line each here."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dp_pipeline.models.base import Model, claim_of, price
from dp_pipeline.models.dp_kmeans import DpKMeans
from dp_pipeline.models.dp_kmeans_pp import DpKMeansPlusPlus
from dp_pipeline.models.dplk_kmeans import DplkKMeans
from dp_pipeline.models.dplloyd import DpLloyd
from dp_pipeline.models.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.eug_kmeans import EugKMeans
from dp_pipeline.models.htree_kmeans import HTreeKMeans
from dp_pipeline.models.hybrid_kmeans import HybridKMeans
from dp_pipeline.models.idp_kmeans import IdpKMeans
from dp_pipeline.models.independent import Independent
from dp_pipeline.models.oept_kmeans import OeptKMeans
from dp_pipeline.models.parameters import from_text
from dp_pipeline.models.privtree_kmeans import PrivTreeKMeans
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

MODELS: Mapping[str, type[Model]] = {
    "dp_kmeans": DpKMeans,
    "dp_kmeans_pp": DpKMeansPlusPlus,
    "dplk_kmeans": DplkKMeans,
    "dplloyd": DpLloyd,
    "dpqt_kmeans": DpqtKMeans,
    "eug_kmeans": EugKMeans,
    "htree_kmeans": HTreeKMeans,
    "hybrid_kmeans": HybridKMeans,
    "idp_kmeans": IdpKMeans,
    "independent": Independent,
    "oept_kmeans": OeptKMeans,
    "privtree_kmeans": PrivTreeKMeans,
}


def build_model(spec: DatasetSpec, name: str) -> Model:
    """The model that a data set declares, with its parameters, checked against the attributes.

    A declared ``nominal_rows`` reaches every model that plans with one. A method that
    costs another ε than was asked, or has none, is refused on data to be released.
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
    _require_plain(spec, name, model)
    return model


def _require_plain(spec: DatasetSpec, name: str, model: Model) -> None:
    claims = [claim_of(model, epsilon) for epsilon in spec.partitions]
    reasons = [claim.reason for claim in claims if not claim.is_plain]
    if spec.is_release and reasons:
        raise DeclarationError(
            f"{spec.name}: {name}: expected a sound method for data to be released, "
            f"got one that is for benchmarks alone: {reasons[0]}"
        )


def price_of_everything(spec: DatasetSpec) -> Fraction:
    """What all declared models at all ε charge together: the claims of published variants count,
    and those without a finite ε charge nothing.
    """
    models = [build_model(spec, name) for name in spec.models]
    claims = (claim_of(model, epsilon) for model in models for epsilon in spec.partitions)
    return sum((price(spec, claim) for claim in claims), Fraction(0))
