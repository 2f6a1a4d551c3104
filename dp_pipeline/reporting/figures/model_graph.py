"""The picture of a released table's model: cliques below each other, joined by separators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
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
    parent      position of its parent among the drawn cliques; None where it shares nothing
    own         attributes that its parent does not have, in the order of the clique
    separator   attributes that it shares with its parent
    cells       number of cells of its table
    """

    lane: int
    parent: int | None
    own: tuple[str, ...]
    separator: tuple[str, ...]
    cells: int


def lay_out_cliques(cliques: Mapping[str, np.ndarray], *, most: int) -> list[Node]:
    """Return the ``most`` cliques nearest to a root, from top to bottom, each below its parent.

    cliques   ``SyntheticTable.tables()["cliques"]``: attributes, cells, parent, separator

    >>> table = {
    ...     "attributes": np.array(["a, b", "b, c", "d"]),
    ...     "cells": np.array([4, 6, 2]),
    ...     "parent": np.array([-1, 0, 0]),
    ...     "separator": np.array(["", "b", ""]),
    ... }
    >>> [(node.own, node.separator, node.parent) for node in lay_out_cliques(table, most=40)]
    [(('a', 'b'), (), None), (('c',), ('b',), 0), (('d',), (), None)]
    """
    import networkx as nx

    names = [_names(text) for text in cliques["attributes"].tolist()]
    shared = [_names(text) for text in cliques["separator"].tolist()]
    # A link between cliques that share no attribute has no meaning. All roots hang on −1.
    pairs = zip(cliques["parent"].tolist(), shared, strict=True)
    parents = [parent if separator else -1 for parent, separator in pairs]
    tree = nx.DiGraph(zip(parents, range(len(parents)), strict=True))
    tree.add_node(-1)
    nearest_first = [clique for layer in nx.bfs_layers(tree, -1) for clique in layer]
    tree = tree.subgraph(nearest_first[: most + 1])
    weight = {clique: (len(nx.descendants(tree, clique)), clique) for clique in tree}
    light_first = partial(sorted, key=weight.__getitem__)
    nodes: list[Node] = []
    positions: dict[int, int] = {}
    for root in sorted(tree[-1]):
        for clique in nx.dfs_preorder_nodes(tree, root, sort_neighbors=light_first):
            lane, parent = 0, positions.get(parents[clique])
            if parent is not None:
                lane = nodes[parent].lane + (clique != light_first(tree[parents[clique]])[-1])
            positions[clique] = len(nodes)
            own = tuple(name for name in names[clique] if name not in shared[clique])
            cells = int(cliques["cells"][clique])
            nodes.append(Node(lane, parent, own, shared[clique], cells))
    return nodes


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


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
    nodes = lay_out_cliques(cliques, most=MOST_CLIQUES)
    rows = max(2, len(nodes))
    figure = picture.new_figure(picture.WIDTH, _AROUND + _LINE * rows)
    axes = figure.add_subplot()
    picture.set_title(figure, title)
    if not nodes:
        picture.say_nothing_to_show(axes, "no cliques")
        return Picture(title, figure, _alt_text(cliques))
    axes.set_axis_off()
    axes.set_xlim(-0.08, picture.WIDTH - 0.3)
    axes.set_ylim(rows - 0.4, -0.5)
    for row, node in enumerate(nodes):
        if node.parent is not None:
            above, here = nodes[node.parent].lane * _LANE, node.lane * _LANE
            xs, ys = [above, above, here], [node.parent, row, row]
            axes.plot(xs, ys, color=picture.MUTED, linewidth=1.1, zorder=1)
        _draw_node(axes, node, row)
    footnote = "Bold: what a clique adds to the one that it hangs on. Below: their separator."
    if all(node.parent is None for node in nodes):
        footnote = "No two cliques share an attribute."
    if len(nodes) < len(cliques["cells"]):
        footnote += f"\n{len(cliques['cells']) - len(nodes)} more are not shown."
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
