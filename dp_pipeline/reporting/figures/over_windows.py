"""Pictures over windows: what was released of one after the other, and what each has cost.

Across is time: a window stands at its first day in the zone of its calendar. Bars are the noise of
the number itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.lines import Across, Line, Point, Up, line_chart
from dp_pipeline.spec.amounts import epsilon_text

if TYPE_CHECKING:
    from dp_pipeline.spec.windows import Windows


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
