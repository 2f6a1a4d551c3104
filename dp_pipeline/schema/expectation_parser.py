"""Section ``expectations`` of a data set file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches

from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.expectation import (
    ANY_OR_ALL,
    MISSING_PAIRS,
    TYPES,
    Argument,
    DeclaredExpectation,
    ExpectationType,
    Form,
)
from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.name import EXPECTED_NAME, is_name


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
