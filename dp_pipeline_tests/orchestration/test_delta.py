"""A population that pays in ρ: what is reserved, settled, shown and refused, end to end."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import dagster as dg
import numpy as np
import pytest

from dp_pipeline import models
from dp_pipeline.config import amounts
from dp_pipeline.config.amounts import Currency, epsilon_of, epsilon_text, nano_epsilon, rho_of
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded
from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import Model, PrivacyGuarantee
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.orchestration.checks import PLAUSIBLE
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.releases.run_result import ReleaseResult
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, Spend
from dp_pipeline.results.clusters import Clusters
from dp_pipeline_tests.orchestration.events import check_results, materializations
from dp_pipeline_tests.orchestration.projects import PUBLIC, RIDES, Project

BILLIONTH = Fraction(1, 10**9)
RHO = Currency(BILLIONTH)
LIMIT = rho_of(Fraction(5), BILLIONTH)
HALF = rho_of(Fraction(1, 2), BILLIONTH)
BOUGHT = Fraction(1, 800)
"""ρ of the evaluation, ε = 0.05."""

IN_RHO: dict[str, Any] = {"delta": "0.000000001", "ceiling": {"total": "5"}}
PAID = {
    **IN_RHO,
    "models": {"counted": {}, "eug_kmeans": {"k": "2", "nominal_rows": "40"}},
    "publish": None,
}


@dataclass(frozen=True)
class Counted(Model):
    """A pure count for a tenth of ρ, a Gaussian one for the rest, and two declared centres."""

    summary: ClassVar[str] = "two counts"
    accounts_in_rho: ClassVar[bool] = True

    def check(self, domain: object) -> None:
        """Any domain will do."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        curator.measure((), epsilon=epsilon / 10)
        self._second(curator)
        centres = np.array([[1.0, 1.0], [7.0, 3.0]])
        return Clusters(("x", "y"), centres[rng.permutation(2)])

    def _second(self, curator: Curator) -> None:
        curator.tabulate({(): curator.accountant.remaining})


@pytest.fixture(scope="module", autouse=True)
def register_models() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "MODELS", {**models.MODELS, "counted": Counted})
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, DatasetSpec, Any]:
    project = Project(tmp_path_factory.mktemp("paid"))
    spec = project.declare("rides", RIDES, **PAID)
    outcomes = project.run(spec)
    return project, spec, {(done.release.name, done.release.epsilon): done for done in outcomes}


Ran = tuple[Project, DatasetSpec, Mapping[tuple[str, Fraction], ReleaseResult]]


def test_release_is_reserved_in_rho_as_its_draws_add_up(ran: Ran):
    project, spec, releases = ran
    entries = project.ledger.entries(spec.population)
    reserved = {
        (entry.facts["model"], entry.facts["epsilon"]): entry.nano_epsilon
        for entry in entries
        if entry.event == "reserve"
    }
    assert reserved == {
        ("counted", "0.1"): nano_epsilon(rho_of(Fraction("0.1"), BILLIONTH) + BOUGHT),
        ("counted", "0.5"): nano_epsilon(HALF + BOUGHT),
        ("eug_kmeans", "0.1"): nano_epsilon(Fraction("0.005") + BOUGHT),
        ("eug_kmeans", "0.5"): nano_epsilon(Fraction("0.125") + BOUGHT),
    }
    assert project.spent(spec) == Fraction(sum(reserved.values()), amounts.NANO)
    assert project.ledger.balance(spec.population).ceiling == LIMIT
    project.ledger.verify()
    counted, pure = (
        project.ledger.history(releases[name, Fraction(1, 2)].bundle.key)[-1].spends
        for name in ("counted", "eug_kmeans")
    )
    assert [spend.mechanism for spend in counted[:2]] == [LAPLACE, GAUSSIAN]
    # A pure question in a release of ρ costs half its square, and the Gaussian has the rest.
    assert counted[0].epsilon == Fraction(1, 20) ** 2 / 2
    assert counted[0].epsilon + counted[1].epsilon == HALF
    assert sum(spend.epsilon for spend in counted) == HALF + BOUGHT
    # One budget of pure ε costs half the square of its whole, shared out.
    assert sum(spend.epsilon for spend in pure) == Fraction(1, 8) + BOUGHT
    assert releases["eug_kmeans", Fraction(1, 2)].bundle.model_currency == amounts.PURE
    concentrated = releases["counted", Fraction(1, 2)].bundle
    assert concentrated.charged == HALF + BOUGHT
    assert concentrated.epsilon == epsilon_of(HALF + BOUGHT, BILLIONTH)
    assert concentrated.spent_text == RHO.text(HALF + BOUGHT)
    assert concentrated.spent_text.endswith("at δ=1e-9)")
    pure = releases["eug_kmeans", Fraction(1, 2)].bundle
    assert (pure.epsilon, pure.spent_text) == (Fraction("0.55"), "0.55 (ρ=0.12625)")
    assert {release.bundle.facts["delta"] for release in releases.values()} == {"1e-9"}
    assert concentrated.facts["currency"] == "zcdp"
    assert pure.facts["currency"] == "pure"


def test_dagster_and_report_show_rho_and_checks_are_green(ran: Ran):
    project, spec, _ = ran
    materialized = materializations(project, spec)
    (metadata,) = materialized[dg.AssetKey(["rides", "counted"])]["0.5"]
    cost = HALF + BOUGHT
    assert metadata["privacy/exact epsilon"].value == RHO.text(cost)
    # The exact amounts are texts; what is plotted has four digits.
    assert metadata["privacy/epsilon"].value == float(f"{float(epsilon_of(cost, BILLIONTH)):.4g}")
    assert metadata["privacy/rho"].value == float(f"{float(cost):.4g}")
    assert metadata["privacy/delta"].value == "1e-9"
    assert metadata["privacy/charged by this run"].value == RHO.text(cost)
    table = metadata["privacy/mechanisms"].records
    assert sum(Fraction(row.data["ρ"]) for row in table) == cost
    (budget, *_) = materialized[dg.AssetKey(["rides", "budget"])][None]
    assert budget["privacy/exact ceiling"].value == RHO.text(LIMIT)
    last = budget["privacy/releases"].records[-1]
    assert last.data["sum"] == epsilon_text(project.spent(spec))
    failed = {result.check_name for result in check_results(project, spec) if not result.passed}
    # Eight rows are a weak signal, which is a warning.
    assert failed <= {PLAUSIBLE}
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert f"ε = 5 at δ = 1e-9 (ρ = {epsilon_text(LIMIT)}) for everything" in page
    assert "pays in ρ of zero-concentrated differential privacy" in page
    total = HALF + rho_of(Fraction("0.1"), BILLIONTH) + Fraction("0.13") + 4 * BOUGHT
    assert f"at δ = 1e-9 (ρ = {epsilon_text(total)}) at most" in page


def test_a_plan_adds_up_what_a_run_then_charges(ran: Ran):
    project, spec, _ = ran
    planned = plan_run(project.request(spec, new_draw=True))
    assert planned.total_cost == planned.balance.spent == project.spent(spec)
    assert planned.balance.ceiling == LIMIT
    with pytest.raises(BudgetExceeded, match=r"refused by population riders: requested ρ=0\.\d+"):
        for _ in range(3):
            balance = replace(planned.balance, spent=planned.balance.spent * 2)
            planned = replace(planned, balance=balance)
            planned.require_budget()


def test_a_command_shows_rho_and_what_it_means(project: Project):
    models = {"eug_kmeans": {"k": "2", "nominal_rows": "40"}}
    spec = project.declare("rides", RIDES, **{**PAID, "models": models})
    checked = project.cli_here("data", "check", str(project.datasets / "rides.yaml"))
    assert checked.out.strip().endswith(f"cost {RHO.text(Fraction('0.1325'))}")
    planned = project.command("plan", "rides", "--epsilon", "0.5")
    assert "cost (ρ)" in planned
    assert planned.splitlines()[-1] == (
        f"requested {RHO.text(Fraction('0.12625'))}, spent ρ=0 (ε=0 at δ=1e-9), "
        f"left {RHO.text(LIMIT)}, ceiling {RHO.text(LIMIT)}"
    )
    project.run(spec, epsilons=["0.5"])
    (account,) = json.loads(project.cli_here("budget", "rides", "--json").out)["accounts"]
    spent = Fraction("0.12625")
    amounts = {"spent": spent, "left": LIMIT - spent, "spent_epsilon": epsilon_of(spent, BILLIONTH)}
    expected = {name: epsilon_text(amount) for name, amount in amounts.items()}
    assert account | expected | {"currency": "zcdp", "delta": "1e-9"} == account
    assert "ρ=0.12625" in project.cli_here("budget", "rides").out


@dataclass(frozen=True)
class SpendsTheEpsilon(EugKMeans):
    """Says that it is concentrated, and spends its ε as if it were ρ."""

    accounts_in_rho: ClassVar[bool] = True


@dataclass(frozen=True)
class LeavesSome(Counted):
    """Claims more ρ than it spends."""

    def _second(self, curator: Curator) -> None:
        curator.tabulate({(): curator.accountant.remaining / 2})


@dataclass(frozen=True)
class GaussianInPure(Counted):
    """Pays for Gaussian noise under a claim of pure ε: no finite ε would hold."""

    accounts_in_rho: ClassVar[bool] = False

    def _second(self, curator: Curator) -> None:
        # No question of a curator does so, so that it goes past all of them.
        rho = curator.accountant.remaining
        curator.accountant.charge(Spend("rows", GAUSSIAN, rho, 1, 1 / (2 * rho), "zcdp"))


@dataclass(frozen=True)
class ClaimsLess(EugKMeans):
    """Says that it composes to half of what it spends."""

    def guarantee(self, epsilon: Fraction, _: object = None) -> PrivacyGuarantee:
        return PrivacyGuarantee("dp", epsilon / 2)


@dataclass(frozen=True)
class ClaimsNoEpsilon(EugKMeans):
    """Is private and says that it is not: it would be charged nothing."""

    def guarantee(self, epsilon: Fraction, _: object = None) -> PrivacyGuarantee:
        return PrivacyGuarantee("not-dp", epsilon, "modesty")


@dataclass(frozen=True)
class Discloses(EugKMeans):
    """Looks at rows without noise and claims the nominal ε."""

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        curator.disclose_records(("x", "y"), 1, 0, reason="to know one")
        return super().fit(curator, epsilon=epsilon, rng=rng)


@pytest.mark.parametrize(
    ("mutant", "changes", "error", "line"),
    [
        (SpendsTheEpsilon, IN_RHO, BudgetExceeded, "requested ρ="),
        (LeavesSome, IN_RHO, BoundaryViolation, "must spend exactly ρ="),
        (GaussianInPure, IN_RHO, BoundaryViolation, "The budget is in pure ε"),
        (ClaimsLess, IN_RHO, BudgetExceeded, "requested ε="),
        (ClaimsLess, PUBLIC, BudgetExceeded, "requested ε="),
        (ClaimsNoEpsilon, PUBLIC, BoundaryViolation, "be not-dp as its model claims, but it is dp"),
        (Discloses, PUBLIC, BoundaryViolation, "be dp as its model claims, but it is not-dp"),
        (Discloses, {}, BoundaryViolation, "Only benchmark rows may be disclosed"),
    ],
)
def test_release_not_what_it_claims_is_refused_before_charge(
    mutant: type, changes: Any, error: type[Exception], line: str, project: Project, monkeypatch
):
    monkeypatch.setattr(models, "MODELS", {**models.MODELS, "counted": mutant})
    spec = project.declare("rides", RIDES, models={"counted": {}}, publish=None, **changes)
    project.prepare(spec)
    with pytest.raises(error, match=line):
        project.publish(spec, model="counted")
    assert "reserve" not in [entry.event for entry in project.ledger.entries()]
    assert not project.home.released.exists()
