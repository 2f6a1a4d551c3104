"""A fit that a lineage pays for: its ε is in the ledger before anyone looks.

A fit is in memory: there is nothing to replay and nothing to resume. Whatever
stops it after the charge leaves the charge, dead and never refunded.
"""

from __future__ import annotations

from uuid import uuid4

import numpy as np

from dp_pipeline import __version__
from dp_pipeline.estimators.private_fit import RELATION, UNIT, Fitted, PrivateFit
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.noise import FIT_FOR_RELEASE, NoiseSource, SeededNoise
from dp_pipeline.ledger import Account, Charge, Ledger, SpendRow
from dp_pipeline.ledger.home import find_home
from dp_pipeline.models.parameters import texts_of
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.release.accountant import Spend
from dp_pipeline.schema.epsilon import epsilon_text, nano_epsilon
from dp_pipeline.schema.errors import DeclarationError


def run_charged(
    fit: PrivateFit,
    counter: Counter,
    *,
    lineage: str,
    noise: NoiseSource,
    rng: np.random.Generator,
) -> Fitted:
    """Reserve ε in the ledger of the project's home, fit, settle with the spends.

    Raises DeclarationError for a lineage without an account, one with another unit or
    relation, and a seed where the account is for releases; BudgetExceeded when ε does not
    fit. Then nothing was charged and nothing drawn.
    """
    ledger = find_home().ledger
    account = _require_account(ledger, lineage, noise)
    _rehearse(fit)
    with ledger.reserve(_charge(fit, account, noise)) as reservation:
        try:
            fitted = fit.run(counter, noise=noise, rng=rng)
        except BaseException as error:
            reservation.die(f"the fit ended in {type(error).__name__}")
            raise
        reservation.settle(_rows(fitted.spends), facts={"transcript": fitted.chain})
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


def _rehearse(fit: PrivateFit) -> None:
    """Fit nobody, with a seed: what cannot be drawn or written down must not be charged."""
    empty = {name: np.zeros(0, dtype=np.int32) for name in fit.domain.names}
    nobody = MemoryCounter(fit.domain, coordinates=empty, codes={}, rows=0)
    _rows(fit.run(nobody, noise=SeededNoise(0), rng=np.random.default_rng(0)).spends)


def _charge(fit: PrivateFit, account: Account, noise: NoiseSource) -> Charge:
    """The charge of one fit; every fit is a new draw, so its key is new."""
    epsilon = epsilon_text(fit.epsilon)
    return Charge(
        key=uuid4().hex,
        lineage=account.lineage,
        kind="dp",
        nano_epsilon=nano_epsilon(fit.epsilon),
        what=f"PrivateKMeans/{fit.method} at ε={epsilon}",
        facts={
            "estimator": "PrivateKMeans",
            "method": fit.method,
            "epsilon": epsilon,
            "measuring": str(texts_of(fit.model, measuring=True)),
            "postprocessing": str(texts_of(fit.model, measuring=False)),
            "unit": account.unit,
            "relation": account.relation,
            "purpose": account.purpose,
            "noise": noise.name,
            "fit_for_release": "yes" if noise.fit_for_release else "no",
            "code": f"dp_pipeline {__version__}",
        },
    )


def _rows(spends: tuple[Spend, ...]) -> list[SpendRow]:
    return [SpendRow(one.what, one.mechanism, one.epsilon, one.scale) for one in spends]
