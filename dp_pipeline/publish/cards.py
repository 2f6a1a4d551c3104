"""What the card of a release says, from its bundle and its declaration.

The card of a k-anonymous release is sealed with its bundle. That of a release at an ε is made anew
by every run, as the sum of all charges grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dp_pipeline.publish.epsilon_release import EpsilonRelease
from dp_pipeline.publish.k_anonymous_release import CARD, declared_method
from dp_pipeline.publish.release import BESIDE, Release, not_dp_beside
from dp_pipeline.publish.store import write_atomically
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting import releases
from dp_pipeline.reporting.pages import card
from dp_pipeline.spec.dataset import DatasetSpec


def write_card(release: Release, bundle: Bundle, folder: Path) -> Path:
    """The card of a release, in markdown: written now, or as it lies with the bundle.

    folder   where the bundle lies
    """
    if not isinstance(release, EpsilonRelease):
        return folder / CARD
    ledger = release.home.ledger
    reported = releases.PrivateRelease(
        spec=release.spec,
        bundle=bundle,
        summary=release.summary,
        balance=ledger.balance(release.spec.population),
        beside=not_dp_beside(release.spec, ledger),
    )
    cards = release.home.reports / f"{release.spec.name}.cards"
    path = cards / f"{release.name}.{release.level}.md"
    write_atomically(path, card(reported).encode())
    return path


def sealed_texts(spec: DatasetSpec, bundle: Bundle) -> dict[str, str]:
    """File name → what a person reads beside a bundle, sealed with it."""
    if not bundle.is_k_anonymous:
        return {}
    return {CARD: card(k_anonymous(spec, bundle, {}))}


def k_anonymous(
    spec: DatasetSpec, bundle: Bundle, figures: Mapping[str, float]
) -> releases.KAnonymousRelease:
    """One k-anonymous release for a reader.

    figures   of its evaluation, on public rows
    """
    earlier = bundle.facts.get(BESIDE)
    return releases.KAnonymousRelease(
        spec=spec,
        bundle=bundle,
        summary=declared_method(spec, bundle.facts["model"]).summary,
        beside=earlier.split("; ") if earlier else (),
        figures=figures,
    )
