"""Quadtrees whose splits are drawn."""

import numpy as np
from hypothesis import strategies as st

from dp_pipeline.results.trees import Nodes


@st.composite
def grown_trees(draw: st.DrawFn) -> tuple[int, Nodes]:
    """Dimensions, and the leaves of a tree whose splits are drawn."""
    dimensions = draw(st.integers(1, 3))
    live, leaves = Nodes.root(), []
    for _ in range(draw(st.integers(0, 3))):
        splits = np.array([draw(st.booleans()) for _ in range(len(live))], dtype=bool)
        leaves.append(live.where(~splits))
        live = live.where(splits).children(dimensions)
    return dimensions, Nodes.concatenate([*leaves, live])
