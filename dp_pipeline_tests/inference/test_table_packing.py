"""Disjoint tables: every attribute in one, no step that loses, and none above the cap."""

from __future__ import annotations

from itertools import combinations
from math import prod, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.table_sets import INDIRECT, one_way_noise, packed
from dp_pipeline.release.measurement import NoiseRate

fuzz = settings(derandomize=True, deadline=None, max_examples=50)
Tables = tuple[tuple[str, ...], ...]
LAPLACE = NoiseRate(concentrated=False, distance=1)


@st.composite
def problems(draw: st.DrawFn) -> dict:
    """Up to seven attributes, with gaps of some pairs, and what all tables cost."""
    names = [f"x{at}" for at in range(draw(st.integers(1, 7)))]
    sizes = {name: draw(st.sampled_from([2, 3, 8, 40])) for name in names}
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    pairs = [pair for pair in combinations(names, 2) if rng.random() < 0.5]
    return {
        "sizes": sizes,
        "gaps": {pair: float(rng.choice([0.0, 50.0, 5000.0])) for pair in pairs},
        "amount": draw(st.sampled_from([1e-4, 0.1, 5.0])),
        "rate": NoiseRate(draw(st.booleans()), draw(st.integers(1, 3))),
        "most_cells": draw(st.sampled_from([4, 64, 256])),
    }


def error(tables: Tables, problem: dict) -> float:
    """Noise of all one-way marginals, d − 1 times, less the gaps inside tables."""
    sizes, rate = problem["sizes"], problem["rate"]
    noise = rate.least([one_way_noise(table, sizes) for table in tables], problem["amount"])
    held = {pair for table in tables for pair in combinations(table, 2)}
    gained = sum(gap for pair, gap in problem["gaps"].items() if pair in held)
    return (len(sizes) - 1) * noise - INDIRECT * gained


@fuzz
@given(problem=problems())
def test_every_attribute_is_in_one_table_in_declared_order(problem: dict) -> None:
    tables, order = packed(**problem), list(problem["sizes"])
    assert sorted(name for table in tables for name in table) == sorted(order)
    assert all(list(table) == sorted(table, key=order.index) for table in tables)


@fuzz
@given(problem=problems())
def test_tables_of_several_attributes_keep_to_the_cap(problem: dict) -> None:
    for table in packed(**problem):
        cells = prod(problem["sizes"][name] for name in table)
        assert len(table) == 1 or cells <= problem["most_cells"]


@fuzz
@given(problem=problems())
def test_packing_has_no_more_error_than_one_table_an_attribute_and_no_two_tables_too_many(
    problem: dict,
) -> None:
    tables = packed(**problem)
    found = error(tables, problem)
    rounding = 1e-9 * abs(found) + 1e-6
    assert found <= error(tuple((name,) for name in problem["sizes"]), problem) + rounding
    for one, other in combinations(tables, 2):
        if prod(problem["sizes"][name] for name in (*one, *other)) <= problem["most_cells"]:
            joined = tuple(name for name in problem["sizes"] if name in one or name in other)
            rest = tuple(table for table in tables if table not in (one, other))
            assert found <= error((joined, *rest), problem) + rounding


def test_attributes_of_two_levels_share_tables_and_those_of_many_do_not() -> None:
    sizes = {"a": 2, "b": 2, "c": 30, "d": 40}
    tables = packed(sizes, {}, amount=1.0, rate=LAPLACE, most_cells=10**4)
    assert tables == (("a", "b"), ("c",), ("d",))


def test_a_large_gap_puts_a_pair_into_one_table_and_no_other() -> None:
    sizes = dict.fromkeys("abc", 20)
    gaps = {("a", "c"): 1e6}
    tables = packed(sizes, gaps, amount=1.0, rate=LAPLACE, most_cells=400)
    assert tables == (("a", "c"), ("b",))
    assert packed(sizes, gaps, amount=1.0, rate=LAPLACE, most_cells=399) == (("a",), ("b",), ("c",))


def test_the_noise_of_one_way_marginals_is_that_of_the_cells_that_are_summed() -> None:
    # Six cells: the marginal of a sums three of them in each of two cells, that of b two in three.
    assert one_way_noise(("a", "b"), {"a": 2, "b": 3}) == pytest.approx(2 * sqrt(3) + 3 * sqrt(2))
