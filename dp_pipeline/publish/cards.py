"""What the card and the page of a k-anonymous release say, from its bundle and its declaration.

The card of a release with an ε: made anew by every run, as the sum of all charges grows.

The tables of a k-anonymous release: what leaves, and what was measured of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.publish.epsilon_release import EpsilonRelease
from dp_pipeline.publish.k_anonymous_release import CARD, declared_method
from dp_pipeline.publish.k_anonymous_tables import TableFacts, measures_of
from dp_pipeline.publish.release import BESIDE, Release, not_dp_beside
from dp_pipeline.publish.store import write_atomically
from dp_pipeline.release.bundle import ALLOWED, Bundle
from dp_pipeline.reporting.card import PrivateRelease, private_card
from dp_pipeline.reporting.k_anonymity_card import release_card
from dp_pipeline.reporting.k_anonymous_promise import AnonymousRelease, KeptColumn, LeftOut
from dp_pipeline.reporting.text import parameter_words
from dp_pipeline.spec.dataset import DatasetSpec


def write_card(release: Release, bundle: Bundle, folder: Path) -> Path:
    """The card of a release, in markdown. That of a k-anonymous one is sealed with the bundle; any
    other is written anew each time, with the reports, as the sum of all charges grows.

    folder   where the bundle lies
    """
    if not isinstance(release, EpsilonRelease):
        return folder / CARD
    ledger = release.home.ledger
    told = PrivateRelease(
        spec=release.spec,
        bundle=bundle,
        summary=release.summary,
        balance=ledger.balance(release.spec.lineage),
        beside=not_dp_beside(release.spec, ledger),
    )
    path = (
        release.home.reports / f"{release.spec.name}.cards" / f"{release.name}.{release.level}.md"
    )
    write_atomically(path, private_card(told).encode())
    return path


def sealed_texts(spec: DatasetSpec, bundle: Bundle) -> dict[str, str]:
    """File name → what a person reads beside a bundle, sealed with it: the card of a k-anonymous
    release. That of another one says what the population has left, and is written anew each time.
    """
    return (
        {CARD: release_card(anonymous_release(spec, bundle, {}))} if bundle.is_k_anonymous else {}
    )


def anonymous_release(
    spec: DatasetSpec, bundle: Bundle, figures: Mapping[str, float]
) -> AnonymousRelease:
    """One release for a reader.

    figures   of its evaluation, on public rows
    """
    facts = bundle.facts
    told = {*facts["attributes"].split(), facts["label"]}
    labels = () if spec.is_release else _rows(bundle, "suppressed")
    return AnonymousRelease(
        title=spec.title,
        dataset=facts["dataset"],
        lineage=spec.lineage,
        purpose=spec.purpose,
        method=facts["model"],
        summary=declared_method(spec, facts["model"]).summary,
        k=int(facts["k"]),
        diversity=int(facts["diversity"]),
        suppress=Fraction(facts["suppress"]),
        label=facts["label"],
        columns=tuple(KeptColumn(*texts) for texts in _rows(bundle, "columns")),
        outside=tuple(name for name in spec.domain.names if name not in told),
        measures=measures_of(bundle),
        suppressed=TableFacts.of(bundle).left_out,
        left_out=tuple(LeftOut(*values) for values in labels),
        allowed=facts[ALLOWED] == "yes",
        earlier=tuple(facts[BESIDE].split("; ")) if BESIDE in facts else (),
        figures=figures,
        provenance={
            "Snapshot": facts["snapshot"],
            "Parameters": parameter_words(facts["parameters"]),
            "Seed": facts["seed"],
            "Code": facts["code"],
            "Release key": bundle.key,
        },
    )


def _rows(bundle: Bundle, table: str) -> list[tuple[Any, ...]]:
    """The lines of a small table of a bundle."""
    columns = (values.tolist() for values in bundle.tables[table].values())
    return list(zip(*columns, strict=True))
