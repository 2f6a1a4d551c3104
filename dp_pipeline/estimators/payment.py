"""The payment for a fit by its population, in the ledger, before rows are read. No row is here.

A fit is in memory, so there is nothing to resume: if it stops after the charge, the charge is dead
and never refunded.

Two refinements of one fit could reveal more together than was paid for both, and the noise of an
answer is the answer less the exact counts, which other rows would change. So a keyed fingerprint of
a fit's rows, and whether it was refined, must be known. A fitted estimator is released, so it holds
neither. Where a population pays, the ledger does; else only the process that fitted, whose copies
are refused.
"""

import hmac
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from uuid import uuid4
from weakref import WeakKeyDictionary

from dp_pipeline import __version__
from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text, nano_epsilon
from dp_pipeline.config.discovered_domain import discovery_price
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.config.parameters import fact_text, texts_of
from dp_pipeline.estimators.fit import FinishedFit, PrivateFit
from dp_pipeline.estimators.parameters import is_releasable_noise
from dp_pipeline.estimators.rows import PreparedRows
from dp_pipeline.gate.noise import RELEASABLE_SOURCES, NoiseSource
from dp_pipeline.ledger import Account, Charge, DeadRelease, Ledger, SpendRow
from dp_pipeline.releases.home import find_home
from dp_pipeline.releases.release import ROWS
from dp_pipeline.results.accountant import Spend, rho_costs
from dp_pipeline.results.bundle import PRIOR, REFINED_FROM, REFINES, refinement_digest

Run = Callable[[], FinishedFit]
"""Run a fit over rows."""

_FINGERPRINTS: WeakKeyDictionary[FinishedFit, tuple[str, threading.Lock]] = WeakKeyDictionary()
"""Fits that nobody paid for → fingerprints of their rows, and locks that one refinement takes.

Pickles, deep copies and forked processes are not there: what is refined in one of them could be
refined in another one too.
"""
os.register_at_fork(after_in_child=_FINGERPRINTS.clear)

_SECRET = uuid4().bytes
"""The key of fingerprints, which stay in this process."""


def row_secret(population: str | None) -> bytes:
    """Return the secret key that decides which rows of a person count.

    It is that of the population's ledger, so that a refinement in another process has the same
    rows; without an account, that of this process.
    """
    if isinstance(population, str):
        ledger = find_home().ledger
        if ledger.account(population) is not None:
            return ledger.key(population)
    return _SECRET


def run_fit(
    fit: PrivateFit,
    run: Run,
    rows: PreparedRows | None,
    *,
    noise: NoiseSource,
    population: str | None,
    refined: FinishedFit | None,
) -> FinishedFit:
    """Run a fit, and charge its population if there is one; return the finished fit.

    run       runs the fit over its rows
    rows      the rows, for a fingerprint that a refinement needs; None if the fit can never be
              refined
    refined   the fit that is refined, or None

    Raises BudgetExceeded if the account has too little left, and DeclarationError for a population
    without a fitting account, for a refinement of other rows, and for a second one: all before
    anything is drawn or charged. An error of ``run`` itself leaves the charge, without a refund.
    """
    if population is None:
        fingerprint = "" if rows is None else rows.fingerprint(_SECRET)
        if refined is not None:
            _claim_refinement(fit, refined, fingerprint)
        finished = run()
        if rows is not None:
            _FINGERPRINTS[finished] = fingerprint, threading.Lock()
        return finished
    ledger, account = _require_account(fit, population, noise)
    facts = {} if rows is None else {ROWS: rows.fingerprint(ledger.key(account.population))}
    key = uuid4().hex
    if refined is not None and fit.refines is not None:
        entries = ledger.history(refined.ledger_key)
        if not entries:
            raise DeclarationError(
                f"refines: the ledger in {ledger.folder} does not know the other fit: use "
                "the ledger that paid for it"
            )
        _require_equal(entries[0].facts.get(ROWS, ""), facts[ROWS])
        # Reserving this key decides whether the fit was refined before.
        key = refinement_digest(population, refined.ledger_key)
        facts |= {
            REFINES: refined.ledger_key,
            REFINED_FROM: epsilon_text(fit.refines.guarantee.epsilon),
        }
    finished = _run_charged(fit, run, ledger, _charge_of(fit, account, noise, key, facts))
    return replace(finished, population=population, ledger_key=key)


def _claim_refinement(fit: PrivateFit, refined: FinishedFit, fingerprint: str) -> None:
    """Reserve the only refinement of a fit without a population; DeclarationError for a second."""
    if refined not in _FINGERPRINTS:
        raise DeclarationError(
            "refines: the value must be the fit itself, not a copy of it, which may be "
            "refined already: pass the fit, or use `population`, whose ledger records each "
            "refinement"
        )
    stored_fingerprint, refinement_lock = _FINGERPRINTS[refined]
    _require_equal(stored_fingerprint, fingerprint)
    # What cannot be drawn must not use up the one refinement.
    fit.run_without_rows()
    if not refinement_lock.acquire(blocking=False):
        raise _refined_already("settled or not")


def _require_equal(stored_fingerprint: str, fingerprint: str) -> None:
    if not hmac.compare_digest(stored_fingerprint, fingerprint):
        raise DeclarationError(
            "X: the rows must be those of the fit that is refined, prepared alike, but they "
            "differ: pass the same rows"
        )


def _refined_already(state: str | None) -> DeclarationError:
    """Return the error for a second refinement of a fit, in words for the first one's state in the
    ledger."""
    words = {
        "settled": "the fit was refined already: refine that refinement",
        "settled or not": "a refinement of the fit began already: refine that refinement, or fit "
        "anew without `refines` where it failed",
    }
    end = "failed" if state == "dead" else "did not finish"
    failed = f"a refinement of the fit began and {end}: fit anew without `refines`"
    return DeclarationError(
        f"refines: {words.get(str(state), failed)}, as two of one fit would reveal more than what "
        "is paid for"
    )


def _run_charged(fit: PrivateFit, run: Run, ledger: Ledger, charge: Charge) -> FinishedFit:
    """Reserve the charge of a fit, run the fit, and settle the charge; return the finished fit.

    A refused charge draws nothing; a run that raises leaves the charge dead, without a refund.
    """
    budget = fit.guarantee.currency
    _spend_rows(fit.run_without_rows().spends, charge.currency, budget)
    with ExitStack() as stack:
        try:
            reservation = stack.enter_context(ledger.reserve(charge))
        except (Damaged, DeadRelease):
            # Another refinement holds this key, at another ε or dead: no other key is shared.
            state = ledger.state(charge.key)
            if state is None:
                raise
            raise _refined_already(state) from None
        if reservation.state != "new":
            raise _refined_already(reservation.state)
        try:
            finished = run()
        except BaseException as error:
            reservation.die(f"the fit ended in {type(error).__name__}")
            raise
        spends = _spend_rows(finished.result.spends, charge.currency, budget)
        reservation.settle(spends, facts={"transcript": finished.transcript.chain})
    return finished


def _require_account(
    fit: PrivateFit, population: object, noise: NoiseSource
) -> tuple[Ledger, Account]:
    """Return the ledger of the project's home, and the population's account in it.

    DeclarationError if there is none, if it is for another protected unit or relation than the
    fit's, or if it is for sensitive rows and the noise protects nobody.
    """
    ledger = find_home().ledger
    account = ledger.account(population) if isinstance(population, str) else None
    if account is None:
        raise DeclarationError(
            f"population: no account called {population!r:.60} is in {ledger.folder}: "
            "`dp-pipeline run` of a data set file that declares it opens one"
        )
    unit, relation = str(fit.spec.protection), fit.spec.relation
    if (account.unit, account.relation) != (unit, relation):
        remedy = "fit with `person` and `at_most` as the account has them"
        if account.relation != relation:
            remedy = "name another population"
        raise DeclarationError(
            f"population {account.population}: the fit protects {unit} under {relation}, but the "
            f"account protects {account.unit} under {account.relation}: {remedy}"
        )
    if account.purpose == "release" and not is_releasable_noise(noise):
        raise DeclarationError(
            f"population {account.population}: sensitive rows need noise from "
            f"{' or '.join(source.name for source in RELEASABLE_SOURCES)}, not from "
            f"{type(noise).__name__}: leave `noise` out"
        )
    return ledger, account


def _require_currency(account: Account, fit: PrivateFit) -> None:
    where, currency = f"population {account.population}", fit.guarantee.currency
    if fit.spec.discover is not None and account.currency != PURE:
        raise DeclarationError(
            f"{where}: a domain can be discovered only in pure ε, but the account is in ρ: "
            "declare the domain"
        )
    if currency not in (PURE, account.currency):
        raise DeclarationError(
            f"{where}: the delta must be {_delta_text(account.currency)}, as the account has "
            f"it, not {_delta_text(currency)}"
        )
    if fit.refines is not None and currency != account.currency:
        raise DeclarationError(
            f"{where}: a fit in pure ε cannot be refined by an account in ρ, where the difference "
            "of two ε has no price: pay for a new fit"
        )


def _delta_text(currency: Currency) -> str:
    return "0" if currency.delta is None else delta_text(currency.delta)


def _charge_of(
    fit: PrivateFit, account: Account, noise: NoiseSource, key: str, facts: Mapping[str, str]
) -> Charge:
    """Return the charge of a fit, in the currency of the account; DeclarationError if that has no
    price for it.

    key     key of the charge: all refinements of one fit share it, every other fit has a new one
    facts   facts to store in the ledger in addition to those of the declaration
    """
    _require_currency(account, fit)
    guarantee, epsilon = fit.guarantee, epsilon_text(fit.guarantee.epsilon)
    delta, discover = _delta_text(guarantee.currency), fit.spec.discover
    price = f"ε={epsilon}" if delta == "0" else f"ε={epsilon} at δ={delta}"
    cost = account.currency.cost_of(fit.amount, guarantee.currency)
    if fit.refines is not None:
        price += f", refined from {epsilon_text(fit.refines.guarantee.epsilon)}"
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
            "releasable": "yes" if is_releasable_noise(noise) else "no",
            "code": f"dp_pipeline {__version__}",
            **({} if fit.public is None else {PRIOR: f"frame {fit.public.digest}"}),
            **facts,
        },
        currency=account.currency,
        delta=Fraction(0) if discover is None else discover.delta or Fraction(0),
    )


def _spend_rows(spends: tuple[Spend, ...], account: Currency, budget: Currency) -> list[SpendRow]:
    is_pure = account == PURE
    costs = [spend.epsilon for spend in spends] if is_pure else rho_costs(spends, currency=budget)
    return [
        SpendRow(spend.what, spend.mechanism, cost, spend.scale)
        for spend, cost in zip(spends, costs, strict=True)
    ]
