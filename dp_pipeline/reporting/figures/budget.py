"""Figures of a population's spending: by charge, by month and by time window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate, pairwise

from dp_pipeline.config.amounts import NANO, PURE, Currency, epsilon_text
from dp_pipeline.config.windows import Windows
from dp_pipeline.ledger import Entry
from dp_pipeline.reporting.figures.curves import first_day, window_axis
from dp_pipeline.reporting.figures.lines import (
    Bar,
    HorizontalAxis,
    Line,
    Panel,
    Point,
    VerticalAxis,
    day_of,
    line_chart,
)
from dp_pipeline.reporting.figures.picture import Picture

_UNLIMITED = "none"


@dataclass(frozen=True)
class BudgetHistory:
    """The charges and limits of one account over time.

    population   name of the account
    charges      (time, amount) of every charge above 0, times the number of its windows
    ceilings     (time, ceiling of all charges from then on; None: no ceiling)
    limits       (time, limit of a calendar month from then on; None: no limit)
    currency     currency of the amounts

    >>> history = BudgetHistory("trips", ((datetime(2026, 1, 5), Fraction(1, 2)),), (), ())
    >>> history.months
    {datetime.datetime(2026, 1, 1, 0, 0): Fraction(1, 2)}
    """

    population: str
    charges: tuple[tuple[datetime, Fraction], ...]
    ceilings: Limits
    limits: Limits
    currency: Currency = PURE

    @classmethod
    def of(cls, population: str, entries: Sequence[Entry], currency: Currency) -> BudgetHistory:
        """Return the history of charges and limits in a population's rows of the ledger.

        entries   these rows
        """
        declared = [entry for entry in entries if entry.event in ("account", "raise")]
        charged = [entry for entry in entries if entry.is_charge and entry.nano_epsilon]
        charges = [(_time(entry), Fraction(entry.charge_in_all_windows, NANO)) for entry in charged]
        ceilings = _limits(declared, "limit", "ceiling")
        limits = _limits(declared, "month_limit", "per_month")
        return cls(population, tuple(charges), ceilings, limits, currency)

    @property
    def sums(self) -> tuple[Fraction, ...]:
        """For each charge, the sum of all charges up to and including it."""
        return tuple(accumulate(amount for _, amount in self.charges))

    @property
    def months(self) -> dict[datetime, Fraction]:
        """First moment of a calendar month → sum of its charges; months without any are absent."""
        sums: dict[datetime, Fraction] = {}
        for time, amount in self.charges:
            month = time.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            sums[month] = sums.get(month, Fraction(0)) + amount
        return sums


def _time(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.time).astimezone(UTC)


Limits = tuple[tuple[datetime, Fraction | None], ...]
"""(time, limit from then on); None where there is none."""


def _limits(entries: Sequence[Entry], *names: str) -> Limits:
    """Return (time, limit) of each row of the ledger, None for no limit.

    names   facts of a row that may hold the limit, the preferred one first
    """
    limits = []
    for entry in entries:
        text = next((entry.facts[name] for name in names if name in entry.facts), _UNLIMITED)
        limits.append((_time(entry), None if text == _UNLIMITED else Fraction(text)))
    return tuple(limits)


_SHORTEST = timedelta(hours=1)
"""Least time that the axis shows: charges of one minute would stand on its edge."""


def budget_staircase(history: BudgetHistory) -> Picture:
    """Return the picture of the sum of charges over time, with the ceiling.

    Where months are limited, it also has that limit, and a bar for the charges of each month.
    """
    many = len(history.charges)
    footnote = f"{many} charge{'s' * (many != 1)}; nothing is ever refunded."
    if _has_months(history):
        footnote += " Bars: what each month has cost."
    title = f"Spent on {history.population}, for ever"
    if not many:
        return line_chart([], title=title, footnote=footnote)
    start, end = map(day_of, _span(history))
    bars = [
        Bar(max(day_of(month), start), min(day_of(_next(month)), end), float(spent))
        for month, spent in history.months.items()
        if _has_months(history)
    ]
    x_axis = HorizontalAxis("time of the charge (UTC)", "time", span=(start, end))
    y_axis = VerticalAxis(f"{history.currency.symbol}, sum of all charges", "linear", floor=0.0)
    panel = Panel(_budget_lines(history), x_axis, y_axis, bars)
    return line_chart([panel], title=title, footnote=footnote)


def _budget_lines(history: BudgetHistory) -> list[Line]:
    spent = [Point(day_of(_span(history)[0]), 0.0)]
    for (time, _), total in zip(history.charges, history.sums, strict=True):
        spent.append(Point(day_of(time), float(total)))
    lines = [Line(f"spent {epsilon_text(history.sums[-1])}", 0, spent, "steps")]
    allowed = (("ceiling", history.ceilings), ("limit of a month", history.limits))
    for place, (name, levels) in enumerate(allowed, 1):
        points = [
            Point(day_of(time), float(amount)) for time, amount in levels if amount is not None
        ]
        if points:
            lines += [Line(f"{name} {points[-1].value:.4g}", place, points, "dashed steps")]
    return lines


def _has_months(history: BudgetHistory) -> bool:
    return any(limit is not None for _, limit in history.limits)


def _span(history: BudgetHistory) -> tuple[datetime, datetime]:
    times = [time for time, _ in (*history.charges, *history.ceilings)]
    first, last = min(times), max(times)
    if _has_months(history):
        first = min(first, *history.months)
        last = max(last, *(_next(month) for month in history.months))
    margin = max(last - first, _SHORTEST)
    return first - margin * 0.02, last + margin * 0.08


def _next(month: datetime) -> datetime:
    return (month + timedelta(days=32)).replace(day=1)


def window_costs(
    spent: Mapping[str, Fraction], windows: Windows, *, ceiling: Fraction | None, symbol: str
) -> Picture:
    """Return the picture of the cost of every time window, a bar each, with the ceiling.

    spent     time window → sum of its charges
    ceiling   ceiling of each window's sum; None: no ceiling
    symbol    symbol of the currency, ε or ρ
    """
    title = f"Spent on each {windows.every}"
    if not spent:
        return line_chart([], title=title, footnote="")
    names = sorted(spent, key=windows.start)
    places = [first_day(windows, name) for name in names]
    last = first_day(windows, windows.following(names[-1]))
    bars = [
        Bar(start, start + 0.86 * (end - start), float(spent[name]))
        for name, (start, end) in zip(names, pairwise([*places, last]), strict=True)
    ]
    ceilings = () if ceiling is None else ((float(ceiling), "ceiling of each"),)
    x_axis = window_axis(windows, dict(zip(places, names, strict=True)), last=last)
    panel = Panel((), x_axis, VerticalAxis(symbol, "linear", floor=0.0, references=ceilings), bars)
    most = "no ceiling" if ceiling is None else f"ceiling {epsilon_text(ceiling)} each"
    fullest = epsilon_text(max(spent.values()))
    footnote = f"{len(names)} charged, the fullest {fullest}; {most}."
    return line_chart([panel], title=title, footnote=footnote)
