"""BudgetHistory: what one population was charged over time, and what it was allowed.

Budget staircase: what a population has spent, charge by charge, below its ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate

from dp_pipeline.ledger import Entry
from dp_pipeline.reporting.figures.lines import Across, Line, Point, Up, draw_lines, name_ends
from dp_pipeline.reporting.figures.picture import (
    COLOURS,
    WIDTH,
    new_figure,
    png,
    say_nothing_to_show,
    set_footnote,
    set_title,
)
from dp_pipeline.spec.amounts import NANO, PURE, Currency, epsilon_text

_UNLIMITED = "none"


@dataclass(frozen=True)
class BudgetHistory:
    """One account in the order of its rows, all amounts in its currency.

    population    the population
    charges    (time, amount) of every charge that has an ε
    ceilings   (time, ceiling from then on); None where there is none
    limits     (time, most of a calendar month from then on); None where there is none

    >>> history = BudgetHistory("trips", ((datetime(2026, 1, 5), Fraction(1, 2)),), (), ())
    >>> history.months
    {datetime.datetime(2026, 1, 1, 0, 0): Fraction(1, 2)}
    """

    population: str
    charges: tuple[tuple[datetime, Fraction], ...]
    ceilings: tuple[tuple[datetime, Fraction | None], ...]
    limits: tuple[tuple[datetime, Fraction | None], ...]
    currency: Currency = PURE

    @classmethod
    def of(cls, population: str, entries: Sequence[Entry], currency: Currency) -> BudgetHistory:
        """The history that the ledger's rows of one population tell."""
        declared = [one for one in entries if one.event in ("account", "raise")]
        charged = [one for one in entries if one.is_charge and one.nano_epsilon]
        return cls(
            population=population,
            charges=tuple((_time(one), Fraction(one.nano_epsilon, NANO)) for one in charged),
            ceilings=tuple((_time(one), _amount(one, "limit", "ceiling")) for one in declared),
            limits=tuple(
                (_time(one), _amount(one, "month_limit", "per_month")) for one in declared
            ),
            currency=currency,
        )

    @property
    def sums(self) -> tuple[Fraction, ...]:
        """What had been spent after every charge."""
        return tuple(accumulate(amount for _, amount in self.charges))

    @property
    def months(self) -> dict[datetime, Fraction]:
        """First moment of a calendar month with charges → their sum."""
        sums: dict[datetime, Fraction] = {}
        for time, amount in self.charges:
            month = time.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            sums[month] = sums.get(month, Fraction(0)) + amount
        return sums


def _time(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.time).astimezone(UTC)


def _amount(entry: Entry, *names: str) -> Fraction | None:
    """The first of some facts that the row has: an account in pure ε writes no limit beside its
    ceiling.
    """
    text = next((entry.facts[name] for name in names if name in entry.facts), _UNLIMITED)
    return None if text == _UNLIMITED else Fraction(text)


_SPENT, _CEILING, _LIMIT = 0, 1, 2
"""Places of the lines, which decide their colours."""

_SHORTEST = timedelta(hours=1)
"""Of the axis of time: charges of one minute would stand on its edge."""


def budget_staircase(history: BudgetHistory) -> bytes:
    """PNG of the sum of all charges over time, with the ceiling as it was raised; where a month has
    a limit, bars of what each month has cost, and the limit.
    """
    figure = new_figure(WIDTH, 3.2)
    axes = figure.add_subplot()
    set_title(figure, f"Spent on {history.population}, for ever")
    if not history.charges:
        say_nothing_to_show(axes, "nothing was charged yet")
        return png(figure)
    across, lines = _over_time(history), _lines(history)
    months = history.months if _has_months(history) else {}
    for month, spent in months.items():
        within = [max(_day(month), across.span[0]), min(_day(_next(month)), across.span[1])]
        axes.fill_between(within, 0, float(spent), color=COLOURS[4], alpha=0.35, linewidth=0)
    up = Up(f"{history.currency.symbol}, sum of all charges", "linear", floor=0.0)
    draw_lines(axes, lines, across, up)
    axes.set_xlabel(across.label)
    axes.set_ylabel(up.label)
    name_ends(axes, lines, across, gap=0.09)
    set_footnote(figure, _footnote(history))
    return png(figure)


def _lines(history: BudgetHistory) -> list[Line]:
    """What was spent, from nothing on, and what was allowed."""
    spent = [Point(_day(_span(history)[0]), 0.0)]
    for (time, _), total in zip(history.charges, history.sums, strict=True):
        spent.append(Point(_day(time), float(total)))
    lines = [Line(f"spent {epsilon_text(history.sums[-1])}", _SPENT, spent, "steps")]
    allowed = (
        ("ceiling", _CEILING, history.ceilings),
        ("limit of a month", _LIMIT, history.limits),
    )
    for name, place, levels in allowed:
        points = [Point(_day(time), float(one)) for time, one in levels if one is not None]
        if points:
            lines += [Line(f"{name} {points[-1].value:.4g}", place, points, "dashed steps")]
    return lines


def _footnote(history: BudgetHistory) -> str:
    many = len(history.charges)
    words = f"{many} charge{'s' * (many != 1)}; nothing is ever refunded."
    return f"{words} Bars: what each month has cost." if _has_months(history) else words


def _has_months(history: BudgetHistory) -> bool:
    """Whether a month ever had a limit."""
    return any(limit is not None for _, limit in history.limits)


def _over_time(history: BudgetHistory) -> Across:
    start, end = _span(history)
    return Across("time of the charge (UTC)", "time", span=(_day(start), _day(end)))


def _span(history: BudgetHistory) -> tuple[datetime, datetime]:
    """First and last moment that is drawn, with a little room after the last step."""
    times = [time for time, _ in (*history.charges, *history.ceilings)]
    first, last = min(times), max(times)
    if _has_months(history):
        first = min(first, *history.months)
        last = max(last, *(_next(month) for month in history.months))
    room = max(last - first, _SHORTEST)
    return first - room * 0.02, last + room * 0.08


def _next(month: datetime) -> datetime:
    """The first moment of the month after."""
    return (month + timedelta(days=32)).replace(day=1)


def _day(time: datetime) -> float:
    """A time as Matplotlib counts it, in days."""
    from matplotlib.dates import date2num

    return float(date2num(time))  # type: ignore[no-untyped-call]
