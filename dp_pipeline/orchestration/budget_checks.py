"""Checks of an account: within its ceiling, and not yet near it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import dagster as dg

from dp_pipeline.ledger import Balance
from dp_pipeline.orchestration.budget_metadata import balance_metadata

WITHIN = "within_the_ceiling"
NOT_NEAR = "below_80_percent_of_the_ceiling"

_NEAR = Fraction(8, 10)


def budget_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Declared on every model asset, and on the budget report."""
    return [
        dg.AssetCheckSpec(
            WITHIN,
            asset=key,
            description="What the lineage has spent, over all runs, against its ceiling, and what "
            "it has spent this month where a month has a limit.",
        ),
        dg.AssetCheckSpec(
            NOT_NEAR,
            asset=key,
            description="Warns when 80 % of the ceiling, or of the limit of a month, is spent: "
            "what does not fit any more is refused.",
        ),
    ]


def budget_checks(balance: Balance) -> list[dg.AssetCheckResult]:
    """The results for one account."""
    shares = list(_shares(balance))
    metadata = balance_metadata(balance)
    return [
        dg.AssetCheckResult(
            passed=all(share <= 1 for share in shares), check_name=WITHIN, metadata=metadata
        ),
        dg.AssetCheckResult(
            passed=all(share < _NEAR for share in shares),
            check_name=NOT_NEAR,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        ),
    ]


def _shares(balance: Balance) -> Iterator[Fraction]:
    """What is spent of every limit there is."""
    limits = ((balance.spent, balance.ceiling), (balance.month_spent, balance.per_month))
    for spent, limit in limits:
        if limit is not None:
            yield spent / limit
