"""The part of the JSON Schema about attributes: categories and numbers.

The part of the JSON Schema about sources.

Parts of a JSON Schema: values as editors type them, and as the parser's text.

The JSON Schema (draft 2020-12) of data set files, for editors: shapes, words, short helps.

The parser stays the judge: no schema knows whether a ceiling holds. Editors give a value a
type that the parser reads as text, so ``0.5`` and ``"0.5"`` are both let through.

The part of the JSON Schema about expectations in Great Expectations' words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from dp_pipeline.anonymity import METHODS
from dp_pipeline.models import MODELS
from dp_pipeline.raw.generators import GENERATORS
from dp_pipeline.raw.sources import BUNDLED
from dp_pipeline.spec.expectations import ANY_OR_ALL, MISSING_PAIRS, TYPES, ExpectationType, Form
from dp_pipeline.spec.formats import DATASET_FILE
from dp_pipeline.spec.name import NAME as PLAIN_NAME

Schema = dict[str, Any]

NAME_PATTERN = f"^{PLAIN_NAME}$"

TEXT: Schema = {"$ref": "#/$defs/text"}
"""One value; YAML's own types are texts to the parser."""

SWITCH: Schema = {"$ref": "#/$defs/switch"}
NUMBER: Schema = {"$ref": "#/$defs/number"}
SHARE: Schema = {"$ref": "#/$defs/share"}
EPSILON: Schema = {"$ref": "#/$defs/epsilon"}

NAME: Schema = {"type": "string", "pattern": NAME_PATTERN}

_DIGITS = r"(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?"

DEFINITIONS: Schema = {
    "text": {"type": ["string", "number", "boolean"], "minLength": 1},
    "switch": {"enum": [True, False, "true", "false"]},
    "number": {
        "anyOf": [{"type": "number"}, {"type": "string", "pattern": rf"^\s*[-+]?{_DIGITS}\s*$"}]
    },
    "share": {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": r"^([01]?\.\d{1,9}|1)$"},
        ]
    },
    "epsilon": {
        "anyOf": [
            {"type": "number", "minimum": 1e-6, "maximum": 1e6},
            {"type": "string", "pattern": rf"^\s*\+?{_DIGITS}\s*$"},
        ]
    },
}
"""What ``$ref`` refers to."""


def whole(at_least: int) -> Schema:
    """A whole number, not below ``at_least``."""
    pattern = r"^[+-]?\d{1,18}$"
    return {
        "anyOf": [
            {"type": "integer", "minimum": at_least},
            {"type": "string", "pattern": pattern},
        ]
    }


def choice(*words: str) -> Schema:
    """One of some words."""
    return {"enum": list(words)}


def list_of(item: Schema, *, least: int = 0, most: int | None = None) -> Schema:
    """A list of values of one kind."""
    ends = {"minItems": least} if least else {}
    return {"type": "array", "items": item, **ends, **({} if most is None else {"maxItems": most})}


def closed(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """A mapping with these fields and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def empty_or(schema: Schema) -> Schema:
    """``name:`` with nothing behind it is an empty mapping."""
    return {"anyOf": [schema, {"type": "null"}, {"const": ""}]}


def said(schema: Schema, description: str) -> Schema:
    """With a short help."""
    return {"description": description, **schema}


_OF_ATTRIBUTES = {
    "column": said(TEXT, "How the source calls it, where that is another name."),
    "nullable": said(SWITCH, "A missing value is a cell of its own; a number needs bins for it."),
    "missing": said(list_of(TEXT), "Texts that mean a missing value, beside an empty one."),
    "usable": said(SHARE, "Which share of the rows checks want to be as declared."),
}

_RANGE: Schema = {"type": "string", "pattern": r"^\d+\.\.\d+$"}

_CATEGORY = closed(
    {
        "levels": said(
            {"anyOf": [list_of(TEXT, least=2), _RANGE]},
            "Every text that there can be; 0..15 are the sixteen levels 0 to 15.",
        ),
        "other": said(TEXT, "The level that stands for any other text."),
        "on_invalid": choice("other", "drop"),
        "aliases": said(
            {"type": "object", "additionalProperties": TEXT}, "Other spellings of levels."
        ),
        **_OF_ATTRIBUTES,
    },
    required=["levels"],
)

_NUMBER = closed(
    {
        "bounds": said(
            list_of(NUMBER, least=2, most=2),
            "The lowest and the highest value that there can be, declared without looking.",
        ),
        "bins": said(whole(1), "So many cells of equal width, for tables."),
        "edges": said(list_of(NUMBER), "In place of bins: ascending cuts inside the bounds."),
        "integer": said(SWITCH, "Synthetic numbers are whole."),
        "on_invalid": choice("clip", "drop"),
        **_OF_ATTRIBUTES,
    },
    required=["bounds"],
)

_ATTRIBUTE: Schema = {
    "type": "object",
    "if": {"required": ["levels"]},
    "then": _CATEGORY,
    "else": {**_NUMBER, "not": {"required": ["bins", "edges"]}},
}

ATTRIBUTES: Schema = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "patternProperties": {NAME_PATTERN: _ATTRIBUTE},
}


_URL: Schema = {"type": "string", "pattern": "^https?://"}
_HASH: Schema = {"type": ["string", "number"], "pattern": "^[0-9a-f]{64}$"}
_MOST = said(whole(1), "The most that one URL may give, in megabytes.")

_FORM = {
    "delimiter": said(TEXT, "One character, or whitespace."),
    "header": said(list_of(TEXT), "Names of columns, where the first line has none."),
    "comment": said(TEXT, "The character that begins a line which is no row."),
}

_SAMPLE = said(
    closed({"rows": whole(1), "by": TEXT, "seed": whole(0)}, required=["rows", "by", "seed"]),
    "Some of the rows, each class in proportion: of benchmarks only.",
)

_ONE_URL = {"url": said(_URL, "Where it is downloaded from."), "sha256": _HASH, "at_most_mb": _MOST}
_URLS = {
    "urls": said(list_of(_URL, least=1), "Several files of one form."),
    "sha256": list_of(_HASH),
    "at_most_mb": _MOST,
}


def _download(form: dict[str, Schema], *, several: bool) -> Schema:
    """What is read where a file is absent."""
    one = closed({**_ONE_URL, **form}, required=["url", "at_most_mb"])
    if not several:
        return one
    return {"oneOf": [one, closed({**_URLS, **form}, required=["urls", "at_most_mb"])]}


def _of_kind(kind: str, own: dict[str, Schema], required: list[str]) -> Schema:
    return closed({"kind": choice(kind), **own}, required=["kind", *required])


_PATH = {"path": said(TEXT, "Beside this file, or $DP_PIPELINE_DATA/…")}
_PATHS = {"paths": said(list_of(TEXT, least=1), "Several CSV files of one form.")}
_CSV = {**_FORM, "sample": _SAMPLE}
_PARQUET = {"sample": _SAMPLE}
_OPTIONS: Schema = {"type": "object", "additionalProperties": whole(0)}

SOURCE: Schema = {
    "oneOf": [
        _of_kind("csv", {**_PATH, **_CSV, "download": _download(_FORM, several=True)}, ["path"]),
        _of_kind("csv", {**_PATHS, **_CSV, "download": _download(_FORM, several=True)}, ["paths"]),
        _of_kind("csv", {**_ONE_URL, **_CSV}, ["url", "at_most_mb"]),
        _of_kind("csv", {**_URLS, **_CSV}, ["urls", "at_most_mb"]),
        _of_kind(
            "parquet", {**_PATH, **_PARQUET, "download": _download({}, several=False)}, ["path"]
        ),
        _of_kind("parquet", {**_ONE_URL, **_PARQUET}, ["url", "at_most_mb"]),
        _of_kind(
            "sql",
            {
                "database": said(TEXT, "$NAME of a variable with a URL, or sqlite:///path."),
                "query": said(TEXT, "One SELECT."),
            },
            ["database", "query"],
        ),
        _of_kind(
            "sklearn", {"name": choice(*BUNDLED), "options": _OPTIONS, "sample": _SAMPLE}, ["name"]
        ),
        _of_kind(
            "generator",
            {"name": choice(*sorted(GENERATORS)), "options": _OPTIONS, "sample": _SAMPLE},
            ["name"],
        ),
    ]
}


_FORMS: dict[Form, Schema] = {
    "number": NUMBER,
    "whole": whole(0),
    "switch": SWITCH,
    "values": list_of(TEXT, least=1),
    "regex": TEXT,
    "regexes": list_of(TEXT, least=1),
    "strftime": TEXT,
    "any_or_all": choice(*ANY_OR_ALL),
    "missing_pairs": choice(*MISSING_PAIRS),
}

_OF_EXPECTATIONS = {
    "mostly": said(SHARE, "Which share of the values has to be so."),
    "severity": said(choice("critical", "warning"), "Sensitive rows are only ever warned of."),
    "name": said(NAME, "Tells it from another one of the same type and column."),
}


def _of_type(name: str, type_: ExpectationType) -> Schema:
    columns = {key: said(TEXT, "An attribute, or the person's column.") for key in type_.columns}
    arguments = {key: _FORMS[form] for key, form in type_.arguments.items()}
    schema = closed(
        {"type": choice(name), **columns, **arguments, **_OF_EXPECTATIONS},
        required=["type", *columns, *type_.needs],
    )
    if type_.one_of:
        schema["anyOf"] = [{"required": [key]} for key in type_.one_of]
    return schema


EXPECTATIONS: Schema = {
    "type": "array",
    "items": {"oneOf": [_of_type(name, type_) for name, type_ in TYPES.items()]},
}


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
