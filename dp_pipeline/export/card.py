"""The card of a release as figures: what a program reads where a person reads the sentences.

``guarantee`` is a function of the bundle alone: whoever has the folder can compute it again.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.releases import (
    PrivateRelease,
    ReportedRelease,
    mechanisms_of,
    standing_of,
)
from dp_pipeline.reporting.text import cost_text, plain
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.formats import EXPORT

CARD = "card"
"""The name of its three files, without their endings."""

_LINES = 12
"""Of mechanisms, on a card for people."""


def guarantee(bundle: Bundle) -> dict[str, Any]:
    """What a bundle guarantees, what was paid, and what lies in it: amounts are exact texts."""
    return {
        "standing": str(standing_of(bundle)),
        "cleared": is_cleared(bundle),
        "caveat": bundle.caveat,
        "kind": bundle.kind,
        "epsilon": epsilon_text(bundle.epsilon) if bundle.is_dp else "none",
        "spent": bundle.spent_text,
        "currency": bundle.currency.name,
        "own_delta": str(bundle.own_delta),
        "charges": len(bundle.spends),
        "mechanisms": [
            {"mechanism": name, "scale": scale, "charges": charges, "cost": str(cost)}
            for name, scale, charges, cost in mechanisms_of(bundle)
        ],
        "quality": {name: vars(number) for name, number in bundle.quality.items()},
        "lines": {
            name: max((len(values) for values in table.values()), default=0)
            for name, table in bundle.tables.items()
        },
        "facts": dict(bundle.facts),
        "key": bundle.key,
        "answers": bundle.transcript,
    }


def is_cleared(bundle: Bundle) -> bool:
    """Whether it may leave without being asked for by what it lacks: the ε that was asked holds,
    and nobody can draw its noise again.
    """
    return bundle.is_dp and not bundle.caveat and bundle.fit_for_release


def card_json(release: ReportedRelease) -> bytes:
    """The figures of a card, with what the declaration and the account say beside the bundle."""
    spec = release.spec
    told = {
        "format": EXPORT,
        "release": release.name,
        "guarantee": guarantee(release.bundle),
        "data set": {
            "title": spec.title,
            "description": spec.description,
            "unit": str(spec.protection),
            "relation": spec.relation,
        },
        "method": release.summary,
        "warnings": list(release.warnings),
        "without any ε beside it": list(release.beside),
        "population": _population(release),
    }
    return f"{json.dumps(told, indent=1, ensure_ascii=False)}\n".encode()


def _population(release: ReportedRelease) -> dict[str, str]:
    """What everything ever drawn from its persons has cost, when the card was written."""
    named = {"name": release.spec.population}
    if not isinstance(release, PrivateRelease) or release.balance is None:
        return named
    balance = release.balance
    ceiling = balance.ceiling
    return {
        **named,
        "currency": balance.currency.name,
        "spent": epsilon_text(balance.spent),
        "ceiling": "none" if ceiling is None else epsilon_text(ceiling),
        "delta": str(balance.delta_spent or Fraction(0)),
    }


def lines_on_card(bundle: Bundle) -> list[str]:
    """What a card for people has to say of this bundle, in Markdown."""
    said = [str(standing_of(bundle)), bundle.key]
    if not bundle.is_dp:
        return said if bundle.is_k_anonymous else [*said, plain(bundle.caveat)]
    lines = [
        f"| {plain(name)} | {plain(scale)} | {charges:,} | {plain(cost_text(cost))} |"
        for name, scale, charges, cost in mechanisms_of(bundle)[:_LINES]
    ]
    return [*said, bundle.transcript, f"ε = {plain(bundle.spent_text)} exactly", *lines]
