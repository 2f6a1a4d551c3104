"""The part of the JSON Schema about expectations in Great Expectations' words."""

from __future__ import annotations

from dp_pipeline.cli.editor_schema.values import (
    NAME,
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
from dp_pipeline.schema.expectation import ANY_OR_ALL, MISSING_PAIRS, TYPES, ExpectationType, Form

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

_COMMON = {
    "mostly": said(SHARE, "Which share of the values has to be so."),
    "severity": said(choice("critical", "warning"), "Sensitive rows are only ever warned of."),
    "name": said(NAME, "Tells it from another one of the same type and column."),
}


def _of_type(name: str, type_: ExpectationType) -> Schema:
    columns = {key: said(TEXT, "An attribute, or the person's column.") for key in type_.columns}
    arguments = {key: _FORMS[form] for key, form in type_.arguments.items()}
    schema = closed(
        {"type": choice(name), **columns, **arguments, **_COMMON},
        required=["type", *columns, *type_.needs],
    )
    if type_.one_of:
        schema["anyOf"] = [{"required": [key]} for key in type_.one_of]
    return schema


EXPECTATIONS: Schema = {
    "type": "array",
    "items": {"oneOf": [_of_type(name, type_) for name, type_ in TYPES.items()]},
}
