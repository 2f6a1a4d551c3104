"""Noisy tables that overlap: what least squares says of all of them together, part by part."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.consistency import TableEstimate, reconcile_tables, variance_of
from dp_pipeline.results.measurement import NoisyMarginal

Case = tuple[list[TableEstimate], dict[str, int]]


@st.composite
def overlapping(draw: st.DrawFn) -> Case:
    """Tables of up to four attributes, in any order of their axes, some of them twice."""
    sizes = {name: draw(st.integers(1, 3)) for name in "abcd"[: draw(st.integers(1, 4))]}
    axes = st.lists(st.sampled_from(sorted(sizes)), unique=True).map(tuple)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    measured = []
    for names in draw(st.lists(axes, min_size=1, max_size=6)):
        table = rng.normal(5, 20, [sizes[name] for name in names])
        measured.append(TableEstimate(names, table, draw(st.sampled_from([0.01, 1.0, 30.0]))))
    return measured, sizes


def summing(names: tuple[str, ...], sizes: dict[str, int]) -> np.ndarray:
    """The matrix from all cells over ``sizes`` to those over ``names``."""
    cells = list(product(*map(range, sizes.values())))
    matrix = np.zeros([*(sizes[name] for name in names), len(cells)])
    for at, cell in enumerate(cells):
        here = dict(zip(sizes, cell, strict=True))
        matrix[(*(here[name] for name in names), at)] = 1
    return matrix.reshape(-1, len(cells))


def least_squares(measured: list[TableEstimate], sizes: dict[str, int]) -> np.ndarray:
    """Cells of one table over everything, the weighted squares of whose errors are least."""
    matrix = np.vstack([summing(t.attributes, sizes) / t.variance**0.5 for t in measured])
    target = np.concatenate([t.table.ravel() / t.variance**0.5 for t in measured])
    return np.linalg.lstsq(matrix, target, rcond=None)[0]


def test_ten_thousand_levels_take_no_matrix_of_them():
    # By a dense basis that was 800 MB and minutes.
    table = np.zeros((10_000, 2))
    table[7, 1], ways = 40.0, np.full(10_000, 1.0)
    measured = [TableEstimate(("a", "b"), table, 1.0), TableEstimate(("a",), ways, 1e9)]
    rows, tables = reconcile_tables(measured, {"a": 10_000, "b": 2})
    assert rows == pytest.approx(40.0, abs=0.01)
    assert np.abs(tables["a", "b"] - table).max() < 1e-4


@given(case=overlapping())
def test_the_tables_are_those_of_least_squares(case: Case):
    measured, sizes = case
    cells = least_squares(measured, sizes)
    rows, tables = reconcile_tables(measured, sizes)
    assert rows == pytest.approx(cells.sum(), abs=1e-8)
    for names, table in tables.items():
        assert np.allclose(table.ravel(), summing(names, sizes) @ cells, atol=1e-8)
        assert names == tuple(name for name in sizes if name in names)
        assert table.shape == tuple(sizes[name] for name in names)
    outer, inner = set(map(frozenset, tables)), {frozenset(each.attributes) for each in measured}
    assert outer == {names for names in inner if not any(names < other for other in inner)}


def test_a_table_measured_twice_has_less_noise():
    table = np.zeros((2, 2))
    measured = [TableEstimate(("a", "b"), table, 6.0), TableEstimate(("b", "a"), table, 3.0)]
    wider = TableEstimate(("a", "b", "c"), np.zeros((2, 2, 2)), 1.0)
    assert variance_of(("a", "b"), [*measured, wider]) == pytest.approx(2)


def test_noisy_marginals_of_a_release_are_taken_as_they_are():
    ways = NoisyMarginal(("b",), np.array([7, 3]), Fraction(2))
    rows = NoisyMarginal((), np.array(10), Fraction(1), gaussian=True)
    total, tables = reconcile_tables([ways, rows], {"a": 3, "b": 2})
    assert total == pytest.approx(10)
    assert tables["b",].tolist() == pytest.approx([7, 3])
    with pytest.raises(BoundaryViolation, match="needs one or more noisy tables"):
        reconcile_tables([], {"a": 2})
