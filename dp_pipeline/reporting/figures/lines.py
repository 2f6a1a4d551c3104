"""Line charts over ε, over K or over time, with the name of each line at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.picture import Picture, list_first
from dp_pipeline.reporting.text import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOG_FROM = 8.0
"""A largest value this many times the smallest is drawn on a log axis."""

_STEP_ASIDE, _WIDEST_ASIDE = 0.03, 0.12
_LINE, _AROUND, _PANEL = 0.19, 1.1, 2.0
"""Inches from one name to the next, above and below the axes, and of one of several axes."""

EPOCH = datetime(1970, 1, 1)


def day_of(moment: datetime) -> float:
    """Return a time, as its zone's clock shows it, in days since 1970, as Matplotlib counts.

    >>> day_of(datetime(1970, 1, 2, 12))
    1.5
    """
    return (moment.replace(tzinfo=None) - EPOCH) / timedelta(days=1)


class Point(NamedTuple):
    """A point of a line, with its error.

    position   ε, K or time in days (``day_of``)
    value      NaN breaks the line
    bar        half of the length of its error bar; 0: none
    """

    position: float
    value: float
    bar: float = 0.0


@dataclass(frozen=True)
class Line:
    """A line of a chart.

    name     text that is printed at the line's end, unless it is empty
    place    number, unique among lines, that decides colour, marker and dashes in every picture
    points   ascending by position; of several at one position, all are marked, and the line joins
             their means
    style    ``marks``; ``steps`` that hold a value until the next point, of at least one; or
             ``dashed steps``
    """

    name: str
    place: int
    points: Sequence[Point]
    style: Literal["marks", "steps", "dashed steps"] = "marks"

    @property
    def line_points(self) -> list[tuple[float, float]]:
        """The (position, value) points that the line joins: every step, or the mean of all marks at
        each position.

        >>> Line("a", 0, [Point(1, 2.0), Point(1, 4.0)]).line_points
        [(1, 3.0)]
        """
        if self.style != "marks":
            return [(point.position, point.value) for point in self.points]
        groups: dict[float, list[float]] = {}
        for point in self.points:
            groups.setdefault(point.position, []).append(point.value)
        return [(position, float(np.mean(values))) for position, values in groups.items()]

    @property
    def end(self) -> tuple[float, float] | None:
        """The last of ``line_points`` with a finite value; None without one."""
        finite = [point for point in self.line_points if math.isfinite(point[1])]
        return finite[-1] if finite else None


@dataclass(frozen=True)
class HorizontalAxis:
    """The horizontal axis of a chart.

    kind     ``log``: numbers above 0; ``apart``: numbers at equal distances, which is nearly log
             and has room for 0; ``time``: days since 1970
    ticks    every number → its text, ascending; for time only used in the alternative text
    span     first and last day of an axis of time
    symbol   symbol that texts put before a number, such as ε or K; empty for time
    """

    label: str
    kind: Literal["log", "apart", "time"]
    ticks: Mapping[float, str] = field(default_factory=dict)
    span: tuple[float, float] = (0.0, 1.0)
    symbol: str = ""

    def place(self, position: float) -> float:
        """Return the place of a number on the axis: its index in ``ticks`` for the kind ``apart``,
        else the number.

        >>> HorizontalAxis("K", "apart", {0: "0", 50: "50"}).place(50)
        1.0
        """
        return float(list(self.ticks).index(position)) if self.kind == "apart" else float(position)

    def text(self, position: float) -> str:
        """Return a number of the axis as text: the symbol, and its tick or else its date.

        >>> HorizontalAxis("", "log", {0.5: "1/2"}, symbol="ε").text(0.5)
        'ε = 1/2'
        >>> HorizontalAxis("", "time").text(1.5)
        '1970-01-02'
        """
        # No date where there is a tick: a large K is after the year 9999.
        tick = self.ticks.get(position) or f"{EPOCH + timedelta(days=position):%Y-%m-%d}"
        return f"{self.symbol} = {tick}" if self.symbol else tick


@dataclass(frozen=True)
class VerticalAxis:
    """The vertical axis of a chart.

    kind         ``linear``: equal differences at equal distances; ``log``: equal ratios at equal
                 distances, for values above 0; ``auto``: log or linear, as ``is_log`` decides from
                 the values; ``signed log``: linear from −100 to 100, log beyond both ends
    floor        value at which an axis that is not log begins, unless a value is lower; None: it
                 begins at the lowest value
    references   (value, name) of horizontal lines
    reading      unit, and which values are better, in words
    """

    label: str
    kind: Literal["auto", "log", "linear", "signed log"] = "auto"
    floor: float | None = None
    references: Sequence[tuple[float, str]] = ()
    reading: str = ""

    def is_log(self, values: Sequence[float]) -> bool:
        """Return whether an axis of these values, at least one, has a log scale.

        The kind ``log`` always has, and the kinds ``linear`` and ``signed log`` never. The kind
        ``auto`` has if all values are above 0 and the largest is above ``LOG_FROM`` times the
        smallest.
        """
        is_wide = min(values) > 0 and max(values) > LOG_FROM * min(values)
        return self.kind == "log" or (self.kind == "auto" and is_wide)


class Bar(NamedTuple):
    """A bar behind the lines, from 0 to ``height``."""

    first: float
    last: float
    height: float


@dataclass(frozen=True)
class Panel:
    """The lines and bars on one pair of axes; lines without a finite value are not drawn."""

    lines: Sequence[Line]
    x_axis: HorizontalAxis
    y_axis: VerticalAxis
    bars: Sequence[Bar] = ()

    @property
    def points(self) -> list[Point]:
        """Every finite point of lines, and the upper left end of every bar."""
        points = [point for line in self.lines for point in line.points]
        points += [Point(bar.first, bar.height) for bar in self.bars]
        return [point for point in points if math.isfinite(point.value)]

    @property
    def is_log(self) -> bool:
        return self.y_axis.is_log([point.value for point in self.points])

    @property
    def heading(self) -> str:
        """The name of the vertical axis, with a note if it is ``auto`` and its scale is log."""
        is_chosen = self.y_axis.kind == "auto" and self.is_log
        return f"{self.y_axis.label}, log scale" if is_chosen else self.y_axis.label

    @property
    def alt_text(self) -> str:
        """An alternative text: both ends of each line or, without lines, the height of each bar."""
        reading = f" ({self.y_axis.reading})" if self.y_axis.reading else ""
        of_bars = [f"{self.x_axis.text(b.first)}: {number_text(b.height)}" for b in self.bars]
        of_lines = []
        for line in self.lines:
            texts = [
                f"{number_text(value)} at {self.x_axis.text(position)}"
                for position, value in line.line_points
                if math.isfinite(value)
            ]
            if texts:
                ends = texts[0] if len(texts) == 1 else f"from {texts[0]} to {texts[-1]}"
                of_lines.append(f"{line.name}: {ends}")
        over = self.x_axis.symbol or "time"
        return f"{self.y_axis.label} over {over}{reading}. {list_first(of_lines or of_bars)}"


def line_chart(
    panels: Sequence[Panel],
    *,
    title: str,
    footnote: str,
    caption: str = "",
    width: float = picture.WIDTH,
) -> Picture:
    """Return a picture of one panel with names at the ends of its lines, or of several small panels
    with a legend; panels without a finite number are left out.

    title      text above the panels
    footnote   text below them
    caption    text that a page prints below the picture; empty: the title
    width      width of a picture of one panel, in inches
    """
    drawn_panels = [panel for panel in panels if panel.points]
    words = " ".join(panel.alt_text for panel in panels)
    if len(drawn_panels) == 1:
        (panel,) = drawn_panels
        height = max(3.5, _AROUND + 1.4 * _LINE * len(panel.lines))
        figure = picture.new_figure(width, height)
        axes = figure.add_subplot()
        picture.set_title(figure, title)
        draw_panel(axes, panel)
        axes.set_xlabel(panel.x_axis.label)
        axes.set_ylabel("\n".join(filter(None, (panel.heading, panel.y_axis.reading))))
        _name_ends(axes, panel, gap=_LINE / (height - _AROUND))
    else:
        figure = _draw_several(drawn_panels, title)
        footnote = f"Across: {drawn_panels[0].x_axis.label}.\n{footnote}" if drawn_panels else ""
    picture.set_footnote(figure, footnote)
    return Picture(caption or title, figure, words or list_first(()))


def _draw_several(panels: Sequence[Panel], title: str) -> Figure:
    by_place = dict(sorted((line.place, line.name) for panel in panels for line in panel.lines))
    names = list(by_place.values())
    figure, grid = picture.new_panels(len(panels), inches=_PANEL, title=title, names=names)
    for axes, panel in zip(grid, panels, strict=True):
        draw_panel(axes, panel)
        axes.tick_params(labelsize=7.5)
        heading = picture.shorten_label(panel.heading, width=36)
        axes.set_title(heading, loc="left", fontsize=9, color=picture.INK, pad=6)
    return figure


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Draw a panel's bars, lines, scales and references on given axes, without axis labels.

    panel   a panel with at least one finite value
    """
    shade: dict[str, Any] = {"color": picture.COLOURS[4], "alpha": 0.35, "linewidth": 0}
    for bar in panel.bars:
        axes.fill_between([bar.first, bar.last], 0, bar.height, **shade)
    last, step = len(panel.lines) - 1, 0.0
    if panel.x_axis.kind == "log" and any(point.bar for point in panel.points):
        # Lines are moved aside so that their error bars do not overlap.
        step = min(_STEP_ASIDE, _WIDEST_ASIDE / max(1, last))
    for index, line in enumerate(panel.lines):
        _draw(axes, line, panel.x_axis, math.exp(step * (index - last / 2)))
    _scale_across(axes, panel.x_axis)
    _scale_up(axes, panel)
    for value, name in panel.y_axis.references:
        axes.axhline(value, color=picture.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
        axes.annotate(
            picture.shorten_label(name),
            (0.0, value),
            xytext=(4, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=8,
            color=picture.MUTED,
        )
    axes.grid(axis="y", color=picture.RULE, linewidth=0.7)
    picture.style_frame(axes)


def _draw(axes: Axes, line: Line, x_axis: HorizontalAxis, aside: float) -> None:
    look = picture.look_of(line.place)
    marker = look.pop("marker")
    positions = [x_axis.place(position) * aside for position, _ in line.line_points]
    values = [value for _, value in line.line_points]
    if line.style != "marks":
        dashed = {"linestyle": "--", "linewidth": 1.3} if line.style == "dashed steps" else {}
        style: dict[str, Any] = {**look, "linewidth": 1.8, **dashed, "where": "post", "zorder": 3}
        axes.step([*positions, x_axis.span[1]], [*values, values[-1]], **style)
        return
    axes.plot(positions, values, linewidth=1.8, zorder=3, **look)
    positions = [x_axis.place(point.position) * aside for point in line.points]
    values, bars = [p.value for p in line.points], [p.bar or math.nan for p in line.points]
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5, "markersize": 6}
    mark: dict[str, Any] = {"fmt": marker, "color": look["color"], "zorder": 4, **edge}
    axes.errorbar(positions, values, yerr=bars, elinewidth=1.3, capsize=3, **mark)


def _scale_across(axes: Axes, x_axis: HorizontalAxis) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    if x_axis.kind == "time":
        locator: Any = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.xaxis.get_offset_text().set(color=picture.INK, size=8.5)
        axes.set_xlim(*x_axis.span)
        return
    positions, texts = [x_axis.place(tick) for tick in x_axis.ticks], list(x_axis.ticks.values())
    if x_axis.kind == "log":
        axes.set_xscale("log")
        axes.set_xlim(positions[0] / 1.25, positions[-1] * 1.12)
        # Of ticks that are close, every second one has its text on a second line.
        close, is_low = 0.07 * math.log(positions[-1] / positions[0]), False
        for index, (left_tick, right_tick) in enumerate(pairwise(positions), 1):
            is_low = math.log(right_tick / left_tick) < close and not is_low
            texts[index] = "\n" * is_low + texts[index]
    else:
        axes.set_xlim(positions[0] - 0.25, positions[-1] + 0.15)
    axes.xaxis.set_major_locator(FixedLocator(positions))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter(texts))


def _scale_up(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    y_axis, points = panel.y_axis, panel.points
    references = [value for value, _ in y_axis.references]
    low = min([*(point.value - point.bar for point in points), *references])
    high = max([*(point.value + point.bar for point in points), *references])
    if panel.is_log:
        positive = [value for value in references if value > 0]
        lowest = min([*(point.value for point in points), *positive])
        axes.set_yscale("log")
        subs = (1.0,) if high > 100 * lowest else (1.0, 2.0, 5.0)
        # Within a power of ten there may be none of these.
        is_short = high * 1.3 < 10 * lowest / 1.3
        locator = MaxNLocator(6, steps=[1, 2, 5, 10]) if is_short else LogLocator(subs=subs)
        axes.yaxis.set_major_locator(locator)
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(lowest / 1.3, high * 1.3)
    else:
        if y_axis.kind == "signed log":
            axes.set_yscale("symlog", linthresh=100.0, linscale=2.0)
        base = low if y_axis.floor is None else min(low, y_axis.floor)
        margin = (high - base or abs(high) or 1.0) * 0.08
        # Below a floor of 0 there is nothing; other floors are lines that have to be seen.
        lower_end = base if base == y_axis.floor == 0 else base - margin
        axes.set_ylim(lower_end, max(high, base) + margin)
    ticks = axes.yaxis.get_majorticklocs
    axes.yaxis.set_major_formatter(lambda _, index: tick_texts(ticks().tolist())[int(index)])


def tick_texts(values: Sequence[float]) -> list[str]:
    """Return a text for each of ascending ticks, with as many decimals as their equal steps need;
    where steps differ, each has its own digits.

    >>> tick_texts([0.0, 0.05, 0.1]), tick_texts([0.5, 5.0, 50.0])
    (['0.00', '0.05', '0.10'], ['0.5', '5', '50'])
    """
    steps = np.diff(values)
    step = float(steps[0]) if len(steps) else 0.0
    if not np.allclose(steps, step, rtol=1e-6, atol=0) or not 1e-5 <= step < 1e6:
        return [f"{v:,.5g}" if not v or 1e-4 <= abs(v) < 1e6 else number_text(v) for v in values]
    decimals = max(0, -math.floor(math.log10(step * 1.000001)))
    decimals += round(step * 10**decimals, 6) % 1 > 0
    return [f"{value:,.{decimals}f}" for value in values]


def _name_ends(axes: Axes, panel: Panel, *, gap: float) -> None:
    """Write the names of lines at their ends, at least ``gap`` of the height apart."""
    x_axis = panel.x_axis
    named_lines = [(line, line.end) for line in panel.lines if line.name and line.end is not None]
    if not named_lines:
        return
    is_time = x_axis.kind == "time"
    ends = [(x_axis.span[1] if is_time else x_axis.place(x), y) for _, (x, y) in named_lines]
    anchors = (axes.transScale + axes.transLimits).transform(ends)
    heights = picture.spread_apart(anchors[:, 1].tolist(), gap=gap)
    for (line, _), (x, y), height in zip(named_lines, anchors, heights, strict=True):
        look = picture.look_of(line.place)
        inside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        inside["color"] = look["color"]
        axes.plot([x, 1.025], [y, height], linewidth=0.7, alpha=0.6, **inside)
        if line.style == "marks":
            axes.plot([1.025], [height], marker=look["marker"], markersize=6, **inside)
        name = picture.shorten_label(line.name, width=24)
        inside["color"] = picture.INK
        axes.text(1.05, height, name, va="center", fontsize=9, **inside)
