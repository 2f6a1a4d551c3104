"""The card of a release with an ε: made anew by every run, as the sum of all charges grows."""

from __future__ import annotations

from pathlib import Path

from dp_pipeline.orchestration.beside import not_dp_beside
from dp_pipeline.orchestration.release import Release
from dp_pipeline.orchestration.storage import write_atomically
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.private_card import private_card
from dp_pipeline.reporting.private_release import PrivateRelease
from dp_pipeline.schema.epsilon import epsilon_text


def card_path(release: Release) -> Path:
    """Where the card of a release lies: with the reports, not in the bundle."""
    name = f"{release.name}.{epsilon_text(release.epsilon)}.md"
    return release.home.reports / f"{release.spec.name}.cards" / name


def write_private_card(release: Release, bundle: Bundle) -> Path:
    """Write the card of a stored release, in markdown."""
    ledger = release.home.ledger
    told = PrivateRelease(
        spec=release.spec,
        bundle=bundle,
        summary=release.model.summary,
        balance=ledger.balance(release.spec.lineage),
        beside=not_dp_beside(release.spec, ledger),
    )
    path = card_path(release)
    write_atomically(path, private_card(told).encode())
    return path
