"""Checks of a release with an ε: it spent what it claims, its account, and what is stored of it."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg

from dp_pipeline.models.base import Claim
from dp_pipeline.orchestration.budget_checks import budget_check_specs, budget_checks
from dp_pipeline.orchestration.budget_metadata import amount_metadata
from dp_pipeline.orchestration.publishing import Published
from dp_pipeline.orchestration.release import Release
from dp_pipeline.orchestration.released_metadata import kind_metadata
from dp_pipeline.orchestration.stored_checks import stored_check_specs, stored_checks
from dp_pipeline.release.accountant import EXPONENTIAL, ROUNDED_UP
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.plausibility import DOUBTFUL, bundle_warnings
from dp_pipeline.schema.spec import DatasetSpec

SPENT = "spent_is_the_partition"
PLAUSIBLE = "noisy_counts_are_plausible"


def release_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Declared on every model asset. None can run by itself: materializing a settled partition
    again costs nothing and runs all of them.
    """
    spent = dg.AssetCheckSpec(
        SPENT,
        asset=key,
        description="The charges of the release, recomputed from the scales that were drawn, "
        "add up to the partition's ε and its evaluation's, exactly, or to what they cost in ρ; "
        "of a method that is published with another ε or none, to what its noisy answers "
        "compose to.",
    )
    plausible = dg.AssetCheckSpec(
        PLAUSIBLE,
        asset=key,
        description="The noisy counts that were released say nothing against it: not far fewer "
        "rows than nominal_rows, no signal that is mostly noise, not nearly all rows at a bound or "
        "of one level. Made of released values alone, so a reader may see it; it stops nothing. A "
        "release without such counts passes unseen.",
    )
    return [spent, plausible, *budget_check_specs(key), *stored_check_specs(key)]


def release_checks(release: Release, published: Published) -> list[dg.AssetCheckResult]:
    """The results for one release."""
    balance = release.home.ledger.balance(release.spec.lineage)
    return [
        spent_check(release.spec, release.claim, published.bundle),
        plausible_check(release.spec, published.bundle),
        *budget_checks(balance),
        *stored_checks(release, published),
    ]


def spent_check(spec: DatasetSpec, claim: Claim, bundle: Bundle) -> dg.AssetCheckResult:
    """Whether what was drawn, what was charged and what is claimed are the same."""
    proven = [replace(spend, epsilon=spend.epsilon_of_scale) for spend in bundle.spends]
    drawn = replace(bundle, spends=tuple(proven)).spent
    own = spec.currency.cost_of(claim.amount, claim.currency)
    bought = spec.charge_for(own) if bundle.quality else own
    rounded = any(spend.mechanism == EXPONENTIAL for spend in bundle.spends)
    least = bought * (1 - ROUNDED_UP) if rounded else bought
    return dg.AssetCheckResult(
        passed=least <= drawn <= bundle.spent == bought and claim.is_dp == bundle.is_dp,
        check_name=SPENT,
        metadata=kind_metadata(bundle)
        | amount_metadata({"drawn": drawn, "claimed": bought}, spec.currency),
    )


def plausible_check(spec: DatasetSpec, bundle: Bundle) -> dg.AssetCheckResult:
    """A warning where what was released says that it is mostly noise, or of other rows."""
    warnings = bundle_warnings(spec, bundle)
    return dg.AssetCheckResult(
        passed=not warnings,
        check_name=PLAUSIBLE,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={DOUBTFUL: dg.MetadataValue.text(" ".join(warnings))} if warnings else {},
    )
