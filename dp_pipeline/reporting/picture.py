"""Pictures: figures without global state, small PNGs, colours that everybody can tell apart.

Matplotlib is imported late: whoever only reads tables does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dp_pipeline.reporting.indexed_png import Pixels, encode_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BYTES = 50_000
"""Dagster shows a picture inside markdown; above this it gets slow."""

WIDTH = 5.4
"""Inches: half a page shows letters of 9 points at their own size, a phone still legibly."""

INK, MUTED, RULE = "#1c2530", "#5d6b7a", "#d9dfe5"

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#3b3b3b")
"""Okabe and Ito's palette without its yellow, which white paper swallows."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "h")
"""Not as many as colours, nor a multiple: a colour comes back with another marker."""

_RESOLUTIONS = (160, 128, 100, 80, 64, 48, 32, 16)
"""The first makes 864 pixels of WIDTH: Dagster cuts off what is wider than its dialog."""


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure, in inches, drawn by Agg and known to nobody else."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.09, h_pad=0.09, wspace=0.04, hspace=0.05)
    return figure


def plain(text: str, *, width: int = 64) -> str:
    """One short line in which no character is a formula.

    >>> plain("a  title with $x$")
    'a title with \\\\$x\\\\$'
    """
    line = " ".join(text.split())
    short = line if len(line) <= width else line[: width - 1].rstrip() + "…"
    return short.replace("$", r"\$")


def set_title(figure: Figure, title: str) -> None:
    """A title at the left edge."""
    text = plain(title, width=60)
    figure.suptitle(text, x=0.02, ha="left", fontsize=10.5, fontweight="bold", color=INK)


def set_footnote(figure: Figure, text: str) -> None:
    """One line below the axes, for how to read them."""
    figure.supxlabel(text, x=0.02, ha="left", fontsize=8, color=MUTED)


def quiet(axes: Axes) -> None:
    """Fewer lines: no box, pale ticks, text in ink."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(RULE)
    axes.tick_params(colors=MUTED, labelsize=9, length=3, color=RULE)
    axes.xaxis.label.set(color=INK, size=9.5)
    axes.yaxis.label.set(color=INK, size=9.5)
    axes.set_axisbelow(True)


def say_nothing_to_show(axes: Axes, why: str) -> None:
    """An empty picture that says why it is empty."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", color=MUTED, transform=axes.transAxes)


def png(figure: Figure, *, most: int = MOST_BYTES) -> bytes:
    """The figure as PNG of less than ``most`` bytes, as sharp as fits.

    The same figure gives the same bytes: no time and no version is written into it.
    """
    for resolution in _RESOLUTIONS:
        encoded = encode_png(_drawn(figure, resolution))
        if len(encoded) < most:
            return encoded
    raise ValueError(f"picture: expected less than {most} bytes, got {len(encoded)}")


def _drawn(figure: Figure, resolution: int) -> Pixels:
    """The figure's pixels (height, width, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(resolution)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3]
