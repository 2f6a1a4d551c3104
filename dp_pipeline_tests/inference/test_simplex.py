"""The nearest table without negative cells and with a given total."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.consistency import project_rows, project_to_simplex

tables = st.lists(st.integers(-50, 50), min_size=1, max_size=8).map(np.array)
totals = st.sampled_from([0.001, 1.0, 7.0, 200.0])


@given(table=tables, total=totals)
def test_the_projection_meets_the_conditions_of_the_optimum(table: np.ndarray, total: float):
    """KKT: the same amount is taken from every cell that stays, at least as much from others."""
    projected = project_to_simplex(table, total)
    taken = table - projected
    assert (projected >= 0).all()
    assert np.isclose(projected.sum(), total)
    level = taken[projected > 0]
    assert np.allclose(level, level[0], atol=1e-9)
    assert (taken[projected == 0] <= level[0] + 1e-9).all()


HUGE = [[2**62, -(2**62)], [2**60, 2**60], [-(2**62)], [2**53, 2**53 + 2, 5], [0], [[0] * 2] * 3]


@pytest.mark.parametrize("table", HUGE)
def test_cells_of_any_size_have_a_projection(table: list):
    projected = project_to_simplex(np.array(table))
    assert projected.shape == np.shape(table)
    assert (projected >= 0).all()
    assert np.isclose(projected.sum(), 1)


rows = st.integers(1, 8).flatmap(
    lambda m: st.lists(
        st.lists(st.floats(-1e6, 1e6), min_size=m, max_size=m), min_size=1, max_size=5
    ).map(np.array)
)


@given(table=rows, data=st.data())
def test_rows_are_projected_like_one_table_after_another(table: np.ndarray, data: st.DataObject):
    sums = np.array(data.draw(st.lists(totals, min_size=len(table), max_size=len(table))))
    expected = [project_to_simplex(row, total) for row, total in zip(table, sums, strict=True)]
    assert np.allclose(project_rows(table, sums), expected, atol=1e-9)
    assert (project_rows(table, np.zeros(len(table))) == 0).all()


def test_a_cell_below_everything_gets_nothing():
    table = np.array([[4.0, -np.inf, 2.0, -np.inf], [-np.inf, 0.0, -np.inf, -np.inf]])
    assert project_rows(table, np.array([10.0, 3.0])).tolist() == [[6, 0, 4, 0], [0, 3, 0, 0]]
    assert (project_rows(table, np.zeros(2)) == 0).all()
