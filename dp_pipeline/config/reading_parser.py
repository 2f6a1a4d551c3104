"""Sections ``reading``, ``derive`` and ``windows`` of a data set file: what texts mean, columns
made of them, and the time of a row.

Expectations that a user declares, in Great Expectations' words: what each says of one row.

Only expectations of single rows are known here: what they say of a row does not depend on
others. The library itself is not asked. It drops an expectation that it does not know and an
argument that it cannot use may fail at a row, so all of them are listed, and checked where the
file is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, create_model, model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.clock import (
    DAY,
    PARTS_OF_TIME,
    SPACES,
    THOUSANDS,
    Clock,
    Derived,
    Function,
    Signs,
    bad_format,
    is_zone,
)
from dp_pipeline.config.dataset import Argument, DeclaredExpectation
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError, Refused
from dp_pipeline.config.fields import OneForm, a_mapping, below, not_among, require
from dp_pipeline.config.windows import WindowKind, Windows
from dp_pipeline.config.yaml_text import TODO


def _thousands(text: str) -> str | None:
    one = " " if text and text in SPACES else text
    return one if one in THOUSANDS else None


Decimal = Annotated[
    str,
    fields.Scalar(
        lambda text: text if text in (".", ",") else None, '"." or ","', {"enum": [".", ","]}
    ),
]
Thousands = Annotated[
    str,
    fields.Scalar(_thousands, "a point, a comma, an apostrophe or a space", {"enum": [*THOUSANDS]}),
]
Zone = Annotated[
    str,
    fields.Scalar(
        lambda text: text if is_zone(text) else None, "a zone such as Europe/Zurich", fields.TEXT
    ),
]


class SignsSection(fields.Section):
    """Of numbers that are texts.

    decimal    What stands before the decimals of a number that is text: "." or ",".
    thousands  What groups of three digits stand apart by, where they do.
    """

    decimal: Decimal | None = None
    thousands: Thousands | None = None

    @model_validator(mode="after")
    def _differ(self) -> SignsSection:
        is_other = self.thousands != (self.decimal or ".")
        require(
            is_other, "another sign than that before decimals", repr(self.thousands), "thousands"
        )
        return self

    def signs(self, others: Signs) -> Signs:
        """Its own signs, or the others where it says none."""
        if self.decimal is None and self.thousands is None:
            return others
        return Signs(self.decimal or ".", self.thousands or "")


class ReadingSection(SignsSection):
    """How the cells of all columns are read, each by itself; an attribute may say otherwise.

    missing  Texts that mean a missing value, beside an empty one.
    zone     Where clocks show the times that have no offset; UTC where nothing is said.
    """

    missing: fields.Listed[fields.Item] = ()
    zone: Zone = "UTC"

    @property
    def empties(self) -> tuple[str, ...]:
        """Texts that say that a value is missing, beside an empty one."""
        return tuple(sorted({text.strip() for text in self.missing} - {""}))


AS_IT_IS = ReadingSection()
"""Where nothing is said."""


def require_format(text: str | None, kind: Literal["date", "timestamp"]) -> None:
    """Refuse a format that cannot say a date."""
    wrong = bad_format(text, kind) if text is not None else ""
    require(not wrong, f"a format with {wrong}", repr((text or "")[:60]), "format")


class DeriveSection(SignsSection):
    """A column that is a public function of one row.

    hour        Of a column of times: 0 to 23, in its zone.
    weekday     Of a column of dates or times: Monday is 1, Sunday 7.
    month       Of a column of dates or times: 1 to 12.
    year        Of a column of dates or times.
    difference  Of two columns, the first less the second: numbers, or times where a unit is said.
    unit        Of a difference of times: seconds, minutes, hours, days or weeks.
    product     Of a column of numbers and a constant: [fare, 0.95].
    first       Letters that a text begins with, and how many: [postcode, 2].
    format      How texts say a time, where that is not ISO 8601.
    zone        Where clocks show the times that have no offset.
    """

    hour: fields.Text | None = None
    weekday: fields.Text | None = None
    month: fields.Text | None = None
    year: fields.Text | None = None
    difference: Annotated[fields.Listed[fields.Item], fields.pair(fields.TEXT)] | None = None
    unit: Literal["seconds", "minutes", "hours", "days", "weeks"] | None = None
    product: Annotated[fields.Listed[fields.Item], fields.pair(fields.TEXT)] | None = None
    first: Annotated[fields.Listed[fields.Item], fields.pair(fields.TEXT)] | None = None
    format: fields.Text | None = None
    zone: Zone | None = None

    @model_validator(mode="after")
    def _fits(self) -> DeriveSection:
        said = [name for name in _FUNCTIONS if getattr(self, name) is not None]
        expected = f"one of {', '.join(_FUNCTIONS)}"
        require(len(said) == 1, expected, " and ".join(said) or "none")
        (function,) = said
        value = getattr(self, function)
        is_pair = isinstance(value, str) or (len(value) == 2 and all(value))
        require(is_pair, "two values", "another number of them" if value else "none", function)
        is_timed = function in PARTS_OF_TIME or self.unit is not None
        needs = {"unit": function == "difference", "format": is_timed, "zone": is_timed}
        needs |= dict.fromkeys(("decimal", "thousands"), not is_timed and function != "first")
        for field, may in needs.items():
            require(
                may or getattr(self, field) is None, f"no {field} of this function", "one", field
            )
        require_format(self.format, "timestamp" if "%H" in (self.format or "") else "date")
        if function == "product":
            fields.A_NUMBER.read(value[1])
        if function == "first":
            fields.whole(1).read(value[1])
        return self

    def derived(self, reading: ReadingSection) -> Derived:
        """The function; ``reading`` says what is not said here."""
        function: Function = next(name for name in _FUNCTIONS if getattr(self, name) is not None)
        value = getattr(self, function)
        is_timed = function in PARTS_OF_TIME or self.unit is not None
        clock = Clock("timestamp", self.zone or reading.zone, self.format or "")
        return Derived(
            function,
            tuple(value)
            if function == "difference"
            else (value if isinstance(value, str) else value[0],),
            clock=clock if is_timed else None,
            signs=Signs()
            if is_timed or function == "first"
            else self.signs(reading.signs(Signs())),
            missing=reading.empties,
            unit=self.unit or "",
            factor=float(value[1]) if function == "product" else 1.0,
            letters=int(value[1]) if function == "first" else 0,
        )


_FUNCTIONS: tuple[Function, ...] = get_args(Function)

_HOUR = 3600
_UNITS = {"hour": _HOUR, "day": DAY, "week": 7 * DAY}


def _seconds(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,4}) (hour|day|week)s?", text)
    return int(found[1]) * _UNITS[found[2]] if found else None


Grace = Annotated[
    int, fields.Scalar(_seconds, "a time such as 2 days: hours, days or weeks", fields.TEXT)
]


class WindowsSection(fields.Section):
    """Rows cut by their time, each window with a budget of its own.

    column     Whose time says to which window a row belongs.
    every      How long a window is, by the calendar; weeks begin on Monday.
    zone       Where the calendar's days begin, and where times that have no offset are shown.
    format     How texts say a time, where that is not ISO 8601.
    first      The first window: 2026-W01, 2026-01-05, 2026-01, 2026-Q1, 2026 or 2026-01-05T14Z.
    last       The last window, where rows do not go on: nothing is asked for behind it.
    grace      How long after its end a window is read, such as 2 days; later rows are never read.
    """

    column: fields.Text
    every: WindowKind
    zone: Zone | None = None
    format: fields.Text | None = None
    first: fields.Text
    last: fields.Text | None = None
    grace: Grace = 0

    def declared(self, reading: ReadingSection) -> Windows:
        """How rows are cut; Refused for a first or last window that the calendar does not have."""
        require_format(self.format, "timestamp" if "%H" in (self.format or "") else "date")
        zone = self.zone or reading.zone
        is_told = self.every != "hour" or zone == "UTC"
        require(is_told, "the zone UTC for hours: clocks elsewhere show one twice", zone, "zone")
        windows = Windows(
            self.column,
            self.every,
            Clock("timestamp", zone, self.format or ""),
            self.first,
            self.grace,
        )
        for field, name in (("first", self.first), ("last", self.last or self.first)):
            try:
                windows.require(name)
            except DeclarationError as refused:
                words = str(refused).removeprefix("window: expected ")
                expected, _, got = words.rpartition(", got ")
                raise Refused(expected, got, field=(field,)) from None
        return replace(windows, last=self.last or "")


class ExpectationSection(fields.Section):
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


class _BoundedExpectation(ExpectationSection):
    """Of a number, or of a text's length, between two ends."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [one]} for one in ("min_value", "max_value")]}
    )

    @model_validator(mode="after")
    def _ordered(self) -> _BoundedExpectation:
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


def _type(name: str, arguments: dict[str, Any]) -> type[ExpectationSection]:
    columns = ("column_A", "column_B") if "_pair_" in name else ("column",)
    own = {"type": (Literal[name], ...), **dict.fromkeys(columns, (fields.Text, ...)), **arguments}
    return create_model(
        name, __base__=_BoundedExpectation if "min_value" in own else ExpectationSection, **own
    )


TYPES: Mapping[str, type[ExpectationSection]] = {
    f"expect_{name}": _type(f"expect_{name}", arguments)
    for name, (_, arguments) in _ARGUMENTS.items()
}
"""The expectations of single rows, under the library's own names."""


def _expectation(value: object) -> ExpectationSection:
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


_Any = Annotated[ExpectationSection, OneForm(reduce(or_, TYPES.values()), _expectation)]
Expectations = Annotated[tuple[_Any, ...], BeforeValidator(fields.a_list)]


def declared_expectations(
    sections: tuple[ExpectationSection, ...],
    domain: Domain,
    person: str | None,
    *,
    is_release: bool,
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
    section: ExpectationSection, domain: Domain, person: str | None, *, is_release: bool
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
