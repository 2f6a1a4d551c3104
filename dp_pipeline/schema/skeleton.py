"""The text of a data set file that a person finishes with an editor.

For sensitive rows it is a function of names and types alone, and every decision that they cannot
make is a ``TODO``, which the parser refuses. For public rows nothing is left open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dp_pipeline.schema import skeleton_words as words
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.fields import TODO
from dp_pipeline.schema.formats import DATASET_FILE
from dp_pipeline.schema.skeleton_columns import (
    Attributes,
    may_have_cells,
    open_columns,
    proposed_columns,
    proposed_label,
)
from dp_pipeline.schema.skeleton_models import models
from dp_pipeline.schema.yaml_text import Value, flow_mapping, scalar

SCHEMA_FILE = "dataset.schema.json"


@dataclass(frozen=True)
class Outline:
    """What a draft is made of.

    name     of the data set
    origin   what a person calls the source: the name of a file
    source   the fields of the section ``source``
    columns  attribute name → column, without the person's
    person   the column that names the person, or None
    """

    name: str
    origin: str
    source: Mapping[str, Value]
    columns: Attributes
    person: str | None = None

    def __post_init__(self) -> None:
        if not any(map(may_have_cells, self.columns.values())):
            raise DeclarationError(
                f"{self.origin}: expected a column to declare beside the person's, got none"
            )


def sensitive_skeleton(outline: Outline) -> str:
    """A release with open decisions: of names and types, and of nothing else."""
    return (
        _head(outline, words.DRAFT, f"The rows of {outline.origin}: sensitive.")
        + "purpose: release\n"
        + _open_protection(outline.person)
        + words.CEILING
        + f"source: {flow_mapping(outline.source)}\n"
        + words.ATTRIBUTES
        + open_columns(outline.columns)
        + words.PARTITIONS
        + models(outline.columns, is_open=True)
        + words.AFTER_MODELS
    )


def public_skeleton(outline: Outline, *, rows: int) -> str:
    """A benchmark with everything proposed, from ``rows`` rows that anyone may see."""
    label = proposed_label(outline.columns)
    return (
        _head(outline, words.PROPOSED, f"The {rows:,} rows of {outline.origin}: public.")
        + "purpose: benchmark\n"
        + _public_protection(outline.person)
        + f"source: {flow_mapping(outline.source)}\n"
        + "attributes:\n"
        + proposed_columns(outline.columns)
        + (f"label: {label}\n" if label else words.LABEL)
        + f"nominal_rows: {max(rows, 1)}\n"
        + "partitions: [0.1, 0.5, 1]\n"
        + models(outline.columns, is_open=False)
    )


def _head(outline: Outline, draft: str, description: str) -> str:
    title = outline.name.replace("_", " ").capitalize()
    return (
        f"# yaml-language-server: $schema={SCHEMA_FILE}\n{draft}"
        f"format: {DATASET_FILE}\nname: {outline.name}\n"
        f"title: {scalar(title)}\ndescription: {scalar(description)}\n"
        f"{words.LINEAGE}lineage: {outline.name}\n"
    )


def _open_protection(person: str | None) -> str:
    if person is None:
        return words.UNIT
    fields = {"unit": "rows_of_person", "column": person, "at_most": TODO}
    return f"{words.PERSON}protection: {flow_mapping(fields)}\n"


def _public_protection(person: str | None) -> str:
    if person is None:
        return "protection: {unit: one_row}\n"
    fields = {"unit": "rows_of_person", "column": person, "at_most": "20"}
    return f"{words.PERSON}protection: {flow_mapping(fields)}\n"
