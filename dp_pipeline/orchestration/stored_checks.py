"""Checks of what is stored: whole as it was settled, and the same when it is made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import dagster as dg

from dp_pipeline.orchestration.metadata import Metadata
from dp_pipeline.orchestration.publishing import Published
from dp_pipeline.orchestration.release import Release, code_version
from dp_pipeline.orchestration.replaying import MADE_AGAIN, key_of, rebuilt
from dp_pipeline.orchestration.wholeness import require_whole
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.schema.errors import Damaged, PipelineError

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
