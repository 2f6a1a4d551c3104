"""The part of the JSON Schema about attributes: categories and numbers."""

from __future__ import annotations

from dp_pipeline.cli.editor_schema.values import (
    NAME_PATTERN,
    NUMBER,
    SHARE,
    SWITCH,
    TEXT,
    Schema,
    choice,
    closed,
    list_of,
    said,
    whole,
)

_COMMON = {
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
        **_COMMON,
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
        **_COMMON,
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
