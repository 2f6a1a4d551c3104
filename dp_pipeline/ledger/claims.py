"""Claims: which population may read which source.

Two populations over the same rows are two budgets for the same persons. So a
source belongs to the populations that claimed it:

    claimant      held by          answer
    --------      -------          ------
    anyone        nobody           yes
    benchmark     benchmarks only  yes: public rows have no budget to protect
    release       itself only      yes
    release       any other        only with a reason, which is stored in the row
    benchmark     any release      no, whatever the reason, even if it held the source before

The last line is one-way: **from the moment a release population holds a source, no
claim of a benchmark population on it succeeds.** Proof: a claim succeeds for a
benchmark population only if no holder is a release population; holders are rows, rows
are never removed, and the purpose of an account never changes; both are read in
the transaction that would write the claim. Without it one line of a data set
file would print exact numbers about protected persons.

A benchmark's source claimed by a release population exposes nothing new, but
it is refused without a reason as well: its exact numbers are already known, so
the lifetime ε on the release's card would be untrue. With a reason the rows
written to that source from now on are protected, as the last line demands.

``config/source.py`` says what the same source is: other spellings of it, a folder and what
lies in it, a hard link. The name of a data set is held like a source: a file that comes to name
another population needs a reason too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.source import first_overlap, source_label
from dp_pipeline.ledger.entries import require_line, require_text
from dp_pipeline.ledger.head import Draft

if TYPE_CHECKING:
    from dp_pipeline.ledger.view import Page, View

Claims = Sequence[tuple[str, str]]
"""Source and holder, oldest first."""


@dataclass(frozen=True)
class Claim:
    """A request of a population to read some sources of rows.

    sources   URIs, fingerprints, and the names of data sets
    distinct_population   why its persons are others than those of a holder; None without a reason
    """

    population: str
    sources: Sequence[str]
    distinct_population: str | None = None

    def write(self, page: Page) -> None:
        """Append a ledger row for each new source of the population; DeclarationError, and none is
        appended, if it may not claim one of the sources."""
        reason = self.distinct_population
        facts = {} if reason is None else {"distinct_population": reason}
        for source in self.find_new_sources(page, page.require_account(self.population).purpose):
            draft = Draft(event="source", population=self.population, source=source, facts=facts)
            page.append(draft)

    def find_new_sources(self, view: View, purpose: str) -> list[str]:
        """Return the sources that the population does not hold yet; write nothing.

        purpose   "release" or "benchmark": that of its account, whether it is open or not

        DeclarationError for a source that it may not claim.
        """
        for source in self.sources:
            require_text(source, of=f"source of population {self.population}")
        reason = self.distinct_population
        if reason is not None:
            require_line(reason, of=f"distinct_population of population {self.population}")
        claims = view.state.claims()
        own = {source for source, holder in claims if holder == self.population}
        new = [source for source in dict.fromkeys(self.sources) if source not in own]
        if purpose != "release":
            self._require_public(view, claims)
        elif reason is None:
            self._require_own(view, new, claims)
        return new

    def _require_public(self, view: View, claims: Claims) -> None:
        """Raise DeclarationError if this benchmark's account was opened for releases, or a release
        population holds one of its sources."""
        account = view.state.account(self.population)
        if account is not None and account.purpose == "release":
            raise DeclarationError(
                f"population {self.population}: the account was opened with purpose 'release', "
                "but the file declares 'benchmark', which would show its rows: declare `purpose: "
                "release`"
            )
        protected = [
            (source, holder)
            for source, holder in claims
            if view.require_account(holder).purpose == "release"
        ]
        overlap = _overlap(self.sources, protected)
        if overlap is not None:
            source, holder = overlap
            raise DeclarationError(
                f"{source} is protected by population {holder} (release): as a benchmark, "
                f"population {self.population} would publish exact numbers about it: to read "
                f"it, declare `population: {holder}` and `purpose: release`"
            )

    def _require_own(self, view: View, new: Sequence[str], claims: Claims) -> None:
        overlap = _overlap(new, [claim for claim in claims if claim[1] != self.population])
        if overlap is not None:
            source, holder = overlap
            purpose = view.require_account(holder).purpose
            also = " and `purpose: benchmark`" if purpose == "benchmark" else ""
            raise DeclarationError(
                f"{source} belongs to population {holder} ({purpose}), so population "
                f"{self.population} (release) may read it only if its persons are others: say "
                f"so with `distinct_population: REASON`, or declare `population: {holder}`{also}"
            )


def _overlap(sources: Sequence[str], claims: Claims) -> tuple[str, str] | None:
    """Return the first of ``sources`` that a claim covers, as messages name it, and its holder;
    None: no claim covers any."""
    overlap = first_overlap(sources, [source for source, _ in claims])
    if overlap is None:
        return None
    return source_label(overlap[0]), dict(reversed(claims))[overlap[1]]
