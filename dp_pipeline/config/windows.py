"""Time windows: a partition of the rows of a data set by their time, each with a budget of its own.

Windows are public: the calendar and the declaration alone determine them, their names and the times
at which they are read. A row belongs to the half-open interval that contains its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Literal, get_args

from dp_pipeline.config.calendar import (
    Period,
    next_period,
    parse_period_name,
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
        local_time = self._parse(name)
        if local_time is None:
            example = _window_name(_EXAMPLE, self.every)
            expected = f"a {self.every} such as {example}, from {_YEARS[0]} to {_YEARS[-1]}"
            raise FieldError(expected, repr(name[:30]), of="window")
        if local_time < self._local_start(self.first):
            raise FieldError(f"{self.first}, the first, or a later one", name, of="window")
        if self.last and local_time > self._local_start(self.last):
            raise FieldError(f"{self.last}, the last, or an earlier one", name, of="window")
        return name

    def is_name(self, name: str) -> bool:
        """Return whether a text has the form of a window's name, declared or not."""
        return self._parse(name) is not None

    def start(self, name: str) -> int:
        """Return the first second of a window, since 1970 in UTC."""
        return self.clock.number_of(self._local_start(name))

    def end(self, name: str) -> int:
        """Return the first second after a window, since 1970 in UTC."""
        return self.clock.number_of(next_period(self._local_start(name), self.every))

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

    def name_at(self, seconds: int) -> str:
        """Return the name of the window that contains a moment, in seconds since 1970 in UTC.

        It may be a window before ``first`` or after ``last``.
        """
        return _window_name(period_start(self.clock.wall_time(seconds), self.every), self.every)

    def following(self, name: str) -> str:
        """Return the name of the next window, even after ``last``."""
        return _window_name(next_period(self._local_start(name), self.every), self.every)

    def preceding(self, name: str) -> str | None:
        """Return the name of the previous window; None for the first."""
        if name == self.first:
            return None
        before = period_start(self._local_start(name) - timedelta(hours=1), self.every)
        return _window_name(before, self.every)

    def between(self, first: str, last: str) -> tuple[str, ...]:
        """Return all windows from ``first`` to ``last``, both included.

        DeclarationError for unknown names, and for an empty or too long range.
        """
        self.require(first), self.require(last)
        if self.start(last) < self.start(first):
            raise DeclarationError(
                f"A range of windows must go from an earlier to a later one, but {first}..{last} "
                "does not: swap its ends"
            )
        names = []
        for name in islice(self._from(first), MAX_WINDOWS):
            names.append(name)
            if name == last:
                return tuple(names)
        raise DeclarationError(
            f"A range may have at most {MAX_WINDOWS:,} windows, but {first}..{last} has more: "
            "name a shorter range"
        )

    def ending_with(self, last: str, count: int) -> tuple[str, ...]:
        """Return ``count`` windows up to ``last``, oldest first.

        DeclarationError for an unknown name, and for more windows than there are.
        """
        names = [self.require(last)]
        while len(names) < count:
            before = self.preceding(names[-1])
            if before is None:
                raise DeclarationError(
                    f"A release over {count} windows up to {last} needs a window before "
                    f"{self.first}, which is the first: name a later window, or fewer windows"
                )
            names.append(before)
        return tuple(reversed(names))

    def parse_range(self, text: str) -> tuple[str, ...]:
        """Return the windows of ``2026-W01`` or ``2026-W01..2026-W52``; else DeclarationError."""
        first, dots, last = text.partition("..")
        return self.between(first, last if dots else first)

    def closed(self, now: int, *, after: str | None = None) -> tuple[str, ...]:
        """Return all windows that may be read at a moment, oldest first.

        now     seconds since 1970 in UTC
        after   return only later windows than this; None: from the first
        """
        # The window that contains the moment has not ended, and every earlier one has.
        end = self.start(self.name_at(now - self.grace))
        if self.last:
            end = min(end, self.end(self.last))
        names = self._from(self.first if after is None else self.following(after))
        return tuple(takewhile(lambda name: self.start(name) < end, names))

    def _from(self, name: str) -> Iterator[str]:
        local_time = self._local_start(name)
        while True:
            yield _window_name(local_time, self.every)
            local_time = next_period(local_time, self.every)

    def _local_start(self, name: str) -> datetime:
        local_time = self._parse(name)
        assert local_time is not None, f"{name} is no {self.every}"
        return local_time

    def _parse(self, name: str) -> datetime | None:
        try:
            local_time = parse_period_name(name.removesuffix("Z"), self.every)
        except (ValueError, OverflowError):
            return None
        is_name = _window_name(local_time, self.every) == name and int(name[:4]) in _YEARS
        return local_time if is_name else None


def _window_name(local_time: datetime, every: Period) -> str:
    return period_name(local_time, every) + ("Z" if every == "hour" else "")


def range_text(windows: Sequence[str]) -> str:
    """Return consecutive windows as text: first..last, a single name, or empty for none.

    >>> range_text(("2026-W01", "2026-W02", "2026-W03"))
    '2026-W01..2026-W03'
    """
    return "..".join(dict.fromkeys((*windows[:1], *windows[-1:])))


def now() -> int:
    """Return the current time, in seconds since 1970 in UTC."""
    return int(datetime.now(UTC).timestamp())
