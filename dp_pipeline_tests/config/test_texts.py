"""Texts of YAML are read back, and every field has its line."""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import fact_text, fact_values, integer, texts_of
from dp_pipeline.config.yaml_text import Document, field_text, flow
from dp_pipeline.models import MODELS
from dp_pipeline.spreadsheet import escape_formula
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


KMEANS = "models:\n  dpqt_kmeans:\n    k: 2\n  independent:"


def test_a_mistake_gets_the_line_of_its_field(tmp_path):
    document = Document.read(written(tmp_path, declaration(models=KMEANS)))

    def line_of(*field):
        error = document.located(DeclarationError("wrong"), *field)
        path, line, message = str(error).rsplit(":", 2)
        assert (path, message) == (str(document.path), " wrong")
        return int(line)

    text = document.path.read_text().splitlines()
    for field in (("models", "dpqt_kmeans", "k"), ("models", "independent"), ("partitions",)):
        assert text[line_of(*field) - 1].strip().startswith(f"{field[-1]}:")
    # An absent field has the line of the one around it.
    assert line_of("models", "dpqt_kmeans", "starts") == line_of("models", "dpqt_kmeans")
    assert line_of("evaluation", "epsilon") == 1


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1"]
FORMULAS += ["-", "+1/3"]
WORDS = ["-0.5", "+3", "-1e-9", "-.5", "", "ε=0.5", "a=1", "'=1", -0.5, None]


@pytest.mark.parametrize("cell", [*FORMULAS, *WORDS])
def test_a_formula_is_quoted_and_no_other_cell(cell):
    assert escape_formula(cell) == (f"'{cell}" if cell in FORMULAS else cell)


@given(st.text(max_size=9))
def test_no_cell_begins_with_a_formula(text):
    written = io.StringIO()
    csv.writer(written).writerow([escape_formula(text), "end"])
    first, _ = next(csv.reader(io.StringIO(written.getvalue(), newline="")))
    if first.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and first.strip(" "):
        float(first)
    assert first in (text, f"'{text}")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("measuring", [True, False])
def test_every_model_writes_names_as_a_list_and_nothing_as_null(name, measuring):
    texts = texts_of(MODELS[name](), measuring=measuring)
    values = json.loads(fact_text(texts))
    assert list(values) == sorted(texts)
    for parameter, value in values.items():
        assert value in (None, []) or not set("(){}'\"") & set(value), parameter
    assert fact_values(fact_text(texts)) == values


@dataclass(frozen=True)
class Model:
    k: int = integer(8, at_least=1, measuring=True)
    a: int = integer(1, at_least=1, measuring=True)
    pictures: int = integer(3, at_least=1)


def test_equal_parameters_are_equal_texts_in_whatever_order():
    assert fact_text({"k": "8", "columns": "('x',)"}) == fact_text({"columns": "('x',)", "k": "8"})
    assert fact_text({"k": "8"}) != fact_text({"k": "08"})
    assert list(texts_of(Model(), measuring=True).items()) == [("a", "1"), ("k", "8")]
    assert texts_of(Model(), measuring=False) == {"pictures": "3"}
