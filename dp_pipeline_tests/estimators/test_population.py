"""A fit that a population pays for: charged before anyone looks, never refunded, or refused."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from sklearn.base import clone

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.config.errors import BudgetExceeded
from dp_pipeline.gate.noise import ExactNoise, SeededNoise
from dp_pipeline.ledger import Ledger
from dp_pipeline.releases.home import HOME_VARIABLE
from dp_pipeline_tests.estimators.conftest import ACCOUNTS, DELTA
from dp_pipeline_tests.estimators.households import VILLAGE, copier, refusal
from dp_pipeline_tests.estimators.people import VILLAGES, private, quiet_fit
from dp_pipeline_tests.instruments import IntArray, RecordingNoise


class Interrupted(Exception):
    """A crash, without words about rows."""


class CrashingNoise(RecordingNoise):
    """Stops the fit at its second draw."""

    def _draw(self, *question: Any, **cells: int) -> Any:
        if self.draws:
            raise Interrupted("row 271828")
        return super()._draw(*question, **cells)


def paid_by(population: str, **parameters: Any) -> Any:
    return private(**{"population": population, "epsilon": "0.4", "noise": "exact", **parameters})


def table_paid_by(population: str, **parameters: Any) -> Any:
    return copier(**{"population": population, "epsilon": "0.4", "noise": "exact", **parameters})


IN_RHO = "concentrated"
CHARGED: dict[str, tuple[Any, Fraction, dict[str, str]]] = {
    "pure": (paid_by("riders"), Fraction("0.4"), {"method": "htree_kmeans", "noise": "exact"}),
    "ρ": (paid_by(IN_RHO, method="dp_kmeans"), Fraction("0.08"), {"method": "dp_kmeans"}),
    "a table in ρ": (table_paid_by(IN_RHO), Fraction("0.08"), {"method": "one_shot"}),
    "at the δ of an account": (
        table_paid_by(IN_RHO, delta="1e-9"), rho_of(Fraction("0.4"), DELTA), {"delta": "1e-9"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHARGED)
def test_a_fit_is_charged_and_settled_with_its_spends(case: str, ledger: Ledger):
    estimator, amount, facts = CHARGED[case]
    fit = estimator.fit(VILLAGE if "domain" in estimator.get_params() else VILLAGES)
    reserve, settled = ledger.entries(estimator.population)[-2:]
    assert (reserve.event, settled.event) == ("reserve", "settled")
    assert Fraction(reserve.nano_epsilon, 10**9) == amount
    paid = [row.epsilon for row in settled.spends]
    assert sum(paid) == amount
    assert len(paid) > 1
    assert case != "pure" or paid == [spend.epsilon for spend in fit.spends_]
    assert facts.items() <= reserve.facts.items()
    assert settled.facts["transcript"]


def test_fits_and_clones_add_up_until_the_ceiling_refuses_one(ledger: Ledger):
    estimator = paid_by("riders")
    quiet_fit(estimator, VILLAGES)
    quiet_fit(clone(estimator), VILLAGES)
    noise = RecordingNoise(ExactNoise())
    with pytest.raises(BudgetExceeded, match=r"spent 0\.8, left 0\.2, ceiling 1"):
        estimator.fit(VILLAGES)
    assert ledger.balance("riders").spent == Fraction(8, 10)
    with pytest.raises(BudgetExceeded):
        paid_by("capped", epsilon=2, noise=noise).fit(VILLAGES)
    assert not noise.draws
    assert ledger.balance("capped").spent == 0


def test_a_crash_after_the_charge_is_spent_and_dead(ledger: Ledger):
    with pytest.raises(Interrupted):
        paid_by("public", noise=CrashingNoise()).fit(VILLAGES)
    dead = ledger.entries("public")[-1]
    assert (dead.event, dead.facts["reason"]) == ("dead", "the fit ended in Interrupted")
    assert ledger.balance("public").spent == Fraction(4, 10)


@dataclass(frozen=True)
class Silent(ExactNoise):
    """A forgotten test double: no noise, and the name and the word of a real source."""

    name: ClassVar[str] = "opendp"

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:  # noqa: ARG002
        return counts


@pytest.mark.parametrize("noise", ["seeded:7", SeededNoise(7), Silent()], ids=str)
def test_source_that_claims_protection_is_refused(ledger: Ledger, noise: object) -> None:
    with refusal(match="population riders: sensitive rows need noise from opendp or"):
        quiet_fit(paid_by("riders", noise=noise), VILLAGES)
    assert ledger.balance("riders").spent == 0


@pytest.mark.parametrize("noise", ["seeded:7", Silent()], ids=["a seed", "another source"])
def test_benchmark_account_takes_and_records_any_noise(ledger: Ledger, noise: object):
    quiet_fit(paid_by("public", noise=noise), VILLAGES)
    assert ledger.entries("public")[-1].event == "settled"
    assert ledger.entries("public")[-2].facts["releasable"] == "no"


def test_fit_creates_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "nowhere"))
    with refusal(match="`dp-pipeline run` of a data set file that declares it opens"):
        paid_by("riders").fit(VILLAGES)
    assert not (tmp_path / "nowhere").exists()


def test_a_population_outside_a_project_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with refusal(match="is not in a project: change to a folder with workspace"):
        paid_by("riders").fit(VILLAGES)


def test_without_a_population_no_ledger_is_touched(ledger: Ledger):
    before = ledger.entries()
    quiet_fit(private(), VILLAGES)
    assert ledger.entries() == before


def test_samples_and_marginals_are_not_charged(ledger: Ledger):
    fitted = table_paid_by("riders").fit(VILLAGE)
    before = ledger.entries()
    fitted.sample(5)
    fitted.marginal("rent")
    assert ledger.entries() == before


OPEN = {"tenure": {"levels": "discover"}, "rent": {"bounds": [0, 3000], "bins": {"quantiles": 2}}}
FOUND = {"domain": OPEN, "discover": {"epsilon": "0.3", "delta": "0.000001"}}


def test_discovery_is_charged_in_epsilon_and_delta(ledger: Ledger):
    rows = pd.concat([VILLAGE] * 200)
    fitted = table_paid_by("finding", epsilon="2", **FOUND).fit(rows)
    reserve, settled = ledger.entries("finding")[-2:]
    assert reserve.nano_epsilon == 2_000_000_000
    assert "its domain discovered for ε=0.3 and δ=1e-6" in reserve.what
    assert [row.epsilon for row in settled.spends] == [spend.epsilon for spend in fitted.spends_]
    balance = ledger.balance("finding")
    assert (balance.spent, balance.delta_spent) == (2, Fraction(1, 10**6))
    with pytest.raises(BudgetExceeded):
        table_paid_by("finding", epsilon="2", **FOUND).fit(rows)
    assert ledger.balance("finding") == balance


def test_a_discovery_that_finds_nothing_still_gives_a_table(ledger: Ledger):
    fitted = table_paid_by("finding", epsilon="0.5", **FOUND).fit(VILLAGE[:1])
    assert fitted.discovered_["tenure"]["levels"] == ("other",)
    assert ledger.entries("finding")[-1].event == "settled"
    assert ledger.balance("finding").spent == Fraction("0.5")


OTHER_UNIT = "fit protects one row under add_remove, but the account protects .*"
NO_ACCOUNT = r"dp-pipeline run. of a data set file"
OTHER_DELTA = "the delta must be {}, as the account has it, not {}"
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ("persons", {}, f"{OTHER_UNIT}: fit with `person` and `at_most`"),
    ("replaced", {}, f"{OTHER_UNIT}: name another population"),
    ("strangers", {}, NO_ACCOUNT),
    (7, {}, NO_ACCOUNT),
    ("riders", {"domain": {"a\0": 2, "tenure": 2}}, "what of a spend"),
    ("riders", {"delta": "1e-9"}, OTHER_DELTA.format("0", "1e-9")),
    ("concentrated", {"delta": "1e-8"}, OTHER_DELTA.format("1e-9", "1e-8")),
    ("concentrated", FOUND, "a domain can be discovered only in pure ε, but the account"),
]


@pytest.mark.parametrize(("population", "parameters", "words"), REFUSED)
def test_a_fit_that_an_account_cannot_pay_is_refused_uncharged(
    ledger: Ledger, population: str, parameters: dict[str, Any], words: str
):
    rows = VILLAGE.assign(**{"a\0": 1})
    with refusal(match=words):
        table_paid_by(population, **parameters).fit(rows)
    assert set(ledger.populations()) == set(ACCOUNTS)
    assert not any(ledger.balance(name).spent for name in ACCOUNTS)
