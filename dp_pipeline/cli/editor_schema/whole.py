"""The JSON Schema (draft 2020-12) of data set files, for editors: shapes, words, short helps.

The parser stays the judge: no schema knows whether a ceiling holds. Editors give a value a
type that the parser reads as text, so ``0.5`` and ``"0.5"`` are both let through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dp_pipeline.anonymity import METHODS
from dp_pipeline.cli.editor_schema.attributes import ATTRIBUTES
from dp_pipeline.cli.editor_schema.expectations import EXPECTATIONS
from dp_pipeline.cli.editor_schema.sources import SOURCE
from dp_pipeline.cli.editor_schema.values import (
    DEFINITIONS,
    EPSILON,
    NAME,
    NUMBER,
    SHARE,
    SWITCH,
    TEXT,
    Schema,
    choice,
    closed,
    empty_or,
    list_of,
    said,
    whole,
)
from dp_pipeline.models import MODELS
from dp_pipeline.schema.formats import DATASET_FILE


def dataset_schema() -> Schema:
    """The whole schema, with every model, method, generator and bundled set there is."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A data set file of dp_pipeline",
        **closed(_FIELDS, required=_REQUIRED),
        "if": {"required": ["purpose"], "properties": {"purpose": {"const": "release"}}},
        "then": {"required": ["ceiling"]},
        "dependentRequired": {"refresh": ["publish"], "k_anonymity": ["label"]},
        "$defs": DEFINITIONS,
    }


def schema_text() -> str:
    """The schema as the file that is shipped."""
    return json.dumps(dataset_schema(), indent=1, ensure_ascii=False) + "\n"


def _built(types: Mapping[str, Any]) -> Schema:
    """A mapping of names of models or methods to their parameters."""
    described = {
        name: said(empty_or(closed(_parameters(one))), getattr(one, "summary", name))
        for name, one in types.items()
    }
    return {**closed(described), "minProperties": 1}


def _parameters(one: Any) -> dict[str, Schema]:
    return {field.name: said(TEXT, field.metadata["expected"]) for field in fields(one)}


_PROTECTION: Schema = {
    "oneOf": [
        closed({"unit": choice("one_row")}, required=["unit"]),
        closed(
            {
                "unit": choice("rows_of_person"),
                "column": said(TEXT, "Whose value names the person."),
                "at_most": said(whole(1), "Rows of one person that count."),
            },
            required=["unit", "column", "at_most"],
        ),
    ]
}

_CEILING = closed(
    {
        "total": said(EPSILON, "For ever, over all models, partitions and snapshots."),
        "per_month": said(EPSILON, "In one calendar month."),
    },
    required=["total"],
)

_TARGETS: Schema = {
    "type": "object",
    "additionalProperties": closed(
        {"positive": list_of(TEXT, least=1), "without": list_of(TEXT)}, required=["positive"]
    ),
}

_K_ANONYMITY = closed(
    {
        "methods": _built(METHODS),
        "attributes": said(TEXT, "Those released beside the label, with spaces between them."),
        "partitions": said(list_of(whole(0), least=1), "The K that may be asked for."),
        "sensitive_label": SWITCH,
        "diversity": said(whole(1), "Different labels in each class."),
        "suppress": said(NUMBER, "Share of the rows that may be left out."),
        "seed": whole(0),
    },
    required=["methods"],
)

_PUBLISH = closed({"model": TEXT, "epsilon": EPSILON}, required=["model", "epsilon"])

_REQUIRED = (
    "name",
    "description",
    "lineage",
    "purpose",
    "protection",
    "source",
    "attributes",
    "partitions",
    "models",
)

_FIELDS: dict[str, Schema] = {
    "format": said(
        {"enum": [DATASET_FILE, str(DATASET_FILE)]}, "Of what is written here; absent means 1."
    ),
    "name": said(NAME, "The name of this file."),
    "title": TEXT,
    "description": said(TEXT, "For people."),
    "lineage": said(NAME, "The population of persons: one privacy account, for ever."),
    "purpose": said(choice("benchmark", "release"), "Public rows, or sensitive ones."),
    "protection": said(_PROTECTION, "What one person is."),
    "relation": said(choice("add_remove", "replace_one"), "What neighbouring data sets differ by."),
    "ceiling": said(_CEILING, "The most ε that these persons may ever cost."),
    "source": said(SOURCE, "Where the rows are."),
    "on_invalid": said(choice("clip", "drop"), "What becomes of a number outside of its bounds."),
    "attributes": said(ATTRIBUTES, "The columns that are read, each a number or a category."),
    "usable": said(SHARE, "Which share of the rows checks want to be as declared."),
    "expectations": said(EXPECTATIONS, "More checks on rows, in Great Expectations' words."),
    "point": said(
        {**list_of(TEXT, least=2), "maxItems": 2},
        "The attributes that a map draws to the right and upwards: [longitude, latitude].",
    ),
    "one_hot": said(SWITCH, "Whether codes are stored as bits too."),
    "label": said(TEXT, "The attribute with the true classes."),
    "targets": said(_TARGETS, "What classifiers learn from a synthetic table."),
    "nominal_rows": said(whole(1), "A number of rows to plan with; need not be true."),
    "partitions": said(list_of(EPSILON, least=1), "The ε that may be asked for, ascending."),
    "models": said(_built(MODELS), "What is released."),
    "publish": said(_PUBLISH, "What the schedule publishes."),
    "refresh": said(choice("weekly"), "The schedule opens a new snapshot each week, and pays."),
    "updates": said(choice("public"), "When the rows change may be seen by anyone."),
    "evaluation": said(
        closed({"epsilon": EPSILON}, required=["epsilon"]),
        "Buys private numbers of quality with each release.",
    ),
    "owners": said(list_of(TEXT, least=1), "E-mail addresses, or team:NAME."),
    "distinct_population": said(TEXT, "Why a shared source is about other persons."),
    "delta": said(NUMBER, "The δ of a population that pays in ρ."),
    "k_anonymity": said(_K_ANONYMITY, "k-anonymous tables, without any ε."),
    "allow_not_dp": said(SWITCH, "Sensitive rows may be released under a promise without an ε."),
}
