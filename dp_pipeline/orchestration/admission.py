"""What must hold before a release is charged or gone on with: declarations and ledger decide."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.ledger import Charge, Entry, Ledger
from dp_pipeline.orchestration.release import Release
from dp_pipeline.release.key import ReleaseKey
from dp_pipeline.schema.epsilon import NANO
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.parameter_facts import fact_text


def require_affordable(charge: Charge, ledger: Ledger) -> None:
    """Refuse what cannot fit before a file is made for it; ``reserve`` has the last word."""
    asked = Fraction(charge.nano_epsilon, NANO)
    balance = ledger.balance(charge.lineage)
    balance.require_room(asked, what=charge.what, where=charge.lineage)


def require_as_begun(release: Release, key: ReleaseKey) -> None:
    """DeclarationError for a release that was begun with another post-processing.

    Its evaluation asks about its own centres or tables: other ones would be other
    questions, of which the charge holds one set only. Settled, it may be changed for nothing.
    """
    ledger, now = release.home.ledger, fact_text(release.postprocessing)
    is_unfinished = ledger.state(key.digest) in ("reserved", "interrupted")
    if release.evaluation is None or not is_unfinished:
        return
    begun = begun_with(key, ledger)
    if begun != now:
        raise DeclarationError(
            f"{key.dataset}/{key.model}: expected the parameters {begun} that the charged release "
            f"was begun with, got {now}: finish it first"
        )


def begun_by_another(key: ReleaseKey, ledger: Ledger) -> str:
    """Who began a release that this program would ask otherwise, and what can be done."""
    begun = _begun(key, ledger)
    code = "another version" if begun is None else begun.facts.get("code", "another version")
    return (
        f"its answers stay as they are: finish it with {code}, or give it up by "
        f"`dp-pipeline budget give-up {key.digest[:12]} --reason …` and draw anew with --fresh"
    )


def begun_with(key: ReleaseKey, ledger: Ledger) -> str | None:
    """The post-processing that a release was charged with, None before it was."""
    begun = _begun(key, ledger)
    return None if begun is None else begun.facts["postprocessing"]


def _begun(key: ReleaseKey, ledger: Ledger) -> Entry | None:
    """The row that charged a release, None before it was."""
    return next(iter(ledger.history(key.digest)), None)
