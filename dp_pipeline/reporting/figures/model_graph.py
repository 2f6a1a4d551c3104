"""The picture of a released table's model: cliques below each other, joined by separators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_pipeline.reporting.figures import picture
from dp_pipeline.reporting.figures.picture import Picture, list_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Node:
    """A clique in the drawing of a model.

    lane        column of the drawing, 0 at the left: the largest branch below a clique stays in its
                lane, so n cliques take at most 1 + log2 n lanes
    parent      position of its parent in ``ModelGraph.nodes``; None where it shares nothing
    own         attributes that its parent does not have, in the order of the clique
    separator   attributes that it shares with its parent
    cells       number of cells of its table
    """

    lane: int
    parent: int | None
    own: tuple[str, ...]
    separator: tuple[str, ...]
    cells: int


@dataclass(frozen=True)
class ModelGraph:
    """The positions of the cliques of a model in a drawing, each below its parent.

    nodes    from top to bottom
    hidden   number of cliques that are not shown: those furthest from a root

    >>> graph = ModelGraph.of(
    ...     {
    ...         "attributes": np.array(["a, b", "b, c", "d"]),
    ...         "cells": np.array([4, 6, 2]),
    ...         "parent": np.array([-1, 0, 0]),
    ...         "separator": np.array(["", "b", ""]),
    ...     },
    ...     most=40,
    ... )
    >>> [(node.own, node.separator, node.parent) for node in graph.nodes]
    [(('a', 'b'), (), None), (('c',), ('b',), 0), (('d',), (), None)]
    """

    nodes: tuple[Node, ...]
    hidden: int

    @classmethod
    def of(cls, cliques: Mapping[str, np.ndarray], *, most: int) -> ModelGraph:
        """Return the graph of the ``most`` cliques nearest to a root.

        cliques   ``SyntheticTable.tables()["cliques"]``: attributes, cells, parent, separator
        """
        names = [_names(text) for text in cliques["attributes"].tolist()]
        shared = [_names(text) for text in cliques["separator"].tolist()]
        # A link between cliques that share no attribute has no meaning.
        parents = [
            parent if parent >= 0 and separator else None
            for parent, separator in zip(cliques["parent"].tolist(), shared, strict=True)
        ]
        children = _children(parents, range(len(parents)))
        nearest_first = list(children[None])
        for clique in nearest_first:
            nearest_first += children.get(clique, [])
        node_of: dict[int, int] = {}
        nodes: list[Node] = []
        for clique, lane in _assign_lanes(parents, nearest_first[:most]):
            parent = parents[clique]
            node_of[clique] = len(nodes)
            nodes.append(
                Node(
                    lane=lane,
                    parent=None if parent is None else node_of[parent],
                    own=tuple(name for name in names[clique] if name not in shared[clique]),
                    separator=shared[clique],
                    cells=int(cliques["cells"][clique]),
                )
            )
        return cls(tuple(nodes), len(names) - len(nodes))

    @property
    def links(self) -> int:
        """The number of shown cliques with a parent."""
        return sum(node.parent is not None for node in self.nodes)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


def _assign_lanes(parents: list[int | None], visible: list[int]) -> list[tuple[int, int]]:
    """Return (clique, lane) of the visible cliques from top to bottom of a drawing; below a clique
    the largest branch stays in its lane.

    parents   parent of each clique, None for a root
    """
    children = _children(parents, visible)
    weight = dict.fromkeys(visible, 1)
    for clique in reversed(visible):
        parent = parents[clique]
        if parent is not None:
            weight[parent] += weight[clique]
    stack = [(root, 0) for root in reversed(children[None])]
    lanes = []
    while stack:
        clique, lane = stack.pop()
        lanes.append((clique, lane))
        branches = sorted(children.get(clique, []), key=lambda child: weight[child])
        # The branch that is pushed last is popped first.
        stack += [(child, lane + (child != branches[-1])) for child in reversed(branches)]
    return lanes


def _children(parents: list[int | None], visible: list[int] | range) -> dict[int | None, list[int]]:
    children: dict[int | None, list[int]] = {None: []}
    for clique in visible:
        children.setdefault(parents[clique], []).append(clique)
    return children


MOST_CLIQUES = 40
"""Cliques of one picture."""

_LINE, _AROUND, _LANE = 0.31, 0.75, 0.2
"""Inches from one clique to the next, for title and footnote, and from lane to lane."""

_LETTERS = 76
"""Letters that fit to the right of the first lane."""


def model_graph(cliques: Mapping[str, np.ndarray], *, title: str) -> Picture:
    """Return the picture of a released table's model, the ``MOST_CLIQUES`` cliques nearest to a
    root, with the attributes that each adds to its parent and those that both have.

    cliques   ``SyntheticTable.tables()["cliques"]``: attributes, cells, parent, separator
    """
    graph = ModelGraph.of(cliques, most=MOST_CLIQUES)
    rows = max(2, len(graph.nodes))
    figure = picture.new_figure(picture.WIDTH, _AROUND + _LINE * rows)
    axes = figure.add_subplot()
    picture.set_title(figure, title)
    if not graph.nodes:
        picture.say_nothing_to_show(axes, "no cliques")
        return Picture(title, figure, _alt_text(cliques))
    axes.set_axis_off()
    axes.set_xlim(-0.08, picture.WIDTH - 0.3)
    axes.set_ylim(rows - 0.4, -0.5)
    for row, node in enumerate(graph.nodes):
        if node.parent is not None:
            above, here = graph.nodes[node.parent].lane * _LANE, node.lane * _LANE
            xs, ys = [above, above, here], [node.parent, row, row]
            axes.plot(xs, ys, color=picture.MUTED, linewidth=1.1, zorder=1)
        _draw_node(axes, node, row)
    footnote = "Bold: what a clique adds to the one that it hangs on. Below: their separator."
    if not graph.links:
        footnote = "No two cliques share an attribute."
    if graph.hidden:
        footnote += f"\n{graph.hidden} more are not shown."
    picture.set_footnote(figure, footnote)
    return Picture(title, figure, _alt_text(cliques))


def _alt_text(cliques: Mapping[str, np.ndarray]) -> str:
    order = np.argsort(-cliques["cells"], kind="stable").tolist()
    names, cells = cliques["attributes"].tolist(), cliques["cells"].tolist()
    words = list_first(f"{names[row]}: {cells[row]:,} cells" for row in order)
    return f"{len(names)} cliques of attributes. {words}"


def _draw_node(axes: Axes, node: Node, row: int) -> None:
    x = node.lane * _LANE
    mark: dict[str, Any] = {"color": picture.COLOURS[0], "markeredgecolor": "white"}
    axes.plot([x], [row], "o", markersize=6, zorder=2, **mark)
    letters = _LETTERS - 4 * node.lane
    texts = [(", ".join(node.own), picture.INK, "bold")]
    if node.separator:
        texts += [(f"shares {', '.join(node.separator)}", picture.MUTED, "normal")]
    style: dict[str, Any] = {"va": "center", "fontsize": 7.5}
    for line, (text, colour, weight) in enumerate(texts):
        y = row - (0.19 if node.separator else 0) + 0.4 * line
        short = picture.shorten_label(text, width=letters)
        axes.text(x + 0.13, y, short, color=colour, fontweight=weight, **style)
    cells = f"{node.cells:,} cells"
    axes.text(picture.WIDTH - 0.3, row, cells, ha="right", color=picture.MUTED, **style)
