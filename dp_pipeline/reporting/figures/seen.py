"""What a picture shows, in words: for whoever hears a page, or gets it without its pictures.

The numbers are those that are drawn. Of many lines, attributes or maps the first ones are told,
and how many more there are: the tables of the page have all of them.

Pictures over windows: what was released of one after the other, and what each has cost.

Across is time: a window stands at its first day in the zone of its calendar. Bars are the noise of
the number itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.lines import Across, Line, Point, Up, line_chart
from dp_pipeline.reporting.figures.tables import MOST_PANELS, Marginals, attributes_of
from dp_pipeline.reporting.metrics import FIGURES, QualityRow, metric_named, pivot
from dp_pipeline.reporting.text import number_text
from dp_pipeline.spec.amounts import epsilon_text

if TYPE_CHECKING:
    from dp_pipeline.reporting.figures.cluster_view import ClusterView
    from dp_pipeline.reporting.figures.curves import OverK
    from dp_pipeline.spec.windows import Windows


MOST_TOLD = 8
"""Lines, attributes or maps of one text."""


class Picture(NamedTuple):
    """One picture of a page.

    caption   stands below it
    png       its bytes
    seen      what it shows, in words
    """

    caption: str
    png: bytes
    seen: str


class _Ends(NamedTuple):
    """A line's name, and where it begins and ends: a text and a number each."""

    name: str
    first: tuple[str, float]
    last: tuple[str, float]


def utility_seen(rows: Sequence[QualityRow], metrics: Sequence[str]) -> str:
    """Metrics over ε, one line a model."""
    return " ".join(_metric_seen(rows, metric) for metric in metrics)


def _metric_seen(rows: Sequence[QualityRow], metric: str) -> str:
    table, about = pivot(rows, metric), metric_named(metric)
    lines = []
    for model in table.models:
        means = [
            (f"ε = {epsilon_text(one)}", float(np.mean([row.value for row in cell])))
            for one in table.epsilons
            if (cell := table.cells.get((model, one)))
        ]
        lines.append(_Ends(model, means[0], means[-1]))
    return f"{about.short} over ε, {about.better}. {_told(map(_line, lines))}"


def windows_seen(what: str, values: Mapping[str, Sequence[Noisy]]) -> str:
    """One number over windows, one line a model."""
    lines = [
        _Ends(model, (found[0].window, found[0].value), (found[-1].window, found[-1].value))
        for model, found in values.items()
        if found
    ]
    return f"{what} over time. {_told(map(_line, lines))}"


def k_anonymity_seen(values: OverK, *, figure: str) -> str:
    """A figure over K, one line a method."""
    lines = [
        _Ends(method, (f"K = {min(points)}", points[min(points)]), _last(points))
        for method, points in values.items()
        if points
    ]
    return f"{FIGURES[figure].short} over K. {_told(map(_line, lines))}"


def _last(points: Mapping[int, float]) -> tuple[str, float]:
    return f"K = {max(points)}", points[max(points)]


def _line(ends: _Ends) -> str:
    (begin, value), (end, last) = ends.first, ends.last
    if begin == end:
        return f"{ends.name}: {number_text(value)} at {begin}"
    return f"{ends.name}: from {number_text(value)} at {begin} to {number_text(last)} at {end}"


def marginals_seen(tables: Mapping[str, Marginals], *, first: int = 0) -> str:
    """Shares of levels: the most frequent level of each attribute, by the first release that has
    it.
    """
    shown = attributes_of(tables)[first : first + MOST_PANELS]
    many = f"of {len(tables)} releases" if len(tables) > 1 else "of the released rows"
    return f"Shares of levels {many}. {_told(_largest(tables, name) for name in shown)}"


def _largest(tables: Mapping[str, Marginals], name: str) -> str:
    table = next(one for one in tables.values() if name in one["attribute"])
    here = table["attribute"] == name
    levels, shares = table["level"][here], table["probability"][here]
    at = int(np.argmax(shares))
    return f"{name}: most often {levels[at]}, {100 * shares[at]:.3g} %"


def cliques_seen(cliques: Marginals) -> str:
    """The sets of attributes that a model holds together, the largest tables first."""
    order = np.argsort(-cliques["cells"], kind="stable").tolist()
    names, cells = cliques["attributes"].tolist(), cliques["cells"].tolist()
    lines = (f"{names[at]}: {cells[at]:,} cells" for at in order)
    return f"{len(names)} cliques of attributes. {_told(lines)}"


def maps_seen(views: Sequence[ClusterView]) -> str:
    """Centres of one clustering or of several."""
    x, y = views[0].columns
    axes = f"{x} runs to the right" + (f", {y} upwards" if y else "")
    return f"Map of released centres: {axes}. {_told(map(_map, views))}"


def _map(view: ClusterView) -> str:
    many = f"{view.name}: {len(view.centres)} centres"
    if view.sizes is None or not len(view.sizes):
        return many
    at = int(np.argmax(view.sizes))
    columns = view.columns[:1] if view.is_strip else view.columns
    place = ", ".join(
        f"{name} = {view.dates.get(name, number_text)(float(number))}"
        for name, number in zip(columns, view.centres[at], strict=False)
    )
    return f"{many}, the largest at {place} with {number_text(view.sizes[at])} noisy rows"


def _told(lines: Iterable[str]) -> str:
    every = list(lines)
    told = "; ".join(every[:MOST_TOLD])
    more = len(every) - MOST_TOLD
    if not every:
        return "Nothing to show yet."
    return f"{told}; and {more} more." if more > 0 else f"{told}."


class Noisy(NamedTuple):
    """One number of one window.

    deviation   of its noise; 0 of an exact one
    """

    window: str
    value: float
    deviation: float = 0.0


def over_windows(
    values: Mapping[str, Sequence[Noisy]], windows: Windows, *, label: str, title: str
) -> bytes:
    """PNG of one number over windows, a line a model, bars of one standard deviation."""
    lines = [
        Line(
            model,
            place,
            [Point(_day(windows, one.window), one.value, one.deviation) for one in found],
        )
        for place, (model, found) in enumerate(values.items())
    ]
    return line_chart(
        lines,
        across=_across(windows, [one.window for found in values.values() for one in found]),
        up=Up(label, floor=0.0),
        title=title,
        footnote="Bars: ± one standard deviation of the noise in the number itself.",
    )


def window_strip(
    spent: Mapping[str, Fraction], windows: Windows, *, ceiling: Fraction | None, symbol: str
) -> bytes:
    """PNG of what every window has cost, each filled towards its ceiling.

    spent   window → the sum of its charges
    """
    figure = picture.new_figure(picture.WIDTH, 2.4)
    axes = figure.add_subplot()
    picture.set_title(figure, f"Spent on each {windows.every}")
    if not spent:
        picture.say_nothing_to_show(axes, "nothing was charged yet")
        return picture.png(figure)
    names = sorted(spent, key=windows.start)
    places = [_day(windows, name) for name in names]
    last = _day(windows, windows.following(names[-1]))
    widths = [(after - at) * 0.86 for at, after in zip(places, [*places[1:], last], strict=True)]
    if ceiling is not None:
        axes.bar(places, [float(ceiling)] * len(places), widths, align="edge", color="#e8e6e1")
        axes.axhline(float(ceiling), color=picture.MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
    heights = [float(spent[name]) for name in names]
    axes.bar(places, heights, widths, align="edge", color=picture.COLOURS[0])
    axes.set_xlim(places[0] - widths[0] * 0.2, last)
    axes.xaxis_date()
    axes.set_ylabel(symbol)
    axes.set_xlabel(f"{windows.every}, by its first day ({windows.clock.zone})")
    picture.quiet(axes)
    most = "no ceiling" if ceiling is None else f"ceiling {epsilon_text(ceiling)} each"
    fullest = epsilon_text(max(spent.values()))
    picture.set_footnote(figure, f"{len(names)} charged, the fullest {fullest}; {most}.")
    return picture.png(figure)


def _across(windows: Windows, names: Sequence[str]) -> Across:
    places = sorted({_day(windows, name) for name in names}) or [0.0]
    room = max(places[-1] - places[0], 1.0) * 0.03
    label = f"{windows.every}, by its first day ({windows.clock.zone})"
    return Across(label, "time", span=(places[0] - room, places[-1] + room))


def _day(windows: Windows, name: str) -> float:
    """When a window begins, as Matplotlib counts days."""
    from matplotlib.dates import date2num

    wall: datetime = windows.clock.wall(windows.start(name))
    return float(date2num(wall))  # type: ignore[no-untyped-call]
