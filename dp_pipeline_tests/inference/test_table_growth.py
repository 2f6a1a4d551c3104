"""Tables are put together where the error of all pairs falls by it, and not elsewhere."""

import os
import subprocess
import sys
from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.expected_error import ExpectedError
from dp_pipeline.inference.table_growth import MAX_TABLE_CELLS, TableGrowth
from dp_pipeline.results.measurement import NoiseRate
from dp_pipeline_tests.inference.test_expected_error import error_by_loops

EPSILON, RHO = NoiseRate(concentrated=False, distance=1), NoiseRate(concentrated=True, distance=1)

Scores = dict[tuple[str, str], float]


def growth(
    sizes: dict[str, int],
    scores: Scores,
    *,
    amount: float = 0.1,
    paid: float = 0.03,
    rate: NoiseRate = EPSILON,
    whole: dict[str, int] | None = None,
    weights: np.ndarray | None = None,
    cap: int = 1 << 16,
    most: float = 0.0,
) -> TableGrowth:
    """Over attributes with so many groups, of as many levels where ``whole`` says nothing else;
    paths predict nothing, unless ``most`` says what a score can be.
    """
    place, symmetric = list(sizes), np.zeros((len(sizes), len(sizes)))
    for (a, b), score in scores.items():
        i, j = place.index(a), place.index(b)
        symmetric[i, j] = symmetric[j, i] = score
    dependence = Dependence(tuple(sizes), symmetric, np.full(symmetric.shape, most))
    error = ExpectedError(
        whole or sizes, sizes, dict.fromkeys(sizes, paid), dependence, rate, weights
    )
    return TableGrowth(error, amount, cap)


def bits(many: int) -> dict[str, int]:
    return dict.fromkeys("abcdefgh"[:many], 2)


@pytest.mark.parametrize("rate", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_a_pair_with_a_large_score_is_measured_together(rate: NoiseRate):
    sizes = dict.fromkeys("abcd", 9)
    tables = growth(sizes, {("a", "c"): 9_000.0}, amount=1.0, paid=0.3, rate=rate).run()
    assert tables == (("a", "c"),)


def test_attributes_of_many_levels_that_do_not_depend_stay_apart():
    assert growth(dict.fromkeys("abcd", 9), {}).run() == ()


def test_attributes_of_two_levels_are_packed():
    tables = growth(bits(6), {}, paid=0.001).run()
    assert sorted(name for table in tables for name in table) == list("abcdef")


def test_what_is_in_groups_of_levels_is_not_packed():
    # The table of groups does not tell a one-way marginal whole.
    assert growth(bits(4), {}, paid=0.001, whole=dict.fromkeys("abcd", 9)).run() == ()


def test_many_scores_make_larger_tables_that_overlap_or_hold_all():
    scores = dict.fromkeys(combinations("abcdefgh", 2), 2_000.0)
    tables = growth(bits(8), scores).run()
    held = {pair for table in tables for pair in combinations(table, 2)}
    assert max(map(len, tables)) > 2
    assert len(held) > len(scores) / 2
    assert not any(set(one) < set(other) for one in tables for other in tables)


def test_the_score_that_counts_more_is_told():
    sizes, weights = dict.fromkeys("abcd", 9), np.ones((4, 4))
    weights[2, 3] = weights[3, 2] = 50.0
    scores = {("a", "b"): 1_500.0, ("c", "d"): 1_500.0}
    alike = growth(sizes, scores, amount=0.3, paid=0.1)
    assert alike.run() == (("a", "b"), ("c", "d"))
    weighed = growth(sizes, scores, amount=0.3, paid=0.1, weights=weights)
    assert weighed.run() == (("c", "d"),)


numbers = st.floats(0, 5_000)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=2, max_size=5),
    scores=st.lists(numbers, min_size=10, max_size=10),
    rate=st.sampled_from([EPSILON, RHO]),
)
def test_no_table_is_worth_taking_away(sizes: list[int], scores: list[float], rate: NoiseRate):
    names = dict(zip("abcde", sizes, strict=False))
    grown = growth(names, dict(zip(combinations(names, 2), scores, strict=False)), rate=rate)
    tables = grown.run()
    assert all(prod(names[one] for one in table) <= MAX_TABLE_CELLS for table in tables)
    error = grown.error.of(tables, grown.amount)
    for table in tables:
        others = [one for one in tables if one != table]
        assert error <= grown.error.of(others, grown.amount) * 1.03
    assert error <= grown.error.of((), grown.amount) * 1.001


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=3, max_size=5),
    scores=st.lists(numbers, min_size=10, max_size=10),
    rate=st.sampled_from([EPSILON, RHO]),
)
def test_errors_of_many_candidates_are_those_of_each(sizes, scores, rate):
    names = dict(zip("abcde", sizes, strict=False))
    grown = growth(names, dict(zip(combinations(names, 2), scores, strict=False)), rate=rate)
    chosen = grown._choose(grown._choose(grown._empty, ("a", "b")), ("b", "c"))
    for choice, count in ((grown._empty, 2), (chosen, 2), (chosen, 3)):
        candidates = list(combinations(names, count))
        trial = grown._try(choice, candidates)
        errors, shares = grown.error.minimise(trial.information, trial.shares, grown.amount, 12)
        singles = np.ones(len(names), dtype=bool)
        for place, (candidate, error) in enumerate(zip(candidates, errors, strict=True)):
            is_left = np.concatenate([~trial.inside[place], [True], singles])
            amounts = shares[place, is_left] * grown.amount
            expected = error_by_loops(grown.error, choice.with_table(candidate), amounts)
            assert error == pytest.approx(expected, rel=1e-9)


def test_a_pair_that_paths_predict_is_not_measured():
    sizes = dict.fromkeys("abcdef", 4)
    chain = {
        (a, b): 8_000.0 * 0.8 ** ("abcdef".index(b) - "abcdef".index(a) - 1)
        for a, b in combinations("abcdef", 2)
    }
    held = [
        {
            pair
            for table in growth(sizes, chain, amount=0.5, most=most).run()
            for pair in combinations(table, 2)
        }
        for most in (0.0, 10_000.0)
    ]
    assert len(held[1]) < len(held[0])


def test_the_search_does_not_depend_on_rounding_of_gains():
    # All pairs are alike: the first in order is taken.
    scores = dict.fromkeys(combinations("abcdef", 2), 900.0)
    names = dict.fromkeys("abcdef", 4)
    first = growth(names, scores, amount=0.4).run()
    again = growth(
        names, {pair: score * (1 + 1e-13) for pair, score in scores.items()}, amount=0.4
    ).run()
    assert first == again
    assert first[0][:2] == ("a", "b")


def test_no_clique_is_larger_than_allowed():
    scores = dict.fromkeys(combinations("abcdefgh", 2), 3_000.0)
    grown = growth(bits(8), scores, cap=8)
    assert grown.fits(grown.run())
    # All cliques together may have 32 cells, but no single one.
    assert not growth(bits(5), {}, cap=16).fits([tuple("abcde")])


def test_a_clique_above_the_cap_does_not_fit():
    triangle = [*combinations("abc", 2)]  # One clique of 27 cells.
    caps = {cap: growth(dict.fromkeys("abc", 3), {}, cap=cap).fits(triangle) for cap in (26, 27)}
    assert caps == {26: False, 27: True}


def test_all_tables_together_keep_to_twice_the_cap():
    scores = dict.fromkeys(combinations("abcdefgh", 2), 9_000.0)
    grown = growth(dict.fromkeys("abcdefgh", 4), scores, amount=9.0, cap=64)
    tables = grown.run()
    assert 0 < sum(4 ** len(table) for table in tables) <= 128
    assert grown.fits(tables)
    assert not grown.fits([*combinations("abcdefgh", 2)])


def test_another_process_finds_the_same_tables():
    code = (
        "from itertools import combinations\n"
        "from dp_pipeline_tests.inference.test_table_growth import growth\n"
        "sizes = dict.fromkeys('abcdefgh', 3)\n"
        "scores = {p: 900.0 + 7 * i for i, p in enumerate(combinations(sizes, 2))}\n"
        "print(growth(sizes, scores).run())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
