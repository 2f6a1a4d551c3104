"""Texts of YAML are read back, and every field has its line."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parser import load_spec
from dp_pipeline.config.yaml_text import Document, field_text, flow
from dp_pipeline_tests.config.declarations import declaration, written

# What a name of a column can hold: no surrogates, and no character that YAML cannot write.
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text != "TODO")


@settings(max_examples=40)
@given(texts=st.lists(TEXTS, min_size=1, max_size=30))
def test_a_list_is_read_back_however_long_it_is(texts):
    lines = field_text("colour", {"levels": texts, "other": texts[0]}, indent=2)
    text = f"name: {flow(texts[0])}\nattributes:\n" + "\n".join(lines) + "\n"
    document = Document.of_text(text, Path("a.yaml"))
    colour = {"levels": texts, "other": texts[0]}
    assert document.texts == {"name": texts[0], "attributes": {"colour": colour}}


def test_a_long_list_is_broken_between_its_items():
    assert field_text("x", {"bounds": ["0", "8"]}) == ["x: {bounds: [0, 8]}"]
    lines = field_text("street", {"levels": [f"street number {place}" for place in range(40)]})
    assert lines[:2] == ["street:", "  levels:"]
    assert max(map(len, lines)) <= 100
    assert all(line.endswith((",", "]")) for line in lines[2:])


MODELS = "models:\n  dpqt_kmeans:\n    k: 2\n  independent:"


@pytest.fixture
def lines(tmp_path):
    return Document.read(written(tmp_path, declaration(models=MODELS)))


def line_of(lines: Document, *field: str) -> int:
    error = lines.located(DeclarationError("wrong"), *field)
    path, line, message = str(error).rsplit(":", 2)
    assert (path, message) == (str(lines.path), " wrong")
    return int(line)


def test_a_mistake_gets_the_line_of_its_field(lines):
    text = lines.path.read_text().splitlines()
    for field in (("models", "dpqt_kmeans", "k"), ("models", "independent"), ("partitions",)):
        assert text[line_of(lines, *field) - 1].strip().startswith(f"{field[-1]}:")


def test_an_absent_field_has_the_line_of_the_one_around_it(lines):
    fields = ("models", "dpqt_kmeans")
    assert line_of(lines, *fields, "starts") == line_of(lines, *fields)
    assert line_of(lines, "evaluation", "epsilon") == 1


def test_a_level_may_be_called_todo(tmp_path):
    """A column of tasks has one."""
    state = "{levels: [TODO, doing, done], other: TODO, nullable: false, aliases: {open: TODO}}"
    attributes = f"attributes:\n  state: {state}"
    spec = load_spec(written(tmp_path, declaration(attributes=attributes, models="models: {x: }")))
    assert spec.domain["state"].labels() == ("TODO", "doing", "done")
