"""A fit that a population pays for: its ε is in the ledger before anyone looks.

A fit is in memory: there is nothing to replay and nothing to resume. Whatever
stops it after the charge leaves the charge, dead and never refunded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from uuid import uuid4

import numpy as np

from dp_pipeline import __version__
from dp_pipeline.estimators.discovery import widest
from dp_pipeline.estimators.fit import Estimate, PrivateFit, ReleaseType
from dp_pipeline.gate.noise import FIT_FOR_RELEASE, NoiseSource, SeededNoise
from dp_pipeline.ledger import Account, Charge, DeadRelease, Ledger, SpendRow
from dp_pipeline.publish.home import find_home
from dp_pipeline.raw.counters.fold import NobodysRows
from dp_pipeline.release.accountant import Spend, rho_costs
from dp_pipeline.release.bundle import PRIOR
from dp_pipeline.spec.amounts import PURE, Currency, delta_text, epsilon_text, nano_epsilon
from dp_pipeline.spec.discovered import discovery_price
from dp_pipeline.spec.errors import Damaged, DeclarationError
from dp_pipeline.spec.parameters import fact_text, texts_of


def charged(
    of: PrivateFit[ReleaseType],
    run: Callable[[], Estimate[ReleaseType]],
    *,
    population: str | None,
    noise: NoiseSource,
    key: str | None = None,
    facts: Mapping[str, str] | None = None,
) -> Estimate[ReleaseType]:
    """Reserve ε, or ρ, in the ledger of the project's home, run, settle with the spends.

    population   None: nobody pays, and no ledger is touched
    key          that of all refinements of a fit; None: a new one, as every other fit is a new draw
    facts        what the ledger is told beside the declarations

    Raises DeclarationError for a population without an account, one with another unit, relation
    or δ, a seed where the account is for releases, and a key that was charged before;
    BudgetExceeded when ε does not fit.
    Then nothing was charged and nothing drawn.
    """
    if population is None:
        return run()
    ledger, account = require_account(of, population, noise)
    _require_currency(account, of)
    dry_run(of)
    charge = _charge(of, account, noise, key=key or uuid4().hex, facts=facts or {})
    with ExitStack() as entered:
        try:
            reservation = entered.enter_context(ledger.reserve(charge))
        except (Damaged, DeadRelease):
            # Others asked at the same time, at another ε or in vain: no key but this one is shared.
            if ledger.state(charge.key) is None:
                raise
            raise refined_already() from None
        if reservation.state != "new":
            raise refined_already()
        try:
            fitted = run()
        except BaseException as error:
            reservation.die(f"the fit ended in {type(error).__name__}")
            raise
        rows = _rows(fitted.spends, account.currency, paid_in=of.guarantee.currency)
        reservation.settle(rows, facts={"transcript": fitted.transcript.chain})
    return fitted


def refined_already() -> DeclarationError:
    """What a second refinement of a fit is refused for."""
    return DeclarationError(
        "refines: expected a fit that was not refined yet, got one that was, or whose refinement "
        "began: refine that one; two refinements tell more together than what is paid for both"
    )


def require_account(
    of: PrivateFit[ReleaseType], population: object, noise: NoiseSource
) -> tuple[Ledger, Account]:
    """The ledger of the project's home, and the account there; DeclarationError for one that is
    not there, or protects otherwise than a fit does, and for a seed on one for releases.
    """
    ledger = find_home().ledger
    account = ledger.account(population) if isinstance(population, str) else None
    if account is None:
        raise DeclarationError(
            f"population: expected one with an account in {ledger.folder}, got {population!r:.60}: "
            "`dp-pipeline run` of a data set file that declares it opens one"
        )
    unit, relation = str(of.spec.protection), of.spec.relation
    if (account.unit, account.relation) != (unit, relation):
        raise DeclarationError(
            f"population {account.population}: expected an account that protects {unit} under "
            f"{relation}, got {account.unit} under {account.relation}"
        )
    if account.purpose == "release" and type(noise) not in FIT_FOR_RELEASE:
        raise DeclarationError(
            f"population {account.population}: noise: expected a source fit for sensitive data "
            f"({' or '.join(source.name for source in FIT_FOR_RELEASE)}), got another"
        )
    return ledger, account


def _require_currency(account: Account, of: PrivateFit[ReleaseType]) -> None:
    where, currency = f"population {account.population}", of.guarantee.currency
    if of.spec.discover is not None and account.currency != PURE:
        raise DeclarationError(
            f"{where}: expected an account in pure ε to pay for a domain that is discovered, got "
            "one in ρ"
        )
    if currency not in (PURE, account.currency):
        raise DeclarationError(
            f"{where}: delta: expected {_delta(account.currency)} as its account has, got "
            f"{_delta(currency)}"
        )
    if of.refines is not None and currency != account.currency:
        raise DeclarationError(
            f"{where}: refines: expected a fit in ρ as its account counts, got one in pure ε: what "
            "is between two ε is no difference there"
        )


def _delta(currency: Currency) -> str:
    return "0" if currency.delta is None else delta_text(currency.delta)


def dry_run(of: PrivateFit[ReleaseType]) -> None:
    """Fit nobody, with a seed: what cannot be drawn or written down must not be charged."""
    of = replace(of, spec=widest(of.spec))
    nobody = NobodysRows(of.spec.domain)
    fitted = of.run(nobody, noise=SeededNoise(0), rng=np.random.default_rng(0))
    _rows(fitted.spends, of.guarantee.currency, paid_in=of.guarantee.currency)


def _charge(
    of: PrivateFit[ReleaseType],
    account: Account,
    noise: NoiseSource,
    *,
    key: str,
    facts: Mapping[str, str],
) -> Charge:
    """The charge of one fit."""
    guarantee, epsilon = of.guarantee, epsilon_text(of.guarantee.epsilon)
    delta, discover = _delta(guarantee.currency), of.spec.discover
    price = f"ε={epsilon}" if delta == "0" else f"ε={epsilon} at δ={delta}"
    cost = account.currency.cost_of(of.amount, guarantee.currency)
    if of.refines is not None:
        price += f", refined from {epsilon_text(of.refines.epsilon)}"
    if discover is not None:
        price += f", its domain discovered for {discovery_price(discover)}"
        cost += discover.epsilon
    return Charge(
        key=key,
        population=account.population,
        kind="dp",
        nano_epsilon=nano_epsilon(cost),
        what=f"{of.spec.name}/{of.method} at {price}",
        facts={
            "estimator": of.spec.name,
            "method": of.method,
            "epsilon": epsilon,
            "delta": delta,
            "measuring": fact_text(texts_of(of.model, measuring=True)),
            "postprocessing": fact_text(texts_of(of.model, measuring=False)),
            "unit": account.unit,
            "relation": account.relation,
            "purpose": account.purpose,
            "noise": noise.name,
            "fit_for_release": "yes" if noise.fit_for_release else "no",
            "code": f"dp_pipeline {__version__}",
            **({} if of.public is None else {PRIOR: f"frame {of.public.digest}"}),
            **facts,
        },
        currency=account.currency,
        delta=Fraction(0) if discover is None else discover.delta or Fraction(0),
    )


def _rows(spends: tuple[Spend, ...], currency: Currency, *, paid_in: Currency) -> list[SpendRow]:
    """What the ledger keeps of the charges, in what the account counts in."""
    pure = currency == PURE
    costs = [one.epsilon for one in spends] if pure else rho_costs(spends, budget=paid_in)
    return [
        SpendRow(one.what, one.mechanism, cost, one.scale)
        for one, cost in zip(spends, costs, strict=True)
    ]
