"""Pictures as SVG and as small PNG, in colours that everybody can tell apart; grids of panels.

Matplotlib and Pillow are imported late, as tables need neither.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Picture:
    """One picture: SVG on a page, PNG in Dagster.

    caption    text that is printed below the picture
    figure     Matplotlib figure, outside of pyplot's global state
    alt_text   content of the picture in words, for readers who cannot see it
    """

    caption: str
    figure: Figure
    alt_text: str

    @property
    def png(self) -> bytes:
        """The figure as a PNG of less than ``MOST_BYTES`` bytes, as sharp as possible.

        The same figure gives the same bytes: no time and no version is written into it. Reading it
        fixes the layout of the figure and changes its resolution. ValueError if it has too many
        bytes at the lowest resolution."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = self.figure
        lay_out(figure)
        for resolution in _RESOLUTIONS:
            figure.set_dpi(resolution)
            canvas: Any = FigureCanvasAgg(figure)
            canvas.draw()
            encoded = encode_png(np.array(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3])
            if len(encoded) < MOST_BYTES:
                return encoded
        raise ValueError(
            f"A picture must have fewer than {MOST_BYTES} bytes, not {len(encoded)}: "
            "report this fault"
        )

    @property
    def svg(self) -> bytes:
        """The figure as SVG, with texts in the reader's fonts and rasterized parts as one image.

        The same figure gives the same bytes. Reading it fixes the layout of the figure and changes
        its resolution."""
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        lay_out(self.figure)
        self.figure.set_dpi(_IMAGES)
        encoded = io.BytesIO()
        metadata = {"Date": None, "Creator": None}
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "dp_pipeline"}):
            FigureCanvasSVG(self.figure).print_svg(encoded, metadata=metadata)  # type: ignore[no-untyped-call]
        return encoded.getvalue()

    @property
    def is_tall(self) -> bool:
        width, height = self.figure.get_size_inches()
        return bool(height > width)


MOST_ITEMS = 8
"""Lines, attributes or maps of one alternative text."""


def list_first(items: Iterable[str]) -> str:
    """Return the first ``MOST_ITEMS`` items as one text, with the number of further items; without
    items a note that there is nothing to show."""
    every = list(items)
    if not every:
        return "Nothing to show yet."
    hidden_count = len(every) - MOST_ITEMS
    end = f"; and {hidden_count} more." if hidden_count > 0 else "."
    return "; ".join(every[:MOST_ITEMS]) + end


def encode_png(pixels: Pixels) -> bytes:
    """Return a PNG of opaque ``pixels`` (height, width, 3) with at most 256 colours.

    Paper stays white and a line keeps its colour; only the blends at their edges change.
    """
    from PIL import Image

    image = Image.fromarray(pixels)
    few = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    encoded = io.BytesIO()
    few.save(encoded, "PNG", optimize=True)
    return encoded.getvalue()


MOST_BYTES = 100_000
"""Most bytes of a PNG: Dagster shows it inside Markdown, and is slow with larger ones."""

WIDTH = 5.4
"""Inches of a picture: half a page shows letters of 9 points in full size, a phone legibly."""

INK, MUTED, RULE = "#1c2530", "#5d6b7a", "#d9dfe5"

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#3b3b3b")
"""Okabe and Ito's palette without its yellow, which white paper swallows."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "h")
"""Not as many as colours, nor a multiple: a colour comes back with another marker."""

STYLES = ("-", "--", ":")
"""Dashes of a line, changed each time that the colours come back."""


def look_of(place: int) -> dict[str, Any]:
    """Return Matplotlib's arguments ``color``, ``marker`` and ``linestyle`` for the line with the
    number ``place``; of 231 successive numbers no two have the same."""
    turn, colour = divmod(place, len(COLOURS))
    return {
        "color": COLOURS[colour],
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": STYLES[turn % len(STYLES)],
    }


_RESOLUTIONS = (160, 128, 100, 80, 64, 48, 32, 16)
"""Pixels an inch that are tried in turn. The first makes 864 pixels of WIDTH, as Dagster's dialog
shows no more."""

_IMAGES = 96
"""Resolution of images inside an SVG: they hold rectangles of one colour."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty white figure of a size in inches, without Matplotlib's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.09, h_pad=0.09, wspace=0.04, hspace=0.05)
    return figure


def shorten_label(text: str, *, width: int = 64) -> str:
    """Return a text as one line for Matplotlib, with $ escaped, unprintable letters replaced, and
    cut after ``width`` letters.

    >>> shorten_label("a  title with $x$")
    'a title with \\\\$x\\\\$'
    """
    line = " ".join(text.split())
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    short = line if len(line) <= width else line[: width - 1].rstrip() + "…"
    return short.replace("$", r"\$")


def set_title(figure: Figure, title: str) -> None:
    text = shorten_label(title, width=60)
    figure.suptitle(text, x=0.02, ha="left", fontsize=10.5, fontweight="bold", color=INK)


_FOOTNOTE = 84
"""Letters of a line below a picture of WIDTH."""


def set_footnote(figure: Figure, text: str) -> None:
    """Write an explanation below the axes of a figure, in lines of up to ``_FOOTNOTE`` letters."""
    wrapped = "\n".join(textwrap.fill(line, _FOOTNOTE) for line in text.splitlines())
    figure.supxlabel(wrapped, x=0.02, ha="left", fontsize=8, color=MUTED)


def style_frame(axes: Axes) -> None:
    """Remove the top and right side of a frame; give the others and the ticks pale colours."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(RULE)
    axes.tick_params(colors=MUTED, labelsize=9, length=3, color=RULE)
    axes.xaxis.label.set(color=INK, size=9.5)
    axes.yaxis.label.set(color=INK, size=9.5)
    axes.set_axisbelow(True)


def say_nothing_to_show(axes: Axes, why: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", color=MUTED, transform=axes.transAxes)


def lay_out(figure: Figure) -> None:
    """Lay a figure out once and fix its axes, since repeated layouts would move them a little."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure.set_dpi(_RESOLUTIONS[0])
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


_AROUND, _LINE = 0.9, 0.21
"""Inches for title and footnote, and of one line of names."""

_SHORT_NAME = 16
"""Letters of a name of which three stand next to each other; of longer names two do."""


def new_panels(
    count: int, *, inches: float, title: str, names: Sequence[str] = ()
) -> tuple[Figure, list[Axes]]:
    """Return a figure and the axes of its ``count`` empty panels; for 0 it has a note instead.

    inches  height of a panel
    names   names of lines, by the numbers that ``look_of`` takes, to list below the panels
    """
    from matplotlib.lines import Line2D

    across, down = min(2, max(1, count)), max(1, math.ceil(count / 2))
    name_columns = 2 if any(len(name) > _SHORT_NAME for name in names) else 3
    heights = [inches] * down + [_LINE * math.ceil(len(names) / name_columns)] * bool(names)
    figure = new_figure(WIDTH, _AROUND + sum(heights))
    set_title(figure, title)
    grid = figure.subplots(len(heights), across, height_ratios=heights, squeeze=False)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    if not count:
        say_nothing_to_show(grid[0, 0], "nothing to show yet")
    if names:
        handles = [
            Line2D([], [], **{**look_of(i), "linestyle": ""}, label=shorten_label(name, width=24))
            for i, name in enumerate(names)
        ]
        frame: dict[str, Any] = {"frameon": False, "borderaxespad": 0.0, "handletextpad": 0.3}
        text: dict[str, Any] = {"fontsize": 8.5, "labelcolor": INK, "ncols": name_columns}
        legend = grid[down, 0].legend(handles=handles, loc="upper left", **frame, **text)
        # Its names reach below the other panels, and must not make the first ones wider.
        legend.set_in_layout(False)
    return figure, list(grid.flat[:count])


def spread_apart(heights: Sequence[float], *, gap: float) -> list[float]:
    """Return heights in 0..1, in the order of ``heights``, moved so that they are at least ``gap``
    apart, or as far as there is room.

    >>> [round(height, 2) for height in spread_apart([0.5, 0.5, 0.1], gap=0.1)]
    [0.5, 0.6, 0.1]
    """
    gap = min(gap, 1 / max(1, len(heights)))
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    result = list(heights)
    for below, above in pairwise(order):
        result[above] = max(result[above], result[below] + gap)
    for above_count, index in enumerate(reversed(order)):
        result[index] = min(result[index], 1 - above_count * gap)
    return result
