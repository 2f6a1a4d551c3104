"""Windows: the rows of a data set cut by their time, each part with a budget of its own.

Windows are public: which there are, what they are called, and when each is read, the calendar and
the declaration say. A row belongs to the one half-open interval that its time lies in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, get_args

from dp_pipeline.config.errors import DeclarationError

if TYPE_CHECKING:
    from dp_pipeline.config.clock import Clock

WindowKind = Literal["hour", "day", "week", "month", "quarter", "year"]
KINDS: tuple[WindowKind, ...] = get_args(WindowKind)
Within = Literal["window", "ever"]
"""What the protected unit is a person's rows of: one window, or all of them."""

TEMPLATE = "{window}"
"""What stands for the window's name in the path of a source."""

_FORMS: dict[WindowKind, str] = {
    "hour": r"(\d{4})-(\d\d)-(\d\d)T(\d\d)Z",
    "day": r"(\d{4})-(\d\d)-(\d\d)",
    "week": r"(\d{4})-W(\d\d)",
    "month": r"(\d{4})-(\d\d)",
    "quarter": r"(\d{4})-Q([1-4])",
    "year": r"(\d{4})",
}
_EXAMPLES: dict[WindowKind, str] = {
    "hour": "2026-10-05T14Z",
    "day": "2026-10-05",
    "week": "2026-W41",
    "month": "2026-10",
    "quarter": "2026-Q4",
    "year": "2026",
}
_NAMES: dict[WindowKind, Callable[[datetime], str]] = {
    "hour": lambda wall: f"{wall:%Y-%m-%dT%HZ}",
    "day": lambda wall: f"{wall:%Y-%m-%d}",
    "week": lambda wall: f"{wall:%G-W%V}",
    "month": lambda wall: f"{wall:%Y-%m}",
    "quarter": lambda wall: f"{wall:%Y}-Q{(wall.month + 2) // 3}",
    "year": lambda wall: f"{wall:%Y}",
}
_YEARS = range(1900, 9990)
MOST_WINDOWS = 100_000
"""Of one range: eleven years of hours."""

MOST_TOGETHER = 400
"""That one release is of: a year of days."""


@dataclass(frozen=True)
class Windows:
    """How the rows of a data set are cut by their time.

    column   of the source, which says when a row is from
    every    how long a window is, by the calendar
    clock    how the column says its times, and in whose zone the calendar's days begin
    first    the name of the first window that there is
    grace    seconds after its end before a window is read: what comes later is never looked at
    last     the name of the last one that there is; empty: they go on

    Hours are those of UTC: elsewhere a clock shows one of them twice a year.

    >>> from dp_pipeline.config.clock import Clock
    >>> weeks = Windows("at", "week", Clock("timestamp"), "2026-W01")
    >>> weeks.name_at(1767225600), weeks.following("2026-W53"), weeks.start("2026-W01")
    ('2026-W01', '2027-W01', 1766966400)
    """

    column: str
    every: WindowKind
    clock: Clock
    first: str
    grace: int = 0
    last: str = ""

    @property
    def words(self) -> str:
        """How time is cut, in words that two data sets of one population must share: a row that is
        of one week by one column and of another by another would be paid for in neither.

        >>> from dp_pipeline.config.clock import Clock
        >>> Windows("at", "week", Clock("timestamp", "Europe/Zurich"), "2026-W01").words
        'every week by at, Europe/Zurich'
        """
        form = f", as {self.clock.format}" if self.clock.format else ""
        return f"every {self.every} by {self.column}, {self.clock.zone}{form}"

    @property
    def in_a_year(self) -> int:
        """How many there are in a year, at most."""
        many = {"hour": 8784, "day": 366, "week": 53, "month": 12, "quarter": 4, "year": 1}
        return many[self.every]

    @property
    def measured(self) -> dict[str, str]:
        """What decides which rows are in a window, as text."""
        clock = self.clock
        return {
            "column": self.column,
            "every": self.every,
            "zone": clock.zone,
            "format": clock.format,
        }

    def require(self, name: str) -> str:
        """``name`` itself; DeclarationError unless it is called so by the calendar, not before the
        first and not behind the last.
        """
        wall = self._wall(name)
        if wall is None:
            raise DeclarationError(
                f"window: expected a {self.every} such as {_EXAMPLES[self.every]}, "
                f"got {name[:30]!r}"
            )
        if name != self.first and wall < self._walls(self.first):
            raise DeclarationError(
                f"window: expected none before the first, {self.first}, got {name}"
            )
        if self.last and name != self.last and wall > self._walls(self.last):
            raise DeclarationError(
                f"window: expected none behind the last, {self.last}, got {name}"
            )
        return name

    def start(self, name: str) -> int:
        """Its first second, since 1970 in UTC."""
        return self.clock.number_of(self._walls(name))

    def end(self, name: str) -> int:
        """The first second after it."""
        return self.clock.number_of(_following(self._walls(name), self.every))

    def closes(self, name: str) -> int:
        """The second at which it may be read: its end, and the grace."""
        return self.end(name) + self.grace

    def name_at(self, seconds: int) -> str:
        """The window of a moment, in seconds since 1970 in UTC."""
        wall = _beginning(self.clock.wall(seconds), self.every)
        return _NAMES[self.every](wall)

    def following(self, name: str) -> str:
        """The name of the next one."""
        return _NAMES[self.every](_following(self._walls(name), self.every))

    def preceding(self, name: str) -> str | None:
        """The name of the one before; None of the first."""
        if name == self.first:
            return None
        wall = _beginning(self._walls(name) - timedelta(hours=1), self.every)
        return _NAMES[self.every](wall)

    def between(self, first: str, last: str) -> tuple[str, ...]:
        """All from ``first`` to ``last``, both of them too; DeclarationError for names that are
        none, for an empty range and for one that is too long.

        >>> from dp_pipeline.config.clock import Clock
        >>> Windows("at", "quarter", Clock("timestamp"), "2026-Q1").between("2026-Q3", "2027-Q1")
        ('2026-Q3', '2026-Q4', '2027-Q1')
        """
        self.require(first), self.require(last)
        if self.start(last) < self.start(first):
            raise DeclarationError(
                f"windows: expected a range that ends where it begins or later, got {first}..{last}"
            )
        found = []
        for name in self._from(first):
            found.append(name)
            if name == last:
                return tuple(found)
            if len(found) == MOST_WINDOWS:
                break
        raise DeclarationError(f"windows: expected at most {MOST_WINDOWS:,}, got {first}..{last}")

    def ending_with(self, last: str, many: int) -> tuple[str, ...]:
        """So many windows, oldest first, the last of them named; DeclarationError where there are
        not so many.

        >>> from dp_pipeline.config.clock import Clock
        >>> Windows("at", "quarter", Clock("timestamp"), "2026-Q1").ending_with("2026-Q3", 2)
        ('2026-Q2', '2026-Q3')
        """
        found = [self.require(last)]
        while len(found) < many:
            before = self.preceding(found[-1])
            if before is None:
                raise DeclarationError(
                    f"expected {many} windows that end with {last}, got {len(found)}: the first "
                    f"is {self.first}"
                )
            found.append(before)
        return tuple(reversed(found))

    def ranged(self, text: str) -> tuple[str, ...]:
        """The windows that a text names: ``2026-W01``, or ``2026-W01..2026-W52``; DeclarationError
        for any other.
        """
        first, dots, last = text.partition("..")
        return self.between(first, last if dots else first)

    def closed(self, now: int, *, after: str | None = None) -> tuple[str, ...]:
        """All that may be read at a moment, oldest first.

        now     seconds since 1970 in UTC
        after   those behind this one alone; None: from the first
        """
        first = self.first if after is None else self.following(after)
        newest = self.name_at(now - self.grace)
        # The one that the moment lies in has not ended.
        if self.start(newest) <= self.start(first):
            return ()
        found: list[str] = []
        for name in self._from(first):
            is_behind = self.last and self._walls(name) > self._walls(self.last)
            if is_behind or self.closes(name) > now:
                break
            found.append(name)
        return tuple(found)

    def _from(self, name: str) -> Iterator[str]:
        wall = self._walls(name)
        while True:
            yield _NAMES[self.every](wall)
            wall = _following(wall, self.every)

    def _walls(self, name: str) -> datetime:
        """What clocks of the zone show when it begins."""
        wall = self._wall(name)
        assert wall is not None, f"{name} is no {self.every}"
        return wall

    def _wall(self, name: str) -> datetime | None:
        found = re.fullmatch(_FORMS[self.every], name, re.ASCII)
        numbers = [int(one) for one in found.groups()] if found else [0]
        if numbers[0] not in _YEARS:
            return None
        try:
            wall = _named(numbers, self.every)
        except ValueError:
            return None
        return wall if _NAMES[self.every](wall) == name else None


def _named(numbers: list[int], every: WindowKind) -> datetime:
    if every == "week":
        return datetime.fromisocalendar(numbers[0], numbers[1], 1)
    if every == "quarter":
        return datetime(numbers[0], 3 * numbers[1] - 2, 1)
    year, month, day, hour = (*numbers, *(1, 1, 1, 0)[len(numbers) :])
    return datetime(year, month, day, hour)


def _beginning(wall: datetime, every: WindowKind) -> datetime:
    """What clocks show at the beginning of the window around ``wall``."""
    wall = wall.replace(minute=0, second=0, microsecond=0)
    if every == "hour":
        return wall
    wall = wall.replace(hour=0)
    if every == "week":
        return wall - timedelta(days=wall.weekday())
    if every == "day":
        return wall
    month = {"month": wall.month, "quarter": (wall.month - 1) // 3 * 3 + 1, "year": 1}[every]
    return wall.replace(day=1, month=month)


def _following(wall: datetime, every: WindowKind) -> datetime:
    steps = {"hour": timedelta(hours=1), "day": timedelta(1), "week": timedelta(7)}
    if every in steps:
        return wall + steps[every]
    months = {"month": 1, "quarter": 3, "year": 12}[every]
    later = wall.month - 1 + months
    return wall.replace(year=wall.year + later // 12, month=later % 12 + 1)


def range_text(windows: Sequence[str]) -> str:
    """One window by its name, several that follow each other by the first and the last; empty for
    none.

    >>> range_text(("2026-W01", "2026-W02", "2026-W03"))
    '2026-W01..2026-W03'
    """
    return "..".join(dict.fromkeys((*windows[:1], *windows[-1:])))


def now() -> int:
    """This moment, in seconds since 1970 in UTC."""
    return int(datetime.now(UTC).timestamp())
