"""Checks of a release with an ε: it spent what it claims, its account, and what is stored of it.

Checks of what is stored: whole as it was settled, and the same when it is made again.

Checks of a k-anonymous release: the stored rows keep what it promises, and are whole.

Checks of an account: within its ceiling, and not yet near it.

Checks of what stands: a run that is refused takes away no verdict on an earlier release.
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

from dp_pipeline.ledger import Balance
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.orchestration.metadata import (
    Metadata,
    amount_metadata,
    balance_metadata,
    kind_metadata,
)
from dp_pipeline.publish.anonymize import Anonymous
from dp_pipeline.publish.cards import keeps_promise, measured
from dp_pipeline.publish.k_anonymous_release import SyntacticRelease
from dp_pipeline.publish.publish import Published
from dp_pipeline.publish.release import Release, code_version
from dp_pipeline.publish.replay import MADE_AGAIN, key_of, rebuilt, settled_bundle
from dp_pipeline.publish.verify import require_whole
from dp_pipeline.release.accountant import EXPONENTIAL, ROUNDED_UP
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.plausibility import DOUBTFUL, bundle_warnings
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import Damaged, PipelineError

WHOLE = "bundle_is_whole"
REPLAY = "replay_equals_payload"


def stored_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Declared on every model asset."""
    return [
        dg.AssetCheckSpec(
            WHOLE,
            asset=key,
            description="Read again from disk: every file is as it was written and sealed, no "
            "other one lies beside them, and tables, answers, charges and facts are those that "
            "the ledger settled.",
        ),
        dg.AssetCheckSpec(
            REPLAY,
            asset=key,
            description="Made again from its transcript of noisy answers, over nobody and at no "
            "cost, the release has the same tables, charges and facts, byte by byte. A warning "
            "where it was drawn by older code: that of today may draw pictures of the same "
            "answers otherwise.",
        ),
    ]


def stored_checks(release: Release, published: Published) -> list[dg.AssetCheckResult]:
    """The results for one release. No row is read."""
    return [
        fault_result(WHOLE, lambda: require_whole(release, published.folder)),
        _replay_check(release, published.bundle),
    ]


def fault_result(
    name: str, require: Callable[[], None], *, is_fatal: bool = True
) -> dg.AssetCheckResult:
    """Passed, or the line that says what is wrong: it names files and digests, never a value.

    is_fatal   False: a fault is a warning
    """
    fault = _fault(require)
    metadata: Metadata = {} if fault is None else {"fault": dg.MetadataValue.text(fault)}
    severity = dg.AssetCheckSeverity.ERROR if is_fatal else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        passed=fault is None, check_name=name, severity=severity, metadata=metadata
    )


def _replay_check(release: Release, bundle: Bundle) -> dg.AssetCheckResult:
    is_older = bundle.facts["code"] != code_version()
    return fault_result(REPLAY, lambda: _require_same(release, bundle), is_fatal=not is_older)


def _require_same(release: Release, bundle: Bundle) -> None:
    again = rebuilt(release, key_of(release, bundle))
    # The digest of every table is in the text, so equal texts are equal tables.
    told = {name: bundle.facts[name] for name in ("code", MADE_AGAIN) if name in bundle.facts}
    same = replace(again, facts={**again.facts, **told})
    if same.to_json() != bundle.to_json():
        raise Damaged(
            f"bundle {bundle.key[:12]}: expected what its answers give again, got another"
        )


def _fault(require: Callable[[], None]) -> str | None:
    try:
        require()
    except PipelineError as error:
        return str(error)
    return None


KEPT = "keeps_k"


def anonymous_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Declared on every method's asset."""
    return [
        dg.AssetCheckSpec(
            KEPT,
            asset=key,
            description="Every class of the stored table has as many rows and different labels as "
            "promised, counted anew. It says nothing of differential privacy: there is none.",
        ),
        dg.AssetCheckSpec(
            WHOLE,
            asset=key,
            description="Read again from disk: tables and facts are those that the ledger "
            "settled, and no other file lies beside them.",
        ),
    ]


def anonymous_checks(anonymous: Anonymous, release: SyntacticRelease) -> list[dg.AssetCheckResult]:
    """The results for one release."""
    return [
        kept_check(anonymous.bundle),
        fault_result(WHOLE, lambda: _require_settled(anonymous, release)),
    ]


def _require_settled(anonymous: Anonymous, release: SyntacticRelease) -> None:
    """Damaged unless the bundle is read again as it was settled."""
    ledger, lineage = release.home.ledger, release.spec.lineage
    settled_bundle(release.store, anonymous.folder, ledger=ledger, lineage=lineage)


def kept_check(bundle: Bundle) -> dg.AssetCheckResult:
    """Whether the classes of a stored table are as large and as diverse as promised."""
    facts = bundle.facts
    report = measured(bundle.tables, label=facts["label"], k=int(facts["k"]))
    return dg.AssetCheckResult(
        passed=keeps_promise(bundle),
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
        spent_check(release.spec, release.guarantee, published.bundle),
        plausible_check(release.spec, published.bundle),
        *budget_checks(balance),
        *stored_checks(release, published),
    ]


def spent_check(
    spec: DatasetSpec, guarantee: PrivacyGuarantee, bundle: Bundle
) -> dg.AssetCheckResult:
    """Whether what was drawn, what was charged and what is claimed are the same."""
    proven = [replace(spend, epsilon=spend.epsilon_of_scale) for spend in bundle.spends]
    drawn = replace(bundle, spends=tuple(proven)).spent
    own = spec.currency.cost_of(guarantee.amount, guarantee.currency)
    bought = spec.charge_for(own) if bundle.quality else own
    rounded = any(spend.mechanism == EXPONENTIAL for spend in bundle.spends)
    least = bought * (1 - ROUNDED_UP) if rounded else bought
    return dg.AssetCheckResult(
        passed=least <= drawn <= bundle.spent == bought and guarantee.is_dp == bundle.is_dp,
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


_JUDGED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def standing_checks(context: dg.AssetExecutionContext) -> list[dg.AssetCheckEvaluation]:
    """The last verdict of each check of this asset, as this run may say it again, of the release
    that it was about.

    Dagster notes when a run begins that it will judge, and takes a run that ends without a
    verdict for a check that failed, whatever an earlier run had found. A refused run has changed
    nothing: the release that was judged is the one that stands.
    """
    found = [
        context.instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_JUDGED
        )
        for key in context.selected_asset_check_keys
    ]
    return [_again(context.instance, record) for records in found for record in records]


def _again(
    instance: dg.DagsterInstance, record: AssetCheckExecutionRecord
) -> dg.AssetCheckEvaluation:
    last = record.evaluation
    assert last is not None
    return dg.AssetCheckEvaluation(
        asset_key=last.asset_key,
        check_name=last.check_name,
        passed=last.passed,
        metadata=last.metadata,
        target_materialization_data=_judged(instance, record.run_id, last),
        severity=last.severity,
        description=last.description,
        blocking=last.blocking,
    )


def _judged(
    instance: dg.DagsterInstance, run_id: str, last: dg.AssetCheckEvaluation
) -> Target | None:
    """The materialization that a verdict is of: that of its own run, or, of one that was said
    again, the one that it names. Dagster itself would name the newest of the refused partition.
    """
    newest = instance.fetch_materializations(last.asset_key, limit=1).records
    if not newest or newest[0].run_id != run_id:
        return last.target_materialization_data
    return Target(storage_id=newest[0].storage_id, run_id=run_id, timestamp=newest[0].timestamp)
