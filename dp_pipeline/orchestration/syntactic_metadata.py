"""Metadata of k-anonymous releases: what their card says, and numbers to plot over K.

Of the released table alone: nothing of columns that were not kept, and no time on release data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from dp_pipeline.orchestration.anonymity_quality import Figures
from dp_pipeline.orchestration.anonymizing import Anonymous
from dp_pipeline.orchestration.metadata import Metadata, number, record_table
from dp_pipeline.orchestration.released_metadata import beside_metadata, kind_metadata
from dp_pipeline.orchestration.syntactic_release import syntactic_code
from dp_pipeline.orchestration.syntactic_tables import TableFacts


def anonymous_metadata(anonymous: Anonymous, beside: Sequence[str]) -> Metadata:
    """What was released, how it was come by, and its card.

    beside   other releases of the same sensitive rows without any ε
    """
    bundle = anonymous.bundle
    shown = TableFacts.of(bundle)
    return {
        "release card": dg.MetadataValue.md(anonymous.card.read_text(encoding="utf-8")),
        **kind_metadata(bundle),
        **beside_metadata(beside),
        "privacy/state": dg.MetadataValue.text(anonymous.state),
        "anonymity/K": dg.MetadataValue.int(shown.k),
        "anonymity/diversity": dg.MetadataValue.int(shown.diversity),
        "anonymity/kept columns": dg.MetadataValue.int(shown.columns),
        "anonymity/classes": dg.MetadataValue.int(shown.classes),
        "anonymity/smallest class": dg.MetadataValue.int(shown.smallest),
        "anonymity/homogeneous share": number(shown.homogeneous),
        "anonymity/rows left out": dg.MetadataValue.int(shown.left_out),
        "columns": record_table(bundle.tables["columns"]),
        "measures": record_table(bundle.tables["measures"]),
        "older code": dg.MetadataValue.bool(bundle.facts["code"] != syntactic_code()),
        "fit for release": dg.MetadataValue.bool(bundle.fit_for_release),
        "release key": dg.MetadataValue.text(bundle.key),
        "provenance": dg.MetadataValue.json(dict(bundle.facts)),
        "card": dg.MetadataValue.path(anonymous.card),
    }


def figure_metadata(figures: Mapping[str, Figures]) -> Metadata:
    """One number a method and figure: what the Plots tab draws over K."""
    return {
        f"{method}/{name}": number(value)
        for method, found in figures.items()
        for name, value in found.items()
    }
