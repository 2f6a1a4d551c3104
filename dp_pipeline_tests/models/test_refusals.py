"""What a declaration of models promises and costs, and all that is refused, in one line."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import pytest

from dp_pipeline import models
from dp_pipeline.config.amounts import PURE, Currency, epsilon_of, rho_of
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.models import MODELS, build_model, price_of_everything
from dp_pipeline.models.base import (
    PrivacyGuarantee,
    declared_guarantee,
    guarantee_at,
    guarantee_of,
    price,
)
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.models.clustering.lloyd_kmeans import IdpKMeans
from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.models.contract import build_declared, check_valid, clustering_cases, run
from dp_pipeline_tests.models.tables import space, two_groups

NAMES = [name for name, model in MODELS.items() if issubclass(model, Clustering)]
CASES = clustering_cases()
every_model = pytest.mark.parametrize("name", NAMES)

WRONG = {
    "no centres": ({"k": "0"}, "k: expected an integer in 1..10000, got '0'"),
    "fewer than no centres": ({"k": "-3"}, "k: expected an integer"),
    "half a centre": ({"k": "2.5"}, "k: expected an integer"),
    "more centres than anybody wants": ({"k": "10001"}, "k: expected an integer"),
    "a column that is not there": ({"columns": "x depth"}, "has no attribute 'depth'"),
    "a column of levels": ({"columns": "x colour"}, "'colour' must be a number with"),
    "a column twice": ({"columns": "x x"}, "A clustering needs each column once, but it has"),
    "an unknown parameter": ({"speed": "1"}, "a parameter must be one of .*, not 'speed'"),
    "no declared rows": ({"nominal_rows": "0"}, "nominal_rows: expected an integer"),
    "no rounds": ({"rounds": "0"}, "rounds: expected an integer"),
    "no starts": ({"starts": "0"}, "starts: expected an integer"),
    "another number of no centres": ({"recluster": "0"}, "recluster: expected an integer"),
    "no levels": ({"levels": "0"}, "levels: expected an integer"),
    "other budgets": ({"budgets": "thirds"}, "budgets: expected one of"),
    "another start": ({"start": "records"}, "start: expected one of"),
    "one subset": ({"subsets": "1"}, "subsets: expected an integer"),
    "a variant of its own": ({"variant": "improved"}, "variant: expected one of sound, published"),
}
GAMMAS = ("1.5", "0.0", "1", "1/3")
ATTRIBUTES = "attributes:\n  x: {{bounds: {0}}}\n  y: {{bounds: [0, 1]}}"

OF_ONE_MODEL = [
    ("eug_kmeans", {"k": "9" * 500}, "k: expected an integer"),
    *(("dpqt_kmeans", {"gamma": text}, "gamma: expected a decimal") for text in GAMMAS),
    ("independent", {"k": "3"}, "a parameter must be one of attributes"),
    ("independent", {"synthetic_rows": "-1"}, "synthetic_rows"),
    ("dp_kjig", {"label": "colour", "k": "0"}, "k: expected an integer in 1"),
    ("dp_kjig", {"label": "colour", "bits": "17"}, "bits: expected an integer"),
    ("dp_kjig", {"label": "colour", "beta": "1"}, "beta: expected a decimal"),
    ("dp_kjig", {"score": "entropy"}, "score: expected one of purity, indep"),
    *(("privhd", {"kappa": text}, "kappa: expected a decimal") for text in ("0.5", "17", "two")),
    ("privhd", {"phi": "1"}, "phi: expected a decimal number"),
]
OF_EVERY_MODEL = [
    (name, texts, words)
    for name in NAMES
    for texts, words in WRONG.values()
    if set(texts) <= {field.name for field in fields(MODELS[name])} | {"speed"}
]


@pytest.mark.parametrize(("name", "texts", "words"), OF_ONE_MODEL + OF_EVERY_MODEL)
def test_a_wrong_parameter_is_refused_in_one_line(name, texts, words, tmp_path):
    with pytest.raises(DeclarationError, match=words) as refused:
        build_declared(tmp_path, name, texts)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("bounds", ["[1, 1]", "[8, 0]", "[.nan, 1]", "[0, nan]", "[0, .inf]"])
def test_bounds_that_are_no_interval_are_refused(bounds: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"bounds: expected .*got") as refused:
        loaded(tmp_path, attributes=ATTRIBUTES.format(bounds), models="models: {eug_kmeans: }")
    assert len(str(refused.value).splitlines()) == 1


@every_model
def test_a_domain_without_numbers_is_refused(name: str, tmp_path: Path) -> None:
    only = "attributes:\n  colour: {levels: [red, green]}"
    with pytest.raises(DeclarationError, match="A clustering needs numbers with bounds and"):
        build_declared(tmp_path, name, {}, attributes=only)


@pytest.mark.parametrize("case", CASES)
def test_fewer_columns_than_there_are_can_be_chosen(case: str) -> None:
    domain = space(50)
    model = replace(CASES[case], columns=("x7", "x3"))
    model.check(domain)
    released = run(model, two_groups(domain), domain=domain).released
    assert released.columns == ("x7", "x3")
    check_valid(model, released, domain=domain)


BILLIONTH = Fraction(1, 10**9)
HALF, ONE = Fraction(1, 2), Fraction(1)
BOUGHT = Fraction(1, 32)
"""ρ of an evaluation of ε = 0.25."""


@dataclass(frozen=True)
class Concentrated(EugKMeans):
    """Accounts in ρ where it can."""

    accounts_in_rho: ClassVar[bool] = True


@dataclass(frozen=True)
class NeedsDelta(Concentrated):
    """Cannot run in pure ε."""

    needs_delta: ClassVar[bool] = True


@pytest.fixture(autouse=True)
def register_models(monkeypatch: pytest.MonkeyPatch) -> None:
    more: Mapping[str, type] = {"concentrated": Concentrated, "needs_delta": NeedsDelta}
    monkeypatch.setattr(models, "MODELS", {**models.MODELS, **more})


def spec(folder: Path, *names: str, total: str = "20", **changes: str | None) -> DatasetSpec:
    declared = {
        "models": "models:\n" + "".join(f"  {name}: {{k: 2}}\n" for name in names),
        "ceiling": f"ceiling: {{total: {total}}}",
        "delta": "delta: 1e-9",
        "evaluation": "evaluation: {epsilon: 0.25}",
    }
    return loaded(folder, **{**declared, **changes})


@pytest.mark.parametrize("model", [Concentrated(), EugKMeans()])
@pytest.mark.parametrize("delta", [BILLIONTH, None])
def test_a_concentrated_model_claims_epsilon_and_spends_rho(model, delta) -> None:
    in_rho = delta is not None and isinstance(model, Concentrated)
    claim = guarantee_of(model, ONE, delta)
    currency = Currency(BILLIONTH) if in_rho else PURE
    assert claim == PrivacyGuarantee("dp", ONE, currency=currency)
    assert claim.amount == (rho_of(ONE, BILLIONTH) if in_rho else ONE)
    assert claim.is_plain


def test_a_pure_model_stays_pure_under_a_delta() -> None:
    published = IdpKMeans(variant="published")
    claim = guarantee_of(published, ONE, BILLIONTH)
    assert (claim, claim.currency) == (guarantee_of(published, ONE), PURE)


def test_a_model_that_needs_a_delta_is_refused_without_one(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="needs a δ: declare `delta`, in a file in its"):
        guarantee_of(NeedsDelta(), ONE)
    build_model(spec(tmp_path, "needs_delta"), "needs_delta")
    with pytest.raises(DeclarationError, match="needs a δ: declare `delta`, in a file in its"):
        build_model(spec(tmp_path, "needs_delta", delta=None), "needs_delta")


def test_a_delta_without_use_is_refused_for_one_fit() -> None:
    assert guarantee_at(Concentrated(), ONE, BILLIONTH).amount == rho_of(ONE, BILLIONTH)
    assert guarantee_at(EugKMeans(), ONE, None) == PrivacyGuarantee("dp", ONE)
    with pytest.raises(DeclarationError, match="is a model of pure ε and uses no δ, but"):
        guarantee_at(EugKMeans(), ONE, BILLIONTH)


def test_an_epsilon_that_buys_no_rho_is_refused_at_load(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"which 0\.00001 is not"):
        build_model(
            spec(tmp_path, "concentrated", partitions="partitions: [0.00001, 1]"), "concentrated"
        )


def test_a_release_costs_rho_and_its_evaluation_half_a_square(tmp_path: Path) -> None:
    declared = spec(tmp_path, "concentrated", "eug_kmeans")
    costs = {
        name: price(declared, declared_guarantee(declared, build_model(declared, name), ONE))
        for name in declared.models
    }
    assert costs == {"concentrated": rho_of(ONE, BILLIONTH) + BOUGHT, "eug_kmeans": HALF + BOUGHT}
    at_a_half = rho_of(HALF, BILLIONTH) + Fraction(1, 8) + 2 * BOUGHT
    assert price_of_everything(declared) == sum(costs.values()) + at_a_half


def test_a_ceiling_below_all_models_is_refused_at_load(tmp_path: Path) -> None:
    """Each model by itself would fit; the last millionth of ε decides."""
    names = ("concentrated", "eug_kmeans")
    needed = epsilon_of(price_of_everything(spec(tmp_path, *names)), BILLIONTH)
    enough = -(-needed * 10**6 // 1)
    build_model(spec(tmp_path, *names, total=f"{enough / 10**6:.6f}"), "concentrated")
    less = spec(tmp_path, *names, total=f"{(enough - 1) / 10**6:.6f}")
    line = r"toy: ceiling: a total must be at least ρ=0\.\d+ \(ε=\d\.\d+ at δ=1e-9\)"
    for name in names:
        with pytest.raises(DeclarationError, match=line):
            build_model(less, name)
