"""What must hold before a release is charged or gone on with: declarations and ledger decide."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.ledger import Charge, Ledger
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


def begun_with(key: ReleaseKey, ledger: Ledger) -> str | None:
    """The post-processing that a release was charged with, None before it was."""
    past = ledger.history(key.digest)
    return past[0].facts["postprocessing"] if past else None
