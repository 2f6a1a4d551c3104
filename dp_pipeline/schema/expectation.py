"""Expectations that a user declares, in Great Expectations' words: what each says of one row.

Only expectations of single rows are known here: what they say of a row does not depend on
others. The library itself is not asked. It drops an expectation that it does not know and an
argument that it cannot use may fail at a row, so all of them are listed, and checked where the
file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Form = Literal[
    "number",
    "whole",
    "switch",
    "values",
    "regex",
    "regexes",
    "strftime",
    "any_or_all",
    "missing_pairs",
]
"""What an argument is: ``values`` are numbers of an attribute with bounds, else texts."""

Argument = float | int | bool | str | tuple[float, ...] | tuple[str, ...]

ANY_OR_ALL = ("any", "all")
MISSING_PAIRS = ("both_values_are_missing", "either_value_is_missing", "neither")


@dataclass(frozen=True)
class ExpectationType:
    """One of the library's expectations.

    on         what it judges: numbers of an attribute with bounds, texts of any other and of the
               person's column, or either
    arguments  name → form, beside the columns
    needs      the arguments without which it says nothing: all of them, or one of a pair
    columns    the names of the arguments that name a column
    """

    on: Literal["number", "text", "either"]
    arguments: Mapping[str, Form]
    needs: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("column",)


_ENDS: Mapping[str, Form] = {"strict_min": "switch", "strict_max": "switch"}
_PAIR = ("column_A", "column_B")
_IGNORED: Mapping[str, Form] = {"ignore_row_if": "missing_pairs"}

TYPES: Mapping[str, ExpectationType] = {
    "expect_column_values_to_be_between": ExpectationType(
        "number",
        {"min_value": "number", "max_value": "number", **_ENDS},
        one_of=("min_value", "max_value"),
    ),
    "expect_column_values_to_be_in_set": ExpectationType(
        "either", {"value_set": "values"}, ("value_set",)
    ),
    "expect_column_values_to_not_be_in_set": ExpectationType(
        "either", {"value_set": "values"}, ("value_set",)
    ),
    "expect_column_values_to_be_null": ExpectationType("either", {}),
    "expect_column_values_to_not_be_null": ExpectationType("either", {}),
    "expect_column_value_lengths_to_be_between": ExpectationType(
        "text",
        {"min_value": "whole", "max_value": "whole", **_ENDS},
        one_of=("min_value", "max_value"),
    ),
    "expect_column_value_lengths_to_equal": ExpectationType("text", {"value": "whole"}, ("value",)),
    "expect_column_values_to_match_regex": ExpectationType("text", {"regex": "regex"}, ("regex",)),
    "expect_column_values_to_not_match_regex": ExpectationType(
        "text", {"regex": "regex"}, ("regex",)
    ),
    "expect_column_values_to_match_regex_list": ExpectationType(
        "text", {"regex_list": "regexes", "match_on": "any_or_all"}, ("regex_list",)
    ),
    "expect_column_values_to_not_match_regex_list": ExpectationType(
        "text", {"regex_list": "regexes"}, ("regex_list",)
    ),
    "expect_column_values_to_match_strftime_format": ExpectationType(
        "text", {"strftime_format": "strftime"}, ("strftime_format",)
    ),
    "expect_column_values_to_be_dateutil_parseable": ExpectationType("text", {}),
    "expect_column_values_to_be_json_parseable": ExpectationType("text", {}),
    "expect_column_pair_values_a_to_be_greater_than_b": ExpectationType(
        "number", {"or_equal": "switch", **_IGNORED}, columns=_PAIR
    ),
    "expect_column_pair_values_to_be_equal": ExpectationType("number", _IGNORED, columns=_PAIR),
}
"""The expectations of single rows, under the library's own names."""


@dataclass(frozen=True)
class DeclaredExpectation:
    """One expectation of a data set file.

    type         one of TYPES
    columns      argument that names a column → attribute, or the person's column
    arguments    argument → value, beside the columns
    mostly       share of the values that have to be as expected
    is_critical  whether its failure stops rows of a benchmark; never sensitive ones
    name         what tells it from another one of the same type and columns; may be empty
    """

    type: str
    columns: Mapping[str, str]
    arguments: Mapping[str, Argument]
    mostly: Fraction = Fraction(1)
    is_critical: bool = False
    name: str = ""
