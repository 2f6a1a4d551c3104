"""Checks of a release: it spent what its partition says, and the account is within its ceiling."""

from __future__ import annotations

from fractions import Fraction

import dagster as dg

from dp_pipeline.ledger import Ledger
from dp_pipeline.orchestration.metadata import budget_metadata
from dp_pipeline.orchestration.publishing import Published
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
            "add up to the partition's ε and its evaluation's, exactly.",
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
    spends = published.bundle.spends
    drawn = sum((spend.epsilon_of_scale for spend in spends), Fraction(0))
    bought = spec.charge_for(epsilon) if published.bundle.quality else epsilon
    balance = ledger.balance(spec.lineage)
    amounts = {"spent": balance.spent, "left": balance.left, "ceiling": balance.ceiling}
    return [
        dg.AssetCheckResult(
            passed=drawn == published.bundle.spent == bought,
            check_name=SPENT,
            metadata=budget_metadata({"drawn": drawn, "partition": bought}),
        ),
        dg.AssetCheckResult(
            passed=balance.ceiling is None or balance.spent <= balance.ceiling,
            check_name=BUDGET,
            metadata=budget_metadata(amounts),
        ),
    ]
