from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.raw.counters.tables import CAPS, contingency_table, count_plan, fuse, plan


@given(
    sizes=st.lists(st.integers(1, 70), max_size=40),
    cap=st.sampled_from(CAPS),
)
def test_every_column_is_in_one_super_column_within_the_cap_or_alone(sizes, cap):
    named = {f"a{at}": size for at, size in enumerate(sizes)}
    columns = fuse(named, cap=cap)
    names = [name for column in columns for name in column.names]
    assert sorted(names) == sorted(named)
    assert all(column.size <= cap or len(column.names) == 1 for column in columns)
    assert all(column.sizes == tuple(named[n] for n in column.names) for column in columns)


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=9), seed=st.integers(0, 9))
def test_every_pair_and_single_of_a_plan_equals_a_direct_count(sizes, seed):
    named = {f"a{at}": size for at, size in enumerate(sizes)}
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, size, 50).astype(np.uint8) for name, size in named.items()}
    wanted = [(name,) for name in named] + list(combinations(named, 2))
    tables = count_plan(plan(named, wanted, rows=50), codes, rows=50)
    assert len(tables) == len(wanted)
    for names, table in tables.items():
        assert np.array_equal(table, contingency_table(codes, named, names, rows=50))


@pytest.mark.parametrize(("rows", "largest"), [(1_000, 64), (10_000_000, 256)])
def test_few_rows_take_the_small_cap_and_many_the_large_one(rows, largest):
    sizes = {f"a{at}": 2 for at in range(16)}
    columns = plan(sizes, list(combinations(sizes, 2)), rows=rows).columns
    assert max(column.size for column in columns) == largest
