"""Parameters in the facts of a release: one JSON object, without a mark of a program."""

import json
from dataclasses import dataclass

import pytest

from dp_pipeline.config.parameters import fact_text, fact_values, integer, texts_of
from dp_pipeline.models import MODELS


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("measuring", [True, False])
def test_every_model_writes_names_as_a_list_and_nothing_as_null(name, measuring):
    texts = texts_of(MODELS[name](), measuring=measuring)
    values = json.loads(fact_text(texts))
    assert list(values) == sorted(texts)
    for parameter, value in values.items():
        assert value in (None, []) or not set("(){}'\"") & set(value), parameter
    assert fact_values(fact_text(texts)) == values


def test_equal_parameters_are_equal_texts_in_whatever_order():
    assert fact_text({"k": "8", "columns": "('x',)"}) == fact_text({"columns": "('x',)", "k": "8"})
    assert fact_text({"k": "8"}) != fact_text({"k": "08"})


@dataclass(frozen=True)
class Model:
    k: int = integer(8, at_least=1, measuring=True)
    a: int = integer(1, at_least=1, measuring=True)
    pictures: int = integer(3, at_least=1)


def test_parameters_are_listed_in_order_of_names():
    assert list(texts_of(Model(), measuring=True).items()) == [("a", "1"), ("k", "8")]
    assert texts_of(Model(), measuring=False) == {"pictures": "3"}
