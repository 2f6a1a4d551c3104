"""What one private fit is, run once over rows or again over its stored answers; and how a
population pays for it: its ε is in the ledger before anyone looks. Nothing here sees a row.

A fit is in memory: there is nothing to resume. Whatever stops it after the charge leaves the
charge, dead and never refunded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dp_pipeline import __version__
from dp_pipeline.config.amounts import PURE, Currency, delta_text, epsilon_text, nano_epsilon
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import discovery_price
from dp_pipeline.config.errors import BoundaryViolation, Damaged, DeclarationError
from dp_pipeline.config.parameters import fact_text, texts_of
from dp_pipeline.estimators.discovery import widest
from dp_pipeline.estimators.parameters import is_fit_for_release
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Curator, PaidMarginals
from dp_pipeline.gate.noise import RELEASABLE_SOURCES, NoiseSource, SeededNoise
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.ledger import Account, Charge, DeadRelease, Ledger, SpendRow
from dp_pipeline.models.base import CoarseRelease, FitResult, Model, PrivacyGuarantee, fit
from dp_pipeline.raw.counters.fold import EmptyCounter
from dp_pipeline.releases.home import find_home
from dp_pipeline.results.accountant import Accountant, Spend, rho_costs
from dp_pipeline.results.bundle import PRIOR
from dp_pipeline.results.clusters import Clusters, Tables
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import Transcript


@dataclass(frozen=True, eq=False)
class RefinedFit:
    """What a fit that refines an earlier one has of it.

    coarse     its release, and what was spent on that
    paid_marginals   its marginals, and what was paid for each
    epsilon    what it promised
    """

    coarse: CoarseRelease
    paid_marginals: PaidMarginals
    epsilon: Fraction


@dataclass(frozen=True)
class PrivateFit:
    """Everything of one fit but the rows: public.

    spec        the declaration, under the name of the estimator
    method      name of the model
    releases    what the model gives
    guarantee   the ε that was asked of the model, and what it is accounted in
    earlier     the tables of the fit that it plans from, or None
    public      rows of others that it uses, or None
    refines     the fit whose answers it refines, or None
    """

    spec: DatasetSpec
    method: str
    releases: type[Clusters | SyntheticTable]
    model: Model
    guarantee: PrivacyGuarantee
    earlier: Tables | None = None
    public: PublicTable | None = None
    refines: RefinedFit | None = None

    @property
    def amount(self) -> Fraction:
        """What it spends, in the currency of its guarantee: of a refinement, what it adds."""
        paid = Fraction(0) if self.refines is None else self.refines.coarse.amount
        return self.guarantee.amount - paid

    @property
    def paid(self) -> Fraction:
        """The ε that it adds to what was spent on its rows: with what its domain is discovered
        for, without what a fit that it refines has paid.
        """
        found = self.spec.discover.epsilon if self.spec.discover else Fraction(0)
        before = Fraction(0) if self.refines is None else self.refines.epsilon
        return self.guarantee.epsilon + found - before

    @property
    def is_refinable(self) -> bool:
        """Whether a fit at a larger ε may ever refine it."""
        is_alone = self.earlier is None and self.public is None
        return self.model.refines and is_alone and self.spec.discover is None

    def run(
        self,
        counter: Counter | None,
        *,
        noise: NoiseSource,
        rng: np.random.Generator,
        transcript: Transcript | None = None,
    ) -> tuple[FitResult, PaidMarginals]:
        """Ask through the gate; spends exactly ``amount``, or raises. Gives also the marginals that
        were answered, as they may be refined. ``rng`` is for post-processing.

        counter      None: the same fit over the answers of a transcript, at no cost and without
                     noise
        """
        transcript = Transcript() if transcript is None else transcript
        # A curator writes into them what it answers.
        paid_marginals = {} if self.refines is None else dict(self.refines.paid_marginals)

        def ask(accountant: Accountant) -> Curator:
            return Curator(
                counter,
                domain=self.spec.domain,
                distance=self.spec.distance,
                accountant=accountant,
                transcript=transcript,
                noise=noise,
                paid_marginals=paid_marginals,
            )

        fitted = fit(
            self.model,
            self.guarantee,
            ask,
            epsilon=self.guarantee.epsilon,
            rng=rng,
            earlier=self.earlier,
            public=self.public,
            coarse=None if self.refines is None else self.refines.coarse,
        )
        fitted.require_guaranteed(self.guarantee, what=self.method)
        if not isinstance(fitted.released, self.releases):
            raise BoundaryViolation(
                f"{self.method}: expected {self.releases.__name__}, got another release"
            )
        return fitted, paid_marginals


Run = Callable[[Transcript], FitResult]
"""Look at the rows of a fit, and write the answers down."""


def run_charged(
    of: PrivateFit, run: Run, transcript: Transcript, ledger: Ledger, charge: Charge
) -> FitResult:
    """Reserve the charge of a fit, run, settle with the spends.

    Raises DeclarationError for a δ that is not its account's, for what cannot be drawn, and for a
    key that was charged before; BudgetExceeded when ε does not fit. Then nothing was charged and
    nothing drawn.
    """
    dry_run(of)
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
            fitted = run(transcript)
        except BaseException as error:
            reservation.die(f"the fit ended in {type(error).__name__}")
            raise
        rows = _rows(fitted.spends, charge.currency, paid_in=of.guarantee.currency)
        reservation.settle(rows, facts={"transcript": transcript.chain})
    return fitted


def refined_already() -> DeclarationError:
    """What a second refinement of a fit is refused for."""
    return DeclarationError(
        "refines: expected a fit that was not refined yet, got one that was, or whose refinement "
        "began: refine that one; two refinements tell more together than what is paid for both"
    )


def require_account(
    of: PrivateFit, population: object, noise: NoiseSource
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
    if account.purpose == "release" and not is_fit_for_release(noise):
        raise DeclarationError(
            f"population {account.population}: noise: expected a source fit for sensitive data "
            f"({' or '.join(source.name for source in RELEASABLE_SOURCES)}), got another"
        )
    return ledger, account


def _require_currency(account: Account, of: PrivateFit) -> None:
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


def dry_run(of: PrivateFit) -> None:
    """Fit nobody, with a seed: what cannot be drawn or written down must not be charged."""
    of = replace(of, spec=widest(of.spec))
    nobody = EmptyCounter(of.spec.domain)
    fitted, _ = of.run(nobody, noise=SeededNoise(0), rng=np.random.default_rng(0))
    _rows(fitted.spends, of.guarantee.currency, paid_in=of.guarantee.currency)


def charge_of(
    of: PrivateFit,
    account: Account,
    noise: NoiseSource,
    *,
    key: str,
    facts: Mapping[str, str],
) -> Charge:
    """The charge of one fit; DeclarationError where the account counts in another currency.

    key     that of all refinements of a fit, else a new one, as every other fit is a new draw
    facts   what the ledger is told beside the declarations
    """
    _require_currency(account, of)
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
            "releasable": "yes" if is_fit_for_release(noise) else "no",
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
