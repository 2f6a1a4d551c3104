"""Metadata of releases with an ε: what was spent, how it was drawn, where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import dagster as dg

from dp_pipeline.orchestration.metadata import Metadata, line_table, number
from dp_pipeline.orchestration.publishing import Published
from dp_pipeline.orchestration.release import code_version
from dp_pipeline.orchestration.table_metadata import table_metadata
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.charge_words import cost_text, count_text, question_words
from dp_pipeline.reporting.number_text import number_text
from dp_pipeline.schema.currency import delta_text
from dp_pipeline.schema.epsilon import NANO, epsilon_text


def released_metadata(published: Published, card: Path, beside: Sequence[str] = ()) -> Metadata:
    """What a release spent, from its accountant; how it was come by; where it comes from.

    card     the file that says it in words
    beside   releases of the same sensitive rows without any ε
    """
    bundle = published.bundle
    return {
        "release card": dg.MetadataValue.md(card.read_text(encoding="utf-8")),
        **kind_metadata(bundle),
        **beside_metadata(beside),
        **_epsilon_metadata(bundle),
        "privacy/charged by this run": dg.MetadataValue.text(
            bundle.currency.text(Fraction(published.nano, NANO))
        ),
        "privacy/state": dg.MetadataValue.text(published.state),
        # What is short stands first: there may be a hundred charges.
        **table_metadata(bundle),
        "privacy/mechanisms": spend_table(bundle),
        "older code": dg.MetadataValue.bool(bundle.facts["code"] != code_version()),
        "fit for release": dg.MetadataValue.bool(bundle.fit_for_release),
        "release key": dg.MetadataValue.text(bundle.key),
        "provenance": dg.MetadataValue.json(dict(bundle.facts)),
        **{f"quality/{name}": number(one.value) for name, one in bundle.quality.items()},
        "card": dg.MetadataValue.path(card),
    }


def kind_metadata(bundle: Bundle) -> Metadata:
    """``dp`` or ``not-dp``, and why where it is not the ε that was asked."""
    texts = {"privacy/kind": bundle.kind}
    if bundle.caveat:
        texts["privacy/caveat"] = bundle.caveat
    return {name: dg.MetadataValue.text(text) for name, text in texts.items()}


def beside_metadata(beside: Sequence[str]) -> Metadata:
    """What was released of the same sensitive rows without any ε; nothing where nothing was."""
    if not beside:
        return {}
    text = f"not differentially private, of the same persons: {'; '.join(beside)}"
    return {"privacy/beside it": dg.MetadataValue.text(text)}


def _epsilon_metadata(bundle: Bundle) -> Metadata:
    """The ε that holds: a number to plot only where there is one, and exactly where that number
    does not say it; and the ρ that was paid.
    """
    exactly: Metadata = {"privacy/epsilon exactly": dg.MetadataValue.text(bundle.spent_text)}
    if not bundle.is_dp:
        return exactly
    plotted = number(float(bundle.epsilon))
    told: Metadata = {"privacy/epsilon": plotted}
    if bundle.spent_text != epsilon_text(Fraction(str(plotted.value))):
        told |= exactly
    if bundle.currency.delta is not None:
        told["privacy/rho"] = number(float(bundle.charged))
        told["privacy/delta"] = dg.MetadataValue.text(delta_text(bundle.currency.delta))
    return told


def spend_table(bundle: Bundle) -> dg.MetadataValue:
    """One row a charge, with what it cost in the lineage's currency, in words and short numbers:
    the bundle has every digit.
    """
    lines = [
        (
            question_words(one.what),
            cost_text(cost),
            one.mechanism,
            number_text(float(one.scale)),
            count_text(one.sensitivity),
        )
        for one, cost in zip(bundle.spends, bundle.costs, strict=True)
    ]
    # A narrow window cuts off what stands last.
    names = ("question", bundle.currency.symbol, "mechanism", "scale", "sensitivity")
    return line_table(names, lines)
