"""The name of a method and its parameters → a model; nothing here sees a row."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Claim, Model, claim_at, claim_of
from dp_pipeline.models.clustering import Clustering
from dp_pipeline.models.table import TableModel
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.parameters import from_text

_OF_CLUSTERING = {"k": "n_clusters", "columns": "the columns of X"}
_OF_TABLES = {"attributes": "the columns of domain"}


def clustering_model(
    method: object,
    *,
    clusters: int,
    nominal_rows: object,
    params: Mapping[str, object] | None,
) -> Model:
    """The model of a method's name; ``nominal_rows`` reaches it if it plans with one.

    Raises DeclarationError for a method that releases no centres, and for wrong parameters.
    """
    name = _method(method, Clustering)
    texts = _texts(name, params, nominal_rows, set_elsewhere=_OF_CLUSTERING)
    return from_text(MODELS[name], {**texts, "k": str(clusters)}, of=name)


def table_model(
    method: object, *, nominal_rows: object, params: Mapping[str, object] | None
) -> Model:
    """The model of a method's name; ``nominal_rows`` reaches it if it plans with one.

    Raises DeclarationError for a method that releases no table, and for wrong parameters.
    """
    name = _method(method, TableModel)
    texts = _texts(name, params, nominal_rows, set_elsewhere=_OF_TABLES)
    return from_text(MODELS[name], texts, of=name)


def _method(method: object, family: type) -> str:
    methods = [name for name, model in MODELS.items() if issubclass(model, family)]
    if not isinstance(method, str) or method not in methods:
        raise DeclarationError(f"method: expected one of {', '.join(methods)}, got {method!r:.60}")
    return method


def _texts(
    method: str,
    params: Mapping[str, object] | None,
    nominal_rows: object,
    *,
    set_elsewhere: Mapping[str, str],
) -> dict[str, str]:
    """Parameters as a data set file would write them."""
    if params is not None and not isinstance(params, Mapping):
        raise DeclarationError(f"method_params: expected a mapping, got {type(params).__name__}")
    texts = {str(name): str(value) for name, value in (params or {}).items()}
    for name, where in {**set_elsewhere, "nominal_rows": "nominal_rows"}.items():
        if name in texts:
            raise DeclarationError(f"method_params: {name} is set by {where}, got it here")
    known = getattr(MODELS[method], "__dataclass_fields__", {})
    if nominal_rows is not None and "nominal_rows" in known:
        texts["nominal_rows"] = str(nominal_rows)
    return texts


def plain_claim(
    method: str,
    model: Model,
    epsilon: Fraction,
    *,
    domain: Domain,
    delta: Fraction | None = None,
) -> Claim:
    """What the model promises at the ε, and the δ, of one fit.

    Raises DeclarationError for a published variant that costs another ε than the one asked or
    has none, for one that is for benchmarks alone, and for a δ that the model has no use for.
    """
    claim = claim_of(model, epsilon, delta, domain=domain)
    if not claim.is_plain:
        raise DeclarationError(
            f"{method}: expected a sound variant, at the ε asked, got another: {claim.reason}"
        )
    return claim_at(model, epsilon, delta)
