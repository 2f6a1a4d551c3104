"""What measured pairs tell of the others: exactly along chains, nothing where there is none."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.dependence import (
    UNSEEN,
    Dependence,
    likely_gaps,
)

fuzz = settings(derandomize=True, deadline=None, max_examples=60)
noisy_gaps = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9).map(np.array)


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


def test_the_strength_of_two_bits_is_their_correlation() -> None:
    codes = chain(4000, 3, follows=0.6)
    codes[:, 1] &= codes[:, 0]
    strengths = of_bits(codes).strengths
    correlations = np.abs(np.corrcoef(codes.T))
    assert strengths[0, 1] == pytest.approx(correlations[0, 1])
    assert strengths[1, 2] == pytest.approx(correlations[1, 2])


def test_a_chain_tells_its_ends_and_is_taken_at_its_word() -> None:
    depends = of_bits(chain(200_000, 6, follows=0.8))
    assert depends.told > 0.9
    untold = depends.untold(depends.paths(pairwise(depends.names)))
    ends = depends.gaps[0, 5]
    assert untold[0, 5] < 0.2 * ends
    assert depends.untold(depends.paths([]))[0, 5] == ends


def test_attributes_that_depend_otherwise_are_told_by_no_path() -> None:
    # Every pair depends alike through something that is no attribute: products say too little.
    rng = np.random.default_rng(5)
    gaps = {(a, b): 500 + 100 * float(rng.random()) for a, b in combinations("abcdefgh", 2)}
    depends = Dependence.of("abcdefgh", gaps, spread=dict.fromkeys("abcdefgh", 0.5), rows=4000.0)
    assert depends.told < 0.3


def test_where_no_strength_is_known_or_too_few_pairs_are_there_nothing_is_guessed() -> None:
    gaps = dict.fromkeys(combinations("abcd", 2), 9.0)
    unknown = Dependence.of("abcd", gaps)
    assert (unknown.untold(unknown.paths(gaps)) == unknown.gaps).all()
    three = dict.fromkeys(combinations("abc", 2), 9.0)
    assert Dependence.of("abc", three, spread=dict.fromkeys("abc", 0.5), rows=90.0).told == UNSEEN


@fuzz
@given(
    seed=st.integers(0, 10**6),
    many=st.integers(2, 6),
    data=st.data(),
)
def test_one_pair_more_is_the_same_path_as_all_pairs_at_once(
    seed: int, many: int, data: st.DataObject
) -> None:
    rng, names = np.random.default_rng(seed), [f"x{at}" for at in range(many)]
    pairs = list(combinations(names, 2))
    gaps = {pair: float(rng.random()) for pair in pairs}
    depends = Dependence.of(names, gaps, spread=dict.fromkeys(names, 0.9))
    some = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    more = data.draw(st.sampled_from(pairs))
    first, second = (np.array([depends.place[name]]) for name in more)
    one_by_one = depends.with_pairs(depends.paths(some), first, second)[0]
    assert one_by_one == pytest.approx(depends.paths([*some, more]))
    assert (depends.untold(one_by_one) <= depends.untold(depends.paths(some)) + 1e-12).all()


def by_uniform(noisy: np.ndarray, width: float, beside: float = 0.0) -> np.ndarray:
    """Of noise that is uniform in ± width."""

    def density(off: np.ndarray) -> np.ndarray:
        return np.where(np.abs(off) <= width, 1.0, 0.0)

    return likely_gaps(noisy, np.full(len(noisy), beside), reach=width, density=density)


def by_normal(noisy: np.ndarray, width: float, beside: float = 0.0) -> np.ndarray:
    """Of Gaussian noise."""

    def density(off: np.ndarray) -> np.ndarray:
        return np.exp(-((off / width) ** 2) / 2)

    return likely_gaps(noisy, np.full(len(noisy), beside), reach=5 * width, density=density)


NOISES = [
    (by_uniform, lambda rng, width, many: rng.uniform(-width, width, many)),
    (by_normal, lambda rng, width, many: rng.normal(0, width, many)),
]


@fuzz
@given(noisy=noisy_gaps, width=st.floats(1e-3, 1e6), beside=st.floats(0, 1e6))
@pytest.mark.parametrize("likely", [by_uniform, by_normal])
def test_likely_gaps_are_none_below_zero_and_no_further_up_than_noise_reaches(
    likely, noisy: np.ndarray, width: float, beside: float
) -> None:
    found = likely(noisy, width, beside)
    assert np.isfinite(found).all()
    assert found.min() >= 0
    assert (found <= np.maximum(0.0, noisy + 5 * width) + 1e-6).all()


@fuzz
@given(noisy=noisy_gaps, width=st.floats(1e-3, 1e6))
@pytest.mark.parametrize("likely", [by_uniform, by_normal])
def test_likely_gaps_keep_the_order_of_noisy_ones(likely, noisy: np.ndarray, width: float) -> None:
    found = likely(noisy, width)
    order = np.argsort(noisy, kind="stable")
    # The mean is over steps: a hundredth of the noise is below their width.
    assert (np.diff(found[order]) >= -0.01 * width).all()


@pytest.mark.parametrize(("likely", "noise"), NOISES)
def test_likely_gaps_are_nearer_than_noisy_ones_cut_at_zero(likely, noise) -> None:
    # 20,000 gaps of mean 100; a false alarm is less likely than 10⁻⁹.
    rng = np.random.default_rng(8)
    gaps = rng.exponential(100.0, 20_000)
    for width in (10.0, 100.0, 1000.0):
        noisy = gaps + noise(rng, width, len(gaps))
        found = likely(noisy, width)
        cut = np.maximum(0.0, noisy)
        assert np.square(found - gaps).mean() < np.square(cut - gaps).mean()


@pytest.mark.parametrize(("likely", "noise"), NOISES)
def test_what_the_noise_of_one_way_marginals_puts_into_gaps_is_taken_out(likely, noise) -> None:
    # 20,000 gaps; a false alarm is less likely than 10⁻⁹.
    rng = np.random.default_rng(9)
    gaps = rng.exponential(100.0, 20_000)
    noisy = np.hypot(gaps, 300.0) + noise(rng, 50.0, len(gaps))
    found, with_it = likely(noisy, 50.0, 300.0), likely(noisy, 50.0)
    assert abs(found.mean() / gaps.mean() - 1) < 0.25
    assert np.square(found - gaps).mean() < np.square(with_it - gaps).mean() / 4
    independent = likely(300.0 + noise(rng, 50.0, 20_000), 50.0, 300.0)
    assert independent.mean() < 50
