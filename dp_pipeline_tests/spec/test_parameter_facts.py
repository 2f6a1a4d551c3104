"""Parameters in the facts of a release: one JSON object, without a mark of a program."""

from __future__ import annotations

import json

import pytest

from dp_pipeline.models import MODELS
from dp_pipeline.spec.parameters import fact_text, fact_values, texts_of


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("measuring", [True, False])
def test_every_model_writes_names_as_a_list_and_nothing_as_null(name: str, measuring: bool):
    texts = texts_of(MODELS[name](), measuring=measuring)
    values = json.loads(fact_text(texts))
    assert list(values) == sorted(texts)
    for parameter, value in values.items():
        assert value in (None, []) or not set("(){}'\"") & set(value), parameter
    assert fact_values(fact_text(texts)) == values


def test_equal_parameters_are_equal_texts_in_whatever_order():
    assert fact_text({"k": "8", "columns": "('x',)"}) == fact_text({"columns": "('x',)", "k": "8"})
    assert fact_text({"k": "8"}) != fact_text({"k": "08"})
