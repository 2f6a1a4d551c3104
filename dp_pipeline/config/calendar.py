"""Periods of the calendar, from hours to years: their begin, their successor and their name."""

from datetime import datetime, timedelta
from typing import Literal

Period = Literal["hour", "day", "week", "month", "quarter", "year"]

_STEPS = {"hour": timedelta(hours=1), "day": timedelta(1), "week": timedelta(7)}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FORMATS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "week": "%G-W%V"}
_FORMATS |= {"month": "%Y-%m", "year": "%Y"}


def period_start(wall: datetime, period: Period) -> datetime:
    """Return the first moment of the period that contains a moment; weeks begin on Monday."""
    wall = wall.replace(minute=0, second=0, microsecond=0)
    if period == "hour":
        return wall
    wall = wall.replace(hour=0)
    if period == "week":
        # The first day of year 1 is a Monday, so no week begins before the calendar.
        return wall - timedelta(days=wall.weekday())
    if period == "day":
        return wall
    return wall.replace(day=1, month=(wall.month - 1) // _MONTHS[period] * _MONTHS[period] + 1)


def next_period(wall: datetime, period: Period) -> datetime:
    """Return the first moment of the period after the one that begins at ``wall``.

    ValueError or OverflowError after the year 9999.

    >>> next_period(datetime(2026, 10, 1), "quarter")
    datetime.datetime(2027, 1, 1, 0, 0)
    """
    if period in _STEPS:
        return wall + _STEPS[period]
    month = wall.month - 1 + _MONTHS[period]
    return wall.replace(year=wall.year + month // 12, month=month % 12 + 1)


def period_name(wall: datetime, period: Period) -> str:
    """Return the name of the period that begins at ``wall``.

    >>> [period_name(datetime(2026, 12, 28), period) for period in ("week", "quarter")]
    ['2026-W53', '2026-Q4']
    """
    if period == "quarter":
        return f"{wall:%Y}-Q{(wall.month + 2) // 3}"
    return wall.strftime(_FORMATS[period])


def parse_period_name(name: str, period: Period) -> datetime:
    """Return the first moment of the period that ``period_name`` calls ``name``.

    Some other texts are read too, such as 2026-1-5: their result has another ``period_name``.
    ValueError or OverflowError for the rest.

    >>> parse_period_name("2026-W53", "week")
    datetime.datetime(2026, 12, 28, 0, 0)
    """
    if period == "quarter":
        return datetime(int(name[:4]), 3 * int(name[6:]) - 2, 1)
    if period == "week":
        return datetime.strptime(f"{name}-1", "%G-W%V-%u")
    return datetime.strptime(name, _FORMATS[period])
