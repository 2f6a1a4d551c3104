"""The private models by name, and the model that a data set declares, with its price."""

from fractions import Fraction

from dp_pipeline.config.amounts import NANO, PURE, nano_epsilon
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.config.parameters import Registry, from_text
from dp_pipeline.models.base import Model, declared_guarantee, price

MODELS: Registry[type[Model]] = Registry(
    "dp_pipeline.models",
    {
        "aim_like": "tables.aim_like:AimLike",
        "dp_kjig": "tables.dp_kjig:DpKjig",
        "dp_kmeans": "clustering.lloyd_kmeans:DpKMeans",
        "dp_kmeans_pp": "clustering.grid_kmeans:DpKMeansPlusPlus",
        "dplk_kmeans": "clustering.lloyd_kmeans:DplkKMeans",
        "dplloyd": "clustering.lloyd_kmeans:DpLloyd",
        "dpqt_kmeans": "clustering.dpqt_kmeans:DpqtKMeans",
        "eug_kmeans": "clustering.grid_kmeans:EugKMeans",
        "htree_kmeans": "clustering.htree_kmeans:HTreeKMeans",
        "hybrid_kmeans": "clustering.grid_kmeans:HybridKMeans",
        "idp_kmeans": "clustering.lloyd_kmeans:IdpKMeans",
        "independent": "tables.independent:Independent",
        "jtree": "tables.jtree:JTree",
        "mst": "tables.mst:Mst",
        "one_shot": "tables.one_shot:OneShot",
        "oept_kmeans": "clustering.grid_kmeans:OeptKMeans",
        "privbayes": "tables.privbayes:PrivBayes",
        "privhd": "tables.privhd:PrivHd",
        "priview": "tables.priview:PriView",
        "privtree_kmeans": "clustering.privtree_kmeans:PrivTreeKMeans",
        "threshold_filter": "tables.threshold_filter:ThresholdFilter",
    },
    group="dp_pipeline.models",
)
"""Name → class, imported when it is asked for: ours, and those that other packages register under
the entry points ``dp_pipeline.models``. A model of another package is handed a curator as ours are.
"""


def build_model(spec: DatasetSpec, name: str) -> Model:
    """Return the model that a data set declares under a name, with its parameters checked.

    The data set's ``nominal_rows`` and ``label`` are defaults of parameters of these names. Its
    label and ``targets`` count more in a model with a ``workload``, unless one is declared.
    Attributes that are still to be discovered count with the most levels that they may get.

    DeclarationError for an unknown or undeclared name, and for parameters that do not fit the data
    set. On sensitive rows also for a model that does not guarantee the requested ε, and with a δ
    for models that together cost more ρ than the ceiling.
    """
    spec = spec.widest
    model = _build(spec, name)
    if spec.is_release and spec.delta is not None:
        # Prices are rounded as they are charged. The parser checks a ceiling in ε.
        nano_rho = sum(nano_epsilon(price) for price in _prices(spec))
        by_window = spec.within == "window"
        declared = spec.each_window if by_window else spec.ceiling
        total, ceiling = Fraction(nano_rho, NANO), spec.currency.amount_of(declared or Fraction(0))
        if total > ceiling:
            limit = "an each_window" if by_window else "a total"
            scope = "what is published of each window" if spec.windows else "all models at all ε"
            raise DeclarationError(
                f"{spec.name}: ceiling: {limit} must be at least {spec.currency.text(total)} for "
                f"{scope}{spec.extras}, not {spec.currency.text(ceiling)}: raise it, or declare "
                "fewer releases"
            )
    return model


def require_units_released(model: Model, domain: Domain, *, of: str) -> None:
    """Raise DeclarationError if protected units have parts but the model releases only rows.

    of   beginning of the message, which says whose model it is
    """
    if domain.parts is not None and not model.releases_units:
        raise DeclarationError(
            f"{of}: the protected units have parts, so the model must be one_shot, which releases "
            "whole units: choose it"
        )


def _build(spec: DatasetSpec, name: str) -> Model:
    if name not in MODELS or name not in spec.models:
        declared = [model for model in spec.models if model in MODELS] or MODELS
        hint = f": declare {name} in its file" if name in MODELS else ""
        raise DeclarationError(f"{spec.name}: the model {one_of(declared, name)}{hint}")
    texts = dict(spec.models[name])
    parameters = getattr(MODELS[name], "__dataclass_fields__", {})
    if spec.nominal_rows is not None and "nominal_rows" in parameters:
        texts.setdefault("nominal_rows", str(spec.nominal_rows))
    if spec.label is not None and "label" in parameters:
        texts.setdefault("label", spec.label)
    targets = [target.attribute for target in spec.targets]
    model = from_text(MODELS[name], texts, of=f"{spec.name}: {name}").for_targets(
        tuple(dict.fromkeys([*([spec.label] if spec.label else []), *targets])), spec.domain
    )
    require_units_released(model, spec.domain, of=f"{spec.name}: {name}")
    try:
        model.check(spec.widest.domain)
        guarantees = [declared_guarantee(spec, model, epsilon) for epsilon in spec.partitions]
    except DeclarationError as error:
        raise DeclarationError(f"{spec.name}: {error}") from None
    if model.plans_from_earlier and spec.windows is None:
        raise DeclarationError(
            f"{spec.name}: {name}: `plan_from` needs earlier windows, but the data set has "
            "none: declare `windows`, or leave `plan_from` out"
        )
    is_public = spec.relation == "replace_one" and spec.protection.rows == 1
    if model.needs_public_rows and (spec.is_release or not is_public):
        raise DeclarationError(
            f"{spec.name}: {name}: the model needs a public number of rows, as of a benchmark "
            f"with relation replace_one and one row a person, but this is a {spec.purpose} with "
            f"{spec.relation} and up to {spec.protection.rows} a person: choose another model"
        )
    reasons = [guarantee.reason for guarantee in guarantees if not guarantee.is_plain]
    if spec.is_release and reasons:
        raise DeclarationError(
            f"{spec.name}: {name}: the model must not be used on sensitive rows, only on "
            f"benchmarks, since {reasons[0]}: choose other parameters or another model"
        )
    return model


def price_of_everything(spec: DatasetSpec) -> Fraction:
    """Return the price of everything declared, discovery included, in the population's currency.

    A published variant costs the ε that it really spends, or nothing if no finite ε holds.
    """
    return sum(_prices(spec), Fraction(0))


def _prices(spec: DatasetSpec) -> list[Fraction]:
    """Return the prices, in the population's currency, of declared discovery and of every model at
    every ε.

    With windows they are those of every publication, times the number of windows that it spans."""
    releases = [(name, epsilon, 1) for name in spec.models for epsilon in spec.partitions]
    if spec.windows is not None:
        releases = [(each.model, each.epsilon, each.span) for each in spec.publications]
    models = {name: _build(spec, name) for name in spec.models}
    discovery = [spec.currency.cost_of(spec.discover.epsilon, PURE)] if spec.discover else []
    return discovery + [
        price(spec, declared_guarantee(spec, models[name], epsilon)) * windows
        for name, epsilon, windows in releases
    ]
