"""What a person sees of an asset first: its group, its icons, its tags."""

from __future__ import annotations

from typing import Literal

from dp_pipeline.schema.spec import DatasetSpec

Side = Literal["raw", "released", "internal", "syntactic"]

_SENTENCES: dict[Side, str] = {
    "raw": "1_rows_stay_private",
    "released": "2_noise_goes_public",
    "internal": "3_steward_looks_on",
    "syntactic": "4_classes_without_noise",
}

_ICONS = {"sklearn": "scikitlearn", "generator": "python"}
"""Kinds of sources that Dagster calls otherwise."""


def group_name(spec: DatasetSpec, side: Side) -> str:
    """The group of one side of one data set; collapsed, it is all that the lineage page shows."""
    return f"{spec.name}_{_SENTENCES[side]}"


def side_tags(spec: DatasetSpec, side: Side) -> dict[str, str]:
    """Tags to filter by."""
    return {"side": side, "purpose": spec.purpose, "lineage": spec.lineage}


def source_kind(spec: DatasetSpec) -> str:
    """The kind of the source, by the name under which Dagster knows its icon."""
    return _ICONS.get(spec.source.kind, spec.source.kind)
