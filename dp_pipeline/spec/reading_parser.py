"""Sections ``reading``, ``derive`` and ``windows`` of a data set file: what texts mean, columns
made of them, and the time of a row.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import model_validator

from dp_pipeline.spec import fields
from dp_pipeline.spec.clock import (
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
from dp_pipeline.spec.errors import DeclarationError, Refused
from dp_pipeline.spec.fields import require
from dp_pipeline.spec.windows import WindowKind, Windows


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
    grace      How long after its end a window is read, such as 2 days; later rows are never read.
    """

    column: fields.Text
    every: WindowKind
    zone: Zone | None = None
    format: fields.Text | None = None
    first: fields.Text
    grace: Grace = 0

    def declared(self, reading: ReadingSection) -> Windows:
        """How rows are cut; Refused for a first window that the calendar does not have."""
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
        try:
            windows.require(self.first)
        except DeclarationError as refused:
            expected, _, got = str(refused).removeprefix("window: expected ").partition(", got ")
            raise Refused(expected, got, field=("first",)) from None
        return windows
