"""Rows from tables of cliques, of networks, or given some attributes: exact where they can be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.clique_join import Conditional, join_cliques, sample_network
from dp_pipeline.inference.conditional_rows import sample_conditionally
from dp_pipeline.inference.junction_tree import JunctionTree, triangulated_cliques
from dp_pipeline.results.derived_attribute import rounded_counts
from dp_pipeline_tests.inference.test_junction_tree import graphs

Tables = dict[tuple[str, ...], np.ndarray]
CHAIN = JunctionTree((("a", "b"), ("b", "c")), ((0, 1),))
SIZES = {"a": 2, "b": 2, "c": 3}


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def counts(codes: np.ndarray, names: tuple[str, ...], sizes: dict[str, int]) -> np.ndarray:
    table = np.zeros([sizes[name] for name in names], dtype=np.int64)
    for row in codes:
        table[tuple(row[list(sizes).index(name)] for name in names)] += 1
    return table


@st.composite
def trees(draw: st.DrawFn) -> tuple[JunctionTree, Tables, dict[str, int]]:
    """The junction tree of a random graph and tables over it, some slices of them empty."""
    edges, sizes = draw(graphs())
    tree = JunctionTree.of(triangulated_cliques(edges, sizes), sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    empty = draw(st.sampled_from([0.0, 0.5, 1.0]))
    tables = {}
    for clique in tree.cliques:
        table = rng.exponential(size=[sizes[name] for name in clique])
        tables[clique] = table * (rng.random(table.shape) >= empty)
    return tree, tables, sizes


@given(case=trees(), rows=st.sampled_from([0, 1, 2, 30]), seed=st.integers(0, 99))
def test_any_tree_and_any_tables_give_rows_of_valid_codes(case, rows: int, seed: int):
    codes, again = (join_cliques(*case[:2], rows, rng_of(seed), case[2]) for _ in range(2))
    assert (codes.shape, codes.dtype) == ((rows, len(case[2])), np.int8)
    assert (codes >= 0).all()
    assert (codes < np.array(list(case[2].values()), dtype=np.int64)).all()
    assert codes.tolist() == again.tolist()


@given(case=graphs(), rows=st.integers(1, 40), seed=st.integers(0, 99))
def test_tables_that_rows_were_counted_into_come_back_exactly(case, rows: int, seed: int):
    """Whole expectations in every slice: nothing is left to chance but who is combined."""
    edges, sizes = case
    tree = JunctionTree.of(triangulated_cliques(edges, sizes), sizes)
    highest = np.array(list(sizes.values()), dtype=np.int64)
    real = rng_of(seed).integers(0, highest, (rows, len(sizes)))
    tables = {clique: counts(real, clique, sizes).astype(float) for clique in tree.cliques}
    codes = join_cliques(tree, tables, rows, rng_of(seed), sizes)
    for clique, table in tables.items():
        assert counts(codes, clique, sizes).tolist() == table.tolist()


def test_the_total_of_a_table_says_nothing():
    left, right = np.array([[3.0, 1], [2, 2]]), np.array([[1.0, 2, 2], [1, 1, 1]])
    first, second = (
        join_cliques(CHAIN, {("a", "b"): left / f, ("b", "c"): right * f}, 80, rng_of(3), SIZES)
        for f in (1, 1e9)
    )
    assert first.tolist() == second.tolist()
    assert counts(first, ("a", "b"), SIZES).tolist() == [[30, 10], [20, 20]]
    assert counts(first, ("b", "c"), SIZES).tolist() == [[10, 20, 20], [10, 10, 10]]


def test_a_slice_of_nothing_falls_back_to_the_whole_table():
    tables = {
        ("a", "b"): np.array([[1.0, 1], [0, 0]]),
        ("b", "c"): np.array([[1.0, 2, 1], [0] * 3]),
    }
    codes = join_cliques(CHAIN, tables, 80, rng_of(0), SIZES)
    assert counts(codes, ("b", "c"), SIZES).tolist() == [[10, 20, 10], [10, 20, 10]]
    tables = {("a", "b"): np.zeros((2, 2)), ("b", "c"): np.zeros((2, 3))}
    codes = join_cliques(CHAIN, tables, 12, rng_of(0), SIZES)
    assert counts(codes, ("b", "c"), SIZES).tolist() == [[2, 2, 2], [2, 2, 2]]


def test_one_level_and_no_attribute_at_all_are_joined():
    rng = rng_of(0)
    alone = JunctionTree.of((("a",), ("b",)), {"a": 1, "b": 1})
    tables = {("a",): np.array([7.0]), ("b",): np.array([0.0])}
    assert join_cliques(alone, tables, 2, rng, {"a": 1, "b": 1}).tolist() == [[0, 0], [0, 0]]
    assert join_cliques(JunctionTree((), ()), {}, 3, rng, {}).shape == (3, 0)
    assert join_cliques(JunctionTree(((),), ()), {(): np.array(4.0)}, 3, rng, {}).shape == (3, 0)


@pytest.mark.parametrize("sizes", [{"a": 2, "b": 2}, {"a": 2, "b": 2, "c": 3, "d": 2}, {}])
def test_attributes_without_clique_or_size_are_refused(sizes: dict[str, int]):
    with pytest.raises(BoundaryViolation, match="not a, b, c"):
        join_cliques(CHAIN, {}, 1, rng_of(0), sizes)


@pytest.mark.parametrize(
    ("tree", "sizes", "tables"),
    [
        (JunctionTree((("a",), ("c",)), ((0, 1),)), {}, {("a",): [1] * 10, ("c",): [1] * 10}),
        # b is constant, so a and c are independent given it.
        (CHAIN, {"b": 2}, {("a", "b"): [[1, 0]] * 10, ("b", "c"): [[1] * 10] * 2}),
    ],
    ids=["nothing shared", "a separator"],
)
def test_cliques_are_independent_given_what_they_share(tree, sizes, tables):
    """400 rows of 10 × 10 cells, 4 expected in each: χ² of 81 degrees is above 140 with
    probability 6e-5; without a shuffle it would be 3600. Seeded.
    """
    sizes = {"a": 10, **sizes, "c": 10}
    tables = {names: np.array(table, dtype=float) for names, table in tables.items()}
    table = counts(join_cliques(tree, tables, 400, rng_of(5), sizes), ("a", "c"), sizes)
    assert (table.sum(axis=0) == 40).all() or (table.sum(axis=1) == 40).all()
    assert ((table - 4) ** 2 / 4).sum() < 140


def test_rows_are_in_no_order():
    """The ranks of 1,000 rows and their values: correlation below 0.13 in all but 4e-5 of seeds."""
    sizes = {"a": 1000}
    single = JunctionTree.of((("a",),), sizes)
    codes = join_cliques(single, {("a",): np.ones(1000)}, 1000, np.random.default_rng(2), sizes)
    assert sorted(codes[:, 0].tolist()) == list(range(1000))
    assert abs(np.corrcoef(codes[:, 0], np.arange(1000))[0, 1]) < 0.13


rows_of_cells = st.integers(1, 6).flatmap(
    lambda m: st.lists(
        st.lists(st.sampled_from([0.0, 0.0, 1e-9, 0.3, 1.0, 7.5, 1e6]), min_size=m, max_size=m),
        min_size=1,
        max_size=6,
    ).map(np.array)
)


@given(table=rows_of_cells, seed=st.integers(0, 99), data=st.data())
def test_every_count_is_its_expectation_rounded_up_or_down(table, seed: int, data):
    wanted = st.lists(st.integers(0, 10**6), min_size=len(table), max_size=len(table))
    totals, is_filled = np.array(data.draw(wanted)), table.any(axis=1)
    drawn = rounded_counts(table, totals, rng_of(seed))
    assert drawn.sum(axis=1).tolist() == totals.tolist()
    filled, counted = table[is_filled], drawn[is_filled]
    expected = filled / filled.sum(axis=1, keepdims=True) * totals[is_filled, None]
    assert (np.abs(counted - expected) < 1 + 1e-6).all()
    assert (counted[filled == 0] == 0).all()


def test_counts_are_unbiased():
    """Means of 20,000 counts in {0, 1} within 4.5 deviations (at most 0.016); of 12 checks one
    fails in 1e4 seeds. Seeded.
    """
    table = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.25, 0.25]])
    rng = np.random.default_rng(11)
    drawn = [rounded_counts(table, np.ones(3, dtype=np.int64), rng) for _ in range(20_000)]
    assert np.abs(np.mean(drawn, axis=0) - table).max() < 0.016


def test_many_small_groups_add_up_to_nearly_the_marginal():
    """One row in each of 1,000 groups that are alike: golden steps leave out less than 3 rows
    for every seed, where one u for all would put all of them into one cell.
    """
    table = np.tile([0.1, 0.2, 0.3, 0.4], (1000, 1))
    # 377 golden steps end nearly where they began: groups without rows use up none.
    totals = np.zeros(377 * 200, dtype=np.int64)
    totals[::377] = 1
    for seed in range(20):
        drawn = rounded_counts(table, np.ones(1000, np.int64), rng_of(seed))
        assert np.abs(drawn.sum(axis=0) - [100, 200, 300, 400]).max() < 3
        drawn = rounded_counts(np.ones((len(totals), 2)), totals, rng_of(seed))
        assert np.abs(drawn.sum(axis=0) - 100).max() < 3


NETWORK_SIZES = {"c": 3, "a": 2, "b": 2}
A = Conditional("a", (), np.array([3.0, 1.0]))
B = Conditional("b", ("a",), np.array([[1.0, 1.0], [0.0, 5.0]]))
C = Conditional("c", ("b", "a"), np.ones((2, 2, 3)))


def sample_codes(network: list[Conditional], rows: int, seed: int = 0) -> np.ndarray:
    return sample_network(network, rows, np.random.default_rng(seed), NETWORK_SIZES)


def test_columns_are_in_order_and_counts_are_as_tables_say():
    codes = sample_codes([A, B, C], 24)
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
    codes = sample_codes(network, rows, seed)
    assert codes.shape == (rows, 3)
    for a, b in np.ndindex(2, 2):
        group = codes[(codes[:, 1] == a) & (codes[:, 2] == b), 0]
        expected = len(group) * triple[a, b] / triple[a, b].sum()
        assert (np.abs(np.bincount(group, minlength=3) - expected) < 1 + 1e-9).all()


def test_a_slice_of_nothing_is_drawn_from_the_whole_table():
    nothing = Conditional("b", ("a",), np.array([[0.0, 0.0], [1.0, 3.0]]))
    codes = sample_codes([A, nothing, C], 400)
    assert np.bincount(codes[codes[:, 1] == 0, 2]).tolist() == [75, 225]
    codes = sample_codes([Conditional("a", (), np.zeros(2)), B, C], 400)
    assert np.bincount(codes[:, 1]).tolist() == [200, 200]


def test_given_their_parents_children_are_independent():
    # b and c halve 20,000 rows each: 5,000 have both, deviation 35; 7 of them in 10^-11.
    half = Conditional("b", (), np.ones(2))
    other = Conditional("c", (), np.array([1.0, 1.0, 0.0]))
    codes = sample_codes([A, half, other], 20_000)
    assert abs(int(((codes[:, 2] == 1) & (codes[:, 0] == 1)).sum()) - 5000) < 250


def test_rows_have_no_order_but_that_of_the_seed():
    # The first half of 10,000 rows has half of a's 2,500: deviation 22; 7 of them in 10^-11.
    codes = sample_codes([A, B, C], 10_000)
    assert abs(int(codes[:5000, 1].sum()) - 1250) < 150
    assert (codes == sample_codes([A, B, C], 10_000)).all()
    assert (codes != sample_codes([A, B, C], 10_000, seed=1)).any()


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
