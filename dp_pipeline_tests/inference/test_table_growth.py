"""Tables are put together where the error of all pairs falls by it, and not elsewhere."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from math import inf, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.expected_error import ExpectedError
from dp_pipeline.inference.table_growth import COVERING_GAIN, MAX_TABLE_CELLS, TableGrowth
from dp_pipeline.inference.views import covering_design
from dp_pipeline.results.measurement import NoiseRate
from dp_pipeline_tests.inference.test_expected_error import EPSILON, RHO, error_by_loops

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
    names = tuple(sizes)
    symmetric = np.zeros((len(sizes), len(sizes)))
    for pair, score in scores.items():
        i, j = map(names.index, pair)
        symmetric[i, j] = symmetric[j, i] = score
    dependence = Dependence(names, symmetric, np.full(symmetric.shape, most))
    known = dict.fromkeys(sizes, paid)
    return TableGrowth(
        ExpectedError(whole or sizes, sizes, known, dependence, rate, weights), amount, cap
    )


def bits(many: int) -> dict[str, int]:
    return dict.fromkeys("abcdefgh"[:many], 2)


@pytest.mark.parametrize("rate", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_a_pair_with_a_large_score_is_measured_together(rate: NoiseRate):
    sizes = dict.fromkeys("abcd", 9)
    tables = growth(sizes, {("a", "c"): 9_000.0}, amount=1.0, paid=0.3, rate=rate).run()
    assert tables == (("a", "c"),)


def test_attributes_of_two_levels_are_packed():
    assert growth(dict.fromkeys("abcd", 9), {}).run() == ()
    tables = growth(bits(6), {}, paid=0.001).run()
    assert sorted(name for table in tables for name in table) == list("abcdef")
    # The table of groups does not tell a one-way marginal whole.
    assert growth(bits(4), {}, paid=0.001, whole=dict.fromkeys("abcd", 9)).run() == ()


def test_many_scores_make_larger_tables_that_overlap_or_hold_all():
    scores = dict.fromkeys(combinations("abcdefgh", 2), 2_000.0)
    tables = growth(bits(8), scores).run()
    held = {pair for table in tables for pair in combinations(table, 2)}
    assert max(map(len, tables)) > 2
    assert len(held) > len(scores) / 2
    assert not any(set(one) < set(other) for one in tables for other in tables)


def test_the_pair_that_counts_more_is_measured():
    sizes, weights = dict.fromkeys("abcd", 9), np.ones((4, 4))
    weights[2, 3] = weights[3, 2] = 50.0
    scores = {("a", "b"): 1_500.0, ("c", "d"): 1_500.0}
    alike = growth(sizes, scores, amount=0.3, paid=0.1)
    assert alike.run() == (("a", "b"), ("c", "d"))
    weighed = growth(sizes, scores, amount=0.3, paid=0.1, weights=weights)
    assert weighed.run() == (("c", "d"),)


@st.composite
def growths(draw: st.DrawFn) -> TableGrowth:
    """Three to five attributes with any scores."""
    names = {name: draw(st.integers(2, 6)) for name in "abcde"[: draw(st.integers(3, 5))]}
    scores = {pair: draw(st.floats(0, 5_000)) for pair in combinations(names, 2)}
    return growth(names, scores, rate=draw(st.sampled_from([EPSILON, RHO])))


@settings(max_examples=40)
@given(grown=growths())
def test_no_table_is_worth_taking_away(grown: TableGrowth):
    tables, sizes = grown.run(), grown.error.sizes
    assert all(prod(sizes[name] for name in table) <= MAX_TABLE_CELLS for table in tables)
    error = grown.error.least_error(tables, grown.amount)
    for table in tables:
        others = [each for each in tables if each != table]
        assert error <= grown.error.least_error(others, grown.amount) * 1.03
    assert error <= grown.error.least_error((), grown.amount) * 1.001


@settings(max_examples=40)
@given(grown=growths())
def test_errors_of_many_candidates_are_those_of_each(grown: TableGrowth):
    names = list(grown.error.sizes)
    chosen = grown._choose(grown._choose(grown._empty, ("a", "b")), ("b", "c"))
    for choice, count in ((grown._empty, 2), (chosen, 2), (chosen, 3)):
        candidates = list(combinations(names, count))
        trial = grown._try_candidates(choice, candidates)
        errors, shares = grown.error.minimise(trial.information, trial.shares, grown.amount, 12)
        singles = np.ones(len(names), dtype=bool)
        for place, (candidate, error) in enumerate(zip(candidates, errors, strict=True)):
            is_left = np.concatenate([~trial.inside[place], [True], singles])
            amounts = shares[place, is_left] * grown.amount
            expected = error_by_loops(grown.error, choice.tables_with(candidate), amounts)
            assert error == pytest.approx(expected, rel=1e-9)


def test_a_pair_that_paths_predict_is_not_measured():
    names, held = "abcdef", []
    chain = {(a, b): 8e3 * 0.8 ** (ord(b) - ord(a) - 1) for a, b in combinations(names, 2)}
    for most in (0.0, 10_000.0):
        tables = growth(dict.fromkeys(names, 4), chain, amount=0.5, most=most).run()
        held.append({pair for table in tables for pair in combinations(table, 2)})
    assert len(held[1]) < len(held[0])


def test_the_search_does_not_depend_on_rounding_of_gains():
    # All pairs are alike: the first in order is taken.
    names, pairs = dict.fromkeys("abcdef", 4), list(combinations("abcdef", 2))
    first, again = (
        growth(names, dict.fromkeys(pairs, 900.0 * factor), amount=0.4).run()
        for factor in (1, 1 + 1e-13)
    )
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
    for cap, fits in ((26, False), (27, True)):
        assert growth(dict.fromkeys("abc", 3), {}, cap=cap).fits(triangle) is fits


def test_all_tables_together_keep_to_twice_the_cap():
    scores = dict.fromkeys(combinations("abcdefgh", 2), 9_000.0)
    grown = growth(dict.fromkeys("abcdefgh", 4), scores, amount=9.0, cap=64)
    tables = grown.run()
    assert 0 < sum(4 ** len(table) for table in tables) <= 128
    assert grown.fits(tables)
    assert not grown.fits([*combinations("abcdefgh", 2)])


@pytest.mark.parametrize(("rate", "little"), [(EPSILON, 0.06), (RHO, 1e-4)])
def test_pairs_outside_the_tree_are_covered_without_noise(rate: NoiseRate, little: float):
    sizes = dict.fromkeys("abcdefgh", 3)
    scores = dict.fromkeys(combinations(sizes, 2), 3_000.0)
    for amount, is_covered in ((little, False), (500.0, True)):
        search = growth(sizes, scores, amount=amount, rate=rate, cap=243)
        in_tree, tables = search.run(), replace(search, needs_tree=False).run()
        held = {pair for table in tables for pair in combinations(table, 2)}
        assert search.fits(in_tree)
        assert (held == set(scores)) is is_covered
        assert (tables == in_tree) is not is_covered
    errors = [search.error.least_error(each, search.amount) for each in (tables, in_tree)]
    assert errors[0] < COVERING_GAIN * errors[1]


def test_the_first_of_equal_covering_designs_is_taken():
    # The errors of two designs differ by rounding alone, and that of the first is larger.
    sizes = {"a": 3, "b": 3, "c": 3, "d": 3, "e": 2}
    search = growth(sizes, dict.fromkeys(combinations(sizes, 2), 3_000.0), amount=500.0, cap=128)
    views = replace(search, needs_tree=False)._covering(inf)
    designs = {covering_design(sizes, most_cells=1 << b, most_attributes=5) for b in range(2, 8)}
    least = search.error.least_error(views, search.amount)
    errors = {each: search.error.least_error(each, search.amount) for each in designs}
    equal = [each for each, error in errors.items() if error == pytest.approx(least, rel=1e-12)]
    assert len(equal) == 2
    assert views == min(equal)


def test_no_covering_design_has_a_table_above_the_limit():
    sizes = {"a": 40, "b": 40} | dict.fromkeys("cdefgh", 3)
    scores = dict.fromkeys(combinations(sizes, 2), 3_000.0)
    search = replace(growth(sizes, scores, amount=1e4, cap=1 << 14), needs_tree=False)
    assert max(prod(sizes[name] for name in table) for table in search.run()) <= MAX_TABLE_CELLS


def test_another_process_finds_the_same_tables():
    code = (
        "from itertools import combinations\n"
        "from dp_pipeline_tests.inference.test_table_growth import growth\n"
        "sizes = dict.fromkeys('abcdefgh', 3)\n"
        "scores = {p: 900.0 + 7 * i for i, p in enumerate(combinations(sizes, 2))}\n"
        "print(growth(sizes, scores).run())"
    )
    first, again = (
        subprocess.check_output(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    )
    assert first == again
