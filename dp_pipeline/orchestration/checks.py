"""Checks of releases and of their account: what was spent and promised, and that what is stored is
whole, and the same when it is made again.
"""

from __future__ import annotations

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
from dp_pipeline.releases.k_anonymous_tables import keeps_guarantee, measured
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.releases.release import Release
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.reporting.plausibility import DOUBTFUL, bundle_warnings, noisy_total
from dp_pipeline.results.accountant import EXPONENTIAL, ROUNDED_UP
from dp_pipeline.results.bundle import Bundle

WHOLE = "bundle_is_whole"
REPLAY = "replay_equals_payload"


_WHOLE_SPEC = (
    "Read again from disk: every file is as it was written and sealed, no other one lies beside "
    "them, and tables, answers, charges and facts are those that the ledger settled."
)
_REPLAY_SPEC = (
    "Drawn by the code of today, the release has the digest that the ledger settled. Drawn by "
    "other code, it is made again from its transcript of noisy answers, over nobody and at no "
    "cost, and compared byte by byte: a warning where the code of today makes something else of "
    "the same answers. `dp-pipeline check --replay` makes all of them again."
)


def fault_result(
    name: str, require: Callable[[], object], *, is_fatal: bool = True
) -> dg.AssetCheckResult:
    """Passed, or the line that says what is wrong: it names files and digests, never a value.

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


def _replay_check(release: Release, bundle: Bundle) -> dg.AssetCheckResult:
    """That its digest is the settled one was seen when it was read. Other code has to be tried."""
    if bundle.facts["code"] == release.version():
        return dg.AssetCheckResult(passed=True, check_name=REPLAY)
    return fault_result(REPLAY, lambda: require_reproducible(release, bundle), is_fatal=False)


KEPT = "keeps_k"


def kept_check(bundle: Bundle) -> dg.AssetCheckResult:
    """Whether the classes of a stored table are as large and as diverse as promised."""
    facts = bundle.facts
    report = measured(bundle.tables, label=facts["label"], k=int(facts["k"]))
    return dg.AssetCheckResult(
        passed=keeps_guarantee(bundle),
        check_name=KEPT,
        metadata={
            "promised K": dg.MetadataValue.int(int(facts["k"])),
            "smallest class": dg.MetadataValue.int(report.k),
            "promised labels a class": dg.MetadataValue.int(int(facts["diversity"])),
            "fewest labels of a class": dg.MetadataValue.int(report.distinct_l),
        },
    )


WITHIN = "within_the_ceiling"
NOT_NEAR = "below_80_percent_of_the_ceiling"

_NEAR = Fraction(8, 10)


def budget_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Declared on every model asset, and on the budget report."""
    return [
        dg.AssetCheckSpec(
            WITHIN,
            asset=key,
            description="What the population has spent, over all runs, against its ceiling, and "
            "what it has spent this month, or of a window, where these have a limit.",
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
    limits = ((balance.spent, balance.ceiling), (balance.month_spent, balance.per_month))
    shares = [spent / limit for spent, limit in limits if limit is not None]
    of_window = balance.window_remaining
    # A window is there to be filled, so none is near its limit; none is beyond it either.
    is_within = all(share <= 1 for share in shares) and (of_window is None or of_window >= 0)
    metadata = balance_metadata(balance)
    return [
        dg.AssetCheckResult(passed=is_within, check_name=WITHIN, metadata=metadata),
        dg.AssetCheckResult(
            passed=all(share < _NEAR for share in shares),
            check_name=NOT_NEAR,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        ),
    ]


SPENT = "spent_is_the_partition"
PLAUSIBLE = "noisy_counts_are_plausible"


_TEXTS = {
    SPENT: "The charges of the release, recomputed from the scales that were drawn, add up to the "
    "partition's ε and its evaluation's, exactly, or to what they cost in ρ; of a method that is "
    "published with another ε or none, to what its noisy answers compose to.",
    PLAUSIBLE: "The noisy counts that were released say nothing against it: not far fewer rows "
    "than nominal_rows, no signal that is mostly noise, not nearly all rows at a bound or of one "
    "level. Made of released values alone, so a reader may see it; it stops nothing. A release "
    "without such counts passes unseen.",
    KEPT: "Every class of the stored table has as many rows and different labels as promised, "
    "counted anew. It says nothing of differential privacy: there is none.",
    WHOLE: _WHOLE_SPEC,
    REPLAY: _REPLAY_SPEC,
}


_DOMAIN_SPENT = (
    "The looks of the discovery cost at most what each was charged, by the scales that were drawn, "
    "and add up to the declared ε and δ, exactly."
)


def check_specs(key: dg.AssetKey, kind: type[Release]) -> list[dg.AssetCheckSpec]:
    """Declared on every released asset. None can run by itself: materializing a settled partition
    again costs nothing and runs all of them.
    """
    names = (KEPT, WHOLE) if kind.FOLDER else (SPENT, PLAUSIBLE, WHOLE, REPLAY)
    own = [dg.AssetCheckSpec(name, asset=key, description=_TEXTS[name]) for name in names]
    return own if kind.FOLDER else [*own, *budget_check_specs(key)]


def release_checks(release: Release, published: PublishedBundle) -> list[dg.AssetCheckResult]:
    """The results for one release. No row is read."""
    bundle, whole = published.bundle, lambda: require_intact(release, published.folder)
    if not isinstance(release, EpsilonRelease):
        return [kept_check(bundle), fault_result(WHOLE, whole)]
    balance = release.home.ledger.balance(release.spec.population, release.windows)
    return [
        spent_check(release.spec, release.guarantee, bundle),
        plausible_check(release.spec, bundle),
        *budget_checks(balance),
        fault_result(WHOLE, whole),
        _replay_check(release, bundle),
    ]


def domain_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Declared on a discovered domain."""
    texts = {name: _TEXTS[name] for name in (WHOLE, REPLAY)} | {SPENT: _DOMAIN_SPENT}
    own = [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in texts.items()]
    return [*own, *budget_check_specs(key)]


def domain_checks(release: DomainRelease, published: PublishedBundle) -> list[dg.AssetCheckResult]:
    """The results for one discovered domain. No row is read."""
    bundle, whole = published.bundle, lambda: require_intact(release, published.folder)
    spends = bundle.spends
    is_proven = all(one.epsilon_of_scale <= one.epsilon for one in spends)
    paid = sum(one.epsilon for one in spends), sum(one.delta for one in spends)
    return [
        fault_result(WHOLE, whole),
        _replay_check(release, bundle),
        dg.AssetCheckResult(
            passed=is_proven and paid == (release.epsilon, release.delta), check_name=SPENT
        ),
        *budget_checks(release.home.ledger.balance(release.spec.population)),
    ]


def spent_check(
    spec: DatasetSpec, guarantee: PrivacyGuarantee, bundle: Bundle
) -> dg.AssetCheckResult:
    """Whether what was drawn, what was charged and what is claimed are the same."""
    proven = [replace(spend, epsilon=spend.epsilon_of_scale) for spend in bundle.spends]
    drawn = replace(bundle, spends=tuple(proven)).spent
    own = spec.currency.cost_of(guarantee.amount, guarantee.currency)
    claimed = spec.charge_for(own) if bundle.quality else own
    rounded = any(spend.mechanism == EXPONENTIAL for spend in bundle.spends)
    least = claimed * (1 - ROUNDED_UP) if rounded else claimed
    return dg.AssetCheckResult(
        passed=least <= drawn <= bundle.spent == claimed and guarantee.is_dp == bundle.is_dp,
        check_name=SPENT,
        metadata=kind_metadata(bundle)
        | amount_metadata({"drawn": drawn, "claimed": claimed}, spec.currency),
    )


def plausible_check(spec: DatasetSpec, bundle: Bundle) -> dg.AssetCheckResult:
    """A warning where what was released says that it is mostly noise, or of other rows."""
    warnings, total = bundle_warnings(spec, bundle), noisy_total(spec, bundle)
    metadata: Metadata = {}
    if total is not None:
        metadata["noisy rows"] = number(total.rows)
        metadata["deviation of noisy rows"] = number(total.deviation)
    if warnings:
        metadata[DOUBTFUL] = dg.MetadataValue.text(" ".join(warnings))
    return dg.AssetCheckResult(
        passed=not warnings,
        check_name=PLAUSIBLE,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


_JUDGED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def standing_checks(context: dg.AssetExecutionContext) -> list[dg.AssetCheckEvaluation]:
    """The last verdict of each check of this asset, as this run may say it again, of the release
    that it was about.

    Dagster notes when a run begins that it will judge, and takes a run that ends without a
    verdict for a check that failed, whatever an earlier run had found. A refused run has changed
    nothing: the release that was judged is the one that stands.
    """
    return [_again(context.instance, record) for record in _judged_before(context)]


def repeated_checks(context: dg.AssetExecutionContext) -> list[dg.AssetCheckResult]:
    """The last verdict of each check of this asset, for a run that leaves what was judged as it
    is.
    """
    last = [record.evaluation for record in _judged_before(context)]
    return [
        dg.AssetCheckResult(
            passed=one.passed,
            check_name=one.check_name,
            severity=one.severity,
            metadata=one.metadata,
        )
        for one in last
        if one is not None
    ]


def _judged_before(context: dg.AssetExecutionContext) -> Iterator[AssetCheckExecutionRecord]:
    for key in context.selected_asset_check_keys:
        yield from context.instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_JUDGED
        )


def _again(
    instance: dg.DagsterInstance, record: AssetCheckExecutionRecord
) -> dg.AssetCheckEvaluation:
    last = record.evaluation
    assert last is not None
    # That of its own run, or, of a verdict that was said again, the one that it names. Dagster
    # itself would name the newest of the refused partition.
    judged = last.target_materialization_data
    newest = instance.fetch_materializations(last.asset_key, limit=1).records
    if newest and newest[0].run_id == record.run_id:
        storage_id, timestamp = newest[0].storage_id, newest[0].timestamp
        judged = Target(storage_id=storage_id, run_id=record.run_id, timestamp=timestamp)
    return dg.AssetCheckEvaluation(
        asset_key=last.asset_key,
        check_name=last.check_name,
        passed=last.passed,
        metadata=last.metadata,
        target_materialization_data=judged,
        severity=last.severity,
        description=last.description,
        blocking=last.blocking,
    )
