"""Every question that a curator answers, as strategies: people, persons and questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.evaluation import whole_parts
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.gate.scores import Gap, Independence, Score
from dp_pipeline.release.quadtree import Nodes
from dp_pipeline_tests.populations import TOWN

Question = Callable[..., object]
"""``question(curator, epsilon=…)``"""

ONE = Fraction(1)

people = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.1, 3.9, 4.0, 8.0]) | st.floats(0, 8),
        st.sampled_from([-1.0, -0.5, 0.0, 1.0]) | st.floats(-1, 1),
        st.sampled_from(["red", "green", "blue"]),
        st.sampled_from(["no", "yes"]),
    ),
    max_size=6,
)
"""Rows: nobody, duplicates, people on the edges of cells and of the box."""

axes = st.sampled_from([("x",), ("y",), ("x", "y"), ("y", "x")])
PAIRS = [("colour", "smokes"), ("smokes", "y"), ("y", "colour")]


@st.composite
def trees(draw: st.DrawFn, *, dimensions: int, depth: int) -> Nodes:
    """Some leaves of a tree whose splits are drawn."""
    live, leaves = Nodes.root(), []
    for _ in range(draw(st.integers(0, depth))):
        splits = np.array(draw(st.lists(st.booleans(), min_size=len(live), max_size=len(live))))
        leaves.append(live.where(~splits.astype(bool)))
        live = live.where(splits.astype(bool)).children(dimensions)
    grown = Nodes.joined([*leaves, live])
    kept = draw(st.lists(st.booleans(), min_size=len(grown), max_size=len(grown)))
    return grown.where(np.array(kept, dtype=bool))


@st.composite
def marginals(draw: st.DrawFn) -> Question:
    names = draw(st.sampled_from([(), ("colour",), ("y", "colour"), ("smokes", "colour", "y")]))
    return lambda curator, epsilon=ONE: curator.measure(names, epsilon=epsilon)


@st.composite
def grids(draw: st.DrawFn) -> Question:
    columns, cells = draw(axes), draw(st.integers(1, 5))
    return lambda curator, epsilon=ONE: curator.measure_grid(columns, cells=cells, epsilon=epsilon)


@st.composite
def nodes(draw: st.DrawFn) -> Question:
    columns = draw(axes)
    depth = draw(st.integers(0, 2))
    grown = draw(trees(dimensions=len(columns), depth=depth))
    return lambda curator, epsilon=ONE: curator.measure_nodes(
        columns, grown, depth=depth, epsilon=epsilon
    )


@st.composite
def scores(draw: st.DrawFn, pair: tuple[str, ...]) -> Score:
    if draw(st.booleans()):
        return Independence()
    size = TOWN.cell_count(pair)
    expected = draw(st.lists(st.integers(0, 1 << 18), min_size=size, max_size=size))
    return Gap(np.array(expected).reshape(TOWN.shape(pair)))


@st.composite
def choices(draw: st.DrawFn) -> Question:
    chosen = draw(st.lists(st.sampled_from(PAIRS), min_size=1, unique=True))
    candidates: Mapping[tuple[str, ...], Score] = {pair: draw(scores(pair)) for pair in chosen}
    return lambda curator, epsilon=ONE: curator.choose("edge", candidates, epsilon=epsilon)


@st.composite
def distances(draw: st.DrawFn) -> Question:
    columns = draw(axes)
    places = st.tuples(*[st.integers(-(1 << 16), 1 << 16) for _ in columns])
    centres = tuple(draw(st.lists(places, min_size=1, max_size=3)))
    weights = tuple(draw(st.integers(1, 1024)) for _ in columns)
    clip = draw(st.integers(1, 1 << 53) | st.integers(1, 1 << 20))
    shift = draw(st.integers(0, clip.bit_length() - 1))
    rule = NearestCentre(columns, centres, weights)
    return lambda curator, epsilon=ONE: curator.measure_distance(
        rule, clip=clip, shift=shift, epsilon=epsilon
    )


@st.composite
def errors(draw: st.DrawFn) -> Question:
    released = {}
    for pair in draw(st.lists(st.sampled_from(PAIRS), min_size=1, unique=True)):
        size = TOWN.cell_count(pair)
        weights = np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), float)
        shares = weights / weights.sum() if weights.any() else np.eye(1, size)[0]
        released[pair] = whole_parts(shares).reshape(TOWN.shape(pair))
    return lambda curator, epsilon=ONE: curator.measure_marginal_error(released, epsilon=epsilon)


QUESTIONS: dict[str, st.SearchStrategy[Question]] = {
    "measure": marginals(),
    "grid": grids(),
    "nodes": nodes(),
    "choose": choices(),
    "distance": distances(),
    "marginal error": errors(),
}


def example_questions() -> dict[str, Callable[[Curator], object]]:
    """One written question of every kind, at ε = 1."""
    rule = NearestCentre(("x", "y"), ((0, 0), (1 << 15, -(1 << 16))), (1024, 256))
    even = whole_parts(np.full((3, 2), 1 / 6))
    pairs = {pair: Independence() for pair in PAIRS}
    return {
        "rows": lambda one: one.measure((), epsilon=ONE),
        "measure": lambda one: one.measure(("colour", "smokes"), epsilon=ONE),
        "grid": lambda one: one.measure_grid(("x", "y"), cells=3, epsilon=ONE),
        "nodes": lambda one: one.measure_nodes(
            ("x", "y"), Nodes.root().children(2), depth=1, epsilon=ONE
        ),
        "choose": lambda one: one.choose("edge", pairs, epsilon=ONE),
        "distance": lambda one: one.measure_distance(rule, clip=1 << 40, shift=20, epsilon=ONE),
        "marginal error": lambda one: one.measure_marginal_error(
            {("colour", "smokes"): even}, epsilon=ONE
        ),
    }
