"""The model graph of a released table: cliques below each other, joined by their separators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.reporting.model_graph import ModelGraph, Node
from dp_pipeline.reporting.picture import (
    COLOURS,
    INK,
    MUTED,
    WIDTH,
    new_figure,
    plain,
    png,
    say_nothing_to_show,
    set_footnote,
    set_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLIQUES = 40
"""Cliques of one picture."""

MOST_GRAPH_BYTES = 100_000
"""Of a picture of so many lines of text that it would be too coarse at the size of others."""

_LINE, _AROUND, _LANE = 0.31, 0.75, 0.2
"""Inches from one clique to the next, for title and footnote, and from lane to lane."""

_LETTERS = 76
"""Letters that fit beside the first lane."""


def model_graph(cliques: Mapping[str, np.ndarray], *, title: str) -> bytes:
    """PNG of the cliques nearest to the root, each with what it adds and what it shares.

    cliques   ``SyntheticTable.tables()["cliques"]``: attributes, cells, parent, separator
    """
    graph = ModelGraph.of(cliques, most=MOST_CLIQUES)
    rows = max(2, len(graph.nodes))
    figure = new_figure(WIDTH, _AROUND + _LINE * rows)
    axes = figure.add_subplot()
    set_title(figure, title)
    if not graph.nodes:
        say_nothing_to_show(axes, "no cliques")
        return png(figure)
    axes.set_axis_off()
    axes.set_xlim(-0.08, WIDTH - 0.3)
    axes.set_ylim(rows - 0.4, -0.5)
    for at, node in enumerate(graph.nodes):
        _draw_link(axes, graph, at)
        _draw_node(axes, node, at)
    set_footnote(figure, _footnote(graph))
    return png(figure, most=MOST_GRAPH_BYTES)


def _draw_link(axes: Axes, graph: ModelGraph, at: int) -> None:
    node = graph.nodes[at]
    if node.parent is None:
        return
    above, here = graph.nodes[node.parent].lane * _LANE, node.lane * _LANE
    axes.plot([above, above, here], [node.parent, at, at], color=MUTED, linewidth=1.1, zorder=1)


def _draw_node(axes: Axes, node: Node, at: int) -> None:
    x = node.lane * _LANE
    axes.plot([x], [at], "o", color=COLOURS[0], markersize=6, markeredgecolor="white", zorder=2)
    room = _LETTERS - 4 * node.lane
    texts = [(", ".join(node.own), INK, "bold")]
    if node.separator:
        texts = [*texts, (f"shares {', '.join(node.separator)}", MUTED, "normal")]
    for line, (text, colour, weight) in enumerate(texts):
        axes.text(
            x + 0.13,
            at - (0.19 if node.separator else 0) + 0.4 * line,
            plain(text, width=room),
            va="center",
            fontsize=7.5,
            color=colour,
            fontweight=weight,
        )
    cells = f"{node.cells:,} cells"
    axes.text(WIDTH - 0.3, at, cells, ha="right", va="center", fontsize=7.5, color=MUTED)


def _footnote(graph: ModelGraph) -> str:
    text = "Bold: what a clique adds to the one that it hangs on. Below: their separator."
    if not graph.links:
        text = "No two cliques share an attribute."
    return text if not graph.hidden else f"{text}\n{graph.hidden} more are not shown."
