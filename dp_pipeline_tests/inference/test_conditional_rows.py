"""Rows of a junction tree given some of their attributes."""

import numpy as np

from dp_pipeline.inference.conditional_rows import sample_conditionally
from dp_pipeline.inference.junction_tree import JunctionTree

TREE = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))


def test_conditional_rows_are_as_many_as_expected():
    """Independent draws would be off by about 15 of 1,000 rows."""
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    tables = {("a", "b"): joint.sum(axis=2), ("b", "c"): joint.sum(axis=0)}
    given = rng.permutation(np.repeat([0, 1], 1_000))
    drawn = sample_conditionally(TREE, tables, {"a": given}, rng)
    counts = np.zeros((2, 3, 2))
    np.add.at(counts, (given, drawn["b"], drawn["c"]), 1)
    of_b = tables["a", "b"] / tables["a", "b"].sum(axis=1, keepdims=True)
    of_c = tables["b", "c"] / tables["b", "c"].sum(axis=1, keepdims=True)
    assert np.abs(counts.sum(axis=2) - 1_000 * of_b).max() < 4
    assert np.abs(counts - 1_000 * of_b[..., None] * of_c).max() < 6


def test_rows_beside_each_other_do_not_depend_on_each_other():
    tables = {("a", "b"): np.array([[1.0, 1.0]]), ("b", "c"): np.ones((2, 1))}
    given = np.zeros(20_000, dtype=np.int64)
    drawn = sample_conditionally(TREE, tables, {"a": given}, np.random.default_rng(1))
    first, second = drawn["b"].reshape(-1, 2).T
    # A deviation of 0.005; the order of draws alone would make them differ always.
    assert abs((first == second).mean() - 0.5) < 0.025


def test_drawn_attributes_come_in_one_order_in_every_process():
    names, given = tuple("hgfedcba"), {"h": np.zeros(3, dtype=np.int64)}
    tree, tables = JunctionTree((names,), ()), {names: np.ones((2,) * 8)}
    # A set would be in this order once in 5,040 hash seeds.
    drawn = sample_conditionally(tree, tables, given, np.random.default_rng(1))
    assert list(drawn) == list("abcdefg")
