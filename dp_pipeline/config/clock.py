"""Dates and times as integers, and back: days since 1970-01-01, or seconds since then in UTC.

Bins are cut from these integers, exactly, and not from fixed-point coordinates, which round a year
to minutes. Parts of a second are rounded down.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal, Self
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.calendar import period_at, period_name, period_start
from dp_pipeline.config.encoding import MAX_CELLS, Bins, interval_labels

ClockKind = Literal["date", "timestamp"]
Every = Literal["year", "month", "week", "day", "hour"]
DAY = 86_400
"""Seconds of a day."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1).toordinal()
_SECOND = timedelta(seconds=1)
FIRST_SECOND = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _SECOND
LAST_SECOND = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // _SECOND
"""Range of times that clocks in all zones can show."""

# Versions of Python differ in the texts that ``datetime`` accepts.
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
_YEAR = re.compile(r"(?<!%)((?:%%)*)%Y")
_DIRECTIVES = {"timestamp": "aAbBdfHIjmMpSyYz%", "date": "aAbBdjmyY%"}
"""Directives of a format, each allowed once; others differ between systems."""


@dataclass(frozen=True)
class Clock:
    """A conversion of the dates or times of a column to integers, called numbers, and back.

    kind     ``date``: days since 1970; ``timestamp``: seconds since 1970 in UTC
    zone     time zone of times without an offset, and of the begin of days
    format   of texts, for ``strptime``; empty: ISO 8601, such as 2026-10-05T14:30:00+02:00

    >>> Clock("date").number("2026-10-05"), Clock("timestamp").number("2026-10-05 02:00:00+02:00")
    (20731, 1791158400)
    >>> Clock("date", format="%d.%m.%Y").number("31.2.2026") is None
    True
    """

    kind: ClockKind
    zone: str = "UTC"
    format: str = ""

    def number(self, text: str) -> int | None:
        """Return the days or seconds since 1970 of a text.

        None unless it is a date or time in ``format``, and for a timestamp at an end of the
        calendar, which has no date in some zone.
        """
        if not self.format and not _ISO.fullmatch(text):
            return None
        try:
            parsed = datetime.strptime(text, self.format) if self.format else None
            number = self.number_of(parsed or datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            return None
        # At the ends of the calendar a clock in another zone would show a year that does not exist.
        is_anywhere = self.kind == "date" or FIRST_SECOND <= number <= LAST_SECOND
        return number if is_anywhere else None

    def number_of(self, moment: datetime) -> int:
        """Return the days or seconds since 1970 at a moment, in ``zone`` if it has no offset.

        A local time that occurs twice is the first one; one that is skipped counts on from before
        the gap.
        """
        zone = ZoneInfo(self.zone)
        if self.kind == "date":
            local = moment if moment.tzinfo is None else moment.astimezone(zone)
            return local.toordinal() - _FIRST_DAY
        aware = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        return (aware - _EPOCH) // _SECOND

    def number_at(self, seconds: int, *, is_utc: bool) -> int:
        """Return the days or seconds since 1970, by ``kind``, at a moment.

        seconds   seconds of the moment since 1970
        is_utc    whether they are counted in UTC, and not on a clock in ``zone``
        """
        moment = _EPOCH + seconds * _SECOND
        return self.number_of(moment if is_utc else moment.replace(tzinfo=None))

    def wall_time(self, number: float) -> datetime:
        """Return days or seconds since 1970 as local time in ``zone``, without an offset."""
        integer = math.floor(number)
        if self.kind == "date":
            return datetime.fromordinal(_FIRST_DAY + integer)
        return (_EPOCH + integer * _SECOND).astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)

    def text(self, number: float) -> str:
        """Return days or seconds since 1970 as text: local date, with the time if not midnight.

        >>> Clock("timestamp", "Europe/Zurich").text(1791158400), Clock("date").text(20731.4)
        ('2026-10-05T02:00', '2026-10-05')
        """
        wall = self.wall_time(number)
        if wall.time() == datetime.min.time():
            return wall.date().isoformat()
        return wall.isoformat(timespec="seconds" if wall.second else "minutes")

    def wall_times(self, numbers: NDArray[np.number]) -> NDArray[np.datetime64]:
        """Return days or seconds since 1970 (n,) as ``datetime64[D]`` or ``datetime64[s]``.

        Seconds become local times in ``zone``; fractions are rounded down.
        """
        integers = np.floor(numbers).astype(np.int64)
        unit = "D" if self.kind == "date" else "s"
        walls: NDArray[np.datetime64] = integers.astype(f"datetime64[{unit}]")
        if self.kind == "timestamp" and self.zone != "UTC":
            different, places = np.unique(integers, return_inverse=True)
            local = [self.wall_time(number) for number in different.tolist()]
            walls = np.array(local, dtype="datetime64[s]")[places]
        return walls

    def release_values(self, numbers: NDArray[np.number]) -> np.ndarray:
        """Return days or seconds since 1970 (n,) as texts in ``format``, or as the local times
        of ``wall_times`` where ``format`` is empty.

        >>> Clock("date", format="%d.%m.%Y").release_values(np.array([-719162])).tolist()
        ['01.01.0001']
        """
        if not self.format:
            return self.wall_times(numbers)
        unit = timedelta(days=1) if self.kind == "date" else _SECOND
        zone = ZoneInfo("UTC" if self.kind == "date" else self.zone)
        moments = ((_EPOCH + number * unit).astimezone(zone) for number in numbers.tolist())
        texts = [
            # Systems differ in the digits of years before 1000, of which ``strptime`` reads four.
            moment.strftime(_YEAR.sub(rf"\g<1>{moment.year:04}", self.format))
            for moment in moments
        ]
        return np.array(texts, dtype=np.str_)

    def read_release_values(self, texts: np.ndarray) -> NDArray[np.datetime64]:
        """Return texts in ``format`` (n,) as the local times of ``wall_times``; None as NaT.

        ValueError for another text.

        >>> Clock("date", format="%d.%m.%Y").read_release_values(np.array(["05.10.2026", None]))
        array(['2026-10-05',        'NaT'], dtype='datetime64[D]')
        """
        rows = texts.tolist()
        walls = {
            text: datetime.strptime(text, self.format).replace(tzinfo=None)
            for text in {*rows} - {None}
        }
        unit = "D" if self.kind == "date" else "s"
        seconds = np.array([walls.get(text) for text in rows], dtype="datetime64[s]")
        return seconds.astype(f"datetime64[{unit}]")

    def lower_bound(self, text: str) -> int | None:
        """Return an ISO 8601 lower bound as days or seconds since 1970; None for other texts."""
        return Clock(self.kind, self.zone).number(text)

    def upper_bound(self, text: str) -> int | None:
        """Return an ISO 8601 upper bound as days or seconds since 1970; None for other texts.

        For timestamps, a date alone means its last second.
        """
        number = self.lower_bound(text)
        if number is None or self.kind == "date" or len(text) > len("2026-10-05"):
            return number
        return self.number_of(datetime.fromisoformat(text) + timedelta(days=1)) - 1


def part_of_time(part: str, walls: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return the part of local times (n,) called ``part``: hour, month, year, or weekday.

    An hour is 0 to 23, a weekday 1 (Monday) to 7, and a month 1 to 12.
    """
    hours = walls.astype("datetime64[h]").astype(np.int64)
    months = walls.astype("datetime64[M]").astype(np.int64)
    parts = {
        "hour": hours % 24,
        # The first day of 1970 was a Thursday.
        "weekday": (hours // 24 + 3) % 7 + 1,
        "month": months % 12 + 1,
        "year": months // 12 + 1970,
    }
    return parts[part]


def format_mistake(text: str, kind: ClockKind) -> str:
    """Return what a wrong format of dates or times must have, as text; empty for a valid format."""
    directives = re.findall("%(.?)", text, re.DOTALL)
    letters, allowed = set(directives), _DIRECTIVES[kind]
    if not letters or not letters <= {*allowed} or len(letters) < len(directives):
        return f"some of {' '.join(f'%{letter}' for letter in allowed)}, each once"
    has_day = "j" in letters or ("d" in letters and letters & {*"mbB"})
    return "" if has_day and letters & {*"yY"} else "a year, a month and a day"


@dataclass(frozen=True)
class ClockBins(Bins):
    """Bins of dates or times, whose edges are the integers of a clock.

    ``edges`` are the first numbers of the cells, then the last number plus a half, so that it can
    be a cell of its own.

    every   the calendar period of each cell; empty for other cells

    >>> ClockBins.periods(Clock("date"), 20727, 20758, "month").labels()
    ('2026-10', '2026-11')
    """

    clock: Clock = Clock("date")
    every: Every | Literal[""] = ""

    @classmethod
    def starting_at(
        cls,
        clock: Clock,
        first: int,
        last: int,
        starts: Iterable[int],
        every: Every | Literal[""] = "",
    ) -> Self:
        return cls((float(first), *map(float, starts), last + 0.5), clock, every)

    @classmethod
    def equal(cls, clock: Clock, first: int, last: int, count: int) -> Self:
        """Return ``count`` bins of the integers ``first`` to ``last``, as equally long as possible.

        >>> ClockBins.equal(Clock("date"), 20727, 20757, 2).labels()
        ('[2026-10-01, 2026-10-17)', '[2026-10-17, 2026-10-31]')
        """
        size = last - first + 1
        starts = (first - (-index * size // count) for index in range(1, count))
        return cls.starting_at(clock, first, last, starts)

    @classmethod
    def periods(cls, clock: Clock, first: int, last: int, every: Every) -> Self | None:
        """Return a bin for each calendar period in the integers ``first`` to ``last`` of a clock.

        None for more than MAX_CELLS. Periods are those of the clock's zone, in which an hour that
        occurs twice is one cell.
        """
        ends = (period_at(clock.wall_time(number), every) for number in (first, last))
        periods = range(next(ends), next(ends) + 1)
        if len(periods) > MAX_CELLS:
            return None
        starts = {clock.number_of(period_start(period, every)) for period in periods}
        inner = sorted(start for start in starts if first < start <= last)
        return cls.starting_at(clock, first, last, inner, every)

    def labels(self) -> tuple[str, ...]:
        if self.every:
            walls = map(self.clock.wall_time, self.edges[:-1])
            return tuple(period_name(wall, self.every) for wall in walls)
        return interval_labels([self.clock.text(edge) for edge in self.edges])


def is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return False
    return True
