"""How far a snapshot has come: marks in its manifest, each bound to one declaration.

``validated``: {structural, refused, digest, checks}; ``stages``: stage → digest;
``prepared``: {digest, stages}, or null. A declaration that changed makes every mark void.
"""

from __future__ import annotations

from typing import Any

from dp_pipeline.raw.snapshot import Snapshot, anew, preparing
from dp_pipeline.schema.errors import NotPrepared
from dp_pipeline.schema.spec import DatasetSpec


def mark_validated(
    spec: DatasetSpec, snapshot: Snapshot, *, structural: bool, refused: bool
) -> None:
    """Note the outcome of a validation; a refused snapshot loses its mark ``prepared``."""
    facts = {
        "structural": structural,
        "refused": refused,
        "digest": spec.digest,
        "checks": spec.checks,
    }
    if refused:
        snapshot.record(validated=facts, prepared=None)
    else:
        snapshot.record(validated=facts)


def require_validated(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """NotPrepared unless the manifest says: validated as declared now, and not refused."""
    validated = _marks(snapshot, "validated")
    if validated.get("refused"):
        raise NotPrepared(
            f"{snapshot!r}: expected a valid snapshot, got a refused one: its checks say what to "
            f"mend, then {anew(spec.name)}"
        )
    is_current = (validated.get("digest"), validated.get("checks")) == (spec.digest, spec.checks)
    if validated.get("structural") is not True or not is_current:
        raise NotPrepared(
            f"{snapshot!r}: expected a snapshot validated as {spec.name} is declared now, "
            f"got none: {preparing(spec.name)}"
        )


def forget_preparation(snapshot: Snapshot) -> None:
    """Void every stage before the first one is written anew: stages of two runs never mix."""
    snapshot.record(prepared=None, stages={})


def mark_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """Note that one stage was stored under this declaration."""
    snapshot.record(stages={**_marks(snapshot, "stages"), stage: spec.digest})


def require_stage(spec: DatasetSpec, snapshot: Snapshot, stage: str) -> None:
    """NotPrepared unless ``stage`` was stored under this declaration."""
    if _marks(snapshot, "stages").get(stage) != spec.digest:
        raise NotPrepared(
            f"{snapshot!r}: expected the stage {stage!r} as {spec.name} is declared now, got none: "
            f"{preparing(spec.name)}"
        )


def require_prepared(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """NotPrepared unless the manifest says: validated and prepared as declared now."""
    require_validated(spec, snapshot)
    prepared = _marks(snapshot, "prepared")
    if prepared.get("digest") != spec.digest:
        raise NotPrepared(
            f"{snapshot!r}: expected a snapshot prepared as {spec.name} is declared now, got none: "
            f"{preparing(spec.name)}"
        )


def _marks(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """One mapping of the manifest; empty where there is none."""
    marks = snapshot.manifest.get(name)
    return marks if isinstance(marks, dict) else {}
