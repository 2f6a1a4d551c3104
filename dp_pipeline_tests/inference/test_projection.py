"""From clique tables to marginals and back: sums over axes, and the transpose of that map."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.graphical_model import GraphicalModel, Projection
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline_tests.results.small_models import Small, covered_tables, small_models, summed


@given(small=small_models(spread=(1.0,)), data=st.data(), seed=st.integers(0, 99))
def test_backward_is_the_transpose_of_forward(small: Small, data: st.DataObject, seed: int):
    names = data.draw(covered_tables(small.model))
    projection = Projection(small.model, names)
    forward, expected = projection.forward(small.potentials), []
    for wanted in names:
        home = small.model.smallest_node_with(wanted)
        clique = small.potentials[home]
        expected.append(summed(clique, small.model.nodes[home].names, wanted).ravel())
    assert np.allclose(forward, np.concatenate(expected), atol=1e-12)
    cells = np.random.default_rng(seed).normal(size=forward.shape)
    backward = projection.backward(cells)
    assert [table.shape for table in backward] == [node.shape for node in small.model.nodes]
    along = sum(float((a * b).sum()) for a, b in zip(small.potentials, backward, strict=True))
    assert forward @ cells == pytest.approx(along, abs=1e-9)


def test_all_pairs_of_a_large_clique_are_sums_of_it():
    names = tuple(f"x{at}" for at in range(12))
    model = GraphicalModel(JunctionTree((names,), ()), dict.fromkeys(names, 2))
    table = np.random.default_rng(1).random((2,) * 12)
    pairs = [*combinations(names, 2), *combinations(names[::-1], 2)]
    cells = Projection(model, pairs).forward([table]).reshape(-1, 2, 2)
    for pair, got in zip(pairs, cells, strict=True):
        assert np.allclose(got, summed(table, names, pair))


def test_no_marginals_are_no_cells():
    model = GraphicalModel(JunctionTree((("a",), ("b",)), ((0, 1),)), {"a": 3, "b": 2})
    projection = Projection(model, [])
    assert projection.forward([np.ones(3), np.ones(2)]).shape == (0,)
    assert projection.backward(np.zeros(0))[0].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="empty"):
        Projection(model, [("a", "b")])
