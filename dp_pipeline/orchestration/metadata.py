"""Metadata of assets: the raw side's, and the values that every side's are made of.

What a raw asset shows comes from this file and ``column_metadata`` alone: names,
stages and declarations. No count, no value, no preview: what the event log holds
is read by more people than the raw store.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence

import dagster as dg
import numpy as np

from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.reporting.rows import QualityRow

Metadata = dict[str, dg.MetadataValue]

MOST_COLUMNS = 5
"""Dagster shows a table in a narrow window: more columns are cut off there."""


def raw_metadata(snapshot: Snapshot, **facts: str) -> Metadata:
    """Metadata of a raw-side asset: the snapshot's name and declared facts, as text."""
    texts = {"snapshot": snapshot.id, **facts}
    return {name: dg.MetadataValue.text(text) for name, text in texts.items()}


def quality_metadata(rows: Sequence[QualityRow]) -> Metadata:
    """One number a model and metric: what the Plots tab draws over ε."""
    return {f"{row.model}/{row.metric}": number(row.value) for row in rows}


def number(value: float) -> dg.MetadataValue:
    """Four significant digits; text where there is no number."""
    if not math.isfinite(value):
        return dg.MetadataValue.text("not a number")
    return dg.MetadataValue.float(float(f"{value:.4g}"))


def picture(png: bytes) -> dg.MetadataValue:
    """A small PNG, opened by a click in the UI."""
    return dg.MetadataValue.md(f"![](data:image/png;base64,{base64.b64encode(png).decode()})")


def line_table(
    names: Sequence[str], lines: Sequence[Sequence[str | int | float]]
) -> dg.MetadataValue:
    """A table of at most five columns, that has its head without a line too."""
    records = [dg.TableRecord(dict(zip(names, line, strict=True))) for line in lines]
    columns = [dg.TableColumn(name) for name in names]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns))


def record_table(table: Mapping[str, np.ndarray]) -> dg.MetadataValue:
    """A short released table, real numbers with four digits; as text where one is none. One of
    too many columns is turned on its side where it has one line, else its first columns are shown.
    """
    columns = [[_rounded(value) for value in values.tolist()] for values in table.values()]
    if len(table) <= MOST_COLUMNS:
        return line_table(list(table), list(zip(*columns, strict=True)))
    if all(len(values) == 1 for values in columns):
        turned = [(name, str(value)) for name, (value,) in zip(table, columns, strict=True)]
        return line_table(("name", "value"), turned)
    first = columns[:MOST_COLUMNS]
    return line_table(list(table)[:MOST_COLUMNS], list(zip(*first, strict=True)))


def _rounded(value: float | str) -> float | int | str:
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)
