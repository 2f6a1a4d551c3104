"""Sections ``reading``, ``derive`` and ``windows`` of a data set file: signs of numbers and missing
values, columns that are functions of a row, and time windows.
"""

import re
from dataclasses import replace
from typing import Annotated, Literal, Self, get_args

from pydantic import model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.calendar import Period
from dp_pipeline.config.clock import DAY, Clock, ClockKind, format_mistake, is_zone
from dp_pipeline.config.fields import below, require
from dp_pipeline.config.reading import PARTS_OF_TIME, SPACES, THOUSANDS, Derived, Function, Signs
from dp_pipeline.config.windows import Windows


def _thousands(text: str) -> str | None:
    sign = " " if text and text in SPACES else text
    return sign if sign in THOUSANDS else None


_DECIMALS = (".", ",")
Decimal = Annotated[
    str, fields.text_that(_DECIMALS.__contains__, '"." or ","', {"enum": [*_DECIMALS]})
]
Thousands = Annotated[
    str,
    fields.Scalar(_thousands, "a point, a comma, an apostrophe or a space", {"enum": [*THOUSANDS]}),
]
Zone = Annotated[str, fields.text_that(is_zone, "a zone such as Europe/Zurich")]


class SignsSection(fields.Section):
    """The decimal and thousands signs of numbers that are stored as texts.

    decimal    The decimal sign of a number in a text: "." or ",".
    thousands  The separator of groups of three digits.
    """

    decimal: Decimal | None = None
    thousands: Thousands | None = None

    @model_validator(mode="after")
    def _require_different(self) -> Self:
        is_other = self.thousands != (self.decimal or ".")
        expected = "another sign than the decimal sign"
        require(is_other, expected, repr(self.thousands), "thousands")
        return self

    def signs(self, default: Signs) -> Signs:
        """Return the declared signs, or the default if none are declared."""
        if self.decimal is None and self.thousands is None:
            return default
        return Signs(self.decimal or ".", self.thousands or "")


def require_time_format(text: str | None, kind: ClockKind | None = None) -> None:
    """Raise FieldError for a wrong format of dates or times; None means ISO 8601, and passes.

    kind   None: ``timestamp`` for a format with %H, else ``date``
    """
    if text is not None:
        kind = kind or ("timestamp" if "%H" in text else "date")
        mistake = format_mistake(text, kind)
        require(not mistake, f"a format with {mistake}", repr(text[:60]), "format")


class ReadingSection(SignsSection):
    """The way in which the values of all columns are read, unless an attribute declares its own.

    missing  Texts that mean a missing value, in addition to an empty one.
    zone     The time zone of times without an offset; UTC if not given.
    format   The format of texts of dates or times, if it is not ISO 8601.
    """

    missing: fields.ListOf[fields.Item] = ()
    zone: Zone = "UTC"
    format: fields.Text | None = None

    @model_validator(mode="after")
    def _require_format(self) -> Self:
        require_time_format(self.format)
        return self

    def format_of(self, kind: ClockKind, declared: str | None) -> str:
        """Return the declared format, or the common one if it fits ``kind``; empty for ISO 8601."""
        if declared is not None or self.format is None:
            return declared or ""
        return "" if format_mistake(self.format, kind) else self.format

    @property
    def missing_texts(self) -> tuple[str, ...]:
        """The texts of missing values other than an empty one, sorted."""
        return tuple(sorted({text.strip() for text in self.missing} - {""}))


DEFAULT_READING = ReadingSection()


_Pair = Annotated[fields.ListOf[fields.Item], fields.PAIR]


class DeriveSection(SignsSection):
    """A declared column that is computed from other columns of one row.

    hour        The hour of a column of times: 0 to 23, in its zone.
    weekday     The weekday of a column of dates or times: Monday is 1, Sunday 7.
    month       The month of a column of dates or times: 1 to 12.
    year        The year of a column of dates or times.
    difference  The first of two columns less the second: numbers, or times with a unit.
    unit        The unit of a difference of times: seconds, minutes, hours, days or weeks.
    product     The product of a column of numbers and a constant: [fare, 0.95].
    prefix      The first letters of a text, and their number: [postcode, 2].
    format      The format of texts of times, if it is not ISO 8601.
    zone        The time zone of times without an offset.
    """

    hour: fields.Text | None = None
    weekday: fields.Text | None = None
    month: fields.Text | None = None
    year: fields.Text | None = None
    difference: _Pair | None = None
    unit: Literal["seconds", "minutes", "hours", "days", "weeks"] | None = None
    product: _Pair | None = None
    prefix: _Pair | None = None
    format: fields.Text | None = None
    zone: Zone | None = None

    @property
    def _function(self) -> Function:
        return next(name for name in _FUNCTIONS if getattr(self, name) is not None)

    @property
    def _reads_times(self) -> bool:
        return self._function in PARTS_OF_TIME or self.unit is not None

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        functions = [name for name in _FUNCTIONS if getattr(self, name) is not None]
        got = " and ".join(functions) or "none"
        require(len(functions) == 1, f"one of {', '.join(_FUNCTIONS)}", got)
        function, reads_times = self._function, self._reads_times
        value = getattr(self, function)
        is_pair = isinstance(value, str) or (len(value) == 2 and all(value))
        got = "an empty one" if len(value) == 2 else str(len(value))
        require(is_pair, "two values", got, function)
        reads_numbers = not reads_times and function != "prefix"
        allowed = {"unit": function == "difference", "format": reads_times, "zone": reads_times}
        allowed |= dict.fromkeys(("decimal", "thousands"), reads_numbers)
        for field, is_allowed in allowed.items():
            other = getattr(self, field)
            is_good, expected = is_allowed or other is None, f"no {field} of `{function}`"
            require(is_good, expected, str(other), field)
        require_time_format(self.format)
        if function == "product":
            fields.FINITE.read(value[1])
        if function == "prefix":
            fields.integer(1).read(value[1])
        return self

    def derived(self, reading: ReadingSection) -> Derived:
        """Return the declared derived column; ``reading`` has what it does not declare."""
        function, value = self._function, getattr(self, self._function)
        inputs = (value,) if isinstance(value, str) else tuple(value)
        format_ = self.format or reading.format or ""
        clock = Clock("timestamp", self.zone or reading.zone, format_)
        has_signs = not self._reads_times and function != "prefix"
        return Derived(
            function,
            inputs if function == "difference" else inputs[:1],
            clock=clock if self._reads_times else None,
            signs=self.signs(reading.signs(Signs())) if has_signs else Signs(),
            missing=reading.missing_texts,
            unit=self.unit or "",
            factor=float(value[1]) if function == "product" else 1.0,
            letters=int(value[1]) if function == "prefix" else 0,
        )


_FUNCTIONS: tuple[Function, ...] = get_args(Function)
_SECONDS = {"hour": 3600, "day": DAY, "week": 7 * DAY}


def _seconds(text: str) -> int | None:
    match = re.fullmatch(r"([0-9]{1,4}) (hour|day|week)s?", text)
    return int(match[1]) * _SECONDS[match[2]] if match else None


_EXPECTED_GRACE = "a time such as 2 days: hours, days or weeks"


class WindowsSection(fields.Section):
    """Rows partitioned into time windows, each with a budget of its own.

    column     The column whose time assigns a row to a window.
    every      The length of a window, by the calendar; weeks begin on Monday.
    zone       The time zone of the calendar, and of times without an offset.
    format     The format of texts of times, if it is not ISO 8601.
    first      The first window: 2026-W01, 2026-01-05, 2026-01, 2026-Q1, 2026 or 2026-01-05T14Z.
    last       The last window, if rows do not go on.
    grace      The time from a window's end to its reading, such as 2 days; later rows are not read.
    """

    column: fields.Text
    every: Period
    zone: Zone | None = None
    format: fields.Text | None = None
    first: fields.Text
    last: fields.Text | None = None
    grace: Annotated[int, fields.Scalar(_seconds, _EXPECTED_GRACE, fields.TEXT)] = 0

    def declared(self, reading: ReadingSection) -> Windows:
        """Return the declared windows, with the zone and format of ``reading`` as defaults.

        FieldError for a wrong format, for hours outside UTC, and for a ``first`` or ``last`` that
        is no window.
        """
        require_time_format(self.format)
        zone = self.zone or reading.zone
        is_unique, expected = self.every != "hour" or zone == "UTC", "the zone UTC for hours"
        require(is_unique, f"{expected}: elsewhere one occurs twice a year", zone, "zone")
        clock = Clock("timestamp", zone, self.format or reading.format or "")
        windows = Windows(self.column, self.every, clock, self.first, self.grace)
        for field, name in (("first", self.first), ("last", self.last or self.first)):
            with below(field):
                windows.require(name)
        return replace(windows, last=self.last or "")
