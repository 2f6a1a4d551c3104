"""Many lines over ε, or K, in one picture: means with standard errors, each named at its end.

Bars on a log axis, each with its number: for run times that differ by powers of ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.papers.results import Mean
from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.text import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT, _NAME_HEIGHT = 6.6, 2.6, 0.19
BARS = "Bars: ± one standard error of the mean. "


@dataclass(frozen=True)
class Line:
    """One line of a picture.

    name    printed at its end
    style   a number of its own: colour, marker and dashes are the same in every picture
    points  (ε or K as text, mean), ascending; means are finite
    """

    name: str
    style: int
    points: tuple[tuple[str, Mean], ...]


@dataclass(frozen=True)
class Scale:
    """The vertical axis.

    kind         ``log``; ``linear``; ``signed log``: linear from −100 to 100, log beyond
    references   values that get a line of their own, and their names
    """

    label: str
    kind: Literal["log", "linear", "signed log"]
    references: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Across:
    """The horizontal axis.

    is_log   places are numbers above 0; else the numbers stand side by side, a step apart
    """

    label: str
    is_log: bool = True

    def places(self, lines: Sequence[Line]) -> dict[str, float]:
        """Where each number stands that any line has, ascending.

        >>> line = Line("a", 0, (("0", Mean.of([1.0])), ("50", Mean.of([2.0]))))
        >>> Across("K", is_log=False).places([line])
        {'0': 0.0, '50': 1.0}
        """
        texts = sorted({text for line in lines for text, _ in line.points}, key=float)
        return {text: float(text) if self.is_log else float(at) for at, text in enumerate(texts)}


OVER_EPSILON = Across("ε (log scale; smaller protects more)")


def line_chart(
    lines: Sequence[Line], *, scale: Scale, title: str, footnote: str, across: Across = OVER_EPSILON
) -> bytes:
    """PNG as high as the names at the ends of the lines need.

    lines   at least one, each with at least one point
    """
    places = across.places(lines)
    figure = picture.new_figure(_WIDTH, max(_HEIGHT, 1.2 + _NAME_HEIGHT * len(lines)))
    axes = figure.add_subplot()
    picture.set_title(figure, title)
    for line in lines:
        at = [places[text] for text, _ in line.points]
        means = [mean.value for _, mean in line.points]
        errors = [mean.error if mean.repeats > 1 else 0.0 for _, mean in line.points]
        look: dict[str, Any] = {"markersize": 6, "markeredgewidth": 0.5, "linewidth": 1.6}
        look["markeredgecolor"] = "white"
        axes.errorbar(
            at,
            means,
            yerr=errors,
            elinewidth=1.1,
            capsize=2.5,
            **look,
            **picture.look_of(line.style),
        )
    _set_across(axes, across, places)
    _set_axes(axes, scale)
    _name_ends(axes, lines, places)
    picture.set_footnote(figure, footnote)
    picture.quiet(axes)
    return picture.png(figure)


def _set_across(axes: Axes, across: Across, places: Mapping[str, float]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    at = list(places.values())
    if across.is_log:
        axes.set_xscale("log")
        axes.set_xlim(at[0] / 1.25, at[-1] * 1.12)
    else:
        axes.set_xlim(at[0] - 0.25, at[-1] + 0.15)
    axes.xaxis.set_major_locator(FixedLocator(at))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter(list(places)))
    axes.set_xlabel(across.label)


def _set_axes(axes: Axes, scale: Scale) -> None:
    from matplotlib.ticker import FuncFormatter

    if scale.kind == "log":
        axes.set_yscale("log")
    elif scale.kind == "signed log":
        axes.set_yscale("symlog", linthresh=100.0, linscale=2.0)
    if scale.kind != "linear":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    if scale.kind == "log":
        axes.yaxis.set_minor_formatter(FuncFormatter(_between_powers_of_ten))
        axes.tick_params(which="minor", labelsize=8, colors=picture.MUTED, color=picture.RULE)
    axes.set_ylabel(picture.plain(scale.label))
    axes.grid(axis="y", color=picture.RULE, linewidth=0.7)
    for value, name in scale.references:
        _draw_reference(axes, value, name, is_log=scale.kind == "log")
    # Limits follow the lines only when somebody asks; the names at their ends need them now.
    axes.set_ylim(axes.get_ylim())


def _draw_reference(axes: Axes, value: float, name: str, *, is_log: bool) -> None:
    """A dotted line; its name below it on a log axis, where the lines are all above."""
    axes.axhline(value, color=picture.MUTED, linewidth=1, linestyle=(0, (1, 2)), zorder=2)
    if is_log:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, value * (value / high) ** 0.09), high)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "fontsize": 8}
    place |= {"xytext": (4, -10 if is_log else 3), "textcoords": "offset points"}
    axes.annotate(name, (0.0, value), color=picture.MUTED, **place)


def _between_powers_of_ten(value: float, _: int) -> str:
    """Twos and fives are written, the other small ticks are not."""
    return f"{value:,.6g}" if f"{value:e}"[0] in "25" else ""


def _name_ends(axes: Axes, lines: Sequence[Line], places: Mapping[str, float]) -> None:
    fraction = axes.transScale + axes.transLimits
    ends = [(places[line.points[-1][0]], line.points[-1][1].value) for line in lines]
    at = fraction.transform(ends)
    heights = picture.spread_apart(at[:, 1].tolist(), gap=1 / max(12, len(lines)))
    for line, (x, y), height in zip(lines, at, heights, strict=True):
        inside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        look = picture.look_of(line.style)
        axes.plot([x, 1.04], [y, height], lw=0.6, alpha=0.5, color=look["color"], **inside)
        axes.plot([1.04, 1.10], [height, height], lw=1.6, markevery=[1], ms=5, **look, **inside)
        text: dict[str, Any] = {"va": "center", "fontsize": 8.5, "color": picture.INK}
        axes.text(
            1.12, height, picture.plain(line.name, width=26), transform=axes.transAxes, **text
        )


def bar_chart(bars: Sequence[tuple[str, float]], *, label: str, title: str, footnote: str) -> bytes:
    """PNG of horizontal bars (name, value > 0), the first on top; at least one."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure = picture.new_figure(6.0, 1.1 + 0.26 * len(bars))
    axes = figure.add_subplot()
    picture.set_title(figure, title)
    places = [-index for index in range(len(bars))]
    values = [value for _, value in bars]
    axes.barh(places, values, height=0.68, color=picture.COLOURS[0])
    axes.set_yticks(places, [picture.plain(name, width=30) for name, _ in bars])
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 3, max(values) * 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    # Every bar has its number; ticks of a short axis would say theirs in powers of ten.
    axes.xaxis.set_minor_formatter(NullFormatter())
    for place, value in zip(places, values, strict=True):
        text = f" {number_text(value)}"
        axes.text(value, place, text, va="center", fontsize=8.5, color=picture.INK)
    axes.set_xlabel(picture.plain(label))
    picture.set_footnote(figure, footnote)
    picture.quiet(axes)
    return picture.png(figure)
