"""What was released of the same persons without any ε: every later card of theirs says so."""

from __future__ import annotations

from dp_pipeline.ledger import Ledger
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
    rows = (one for one in ledger.entries(spec.lineage) if one.event == "reserve")
    own = next((one.sequence for one in rows if one.key == before), None)
    return [
        f"{one.what}, snapshot {one.facts['snapshot']}"
        for one in ledger.not_dp_releases(spec.lineage)
        if one.key != but and (own is None or one.sequence < own)
    ]
