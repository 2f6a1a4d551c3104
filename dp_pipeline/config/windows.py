"""Time windows: a partition of the rows of a data set by their time, each with a budget of its own.

Windows are public: the calendar and the declaration alone determine them, their names and the times
at which they are read. A row belongs to the half-open interval that contains its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, get_args

from dp_pipeline.config.calendar import (
    Period,
    parse_period_name,
    period_at,
    period_name,
    period_start,
)
from dp_pipeline.config.errors import DeclarationError, FieldError

if TYPE_CHECKING:
    from dp_pipeline.config.clock import Clock

PERIODS: tuple[Period, ...] = get_args(Period)
Within = Literal["window", "ever"]
"""Whether the protected unit is a person's rows of one window, or of all."""

TEMPLATE = "{window}"
"""Placeholder of the window's name in the path of a source."""

_EXAMPLE = datetime(2026, 10, 5, 14)
_MAX_PER_YEAR = {"hour": 8784, "day": 366, "week": 53, "month": 12, "quarter": 4, "year": 1}
_YEARS = range(1900, 9990)
MAX_WINDOWS = 100_000
"""Windows of one range, at most: eleven years of hours."""

MAX_SPAN = 400
"""Windows of one release, at most: a year of days."""


@dataclass(frozen=True)
class Windows:
    """The partition of the rows of a data set into time windows.

    A method that names no error takes names of any window, declared or not. AssertionError for a
    text that ``is_name`` refuses.

    column   column of the source with the times of rows
    every    calendar period of a window; hours are those of UTC
    clock    conversion of the times, with the zone of the calendar
    first    name of the first window
    grace    seconds between the end of a window and its reading; later rows are never read
    last     name of the last window; empty: they go on

    >>> from dp_pipeline.config.clock import Clock
    >>> weeks = Windows("at", "week", Clock("timestamp"), "2026-W01")
    >>> weeks.name_at(1767225600), weeks.following("2026-W53"), weeks.start("2026-W01")
    ('2026-W01', '2027-W01', 1766966400)
    >>> weeks.words, weeks.between("2026-W02", "2026-W03"), weeks.ending_with("2026-W02", 2)
    ('every week by at, UTC', ('2026-W02', '2026-W03'), ('2026-W01', '2026-W02'))
    """

    column: str
    every: Period
    clock: Clock
    first: str
    grace: int = 0
    last: str = ""

    @property
    def words(self) -> str:
        """The partition as text, which must be equal for all data sets of one population.

        By two columns a row could be in two weeks, of which neither would be charged for it.
        """
        form = f", as {self.clock.format}" if self.clock.format else ""
        return f"every {self.every} by {self.column}, {self.clock.zone}{form}"

    @property
    def max_per_year(self) -> int:
        """The largest number of windows that begin in a calendar year."""
        return _MAX_PER_YEAR[self.every]

    @property
    def measured(self) -> dict[str, str]:
        """The fields that decide which rows belong to a window: name → text."""
        clock = self.clock
        fields = {"column": self.column, "every": self.every}
        return fields | {"zone": clock.zone, "format": clock.format}

    def require(self, name: str) -> str:
        """Return ``name`` if it names a declared window; DeclarationError otherwise."""
        number = self._parse(name)
        if number is None:
            example = self._name(period_at(_EXAMPLE, self.every))
            expected = f"a {self.every} such as {example}, from {_YEARS[0]} to {_YEARS[-1]}"
            raise FieldError(expected, repr(name[:30]), of="window")
        if number < self._number(self.first):
            raise FieldError(f"{self.first}, the first, or a later one", name, of="window")
        if self.last and number > self._number(self.last):
            raise FieldError(f"{self.last}, the last, or an earlier one", name, of="window")
        return name

    def is_name(self, name: str) -> bool:
        """Return whether a text has the form of a window's name, declared or not."""
        return self._parse(name) is not None

    def start(self, name: str) -> int:
        """Return the first second of a window, since 1970 in UTC."""
        return self.clock.number_of(period_start(self._number(name), self.every))

    def end(self, name: str) -> int:
        """Return the first second after a window, since 1970 in UTC."""
        return self.clock.number_of(period_start(self._number(name) + 1, self.every))

    def closing_time(self, name: str) -> int:
        """Return the second, since 1970 in UTC, from which a window may be read: end plus grace."""
        return self.end(name) + self.grace

    def closing_text(self, name: str) -> str:
        """Return the minute, in UTC, from which a window may be read, as text.

        >>> from dp_pipeline.config.clock import Clock
        >>> Windows("at", "week", Clock("timestamp"), "2026-W01").closing_text("2026-W02")
        '2026-01-12 00:00 UTC'
        """
        return f"{datetime.fromtimestamp(self.closing_time(name), UTC):%Y-%m-%d %H:%M} UTC"

    def require_closed(self, name: str, now: int) -> None:
        """Raise DeclarationError for a window that may not be read yet.

        now   seconds since 1970 in UTC
        """
        if self.closing_time(name) > now:
            raise DeclarationError(
                f"The window {name} must be over, with its grace, but it is not: it can be "
                f"released from {self.closing_text(name)} on: wait until then"
            )

    def name_at(self, seconds: int) -> str:
        """Return the name of the window that contains a moment, in seconds since 1970 in UTC.

        It may be a window before ``first`` or after ``last``.
        """
        return self._name(period_at(self.clock.wall_time(seconds), self.every))

    def following(self, name: str) -> str:
        """Return the name of the next window, even after ``last``."""
        return self._name(self._number(name) + 1)

    def preceding(self, name: str) -> str | None:
        """Return the name of the previous window; None for the first."""
        return None if name == self.first else self._name(self._number(name) - 1)

    def between(self, first: str, last: str) -> tuple[str, ...]:
        """Return all windows from ``first`` to ``last``, both included.

        DeclarationError for unknown names, and for an empty or too long range.
        """
        self.require(first), self.require(last)
        numbers = range(self._number(first), self._number(last) + 1)
        if not numbers:
            raise DeclarationError(
                f"A range of windows must go from an earlier to a later one, but {first}..{last} "
                "does not: swap its ends"
            )
        if len(numbers) > MAX_WINDOWS:
            raise DeclarationError(
                f"A range may have at most {MAX_WINDOWS:,} windows, but {first}..{last} has more: "
                "name a shorter range"
            )
        return tuple(map(self._name, numbers))

    def ending_with(self, last: str, count: int) -> tuple[str, ...]:
        """Return ``count`` windows up to ``last``, oldest first.

        DeclarationError for an unknown name, and for more windows than there are.
        """
        end = self._number(self.require(last)) + 1
        if end - count < self._number(self.first):
            raise DeclarationError(
                f"A release over {count} windows up to {last} needs a window before "
                f"{self.first}, which is the first: name a later window, or fewer windows"
            )
        return tuple(map(self._name, range(end - count, end)))

    def parse_range(self, text: str) -> tuple[str, ...]:
        """Return the windows of ``2026-W01`` or ``2026-W01..2026-W52``; else DeclarationError."""
        first, dots, last = text.partition("..")
        return self.between(first, last if dots else first)

    def closed(self, now: int, *, after: str | None = None) -> tuple[str, ...]:
        """Return all windows that may be read at a moment, oldest first.

        now     seconds since 1970 in UTC
        after   return only later windows than this; None: from the first
        """
        begin = self._number(self.first) if after is None else self._number(after) + 1
        # The window that contains the moment has not ended, and every earlier one has.
        end = period_at(self.clock.wall_time(now - self.grace), self.every)
        end = min(end, self._number(self.last) + 1) if self.last else end
        return tuple(map(self._name, range(begin, end)))

    def _name(self, number: int) -> str:
        name = period_name(period_start(number, self.every), self.every)
        return f"{name}Z" if self.every == "hour" else name

    def _number(self, name: str) -> int:
        number = self._parse(name)
        assert number is not None, f"{name} is no {self.every}"
        return number

    def _parse(self, name: str) -> int | None:
        try:
            local_time = parse_period_name(name.removesuffix("Z"), self.every)
        except (ValueError, OverflowError):
            return None
        number = period_at(local_time, self.every)
        return number if self._name(number) == name and int(name[:4]) in _YEARS else None


def range_text(windows: Sequence[str]) -> str:
    """Return consecutive windows as text: first..last, a single name, or empty for none.

    >>> range_text(("2026-W01", "2026-W02", "2026-W03"))
    '2026-W01..2026-W03'
    """
    return "..".join(dict.fromkeys((*windows[:1], *windows[-1:])))


def now() -> int:
    """Return the current time, in seconds since 1970 in UTC."""
    return int(datetime.now(UTC).timestamp())
