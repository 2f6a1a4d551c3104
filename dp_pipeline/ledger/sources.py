"""Which lineage may open which source.

Two lineages over the same rows are two budgets for the same persons. So a
source belongs to the lineages that claimed it:

    asking        held by          answer
    ------        -------          ------
    anyone        nobody           yes
    benchmark     benchmarks only  yes: public rows have no budget to protect
    release       itself only      yes
    release       any other        only with a reason, which is kept in the row
    benchmark     any release      no, whatever the reason, even if it held the source before

The last line is one-way: **from the moment a release lineage holds a source, no
claim of a benchmark lineage on it succeeds.** Proof: a claim succeeds for a
benchmark lineage only if no holder is a release lineage; holders are rows, rows
are never removed, and the purpose of an account never changes; both are read in
the transaction that would write the claim. Without it one line of a data set
file would print exact numbers about protected persons.

A benchmark's source asked for by a release lineage exposes nothing new, but
it is refused without a reason as well: its exact numbers are already known, so
the lifetime ε on the release's card would be untrue. With a reason the rows
written to that source from now on are protected, as the last line demands.

What is the same source is said in ``schema/identity.py``: other spellings of it, a folder and what
lies in it, a hard link. A claim stored under a name of before is compared in its canonical form.
"""

from __future__ import annotations

from dp_pipeline.ledger.journal import Draft
from dp_pipeline.ledger.view import Page, View
from dp_pipeline.ledger.words import require_line, require_text
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.identity import Named


def claim(page: Page, lineage: str, *, source: str, distinct_population: str | None) -> None:
    """Let a lineage hold a source, or raise DeclarationError; holding it already is free."""
    if may_claim(page, lineage, source=source, distinct_population=distinct_population):
        reason = {} if distinct_population is None else {"distinct_population": distinct_population}
        page.append(Draft(event="source", lineage=lineage, source=source, facts=reason))


def may_claim(view: View, lineage: str, *, source: str, distinct_population: str | None) -> bool:
    """Whether there is something to claim: False where the lineage holds the source already.

    Raises DeclarationError where it may not open the source.
    """
    require_text(source, of=f"source of lineage {lineage}")
    if distinct_population is not None:
        require_line(distinct_population, of=f"distinct_population of lineage {lineage}")
    if view.require_account(lineage).purpose != "release":
        require_public(view, lineage, source=source)
    held = _held(view, source)
    if (source, lineage) in held:
        return False
    holders = [holder for _, holder in held if holder != lineage]
    if distinct_population is None:
        _require_same_kind(view, lineage, source=source, holders=holders)
    return True


def require_public(view: View, lineage: str, *, source: str) -> None:
    """DeclarationError where rows that are to be shown exactly are somebody's to protect: the
    lineage was opened for releases, or a release lineage holds the source. Writes nothing.
    """
    found = view.account(lineage)
    if found is not None and found.purpose == "release":
        raise DeclarationError(
            f"lineage {lineage}: opened with purpose 'release', now declared with 'benchmark': "
            "declare `purpose: release`, whose rows are not shown"
        )
    for _, holder in _held(view, source):
        if view.require_account(holder).purpose == "release":
            raise DeclarationError(
                f"source {source!r} is protected by lineage {holder} (release): as a benchmark, "
                f"lineage {lineage} would publish exact numbers about it; only a data set with "
                f"`lineage: {holder}` and `purpose: release` opens it"
            )


def _held(view: View, source: str) -> list[tuple[str, str]]:
    """Claims on a source and on what overlaps with it, oldest first: source, lineage."""
    asked = Named(source)
    return [
        (found, holder) for found, holder in view.state.claims() if asked.overlaps(Named(found))
    ]


def _require_same_kind(view: View, lineage: str, *, source: str, holders: list[str]) -> None:
    purpose = view.require_account(lineage).purpose
    for holder in holders:
        held_for = view.require_account(holder).purpose
        if purpose != "benchmark" or held_for != "benchmark":
            raise DeclarationError(
                f"source {source!r} belongs to lineage {holder} ({held_for}): lineage {lineage} "
                f"({purpose}) may open it only with distinct_population: <reason>"
            )
