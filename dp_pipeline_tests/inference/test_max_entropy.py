"""Maximum entropy: what the views say is kept, and nothing is added to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.views import max_entropy
from dp_pipeline.results.measurement import marginal_of

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 1}
NAMES = tuple(SIZES)
some_names = st.lists(st.sampled_from(NAMES), unique=True, max_size=4).map(tuple)


def views_of(truth: np.ndarray, *names: tuple[str, ...]) -> dict[tuple[str, ...], np.ndarray]:
    return {some: marginal_of(truth, NAMES, some) for some in names}


def some_truth(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).exponential(10.0, [*SIZES.values()]) + 1.0


@given(
    asked=some_names,
    views=st.lists(some_names, min_size=1, max_size=4, unique_by=frozenset),
    seed=st.integers(0, 99),
)
def test_the_marginal_fits_every_view(asked, views, seed: int):
    given_views = views_of(some_truth(seed), *views)
    table = max_entropy(asked, given_views, SIZES)
    assert table.shape == tuple(SIZES[name] for name in asked)
    assert (table >= 0).all()
    for names, view in given_views.items():
        both = tuple(name for name in asked if name in names)
        expected = marginal_of(view, names, both)
        assert np.allclose(marginal_of(table, asked, both), expected, atol=1e-6 * view.sum())


def test_the_ends_of_a_chain_are_independent_given_its_middle():
    truth = some_truth(3)
    table = max_entropy(("a", "b", "c"), views_of(truth, ("a", "b"), ("b", "c")), SIZES)
    left, right = marginal_of(truth, NAMES, ("a", "b")), marginal_of(truth, NAMES, ("b", "c"))
    assert np.allclose(table, left[:, :, None] * right[None] / right.sum(axis=1)[None, :, None])


def test_around_a_triangle_no_table_that_fits_has_more_entropy():
    """Moving along the one direction that keeps all pairs of three binary attributes."""
    views = views_of(some_truth(4), ("a", "c"), ("c", "d"), ("a", "d"))
    table = max_entropy(("a", "c", "d"), views, SIZES)
    direction = np.multiply.outer(np.outer([1.0, -1.0], [1.0, -1.0]), [1.0, -1.0])
    entropies = [
        -float((cells * np.log(cells)).sum())
        for cells in (table + step * direction for step in (0, 0.1, 1.0, -0.1, -1.0))
    ]
    assert max(entropies[1:]) < entropies[0]


def test_attributes_that_no_view_has_together_are_independent():
    truth = some_truth(5)
    table = max_entropy(("c", "a"), views_of(truth, ("a", "b"), ("c", "d")), SIZES)
    ways = [marginal_of(truth, NAMES, (name,)) for name in ("c", "a")]
    assert np.allclose(table, np.outer(*ways) / truth.sum())
    assert max_entropy(("a", "b"), {}, SIZES).tolist() == [[1 / 6] * 3] * 2
    views = {("a",): np.array([2.0, 6.0])}
    assert max_entropy(("a", "d"), views, SIZES).tolist() == [[1, 1], [3, 3]]
    assert max_entropy(("d",), views, SIZES).tolist() == [4, 4]
    assert max_entropy((), views, SIZES).item() == pytest.approx(8)


def test_views_of_nothing_give_nothing():
    views = {("a", "c"): np.zeros((2, 2)), ("c", "d"): np.zeros((2, 2))}
    assert not max_entropy(("a", "d"), views, SIZES).any()
    views = {("a", "c"): np.diag([3.0, 5.0]), ("c", "d"): np.diag([3.0, 5.0])}
    assert np.allclose(max_entropy(("a", "c", "d"), views, SIZES)[[0, 1], [0, 1], [0, 1]], [3, 5])


def test_views_that_disagree_end_too():
    views = {
        ("a", "c"): np.array([[8.0, 0.0], [0.0, 1.0]]),
        ("c", "d"): np.array([[0.0, 2.0], [9.0, 0.0]]),
        ("a", "d"): np.array([[0.0, 0.0], [4.0, 4.0]]),
    }
    table = max_entropy(("a", "c", "d"), views, SIZES)
    assert np.isfinite(table).all()
    assert (table >= 0).all()
