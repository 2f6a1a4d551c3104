"""Rows of a network: as the tables say, group by group, and nothing else."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.clique_join import Conditional, sample_network

SIZES = {"c": 3, "a": 2, "b": 2}
A = Conditional("a", (), np.array([3.0, 1.0]))
B = Conditional("b", ("a",), np.array([[1.0, 1.0], [0.0, 5.0]]))
C = Conditional("c", ("b", "a"), np.ones((2, 2, 3)))


def drawn(network: list[Conditional], rows: int, seed: int = 0) -> np.ndarray:
    return sample_network(network, rows, np.random.default_rng(seed), SIZES)


def test_columns_are_in_order_and_counts_are_as_tables_say():
    codes = drawn([A, B, C], 24)
    table = np.zeros((3, 2, 2), dtype=int)
    np.add.at(table, tuple(codes.T), 1)
    # 18 and 6 of a; b halves the 18 and takes all 6; c has thirds of 9, 9 and 6.
    assert table.tolist() == [[[3, 3], [0, 2]]] * 3


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), rows=st.integers(0, 400))
def test_in_every_group_a_level_has_its_share(seed: int, rows: int):
    rng = np.random.default_rng(seed)
    pair, triple = rng.random((2, 2)), rng.random((2, 2, 3))
    network = [
        Conditional("a", (), rng.random(2)),
        Conditional("b", ("a",), pair),
        Conditional("c", ("a", "b"), triple),
    ]
    codes = drawn(network, rows, seed)
    assert codes.shape == (rows, 3)
    for a, b in np.ndindex(2, 2):
        group = codes[(codes[:, 1] == a) & (codes[:, 2] == b), 0]
        expected = len(group) * triple[a, b] / triple[a, b].sum()
        assert (np.abs(np.bincount(group, minlength=3) - expected) < 1 + 1e-9).all()


def test_a_slice_of_nothing_is_drawn_from_the_whole_table():
    nothing = Conditional("b", ("a",), np.array([[0.0, 0.0], [1.0, 3.0]]))
    codes = drawn([A, nothing, C], 400)
    assert np.bincount(codes[codes[:, 1] == 0, 2]).tolist() == [75, 225]
    codes = drawn([Conditional("a", (), np.zeros(2)), B, C], 400)
    assert np.bincount(codes[:, 1]).tolist() == [200, 200]


def test_given_their_parents_children_are_independent():
    # b and c halve 20,000 rows each: 5,000 have both, deviation 35; 7 of them in 10^-11.
    half = Conditional("b", (), np.ones(2))
    other = Conditional("c", (), np.array([1.0, 1.0, 0.0]))
    codes = drawn([A, half, other], 20_000)
    assert abs(int(((codes[:, 2] == 1) & (codes[:, 0] == 1)).sum()) - 5000) < 250


def test_rows_have_no_order_but_that_of_the_seed():
    # The first half of 10,000 rows has half of a's 2,500: deviation 22; 7 of them in 10^-11.
    codes = drawn([A, B, C], 10_000)
    assert abs(int(codes[:5000, 1].sum()) - 1250) < 150
    assert (codes == drawn([A, B, C], 10_000)).all()
    assert (codes != drawn([A, B, C], 10_000, seed=1)).any()
