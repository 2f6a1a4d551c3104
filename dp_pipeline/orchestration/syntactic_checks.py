"""The check of a k-anonymous release: the stored rows keep what it promises."""

from __future__ import annotations

import dagster as dg

from dp_pipeline.orchestration.syntactic_tables import keeps_promise, measured
from dp_pipeline.release.bundle import Bundle

KEPT = "keeps_k"


def kept_check_spec(key: dg.AssetKey) -> dg.AssetCheckSpec:
    """Declared on every method's asset."""
    return dg.AssetCheckSpec(
        KEPT,
        asset=key,
        description="Every class of the stored table has as many rows and different labels as "
        "promised, counted anew. It says nothing of differential privacy: there is none.",
    )


def kept_check(bundle: Bundle) -> dg.AssetCheckResult:
    """The result for one release."""
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
