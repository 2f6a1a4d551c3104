"""A fit that a lineage pays for: its ε is in the ledger before anyone looks.

A fit is in memory: there is nothing to replay and nothing to resume. Whatever
stops it after the charge leaves the charge, dead and never refunded.
"""

from __future__ import annotations

from uuid import uuid4

import numpy as np

from dp_pipeline import __version__
from dp_pipeline.estimators.private_fit import (
    RELATION,
    UNIT,
    Fitted,
    PrivateFit,
    ReleaseType,
)
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.noise import FIT_FOR_RELEASE, NoiseSource, SeededNoise
from dp_pipeline.ledger import Account, Charge, Ledger, SpendRow
from dp_pipeline.ledger.home import find_home
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.release.accountant import Spend
from dp_pipeline.release.costs import rho_costs
from dp_pipeline.schema.currency import PURE, Currency, delta_text
from dp_pipeline.schema.epsilon import epsilon_text, nano_epsilon
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.parameter_facts import fact_text
from dp_pipeline.schema.parameters import texts_of


def run_charged(
    fit: PrivateFit[ReleaseType],
    counter: Counter,
    *,
    lineage: str,
    noise: NoiseSource,
    rng: np.random.Generator,
) -> Fitted[ReleaseType]:
    """Reserve ε, or ρ, in the ledger of the project's home, fit, settle with the spends.

    Raises DeclarationError for a lineage without an account, one with another unit, relation
    or δ, and a seed where the account is for releases; BudgetExceeded when ε does not fit.
    Then nothing was charged and nothing drawn.
    """
    ledger = find_home().ledger
    account = _require_account(ledger, lineage, noise)
    _require_currency(account, fit.claim.currency)
    _rehearse(fit)
    with ledger.reserve(_charge(fit, account, noise)) as reservation:
        try:
            fitted = fit.run(counter, noise=noise, rng=rng)
        except BaseException as error:
            reservation.die(f"the fit ended in {type(error).__name__}")
            raise
        rows = _rows(fitted.spends, account.currency, paid_in=fit.claim.currency)
        reservation.settle(rows, facts={"transcript": fitted.transcript.chain})
    return fitted


def _require_account(ledger: Ledger, lineage: object, noise: NoiseSource) -> Account:
    account = ledger.account(lineage) if isinstance(lineage, str) else None
    if account is None:
        raise DeclarationError(
            f"lineage: expected one with an account in {ledger.folder}, got {lineage!r:.60}: "
            "`dp-pipeline run` of a data set file that declares it opens one"
        )
    if (account.unit, account.relation) != (str(UNIT), RELATION):
        raise DeclarationError(
            f"lineage {account.lineage}: expected an account that protects {UNIT} under "
            f"{RELATION}, got {account.unit} under {account.relation}"
        )
    if account.purpose == "release" and type(noise) not in FIT_FOR_RELEASE:
        raise DeclarationError(
            f"lineage {account.lineage}: noise: expected a source fit for sensitive data "
            f"({' or '.join(one.name for one in FIT_FOR_RELEASE)}), got another"
        )
    return account


def _require_currency(account: Account, currency: Currency) -> None:
    if currency not in (PURE, account.currency):
        raise DeclarationError(
            f"lineage {account.lineage}: delta: expected {_said(account.currency)} as its account "
            f"has, got {_said(currency)}"
        )


def _said(currency: Currency) -> str:
    return "0" if currency.delta is None else delta_text(currency.delta)


def _rehearse(fit: PrivateFit[ReleaseType]) -> None:
    """Fit nobody, with a seed: what cannot be drawn or written down must not be charged."""
    nobody = MemoryCounter(
        fit.domain,
        coordinates={name: np.zeros(0, dtype=np.int32) for name in fit.domain.numeric},
        codes={name: np.zeros(0, dtype=np.uint16) for name in fit.domain.discrete},
        rows=0,
    )
    fitted = fit.run(nobody, noise=SeededNoise(0), rng=np.random.default_rng(0))
    _rows(fitted.spends, fit.claim.currency, paid_in=fit.claim.currency)


def _charge(fit: PrivateFit[ReleaseType], account: Account, noise: NoiseSource) -> Charge:
    """The charge of one fit; every fit is a new draw, so its key is new."""
    claim, epsilon = fit.claim, epsilon_text(fit.claim.epsilon)
    delta = claim.currency.delta
    price = f"ε={epsilon}" if delta is None else f"ε={epsilon} at δ={delta_text(delta)}"
    cost = account.currency.cost_of(claim.amount, claim.currency)
    return Charge(
        key=uuid4().hex,
        lineage=account.lineage,
        kind="dp",
        nano_epsilon=nano_epsilon(cost),
        what=f"{fit.estimator}/{fit.method} at {price}",
        facts={
            "estimator": fit.estimator,
            "method": fit.method,
            "epsilon": epsilon,
            "delta": _said(claim.currency),
            "measuring": fact_text(texts_of(fit.model, measuring=True)),
            "postprocessing": fact_text(texts_of(fit.model, measuring=False)),
            "unit": account.unit,
            "relation": account.relation,
            "purpose": account.purpose,
            "noise": noise.name,
            "fit_for_release": "yes" if noise.fit_for_release else "no",
            "code": f"dp_pipeline {__version__}",
        },
        currency=account.currency,
    )


def _rows(spends: tuple[Spend, ...], currency: Currency, *, paid_in: Currency) -> list[SpendRow]:
    """What the ledger keeps of the charges, in what the account counts in."""
    pure = currency == PURE
    costs = [one.epsilon for one in spends] if pure else rho_costs(spends, budget=paid_in)
    return [
        SpendRow(one.what, one.mechanism, cost, one.scale)
        for one, cost in zip(spends, costs, strict=True)
    ]
