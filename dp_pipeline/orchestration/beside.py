"""What was released of the same persons without any ε: every later card of theirs says so."""

from __future__ import annotations

from dp_pipeline.ledger import Entry, Ledger
from dp_pipeline.schema.spec import DatasetSpec

BESIDE = "not-dp beside it"
"""The fact of a bundle that names them."""


def not_dp_beside(
    spec: DatasetSpec, ledger: Ledger, *, before: str | None = None, but: str | None = None
) -> list[str]:
    """One text a release, oldest first, begun or finished; none on benchmarks: their rows are
    public.

    before   key of a release: those that were recorded before it; all of them where it is not
             recorded yet, or None
    but      key of a release that is not told
    """
    if not spec.is_release:
        return []
    past = () if before is None else ledger.history(before)
    own = past[0].sequence if past else None
    return [
        _named(one)
        for one in ledger.not_dp_releases(spec.lineage)
        if one.key != but and (own is None or one.sequence < own)
    ]


def _named(entry: Entry) -> str:
    snapshot = entry.facts.get("snapshot")
    return entry.what if snapshot is None else f"{entry.what}, snapshot {snapshot}"
