"""The line chart: over ε, over K or over time, each line named at its end.

No legend has to be looked up: a name stands beside the end of its line, none over another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.text import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOG_FROM = 8.0
"""A largest value this many times the smallest is drawn on a log axis."""

_STEP_ASIDE, _WIDEST_ASIDE = 0.03, 0.12
_LINE, _AROUND = 0.19, 1.1
"""Inches from one name to the next, and above and below the axes."""


class Point(NamedTuple):
    """One number.

    at      ε, K or time in days (``matplotlib.dates.date2num``)
    value   NaN breaks the line
    bar     half of the length of its error bar; 0: none
    """

    at: float
    value: float
    bar: float = 0.0


@dataclass(frozen=True)
class Line:
    """One line.

    name     printed at its end; empty: not named
    place    a number of its own: colour, marker and dashes are the same in every picture
    points   ascending; of marks several at one place are all drawn, and the line joins their means
    style    ``marks``, or steps that hold a value until the next one, in the look of ``place`` or
             dashed; steps have at least one point
    """

    name: str
    place: int
    points: Sequence[Point]
    style: Literal["marks", "steps", "dashed steps"] = "marks"

    @property
    def joined(self) -> list[tuple[float, float]]:
        """(at, value) of what the line joins: every step, or the mean of all numbers at one place.

        >>> Line("a", 0, [Point(1, 2.0), Point(1, 4.0)]).joined
        [(1, 3.0)]
        """
        if self.style != "marks":
            return [(point.at, point.value) for point in self.points]
        groups: dict[float, list[float]] = {}
        for point in self.points:
            groups.setdefault(point.at, []).append(point.value)
        return [(at, float(np.mean(values))) for at, values in groups.items()]

    @property
    def end(self) -> tuple[float, float] | None:
        """Its last number that is one; None where it has none."""
        finite = [one for one in self.joined if math.isfinite(one[1])]
        return finite[-1] if finite else None


@dataclass(frozen=True)
class Across:
    """The horizontal axis.

    kind    ``log``: numbers above 0; ``apart``: numbers side by side, a step apart, which is nearly
            log and has room for 0; ``time``: days
    ticks   every number → its text, ascending; none of a time
    span    first and last moment of a time
    """

    label: str
    kind: Literal["log", "apart", "time"]
    ticks: Mapping[float, str] = field(default_factory=dict)
    span: tuple[float, float] = (0.0, 1.0)

    def place(self, at: float) -> float:
        """Where a number stands, in the units of the axis.

        >>> Across("K", "apart", {0: "0", 50: "50"}).place(50)
        1.0
        """
        return float(list(self.ticks).index(at)) if self.kind == "apart" else float(at)


@dataclass(frozen=True)
class Up:
    """The vertical axis.

    kind         ``auto``: log where lines of small values would be flat, else linear;
                 ``signed log``: linear from −100 to 100, log beyond
    floor        value that a linear axis begins with, or below; None: with the lowest one
    references   values that get a line of their own, and their names
    """

    label: str
    kind: Literal["auto", "log", "linear", "signed log"] = "auto"
    floor: float | None = None
    references: Sequence[tuple[float, str]] = ()

    def is_log(self, lines: Sequence[Line]) -> bool:
        """Whether the lines are drawn over a log axis."""
        values = [point.value for point in _finite(lines)]
        is_wide = min(values) > 0 and max(values) > LOG_FROM * min(values)
        return self.kind == "log" or (self.kind == "auto" and is_wide)

    def heading(self, lines: Sequence[Line]) -> str:
        """The label, which says so where nobody else has decided on a log scale."""
        is_found = self.kind == "auto" and self.is_log(lines)
        return f"{self.label}, log scale" if is_found else self.label


def line_chart(
    lines: Sequence[Line],
    *,
    across: Across,
    up: Up,
    title: str,
    footnote: str,
    width: float = picture.WIDTH,
) -> bytes:
    """PNG of all lines in one pair of axes, as high as the names at their ends need; a picture that
    says so where there is no number.

    width   in inches
    """
    height = max(3.5, _AROUND + 1.4 * _LINE * len(lines))
    figure = picture.new_figure(width, height)
    axes = figure.add_subplot()
    picture.set_title(figure, title)
    if not _finite(lines):
        picture.say_nothing_to_show(axes, "no numbers yet")
        return picture.png(figure)
    draw_lines(axes, lines, across, up)
    axes.set_xlabel(across.label)
    axes.set_ylabel(up.heading(lines))
    name_ends(axes, lines, across, gap=_LINE / (height - _AROUND))
    picture.set_footnote(figure, footnote)
    return picture.png(figure)


def draw_lines(axes: Axes, lines: Sequence[Line], across: Across, up: Up) -> None:
    """Lines over both scales, at least one number among them; axes without labels."""
    for index, line in enumerate(lines):
        _draw(axes, line, across, _aside(lines, across, index))
    _scale_across(axes, across)
    _scale_up(axes, lines, up)
    for value, name in up.references:
        _draw_reference(axes, value, name)
    axes.grid(axis="y", color=picture.RULE, linewidth=0.7)
    picture.quiet(axes)


def _finite(lines: Sequence[Line]) -> list[Point]:
    return [point for line in lines for point in line.points if math.isfinite(point.value)]


def _aside(lines: Sequence[Line], across: Across, index: int) -> float:
    """Error bars of several lines would hide each other: each steps a little to the side."""
    if across.kind != "log" or not any(point.bar for point in _finite(lines)):
        return 1.0
    step = min(_STEP_ASIDE, _WIDEST_ASIDE / max(1, len(lines) - 1))
    return math.exp(step * (index - (len(lines) - 1) / 2))


def _draw(axes: Axes, line: Line, across: Across, aside: float) -> None:
    look = picture.look_of(line.place)
    marker = look.pop("marker")
    at = [across.place(one) * aside for one, _ in line.joined]
    values = [value for _, value in line.joined]
    if line.style != "marks":
        dashed = {"linestyle": "--", "linewidth": 1.3} if line.style == "dashed steps" else {}
        style: dict[str, Any] = {**look, "linewidth": 1.8, **dashed}
        axes.step([*at, across.span[1]], [*values, values[-1]], where="post", zorder=3, **style)
        return
    axes.plot(at, values, linewidth=1.8, zorder=3, **look)
    axes.errorbar(
        [across.place(point.at) * aside for point in line.points],
        [point.value for point in line.points],
        yerr=[point.bar or math.nan for point in line.points],
        fmt=marker,
        color=look["color"],
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.5,
        elinewidth=1.3,
        capsize=3,
        zorder=4,
    )


def _scale_across(axes: Axes, across: Across) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    if across.kind == "time":
        locator: Any = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.xaxis.get_offset_text().set(color=picture.INK, size=8.5)
        axes.set_xlim(*across.span)
        return
    at, texts = [across.place(one) for one in across.ticks], list(across.ticks.values())
    if across.kind == "log":
        axes.set_xscale("log")
        axes.set_xlim(at[0] / 1.25, at[-1] * 1.12)
        texts = _on_two_lines(texts, at)
    else:
        axes.set_xlim(at[0] - 0.25, at[-1] + 0.15)
    axes.xaxis.set_major_locator(FixedLocator(at))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter(texts))


def _on_two_lines(texts: Sequence[str], at: Sequence[float]) -> list[str]:
    """One that stands close to its left neighbour moves to a second line."""
    close = 0.07 * math.log(at[-1] / at[0])
    moved, is_low = [texts[0]], False
    for text, (left, right) in zip(texts[1:], pairwise(at), strict=True):
        is_low = math.log(right / left) < close and not is_low
        moved.append("\n" * is_low + text)
    return moved


def _scale_up(axes: Axes, lines: Sequence[Line], up: Up) -> None:
    """From the floor to a little above the highest bar; log where a line would be flat."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    points, extra = _finite(lines), [value for value, _ in up.references]
    low = min([*(point.value - point.bar for point in points), *extra])
    high = max([*(point.value + point.bar for point in points), *extra])
    is_log = up.is_log(lines)
    if is_log:
        lowest = min([point.value for point in points] + [one for one in extra if one > 0])
        axes.set_yscale("log")
        subs = (1.0,) if high > 100 * lowest else (1.0, 2.0, 5.0)
        # Within a power of ten there may be none of these.
        is_short = high * 1.3 < 10 * lowest / 1.3
        locator = MaxNLocator(6, steps=[1, 2, 5, 10]) if is_short else LogLocator(subs=subs)
        axes.yaxis.set_major_locator(locator)
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(lowest / 1.3, high * 1.3)
    else:
        if up.kind == "signed log":
            axes.set_yscale("symlog", linthresh=100.0, linscale=2.0)
        base = low if up.floor is None else min(low, up.floor)
        room = (high - base or abs(high) or 1.0) * 0.08
        # Below a floor of 0 there is nothing; other floors are lines that have to be seen.
        axes.set_ylim(base if base == up.floor == 0 else base - room, max(high, base) + room)
    axes.yaxis.set_major_formatter(_tick_formatter())


def _tick_formatter() -> Any:
    """Asked anew by each drawing: a panel that turns out smaller has other ticks."""
    from matplotlib.ticker import Formatter

    class TickTexts(Formatter):
        def __call__(self, value: float, _: Any = None) -> str:
            return tick_texts([value])[0]

        def format_ticks(self, values: Any) -> list[str]:
            return tick_texts([float(value) for value in values])

    return TickTexts()


def tick_texts(values: Sequence[float]) -> list[str]:
    """Texts with the same decimals where ticks stand equally far apart; powers of ten where those
    are many.

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


def _draw_reference(axes: Axes, value: float, name: str) -> None:
    axes.axhline(value, color=picture.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate(
        picture.plain(name), (0.0, value), xytext=(4, 3), fontsize=8, color=picture.MUTED, **place
    )


def name_ends(axes: Axes, lines: Sequence[Line], across: Across, *, gap: float) -> None:
    """The names of lines beside their ends, pushed ``gap`` (a share of the height) apart where ends
    are close.
    """
    named = [(line, line.end) for line in lines if line.name and line.end is not None]
    if not named:
        return
    is_stepped = across.kind == "time"
    ends = [(across.span[1] if is_stepped else across.place(at), y) for _, (at, y) in named]
    at = (axes.transScale + axes.transLimits).transform(ends)
    heights = picture.spread_apart(at[:, 1].tolist(), gap=gap)
    for (line, _), (x, y), height in zip(named, at, heights, strict=True):
        look = picture.look_of(line.place)
        inside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        inside["color"] = look["color"]
        axes.plot([x, 1.025], [y, height], linewidth=0.7, alpha=0.6, **inside)
        if line.style == "marks":
            axes.plot([1.025], [height], marker=look["marker"], markersize=6, **inside)
        text: dict[str, Any] = {"va": "center", "fontsize": 9, "color": picture.INK}
        axes.text(
            1.05, height, picture.plain(line.name, width=24), transform=axes.transAxes, **text
        )
