"""What a user declares in Great Expectations' words is what the library tests, row by row."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.expectation_parser import TYPES
from dp_pipeline.raw.expectations import expectations_of
from dp_pipeline.raw.great_expectations_session import load_library
from dp_pipeline.raw.validate import Verdict, refusal, validate
from dp_pipeline_tests.raw.written import ingested, written_spec

ATTRIBUTES = """
  n: {bounds: [0, 10]}
  m: {bounds: [0, 10], bins: 2, nullable: true}
  t: {levels: [a, bb, "2020", "[1]"], nullable: true, column: word, aliases: {B: bb}}
"""
PERSONS = "{unit: rows_of_person, column: rider, at_most: 9}"
ROWS: dict[str, list[Any]] = {
    "n": ["1", "2.5", "9"],
    "m": ["1", "", "10"],
    "word": [" a ", "B", "2020"],
    "rider": ["p1", " p2", "p3"],
}


def expecting(folder: Path, *lines: str, purpose: str = "benchmark") -> DatasetSpec:
    section = "expectations:\n" + "".join(f"  - {{type: expect_{line}}}\n" for line in lines)
    return written_spec(folder, ATTRIBUTES, protection=PERSONS, purpose=purpose, more=section)


def failed(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {verdict.expectation.name for verdict in verdicts if not verdict.passed}


_PAIR = "column_A: n, column_B: m, ignore_row_if: either_value_is_missing"
_YEARS = "column_values_to_match_strftime_format, column: t, strftime_format: '%Y'"
_LISTS = "column_values_to_match_regex_list, column: t"

HELD_AND_BROKEN = [
    ("column_values_to_be_between, column: n, max_value: {}", "9", "8"),
    ("column_values_to_be_between, column: n, max_value: 9, strict_max: {}", "false", "true"),
    ("column_values_to_be_in_set, column: n, value_set: {}", "[1, 2.5, 9]", "[1, 9]"),
    ("column_values_to_be_in_set, column: t, value_set: {}", "[a, bb, '2020']", "[a, B]"),
    ("column_values_to_not_be_in_set, column: t, value_set: {}", "[B, x]", "[bb]"),
    ("column_values_to_be_null, column: m, mostly: {}", "0.3", "0.4"),
    ("column_values_to_not_be_null, column: m, mostly: {}", "0.6", "0.7"),
    ("column_value_lengths_to_be_between, column: t, max_value: {}", "4", "3"),
    ("column_value_lengths_to_equal, column: rider, value: {}", "2", "3"),
    ("column_values_to_match_regex, column: rider, regex: {}", "'^p[0-9]$'", "'^p[0-2]$'"),
    ("column_values_to_not_match_regex, column: rider, regex: {}", "'^ '", "'3$'"),
    (f"{_LISTS}, regex_list: {{}}", "[a, b, '^2']", "[a, b]"),
    (f"{_LISTS}, regex_list: [a, b, 2], match_on: {{}}", "any", "all"),
    ("column_values_to_not_match_regex_list, column: t, regex_list: {}", "[x, y]", "[x, a]"),
    (f"{_YEARS}, mostly: {{}}", "0.3", "0.4"),
    ("column_values_to_be_dateutil_parseable, column: t, mostly: {}", "0.3", "0.9"),
    ("column_values_to_be_json_parseable, column: t, mostly: {}", "0.3", "0.4"),
    (
        f"column_pair_values_a_to_be_greater_than_b, {_PAIR}, mostly: 0.5, or_equal: {{}}",
        *("true", "false"),
    ),
    (f"column_pair_values_to_be_equal, {_PAIR}, mostly: {{}}", "0.5", "0.6"),
]
"""An expectation with a gap, what makes it hold of ROWS, and what does not."""


def cases(which: int) -> list[str]:
    """The expectations that hold (1) or do not (2)."""
    filled = enumerate(case[0].format(case[which]) for case in HELD_AND_BROKEN)
    return [f"{line}, name: case_{index}" for index, line in filled]


def test_every_type_has_a_passing_and_a_failing_case():
    assert {f"expect_{line.partition(',')[0]}" for line, _, _ in HELD_AND_BROKEN} == set(TYPES)


@pytest.mark.chain
def test_each_expectation_is_fulfilled_or_not_as_the_rows_are(tmp_path):
    assert failed(validate(expecting(tmp_path, *cases(1)), ingested(tmp_path, ROWS))) == set()
    spec = expecting(tmp_path, *cases(2))
    names = {each.name for each in expectations_of(spec) if each.rule == "declared"}
    assert failed(validate(spec, ingested(tmp_path, ROWS, "again"))) == names
    assert len(names) == len(HELD_AND_BROKEN)
    assert all(re.fullmatch(r"expect_[a-z0-9_]+", name) for name in names)


def test_library_knows_each_type_and_its_arguments():
    kinds = load_library().expectations
    for name, type_ in TYPES.items():
        kind = getattr(kinds, "".join(map(str.capitalize, name.split("_"))))
        assert set(type_.model_fields) - {"type", "name"} <= set(kind.__fields__), name
        parents = {parent.__name__ for parent in kind.__mro__}
        assert parents & {"ColumnMapExpectation", "ColumnPairMapExpectation"}, name


def test_what_fails_stops_public_rows_unless_it_is_a_warning(tmp_path):
    line = "column_values_to_match_regex, column: rider, regex: q"
    spec = expecting(tmp_path, line, f"{line}, severity: warning, name: mild")
    verdicts = validate(spec, ingested(tmp_path, ROWS))
    name = "expect_column_values_to_match_regex_person_id"
    assert failed(verdicts) == {name, f"{name}__mild"}
    words = refusal(spec, verdicts)
    assert words is not None
    assert name in words
    assert "mild" not in words


def test_no_rows_fulfil_every_expectation_of_single_rows(tmp_path):
    spec = expecting(tmp_path, *cases(2), purpose="release")
    empty = pa.table({name: pa.array([], pa.string()) for name in ROWS})
    assert failed(validate(spec, ingested(tmp_path, empty))) == {"has_rows"}


def test_two_expectations_never_share_the_name_of_a_check(tmp_path):
    line = "column_values_to_not_be_null, column: {}"
    spec = expecting(tmp_path, *(line.format(column) for column in ("n", "m", "t", "rider")))
    names = [expectation.name for expectation in expectations_of(spec)]
    assert len(set(names)) == len(names)
    with pytest.raises(DeclarationError, match="another name"):
        expecting(tmp_path, line.format("n"), line.format("n"))
