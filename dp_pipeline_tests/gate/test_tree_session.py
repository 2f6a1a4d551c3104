"""One ε along every path of a tree: exactly, however the tree grows, and never more."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.trees import TreeSession, path_sums
from dp_pipeline.raw.counters.geometry import grid_counts
from dp_pipeline.results.accountant import TREE_PATHS
from dp_pipeline.results.measurement import SHARES
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.gate.distributions import ALARM, fit
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter

ONE = Fraction(1)
TREE = BitTree(("x", "y"), (0, 1, 0, 1))
ROOT = Prefixes.root()
ALL = np.array([SHARES])

LEAVES = ROOT.children(2).children(2)
"""The 16 finest boxes of TREE."""

Growth = Callable[[TreeSession], None]
"""Grows a whole tree."""


@dataclass(frozen=True)
class Honest:
    """Nodes, bits and shares drawn at random, its own account kept, everything spent at last."""

    seed: int

    def __call__(self, session: TreeSession) -> None:
        rng = np.random.default_rng(self.seed)
        left = {(0, 0): SHARES}
        while left:
            nodes, bits = _some(list(left), rng)
            own = np.array([left.pop(node) for node in _pairs(nodes)])
            shares = rng.integers(1, own, endpoint=True)
            if not nodes.depths.any():
                shares = shares // 4 + 1
            elif rng.random() < 0.5:
                shares = own
            session.expand(nodes, bits=bits, shares=shares)
            rest = np.repeat(own - shares, 1 << bits).tolist()
            below = zip(_pairs(nodes.children(bits)), rest, strict=True)
            left |= {node: some for node, some in below if some > 0}


def _some(frontier: list[tuple[int, int]], rng: np.random.Generator) -> tuple[Prefixes, int]:
    """Some of the nodes in any order, and bits that all of them have below."""
    many = int(rng.integers(1, len(frontier) + 1))
    chosen = np.array([frontier[at] for at in rng.permutation(len(frontier))[:many]])
    nodes = Prefixes(chosen[:, 0].copy(), chosen[:, 1].copy())
    return nodes, int(rng.integers(0, TREE.depth - nodes.depths.max() + 1))


def _pairs(nodes: Prefixes) -> list[tuple[int, int]]:
    return list(zip(nodes.depths.tolist(), nodes.bits.tolist(), strict=True))


@dataclass(frozen=True)
class OnePersonEverywhere:
    """Counts person i, who stands in leaf i, as 2^i: the bits of a count say who is in it."""

    domain: Domain = TOWN

    def children(self, _: BitTree, questions: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        return [self._boxes(nodes, bits) for nodes, bits in questions]

    def _boxes(self, nodes: Prefixes, bits: int) -> Sealed:
        boxes = nodes.children(bits)
        width = TREE.depth - boxes.depths
        first, after = boxes.bits << width, (boxes.bits + 1) << width
        return Sealed(((1 << after) - (1 << first)).reshape(len(nodes), 1 << bits))


def losses(growth: Growth, *, distance: int = 1, epsilon: Fraction = ONE) -> list[Fraction]:
    """What one row costs, for every place of the box: Σ 1/scale of the counts that it is in."""
    noise = RecordingNoise(ForcedNoise(1))
    given = {"epsilon": epsilon, "distance": distance, "noise": noise}
    growth(curator_over(OnePersonEverywhere(), **given).open_tree(TREE, epsilon=epsilon))
    lost = [Fraction(0)] * len(LEAVES)
    for draw in noise.draws:
        for count in draw.exact.ravel().tolist():
            for place in range(len(LEAVES)):
                lost[place] += (count >> place & 1) / draw.scale
    return lost


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    epsilon=st.fractions(min_value=Fraction(1, 10**6), max_value=100),
    rows=st.integers(1, 4),
)
def test_a_person_with_rows_anywhere_uses_exactly_epsilon(seed, epsilon, rows):
    assert losses(Honest(seed), distance=rows, epsilon=epsilon) == [epsilon / rows] * 16


EVERY = Prefixes.concatenate([ROOT.children(bits) for bits in range(TREE.depth + 1)])


@dataclass(frozen=True)
class Greedy:
    """Asks for whatever it likes, of any nodes, and takes what it gets."""

    seed: int

    def __call__(self, session: TreeSession) -> None:
        rng = np.random.default_rng(self.seed)
        for _ in range(30):
            # Mostly high up, where there is most to be had.
            most = rng.integers(1, len(EVERY), endpoint=True)
            nodes = EVERY.where(rng.permutation(most)[: rng.integers(1, 3)])
            shares = rng.choice([1, 5, SHARES // 2, SHARES - 1, SHARES], len(nodes))
            with suppress(BoundaryViolation):
                session.expand(nodes, bits=int(rng.integers(0, 3)), shares=shares)


def test_a_greedy_model_gets_no_more_than_epsilon() -> None:
    assert Fraction(1, 2) < max(max(losses(Greedy(seed))) for seed in range(40)) <= 1


@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("epsilon", [ONE, Fraction(7, 3), Fraction(1, 10)], ids=str)
def test_the_scale_of_a_count_is_that_of_its_shares(distance: int, epsilon: Fraction) -> None:
    noise = RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=epsilon, distance=distance, noise=noise)
    session = curator.open_tree(TREE, epsilon=epsilon)
    session.expand(ROOT, bits=1, shares=np.array([96]))
    session.expand(ROOT.children(1), bits=0, shares=np.array([SHARES - 96, 1]))
    scales = [draw.scale * epsilon for draw in noise.draws]
    assert scales == [distance * Fraction(SHARES, s) for s in (96, 1, SHARES - 96)]
    (spend,) = curator.accountant.spends
    paid = (spend.mechanism, spend.sensitivity, spend.scale)
    assert paid == (TREE_PATHS, distance, distance / epsilon)


def test_counts_at_large_epsilon_are_those_of_a_loop_in_order() -> None:
    session = curator_over(TEN_PEOPLE).open_tree(TREE, epsilon=SILENT)
    shares = np.array([SHARES // 2])
    session.expand(ROOT, bits=2, shares=shares)
    nodes = ROOT.children(2).where(np.array([3, 0, 2, 1]))
    answer = session.expand(nodes, bits=2, shares=np.array([5, 2048, 5, 7]))
    exact = LoopCounter(TEN_PEOPLE).children(TREE, [(nodes, 2)])[0].open_at_the_gate()
    assert answer.tolist() == exact.tolist()
    assert exact.sum() == 10


def test_every_count_has_discrete_laplace_noise_of_its_scale() -> None:
    # 2 chi-square tests on seeded noise: each alarms falsely at a rate of 1e-8.
    tree = BitTree(("x", "y"), (0, 1) * 8)
    curator = curator_over(NOBODY, epsilon=ONE, noise=SeededNoise(5))
    session = curator.open_tree(tree, epsilon=ONE)
    session.expand(ROOT, bits=1, shares=np.array([96]))
    half = SHARES // 2
    noisy = session.expand(ROOT.children(1), bits=13, shares=np.array([half, half // 4]))
    for counts, scale in zip(noisy, (2, 8), strict=True):
        assert fit(counts, Fraction(scale)) > ALARM


def opened(epsilon: Fraction = ONE) -> TreeSession:
    """A session whose root's halves have 96 shares each."""
    session = curator_over(TEN_PEOPLE, epsilon=epsilon).open_tree(TREE, epsilon=epsilon)
    session.expand(ROOT, bits=1, shares=np.array([SHARES - 96]))
    return session


HALVES = ROOT.children(1)
ONE_BELOW = HALVES.children(1).where(np.array([0]))
REFUSED: dict[str, tuple[Prefixes, int, object]] = {
    "a node whose children were counted": (ROOT, 0, [1]),
    "a grandchild of a frontier node": (HALVES.children(1), 0, [1] * 4),
    "a node and one below it": (Prefixes.concatenate([HALVES, ONE_BELOW]), 0, [1] * 3),
    "one node twice": (HALVES.where(np.array([0, 0])), 0, [1, 1]),
    "no share": (HALVES, 1, [1, 0]),
    "one more share than is left": (HALVES, 1, [97, 96]),
    "shares that are fractions": (HALVES, 1, [0.5, 0.5]),
    "shares in 32 bits": (HALVES, 1, np.ones(2, np.int32)),
    "a share too few": (HALVES, 1, [1]),
    "shares in a column": (HALVES, 0, [[1], [1]]),
    "boxes below the tree": (HALVES, 4, [1, 1]),
    "a negative number of bits": (HALVES, -1, [1, 1]),
    "a node of more bits than its depth": (Prefixes(np.array([1]), np.array([2])), 0, [1]),
    "a node below the tree": (Prefixes(np.array([5]), np.array([0])), 0, [1]),
    "nodes in 32 bits": (Prefixes(HALVES.depths, HALVES.bits.astype(np.int32)), 1, [1, 1]),
    "depths in 32 bits": (Prefixes(HALVES.depths.astype(np.int32), HALVES.bits), 1, [1, 1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_path_cannot_pay_for_is_refused(name: str) -> None:
    session, noise = opened(), RecordingNoise()
    session._noise = noise
    nodes, bits, shares = REFUSED[name]
    with pytest.raises(BoundaryViolation) as refused:
        session.expand(nodes, bits=bits, shares=np.asarray(shares))
    assert len(str(refused.value).splitlines()) == 1
    assert noise.draws == []
    session.expand(HALVES, bits=0, shares=np.array([96, 96]))
    session.require_all_spent()


def test_paths_can_begin_at_disjoint_boxes_alone() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE)
    both = Prefixes.concatenate([HALVES, ROOT])
    with pytest.raises(BoundaryViolation, match="must be disjoint, but some of these overlap"):
        curator.open_tree(TREE, epsilon=ONE, nodes=both)
    # Not in the order of their keys, and only a part of the tree.
    ends = HALVES.children(2).where(np.array([6, 1]))
    session = curator.open_tree(TREE, epsilon=ONE, nodes=ends)
    for beside in (ROOT, HALVES, HALVES.children(2).where(np.array([0]))):
        with pytest.raises(BoundaryViolation, match="at the end of paths with shares left"):
            session.expand(beside, bits=0, shares=np.ones(len(beside), dtype=np.int64))
    session.expand(ends, bits=0, shares=np.array([SHARES, SHARES - 1]))
    with pytest.raises(BoundaryViolation, match="1 of 4096 shares are left"):
        session.require_all_spent()
    session.expand(ends.where(np.array([1])), bits=1, shares=np.array([1]))
    session.require_all_spent()
    assert [spend.epsilon for spend in curator.accountant.spends] == [1]


def test_too_many_boxes_are_refused_before_the_count() -> None:
    curator = curator_over(NOBODY, epsilon=ONE)
    session = curator.open_tree(BitTree(("x", "y"), (0, 1) * 16), epsilon=ONE)
    session.expand(ROOT, bits=9, shares=ALL - 1)
    with pytest.raises(BoundaryViolation, match="at most 16777216 counts, not 33554432"):
        session.expand(ROOT.children(9), bits=16, shares=np.ones(512, dtype=np.int64))


@pytest.mark.parametrize("bits", [0, 1])
def test_a_path_that_has_spent_everything_is_never_counted_again(bits: int) -> None:
    session = opened()
    session.expand(HALVES.where(np.array([0])), bits=bits, shares=np.array([96]))
    for again in (HALVES.where(np.array([0])), HALVES.where(np.array([0])).children(1)):
        with pytest.raises(BoundaryViolation, match="at the end of paths with shares left"):
            session.expand(again, bits=0, shares=np.ones(len(again), dtype=np.int64))
    session.expand(HALVES.where(np.array([1])), bits=bits, shares=np.array([96]))
    with pytest.raises(BoundaryViolation, match="Only tree nodes with shares left can be measured"):
        session.expand(HALVES, bits=0, shares=np.array([1, 1]))


def test_a_second_tree_is_a_second_charge() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE)
    curator.open_tree(TREE, epsilon=ONE)
    with pytest.raises(BudgetExceeded):
        curator.open_tree(TREE, epsilon=Fraction(1, 10**9))


def test_a_failed_reading_has_used_its_shares_or_splits() -> None:
    class Failing(LoopCounter):
        def children(self, *_: object) -> object:
            raise OSError("no rows today")

    curator = curator_over(Failing(TEN_PEOPLE), epsilon=ONE)
    session = curator.open_tree(TREE, epsilon=ONE / 2)
    with pytest.raises(OSError, match="no rows"):
        session.expand(ROOT, bits=0, shares=ALL)
    with pytest.raises(BoundaryViolation):
        session.expand(ROOT, bits=0, shares=np.array([1]))
    splits = curator.open_splits(TREE, bits=1, epsilon=ONE / 2)
    with pytest.raises(OSError, match="no rows"):
        splits.decide_splits(ROOT)
    with pytest.raises(BoundaryViolation):
        splits.decide_splits(ROOT)


def test_no_nodes_and_no_boxes_are_no_question() -> None:
    transcript, none = Transcript(), ROOT.where(np.zeros(0, dtype=np.int64))
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, transcript=transcript)
    tree = curator.open_tree(TREE, epsilon=ONE / 2)
    assert tree.expand(none, bits=2, shares=none.depths).shape == (0, 4)
    assert curator.open_splits(TREE, bits=2, epsilon=ONE / 2).decide_splits(none).tolist() == []
    assert len(transcript) == 0


def closed(curator: Curator, session: TreeSession) -> list[bool]:
    """Whether the session, and the release, may end here."""
    ends = []
    for end in (session.require_all_spent, curator.accountant.require_all_spent):
        try:
            end()
            ends.append(True)
        except BoundaryViolation as refused:
            assert "Every path of a tree must spend its whole ε" in str(refused)
            ends.append(False)
    return ends


def test_a_tree_with_an_unspent_share_is_refused() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE)
    session = curator.open_tree(TREE, epsilon=ONE)
    assert closed(curator, session) == [False, False]
    session.expand(ROOT, bits=2, shares=ALL - 1)
    assert closed(curator, session) == [False, False]
    quarters = ROOT.children(2)
    session.expand(quarters.where(np.arange(3)), bits=0, shares=np.ones(3, dtype=np.int64))
    assert closed(curator, session) == [False, False]
    session.expand(quarters.where(np.array([3])), bits=1, shares=np.array([1]))
    assert closed(curator, session) == [True, True]


def test_a_release_with_two_trees_needs_both_of_them_spent() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE)
    first, second = (curator.open_tree(TREE, epsilon=ONE / 2) for _ in range(2))
    first.expand(ROOT, bits=0, shares=ALL)
    assert closed(curator, first) == [True, False]
    second.expand(ROOT, bits=4, shares=ALL)
    assert closed(curator, second) == [True, True]


EDGE = 1 << 16


@pytest.mark.parametrize(("dimensions", "height"), [(1, 0), (1, 6), (2, 5), (3, 3), (4, 2)])
def test_each_level_equals_a_direct_count(dimensions, height):
    rng = np.random.default_rng(dimensions)
    columns = rng.integers(-EDGE, EDGE, size=(dimensions, 500), endpoint=True)
    columns[:, :9] = EDGE
    tree = BitTree.quadtree(tuple("vwxy"[:dimensions]), height)
    sums = path_sums(grid_counts(columns, 1 << height, rows=500), tree)
    assert (sums.dtype, sums.shape) == (np.int64, ((1 << tree.depth) + 1,))
    for level in range(height + 1):
        nodes = ROOT.children(level * dimensions)
        counts = np.diff(sums[:: 1 << tree.depth - level * dimensions])
        direct = grid_counts(columns, 1 << level, rows=500)
        assert np.array_equal(counts, direct.ravel()[nodes.grid_cells(dimensions)[1]])
