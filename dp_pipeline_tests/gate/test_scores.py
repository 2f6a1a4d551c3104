"""Each score moves by no more than it says, and the fuzz catches those that move further."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dp_pipeline.gate.scores import UNIT, Gap, Independence
from dp_pipeline.schema.errors import BoundaryViolation

Table = NDArray[np.int64]
SHAPE = (3, 4)
LEFT, RIGHT = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])
GAP = Gap.of_product(1000.3, LEFT, RIGHT)
FLAT = Gap(np.zeros(SHAPE, np.int64))

cells = st.integers(0, math.prod(SHAPE) - 1)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Empty, one outlier cell, sparse, all equal, or anything, of one order of magnitude.

    The counts come from a drawn seed: hypothesis' own large integers are mostly small or round,
    and a score that rounds goes wrong on numbers that are neither.
    """
    table = np.zeros(math.prod(SHAPE), np.int64)
    uniform = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = uniform.integers(0, 2 ** draw(st.sampled_from(range(49))) + 1, table.size)
    match draw(st.sampled_from(["empty", "outlier", "sparse", "equal", "any"])):
        case "outlier":
            table[draw(cells)] = counts[0]
        case "sparse":
            table = counts * (uniform.random(table.size) < 0.3)
        case "equal":
            table[:] = counts[0]
        case "any":
            table = counts
    return table.reshape(SHAPE)


# One person: one row, several duplicates of one row, or rows all over the table.
persons = st.one_of(
    st.lists(cells, min_size=1, max_size=1),
    st.builds(lambda cell, rows: [cell] * rows, cells, st.integers(1, 5)),
    st.lists(cells, min_size=1, max_size=5),
)


def with_rows(table: Table, rows: list[int]) -> Table:
    return table + np.bincount(rows, minlength=table.size).reshape(table.shape)


def fuzz(score: Callable[[Table], int], linf: Callable[[int], int]) -> None:
    """Fail if any person found moves the score by more than it says."""

    # Without the shrinking of failures: a mutant needs to be caught, not to be explained.
    @settings(
        derandomize=True,
        deadline=None,
        max_examples=1000,
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )
    @given(table=tables(), person=persons)
    def moves_by_at_most_linf(table: Table, person: list[int]) -> None:
        moved = abs(score(with_rows(table, person)) - score(table))
        assert moved <= linf(len(person))

    moves_by_at_most_linf()


@pytest.mark.parametrize("score", [GAP, FLAT, Independence()], ids=["gap", "flat", "independence"])
def test_one_person_moves_a_score_by_at_most_its_linf(score) -> None:
    fuzz(score.score, score.linf)


# Wrong scores.


def independence_in_floats(dtype: type) -> Callable[[Table], int]:
    """U without Python integers."""

    def score(table: Table) -> int:
        wide = table.astype(dtype)
        n = wide.sum()
        product = np.outer(wide.sum(axis=1), wide.sum(axis=0))
        return int(UNIT * np.abs(n * wide - product).sum() // (2 * n)) if n else 0

    return score


def independence_rounded_in_each_cell(table: Table) -> int:
    wide = table.astype(object)
    n = int(wide.sum())
    product = np.outer(wide.sum(axis=1), wide.sum(axis=0))
    return int(UNIT * np.abs(wide - product // n).sum()) // 2 if n else 0


def gap_in_float32(table: Table) -> int:
    expected = GAP.expected.astype(np.float32)
    return int(np.abs(np.float32(UNIT) * table.astype(np.float32) - expected).sum())


def gap_from_the_true_row_count(table: Table) -> int:
    return Gap.of_product(float(table.sum()), LEFT, RIGHT).score(table)


def gap_of_shares_of_the_largest(table: Table) -> int:
    return GAP.score(1000 * table // max(int(table.max()), 1))


def independence_of_shares_of_the_largest(table: Table) -> int:
    return Independence().score(1000 * table // max(int(table.max()), 1))


def independence_without_dividing(table: Table) -> int:
    return Independence().score(table) * int(table.sum())


WRONG_SCORES = {
    "U in float32": (independence_in_floats(np.float32), Independence().linf),
    "U in float64": (independence_in_floats(np.float64), Independence().linf),
    "U rounded in each cell": (independence_rounded_in_each_cell, Independence().linf),
    "U as shares of the largest": (independence_of_shares_of_the_largest, Independence().linf),
    "U without dividing by n": (independence_without_dividing, Independence().linf),
    "U claims 1.9 in place of 2": (Independence().score, lambda rows: 19 * UNIT * rows // 10),
    "U forgets the rows of a person": (Independence().score, lambda _: Independence().linf(1)),
    "G in float32": (gap_in_float32, GAP.linf),
    "G with the true row count": (gap_from_the_true_row_count, GAP.linf),
    "G as shares of the largest": (gap_of_shares_of_the_largest, GAP.linf),
    "G claims one unit less": (GAP.score, lambda rows: UNIT * rows - 1),
    "G forgets the rows of a person": (GAP.score, lambda _: GAP.linf(1)),
}


@pytest.mark.parametrize("wrong", WRONG_SCORES.values(), ids=WRONG_SCORES.keys())
def test_a_score_that_moves_further_than_it_says_is_caught(wrong) -> None:
    with pytest.raises(AssertionError):
        fuzz(*wrong)


# By brute force, and against the formula.


def small_tables(shape: tuple[int, int], most: int) -> list[Table]:
    every = itertools.product(range(most + 1), repeat=math.prod(shape))
    return [np.array(cells).reshape(shape) for cells in every]


@pytest.mark.parametrize(("shape", "most"), [((1, 1), 9), ((2, 2), 4), ((2, 3), 2)])
def test_all_small_tables_and_all_added_rows_stay_within_linf(
    shape: tuple[int, int], most: int
) -> None:
    gap = Gap.of_product(3.7, np.full(shape[0], 1 / shape[0]), np.full(shape[1], 1 / shape[1]))
    for score in (Independence(), gap):
        for table, cell in itertools.product(small_tables(shape, most), range(math.prod(shape))):
            moved = abs(score.score(with_rows(table, [cell])) - score.score(table))
            assert moved <= score.linf(1)


def test_brute_force_finds_two_n_over_n_plus_one_for_independence() -> None:
    for n in range(1, 6):
        worst = max(
            abs(exact_independence(with_rows(table, [cell])) - exact_independence(table))
            for table in small_tables((2, 2), n)
            if table.sum() == n
            for cell in range(4)
        )
        assert worst == Fraction(2 * n, n + 1)


def exact_independence(table: Table) -> Fraction:
    """½ Σ |c_ij − r_i c_j / n|, term by term."""
    n = sum(map(int, table.ravel()))
    rows, columns = ([sum(map(int, line)) for line in lines] for lines in (table, table.T))
    terms = (
        abs(int(table[i, j]) - Fraction(rows[i] * columns[j], n))
        for i, j in np.ndindex(*table.shape)
    )
    return sum(terms, Fraction(0)) / 2 if n else Fraction(0)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(tables())
def test_independence_is_its_formula_rounded_down_whatever_the_size(table: Table) -> None:
    assert Independence().score(table) == math.floor(UNIT * exact_independence(table))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(tables())
def test_the_gap_is_its_formula(table: Table) -> None:
    pairs = zip(table.ravel().tolist(), GAP.expected.ravel().tolist(), strict=True)
    assert GAP.score(table) == sum(abs(UNIT * c - e) for c, e in pairs)


def test_nothing_depends_on_nothing_and_one_row_on_nothing() -> None:
    empty = np.zeros((2, 2), np.int64)
    scores = [Independence().score(table) for table in (empty, with_rows(empty, [3]))]
    assert [*scores, Independence().score(np.zeros((0, 5), np.int64))] == [0, 0, 0]


def test_independent_columns_score_nothing_and_equal_columns_score_high() -> None:
    independent = np.outer([1, 2], [3, 4])
    equal = np.diag([2**18, 2**18])
    assert Independence().score(independent) == 0
    assert Independence().score(equal) == 2**18 * UNIT


def test_the_gap_to_a_released_product_is_counted_by_hand() -> None:
    gap = Gap.of_product(8, [0.5, 0.5], [0.25, 0.75])  # 1 3 1 3
    assert gap.score(np.array([[1, 3], [0, 5]])) == 3 * UNIT


def test_what_is_expected_is_a_copy_that_nobody_can_change() -> None:
    released = np.ones((2, 2), np.int64)
    gap = Gap(released)
    released[0, 0] = 9
    assert gap.expected.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        gap.expected[0, 0] = 9


@pytest.mark.parametrize(
    "ask",
    [
        lambda: GAP.score(np.zeros((4, 3), np.int64)),
        lambda: GAP.score(np.zeros(SHAPE)),
        lambda: GAP.score(np.full(SHAPE, -1)),
        lambda: Gap(np.zeros(SHAPE)),
        lambda: Gap.of_product(math.nan, [1.0], [1.0]),
        lambda: Gap.of_product(math.inf, [1.0], [0.0]),
        lambda: Gap.of_product(2.0**47, [1.0], [1.0]),
        lambda: GAP.linf(0),
        lambda: Independence().score(np.zeros(4, np.int64)),
        lambda: Independence().score(np.array([[1, -1]])),
        lambda: Independence().score(np.array([[0.5]])),
        lambda: Independence().linf(True),
        lambda: Independence().linf(1.0),
    ],
)
def test_what_the_proof_is_not_about_is_refused(ask: Callable[[], int]) -> None:
    with pytest.raises(BoundaryViolation, match="expected"):
        ask()
