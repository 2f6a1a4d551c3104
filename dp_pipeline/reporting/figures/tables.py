"""Small multiples of released one-way marginals: one panel an attribute, one line a level.

ModelGraph: the cliques of a released table, laid out one below the other.

The model graph of a released table: cliques below each other, joined by their separators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.reporting.figures import picture
from dp_pipeline.spec.encoding import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LEVELS = 10
"""Levels of one panel that have room for their names."""

_HEIGHT = 1.7
"""Inches of one panel."""

MOST_PANELS = 12
"""Attributes of one picture; of more, a table has more pictures."""

_APART = 0.6
"""Levels' distance is 1: so far apart are the dots of the first and the last model."""

MOST_MARGINAL_BYTES = 100_000
"""Twelve panels are worth a larger picture than one chart is."""

Marginals = Mapping[str, np.ndarray]


def attributes_of(tables: Mapping[str, Marginals]) -> list[str]:
    """Every attribute of some releases, in their order."""
    return list(
        dict.fromkeys(name for one in tables.values() for name in one["attribute"].tolist())
    )


def marginal_bars(tables: Mapping[str, Marginals], *, first: int = 0, title: str) -> bytes:
    """PNG of the one-way marginals of ``MOST_PANELS`` attributes: bars of one release, dots of
    several.

    tables   release → ``SyntheticTable.tables()["marginals"]``: attribute, level, probability
    first    place of the first attribute that is shown

    An attribute with many levels shows its largest; one with many levels that have an order shows
    all in that order, and names some.
    """
    every = attributes_of(tables)
    shown = every[first : first + MOST_PANELS]
    names = list(tables) if len(tables) > 1 else []
    figure, panels = picture.new_panels(len(shown), inches=_HEIGHT, title=title, names=names)
    for panel, name in zip(panels, shown, strict=True):
        _draw(panel, name, [_shares(one, name) for one in tables.values()])
    picture.set_footnote(figure, _marginal_footnote(first, len(shown), len(every)))
    return picture.png(figure, most=MOST_MARGINAL_BYTES)


def _shares(marginals: Marginals, name: str) -> dict[str, float]:
    """Level → share; none for an attribute that is not in the release."""
    here = marginals["attribute"] == name
    levels, shares = marginals["level"][here], marginals["probability"][here]
    return dict(zip(levels.tolist(), shares.tolist(), strict=True))


def _draw(axes: Axes, name: str, releases: Sequence[Mapping[str, float]]) -> None:
    levels = list(next(shares for shares in releases if shares))
    values = np.array([[shares.get(level, np.nan) for level in levels] for shares in releases])
    kept = _kept(levels, values)
    places = np.arange(len(kept))
    if len(releases) == 1:
        axes.barh(places, values[0, kept], height=0.78, color=picture.COLOURS[0])
    else:
        _draw_dots(axes, values[:, kept])
    named = places[:: math.ceil(len(kept) / MOST_LEVELS)]
    labels = [picture.plain(levels[kept[place]], width=19) for place in named]
    axes.set_yticks(named, labels)
    axes.set_ylim(len(kept) - 0.4, -0.6)
    axes.set_xlim(left=0)
    heading = picture.plain(name, width=24)
    if len(kept) < len(levels):
        heading = f"{picture.plain(name, width=18)}, top {len(kept)}"
    axes.set_title(heading, loc="left", fontsize=9, color=picture.INK, pad=5)
    _quiet_panel(axes)


def _kept(levels: Sequence[str], values: FloatArray) -> np.ndarray:
    """Places of the levels that are drawn: all that have an order, else the largest ones."""
    if len(levels) <= MOST_LEVELS or has_order(levels):
        return np.arange(len(levels))
    return np.argsort(-np.nanmean(values, axis=0), kind="stable")[:MOST_LEVELS]


_UNORDERED = 2
"""Levels beside those of an order: a missing value, and all other texts."""

_IN_ORDER = re.compile(r"\[|[-+]?\d")
"""How a bin, a number or a date begins."""


def has_order(levels: Sequence[str]) -> bool:
    """Whether levels are bins, numbers or dates, but for a missing value and ``other``.

    >>> has_order(["[0, 5)", "[5, 9]", "missing"]), has_order(["1", "2"]), has_order(["red", "1"])
    (True, True, False)
    """
    apart = sum(_IN_ORDER.match(level) is None for level in levels)
    return apart <= min(_UNORDERED, (len(levels) - 1) // 2)


def _draw_dots(axes: Axes, values: FloatArray) -> None:
    """One dot a release and level; releases step aside, for their dots would hide each other."""
    steps = np.linspace(-_APART / 2, _APART / 2, len(values))
    for at, (shares, step) in enumerate(zip(values, steps, strict=True)):
        axes.plot(
            shares,
            np.arange(len(shares)) + step,
            picture.MARKERS[at % len(picture.MARKERS)],
            color=picture.COLOURS[at % len(picture.COLOURS)],
            markersize=3.6,
            markeredgewidth=0,
            clip_on=False,
        )


def _quiet_panel(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    picture.quiet(axes)
    axes.tick_params(axis="both", labelsize=7.5)
    axes.tick_params(axis="y", length=0, labelcolor=picture.INK)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))
    axes.grid(axis="x", color=picture.RULE, linewidth=0.6)
    axes.spines["left"].set_visible(False)


def _marginal_footnote(first: int, shown: int, every: int) -> str:
    text = "Share of the released rows."
    if shown == every:
        return text
    return f"{text} Attributes {first + 1} to {first + shown} of {every}."


@dataclass(frozen=True)
class Node:
    """One clique.

    lane        column, 0 at the left: the heaviest branch below a clique stays in its lane, so
                n cliques take at most 1 + log2 n lanes
    parent      place of the node it hangs on in ``ModelGraph.nodes``; None where it shares nothing
    own         attributes that its parent does not have, in its order
    separator   attributes that it shares with its parent
    """

    lane: int
    parent: int | None
    own: tuple[str, ...]
    separator: tuple[str, ...]
    cells: int


@dataclass(frozen=True)
class ModelGraph:
    """The first cliques of a table, every one below the one that it hangs on.

    nodes    in the order in which they stand below each other
    hidden   cliques that are not shown: those furthest from a root

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
        """The graph of ``SyntheticTable.tables()["cliques"]``."""
        names = [_names(text) for text in cliques["attributes"].tolist()]
        shared = [_names(text) for text in cliques["separator"].tolist()]
        # A link between cliques that share nothing says nothing.
        parents = [
            parent if parent >= 0 and separator else None
            for parent, separator in zip(cliques["parent"].tolist(), shared, strict=True)
        ]
        shown = _nearest(parents, most)
        place: dict[int, int] = {}
        nodes: list[Node] = []
        for at, lane in _laid_out(parents, shown):
            parent = parents[at]
            place[at] = len(nodes)
            nodes.append(
                Node(
                    lane=lane,
                    parent=None if parent is None else place[parent],
                    own=tuple(name for name in names[at] if name not in shared[at]),
                    separator=shared[at],
                    cells=int(cliques["cells"][at]),
                )
            )
        return cls(tuple(nodes), len(names) - len(nodes))

    @property
    def links(self) -> int:
        """How many cliques hang on another one."""
        return sum(node.parent is not None for node in self.nodes)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


def _nearest(parents: list[int | None], most: int) -> list[int]:
    """The ``most`` places nearest to a root, parents first."""
    children = _children(parents, range(len(parents)))
    order = list(children[None])
    for at in order:
        order += children.get(at, [])
    return order[:most]


def _laid_out(parents: list[int | None], shown: list[int]) -> list[tuple[int, int]]:
    """(place, lane) of every clique from above; below each the lighter branches come first, one
    lane to the right, and the heaviest comes last, in the same lane.
    """
    children = _children(parents, shown)
    weight = dict.fromkeys(shown, 1)
    for at in reversed(shown):
        parent = parents[at]
        if parent is not None:
            weight[parent] += weight[at]
    waiting = [(root, 0) for root in reversed(children[None])]
    found = []
    while waiting:
        at, lane = waiting.pop()
        found.append((at, lane))
        branches = sorted(children.get(at, []), key=lambda child: weight[child])
        # The last one put there is the first one taken.
        for child in reversed(branches):
            waiting.append((child, lane + (child != branches[-1])))
    return found


def _children(parents: list[int | None], shown: list[int] | range) -> dict[int | None, list[int]]:
    children: dict[int | None, list[int]] = {None: []}
    for at in shown:
        children.setdefault(parents[at], []).append(at)
    return children


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
    figure = picture.new_figure(picture.WIDTH, _AROUND + _LINE * rows)
    axes = figure.add_subplot()
    picture.set_title(figure, title)
    if not graph.nodes:
        picture.say_nothing_to_show(axes, "no cliques")
        return picture.png(figure)
    axes.set_axis_off()
    axes.set_xlim(-0.08, picture.WIDTH - 0.3)
    axes.set_ylim(rows - 0.4, -0.5)
    for at, node in enumerate(graph.nodes):
        _draw_link(axes, graph, at)
        _draw_node(axes, node, at)
    picture.set_footnote(figure, _graph_footnote(graph))
    return picture.png(figure, most=MOST_GRAPH_BYTES)


def _draw_link(axes: Axes, graph: ModelGraph, at: int) -> None:
    node = graph.nodes[at]
    if node.parent is None:
        return
    above, here = graph.nodes[node.parent].lane * _LANE, node.lane * _LANE
    axes.plot(
        [above, above, here], [node.parent, at, at], color=picture.MUTED, linewidth=1.1, zorder=1
    )


def _draw_node(axes: Axes, node: Node, at: int) -> None:
    x = node.lane * _LANE
    axes.plot(
        [x], [at], "o", color=picture.COLOURS[0], markersize=6, markeredgecolor="white", zorder=2
    )
    room = _LETTERS - 4 * node.lane
    texts = [(", ".join(node.own), picture.INK, "bold")]
    if node.separator:
        texts = [*texts, (f"shares {', '.join(node.separator)}", picture.MUTED, "normal")]
    for line, (text, colour, weight) in enumerate(texts):
        axes.text(
            x + 0.13,
            at - (0.19 if node.separator else 0) + 0.4 * line,
            picture.plain(text, width=room),
            va="center",
            fontsize=7.5,
            color=colour,
            fontweight=weight,
        )
    cells = f"{node.cells:,} cells"
    axes.text(
        picture.WIDTH - 0.3, at, cells, ha="right", va="center", fontsize=7.5, color=picture.MUTED
    )


def _graph_footnote(graph: ModelGraph) -> str:
    text = "Bold: what a clique adds to the one that it hangs on. Below: their separator."
    if not graph.links:
        text = "No two cliques share an attribute."
    return text if not graph.hidden else f"{text}\n{graph.hidden} more are not shown."
