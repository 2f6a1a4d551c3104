"""Figures of a population's spending: by charge, by month and by time window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate, pairwise

from dp_pipeline.config.amounts import NANO, Currency, epsilon_text
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

_SHORTEST = timedelta(hours=1)
"""Least time that the axis shows: charges of one minute would stand on its edge."""


def budget_staircase(population: str, entries: Sequence[Entry], currency: Currency) -> Picture:
    """Return the picture of the sum of an account's charges over time, with the ceiling.

    Where months are limited, it also has that limit, and a bar for the charges of each month.

    population   name of the account
    entries      its rows of the ledger
    currency     currency of its amounts
    """
    charges = [entry for entry in entries if entry.is_charge and entry.nano_epsilon]
    declared = [entry for entry in entries if entry.event in ("account", "raise")]
    ceilings = _limits(declared, "limit", "ceiling")
    month_limits = _limits(declared, "month_limit", "per_month")
    title = f"Spent on {population}, for ever"
    footnote = f"{len(charges)} charge{'s' * (len(charges) != 1)}; nothing is ever refunded."
    if month_limits:
        footnote += " Bars: what each month has cost."
    if not charges:
        return line_chart([], title=title, footnote=footnote)
    times = [_time(entry) for entry in charges]
    amounts = [Fraction(entry.charge_in_all_windows, NANO) for entry in charges]
    months: dict[datetime, Fraction] = {}
    for time, amount in zip(times, amounts, strict=True):
        month = time.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if month_limits:
            months[month] = months.get(month, Fraction(0)) + amount
    shown_times = [*times, *map(_time, declared), *months, *map(_next, months)]
    first, last = min(shown_times), max(shown_times)
    margin = max(last - first, _SHORTEST)
    start, end = day_of(first - margin * 0.02), day_of(last + margin * 0.08)
    sums = list(accumulate(amounts))
    spent = [Point(day_of(time), float(total)) for time, total in zip(times, sums, strict=True)]
    lines = [Line(f"spent {epsilon_text(sums[-1])}", 0, [Point(start, 0.0), *spent], "steps")]
    allowed = {"ceiling": ceilings, "limit of a month": month_limits}
    for place, (name, points) in enumerate(allowed.items(), 1):
        if points:
            lines += [Line(f"{name} {points[-1].value:.4g}", place, points, "dashed steps")]
    bars = [Bar(day_of(month), day_of(_next(month)), float(cost)) for month, cost in months.items()]
    x_axis = HorizontalAxis("time of the charge (UTC)", "time", span=(start, end))
    y_axis = VerticalAxis(f"{currency.symbol}, sum of all charges", "linear", floor=0.0)
    return line_chart([Panel(lines, x_axis, y_axis, bars)], title=title, footnote=footnote)


def _time(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.time).astimezone(UTC)


def _limits(entries: Sequence[Entry], *names: str) -> list[Point]:
    """Return the time and limit of each row of the ledger that has one.

    names   facts of a row that may hold the limit, the preferred one first
    """
    limits = []
    for entry in entries:
        text = next((entry.facts[name] for name in names if name in entry.facts), _UNLIMITED)
        if text != _UNLIMITED:
            limits.append(Point(day_of(_time(entry)), float(Fraction(text))))
    return limits


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
