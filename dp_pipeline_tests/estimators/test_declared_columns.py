"""A declaration is read exactly, or refused in one line that names its column."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.attribute_parser import Category, Moment, Numeric
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators import InvalidParameter
from dp_pipeline.estimators.declared import declared_columns
from dp_pipeline.estimators.frames import UNKNOWN, text_of
from dp_pipeline_tests.estimators.households import VILLAGE, copier

SAME_LEVELS: list[Any] = [
    [0, 1, 2],
    (0, 1, 2),
    3,
    np.int8(3),
    range(3),
    np.arange(3),
    pd.Index([0, 1, 2]),
    pd.CategoricalDtype([0, 1, 2]),
    {"levels": [0, 1, 2]},
    {"size": 3},
]


@pytest.mark.parametrize("declared", SAME_LEVELS, ids=repr)
def test_equivalent_forms_of_levels(declared: object):
    (column,) = declared_columns({"rooms": declared})
    assert column.levels == (0, 1, 2)
    assert column.attribute.labels() == ("0", "1", "2")


def test_levels_that_a_float_rounds_are_refused():
    levels = [2**53 - 1, 1 - 2**53, "0" + str(2**60), str(2**60) + ".0", "inf", 0.5]
    (column,) = declared_columns({"number": levels})
    assert column.levels == tuple(levels)


SAME_BINS: list[dict[str, Any]] = [
    {"bounds": [0, 4], "bins": 4},
    {"bounds": (0, 4), "edges": [1, 2, 3]},
    {"bounds": (0, 4), "edges": [0, 1, 2, 3, 4]},
    {"bounds": (0, 4), "edges": [1, 2, 3, 4]},
    {"edges": np.arange(5)},
]


@pytest.mark.parametrize("declared", SAME_BINS, ids=repr)
def test_equivalent_forms_of_bins(declared: object):
    (column,) = declared_columns({"rent": declared})
    assert column.attribute.cells.edges == (0.0, 1.0, 2.0, 3.0, 4.0)  # type: ignore[union-attr]
    assert column.levels is None


NAN = float("nan")
TEXTS: list[tuple[object, str | None]] = [
    (" owner ", "owner"),
    (1, "1"),
    (1.0, "1"),
    (np.float32(0.5), "0.5"),
    (True, "True"),
    (np.False_, "False"),
    (float("inf"), "inf"),
    (10**400, "inf"),
    (-(10**400), "-inf"),
    (NAN, None),
    (None, None),
    (pd.NA, None),
    (pd.NaT, None),
    (1j, UNKNOWN),
    (2 + 0j, "2"),
    (np.complex64(0.5), "0.5"),
    (complex(NAN, 0), None),
    (complex(NAN, 1), UNKNOWN),
    (np.str_(" owner "), "owner"),
    ([1], UNKNOWN),
    (b"owner", UNKNOWN),
]


ANY = st.recursive(
    st.sampled_from(
        [None, True, 0, 1, -2.5, float("nan"), "a", "discover", "2026-01-01", 1j, b"a"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
FIELDS = sorted({*Category.model_fields, *Numeric.model_fields, *Moment.model_fields, "size"})


@given(ANY | st.dictionaries(st.sampled_from(FIELDS), ANY, min_size=1, max_size=4))
@settings(max_examples=300)
def test_no_form_of_a_column_is_another_error_than_a_refusal(form: Any):
    with suppress(DeclarationError):
        declared_columns({"x": form})


def test_column_takes_every_field_of_a_file():
    forms: dict[str, Any] = {
        "sex": {"levels": ["f", "m"], "aliases": {"female": "f"}},
        "age": {"bounds": [0, 9], "bins": 3, "on_invalid": "drop", "decimal": ","},
        "born": {"bounds": ["2026-01-01", "2026-12-31"], "every": "month", "format": "%d.%m.%Y"},
    }
    sex, age, born = (column.attribute for column in declared_columns(forms))
    assert sex.aliases == (("female", "f"),)
    assert (age.on_invalid, age.signs.decimal) == ("drop", ",")
    assert born.clock is not None
    assert born.clock.format == "%d.%m.%Y"
    with pytest.raises(DeclarationError, match="expected the name of its column in X as key"):
        declared_columns({"sex": {"levels": ["f", "m"], "column": "gender"}})


@pytest.mark.parametrize("written", [(0, 20000), (0.5, 1), (np.int64(0), np.float64(9.5))])
def test_tuple_of_two_numbers_is_refused(written: Any):
    low, high = written
    with pytest.raises(InvalidParameter) as refused:
        copier(domain={"rent": written}).fit(VILLAGE)
    message = str(refused.value)
    assert message.startswith("domain: column 'rent': expected bounds as {\"bounds\": [")
    assert f"or two levels as [{low}, {high}], got ({low}, {high})" in message
    assert declared_columns({"rent": list(written)})[0].attribute.size == 2


@pytest.mark.parametrize("levels", [("f", "m"), (False, True), (0, 1, 2), (3,)])
def test_other_tuples_are_levels(levels: tuple[Any, ...]):
    assert declared_columns({"one": levels})[0].levels == levels


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[repr(item)[:20] for item, _ in TEXTS])
def test_a_value_is_read_as_text(value: object, text: str | None):
    assert text_of(value) == text
