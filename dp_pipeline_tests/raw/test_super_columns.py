from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.raw.counters import tables
from dp_pipeline.raw.counters.tables import (
    CAPS,
    cheapest_plan,
    contingency_table,
    count_plan,
    exact_marginals,
    fuse,
    summed_tables,
)


@given(sizes=st.lists(st.integers(1, 70), max_size=40), cap=st.sampled_from(CAPS))
def test_every_column_is_in_one_super_column(sizes, cap):
    named = {f"a{index}": size for index, size in enumerate(sizes)}
    columns = fuse(named, cap=cap)
    names = [name for column in columns for name in column.names]
    assert sorted(names) == sorted(named)
    assert all(column.size <= cap or len(column.names) == 1 for column in columns)
    assert all(column.sizes == tuple(named[n] for n in column.names) for column in columns)


def some_tables(sizes: list[int], seed: int):
    """Names with sizes, 50 rows of codes, and every single, pair and triple."""
    named = {f"a{index}": size for index, size in enumerate(sizes)}
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, size, 50).astype(np.uint8) for name, size in named.items()}
    ways = [way for k in (1, 2, 3) for way in combinations(named, k)]
    return named, codes, ways


# Beside the sizes of today: blocks, steps and groups of tables that end inside of 50 rows, many
# rows to plan for, and a cap on fused tables that leaves some by themselves.
SMALL = {"_ROWS_A_BLOCK": 20, "_ROWS_A_STEP": 7, "_CELLS_AT_ONCE": 100, "_FUSED_CELLS": 40}


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    seed=st.integers(0, 9),
    planned=st.sampled_from([50, 10**7]),
    small=st.sets(st.sampled_from(sorted(SMALL))),
)
def test_planned_tables_equal_direct_counts(sizes, seed, planned, small):
    named, codes, wanted = some_tables(sizes, seed)
    with pytest.MonkeyPatch.context() as patch:
        for name in small:
            patch.setattr(tables, name, SMALL[name])
        fused = cheapest_plan(named, wanted, rows=planned)
        actual = [summed_tables(*column) for column in count_plan(fused, codes, rows=50)]
    assert sum(map(len, actual)) == len(wanted)
    for names, table in (item for column in actual for item in column.items()):
        assert np.array_equal(table, contingency_table(codes, named, names, rows=50))


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=4, max_size=6),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_marginals_of_any_size_and_order_equal_direct_counts(sizes, seed, data):
    named, codes, _ = some_tables(sizes, seed)
    way = st.lists(st.sampled_from(sorted(named)), unique=True, max_size=5).map(tuple)
    asked = data.draw(st.lists(way, max_size=8))
    for names, table in zip(asked, exact_marginals(codes, named, asked, rows=50), strict=True):
        expected = contingency_table(codes, named, names, rows=50) if names else np.array(50)
        assert np.array_equal(table, expected)


def test_few_rows_take_a_small_cap_and_many_a_large_one():
    sizes = {f"a{index}": 2 for index in range(16)}
    pairs = list(combinations(sizes, 2))
    few, many = (cheapest_plan(sizes, pairs, rows=rows) for rows in (100, 10_000_000))
    assert max(column.size for column in few) < max(column.size for column in many)
    assert len(few) > len(many)


def test_few_fused_tables_hold_many_triples():
    levels = (2, 3, 42, 16, 7, 15, 6, 5, 2, 20, 10, 9, 8, 41)
    sizes = dict(zip("abcdefghijklmn", levels, strict=True))
    triples = list(combinations(sizes, 3))
    assert len(cheapest_plan(sizes, triples, rows=1_000_000)) < len(triples) / 4


def test_pairs_within_triples_need_no_own_table():
    sizes = dict.fromkeys("abcdef", 4)
    triples, pairs = (list(combinations(sizes, k)) for k in (3, 2))
    both = cheapest_plan(sizes, triples + pairs, rows=1_000_000)
    assert len(both) == len(cheapest_plan(sizes, triples, rows=1_000_000))


def test_large_triples_are_never_fused():
    sizes = {"a": 5000, "b": 2, "c": 2, **{f"x{index}": 2 for index in range(16)}}
    wanted = [("a", *pair) for pair in combinations(sorted(sizes.keys() - {"a"}), 2)]
    assert max(column.size for column in cheapest_plan(sizes, wanted, rows=10**9)) <= 1 << 20
