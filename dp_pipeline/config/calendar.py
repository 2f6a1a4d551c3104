"""Periods of the calendar, from hours to years, by number: their begin and their name."""

from datetime import datetime, timedelta
from typing import Literal

Period = Literal["hour", "day", "week", "month", "quarter", "year"]

_STEPS = {"hour": timedelta(hours=1), "day": timedelta(1), "week": timedelta(7)}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FORMATS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "week": "%G-W%V"}
_FORMATS |= {"month": "%Y-%m", "year": "%Y"}


def period_at(wall: datetime, period: Period) -> int:
    """Return the number of the period that contains a moment; the first of year 1 has number 0.

    Weeks begin on Monday, as year 1 does.
    """
    if period in _STEPS:
        return (wall - datetime.min) // _STEPS[period]
    return (12 * (wall.year - 1) + wall.month - 1) // _MONTHS[period]


def period_start(number: int, period: Period) -> datetime:
    """Return the first moment of a period; ValueError or OverflowError after the year 9999.

    >>> period_start(period_at(datetime(2026, 12, 5), "quarter") + 1, "quarter")
    datetime.datetime(2027, 1, 1, 0, 0)
    """
    if period in _STEPS:
        return datetime.min + number * _STEPS[period]
    years, months = divmod(number * _MONTHS[period], 12)
    return datetime(years + 1, months + 1, 1)


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
