"""Metadata of released tables: cliques and noise, or bits and claims; and what each step cost."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
import numpy as np

from dp_pipeline.orchestration.metadata import Metadata, line_table, record_table
from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.charge_words import cost_text
from dp_pipeline.reporting.spend_steps import steps_of


def table_metadata(bundle: Bundle) -> Metadata:
    """Of a released table: its cliques, the noise of what was measured, and what each step cost; of
    a class table its bits, its claims and how many classes are published; nothing of centres.
    """
    if "claims" in bundle.tables:
        return _class_metadata(bundle)
    if "cliques" not in bundle.tables:
        return {}
    cliques, measured = bundle.tables["cliques"], bundle.tables["measured"]
    cells = cliques["cells"].tolist()
    largest = max(zip(cells, cliques["attributes"].tolist(), strict=True), default=(0, "none"))
    return {
        "privacy/steps": _step_table(bundle),
        "table/synthetic rows": dg.MetadataValue.int(_rows(bundle.tables["codes"])),
        "table/cliques": dg.MetadataValue.int(len(cells)),
        "table/cells of all cliques": dg.MetadataValue.int(sum(cells)),
        "table/cells of the largest clique": dg.MetadataValue.int(largest[0]),
        "table/largest clique": dg.MetadataValue.text(largest[1]),
        "table/model graph": record_table(cliques),
        "table/noise": record_table(measured),
    }


def _class_metadata(bundle: Bundle) -> Metadata:
    """What is claimed stands beside what is not."""
    tables = bundle.tables
    return {
        "privacy/claims": record_table(tables["claims"]),
        "table/bits": record_table(tables["bits"]),
        "table/published classes": dg.MetadataValue.int(_rows(tables["classes"])),
        "table/threshold": record_table(tables["threshold"]),
    }


def _step_table(bundle: Bundle) -> dg.MetadataValue:
    """One row a step."""
    lines = [
        (one.name, one.charges, cost_text(one.cost), f"{float(one.share):.1%}")
        for one in steps_of(bundle)
    ]
    return line_table(("step", "charges", bundle.currency.symbol, "share"), lines)


def _rows(table: Mapping[str, np.ndarray]) -> int:
    return max((len(values) for values in table.values()), default=0)
