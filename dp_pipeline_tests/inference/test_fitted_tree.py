"""FittedTree: what a fitted distribution predicts is what all its cells together say."""

from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.inference.fitted_tree import FittedTree
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.results.measurement import NoisyMarginal

SIZES = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}
TREES = {
    "a chain": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")),
    "a star": (("a", "c"), ("b", "c"), ("c", "d"), ("c", "e")),
    "larger cliques": (("a", "b", "d"), ("b", "c", "d"), ("d", "e")),
    "parts": (("b", "e"), ("a", "d"), ("c",)),
    "one clique": (("a", "b", "c", "d", "e"),),
}
every_tree = pytest.mark.parametrize("cliques", TREES.values(), ids=TREES.keys())


def drawn(cliques: tuple[tuple[str, ...], ...], *, seed: int, spread: float = 1.0) -> FittedTree:
    """A distribution of random potentials, of 100 rows."""
    tree = JunctionTree.of(cliques, SIZES)
    model = GraphicalModel(tree, SIZES)
    rng = np.random.default_rng(seed)
    potentials = [spread * rng.normal(size=node.shape) for node in model.nodes]
    return FittedTree(tree, model, tuple(model.marginals(potentials)[0]), 100.0)


def joint(fitted: FittedTree) -> FloatArray:
    """Rows in every cell over all attributes: the product of P(clique | separator)."""
    axes = {name: at for at, name in enumerate(SIZES)}
    factors = []
    for node, table in zip(fitted.model.nodes, fitted.tables, strict=True):
        rest = tuple(range(node.separator, table.ndim))
        given = table / (table.sum(axis=rest, keepdims=True) if node.separator else 1.0)
        order = sorted(range(table.ndim), key=lambda at, n=node.names: axes[n[at]])
        shape = [SIZES[name] if name in node.names else 1 for name in SIZES]
        factors.append(given.transpose(order).reshape(shape))
    return fitted.rows * reduce(np.multiply, factors)


def marginal(table: FloatArray, names: tuple[str, ...]) -> FloatArray:
    return table.sum(axis=tuple(at for at, name in enumerate(SIZES) if name not in names))


@every_tree
@pytest.mark.parametrize("seed", range(5))
def test_every_pair_is_predicted_exactly(cliques: tuple[tuple[str, ...], ...], seed: int):
    fitted = drawn(cliques, seed=seed)
    whole = joint(fitted)
    assert np.isclose(whole.sum(), 100)
    for pair in combinations(SIZES, 2):
        assert np.allclose(fitted.predict_counts(pair), marginal(whole, pair), atol=1e-9)


@every_tree
def test_three_attributes_are_predicted_nearly(cliques: tuple[tuple[str, ...], ...]):
    fitted = drawn(cliques, seed=1)
    whole = joint(fitted)
    for names in combinations(SIZES, 3):
        held = any(set(names) <= set(clique) for clique in cliques)
        predicted = fitted.predict_counts(names)
        # 65,536 independent rows would be off by less than 100 · 5 · ½/256 with probability
        # above 1 − 10^-5 a table; rows of a tree are drawn with less noise.
        assert np.abs(predicted - marginal(whole, names)).max() < (1e-9 if held else 1.0)
        assert (predicted == drawn(cliques, seed=1).predict_counts(names)).all()


def test_a_level_that_nobody_has_is_predicted_to_stay_so():
    # Potentials of ±2000 leave cells without any probability.
    fitted = drawn(TREES["a chain"], seed=2, spread=2000.0)
    for pair in combinations(SIZES, 2):
        assert np.isfinite(fitted.predict_counts(pair)).all()
        assert np.isclose(fitted.predict_counts(pair).sum(), 100)


def test_tables_without_noise_are_predicted_and_drawn():
    measured = [
        NoisyMarginal(("a", "b"), np.array([[30, 10], [0, 20]]), Fraction(1, 100)),
        NoisyMarginal(("b", "c"), np.array([[15, 15], [30, 0]]), Fraction(1, 100)),
    ]
    sizes = dict.fromkeys("abc", 2)
    fitted = FittedTree.of((("a", "b"), ("b", "c")), measured, sizes, iterations=1000)
    assert round(fitted.rows) == 60
    for table in measured:
        assert np.allclose(fitted.predict_counts(table.attributes), table.table, atol=0.1)
    codes = fitted.draw_codes(60, np.random.default_rng(0))
    counts = np.zeros((2, 2), dtype=np.int64)
    np.add.at(counts, (codes[:, 0], codes[:, 1]), 1)
    assert np.abs(counts - measured[0].table).max() <= 1


def test_a_table_below_nothing_is_a_distribution_of_one_row():
    measured = [NoisyMarginal(("a", "b"), np.full((2, 2), -5), Fraction(1))]
    fitted = FittedTree.of((("a", "b"),), measured, {"a": 2, "b": 2}, iterations=100)
    assert fitted.rows == 1
    assert np.isclose(fitted.predict_counts(("a", "b")).sum(), 1)
