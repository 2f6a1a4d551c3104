"""The charge of a fit to a population: reserved in the ledger before rows are read. No row is here.

A fit is in memory, so there is nothing to resume: if it stops after the charge, the charge is dead
and never refunded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from fractions import Fraction

from dp_pipeline import __version__
from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text, nano_epsilon
from dp_pipeline.config.discovered_domain import discovery_price
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.config.parameters import fact_text, texts_of
from dp_pipeline.estimators.fit import PrivateFit
from dp_pipeline.estimators.parameters import is_fit_for_release
from dp_pipeline.gate.noise import RELEASABLE_SOURCES, NoiseSource
from dp_pipeline.ledger import Account, Charge, DeadRelease, Ledger, SpendRow
from dp_pipeline.models.base import FitResult
from dp_pipeline.releases.home import find_home
from dp_pipeline.results.accountant import Spend, rho_costs
from dp_pipeline.results.bundle import PRIOR
from dp_pipeline.results.transcript import Transcript

Run = Callable[[Transcript], FitResult]
"""Fit the rows, and write the answers into the transcript."""


def run_charged(
    fit: PrivateFit, run: Run, transcript: Transcript, ledger: Ledger, charge: Charge
) -> FitResult:
    """Reserve the charge of a fit, run it, and settle the charge with its spends.

    Raises DeclarationError for what cannot be drawn and for a key that was charged before, and
    BudgetExceeded when ε does not fit. Then nothing was charged or drawn.
    """
    _spend_rows(fit.run_without_rows().spends, charge.currency, fit.guarantee.currency)
    with ExitStack() as stack:
        try:
            reservation = stack.enter_context(ledger.reserve(charge))
        except (Damaged, DeadRelease):
            # Another refinement holds this key, at another ε or dead: no other key is shared.
            if ledger.state(charge.key) is None:
                raise
            raise refined_already() from None
        if reservation.state != "new":
            raise refined_already()
        try:
            result = run(transcript)
        except BaseException as error:
            reservation.die(f"the fit ended in {type(error).__name__}")
            raise
        spends = _spend_rows(result.spends, charge.currency, fit.guarantee.currency)
        reservation.settle(spends, facts={"transcript": transcript.chain})
    return result


def refined_already() -> DeclarationError:
    """Return the error of a second refinement of one fit."""
    return DeclarationError(
        "refines: expected a fit that was not refined yet, got one that was, or whose refinement "
        "began: refine that one; two refinements tell more together than what is paid for both"
    )


def require_account(
    fit: PrivateFit, population: object, noise: NoiseSource
) -> tuple[Ledger, Account]:
    """Return the ledger of the project's home, and the population's account there.

    Raises DeclarationError for an account that is missing, protects another unit or relation, or
    is for releases where the noise has a seed.
    """
    ledger = find_home().ledger
    account = ledger.account(population) if isinstance(population, str) else None
    if account is None:
        raise DeclarationError(
            f"population: expected one with an account in {ledger.folder}, got {population!r:.60}: "
            "`dp-pipeline run` of a data set file that declares it opens one"
        )
    unit, relation = str(fit.spec.protection), fit.spec.relation
    if (account.unit, account.relation) != (unit, relation):
        raise DeclarationError(
            f"population {account.population}: expected an account that protects {unit} under "
            f"{relation}, got {account.unit} under {account.relation}"
        )
    if account.purpose == "release" and not is_fit_for_release(noise):
        raise DeclarationError(
            f"population {account.population}: noise: expected a source for sensitive data "
            f"({' or '.join(source.name for source in RELEASABLE_SOURCES)}), got another"
        )
    return ledger, account


def _require_currency(account: Account, fit: PrivateFit) -> None:
    where, currency = f"population {account.population}", fit.guarantee.currency
    if fit.spec.discover is not None and account.currency != PURE:
        raise DeclarationError(
            f"{where}: expected an account in pure ε to pay for a domain that is discovered, got "
            "one in ρ"
        )
    if currency not in (PURE, account.currency):
        raise DeclarationError(
            f"{where}: delta: expected {_delta_text(account.currency)} as its account has, got "
            f"{_delta_text(currency)}"
        )
    if fit.refines is not None and currency != account.currency:
        raise DeclarationError(
            f"{where}: refines: expected a fit in ρ as its account counts, got one in pure ε: what "
            "is between two ε is no difference there"
        )


def _delta_text(currency: Currency) -> str:
    return "0" if currency.delta is None else delta_text(currency.delta)


def charge_of(
    fit: PrivateFit,
    account: Account,
    noise: NoiseSource,
    *,
    key: str,
    facts: Mapping[str, str],
) -> Charge:
    """Return the charge of one fit.

    key     shared by all refinements of one fit; else new, as every other fit is a new draw
    facts   stored in the ledger in addition to the declarations

    Raises DeclarationError where the account counts in another currency.
    """
    _require_currency(account, fit)
    guarantee, epsilon = fit.guarantee, epsilon_text(fit.guarantee.epsilon)
    delta, discover = _delta_text(guarantee.currency), fit.spec.discover
    price = f"ε={epsilon}" if delta == "0" else f"ε={epsilon} at δ={delta}"
    cost = account.currency.cost_of(fit.amount, guarantee.currency)
    if fit.refines is not None:
        price += f", refined from {epsilon_text(fit.refines.epsilon)}"
    if discover is not None:
        price += f", its domain discovered for {discovery_price(discover)}"
        cost += discover.epsilon
    return Charge(
        key=key,
        population=account.population,
        kind="dp",
        nano_epsilon=nano_epsilon(cost),
        what=f"{fit.spec.name}/{fit.method} at {price}",
        facts={
            "estimator": fit.spec.name,
            "method": fit.method,
            "epsilon": epsilon,
            "delta": delta,
            "measuring": fact_text(texts_of(fit.model, measuring=True)),
            "postprocessing": fact_text(texts_of(fit.model, measuring=False)),
            "unit": account.unit,
            "relation": account.relation,
            "purpose": account.purpose,
            "noise": noise.name,
            "releasable": "yes" if is_fit_for_release(noise) else "no",
            "code": f"dp_pipeline {__version__}",
            **({} if fit.public is None else {PRIOR: f"frame {fit.public.digest}"}),
            **facts,
        },
        currency=account.currency,
        delta=Fraction(0) if discover is None else discover.delta or Fraction(0),
    )


def _spend_rows(spends: tuple[Spend, ...], account: Currency, budget: Currency) -> list[SpendRow]:
    """Return the spends in the currency of the account."""
    is_pure = account == PURE
    costs = [spend.epsilon for spend in spends] if is_pure else rho_costs(spends, budget=budget)
    return [
        SpendRow(spend.what, spend.mechanism, cost, spend.scale)
        for spend, cost in zip(spends, costs, strict=True)
    ]
