"""Systems: the models of tables that the study compares, and their variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache

from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Claim, Model, claim_of
from dp_pipeline.models.table import TableModel
from dp_pipeline.schema.parameters import from_text
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.named import named


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

    def claim(self, spec: DatasetSpec, epsilon: Fraction, delta: Fraction) -> Claim:
        """What it promises on a data set; ``delta`` is that of the study."""
        asked = delta if self.concentrated else None
        return claim_of(self.build(), epsilon, asked, domain=spec.domain)


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
    if not getattr(model_type, "needs_delta", False):
        yield System(model, title, model)
    if getattr(model_type, "concentrated", False):
        yield System(f"{model}_delta", f"{title}, δ", model, concentrated=True)
    parameters = {one.name for one in fields(model_type)}  # type: ignore[arg-type]
    for variant in _VARIANTS:
        if variant.model == model and parameters >= set(variant.parameters):
            yield variant


def find_systems(names: Sequence[str]) -> tuple[System, ...]:
    """The systems that are named, all for no name; DeclarationError for an unknown one."""
    return named(names, known_systems())
