"""Refinement: a release at a larger ε made of one at a smaller ε, for what is between them.

The answers of the smaller one get less noise; what it has paid is not paid again, so the two of
them together cost the larger ε (``gate.mechanisms.refine``). What is asked does not change: it is
what was asked then, of the very same rows.

A release is refined once, and its refinement may be refined again. The ledger holds that: all
refinements of one release would have one key (``release.bundle.ReleaseKey``).
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
class Refined:
    """The release that a refinement refines.

    key     of its draw
    begun   the row of the ledger that charged it
    """

    key: ReleaseKey
    begun: Entry

    @property
    def epsilon(self) -> Fraction:
        """That it was drawn at."""
        return self.key.epsilon

    @property
    def facts(self) -> dict[str, str]:
        """What the refinement says of it."""
        return {REFINES: self.key.digest, REFINED_FROM: epsilon_text(self.epsilon)}

    def require_settled(self, ledger: Ledger) -> None:
        """DeclarationError for a release that was not finished: its answers may be more."""
        state = ledger.state(self.key.digest)
        if state != "settled":
            raise DeclarationError(
                f"{self.begun.what}: expected a finished release to refine, got one that is {state}"
            )

    def require_same_rows(self, rows: str) -> None:
        """DeclarationError where these are not the rows that it was drawn of: noise that belongs to
        others would be refined.

        rows   keyed fingerprint of the rows that are counted now
        """
        if self.begun.facts.get(ROWS) != rows:
            raise DeclarationError(
                f"{self.begun.what}: refine: expected the rows of snapshot {self.key.snapshot} "
                "that it was drawn of, got rows that were read or prepared again otherwise"
            )


def refined_by(key: ReleaseKey, ledger: Ledger, *, what: str, asked: Fraction) -> Refined | None:
    """What the release with this key refines; None where it is drawn by itself.

    what    words for messages
    asked   the ε that it is asked to refine

    DeclarationError where nothing has that key, and where what is declared has changed since.
    """
    if not key.refines:
        return None
    past = ledger.history(key.refines)
    if not past:
        raise DeclarationError(
            f"{what}: refine: expected a release at ε={epsilon_text(asked)}, got none"
        )
    facts = past[0].facts
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
    return Refined(refined, past[0])


def require_refined_alike(key: ReleaseKey, ledger: Ledger, *, what: str, asked: Fraction) -> None:
    """DeclarationError where the release at the ε that is asked was refined otherwise: to another
    ε, or evaluated for another one.
    """
    past = ledger.history(key.digest)
    if past and (finer := past[0].facts["epsilon"]) != epsilon_text(key.epsilon):
        raise DeclarationError(
            f"{what}: refine: expected a release that was not refined yet, got one at "
            f"ε={epsilon_text(asked)} that was refined to ε={finer}: refine that one"
        )
    evaluation = "none" if key.evaluation is None else epsilon_text(key.evaluation)
    if past and past[0].facts["evaluation"] != evaluation:
        raise DeclarationError(
            f"{what}: expected the evaluation of ε={past[0].facts['evaluation']} that its "
            f"refinement was begun with, got {evaluation}"
        )


def newest_key(key: ReleaseKey, ledger: Ledger, partitions: Sequence[Fraction]) -> ReleaseKey:
    """Of a release drawn by itself and of the refinements at its ε, the one that was charged last;
    the first where none was.

    key          of that release
    partitions   every declared ε
    """
    past = ledger.history(key.digest)
    known = [(past[0].sequence, key)] if past else []
    own, level = key.with_replicate(0), epsilon_text(key.epsilon)
    known += [
        (entries[0].sequence, own.refining(entries[0].facts[REFINES]))
        for epsilon in partitions
        if epsilon < key.epsilon
        for entries in _refinements(replace(own, epsilon=epsilon), ledger)
        if entries[0].facts["epsilon"] == level and entries[-1].event != "dead"
    ]
    return max(known, key=lambda one: one[0])[1] if known else key


def _refinements(draw: ReleaseKey, ledger: Ledger) -> Iterator[tuple[Entry, ...]]:
    """What the ledger says of every refinement that goes back to this draw, or to one after it."""
    while ledger.state(draw.digest) is not None:
        finer = draw.refining(draw.digest)
        while entries := ledger.history(finer.digest):
            yield entries
            finer = finer.refining(finer.digest)
        draw = draw.with_replicate(draw.replicate + 1)
