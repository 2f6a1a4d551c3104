"""Refinement: a release at a larger ε, made from one at a smaller ε for the difference in cost.

The answers of the earlier release get less noise (``gate.mechanisms.refinement_query``); questions
and rows stay the same. A release is refined once, and its refinement may be refined again: all
refinements of one release have the same key (``results.bundle.ReleaseKey``), which the ledger
charges once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.ledger import Entry, Ledger
from dp_pipeline.releases.home import NOISE_VARIABLE
from dp_pipeline.releases.release import ROWS
from dp_pipeline.results.bundle import REFINED_FROM, REFINES, ReleaseKey


@dataclass(frozen=True)
class RefinedRelease:
    """The earlier release from which a refinement starts.

    key       the key of its draw
    reserved  the row of the ledger that charged it
    """

    key: ReleaseKey
    reserved: Entry

    @property
    def facts(self) -> dict[str, str]:
        return {REFINES: self.key.digest, REFINED_FROM: epsilon_text(self.key.epsilon)}

    def require_refinable(self, ledger: Ledger, rows: str) -> None:
        """Raise DeclarationError unless the release is settled and was drawn from the same rows.

        The noise in counts of other rows cannot be refined.

        rows   keyed fingerprint of the rows that are counted now
        """
        state = ledger.state(self.key.digest)
        if state != "settled":
            remedy = "run without --refine" if state == "dead" else "run it without --refine first"
            raise DeclarationError(
                f"{self.reserved.what}: only a finished release can be refined, but this one is "
                f"{state}: {remedy}"
            )
        if self.reserved.facts.get(ROWS) != rows:
            raise DeclarationError(
                f"{self.reserved.what}: refine: the rows of snapshot {self.key.snapshot} were "
                "read or prepared again, so they are not those of the release: put the old rows "
                "back, or run without --refine"
            )


def refined_release(
    key: ReleaseKey, ledger: Ledger, *, what: str, epsilon: Fraction
) -> RefinedRelease | None:
    """Return the release that ``key.refines`` names; None if the key refines nothing.

    what      name of the refinement, for messages alone
    epsilon   the requested ε of the release to refine, for messages alone

    DeclarationError if the ledger has no such release, or if that was drawn with other declarations
    or parameters than those of ``key``. Its state may be any: see ``require_refinable``.
    """
    if not key.refines:
        return None
    history = ledger.history(key.refines)
    if not history:
        raise DeclarationError(
            f"{what}: refine: no release at ε={epsilon_text(epsilon)} exists of these rows and "
            f"declarations with {key.noise} noise: run at that ε first, set {NOISE_VARIABLE} to "
            "the noise of the earlier release, or run without --refine"
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
        changed = "declarations" if facts["declaration"] != key.declaration else "parameters"
        raise DeclarationError(
            f"{what}: refine: the {changed} are not those that the release at "
            f"ε={facts['epsilon']} was drawn with: put them back, or run without --refine"
        )
    return RefinedRelease(refined, history[0])


def require_unrefined(key: ReleaseKey, ledger: Ledger, *, what: str, epsilon: Fraction) -> None:
    """Raise DeclarationError if the release at ``epsilon`` was already refined to another ε.

    key   of the requested refinement
    """
    history = ledger.history(key.digest)
    if history and (finer := history[0].facts["epsilon"]) != epsilon_text(key.epsilon):
        remedy = "refine that one" if Fraction(finer) < key.epsilon else "run without --refine"
        raise DeclarationError(
            f"{what}: refine: the release at ε={epsilon_text(epsilon)} was refined already to "
            f"ε={finer}: {remedy}"
        )


def newest_key(key: ReleaseKey, ledger: Ledger, partitions: Sequence[Fraction]) -> ReleaseKey:
    """Return the key of the release at one ε that was charged last; ``key`` if none was.

    It may be a refinement of a release at a smaller ε, unless that refinement is dead.

    key          of a first draw at the ε
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
    """Yield the ledger rows of every refinement of this draw or of a later draw."""
    while ledger.state(draw.digest) is not None:
        finer = draw.refining(draw.digest)
        while entries := ledger.history(finer.digest):
            yield entries
            finer = finer.refining(finer.digest)
        draw = draw.with_replicate(draw.replicate + 1)
