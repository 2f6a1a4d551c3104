"""BudgetHistory: what one population was charged over time, and what it was allowed.

Budget staircase: what a population has spent, charge by charge, below its ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dp_pipeline.ledger import Entry
from dp_pipeline.reporting.figures.picture import (
    COLOURS,
    INK,
    MUTED,
    WIDTH,
    new_figure,
    plain,
    png,
    quiet,
    say_nothing_to_show,
    set_footnote,
    set_title,
)
from dp_pipeline.spec.amounts import NANO, PURE, Currency, epsilon_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNLIMITED = "none"


@dataclass(frozen=True)
class BudgetHistory:
    """One account in the order of its rows, all amounts in its currency.

    lineage    the population
    charges    (time, amount) of every charge that has an ε
    ceilings   (time, ceiling from then on); None where there is none
    limits     (time, most of a calendar month from then on); None where there is none

    >>> history = BudgetHistory("trips", ((datetime(2026, 1, 5), Fraction(1, 2)),), (), ())
    >>> history.months
    {datetime.datetime(2026, 1, 1, 0, 0): Fraction(1, 2)}
    """

    lineage: str
    charges: tuple[tuple[datetime, Fraction], ...]
    ceilings: tuple[tuple[datetime, Fraction | None], ...]
    limits: tuple[tuple[datetime, Fraction | None], ...]
    currency: Currency = PURE

    @classmethod
    def of(cls, lineage: str, entries: Sequence[Entry], currency: Currency) -> BudgetHistory:
        """The history that the ledger's rows of one lineage tell."""
        declared = [one for one in entries if one.event in ("account", "raise")]
        charged = [one for one in entries if one.is_charge and one.nano_epsilon]
        return cls(
            lineage=lineage,
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


_SPENT, _CEILING, _MONTH = COLOURS[0], COLOURS[1], COLOURS[4]

_SHORTEST = timedelta(hours=1)
"""Of the axis of time: charges of one minute would stand on its edge."""

Points = Sequence[tuple[datetime, float]]


def budget_staircase(history: BudgetHistory) -> bytes:
    """PNG of the sum of all charges over time, with the ceiling as it was raised; where a month has
    a limit, bars of what each month has cost, and the limit.
    """
    figure = new_figure(WIDTH, 3.2)
    axes = figure.add_subplot()
    set_title(figure, f"Spent on {history.lineage}, for ever")
    if not history.charges:
        say_nothing_to_show(axes, "nothing was charged yet")
        return png(figure)
    start, end = _span(history)
    if _has_months(history):
        _draw_months(axes, history, start, end)
    _draw_level(axes, _known(history.ceilings), end, ("ceiling", _CEILING))
    spent = [(start, 0.0), *_floats(history)]
    _draw_steps(axes, spent, end, color=_SPENT, linewidth=1.8, zorder=3)
    _name(axes, end, spent[-1][1], f"spent {epsilon_text(history.sums[-1])}", _SPENT)
    _dress(axes, history, start, end)
    set_footnote(figure, _footnote(history))
    return png(figure)


def _footnote(history: BudgetHistory) -> str:
    many = len(history.charges)
    words = f"{many} charge{'s' * (many != 1)}; nothing is ever refunded."
    return f"{words} Bars: what each month has cost." if _has_months(history) else words


def _has_months(history: BudgetHistory) -> bool:
    """Whether a month ever had a limit."""
    return any(limit is not None for _, limit in history.limits)


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


def _floats(history: BudgetHistory) -> list[tuple[datetime, float]]:
    times = (time for time, _ in history.charges)
    return [(time, float(total)) for time, total in zip(times, history.sums, strict=True)]


def _known(levels: Sequence[tuple[datetime, Fraction | None]]) -> list[tuple[datetime, float]]:
    return [(time, float(level)) for time, level in levels if level is not None]


def _draw_months(axes: Axes, history: BudgetHistory, start: datetime, end: datetime) -> None:
    """A bar a month as wide as the month, and the limit of a month as it was at each time."""
    for month, spent in history.months.items():
        left, right = max(month, start), min(_next(month), end)
        axes.fill_between(
            _moments(left, right), 0, float(spent), color=_MONTH, alpha=0.35, linewidth=0, zorder=1
        )
    _draw_level(axes, _known(history.limits), end, ("limit of a month", MUTED))


def _draw_level(axes: Axes, levels: Points, end: datetime, called: tuple[str, str]) -> None:
    """A dashed line that steps where it was changed, named at its end."""
    if not levels:
        return
    name, colour = called
    _draw_steps(axes, levels, end, color=colour, linewidth=1.3, linestyle="--", zorder=2)
    _name(axes, end, levels[-1][1], f"{name} {levels[-1][1]:.4g}", colour)


def _draw_steps(axes: Axes, points: Points, end: datetime, **style: Any) -> None:
    times, heights = zip(*points, strict=True)
    axes.step(_moments(*times, end), [*heights, heights[-1]], where="post", **style)


def _name(axes: Axes, at: datetime, height: float, text: str, colour: str) -> None:
    axes.annotate(
        plain(text),
        (_moments(at)[0], height),
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
        color=colour,
    )


def _dress(axes: Axes, history: BudgetHistory, start: datetime, end: datetime) -> None:
    """Labels, and an axis of time from first to last."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator: Any = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlim(*_moments(start, end))
    axes.set_ylim(0, axes.get_ylim()[1] * 1.06)
    symbol = history.currency.symbol
    axes.set_ylabel(f"{symbol}, sum of all charges")
    axes.set_xlabel("time of the charge (UTC)")
    quiet(axes)
    axes.xaxis.get_offset_text().set(color=INK, size=8.5)


def _moments(*times: datetime) -> list[float]:
    """Times as Matplotlib counts them, in days."""
    from matplotlib.dates import date2num

    return [float(date2num(time)) for time in times]  # type: ignore[no-untyped-call]
