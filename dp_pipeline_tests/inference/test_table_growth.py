"""Tables are put together where the error of all pairs falls by it, and not elsewhere."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.shared_noise import SharedNoise
from dp_pipeline.inference.table_growth import FIRST_STEPS, MAX_CELLS, TableGrowth
from dp_pipeline.inference.table_sets import TableSearch
from dp_pipeline.results.measurement import NoiseRate
from dp_pipeline_tests.inference.test_shared_noise import error as error_of

ROWS = 10_000.0
EPSILON, RHO = NoiseRate(concentrated=False, distance=1), NoiseRate(concentrated=True, distance=1)

Gaps = dict[tuple[str, str], float]


def growth(
    sizes: dict[str, int],
    gaps: Gaps,
    *,
    amount: float = 0.1,
    before: float = 0.03,
    rate: NoiseRate = EPSILON,
    whole: dict[str, int] | None = None,
    weights: np.ndarray | None = None,
    cap: int = 1 << 16,
) -> TableGrowth:
    """Over attributes with so many groups, of as many levels where ``whole`` says nothing else."""
    depends = Dependence.of(sizes, gaps)
    search = TableSearch(sizes, depends, amount, rate, ROWS, cap, 2 * cap, 2.0, weights=weights)
    paid = dict.fromkeys(sizes, before)
    noise = SharedNoise(whole or sizes, sizes, paid, depends.gaps, rate, weights)
    return TableGrowth(search, noise, amount)


def bits(many: int) -> dict[str, int]:
    return dict.fromkeys("abcdefgh"[:many], 2)


@pytest.mark.parametrize("rate", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_a_pair_with_a_large_gap_is_measured_together(rate: NoiseRate) -> None:
    sizes = dict.fromkeys("abcd", 9)
    tables = growth(sizes, {("a", "c"): 9_000.0}, amount=1.0, before=0.3, rate=rate).run()
    assert tables == (("a", "c"),)


def test_attributes_of_many_levels_that_do_not_depend_stay_apart() -> None:
    assert growth(dict.fromkeys("abcd", 9), {}).run() == ()


def test_attributes_of_two_levels_are_packed() -> None:
    tables = growth(bits(6), {}, before=0.001).run()
    assert sorted(name for table in tables for name in table) == list("abcdef")


def test_what_is_in_groups_of_levels_is_not_packed() -> None:
    # The table of groups does not tell a one-way marginal whole.
    assert growth(bits(4), {}, before=0.001, whole=dict.fromkeys("abcd", 9)).run() == ()


def test_many_gaps_make_larger_tables_that_overlap_or_hold_all() -> None:
    gaps = dict.fromkeys(combinations("abcdefgh", 2), 2_000.0)
    tables = growth(bits(8), gaps).run()
    held = {pair for table in tables for pair in combinations(table, 2)}
    assert max(map(len, tables)) > 2
    assert len(held) > len(gaps) / 2
    assert not any(set(one) < set(other) for one in tables for other in tables)


def test_the_gap_that_counts_more_is_told() -> None:
    sizes, weights = dict.fromkeys("abcd", 9), np.ones((4, 4))
    weights[2, 3] = weights[3, 2] = 50.0
    gaps = {("a", "b"): 1_500.0, ("c", "d"): 1_500.0}
    alike = growth(sizes, gaps, amount=0.3, before=0.1)
    assert alike.run() == (("a", "b"), ("c", "d"))
    weighed = growth(sizes, gaps, amount=0.3, before=0.1, weights=weights)
    assert weighed.run() == (("c", "d"),)


few = settings(derandomize=True, deadline=None, max_examples=40)
numbers = st.floats(0, 5_000)


@few
@given(
    sizes=st.lists(st.integers(2, 6), min_size=2, max_size=5),
    gaps=st.lists(numbers, min_size=10, max_size=10),
    rate=st.sampled_from([EPSILON, RHO]),
)
def test_no_table_is_worth_taking_away(
    sizes: list[int], gaps: list[float], rate: NoiseRate
) -> None:
    names = dict(zip("abcde", sizes, strict=False))
    grown = growth(names, dict(zip(combinations(names, 2), gaps, strict=False)), rate=rate)
    tables = grown.run()
    assert all(grown.search.cells(table) <= MAX_CELLS for table in tables)
    # The error of ``SharedNoise``, which is that of the tables of a release.
    alone = grown.noise.error((), grown.amount)
    assert grown.noise.error(tables, grown.amount) <= alone * 1.001


@few
@given(
    sizes=st.lists(st.integers(2, 6), min_size=3, max_size=5),
    gaps=st.lists(numbers, min_size=10, max_size=10),
    rate=st.sampled_from([EPSILON, RHO]),
)
def test_errors_of_many_candidates_are_those_of_each(
    sizes: list[int], gaps: list[float], rate: NoiseRate
) -> None:
    names = dict(zip("abcde", sizes, strict=False))
    grown = growth(names, dict(zip(combinations(names, 2), gaps, strict=False)), rate=rate)
    candidates = list(combinations(names, 2))
    tried, _ = grown._tried([], grown._alone, candidates)
    errors, shares = grown._settled(tried, FIRST_STEPS)
    for candidate, error, share in zip(candidates, errors, shares, strict=True):
        expected = error_of(grown.noise, [candidate], share * grown.amount)
        assert error == pytest.approx(expected, rel=1e-9)


def test_the_search_does_not_depend_on_rounding_of_gains() -> None:
    # All pairs are alike: the first in order is taken.
    gaps = dict.fromkeys(combinations("abcdef", 2), 900.0)
    names = dict.fromkeys("abcdef", 4)
    first = growth(names, gaps, amount=0.4).run()
    again = growth(names, {pair: gap * (1 + 1e-13) for pair, gap in gaps.items()}, amount=0.4).run()
    assert first == again
    assert first[0][:2] == ("a", "b")


def test_no_clique_is_larger_than_allowed() -> None:
    gaps = dict.fromkeys(combinations("abcdefgh", 2), 3_000.0)
    grown = growth(bits(8), gaps, cap=8)
    assert grown.search.fits(grown.run())
