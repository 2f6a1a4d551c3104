"""Section ``expectations`` of a data set file: checks of single rows, in Great Expectations' words.

Only expectations whose verdict about a row does not depend on other rows are allowed. The library
ignores unknown expectations, and a wrong argument may fail only at a row; so types and arguments
are listed here and checked when the file is read.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, create_model, model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.fields import FormChoice, below, not_among, require, require_mapping
from dp_pipeline.config.sections import Argument, DeclaredExpectation
from dp_pipeline.config.yaml_text import TODO


class ExpectationSection(fields.Section):
    """A declared expectation about the values of a row.

    column    An attribute, or the person's column.
    column_A  An attribute.
    column_B  Another attribute.
    mostly    The share of the values that have to meet it.
    severity  critical or warning; on sensitive rows only warning.
    name      A name, where another expectation has the same type and column.
    """

    mostly: fields.Share = Fraction(1)
    severity: Literal["critical", "warning"] | None = None
    name: fields.Name | None = None


class _BoundedExpectation(ExpectationSection):
    """A declared expectation that a number, or the length of a text, lies between two ends."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [end]} for end in ("min_value", "max_value")]}
    )

    @model_validator(mode="after")
    def _require_ordered(self) -> Self:
        low, high = getattr(self, "min_value", None), getattr(self, "max_value", None)
        has_end = low is not None or high is not None
        require(has_end, "min_value or max_value", "neither", "min_value")
        if low is not None and high is not None:
            require(low <= high, f"at least the min_value {low:g}", f"{high:g}", "max_value")
        return self


def _accepted_by(use: Callable[[str], object], expected: str) -> fields.Scalar:
    def is_accepted(text: str) -> bool:
        try:
            use(text)
        except (ValueError, re.error, OverflowError, RecursionError):
            return False
        return bool(text)

    return fields.text_that(is_accepted, expected)


_LEAP_DAY = datetime(2000, 2, 29, tzinfo=UTC)
_REGEX = Annotated[str, _accepted_by(re.compile, "a regular expression")]
_DATE = Annotated[
    str,
    _accepted_by(
        lambda form: datetime.strptime(_LEAP_DAY.strftime(form), form),
        "a format that dates are read by",
    ),
]
_MISSING = Literal["both_values_are_missing", "either_value_is_missing", "neither"]

_STRICT = {"strict_min": (fields.Switch, False), "strict_max": (fields.Switch, False)}
_NUMBERS = dict.fromkeys(("min_value", "max_value"), (fields.Number | None, None)) | _STRICT
_LENGTHS = dict.fromkeys(("min_value", "max_value"), (fields.Index | None, None)) | _STRICT
_SET = {"value_set": (fields.NonEmpty[fields.Item], ...)}
_LIST = {"regex_list": (fields.NonEmpty[_REGEX], ...)}
_SOME = {"match_on": (Literal["any", "all"] | None, None)}
_OR_EQUAL = {"or_equal": (fields.Switch, False)}
_PAIR = {"ignore_row_if": (_MISSING | None, None)}

_ARGUMENTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "column_values_to_be_between": ("number", _NUMBERS),
    "column_values_to_be_in_set": ("either", _SET),
    "column_values_to_not_be_in_set": ("either", _SET),
    "column_values_to_be_null": ("either", {}),
    "column_values_to_not_be_null": ("either", {}),
    "column_value_lengths_to_be_between": ("text", _LENGTHS),
    "column_value_lengths_to_equal": ("text", {"value": (fields.Index, ...)}),
    "column_values_to_match_regex": ("text", {"regex": (_REGEX, ...)}),
    "column_values_to_not_match_regex": ("text", {"regex": (_REGEX, ...)}),
    "column_values_to_match_regex_list": ("text", _LIST | _SOME),
    "column_values_to_not_match_regex_list": ("text", _LIST),
    "column_values_to_match_strftime_format": ("text", {"strftime_format": (_DATE, ...)}),
    "column_values_to_be_dateutil_parseable": ("text", {}),
    "column_values_to_be_json_parseable": ("text", {}),
    "column_pair_values_a_to_be_greater_than_b": ("number", _OR_EQUAL | _PAIR),
    "column_pair_values_to_be_equal": ("number", _PAIR),
}
"""Name after ``expect_`` → kind of values (numbers of an attribute with bounds, texts of any other
and of the person's column, or either), and argument → type and default."""


def _type(name: str, arguments: dict[str, Any]) -> type[ExpectationSection]:
    columns = ("column_A", "column_B") if "_pair_" in name else ("column",)
    own = {"type": (Literal[name], ...), **dict.fromkeys(columns, (fields.Text, ...)), **arguments}
    base = _BoundedExpectation if "min_value" in own else ExpectationSection
    return create_model(name, __base__=base, **own)


TYPES: Mapping[str, type[ExpectationSection]] = {
    f"expect_{name}": _type(f"expect_{name}", arguments)
    for name, (_, arguments) in _ARGUMENTS.items()
}
"""Library's name of an expectation → its section."""


def _expectation(value: object) -> ExpectationSection:
    section = require_mapping(value)
    name = section.get("type")
    if not isinstance(name, str) or name == TODO:
        raise not_among(name, TYPES, field=("type",))
    near = " | ".join(get_close_matches(name, TYPES, n=2)) or next(iter(TYPES))
    expected = f"an expectation of single rows, such as {near}"
    require(name in TYPES, expected, repr(name[:60]), "type")
    return TYPES[name].model_validate(section)


_FORM = FormChoice(reduce(or_, TYPES.values()), _expectation)
_Forms = tuple[Annotated[ExpectationSection, _FORM], ...]
Expectations = Annotated[_Forms, BeforeValidator(fields.require_list)]


def declared_expectations(
    sections: tuple[ExpectationSection, ...],
    domain: Domain,
    person: str | None,
    *,
    is_release: bool,
) -> tuple[DeclaredExpectation, ...]:
    """Return the expectations of one data set, in the order of the file.

    person      the column that names the person, or None
    is_release  whether rows are sensitive, so that no row may decide whether others are released

    FieldError for a column of the wrong kind, for a critical expectation on sensitive rows, and for
    two expectations that differ in their arguments alone.
    """
    declared: dict[tuple[str, ...], DeclaredExpectation] = {}
    for index, section in enumerate(sections):
        with below("expectations", index):
            expectation = _declared(section, domain, person, is_release=is_release)
            key = (expectation.type, *expectation.columns.values(), expectation.name)
            expected = "another name than that of the same expectation above"
            require(key not in declared, expected, expectation.name or "no name", "name")
            declared[key] = expectation
    return tuple(declared.values())


def _declared(
    section: ExpectationSection, domain: Domain, person: str | None, *, is_release: bool
) -> DeclaredExpectation:
    section_fields = {name: value for name, value in section if name in section.model_fields_set}
    checked, own = _ARGUMENTS[section_fields["type"].removeprefix("expect_")]
    numbers = [attribute.name for attribute in domain if attribute.is_numeric]
    texts = [attribute.name for attribute in domain if not attribute.is_numeric]
    texts += [person] if person is not None and person not in domain.names else []
    kinds = {"number": (numbers, "with bounds"), "text": (texts, "without bounds")}
    allowed, kind = kinds.get(checked, ([*numbers, *texts], "of the file"))
    columns = {key: column for key, column in section_fields.items() if key.startswith("column")}
    for key, column in columns.items():
        if column not in allowed:
            raise not_among(column, allowed, expected=f"an attribute {kind}", field=(key,))
    arguments: dict[str, Argument] = {k: v for k, v in section_fields.items() if k in own}
    if "value_set" in own and columns["column"] in numbers:
        with below("value_set"):
            arguments["value_set"] = tuple(map(fields.FINITE.read, section_fields["value_set"]))
    severity = section.severity or ("warning" if is_release else "critical")
    expected = "warning on sensitive rows: no row may decide whether the others are released"
    require(not is_release or severity == "warning", expected, severity, "severity")
    return DeclaredExpectation(
        section_fields["type"],
        columns,
        arguments,
        mostly=section.mostly,
        is_critical=severity == "critical",
        name=section.name or "",
    )
