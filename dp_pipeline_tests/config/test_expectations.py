"""Section `expectations`: only what judges single rows, checked where the file is read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.sections import DeclaredExpectation
from dp_pipeline_tests.config.declarations import loaded

REGEX = "type: expect_column_values_to_match_regex"
BETWEEN = "type: expect_column_values_to_be_between"
PUBLIC = {"purpose": "purpose: benchmark"}


def declared(*lines: str) -> dict[str, str]:
    return {"expectations": "expectations:\n" + "".join(f"  - {{{line}}}\n" for line in lines)}


def test_arguments_of_an_expectation_have_their_types(tmp_path: Path) -> None:
    lines = declared(
        f"{BETWEEN}, column: age, min_value: 1, strict_max: true, mostly: 0.95, name: grown",
        f'{REGEX}, column: person, regex: "^[a-z]+$"',
        "type: expect_column_values_to_be_in_set, column: x, value_set: [1, 2.5]",
        "type: expect_column_values_to_be_in_set, column: colour, value_set: [1, red]",
    )
    ages, persons, numbers, texts = loaded(tmp_path, **lines).expectations
    assert ages == DeclaredExpectation(
        "expect_column_values_to_be_between",
        {"column": "age"},
        {"min_value": 1.0, "strict_max": True},
        mostly=Fraction(19, 20),
        name="grown",
    )
    assert persons.arguments == {"regex": "^[a-z]+$"}
    assert (numbers.arguments["value_set"], texts.arguments["value_set"]) == (
        (1.0, 2.5),
        ("1", "red"),
    )
    assert loaded(tmp_path).expectations == ()


def test_public_rows_may_be_stopped_and_sensitive_ones_never(tmp_path: Path) -> None:
    line = f"{BETWEEN}, column: x, min_value: 1"
    warned, stopped = declared(f"{line}, severity: warning"), declared(line)
    assert [loaded(tmp_path, **stopped, **PUBLIC).expectations[0].is_critical] == [True]
    assert [loaded(tmp_path, **warned, **PUBLIC).expectations[0].is_critical] == [False]
    assert [loaded(tmp_path, **stopped).expectations[0].is_critical] == [False]
    with pytest.raises(DeclarationError, match="expected warning on sensitive rows"):
        loaded(tmp_path, **declared(f"{line}, severity: critical"))
