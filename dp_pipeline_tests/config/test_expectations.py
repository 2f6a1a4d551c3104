"""Section `expectations`: only what judges single rows, checked where the file is read."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DeclaredExpectation
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline_tests.config.declarations import loaded

REGEX = "type: expect_column_values_to_match_regex"
BETWEEN = "type: expect_column_values_to_be_between"
PUBLIC = {"purpose": "purpose: benchmark"}


def declared(*lines: str) -> dict[str, str]:
    return {"expectations": "expectations:\n" + "".join(f"  - {{{line}}}\n" for line in lines)}


def test_an_expectation_is_read_with_its_arguments_in_their_types(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "type: expect_column_values_to_be_betwen, column: x",
            "such as expect_column_values_to_be_b",
        ),
        (
            "type: expect_column_mean_to_be_between, column: x, min_value: 1",
            "an expectation of single",
        ),
        ("type: expect_column_values_to_be_unique, column: x", "an expectation of single rows"),
        ("type: expect_table_row_count_to_equal, value: 3", "an expectation of single rows"),
        ("column: x", "2.type: expected a value, got nothing"),
        (f"{BETWEEN}, column: x", "expected min_value or max_value, got neither"),
        (f"{BETWEEN}, column: x, min_value: 3, max_value: 2", "expected at least the min_value 3"),
        (f"{BETWEEN}, column: x, min_value: low", "expected a finite number, got 'low'"),
        (f"{BETWEEN}, column: x, min_value: .inf", "expected a finite number"),
        (f"{BETWEEN}, column: x, min_values: 1, max_value: 2", "a field that is not known"),
        (
            f"{BETWEEN}, column: x, min_value: 1, result_format: COMPLETE",
            "a field that is not known",
        ),
        (f"{BETWEEN}, column: x, min_value: 1, row_condition: y", "a field that is not known"),
        (
            f"{BETWEEN}, column: colour, min_value: 1",
            "an attribute with bounds: x, age, got 'colour'",
        ),
        (f"{BETWEEN}, column: zip, min_value: 1", "an attribute with bounds: x, age, got 'zip'"),
        (f"{REGEX}, column: x, regex: a", "an attribute without bounds: colour, person, got 'x'"),
        (f'{REGEX}, column: colour, regex: "("', "expected a regular expression, got"),
        (f"{REGEX}, column: colour", "regex: expected a value, got nothing"),
        (f"{REGEX}, column: colour, regex: a, mostly: 0", "above 0, at most 1, got '0'"),
        (f"{REGEX}, column: colour, regex: a, mostly: 1.5", "above 0, at most 1"),
        (f"{REGEX}, column: colour, regex: a, severity: info", "expected critical | warning"),
        (f"{REGEX}, column: colour, regex: a, name: A b", "expected a-z, 0-9 and _"),
        (
            "type: expect_column_values_to_match_strftime_format, column: colour, "
            "strftime_format: '%Q'",
            "expected a format that dates are read by",
        ),
        (
            "type: expect_column_values_to_be_in_set, column: colour, value_set: []",
            "value_set: expected at least one value, got none",
        ),
        (
            "type: expect_column_pair_values_a_to_be_greater_than_b, column_A: x, column_B: colour",
            "column_B: expected an attribute with bounds",
        ),
    ],
)
def test_an_expectation_that_cannot_be_is_refused_with_its_line(
    line: str, message: str, tmp_path: Path
) -> None:
    sound = f"{REGEX}, column: colour, regex: r"
    with pytest.raises(DeclarationError, match=re.escape(message)) as refused:
        loaded(tmp_path, **declared(sound, line))
    assert re.match(r"\S+toy\.yaml:\d+: expectations\.2\.", str(refused.value)), refused.value


def test_two_of_one_type_and_column_need_names(tmp_path: Path) -> None:
    line = f"{REGEX}, column: colour, regex: r"
    with pytest.raises(DeclarationError, match=r"expectations\.2\.name: expected another name"):
        loaded(tmp_path, **declared(line, line))
    assert len(loaded(tmp_path, **declared(line, f"{line}, name: two")).expectations) == 2


@pytest.mark.parametrize("text", ["0", "-1", "1.01", "2", "95%", "1e-1", "0.1234567891", "nan"])
def test_a_share_is_a_decimal_number_above_0_and_at_most_1(text: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"toy\.yaml:\d+: usable: expected a decimal number"):
        loaded(tmp_path, usable=f"usable: {text}")


def test_checks_change_nothing_that_is_measured(tmp_path: Path) -> None:
    plain = loaded(tmp_path)
    line = f"{REGEX}, column: colour, regex: r"
    shared, expecting = loaded(tmp_path, usable="usable: 0.9"), loaded(tmp_path, **declared(line))
    assert plain.digest == shared.digest == expecting.digest
    assert plain.checks == loaded(tmp_path, usable="usable: 1").checks == ""
    assert len({plain.checks, shared.checks, expecting.checks}) == 3


def test_reading_a_file_with_expectations_does_not_load_the_library(tmp_path: Path) -> None:
    loaded(tmp_path, **declared(f"{REGEX}, column: colour, regex: r"))
    code = (
        "import sys; from pathlib import Path; from dp_pipeline.config.parser import load_spec;"
        "from dp_pipeline.raw.expectations import expectations_of;"
        f"expectations_of(load_spec(Path({str(tmp_path / 'toy.yaml')!r})));"
        "assert not {'great_expectations', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
