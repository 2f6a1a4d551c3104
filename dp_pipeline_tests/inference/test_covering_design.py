"""Covering designs: every pair in a view, no view over what it may hold, the same for everybody."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.junction_tree import cell_count
from dp_pipeline.inference.views import covering_design


def bits(many: int) -> dict[str, int]:
    return {f"x{at}": 2 for at in range(many)}


sizes_of = st.lists(st.integers(1, 50), min_size=1, max_size=12).map(
    lambda sizes: {f"x{at}": size for at, size in enumerate(sizes)}
)


@given(sizes=sizes_of, cells=st.integers(1, 2000), many=st.integers(2, 12))
def test_every_pair_is_in_a_view_of_few_cells(sizes: dict[str, int], cells: int, many: int):
    views = covering_design(sizes, most_cells=cells, most_attributes=many)
    held = {pair for view in views for pair in combinations(view, 2)}
    assert held == set(combinations(sizes, 2))
    assert {name for view in views for name in view} == set(sizes)
    for view in views:
        assert len(view) <= many
        assert len(view) <= 2 or cell_count(view, sizes) <= cells


@pytest.mark.parametrize(
    ("many", "size", "views"), [(8, 8, 1), (9, 8, 3), (16, 8, 6), (12, 6, 6), (6, 2, 15)]
)
def test_small_designs_are_the_best_ones_known(many: int, size: int, views: int):
    design = covering_design(bits(many), most_cells=1 << many, most_attributes=size)
    assert len(design) == views


def test_a_wide_design_is_near_the_least_that_there_could_be():
    # Schönheim: ⌈86/8 · ⌈85/7⌉⌉ = 140 views at least.
    assert 140 <= len(covering_design(bits(86), most_cells=256, most_attributes=86)) <= 190
    assert covering_design({"a": 99}, most_cells=4, most_attributes=2) == (("a",),)
