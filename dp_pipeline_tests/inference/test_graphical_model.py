"""Inference over a junction tree: what writing down every cell gives, however large the numbers."""

import numpy as np
import pytest
from hypothesis import given

from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline_tests.results.small_models import Small, small_models, summed


@given(small=small_models())
def test_marginals_are_those_of_the_full_joint_table(small: Small):
    tables, log_total = small.model.marginals(small.potentials)
    expected, expected_total = small.marginals()
    assert log_total == pytest.approx(expected_total, rel=1e-12, abs=1e-9)
    for table, other, node in zip(tables, expected, small.model.nodes, strict=True):
        assert table.shape == node.shape
        assert np.allclose(table, other, atol=1e-9)


def chain(length: int, size: int = 2) -> GraphicalModel:
    """Pairs of neighbours along a line of attributes."""
    names = [f"x{at}" for at in range(length + 1)]
    cliques = tuple((names[at], names[at + 1]) for at in range(length))
    links = tuple((at, at + 1) for at in range(length - 1))
    return GraphicalModel(JunctionTree(cliques, links), dict.fromkeys(names, size))


@pytest.mark.parametrize("potential", [-1000.0, 1000.0])
def test_a_thousand_huge_potentials_do_not_overflow(potential: float):
    model = chain(1000)
    tables, log_total = model.marginals([np.full(node.shape, potential) for node in model.nodes])
    assert log_total == pytest.approx(1000 * potential + 1001 * np.log(2))
    assert all(np.allclose(table, 0.25) for table in tables)


def test_what_is_impossible_stays_so_down_the_tree():
    first = np.array([[0.0, 0.0], [-1000.0, -1000.0]])
    same = np.array([[0.0, -1000.0], [-1000.0, 0.0]])
    potentials = [first, same, same.copy()]
    tables, _ = chain(3).marginals(potentials)
    assert tables[0].tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert np.allclose(tables[2], [[0.5, 0.0], [0.0, 0.5]])
    assert (potentials[1] == potentials[2]).all(), "potentials were changed"
    assert [table.min() for table in potentials] == [-1000.0] * 3


@given(small=small_models(spread=(1.0,)))
def test_tables_by_clique_have_the_axes_of_the_clique(small: Small):
    tables, _ = small.model.marginals(small.potentials)
    by_clique = small.model.by_clique(tables)
    assert list(by_clique) == [small.tree.cliques[at] for at in small.tree.order]
    for (clique, table), node, own in zip(
        by_clique.items(), small.model.nodes, tables, strict=True
    ):
        assert np.array_equal(table, summed(own, node.names, clique))


@given(small=small_models(spread=(1.0,)))
def test_the_home_of_attributes_is_a_smallest_clique(small: Small):
    model = small.model
    assert model.cells == sum(table.size for table in model.zeros())
    for node in model.nodes:
        for names in (node.names, node.names[:1], ()):
            home = model.nodes[model.smallest_node_with(names)]
            assert set(names) <= set(home.names)
            sizes = [np.prod(n.shape) for n in model.nodes if set(names) <= set(n.names)]
            assert np.prod(home.shape) == min(sizes)
    with pytest.raises(ValueError, match="empty"):
        chain(2).smallest_node_with(("x0", "x2"))
