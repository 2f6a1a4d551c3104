"""Each score moves by no more than it says, and the fuzz catches those that move further."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.scores import (
    UNIT,
    DependenceScore,
    FScore,
    Independence,
    MutualInformation,
    Purity,
)

Table = NDArray[np.int64]
SHAPE = (3, 4)
LEFT, RIGHT = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])
GAP = DependenceScore.of_product(1000.3, LEFT, RIGHT)
FLAT = DependenceScore(np.zeros(SHAPE, np.int64))

cells = st.integers(0, math.prod(SHAPE) - 1)
KINDS = ("empty", "outlier", "sparse", "equal", "any")


def some_table(uniform: np.random.Generator) -> Table:
    """Empty, one outlier cell, sparse, all equal, or anything, of one order of magnitude.

    By a generator of numbers: hypothesis' own large integers are mostly small or round, and a
    score that rounds goes wrong on numbers that are neither.
    """
    table = np.zeros(math.prod(SHAPE), np.int64)
    counts = uniform.integers(0, 2 ** int(uniform.integers(49)) + 1, table.size)
    match KINDS[uniform.integers(len(KINDS))]:
        case "outlier":
            table[uniform.integers(table.size)] = counts[0]
        case "sparse":
            table = counts * (uniform.random(table.size) < 0.3)
        case "equal":
            table[:] = counts[0]
        case "any":
            table = counts
    return table.reshape(SHAPE)


tables = st.integers(0, 2**32).map(lambda seed: some_table(np.random.default_rng(seed)))


def some_person(uniform: np.random.Generator) -> list[int]:
    """One row, several duplicates of one row, or rows all over the table."""
    rows = uniform.integers(0, math.prod(SHAPE), int(uniform.integers(1, 6)))
    return (rows[:1], rows * 0 + rows[0], rows)[uniform.integers(3)].tolist()


def with_rows(table: Table, rows: list[int]) -> Table:
    return table + np.bincount(rows, minlength=table.size).reshape(table.shape)


@pytest.mark.parametrize(
    "score", [GAP, FLAT, Independence(), Purity()], ids=["gap", "flat", "independence", "purity"]
)
def test_one_person_moves_a_score_by_at_most_its_linf(score) -> None:
    for seed in range(1000):
        uniform = np.random.default_rng(seed)
        table, person = some_table(uniform), some_person(uniform)
        moved = abs(score.score(with_rows(table, person)) - score.score(table))
        assert moved <= score.linf(len(person)), (seed, table, person)


def small_tables(shape: tuple[int, int], most: int) -> list[Table]:
    every = itertools.product(range(most + 1), repeat=math.prod(shape))
    return [np.array(cells).reshape(shape) for cells in every]


@pytest.mark.parametrize(("shape", "most"), [((1, 1), 9), ((2, 2), 4), ((2, 3), 2)])
def test_all_small_tables_and_all_added_rows_stay_within_linf(shape, most):
    gap = DependenceScore.of_product(
        3.7, np.full(shape[0], 1 / shape[0]), np.full(shape[1], 1 / shape[1])
    )
    for score in (Independence(), Purity(), gap):
        for table, cell in itertools.product(small_tables(shape, most), range(math.prod(shape))):
            moved = abs(score.score(with_rows(table, [cell])) - score.score(table))
            assert moved <= score.linf(1)


def exact_independence(table: Table) -> Fraction:
    """½ Σ |c_ij − r_i c_j / n|, term by term."""
    n = sum(map(int, table.ravel()))
    rows, columns = ([sum(map(int, line)) for line in lines] for lines in (table, table.T))
    terms = (
        abs(int(table[i, j]) - Fraction(rows[i] * columns[j], n))
        for i, j in np.ndindex(*table.shape)
    )
    return sum(terms, Fraction(0)) / 2 if n else Fraction(0)


@given(tables)
def test_independence_is_its_formula_rounded_down(table: Table) -> None:
    assert Independence().score(table) == math.floor(UNIT * exact_independence(table))


def exact_purity(table: Table) -> Fraction:
    """½ Σ_g Σ_y n_gy² / n_g, term by term."""
    columns = [list(map(int, column)) for column in table.T]
    shares = (Fraction(sum(n * n for n in cell), 2 * sum(cell)) for cell in columns if any(cell))
    return sum(shares, Fraction(0))


@given(tables)
def test_purity_is_its_formula_rounded_down_in_every_cell(table: Table) -> None:
    cells = [exact_purity(table[:, [index]]) for index in range(table.shape[1])]
    assert Purity().score(table) == sum(math.floor(UNIT * cell) for cell in cells)


@given(tables)
def test_the_gap_is_its_formula_beyond_64_bits_too(table: Table) -> None:
    wide = DependenceScore(np.where(np.arange(12).reshape(SHAPE) % 5 == 0, GAP.expected, 1 << 61))
    for gap in (GAP, wide):
        pairs = zip(table.ravel().tolist(), gap.expected.ravel().tolist(), strict=True)
        assert gap.score(table) == sum(abs(UNIT * c - e) for c, e in pairs)


def test_a_score_of_many_parents_is_that_of_one_axis() -> None:
    counts = np.random.default_rng(1).integers(0, 9, (2, 3, 2))
    flat, rows = counts.reshape(2, 6), int(counts.sum())
    known = FScore(), MutualInformation(rows), MutualInformation(rows, True)
    for score in (Independence(), Purity(), *known):
        assert score.score(counts) == score.score(flat)
    assert Independence().score(np.zeros((0, 5), np.int64)) == 0
    alone = counts.sum(axis=(1, 2))
    assert [score.score(alone) for score in (Independence(), MutualInformation(rows))] == [0, 0]


def replaced(table: Table) -> Iterator[Table]:
    """The table with any one row replaced by any other."""
    for gone, come in itertools.permutations(range(table.size), 2):
        if table.flat[gone]:
            other = table.copy()
            other.flat[gone] -= 1
            other.flat[come] += 1
            yield other


def with_so_many_rows(shape: tuple[int, ...], rows: int) -> Iterator[Table]:
    """Every table of this shape with so many rows."""
    for bars in itertools.combinations(range(rows + math.prod(shape) - 1), math.prod(shape) - 1):
        edges = (-1, *bars, rows + math.prod(shape) - 1)
        counts = [b - a - 1 for a, b in itertools.pairwise(edges)]
        yield np.array(counts).reshape(shape)


OF_BINARY = lambda rows: MutualInformation(rows, binary=True)  # noqa: E731


@pytest.mark.parametrize("rows", range(7))
@pytest.mark.parametrize(
    ("shape", "score_of"),
    [
        ((2, 2), OF_BINARY),
        ((3, 2), OF_BINARY),
        ((2, 2), MutualInformation),
        ((3, 3), MutualInformation),
        ((2, 3), lambda _: FScore()),
        ((2, 1), lambda _: FScore()),
    ],
)
def test_replaced_rows_of_small_tables_stay_within_linf(shape, score_of, rows):
    score = score_of(rows if shape != (3, 3) else rows // 2)
    for table in with_so_many_rows(shape, rows if shape != (3, 3) else rows // 2):
        for other in replaced(table):
            assert abs(score.score(other) - score.score(table)) <= score.linf(2)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("rows", [2, 3, 50, 1001, 2**20])
def test_the_bound_of_mutual_information_is_reached(binary: bool, rows: int) -> None:
    # Binary: one row in a place of its own. General: halves that meet in one place.
    first, second = np.zeros((3, 3), np.int64), np.zeros((3, 3), np.int64)
    if binary:
        first[0, 0] = rows
        second[[0, 1], [0, 1]] = rows - 1, 1
        first, second = first[:2, :2], second[:2, :2]
    else:
        half = (rows - 1) // 2
        first[[0, 2, 2], [2, 0, 2]] = half, rows - half - 1, 1
        second[[0, 2, 1], [2, 0, 1]] = half, rows - half - 1, 1
    score = MutualInformation(rows, binary)
    moved = abs(score.score(second) - score.score(first))
    assert moved <= score.linf(2)
    if binary:
        assert moved >= score.linf(2) - 20


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("rows", [2, 3, 50, 1001, 2**20])
def test_mutual_information_pays_for_every_rounding(binary: bool, rows: int) -> None:
    # Nine units: twelve values of f that are rounded, and Δ itself, which is computed in floats.
    change = (rows - 1) * math.log2(rows / (rows - 1))
    formula = math.log2(rows) + change
    if not binary:
        change = (rows - 1) * math.log2((rows + 1) / (rows - 1))
        formula = 2 * math.log2((rows + 1) / 2) + change
    paid = MutualInformation(rows, binary).linf(2)
    assert UNIT * formula + 9 - 1e-3 <= paid < UNIT * formula + 10 + 1e-3


@given(table=tables, moves=st.tuples(cells, cells), seed=st.integers(0, 99))
def test_one_replaced_row_of_a_large_table_stays_within_linf(table, moves, seed):
    gone, come = moves
    many = np.random.default_rng(seed).integers(0, 2**20, 8).reshape(2, 4)
    for counts in (table % 2**20, many):
        before = counts.copy()
        before.flat[gone % before.size] += 1
        after = counts.copy()
        after.flat[come % after.size] += 1
        rows = int(before.sum())
        for score in (MutualInformation(rows), MutualInformation(rows, len(counts) == 2), FScore()):
            if isinstance(score, FScore) and (len(counts) != 2 or rows > 2**16):
                continue
            assert abs(score.score(after) - score.score(before)) <= score.linf(2)


def mutual_information_in_bits(table: Table) -> float:
    shares = table / table.sum()
    product = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    seen = shares > 0
    return float((shares[seen] * np.log2(shares[seen] / product[seen])).sum())


def test_mutual_information_is_its_formula() -> None:
    for seed in range(20):
        table = np.random.default_rng(seed).integers(0, 5000, SHAPE)
        rows = int(table.sum())
        expected = rows * mutual_information_in_bits(table)
        assert MutualInformation(rows).score(table) / UNIT == pytest.approx(expected, abs=1e-3)


def f_by_all_partitions(table: Table) -> int:
    """−½ Σ of what is missing, at the best place for every cell of the parents."""
    n = int(table.sum())
    sides = map(np.array, itertools.product((0, 1), repeat=table.shape[1]))
    sums = [[int(table[level, side == level].sum()) for level in (0, 1)] for side in sides]
    return -UNIT // 2 * min(sum(max(0, n - 2 * rows) for rows in pair) for pair in sums)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=7))
def test_f_is_the_best_of_all_partitions(columns: list[tuple[int, int]]) -> None:
    table = np.array(columns).T
    assert FScore().score(table) == f_by_all_partitions(table)


def test_the_gap_to_a_released_product_is_counted_by_hand() -> None:
    gap = DependenceScore.of_product(8, [0.5, 0.5], [0.25, 0.75])  # 1 3 1 3
    assert gap.score(np.array([[1, 3], [0, 5]])) == 3 * UNIT


def test_expected_counts_are_a_read_only_copy() -> None:
    released = np.ones((2, 2), np.int64)
    gap = DependenceScore(released)
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
        lambda: DependenceScore(np.zeros(SHAPE)),
        lambda: DependenceScore.of_product(math.nan, [1.0], [1.0]),
        lambda: DependenceScore.of_product(math.inf, [1.0], [0.0]),
        lambda: DependenceScore.of_product(2.0**47, [1.0], [1.0]),
        lambda: GAP.linf(0),
        *(
            partial(score.score, table)
            for score in (Independence(), Purity())
            for table in (np.array(4), np.array([[1, -1]]), np.array([[0.5]]))
        ),
        lambda: Independence().linf(True),
        lambda: Purity().linf(0),
        lambda: Independence().linf(1.0),
        lambda: MutualInformation(-1),
        lambda: MutualInformation(2**24 + 1),
        lambda: MutualInformation(4.0),
        lambda: MutualInformation(5).score(np.array([[1, 3]])),
        lambda: MutualInformation(9, binary=True).score(np.eye(3, dtype=np.int64) * 3),
        lambda: MutualInformation(9).linf(1),
        lambda: MutualInformation(9).linf(4),
        lambda: FScore().score(np.ones((3, 2), np.int64)),
        lambda: FScore().linf(1),
    ],
)
def test_what_the_proof_is_not_about_is_refused(ask: Callable[[], int]) -> None:
    with pytest.raises(BoundaryViolation, match=r"must|needs"):
        ask()
