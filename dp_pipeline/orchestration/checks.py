"""Checks of a release: it spent what it claims, and the account is within its ceiling."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import dagster as dg

from dp_pipeline.ledger import Ledger
from dp_pipeline.models import build_model
from dp_pipeline.models.base import declared_claim
from dp_pipeline.orchestration.metadata import budget_metadata, kind_metadata
from dp_pipeline.orchestration.publishing import Published
from dp_pipeline.release.accountant import EXPONENTIAL, ROUNDED_UP
from dp_pipeline.schema.spec import DatasetSpec

SPENT = "spent_is_the_partition"
BUDGET = "within_the_ceiling"


def release_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Declared on every model asset."""
    return [
        dg.AssetCheckSpec(
            SPENT,
            asset=key,
            description="The charges of the release, recomputed from the scales that were drawn, "
            "add up to the partition's ε and its evaluation's, exactly, or to what they cost in ρ; "
            "of a method that is published with another ε or none, to what its noisy answers "
            "compose to.",
        ),
        dg.AssetCheckSpec(
            BUDGET,
            asset=key,
            description="What the lineage has spent, over all runs, against its ceiling.",
        ),
    ]


def release_checks(
    spec: DatasetSpec, epsilon: Fraction, published: Published, ledger: Ledger
) -> list[dg.AssetCheckResult]:
    """The results for one release."""
    bundle = published.bundle
    proven = [replace(spend, epsilon=spend.epsilon_of_scale) for spend in bundle.spends]
    drawn = replace(bundle, spends=tuple(proven)).spent
    claim = declared_claim(spec, build_model(spec, bundle.facts["model"]), epsilon)
    own = spec.currency.cost_of(claim.amount, claim.currency)
    bought = spec.charge_for(own) if bundle.quality else own
    rounded = any(spend.mechanism == EXPONENTIAL for spend in bundle.spends)
    least = bought * (1 - ROUNDED_UP) if rounded else bought
    balance = ledger.balance(spec.lineage)
    amounts = {"spent": balance.spent, "left": balance.left, "ceiling": balance.ceiling}
    return [
        dg.AssetCheckResult(
            passed=least <= drawn <= bundle.spent == bought and claim.is_dp == bundle.is_dp,
            check_name=SPENT,
            metadata=kind_metadata(bundle)
            | budget_metadata({"drawn": drawn, "claimed": bought}, spec.currency),
        ),
        dg.AssetCheckResult(
            passed=balance.ceiling is None or balance.spent <= balance.ceiling,
            check_name=BUDGET,
            metadata=budget_metadata(amounts, balance.currency),
        ),
    ]
