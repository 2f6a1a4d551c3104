"""The JSON Schema for editors says what the parser says, as far as shapes go."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.cli.declaration_check import require_buildable
from dp_pipeline.cli.json_schema import schema_text
from dp_pipeline.config.draft import (
    SCHEMA_FILE,
    Outline,
    SourceColumn,
    attribute_names,
    public_draft,
    sensitive_draft,
)
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.yaml_text import Document
from dp_pipeline_tests.config.full_files import FULL, texts_of

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

SHIPPED = resources.files("dp_pipeline.config").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")

BUILT_IN = sorted(Path(str(resources.files("dp_pipeline") / "datasets")).glob("*.yaml"))

SHAPES = (
    *("an unknown field", "expected one value, got", "expected a value, got nothing"),
    *("expected a list", "expected a mapping"),
    *("expected levels or bounds, got neither", "expected bins or edges, got both"),
)
"""How the parser says that a shape is wrong, and not a value."""


@cache
def validator() -> Any:
    schema = json.loads(SHIPPED)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def complaints(document: Any) -> list[str]:
    return [error.message for error in validator().iter_errors(document)]


def parsed(folder: Path, document: Any) -> None:
    """What the parser and the models say of a document, as the text of a file."""
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(document, default_style='"', width=10**6), encoding="utf-8")
    require_buildable(load_spec(path), Document.read(path))


def test_the_shipped_schema_is_the_one_that_the_code_makes():
    command = "python -m dp_pipeline.cli.json_schema > dp_pipeline/config/dataset.schema.json"
    assert schema_text() == SHIPPED, f"write it anew: {command}"


@pytest.mark.parametrize("path", BUILT_IN, ids=lambda path: path.stem)
def test_every_built_in_file_validates(path):
    text = path.read_text(encoding="utf-8")
    assert complaints(texts_of(text)) == []
    assert complaints(yaml.safe_load(text)) == [], "as an editor reads it"


@pytest.mark.parametrize("text", FULL)
def test_a_file_with_every_field_validates_and_is_parsed(text, tmp_path, monkeypatch):
    monkeypatch.delenv("TOY_DATABASE", raising=False)
    assert complaints(texts_of(text)) == []
    assert complaints(yaml.safe_load(text)) == []
    parsed(tmp_path, texts_of(text))


def test_a_public_draft_validates_and_an_open_one_does_not():
    columns = (
        SourceColumn("Age", "number", proposal={"bounds": ["0", "99"], "bins": "10"}),
        SourceColumn("kind", "text", proposal={"levels": ["fern", "1"], "nullable": "true"}),
    )
    source = {"kind": "csv", "path": "toy.csv"}
    outline = Outline("toy", "toy.csv", source, attribute_names(columns))
    assert complaints(yaml.safe_load(public_draft(outline, rows=5))) == []
    assert complaints(yaml.safe_load(sensitive_draft(outline)))


def test_fields_have_help_and_defaults_for_editors():
    schema = json.loads(SHIPPED)
    numeric = schema["$defs"]["Numeric"]["properties"]
    names = ["bounds", "bins", "edges", "integer", "column", "nullable", "missing", "usable"]
    for field in (*schema["properties"].values(), *map(numeric.get, names)):
        assert "description" in field
    assert schema["properties"]["relation"]["default"] == "add_remove"
    assert "default" not in schema["properties"]["ceiling"]


def _paths(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for name, child in children if isinstance(document, dict | list) else ():
        yield from _paths(child, (*above, name))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        document = document[name]
    return document


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A full file of which one field is left out, of another kind, or has one more beside it."""
    document = copy.deepcopy(texts_of(draw(st.sampled_from(FULL))))
    path = draw(st.sampled_from(list(_paths(document))))
    parent, name = _at(document, path[:-1]), path[-1]
    change = draw(st.sampled_from(["leave out", "add", "text", "list", "mapping"]))
    if change == "leave out":
        del parent[name]
    elif change == "add":
        inside = parent[name] if isinstance(parent[name], dict) else document
        inside["celing"] = draw(st.sampled_from(["1", ["1"], {"total": "1"}]))
    else:
        parent[name] = {"text": "1", "list": ["1", "2"], "mapping": {"total": "1"}}[change]
    return document


@pytest.mark.chain
@settings(max_examples=150)
@given(document=mutated())
def test_the_schema_refuses_the_shapes_that_the_parser_refuses(document, tmp_path_factory):
    try:
        parsed(tmp_path_factory.mktemp("mutated"), document)
    except DeclarationError as error:
        if any(shape in str(error) for shape in SHAPES):
            assert complaints(document), error
    else:
        assert complaints(document) == []


def test_an_unknown_and_an_absent_field_are_noticed():
    document = texts_of(FULL[0])
    assert complaints(document | {"celing": "1"})
    del document["population"]
    assert complaints(document)
