"""Dagster's checks of releases and accounts: charges, promises, and stored bundles."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)
from dagster_shared.record import copy

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.ledger import Balance
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.orchestration.metadata import (
    Metadata,
    amount_metadata,
    balance_metadata,
    kind_metadata,
    number,
)
from dp_pipeline.releases.domain_release import DomainRelease
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.k_anonymous_tables import keeps_guarantee, measure_disclosure
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.reporting.plausibility import DOUBTFUL, bundle_warnings, noisy_total
from dp_pipeline.results.accountant import EXPONENTIAL, ROUNDED_UP
from dp_pipeline.results.bundle import Bundle

INTACT = "bundle_is_intact"
REBUILT = "rebuilt_bundle_is_equal"
SPENT = "spent_equals_claim"
PLAUSIBLE = "noisy_counts_are_plausible"
KEEPS_K = "classes_keep_k"
WITHIN = "within_the_ceiling"
NOT_NEAR = "below_80_percent_of_the_ceiling"

_NEAR_CEILING = Fraction(8, 10)

_DESCRIPTIONS = {
    INTACT: "Every file of the bundle is read again: each is as it was written and sealed, there "
    "is no other file, and tables, answers, charges and facts are those that the ledger settled.",
    REBUILT: "A release by the code of today has the digest that the ledger settled. One by other "
    "code is rebuilt from its transcript of noisy answers, without rows and at no cost, and "
    "compared byte by byte: a warning where the code of today makes another bundle of the same "
    "answers. `dp-pipeline check --replay` rebuilds all settled noisy releases that a file still "
    "declares.",
    SPENT: "The charges of the release, recomputed from the scales of its noise, add up exactly to "
    "the ε of the partition and of the evaluation, or to what these cost in ρ. Of a method that is "
    "published with another ε or none, they add up to what its noisy answers compose to.",
    PLAUSIBLE: "The released noisy counts speak against nothing: there are not far fewer rows than "
    "nominal_rows, no count is mostly noise, and not nearly all rows are at a bound or of one "
    "level. Made of released values alone, so a reader may see it; it stops nothing. A release "
    "without such counts passes.",
    KEEPS_K: "Every class of the stored table has as many rows and different labels as promised, "
    "counted anew. This is no differential privacy.",
    WITHIN: "What the population has spent over all runs, against its ceiling, and what it has "
    "spent this month, or of a window, where these have a limit.",
    NOT_NEAR: "Warns when 80 % of the ceiling, or of the limit of a month, is spent: what does not "
    "fit any more is refused.",
}

_DOMAIN_SPENT = (
    "The questions of the discovery cost at most what each was charged, by the scales of their "
    "noise, and add up exactly to the declared ε and δ."
)


def _specs(key: dg.AssetKey, *names: str, **descriptions: str) -> list[dg.AssetCheckSpec]:
    texts = _DESCRIPTIONS | descriptions
    return [dg.AssetCheckSpec(name, asset=key, description=texts[name]) for name in names]


def check_specs(key: dg.AssetKey, kind: type[Release]) -> list[dg.AssetCheckSpec]:
    """Return Dagster's specifications of the checks of a release.

    None can run by itself: materializing a settled partition again runs them all at no cost."""
    if kind.FOLDER:
        return _specs(key, KEEPS_K, INTACT)
    return _specs(key, SPENT, PLAUSIBLE, INTACT, REBUILT, WITHIN, NOT_NEAR)


def domain_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    return _specs(key, INTACT, REBUILT, SPENT, WITHIN, NOT_NEAR, **{SPENT: _DOMAIN_SPENT})


def budget_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    return _specs(key, WITHIN, NOT_NEAR)


def release_checks(release: Release, published: PublishedBundle) -> list[dg.AssetCheckResult]:
    """Return the results of Dagster's checks of one release, without reading a row."""
    bundle, intact = published.bundle, _intact_check(release, published)
    if not isinstance(release, EpsilonRelease):
        return [k_anonymity_check(bundle), intact]
    balance = release.home.ledger.balance(release.spec.population, release.windows)
    return [
        spent_check(release.spec, release.guarantee, bundle),
        plausible_check(release.spec, bundle),
        *budget_checks(balance),
        intact,
        _rebuilt_check(release, bundle),
    ]


def domain_checks(release: DomainRelease, published: PublishedBundle) -> list[dg.AssetCheckResult]:
    """Return the results of Dagster's checks of one discovered domain, without reading a row."""
    spends = published.bundle.spends
    is_proven = all(spend.epsilon_of_scale <= spend.epsilon for spend in spends)
    total = sum(spend.epsilon for spend in spends), sum(spend.delta for spend in spends)
    is_claimed = total == (release.epsilon, release.delta)
    return [
        _intact_check(release, published),
        _rebuilt_check(release, published.bundle),
        dg.AssetCheckResult(passed=is_proven and is_claimed, check_name=SPENT),
        *budget_checks(release.home.ledger.balance(release.spec.population)),
    ]


def fault_result(
    name: str, require: Callable[[], object], *, is_fatal: bool = True
) -> dg.AssetCheckResult:
    """Return a check result that fails, with its message, if ``require`` raises PipelineError.

    is_fatal   False: a fault is a warning
    """
    metadata: Metadata = {}
    try:
        require()
    except PipelineError as error:
        metadata = {"fault": dg.MetadataValue.text(str(error))}
    severity = dg.AssetCheckSeverity.ERROR if is_fatal else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        passed=not metadata, check_name=name, severity=severity, metadata=metadata
    )


def _intact_check(release: Release, published: PublishedBundle) -> dg.AssetCheckResult:
    return fault_result(INTACT, lambda: require_intact(release, published.folder))


def _rebuilt_check(release: Release, bundle: Bundle) -> dg.AssetCheckResult:
    # A replay has compared its digest with the settled one, so only other code is tried.
    if bundle.facts["code"] == release.version():
        return dg.AssetCheckResult(passed=True, check_name=REBUILT)
    return fault_result(REBUILT, lambda: require_reproducible(release, bundle), is_fatal=False)


def k_anonymity_check(bundle: Bundle) -> dg.AssetCheckResult:
    facts = bundle.facts
    report = measure_disclosure(bundle.tables, label=facts["label"], k=int(facts["k"]))
    numbers = {
        "promised K": int(facts["k"]),
        "smallest class": report.k,
        "promised labels of each class": int(facts["diversity"]),
        "fewest labels of a class": report.distinct_l,
    }
    return dg.AssetCheckResult(
        passed=keeps_guarantee(bundle), check_name=KEEPS_K, metadata=dict(numbers)
    )


def budget_checks(balance: Balance) -> list[dg.AssetCheckResult]:
    limits = ((balance.spent, balance.ceiling), (balance.month_spent, balance.per_month))
    shares = [spent / limit for spent, limit in limits if limit is not None]
    # A window is meant to be filled: it must keep within its limit, but may come near it.
    window_fits = balance.window_remaining is None or balance.window_remaining >= 0
    metadata = balance_metadata(balance)
    return [
        dg.AssetCheckResult(
            passed=window_fits and all(share <= 1 for share in shares),
            check_name=WITHIN,
            metadata=metadata,
        ),
        dg.AssetCheckResult(
            passed=all(share < _NEAR_CEILING for share in shares),
            check_name=NOT_NEAR,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        ),
    ]


def spent_check(
    spec: DatasetSpec, guarantee: PrivacyGuarantee, bundle: Bundle
) -> dg.AssetCheckResult:
    proven = [replace(spend, epsilon=spend.epsilon_of_scale) for spend in bundle.spends]
    cost_of_noise = replace(bundle, spends=tuple(proven)).spent
    own_claim = spec.currency.cost_of(guarantee.amount, guarantee.currency)
    # What a refined release cost is in its own charge.
    own_claim -= bundle.charged_in_all - bundle.charged
    claim = spec.charge_for(own_claim) if bundle.quality else own_claim
    is_rounded = any(spend.mechanism == EXPONENTIAL for spend in bundle.spends)
    least = claim * (1 - ROUNDED_UP) if is_rounded else claim
    is_paid = least <= cost_of_noise <= bundle.spent == claim
    amounts = {"cost of the noise": cost_of_noise, "claimed": claim}
    return dg.AssetCheckResult(
        passed=is_paid and guarantee.is_dp == bundle.is_dp,
        check_name=SPENT,
        metadata=kind_metadata(bundle) | amount_metadata(amounts, spec.currency),
    )


def plausible_check(spec: DatasetSpec, bundle: Bundle) -> dg.AssetCheckResult:
    warnings, total = bundle_warnings(spec, bundle), noisy_total(spec, bundle)
    metadata: Metadata = {}
    if total is not None:
        items = spec.domain.item_word
        metadata[f"noisy {items}"] = number(total.rows)
        metadata[f"deviation of noisy {items}"] = number(total.deviation)
    if warnings:
        metadata[DOUBTFUL] = dg.MetadataValue.text(" ".join(warnings))
    return dg.AssetCheckResult(
        passed=not warnings,
        check_name=PLAUSIBLE,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


_RESULTS = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def standing_checks(context: dg.AssetExecutionContext) -> list[dg.AssetCheckEvaluation]:
    """Return the last result of each check of this asset, which a refused run reports again.

    Dagster shows a run without results as a failed check. A refused run has changed nothing, so the
    results for the current release still hold. Each is attached to the release that it was about:
    Dagster itself would name the newest release of the refused partition.
    """
    results = []
    for record in _last_records(context):
        evaluation = record.evaluation
        assert evaluation is not None
        target = evaluation.target_materialization_data
        newest = context.instance.fetch_materializations(evaluation.asset_key, limit=1).records
        if newest and newest[0].run_id == record.run_id:
            storage_id, timestamp = newest[0].storage_id, newest[0].timestamp
            target = Target(storage_id=storage_id, run_id=record.run_id, timestamp=timestamp)
        results.append(copy(evaluation, target_materialization_data=target, partition=None))
    return results


def repeated_checks(context: dg.AssetExecutionContext) -> list[dg.AssetCheckResult]:
    """Return the last result of each check of this asset, as results of the present run; checks
    that never had a result are left out."""
    evaluations = (record.evaluation for record in _last_records(context))
    return [
        dg.AssetCheckResult(
            passed=evaluation.passed,
            check_name=evaluation.check_name,
            severity=evaluation.severity,
            metadata=evaluation.metadata,
        )
        for evaluation in evaluations
        if evaluation is not None
    ]


def _last_records(context: dg.AssetExecutionContext) -> Iterator[AssetCheckExecutionRecord]:
    for key in context.selected_asset_check_keys:
        yield from context.instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_RESULTS
        )
