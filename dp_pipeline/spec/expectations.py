"""Expectations that a user declares, in Great Expectations' words: what each says of one row.

Only expectations of single rows are known here: what they say of a row does not depend on
others. The library itself is not asked. It drops an expectation that it does not know and an
argument that it cannot use may fail at a row, so all of them are listed, and checked where the
file is read.

Section ``expectations`` of a data set file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import Literal

from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.fields import Fields
from dp_pipeline.spec.name import EXPECTED_NAME, is_name

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


def parse_expectations(
    fields: Fields, domain: Domain, person: str | None, *, is_release: bool
) -> tuple[DeclaredExpectation, ...]:
    """The expectations of one data set, in the order of the file; none without the section.

    fields      of the whole file
    person      the column that names the person, if there is one
    is_release  whether rows are sensitive: no row may then decide whether others are released

    DeclarationError with file and line for a type that is not known or judges more than single
    rows, an argument that is missing, not known or of another form, and for two that are the
    same but for their arguments.
    """
    if "expectations" not in fields:
        return ()
    declared: list[DeclaredExpectation] = []
    for section in fields.sections("expectations"):
        one = _expectation(section, domain, person, is_release=is_release)
        if any(_identity(one) == _identity(other) for other in declared):
            section.refuse("name", "another name than that of the same expectation above", "none")
        declared.append(one)
    return tuple(declared)


def _identity(one: DeclaredExpectation) -> tuple[str, tuple[str, ...], str]:
    return one.type, tuple(one.columns.values()), one.name


def _expectation(
    section: Fields, domain: Domain, person: str | None, *, is_release: bool
) -> DeclaredExpectation:
    name = section.text("type")
    if name not in TYPES:
        near = " | ".join(get_close_matches(name, TYPES, n=2)) or next(iter(TYPES))
        section.refuse("type", f"an expectation of single rows, such as {near}", repr(name[:60]))
    type_ = TYPES[name]
    columns = {key: _column(section, key, type_, domain, person) for key in type_.columns}
    is_number = all(_is_number(domain, column) for column in columns.values())
    arguments = {
        key: _argument(section, key, form, is_number=is_number)
        for key, form in type_.arguments.items()
        if key in section or key in type_.needs
    }
    _check_ends(section, type_, arguments)
    declared = DeclaredExpectation(
        name,
        columns,
        arguments,
        mostly=section.share("mostly"),
        is_critical=_is_critical(section, is_release=is_release),
        name=_name(section),
    )
    section.finish()
    return declared


def _is_number(domain: Domain, column: str) -> bool:
    return column in domain.names and domain[column].is_numeric


def _column(
    section: Fields, key: str, type_: ExpectationType, domain: Domain, person: str | None
) -> str:
    """The attribute that an expectation names, or the person's column."""
    numbers = [one.name for one in domain if one.is_numeric]
    words = [one.name for one in domain if not one.is_numeric]
    words += [person] if person is not None and person not in domain.names else []
    known = {"number": numbers, "text": words, "either": [*numbers, *words]}[type_.on]
    kind = {"number": "with bounds", "text": "without bounds", "either": "of the file"}[type_.on]
    name = section.text(key)
    if name not in known:
        listed = ", ".join(known) or "there is none"
        section.refuse(key, f"an attribute {kind}: {listed}", repr(name[:60]))
    return name


def _argument(section: Fields, key: str, form: Form, *, is_number: bool) -> Argument:
    if form == "values":
        values = section.numbers(key) if is_number else section.texts(key)
        return values or section.refuse(key, "at least one value", "none")
    return _READERS[form](section, key)


def _regexes(section: Fields, key: str) -> Argument:
    texts = section.texts(key) or section.refuse(key, "at least one value", "none")
    return _usable(section, key, texts, re.compile, "regular expressions")


def _usable(
    section: Fields,
    key: str,
    texts: tuple[str, ...],
    use: Callable[[str], object],
    expected: str,
) -> tuple[str, ...]:
    """The texts; refused where one cannot be used: it would fail at a row."""
    for text in texts:
        try:
            use(text)
        except (ValueError, re.error, OverflowError, RecursionError):
            section.refuse(key, expected, repr(text[:60]))
    return texts


def _read_back(form: str) -> datetime:
    return datetime.strptime(datetime(2000, 2, 29, tzinfo=UTC).strftime(form), form)


def _check_ends(section: Fields, type_: ExpectationType, arguments: dict[str, Argument]) -> None:
    if type_.one_of and not any(key in arguments for key in type_.one_of):
        section.refuse(type_.one_of[0], " or ".join(type_.one_of), "neither")
    low, high = arguments.get("min_value"), arguments.get("max_value")
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        section.refuse("max_value", f"at least the min_value {low:g}", f"{high:g}")


def _is_critical(section: Fields, *, is_release: bool) -> bool:
    """Of public rows critical unless it says otherwise, of sensitive ones never."""
    default = "warning" if is_release else "critical"
    severity = section.text("severity", default, choices=("critical", "warning"))
    if is_release and severity == "critical":
        expected = "warning on sensitive rows: none may decide whether the others are released"
        section.refuse("severity", expected, severity)
    return severity == "critical"


def _name(section: Fields) -> str:
    if "name" not in section:
        return ""
    name = section.text("name")
    if not is_name(name):
        section.refuse("name", EXPECTED_NAME, repr(name[:60]))
    return name


_READERS: Mapping[Form, Callable[[Fields, str], Argument]] = {
    "number": Fields.number,
    "whole": lambda section, key: section.integer(key, at_least=0),
    "switch": Fields.boolean,
    "regex": lambda section, key: _usable(
        section, key, (section.text(key),), re.compile, "a regular expression"
    )[0],
    "regexes": _regexes,
    "strftime": lambda section, key: _usable(
        section, key, (section.text(key),), _read_back, "a format that dates are read by"
    )[0],
    "any_or_all": lambda section, key: section.text(key, choices=ANY_OR_ALL),
    "missing_pairs": lambda section, key: section.text(key, choices=MISSING_PAIRS),
}
