"""Mutual consistency: the worked example, the order of the steps, and what all tables agree on."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.encoding import Names
from dp_pipeline.inference.consistency import make_consistent, shared_sets, spread
from dp_pipeline.results.measurement import marginal_of

SIZES = {"a": 2, "b": 3, "c": 2, "d": 1, "e": 2}


@st.composite
def noisy_tables(draw: st.DrawFn) -> dict[Names, np.ndarray]:
    """One to five tables over any of five attributes, cells of any sign."""
    some = st.lists(st.sampled_from(sorted(SIZES)), unique=True, max_size=4).map(tuple)
    cliques = draw(st.lists(some, min_size=1, max_size=5, unique_by=frozenset))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {c: rng.normal(5, 20, [SIZES[name] for name in c]) for c in cliques}


@given(tables=noisy_tables(), seed=st.integers(0, 99))
def test_any_two_tables_agree_and_then_stay_as_they_are(tables: dict[Names, np.ndarray], seed: int):
    variances = dict(zip(tables, np.random.default_rng(seed).exponential(size=5), strict=False))
    for weights in (None, variances):
        agreed = make_consistent(tables, variances=weights)
        for (left, table), (right, other) in itertools.combinations(agreed.items(), 2):
            both = tuple(name for name in left if name in right)
            gap = marginal_of(table, left, both) - marginal_of(other, right, both)
            assert np.abs(gap).max() < 1e-9
        for names, table in make_consistent(agreed, variances=weights).items():
            assert np.allclose(table, agreed[names], atol=1e-9)


def test_the_worked_example_has_its_numbers():
    """Tables over {i, x} and {i, y, z} of binary attributes, whose marginals over i are (4, 5)
    and (6, 7): weights 1/2 and 1/4, so (2·4 + 6)/3 = 4.667 and (2·5 + 7)/3 = 5.667.

    The paper prints 4.33 for the first. That is a misprint: the cells it prints for i = 0,
    1.33 and 3.33, sum to 4.66.
    """
    tables = {
        ("i", "x"): np.array([[1, 3], [2, 3]]),
        ("i", "y", "z"): np.array([[[1, 2], [2, 1]], [[4, 1], [1, 1]]]),
    }
    small, large = make_consistent(tables).values()
    assert small.round(2).tolist() == [[1.33, 3.33], [2.33, 3.33]]
    assert small.sum(axis=1).round(3).tolist() == [4.667, 5.667]
    assert large.sum(axis=(1, 2)).round(3).tolist() == [4.667, 5.667]
    assert large.round(2).tolist() == [[[0.67, 1.67], [1.67, 0.67]], [[3.67, 0.67], [0.67, 0.67]]]


@given(tables=noisy_tables())
def test_shared_sets_are_an_order_of_all_intersections(tables: dict[Names, np.ndarray]):
    expected = {frozenset()}
    for number in range(2, len(tables) + 1):
        for some in itertools.combinations(map(frozenset, tables), number):
            expected.add(frozenset.intersection(*some))
    ordered = shared_sets(tables)
    assert set(ordered) == expected
    assert len(ordered) == len(expected)
    for earlier, later in itertools.combinations(ordered, 2):
        assert not later < earlier


def test_a_table_with_less_noise_counts_for_more():
    tables = {("a",): np.array([0, 0]), ("a", "b"): np.array([[6, 6], [3, 3]])}
    # Marginals have variances 3 · 1 and 1 · 2: two fifths of (0, 0), three fifths of (12, 6).
    agreed = make_consistent(tables, variances={("a",): 3.0, ("a", "b"): 1.0})
    assert agreed[("a",)].tolist() == pytest.approx([7.2, 3.6])
    alike = make_consistent(tables, variances={("a",): 7.0, ("a", "b"): 7.0})
    assert alike[("a",)].tolist() == make_consistent(tables)[("a",)].tolist() == [4, 2]


def test_given_tables_are_left_alone_in_any_order_of_names():
    table = np.array([[1, 2, 3], [4, 5, 6]])
    agreed = make_consistent({("a", "b"): table, ("b", "a"): np.zeros((3, 2))})
    assert table.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.allclose(agreed[("a", "b")], table / 2)
    assert np.allclose(agreed[("a", "b")], agreed[("b", "a")].T)
    assert make_consistent({}) == {}
    assert make_consistent({("a",): np.array([1, 2])})[("a",)].tolist() == [1.0, 2.0]
    counted = make_consistent({(): np.array(3), ("a",): np.array([1, 1])})
    assert counted[("a",)].sum() == pytest.approx((3 + 2 / 2) / (1 + 1 / 2))


def test_a_marginal_has_its_axes_in_the_order_asked():
    table = np.arange(12.0).reshape(2, 3, 2)
    onto = marginal_of(table, ("a", "b", "c"), ("c", "a"))
    assert onto.tolist() == table.sum(axis=1).T.tolist()
    assert marginal_of(table, ("a", "b", "c"), ()).item() == 66
    widened = spread(onto, ("c", "a"), ("a", "b", "c"))
    assert widened.tolist() == table.sum(axis=1, keepdims=True).tolist()
