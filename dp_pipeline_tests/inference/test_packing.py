"""Disjoint tables: every attribute in one, no step that loses, and none above the cap."""

from itertools import combinations
from math import prod, sqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.inference.packing import pack_tables
from dp_pipeline.results.measurement import NoiseRate

Tables = tuple[tuple[str, ...], ...]
LAPLACE = NoiseRate(concentrated=False, distance=1)


@st.composite
def problems(draw: st.DrawFn) -> dict:
    """Up to seven attributes."""
    names = [f"x{at}" for at in range(draw(st.integers(1, 7)))]
    sizes = {name: draw(st.sampled_from([2, 3, 8, 40])) for name in names}
    return {
        "sizes": sizes,
        "rate": NoiseRate(draw(st.booleans()), draw(st.integers(1, 3))),
        "most_cells": draw(st.sampled_from([4, 64, 256])),
    }


def error(tables: Tables, problem: dict) -> float:
    """A number that rises with the noise of all one-way marginals, for the same amount."""
    sizes = problem["sizes"]
    noise = [
        sum(sqrt(prod(sizes[name] for name in table) * sizes[one]) for one in table)
        for table in tables
    ]
    return sum(map(problem["rate"].relative_share, noise))


@given(problem=problems())
def test_tables_of_several_attributes_keep_to_the_cap(problem: dict):
    tables, order = pack_tables(**problem), list(problem["sizes"])
    assert sorted(name for table in tables for name in table) == sorted(order)
    for table in tables:
        assert list(table) == sorted(table, key=order.index)
        cells = prod(problem["sizes"][name] for name in table)
        assert len(table) == 1 or cells <= problem["most_cells"]


@given(problem=problems())
def test_packing_has_the_least_error_of_its_steps(problem: dict):
    tables, sizes = pack_tables(**problem), problem["sizes"]
    most = error(tables, problem) * (1 - 1e-9) - 1e-6
    assert most <= error(tuple((name,) for name in sizes), problem)
    for first, second in combinations(tables, 2):
        joined = tuple(name for name in sizes if name in first or name in second)
        if prod(sizes[name] for name in joined) <= problem["most_cells"]:
            rest = tuple(table for table in tables if table not in (first, second))
            assert most <= error((joined, *rest), problem)


def test_attributes_of_two_levels_share_tables():
    sizes = {"a": 2, "b": 2, "c": 30, "d": 40}
    tables = pack_tables(sizes, rate=LAPLACE, most_cells=10**4)
    assert tables == (("a", "b"), ("c",), ("d",))
    assert pack_tables(sizes, rate=LAPLACE, most_cells=3) == (("a",), ("b",), ("c",), ("d",))


def test_an_attribute_that_counts_more_is_in_a_smaller_table():
    sizes, weights = dict.fromkeys("abcde", 2), np.ones((5, 5))
    assert pack_tables(sizes, rate=LAPLACE, most_cells=256) == (("a", "b", "e"), ("c", "d"))
    weights[0] = weights[:, 0] = 1000.0
    weighed = pack_tables(sizes, rate=LAPLACE, most_cells=256, weights=weights)
    assert weighed == (("a", "b"), ("c", "d", "e"))
