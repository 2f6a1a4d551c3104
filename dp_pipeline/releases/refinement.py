"""Refinement: a release at a larger ε made of one at a smaller ε, for what is between them.

The answers of the smaller one get less noise; what it has paid is not paid again, so the two of
them together cost the larger ε (``gate.mechanisms.refine``). The questions do not change: they are
those of the first draw, about the very same rows.

A release is refined once, and its refinement may be refined again. The ledger holds that: all
refinements of one release would have one key (``results.bundle.ReleaseKey``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.ledger import Entry, Ledger
from dp_pipeline.releases.release import ROWS
from dp_pipeline.results.bundle import REFINED_FROM, REFINES, ReleaseKey


@dataclass(frozen=True)
class RefinedRelease:
    """The release that a refinement refines.

    key       of its draw
    reserved  the row of the ledger that charged it
    """

    key: ReleaseKey
    reserved: Entry

    @property
    def facts(self) -> dict[str, str]:
        """The facts of a refinement that name this release."""
        return {REFINES: self.key.digest, REFINED_FROM: epsilon_text(self.key.epsilon)}

    def require_settled(self, ledger: Ledger) -> None:
        """Raise DeclarationError for a release that was not finished: its answers may be more."""
        state = ledger.state(self.key.digest)
        if state != "settled":
            raise DeclarationError(
                f"{self.reserved.what}: expected a finished release to refine, got one that is "
                f"{state}"
            )

    def require_same_rows(self, rows: str) -> None:
        """Raise DeclarationError where these are not the rows that it was drawn from: noise that
        belongs to others would be refined.

        rows   keyed fingerprint of the rows that are counted now
        """
        if self.reserved.facts.get(ROWS) != rows:
            raise DeclarationError(
                f"{self.reserved.what}: refine: expected the rows of snapshot {self.key.snapshot} "
                "from which the release was drawn, got other rows, read or prepared again: "
                "put the old rows back, or run without --refine"
            )


def refined_release(
    key: ReleaseKey, ledger: Ledger, *, what: str, epsilon: Fraction
) -> RefinedRelease | None:
    """Return the release that the one with this key refines; None where it is drawn by itself.

    what      words for messages
    epsilon   the requested ε of the release to refine

    DeclarationError where nothing has that key, and where the declaration has changed since.
    """
    if not key.refines:
        return None
    history = ledger.history(key.refines)
    if not history:
        raise DeclarationError(
            f"{what}: refine: expected a release at ε={epsilon_text(epsilon)}, got none"
        )
    facts = history[0].facts
    refined = replace(
        key,
        epsilon=Fraction(facts["epsilon"]),
        noise=facts["noise"],
        snapshot=facts["snapshot"],
        replicate=int(facts["replicate"]),
        refines=facts.get(REFINES, ""),
    )
    if refined.digest != key.refines:
        raise DeclarationError(
            f"{what}: refine: expected the declarations and parameters that the release at "
            f"ε={facts['epsilon']} was drawn with, got others"
        )
    return RefinedRelease(refined, history[0])


def require_unrefined(key: ReleaseKey, ledger: Ledger, *, what: str, epsilon: Fraction) -> None:
    """Raise DeclarationError where the release at ``epsilon`` was refined to another ε than that of
    this key. Its evaluation is the same: that enters the key of the release that was refined first.
    """
    history = ledger.history(key.digest)
    if history and (finer := history[0].facts["epsilon"]) != epsilon_text(key.epsilon):
        raise DeclarationError(
            f"{what}: refine: expected a release that was not refined yet, got one at "
            f"ε={epsilon_text(epsilon)} that was refined to ε={finer}: refine that one"
        )


def newest_key(key: ReleaseKey, ledger: Ledger, partitions: Sequence[Fraction]) -> ReleaseKey:
    """Return the key that was charged last among a release drawn by itself and the refinements to
    its ε; that of the release where none was charged.

    key          of that release
    partitions   every declared ε
    """
    history = ledger.history(key.digest)
    charged = [(history[0].sequence, key)] if history else []
    first_draw, level = key.with_replicate(0), epsilon_text(key.epsilon)
    charged += [
        (entries[0].sequence, first_draw.refining(entries[0].facts[REFINES]))
        for epsilon in partitions
        if epsilon < key.epsilon
        for entries in _refinements(replace(first_draw, epsilon=epsilon), ledger)
        if entries[0].facts["epsilon"] == level and entries[-1].event != "dead"
    ]
    return max(charged, key=lambda pair: pair[0], default=(0, key))[1]


def _refinements(draw: ReleaseKey, ledger: Ledger) -> Iterator[tuple[Entry, ...]]:
    """Yield the ledger's rows of every refinement of this draw, or of a later one."""
    while ledger.state(draw.digest) is not None:
        finer = draw.refining(draw.digest)
        while entries := ledger.history(finer.digest):
            yield entries
            finer = finer.refining(finer.digest)
        draw = draw.with_replicate(draw.replicate + 1)
