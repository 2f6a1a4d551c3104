"""Checks of a k-anonymous release: the stored rows keep what it promises, and are whole."""

from __future__ import annotations

import dagster as dg

from dp_pipeline.orchestration.anonymizing import Anonymous
from dp_pipeline.orchestration.replaying import settled_bundle
from dp_pipeline.orchestration.stored_checks import WHOLE, fault_result
from dp_pipeline.orchestration.syntactic_release import SyntacticRelease
from dp_pipeline.orchestration.syntactic_tables import keeps_promise, measured
from dp_pipeline.release.bundle import Bundle

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
