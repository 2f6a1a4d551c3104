"""Counts of a tree that agree with one another: by hand on five nodes, and for any noise."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.noisy_tree import NoisyTree, Sparsity, find_far_leaves, may_hold_rows
from dp_pipeline.results.trees import Prefixes

sparsities = st.none() | st.builds(Sparsity, st.floats(0, 3), st.floats(0, 3))


@dataclass(frozen=True)
class Grown:
    """A tree, and for each of its families the positions of parent and children."""

    tree: NoisyTree
    families: tuple[tuple[int, list[int]], ...]

    def add_up(self, counts: np.ndarray) -> bool:
        sums = [counts[children].sum() for _, children in self.families]
        return np.allclose(sums, [counts[parent] for parent, _ in self.families], atol=1e-6)


@st.composite
def grown_trees(draw: st.DrawFn) -> Grown:
    """Up to five families with any counts and variances, some counted twice."""
    tree, leaves = NoisyTree(), [(0, Prefixes.root())]
    families = []
    for _ in range(draw(st.integers(1, 5))):
        parent, node = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        nodes = node.children(draw(st.integers(1, 3)))
        values = draw(st.lists(st.integers(-100, 100), min_size=len(nodes), max_size=len(nodes)))
        variance = np.array([draw(st.floats(0.01, 100))])
        positions = tree.add(np.array([parent]), nodes, np.array([values]), variance)
        families.append((parent, positions.tolist()))
        leaves += [(p, nodes.where(np.array([at]))) for at, p in enumerate(positions.tolist())]
        if draw(st.booleans()):
            again = np.array([draw(st.integers(-100, 100))])
            tree.count_again(positions[:1], again, variance)
    return Grown(tree, tuple(families))


def five_nodes() -> NoisyTree:
    """The root; 10 and 6 rows at variance 4 below it; 3 and 5 at variance 1 below the first."""
    tree = NoisyTree()
    halves = Prefixes.root().children(1)
    first = tree.add(np.array([0]), halves, np.array([[10, 6]]), np.array([4.0]))
    quarters = halves.where(np.array([0])).children(1)
    tree.add(first[:1], quarters, np.array([[3, 5]]), np.array([1.0]))
    return tree


def family(*values: float, variance: float = 1.0) -> NoisyTree:
    tree, nodes = NoisyTree(), Prefixes.root().children(len(values).bit_length() - 1)
    tree.add(np.array([0]), nodes, np.array([values]), np.array([variance]))
    return tree


def test_five_nodes_agree_as_they_do_by_hand():
    # Up: the first half is (10/4 + 8/2)/(1/4 + 1/2) = 26/3 with variance 4/3; with 6 the root
    # has 44/3. Down: differences of ±4/3 keep 1 − (1/4)·(8/3)/(32/9) = 13/16, so 22/3 ± 13/12;
    # below, ±1 keeps 1 − (1/4)·1/2 = 7/8.
    counts = five_nodes().counts(first=None, below=None)
    first, second = 22 / 3 + 13 / 12, 22 / 3 - 13 / 12
    assert counts == pytest.approx([44 / 3, first, second, first / 2 - 7 / 8, first / 2 + 7 / 8])


def test_a_second_count_is_combined_by_inverse_variance():
    tree = family(10, 6, variance=4.0)
    tree.count_again(np.array([1]), np.array([4]), np.array([2.0]))
    # (10/4 + 4/2)/(1/4 + 1/2) = 6: no difference is left, and no more is missing.
    assert tree.counts(first=None, below=None) == pytest.approx([12, 6, 6])


def test_leaves_are_nodes_without_children_in_order():
    tree = five_nodes()
    positions, nodes = tree.leaves
    assert positions.tolist() == [2, 3, 4]
    assert nodes.depths.tolist() == [1, 2, 2]
    assert nodes.bits.tolist() == [1, 0, 1]
    first, again = (tree.counts(first=None, below=Sparsity(3, 2)) for _ in range(2))
    assert (first == again).all()


def test_no_children_are_no_family_and_a_root_has_one_row():
    tree, none = NoisyTree(), np.zeros(0, dtype=np.int64)
    assert not tree.add(none, Prefixes.concatenate([]), np.zeros((0, 16)), np.zeros(0)).size
    assert tree.counts(first=None, below=None).tolist() == [1]
    assert family(-5, -7).counts(first=None, below=None)[0] == 1


THREE_AND_TWO = Sparsity(certain=3, siblings=2)  # At variance 1 deviations are rows.


@pytest.mark.parametrize(
    ("values", "shares"),
    {
        "next to nothing beside many": ((10, 0.5, -0.3, 0.2), (1, 0, 0, 0)),
        "less than nothing": ((4, -5, -5, -5), (1, 0, 0, 0)),
        "less than two deviations of three": ((10, 1, 1, 1), (1, 0, 0, 0)),
        "two certain children": ((20, 20, 0.5, 0.5), (0.5, 0.5, 0, 0)),
        "between two and three deviations of three": ((10, 1.5, 1.5, 1.5), None),
        "nobody is certain": ((2, 0, 0, 0), None),
        "three deviations are not more than three": ((3, 0, 0, 0), None),
    }.values(),
)
def test_what_is_noise_beside_a_certain_child_is_taken_for_empty(values, shares):
    tree = family(*values)
    root, *children = tree.counts(first=THREE_AND_TWO, below=None)
    if shares is None:
        assert [root, *children] == tree.counts(first=None, below=None).tolist()
    else:
        assert children == pytest.approx([root * share for share in shares])


def test_the_roots_children_have_a_rule_of_their_own():
    tree = family(10, 0.5)
    children = Prefixes.root().children(1)
    values, variance = np.array([[10, 0.5], [0.5, 0.0]]), np.array([1.0, 1.0])
    tree.add(np.array([1, 2]), children.children(1), values, variance)
    sparse_first = tree.counts(first=THREE_AND_TWO, below=None)
    sparse_below = tree.counts(first=None, below=THREE_AND_TWO)
    assert sparse_first[2] == 0 < sparse_first[4]
    assert sparse_below[4] == 0 < sparse_below[2] < 1


@given(grown=grown_trees(), first=sparsities, below=sparsities)
def test_counts_are_never_negative_and_add_up_along_the_tree(grown, first, below):
    counts = grown.tree.counts(first=first, below=below)
    assert len(counts) == len(grown.tree)
    assert np.isfinite(counts).all()
    assert (counts >= 0).all()
    assert counts[0] >= 1
    assert grown.add_up(counts)


@given(grown=grown_trees())
def test_leaves_cover_the_box_once(grown: Grown):
    positions, nodes = grown.tree.leaves
    assert nodes.are_disjoint()
    assert (0.5**nodes.depths).sum() == 1
    parents = {parent for parent, _ in grown.families}
    assert set(positions.tolist()) == set(range(len(grown.tree))) - parents


@given(
    counts=st.lists(st.integers(0, 50), min_size=8, max_size=8).filter(any),
    first=sparsities,
    below=sparsities,
)
def test_without_noise_the_counts_are_the_exact_ones(counts, first, below):
    tree, leaves = NoisyTree(), np.reshape(counts, (2, 4))
    sums, silent = leaves.sum(axis=1), np.full(2, 1e-13)
    halves = Prefixes.root().children(1)
    positions = tree.add(np.zeros(1, dtype=np.int64), halves, sums[None], silent[:1])
    tree.add(positions, halves.children(2), leaves, silent)
    exact = [sums.sum(), *sums, *counts]
    assert tree.counts(first=first, below=below) == pytest.approx(exact, abs=1e-4)


def leaves_of(*counts: float, depth: int = 4) -> tuple[np.ndarray, ...]:
    """Depths, counts, and variances of a noise of scale 1."""
    values, many = np.array(counts, dtype=np.float64), len(counts)
    return np.full(many, depth), values, np.full(many, 2.0)


def test_noise_beside_one_full_leaf_is_taken_for_empty():
    leaves = leaves_of(5000, 3, 2, 1, -1, -2, -1, 0, -1, 1, -3, -1)
    assert may_hold_rows(*leaves).tolist() == [True] + [False] * 11
    # Half a row each is less than the noise of one leaf, and far more than that of all.
    noise = np.random.default_rng(4).laplace(0, 1, 4000)
    assert may_hold_rows(*leaves_of(*(0.5 + noise))).all()
    # Where few leaves can be empty, none is.
    assert may_hold_rows(*leaves_of(9, 8, 7, 6, 5, -1)).all()


def test_a_leaf_far_above_the_noise_is_kept():
    emptied = 0
    for seed in range(40):
        noise = np.random.default_rng(seed).laplace(0, 1, 200)
        may_hold = may_hold_rows(*leaves_of(60, *noise))
        assert may_hold[0]
        emptied += bool(may_hold.sum() <= 3)
    # Noise alone has one deviation or more together in one run of six: then it is left as it is.
    assert emptied >= 28


def test_noise_far_above_the_rows_must_say_more():
    # Four deviations together: enough beside the rows, too little 20 levels above them.
    shallow = leaves_of(2.5, 2.5, 2.5, 2.5, -0.1, -0.1, -0.1, -0.1, -0.1, depth=8)
    # Alone at their depth, the same leaves are judged beside rows one level below.
    for deep, is_counted in ((9, True), (28, False)):
        rows = leaves_of(*[900.0] * 20, depth=deep)
        may_hold = may_hold_rows(*map(np.concatenate, zip(shallow, rows, strict=True)))
        assert may_hold[:4].all() == is_counted
        assert may_hold[9:].all()


# Leaves in a row of 64, of which two side by side hold all rows; the noise has variance 2.

EDGES = np.arange(64.0)[:, None]


def far_leaves(counts: dict[int, float], *, elsewhere: float = 0.0) -> list[int]:
    """Leaves that are far from rows, of these noisy counts."""
    values = np.full(64, elsewhere)
    values[list(counts)] = list(counts.values())
    return np.flatnonzero(find_far_leaves(EDGES, EDGES + 1, values, np.full(64, 2.0))).tolist()


def test_leaves_a_width_away_from_all_rows_are_far():
    assert far_leaves({10: 90, 11: 90}) == [*range(8), *range(14, 64)]
    # Of 58 far leaves the noise together has a deviation of 10.8 rows.
    assert len(far_leaves({10: 900, 11: 900}, elsewhere=0.4)) == 58
    assert not far_leaves({10: 900, 11: 900}, elsewhere=0.6)
    # No rows, a box that fits, and rows far away.
    for counts in ({}, {10: 90, 18: 90}, {10: 90, 11: 90, 60: 12}):
        assert not far_leaves(counts)


def test_a_box_is_far_too_wide_only_on_every_axis():
    lower = np.array([[x, y] for x in range(32) for y in range(32)], dtype=np.float64)
    column, place = lower[:, 0] == 5, (lower == 5).all(axis=1)
    for rows, far in ((column, 0), (place, 1024 - 9)):
        values = np.where(rows, 900.0, 0.0)
        assert find_far_leaves(lower, lower + 1, values, np.full(1024, 2.0)).sum() == far
