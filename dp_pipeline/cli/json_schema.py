"""The JSON Schema (draft 2020-12) of data set files, for editors.

It is made of the parser's sections (``config.parser.DataSetFile``), models, methods, generators and
bundled sets.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from dp_pipeline.anonymity import METHODS
from dp_pipeline.config.fields import TEXT
from dp_pipeline.config.parser import DataSetFile
from dp_pipeline.config.source import BUNDLED
from dp_pipeline.models import MODELS
from dp_pipeline.raw.generators import GENERATORS


class _ForEditors(GenerateJsonSchema):
    """A generator of JSON Schema for editors, with help texts and without titles and null."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        inner, default = self.generate_inner(schema["schema"]), schema.get("default")
        return {**inner, "default": default} if isinstance(default, str | int) else inner

    def union_schema(self, schema: Any) -> JsonSchemaValue:
        return {"oneOf": super().union_schema(schema)["anyOf"]}

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        section = super().model_schema(schema)
        section.pop("title", None)
        return section


def dataset_schema() -> dict[str, Any]:
    """Return the JSON Schema of data set files, with the names of models and methods."""
    schema = DataSetFile.model_json_schema(schema_generator=_ForEditors)
    sections = {name: section.get("properties", {}) for name, section in schema["$defs"].items()}
    schema["properties"]["models"] |= _mapping_schema(MODELS)
    sections["KAnonymity"]["methods"] |= _mapping_schema(METHODS)
    for section, names in (("Bundled", BUNDLED), ("Generated", GENERATORS)):
        sections[section]["name"] = {"enum": sorted(names)}
    title = schema.pop("description")
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": title, **schema}


def _mapping_schema(types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a mapping from names of models or methods to their parameters.

    types   name → class of the model or method
    """
    described = {}
    for name, type_ in types.items():
        rules = {field.name: field.metadata["expected"] for field in fields(type_)}
        parameters = {field: {"description": rule, **TEXT} for field, rule in rules.items()}
        form = {"type": "object", "properties": parameters, "additionalProperties": False}
        nothing = ({"type": "null"}, {"const": ""})
        described[name] = {"description": type_.summary, "anyOf": [form, *nothing]}
    return {"properties": described, "additionalProperties": False}


def schema_text() -> str:
    """Return the JSON Schema of data set files as text."""
    return json.dumps(dataset_schema(), indent=1, ensure_ascii=False) + "\n"
