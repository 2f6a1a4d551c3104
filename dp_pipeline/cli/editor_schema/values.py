"""Parts of a JSON Schema: values as editors type them, and as the parser's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dp_pipeline.schema.name import NAME as PLAIN_NAME

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
