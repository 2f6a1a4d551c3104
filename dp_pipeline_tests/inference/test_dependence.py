"""What measured pairs tell of the others: exactly along chains, nothing where there is none."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.dependence import Dependence


def dependence(names: str, scores: dict[tuple[str, str], float], rows: float = 100.0) -> Dependence:
    return Dependence.of(names, scores, spread=dict.fromkeys(names, 0.5), rows=rows)


def of_bits(codes: np.ndarray) -> Dependence:
    """Of binary columns, their exact gaps."""
    rows, names = len(codes), [f"x{at}" for at in range(codes.shape[1])]
    gaps, shares = {}, codes.mean(axis=0)
    for i, j in combinations(range(len(names)), 2):
        both = np.bincount(2 * codes[:, i] + codes[:, j], minlength=4).reshape(2, 2)
        alone = np.outer([1 - shares[i], shares[i]], [1 - shares[j], shares[j]]) * rows
        gaps[names[i], names[j]] = float(np.abs(both - alone).sum())
    spread = {n: 1 - p**2 - (1 - p) ** 2 for n, p in zip(names, shares, strict=True)}
    return Dependence.of(names, gaps, spread=spread, rows=float(rows))


def chain(rows: int, many: int, *, follows: float) -> np.ndarray:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (rows, many))
    for at in range(1, many):
        same = rng.random(rows) < follows
        codes[same, at] = codes[same, at - 1]
    return codes


def test_the_strength_of_two_bits_is_their_correlation():
    codes = chain(4000, 3, follows=0.6)
    codes[:, 1] &= codes[:, 0]
    strengths = of_bits(codes).strengths
    correlations = np.abs(np.corrcoef(codes.T))
    assert strengths[0, 1] == pytest.approx(correlations[0, 1])
    assert strengths[1, 2] == pytest.approx(correlations[1, 2])


def test_a_chain_tells_its_ends_and_is_taken_at_its_word():
    depends = of_bits(chain(200_000, 6, follows=0.8))
    assert depends.explained > 0.9
    unexplained = depends.unexplained(depends.paths(pairwise(depends.names)))
    # Of the pairs of six attributes, that of the first and the last is the fifth.
    ends = depends.scores[0, 5]
    assert unexplained[4] < 0.2 * ends
    assert depends.unexplained(depends.paths([]))[4] == ends


def test_a_tree_says_the_product_of_its_strengths():
    gaps = {("a", "b"): 80.0, ("b", "c"): 60.0, ("a", "c"): 10.0, ("a", "d"): 90.0, ("c", "d"): 7.0}
    expected = {("a", "c"): 48.0, ("c", "d"): 43.2}
    assert dependence("abcd", gaps).predicted_by_tree == pytest.approx(
        expected
    )  # b and d are not known
    # A gap of more than its most is a strength of 1.
    clipped = dependence("abc", {("a", "b"): 300.0, ("b", "c"): 60.0, ("a", "c"): 10.0})
    assert clipped.strengths.max() == 1.0
    assert clipped.predicted_by_tree == pytest.approx({("a", "c"): 60.0})


def test_attributes_that_depend_otherwise_follow_no_path():
    # Every pair depends alike through something that is no attribute: products say too little.
    rng = np.random.default_rng(5)
    gaps = {(a, b): 500 + 100 * float(rng.random()) for a, b in combinations("abcdefgh", 2)}
    assert dependence("abcdefgh", gaps, 4000.0).explained < 0.3


def test_a_table_joins_the_paths_between_its_attributes():
    depends = dependence("stuvw", dict.fromkeys([tuple(p) for p in ("tw", "wu", "st", "uv")], 90.0))
    paths = depends.with_table(depends.paths([("t", "w"), ("w", "u")]), [0, 1, 2, 3])
    assert paths[0, 3] == pytest.approx(0.9**4)


def test_pairs_that_contradict_the_tree_are_explained_by_no_path():
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("b", "d"), ("a", "d")]
    scores = dict(zip(pairs, [80.0, 80.0, 80.0, 10.0, 12.0, 50.0], strict=True))
    assert dependence("abcd", scores).explained == 0.0


def test_where_too_little_is_known_nothing_is_guessed():
    gaps = dict.fromkeys(combinations("abcd", 2), 9.0)
    unknown = Dependence(tuple("abcd"), np.full((4, 4), 9.0), np.zeros((4, 4)))
    assert unknown.predicted_by_tree == {}
    assert unknown.unexplained(unknown.paths(gaps)).tolist() == [9.0] * 6
    assert dependence("abc", dict.fromkeys(combinations("abc", 2), 9.0), 90.0).explained == 0.5


@given(seed=st.integers(0, 10**6), many=st.integers(3, 6), data=st.data())
def test_a_table_more_is_the_same_as_all_its_pairs_at_once(seed: int, many: int, data):
    rng, names = np.random.default_rng(seed), "abcdef"[:many]
    pairs = list(combinations(names, 2))
    depends = dependence(names, {pair: float(rng.random()) for pair in pairs}, 1.0)
    before = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    table = sorted(data.draw(st.sets(st.integers(0, many - 1), min_size=2, max_size=4)))
    inside = list(combinations([names[place] for place in table], 2))
    paths = depends.with_table(depends.paths(before), table)
    assert paths == pytest.approx(depends.paths([*before, *inside]))
    remaining = depends.unexplained(paths)
    assert (remaining <= depends.unexplained(depends.paths(before)) + 1e-12).all()
