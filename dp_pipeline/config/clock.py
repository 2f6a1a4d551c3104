"""Dates and times as whole numbers, and back: days since 1970-01-01, or seconds since then in UTC.

Whole, so that bins are cut exactly: a fixed-point coordinate of a year in seconds is rounded to
some minutes, and no bin is ever cut from it. Parts of a second are left out, always downwards.

Spans: bins whose cells are called by what a calendar calls them.

How cells are read, as declared and each by itself: signs of numbers, words for nothing, zones.

Derived columns: a public function of one row, as one more column of a source.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import MOST_CELLS, Bins

ClockKind = Literal["date", "timestamp"]
Every = Literal["year", "month", "week", "day", "hour"]
DAY = 86_400
"""Seconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = date(1970, 1, 1).toordinal()
_SECOND = timedelta(seconds=1)
FIRST_SECOND = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _SECOND
LAST_SECOND = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // _SECOND
"""Of times: clocks in all zones can show them."""

_UNIT = {"date": "D", "timestamp": "s"}

# A closed form: what ``datetime`` takes for a date differs between versions of Python.
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
DIRECTIVES = "aAbBdfHIjmMpSyYz%"
"""What may stand behind a percent sign of a format, once; others mean other things elsewhere."""

_OF_DAYS = "aAbBdjmyY%"


@dataclass(frozen=True)
class Clock:
    """How a column says dates or times.

    kind     ``date``: days; ``timestamp``: seconds
    zone     where a time without an offset was read off a clock, and where days begin
    format   of texts, as ``strptime`` has it; empty: ISO 8601, such as 2026-10-05T14:30:00+02:00

    >>> Clock("date").number("2026-10-05"), Clock("timestamp").number("2026-10-05 02:00:00+02:00")
    (20731, 1791158400)
    >>> Clock("date", format="%d.%m.%Y").number("31.2.2026") is None
    True
    """

    kind: ClockKind
    zone: str = "UTC"
    format: str = ""

    def number(self, text: str) -> int | None:
        """What a text says, None where it says nothing that there is. Never an error."""
        try:
            number = self.number_of(self._read(text))
        except (ValueError, OverflowError):
            return None
        # At the ends of the calendar a clock in another zone would show a year that there is not.
        is_anywhere = self.kind == "date" or FIRST_SECOND <= number <= LAST_SECOND
        return number if is_anywhere else None

    def number_of(self, moment: datetime) -> int:
        """The same of a moment; one without an offset was read off a clock in ``zone``.

        A time that a clock shows twice is the first one, and one that it leaves out is as long
        after the leap as it says.
        """
        zone = ZoneInfo(self.zone)
        if self.kind == "date":
            there = moment if moment.tzinfo is None else moment.astimezone(zone)
            return there.toordinal() - _FIRST
        placed = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        return (placed - _EPOCH) // _SECOND

    def number_at(self, seconds: int, *, is_placed: bool) -> int:
        """Of seconds since 1970: by UTC if they are placed, else by the clock itself."""
        moment = _EPOCH + seconds * _SECOND
        return self.number_of(moment if is_placed else moment.replace(tzinfo=None))

    def _read(self, text: str) -> datetime:
        if self.format:
            return datetime.strptime(text, self.format)
        if not _ISO.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text)

    def wall(self, number: float) -> datetime:
        """What a clock in ``zone`` shows, without an offset; of a date its midnight."""
        whole = math.floor(number)
        if self.kind == "date":
            return datetime.fromordinal(_FIRST + whole)
        return (_EPOCH + whole * _SECOND).astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)

    def text(self, number: float) -> str:
        """For people: the date, and the time of day where there is one.

        >>> Clock("timestamp", "Europe/Zurich").text(1791158400), Clock("date").text(20731.4)
        ('2026-10-05T02:00', '2026-10-05')
        """
        return _shortest(self.wall(number))

    def walls(self, numbers: NDArray[np.number]) -> NDArray[np.datetime64]:
        """Of many numbers: datetime64 in days (n,), or in seconds of clocks in ``zone``."""
        whole = np.floor(numbers).astype(np.int64)
        walls: NDArray[np.datetime64] = whole.astype(f"datetime64[{_UNIT[self.kind]}]")
        if self.kind == "timestamp" and self.zone != "UTC":
            different, places = np.unique(whole, return_inverse=True)
            shown = [self.wall(one) for one in different.tolist()]
            walls = np.array(shown, dtype="datetime64[s]")[places]
        return walls

    def written(self, numbers: NDArray[np.number]) -> np.ndarray:
        """As a release writes them: what ``walls`` gives, or texts where a format is declared."""
        if not self.format:
            return self.walls(numbers)
        zone = ZoneInfo(self.zone)
        scale = DAY if self.kind == "date" else 1
        moments = (_EPOCH + one * scale * _SECOND for one in numbers.tolist())
        there = moments if self.kind == "date" else (one.astimezone(zone) for one in moments)
        return np.array([one.strftime(self.format) for one in there], dtype=np.str_)

    def first(self, text: str) -> int | None:
        """The lower bound that an ISO text declares."""
        return Clock(self.kind, self.zone).number(text)

    def last(self, text: str) -> int | None:
        """The upper bound: a date is all of its day."""
        number = self.first(text)
        if number is None or self.kind == "date" or len(text) > len("2026-10-05"):
            return number
        following = datetime.combine(
            date.fromisoformat(text) + timedelta(days=1), datetime.min.time()
        )
        return self.number_of(following) - 1


def _shortest(moment: datetime) -> str:
    if moment.time() == datetime.min.time():
        return moment.date().isoformat()
    return moment.isoformat(timespec="minutes" if not moment.second else "seconds")


def bad_format(text: str, kind: ClockKind) -> str:
    """What is wrong with a declared format, or nothing."""
    asked = re.findall("%(.?)", text, re.DOTALL)
    known = DIRECTIVES if kind == "timestamp" else _OF_DAYS
    if not asked or not set(asked) <= {*known} or len(set(asked)) < len(asked):
        return f"some of {' '.join(f'%{one}' for one in known)}, each once"
    has_day = {"j"} & {*asked} or ({"d"} & {*asked} and {"m", "b", "B"} & {*asked})
    return "" if has_day and {"y", "Y"} & {*asked} else "a year, a month and a day"


@dataclass(frozen=True)
class Spans(Bins):
    """Cells of whole numbers of a clock; ``edges`` are their first numbers, and behind the last
    one there is half a number more, so that it may be a cell of its own.

    every   what each cell is one of; empty where they are not of a calendar

    >>> Spans.every_one(Clock("date"), 20727, 20758, "month").labels()
    ('2026-10', '2026-11')
    """

    clock: Clock = Clock("date")
    every: str = ""

    @classmethod
    def cut(
        cls, clock: Clock, first: int, last: int, starts: Iterable[int], every: str = ""
    ) -> Spans:
        """Cells that begin with ``first`` and with each of the others."""
        return cls((float(first), *map(float, starts), last + 0.5), clock, every)

    @classmethod
    def equal(cls, clock: Clock, first: int, last: int, count: int) -> Spans:
        """``count`` cells of numbers of days or seconds that differ by one at most.

        >>> Spans.equal(Clock("date"), 20727, 20757, 2).labels()
        ('[2026-10-01, 2026-10-17)', '[2026-10-17, 2026-10-31]')
        """
        many = last - first + 1
        return cls.cut(
            clock, first, last, (first - (-at * many // count) for at in range(1, count))
        )

    @classmethod
    def every_one(cls, clock: Clock, first: int, last: int, every: Every) -> Spans | None:
        """One cell for each year, month, week from Monday, day or hour in the zone of the clock;
        None where there would be too many. An hour that clocks show twice is one cell.
        """
        if (last - first) // (1 if clock.kind == "date" else DAY) > MOST_CELLS * 366:
            return None
        starts = set()
        for wall in _starts(clock.wall(first), clock.wall(last), every):
            starts.add(clock.number_of(wall))
            if len(starts) > MOST_CELLS:
                return None
        return cls.cut(clock, first, last, sorted(s for s in starts if first < s <= last), every)

    def labels(self) -> tuple[str, ...]:
        """One name a cell, in code order, all different."""
        if self.every:
            name = _NAMES[self.every]
            return tuple(name(self.clock.wall(edge)) for edge in self.edges[:-1])
        edges = [self.clock.text(edge) for edge in self.edges]
        cells = [f"[{low}, {high})" for low, high in pairwise(edges)]
        return (*cells[:-1], cells[-1][:-1] + "]")


_NAMES: dict[str, Callable[[datetime], str]] = {
    "year": lambda wall: f"{wall:%Y}",
    "month": lambda wall: f"{wall:%Y-%m}",
    "week": lambda wall: f"{wall:%G-W%V}",
    "day": lambda wall: f"{wall:%Y-%m-%d}",
    "hour": lambda wall: f"{wall:%Y-%m-%dT%H}",
}
EVERY = get_args(Every)


def _starts(first: datetime, last: datetime, every: Every) -> Iterator[datetime]:
    """What a clock shows when each of them begins, from the one around ``first``."""
    wall = first.replace(minute=0, second=0)
    if every != "hour":
        wall = wall.replace(hour=0)
    if every == "week":
        wall -= timedelta(days=min(wall.weekday(), wall.toordinal() - 1))
    if every in ("month", "year"):
        wall = wall.replace(day=1)
    if every == "year":
        wall = wall.replace(month=1)
    while wall <= last:
        yield wall
        try:
            wall = _following(wall, every)
        except (ValueError, OverflowError):
            return  # There is no year 10000.


def _following(wall: datetime, every: Every) -> datetime:
    if every == "year":
        return wall.replace(year=wall.year + 1)
    if every == "month":
        return wall.replace(year=wall.year + wall.month // 12, month=wall.month % 12 + 1)
    return wall + {"week": timedelta(7), "day": timedelta(1), "hour": timedelta(hours=1)}[every]


def is_zone(name: str) -> bool:
    """Whether there is such a zone here."""
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return False
    return True


SPACES = " \u00a0\u202f"
"""A space, and the two that do not break a line: nobody sees which one it is."""

THOUSANDS = (".", ",", "'", "\N{RIGHT SINGLE QUOTATION MARK}", " ")


@dataclass(frozen=True)
class Signs:
    """Of numbers that are texts.

    decimal    point or comma
    thousands  what groups of three digits may stand apart by, or nothing; a space is any of three
    """

    decimal: str = "."
    thousands: str = ""

    def written(self, number: str) -> str:
        """The text of a stored number as these signs have it, to be read like the others."""
        return number.replace(".", self.decimal)


PartOfTime = Literal["hour", "weekday", "month", "year"]
Function = Literal["hour", "weekday", "month", "year", "difference", "product", "first"]
PARTS_OF_TIME = ("hour", "weekday", "month", "year")
UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}
"""Unit of a difference between two times → its seconds."""


@dataclass(frozen=True)
class Derived:
    """A column that is a function of one row. An input that is missing or invalid gives a missing
    cell.

    function   hour (0 to 23), weekday (Monday is 1), month (1 to 12) and year of a time, in its
               zone; ``difference`` of two columns; ``product`` of one with a constant; ``first``
               letters of a text
    inputs     columns of the source, one or two
    clock      how times are read, and None where the inputs are numbers or texts
    signs      how numbers are read
    missing    texts that say nothing
    unit       of a difference of times: one of UNITS
    factor     of a product
    letters    how many of them
    """

    function: Function
    inputs: tuple[str, ...]
    clock: Clock | None = None
    signs: Signs = Signs()
    missing: tuple[str, ...] = ()
    unit: str = ""
    factor: float = 1.0
    letters: int = 0

    @property
    def is_text(self) -> bool:
        """Whether its cells are texts; else numbers."""
        return self.function == "first"
