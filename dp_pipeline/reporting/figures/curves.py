"""Lines over ε, K and time: utility of models, and the budget of a population.

Utility has one line a model or method, of one metric or of several beside each other; bars are the
noise of numbers from a private evaluation. The budget is a staircase: what a population has spent,
charge by charge, below its ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate

from dp_pipeline.ledger import Entry
from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.lines import (
    Across,
    Line,
    Point,
    Up,
    draw_lines,
    line_chart,
    name_ends,
)
from dp_pipeline.reporting.metrics import (
    FIGURES,
    Pivot,
    QualityRow,
    metric_named,
    pivot,
    sample_words,
)
from dp_pipeline.spec.amounts import NANO, PURE, Currency, epsilon_text

_EPSILON = "ε of the release (log scale; smaller protects more)"

_PANEL = 2.0
"""Inches of one of several pairs of axes."""


def utility_plot(rows: Sequence[QualityRow], *, metric: str, title: str) -> bytes:
    """PNG of ``metric`` over ε, both axes labelled, every line named at its end.

    Several numbers of one model and ε (replicates) are all marked; the line joins their means.
    """
    table, about = pivot(_finite(rows), metric), metric_named(metric)
    label = f"{picture.plain(about.short)} ({picture.plain(table.unit)})\n{about.better}"
    return line_chart(
        _lines(table, table.models),
        across=_over_epsilon(table),
        up=_up(table, label),
        title=title,
        footnote=_footnote(table.rows),
    )


def utility_panels(rows: Sequence[QualityRow], *, metrics: Sequence[str], title: str) -> bytes:
    """PNG of several metrics over ε, a panel each, two beside each other; a model has the same
    colour and marker in all of them.
    """
    tables = [table for table in (pivot(_finite(rows), one) for one in metrics) if table.models]
    models = sorted({model for table in tables for model in table.models})
    figure, panels = picture.new_panels(len(tables), inches=_PANEL, title=title, names=models)
    for panel, table in zip(panels, tables, strict=True):
        lines = _lines(table, models)
        up = _up(table, picture.plain(table.about.short, width=26))
        draw_lines(panel, lines, _over_epsilon(table), up)
        panel.tick_params(labelsize=7.5)
        panel.set_title(up.heading(lines), loc="left", fontsize=9, color=picture.INK, pad=6)
    drawn = [row for table in tables for row in table.rows]
    if drawn:
        picture.set_footnote(figure, f"Across: {_EPSILON}.\n{_footnote(drawn)}")
    return picture.png(figure)


OverK = Mapping[str, Mapping[int, float]]
"""Method → K → value."""


def k_anonymity_plot(values: OverK, *, figure: str, title: str) -> bytes:
    """PNG of one of the ``FIGURES`` over K, both axes labelled, every line named at its end.

    Colour and marker are those of the method's place among all methods given, those without a
    finite value too: the same in every picture of the same methods. Where one K has no finite
    value a line is broken.
    """
    about = FIGURES[figure]
    numbers = {
        method: {k: one for k, one in points.items() if math.isfinite(one)}
        for method, points in values.items()
    }
    ks = sorted({k for points in numbers.values() for k in points})
    lines = [
        Line(method, place, [Point(k, points.get(k, math.nan)) for k in ks])
        for place, (method, points) in enumerate(numbers.items())
    ]
    ticks: dict[float, str] = {k: str(k) if k else "all bits" for k in ks}
    return line_chart(
        lines,
        across=Across("K: rows of every class, at least", "apart", ticks),
        up=Up(f"{about.short} ({about.unit})\n{about.better}"),
        title=title,
        footnote="Exact numbers on public benchmark rows; without ε.",
    )


def _finite(rows: Sequence[QualityRow]) -> list[QualityRow]:
    return [row for row in rows if math.isfinite(row.value)]


def _over_epsilon(table: Pivot) -> Across:
    return Across(_EPSILON, "log", {float(one): epsilon_text(one) for one in table.epsilons})


def _lines(table: Pivot, models: Sequence[str]) -> list[Line]:
    """One line a model that the table has.

    models   those of the whole picture: the place in it decides colour and marker
    """
    points = {
        model: [
            Point(float(epsilon), row.value, row.deviation or row.error or 0.0)
            for epsilon in table.epsilons
            for row in table.cells.get((model, epsilon), ())
        ]
        for model in table.models
    }
    return [
        Line(model, place, points[model]) for place, model in enumerate(models) if model in points
    ]


def _up(table: Pivot, label: str) -> Up:
    """From 0, or from the value of a method without privacy."""
    reference = table.about.reference
    if reference is None:
        return Up(label, floor=0.0)
    return Up(label, floor=reference, references=((reference, "without privacy"),))


def _footnote(rows: Sequence[QualityRow]) -> str:
    """Where the numbers come from, and what their bars are."""
    noisy = [row for row in rows if row.scale is not None]
    if not noisy:
        return f"Exact numbers on public benchmark rows. {sample_words(rows)}".rstrip()
    bars = "Bars: ± one standard deviation of the noise in the number itself."
    return bars if len(noisy) == len(rows) else f"{bars} No bar: an exact number on public rows."


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
            charges=tuple((_time(one), Fraction(one.counted, NANO)) for one in charged),
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
    figure = picture.new_figure(picture.WIDTH, 3.2)
    axes = figure.add_subplot()
    picture.set_title(figure, f"Spent on {history.population}, for ever")
    if not history.charges:
        picture.say_nothing_to_show(axes, "nothing was charged yet")
        return picture.png(figure)
    across, lines = _over_time(history), _budget_lines(history)
    months = history.months if _has_months(history) else {}
    for month, spent in months.items():
        within = [max(_day(month), across.span[0]), min(_day(_next(month)), across.span[1])]
        axes.fill_between(
            within, 0, float(spent), color=picture.COLOURS[4], alpha=0.35, linewidth=0
        )
    up = Up(f"{history.currency.symbol}, sum of all charges", "linear", floor=0.0)
    draw_lines(axes, lines, across, up)
    axes.set_xlabel(across.label)
    axes.set_ylabel(up.label)
    name_ends(axes, lines, across, gap=0.09)
    picture.set_footnote(figure, _budget_footnote(history))
    return picture.png(figure)


def _budget_lines(history: BudgetHistory) -> list[Line]:
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


def _budget_footnote(history: BudgetHistory) -> str:
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
