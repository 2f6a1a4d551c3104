"""Expectations that a user declares, in Great Expectations' words: what each says of one row.

Only expectations of single rows are known here: what they say of a row does not depend on
others. The library itself is not asked. It drops an expectation that it does not know and an
argument that it cannot use may fail at a row, so all of them are listed, and checked where the
file is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, create_model, model_validator

from dp_pipeline.spec import fields
from dp_pipeline.spec.dataset import Argument, DeclaredExpectation
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.fields import OneForm, a_mapping, below, not_among, require
from dp_pipeline.spec.yaml_text import TODO


class Expectation(fields.Section):
    """What the values of one row, or so many of the rows, should be like.

    column    An attribute, or the person's column.
    column_A  An attribute.
    column_B  Another attribute.
    mostly    Which share of the values has to be so.
    severity  Sensitive rows are only ever warned of.
    name      Tells it from another one of the same type and column.
    """

    mostly: fields.Share = Fraction(1)
    severity: Literal["critical", "warning"] | None = None
    name: fields.Name | None = None


class _Ends(Expectation):
    """Of a number, or of a text's length, between two ends."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [one]} for one in ("min_value", "max_value")]}
    )

    @model_validator(mode="after")
    def _ordered(self) -> _Ends:
        low, high = getattr(self, "min_value", None), getattr(self, "max_value", None)
        is_one = low is not None or high is not None
        require(is_one, "min_value or max_value", "neither", "min_value")
        if low is not None and high is not None:
            require(low <= high, f"at least the min_value {low:g}", f"{high:g}", "max_value")
        return self


def _usable(use: Callable[[str], object], expected: str) -> fields.Scalar:
    """A text that can be used: else it would fail at a row."""

    def parse(text: str) -> str | None:
        try:
            use(text)
        except (ValueError, re.error, OverflowError, RecursionError):
            return None
        return text or None

    return fields.Scalar(parse, expected, fields.TEXT)


def _read_back(form: str) -> datetime:
    return datetime.strptime(datetime(2000, 2, 29, tzinfo=UTC).strftime(form), form)


_REGEX = Annotated[str, _usable(re.compile, "a regular expression")]
_DATE = Annotated[str, _usable(_read_back, "a format that dates are read by")]
_MISSING = Literal["both_values_are_missing", "either_value_is_missing", "neither"]

_STRICT = {"strict_min": (fields.Switch, False), "strict_max": (fields.Switch, False)}
_NUMBERS = dict.fromkeys(("min_value", "max_value"), (fields.Number | None, None)) | _STRICT
_LENGTHS = dict.fromkeys(("min_value", "max_value"), (fields.Index | None, None)) | _STRICT
_SET = {"value_set": (fields.Several[fields.Item], ...)}
_LIST = {"regex_list": (fields.Several[_REGEX], ...)}
_SOME = {"match_on": (Literal["any", "all"] | None, None)}
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
    "column_pair_values_a_to_be_greater_than_b": (
        "number",
        {"or_equal": (fields.Switch, False)} | _PAIR,
    ),
    "column_pair_values_to_be_equal": ("number", _PAIR),
}
"""Behind ``expect_``: what is judged (numbers of an attribute with bounds, texts of any other and
of the person's column, or either), and argument → type and default."""


def _type(name: str, arguments: dict[str, Any]) -> type[Expectation]:
    columns = ("column_A", "column_B") if "_pair_" in name else ("column",)
    own = {"type": (Literal[name], ...), **dict.fromkeys(columns, (fields.Text, ...)), **arguments}
    return create_model(name, __base__=_Ends if "min_value" in own else Expectation, **own)


TYPES: Mapping[str, type[Expectation]] = {
    f"expect_{name}": _type(f"expect_{name}", arguments)
    for name, (_, arguments) in _ARGUMENTS.items()
}
"""The expectations of single rows, under the library's own names."""


def _expectation(value: object) -> Expectation:
    section = a_mapping(value)
    name = section.get("type")
    if not isinstance(name, str):
        raise not_among(name, TYPES, field=("type",))
    if name == TODO:
        with below("type"):
            raise fields.undecided()
    near = " | ".join(get_close_matches(name, TYPES, n=2)) or next(iter(TYPES))
    expected = f"an expectation of single rows, such as {near}"
    require(name in TYPES, expected, repr(name[:60]), "type")
    return TYPES[name].model_validate(section)


_Any = Annotated[Expectation, OneForm(reduce(or_, TYPES.values()), _expectation)]
Expectations = Annotated[tuple[_Any, ...], BeforeValidator(fields.a_list)]


def declared_expectations(
    sections: tuple[Expectation, ...], domain: Domain, person: str | None, *, is_release: bool
) -> tuple[DeclaredExpectation, ...]:
    """The expectations of one data set, in the order of the file.

    person      the column that names the person, if there is one
    is_release  whether rows are sensitive: no row may then decide whether others are released

    Refused for columns of another kind than a type judges, and for two that are the same but for
    their arguments.
    """
    declared: dict[tuple[str, ...], DeclaredExpectation] = {}
    for place, section in enumerate(sections):
        with below("expectations", place):
            one = _declared(section, domain, person, is_release=is_release)
            key = (one.type, *one.columns.values(), one.name)
            expected = "another name than that of the same expectation above"
            require(key not in declared, expected, "none", "name")
            declared[key] = one
    return tuple(declared.values())


def _declared(
    section: Expectation, domain: Domain, person: str | None, *, is_release: bool
) -> DeclaredExpectation:
    said = {name: one for name, one in section if name in section.model_fields_set}
    on, own = _ARGUMENTS[said["type"].removeprefix("expect_")]
    numbers = [one.name for one in domain if one.is_numeric]
    words = [one.name for one in domain if not one.is_numeric]
    words += [person] if person is not None and person not in domain.names else []
    known = {"number": numbers, "text": words, "either": [*numbers, *words]}[on]
    kind = {"number": "with bounds", "text": "without bounds", "either": "of the file"}[on]
    columns = {key: one for key, one in said.items() if key.startswith("column")}
    for key, column in columns.items():
        if column not in known:
            raise not_among(column, known, expected=f"an attribute {kind}", field=(key,))
    arguments: dict[str, Argument] = {key: one for key, one in said.items() if key in own}
    if "value_set" in own and columns["column"] in numbers:
        with below("value_set"):
            arguments["value_set"] = tuple(map(fields.A_NUMBER.read, said["value_set"]))
    # Of public rows critical unless it says otherwise, of sensitive ones never.
    severity = section.severity or ("warning" if is_release else "critical")
    expected = "warning on sensitive rows: none may decide whether the others are released"
    require(not is_release or severity == "warning", expected, severity, "severity")
    return DeclaredExpectation(
        said["type"],
        columns,
        arguments,
        mostly=section.mostly,
        is_critical=severity == "critical",
        name=section.name or "",
    )
