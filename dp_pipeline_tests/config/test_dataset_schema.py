"""The JSON Schema for editors says what the parser says, as far as shapes go."""

import copy
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
from dp_pipeline.cli.json_schema import dataset_schema
from dp_pipeline.config.draft import (
    Outline,
    SourceColumn,
    attribute_names,
    public_draft,
    sensitive_draft,
)
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.yaml_text import Document

_PLACES = """
name: toy
title: Toy
description: Ten people on a square.
population: people
purpose: release
protection: {unit: rows_of_person, column: person, at_most: 3}
relation: add_remove
ceiling: {total: 40, per_month: 30}
source: {kind: csv, path: toy.csv, delimiter: ;, header: [x, person], comment: "#",
  download: {url: "https://example.org/a.csv", sha256: SHA, at_most_mb: 5, delimiter: ",",
    header: [x], comment: "%"}}
on_invalid: clip
attributes:
  x: {bounds: [0, 8], column: X, on_invalid: clip, integer: true, usable: 0.95}
  age: {bounds: [0, 100], bins: 4, nullable: true, missing: ["?"]}
  height: {bounds: [0, 2.5], edges: [1, 1.5]}
  colour: {levels: [red, green], other: red, on_invalid: other, nullable: true, missing: [NA],
    aliases: {r: red}, usable: 1}
  code: {levels: 0..3, column: Code}
  fare: {bounds: [0, 50], bins: 5, decimal: ",", thousands: "."}
  born: {type: date, bounds: ["1960-01-01", "2010-12-31"], every: year, format: "%d.%m.%Y",
    nullable: true, missing: [never], usable: 0.9, on_invalid: drop, column: Born}
  left: {type: timestamp, bounds: ["2026-10-01", "2026-10-31"], edges: ["2026-10-05T14:30"],
    zone: Europe/Zurich}
  seen: {type: timestamp, bounds: ["2026-10-01", "2026-10-31"], bins: 31}
  hour: {levels: 0..23, nullable: true}
  weekday: {levels: 1..7}
  month: {levels: 1..12}
  year: {bounds: [2000, 2030], bins: 30}
  took: {bounds: [0, 24], bins: 24}
  net: {bounds: [0, 50], bins: 5}
  land: {levels: [CH, DE]}
reading: {decimal: ",", thousands: "'", missing: [N/A], zone: Europe/Paris}
derive:
  hour: {hour: Left, zone: Europe/Zurich, format: "%d.%m.%Y %H:%M"}
  weekday: {weekday: Left}
  month: {month: Left}
  year: {year: Left}
  took: {difference: [Back, Left], unit: hours}
  net: {product: [fare, 0.9], decimal: ",", thousands: "."}
  land: {prefix: [zip, 2]}
constraints:
  never: [{colour: red, code: [1, 2]}, {age: "[0, 25)", colour: missing, weekday: 7}]
  only: [[{month: [1, 2], weekday: 1}, {month: 3}], [{land: CH, colour: green}, {land: DE}]]
  depends:
    weekday: {land: {1: CH, 2: CH, 3: CH, 4: CH, 5: CH, 6: DE, 7: DE}}
usable: .9
expectations:
  - {type: expect_column_values_to_be_between, column: x, min_value: 0, max_value: 7.5,
    strict_min: true, strict_max: false, mostly: 0.5, severity: warning, name: lower}
  - {type: expect_column_values_to_be_in_set, column: age, value_set: [18, 19.5]}
  - {type: expect_column_values_to_not_be_in_set, column: colour, value_set: [blue]}
  - {type: expect_column_values_to_be_null, column: colour}
  - {type: expect_column_values_to_not_be_null, column: person}
  - {type: expect_column_value_lengths_to_be_between, column: person, min_value: 1, max_value: 9,
    strict_min: false, strict_max: false}
  - {type: expect_column_value_lengths_to_equal, column: code, value: 1}
  - {type: expect_column_values_to_match_regex, column: person, regex: "^p"}
  - {type: expect_column_values_to_not_match_regex, column: person, regex: "^q"}
  - {type: expect_column_values_to_match_regex_list, column: person, regex_list: ["^p"],
    match_on: any}
  - {type: expect_column_values_to_not_match_regex_list, column: person, regex_list: ["^q"]}
  - {type: expect_column_values_to_match_strftime_format, column: code, strftime_format: "%Y"}
  - {type: expect_column_values_to_be_dateutil_parseable, column: code}
  - {type: expect_column_values_to_be_json_parseable, column: code}
  - {type: expect_column_pair_values_a_to_be_greater_than_b, column_A: age, column_B: x,
    or_equal: true, ignore_row_if: neither}
  - {type: expect_column_pair_values_to_be_equal, column_A: age, column_B: x,
    ignore_row_if: either_value_is_missing}
one_hot: true
point: [x, height]
label: code
targets: {colour: {positive: [red], without: [age]}}
nominal_rows: 50
partitions: [0.5, 1]
models: {dpqt_kmeans: {k: 2, columns: x}, independent: , one_shot: {clique_cells: 64}}
publish: {model: independent, epsilon: 0.5}
refresh: weekly
updates: public
evaluation: {epsilon: 0.05}
owners: [ana@example.org, "team:privacy"]
distinct_population: other persons
delta: 0.000000001
"""

_PATIENTS = """
name: toy
description: Ten patients.
population: patients
purpose: release
protection: {unit: one_row}
ceiling: {total: 4}
source: {kind: sql, database: "sqlite:///toy.db", query: SELECT age FROM toy}
attributes:
  age: {bounds: [0, 100], bins: 4}
  ill: {levels: [no, yes]}
label: ill
partitions: [1]
models: {independent: }
k_anonymity: {methods: {kjig: , rfka: {trees: 5}}, attributes: age, partitions: [2, 5],
  sensitive_label: false, diversity: 2, suppress: 0.05, seed: 3}
allow_not_dp: true
"""

_PUBLIC = """
name: toy
description: Ten plants.
population: garden
purpose: benchmark
protection: {unit: one_row}
source: SOURCE
attributes:
  kind: {levels: [fern, moss]}
partitions: [1]
models: {independent: }
"""

_OPEN = """
name: toy
description: Ten customers.
population: customers
purpose: release
protection: {unit: one_row}
ceiling: {total: 4}
source: {kind: csv, path: toy.csv}
attributes:
  x: {bounds: discover, unit: 0.5}
  y: {bounds: discover, bins: 4, integer: true}
  age: {bounds: [0, 100], bins: {quantiles: 8}, unit: 1, nullable: true}
  colour: {levels: discover, at_most: 50, other: rare, aliases: {r: red}}
  code: {levels: discover, on_invalid: drop}
discover: {epsilon: 0.5, delta: 0.000000001, beta: 0.00001}
partitions: [1]
models: {dpqt_kmeans: {k: 2, columns: x}, independent: }
"""

_HOUSEHOLDS = """
name: toy
description: Four households.
population: residents
purpose: release
protection: {unit: group, key: household}
ceiling: {total: 4}
source: {kind: csv, path: toy.csv}
attributes:
  region: {levels: [north, south]}
parts:
  persons:
    at_most: 3
    order: age
    source: {kind: csv, path: persons.csv}
    key: home
    attributes:
      age: {bounds: [0, 100], bins: 4}
      sex: {levels: [f, m]}
partitions: [1]
models: {one_shot: }
"""

_SAMPLE = "sample: {rows: 5, by: kind, seed: 1}"

_SOURCES = (
    f"{{kind: csv, paths: [a.csv, b.csv], delimiter: whitespace, {_SAMPLE}}}",
    "{kind: csv, path: a.csv, download: {urls: ['https://example.org/a', 'https://example.org/b'], "
    "sha256: [SHA, SHA], at_most_mb: 5}}",
    f"{{kind: csv, url: 'https://example.org/a', sha256: SHA, at_most_mb: 5, {_SAMPLE}}}",
    "{kind: csv, urls: ['https://example.org/a', 'https://example.org/b'], at_most_mb: 5}",
    f"{{kind: parquet, path: a.parquet, {_SAMPLE}, "
    "download: {url: 'https://example.org/a', at_most_mb: 5}}",
    f"{{kind: parquet, url: 'https://example.org/a', at_most_mb: 5, {_SAMPLE}}}",
    "{kind: sql, database: $TOY_DATABASE, query: SELECT kind FROM toy}",
    f"{{kind: sklearn, name: iris, {_SAMPLE}}}",
    f"{{kind: generator, name: trips_like, options: {{seed: 7, rows: 10}}, {_SAMPLE}}}",
)

FULL: tuple[str, ...] = tuple(
    text.replace("SHA", "ab" * 32)
    for text in (
        _PLACES,
        _PATIENTS,
        _OPEN,
        _HOUSEHOLDS,
        *(_PUBLIC.replace("SOURCE", each) for each in _SOURCES),
    )
)


def texts_of(text: str) -> dict[str, Any]:
    """The nested texts that the parser sees."""
    sections = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    assert isinstance(sections, dict)
    return sections


jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

SCHEMA = dataset_schema()

BUILT_IN = sorted(Path(str(resources.files("dp_pipeline") / "datasets")).glob("*.yaml"))

SHAPES = (
    *("an unknown field", "expected one value, got", "expected a value, got nothing"),
    *("expected a list", "expected a mapping"),
    *("expected levels or bounds, got", "expected bins or edges, got both"),
)
"""How the parser says that a shape is wrong, and not a value."""


@cache
def validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


def complaints(document: Any) -> list[str]:
    return [error.message for error in validator().iter_errors(document)]


def parsed(folder: Path, document: Any) -> None:
    """What the parser and the models say of a document, as the text of a file."""
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(document, default_style='"', width=10**6), encoding="utf-8")
    require_buildable(load_spec(path), Document.read(path))


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
    # An unknown and an absent field are noticed.
    document = texts_of(FULL[0])
    assert complaints(document | {"celing": "1"})
    del document["population"]
    assert complaints(document)


def test_fields_have_help_and_defaults_for_editors():
    numeric = SCHEMA["$defs"]["Numeric"]["properties"]
    names = ["bounds", "bins", "edges", "integer", "column", "nullable", "missing", "usable"]
    for field in (*SCHEMA["properties"].values(), *map(numeric.get, names)):
        assert "description" in field
    assert SCHEMA["properties"]["relation"]["default"] == "add_remove"
    assert "default" not in SCHEMA["properties"]["ceiling"]


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
