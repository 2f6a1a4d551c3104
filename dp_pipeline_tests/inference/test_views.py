"""Views: designs that cover all pairs, the answer of largest entropy, and networks of rows."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.clique_join import sample_network
from dp_pipeline.inference.junction_tree import cell_count
from dp_pipeline.inference.views import covering_design, max_entropy, view_network, view_tables
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of


def bits(many: int) -> dict[str, int]:
    return {f"x{at}": 2 for at in range(many)}


sizes_of = st.lists(st.integers(1, 50), min_size=1, max_size=12).map(
    lambda sizes: {f"x{at}": size for at, size in enumerate(sizes)}
)


@given(sizes=sizes_of, cells=st.integers(1, 2000), many=st.integers(2, 12))
def test_every_pair_is_in_a_view_of_few_cells(sizes: dict[str, int], cells: int, many: int):
    views = covering_design(sizes, most_cells=cells, most_attributes=many)
    held = {pair for view in views for pair in combinations(view, 2)}
    assert held == set(combinations(sizes, 2))
    assert {name for view in views for name in view} == set(sizes)
    for view in views:
        assert len(view) <= many
        assert len(view) <= 2 or cell_count(view, sizes) <= cells


@pytest.mark.parametrize(
    ("many", "size", "views"), [(8, 8, 1), (9, 8, 3), (16, 8, 6), (12, 6, 6), (6, 2, 15)]
)
def test_small_designs_are_the_best_ones_known(many: int, size: int, views: int):
    design = covering_design(bits(many), most_cells=1 << many, most_attributes=size)
    assert len(design) == views


def test_a_wide_design_is_near_the_least_that_there_could_be():
    # Schönheim: ⌈86/8 · ⌈85/7⌉⌉ = 140 views at least.
    assert 140 <= len(covering_design(bits(86), most_cells=256, most_attributes=86)) <= 190
    assert covering_design({"a": 99}, most_cells=4, most_attributes=2) == (("a",),)


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


VIEW_SIZES = {"a": 2, "b": 3, "c": 2, "d": 1}
VIEWS = (("a", "b", "c"), ("b", "d"), ("a", "c", "d"))
SHAPES = [tuple(VIEW_SIZES[name] for name in view) for view in VIEWS]


@st.composite
def noisy_views(draw: st.DrawFn) -> list[NoisyMarginal]:
    scale = Fraction(draw(st.integers(1, 1000)))
    tables = []
    for view, shape in zip(VIEWS, SHAPES, strict=True):
        many = int(np.prod(shape))
        cells = draw(st.lists(st.integers(-5000, 5000), min_size=many, max_size=many))
        tables.append(NoisyMarginal(view, np.array(cells).reshape(shape), scale))
    return tables


def exact_views(rng: np.random.Generator) -> list[NoisyMarginal]:
    whole = rng.integers(0, 50, tuple(VIEW_SIZES.values()))
    return [
        NoisyMarginal(
            view, marginal_of(whole, tuple(VIEW_SIZES), view).astype(np.int64), Fraction(1, 9)
        )
        for view in VIEWS
    ]


def test_rows_of_a_network_with_room_for_a_view_have_its_table():
    for seed in range(5):
        tables = view_tables(exact_views(np.random.default_rng(seed)))
        network = view_network(tables, VIEW_SIZES, most_cells=12)
        rows = round(tables["b", "d"].sum())
        codes = sample_network(network, rows, np.random.default_rng(1), VIEW_SIZES)
        for pair in combinations(VIEW_SIZES, 2):
            view = next(view for view in VIEWS if {*pair} <= {*view})
            expected = marginal_of(tables[view], view, pair)
            counts = np.zeros(expected.shape)
            np.add.at(counts, tuple(codes[:, list(VIEW_SIZES).index(name)] for name in pair), 1)
            assert np.abs(counts - expected).max() < 6


@settings(max_examples=30)
@given(noisy_views(), st.integers(1, 12))
def test_every_attribute_comes_once_after_its_parents(measured: list[NoisyMarginal], cells: int):
    network = view_network(view_tables(measured), VIEW_SIZES, most_cells=cells)
    seen: set[str] = set()
    for conditional in network:
        assert set(conditional.parents) <= seen
        assert conditional.table.shape == tuple(
            VIEW_SIZES[name] for name in (*conditional.parents, conditional.child)
        )
        assert conditional.table.size <= max(cells, VIEW_SIZES[conditional.child])
        assert np.isfinite(conditional.table).all()
        seen.add(conditional.child)
    assert seen == set(VIEW_SIZES)
