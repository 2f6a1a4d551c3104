"""Refinement: a release at a larger ε made of one at a smaller ε, for what is between them.

The answers of the smaller one get less noise; what it has paid is not paid again, so the two of
them together cost the larger ε (``gate.mechanisms.refine``). What is asked does not change: it is
what was asked then, of the very same rows.

A release is refined once, and its refinement may be refined again. The ledger holds that: all
refinements of one release would have one key (``release.bundle.ReleaseKey``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_pipeline.gate.curator import Answered
from dp_pipeline.models.base import Coarse
from dp_pipeline.publish.release import ROWS
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import REFINED_FROM, REFINES, ReleaseKey
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.ledger import Entry
    from dp_pipeline.publish.epsilon_release import EpsilonRelease


def _refinable(release: EpsilonRelease) -> Fraction:
    """The ε that is to be refined; DeclarationError for a release that cannot refine another one,
    whatever was released.
    """
    model, asked = release.model, release.refine or Fraction(0)
    where = f"{'/'.join(release.path)}: refine"
    if not model.refines:
        raise DeclarationError(
            f"{where}: expected a model that asks the same questions at every ε, got {release.name}"
        )
    if model.plans_from_earlier:
        raise DeclarationError(
            f"{where}: expected a model that plans from nothing, got one with "
            "`plan_from: previous`: its numbers may be those of two windows"
        )
    if model.prior_name:
        raise DeclarationError(f"{where}: expected a model without `prior`, got one")
    if release.guarantee.currency != release.spec.currency:
        raise DeclarationError(
            f"{where}: expected a model that accounts in ρ, as its population has a declared δ, "
            f"got {release.name}: what is between two ε is no difference there"
        )
    if not 0 < asked < release.epsilon:
        raise DeclarationError(
            f"{where}: expected a declared ε below {release.level}, got {epsilon_text(asked)}"
        )
    return asked


def asked_key(release: EpsilonRelease, snapshot: Snapshot) -> ReleaseKey:
    """The key of the refinement that is asked for by name.

    DeclarationError where that release was refined otherwise: at another ε, or evaluated for
    another one.
    """
    base = replace(release, epsilon=_refinable(release), refine=None)
    key = release.draw_key(snapshot.names).refining(base.key(snapshot).digest)
    past = release.home.ledger.history(key.digest)
    if past and (found := past[0].facts["epsilon"]) != release.level:
        raise DeclarationError(
            f"{'/'.join(release.path)}: refine: expected a release that was not refined yet, got "
            f"one at ε={base.level} that was refined to ε={found}: refine that one"
        )
    if past and past[0].facts["evaluation"] != _evaluation(release):
        raise DeclarationError(
            f"{'/'.join(release.path)}: expected the evaluation of ε="
            f"{past[0].facts['evaluation']} that its refinement was begun with, got "
            f"{_evaluation(release)}"
        )
    return key


def newest_key(release: EpsilonRelease, snapshot: Snapshot, cold: ReleaseKey) -> ReleaseKey:
    """Of a release drawn by itself and of the refinements at its ε, the one that was charged last;
    the first where none was.
    """
    past = release.home.ledger.history(cold.digest)
    found = [(past[0].sequence, cold)] if past else []
    found += [
        (entries[0].sequence, release.draw_key(snapshot.names).refining(entries[0].facts[REFINES]))
        for entries in _refinements(release, snapshot)
        if entries[0].facts["epsilon"] == release.level and entries[-1].event != "dead"
    ]
    return max(found, key=lambda one: one[0])[1] if found else cold


def _refinements(release: EpsilonRelease, snapshot: Snapshot) -> Iterator[tuple[Entry, ...]]:
    """What the ledger says of every refinement that goes back to a release of this model at a
    smaller ε.
    """
    ledger = release.home.ledger
    for epsilon in release.spec.partitions:
        draw = replace(release, epsilon=epsilon).draw_key(snapshot.names)
        while epsilon < release.epsilon and ledger.state(draw.digest) is not None:
            finer = draw.refining(draw.digest)
            while entries := ledger.history(finer.digest):
                yield entries
                finer = finer.refining(finer.digest)
            draw = draw.with_replicate(draw.replicate + 1)


def _evaluation(release: EpsilonRelease) -> str:
    return "none" if release.evaluation is None else epsilon_text(release.evaluation)


@dataclass(frozen=True)
class Refined:
    """The release that a refinement refines.

    release   as it is declared today
    key       of its draw
    begun     the row of the ledger that charged it
    """

    release: EpsilonRelease
    key: ReleaseKey
    begun: Entry

    @classmethod
    def by(cls, release: EpsilonRelease, key: ReleaseKey) -> Refined | None:
        """What the release with this key refines; None where it is drawn by itself.

        DeclarationError where nothing has that key, and where what is declared has changed since.
        """
        if not key.refines:
            return None
        past = release.home.ledger.history(key.refines)
        if not past:
            epsilon = epsilon_text(release.refine or Fraction(0))
            raise DeclarationError(
                f"{'/'.join(release.path)}: refine: expected a release at ε={epsilon}, got none"
            )
        facts = past[0].facts
        base = replace(
            release, epsilon=Fraction(facts["epsilon"]), noise_name=facts["noise"], refine=None
        )
        drawn = base.draw_key(facts["snapshot"], int(facts["replicate"]))
        found = drawn.refining(facts.get(REFINES, ""))
        if found.digest != key.refines:
            raise DeclarationError(
                f"{'/'.join(release.path)}: refine: expected the declarations and parameters that "
                f"the release at ε={base.level} was drawn with, got others"
            )
        return cls(base, found, past[0])

    @property
    def facts(self) -> dict[str, str]:
        """What the refinement says of it."""
        return {REFINES: self.key.digest, REFINED_FROM: self.release.level}

    def require_settled(self) -> None:
        """DeclarationError for a release that was not finished: its answers may be more."""
        state = self.release.home.ledger.state(self.key.digest)
        if state != "settled":
            raise DeclarationError(
                f"{self.release.what}: expected a finished release to refine, got one that is "
                f"{state}"
            )

    def require_same_rows(self, rows: str) -> None:
        """DeclarationError where these are not the rows that it was drawn of: noise that belongs to
        others would be refined.

        rows   keyed fingerprint of the rows that are counted now
        """
        if self.begun.facts.get(ROWS) != rows:
            raise DeclarationError(
                f"{self.release.what}: refine: expected the rows of snapshot {self.key.snapshot} "
                "that it was drawn of, got rows that were read or prepared again otherwise"
            )

    def told(self) -> tuple[Coarse, Answered]:
        """What it released, made again from its stored answers, and these answers; Damaged where
        they are not those that were settled.
        """
        fitted, answered = self.release.told(self.key)
        return Coarse(fitted.released, self.release.guarantee.amount), answered
