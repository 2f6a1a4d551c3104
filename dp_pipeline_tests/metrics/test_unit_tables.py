"""Pairs of parts are those that a loop over units counts, with and without an order."""

from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import SIZE, Attribute, Domain, Parts
from dp_pipeline.config.encoding import Levels
from dp_pipeline.metrics.unit_tables import UnitTables

MOST, LEVELS = 4, 3
UNITS = st.lists(st.lists(st.integers(0, LEVELS - 1), max_size=MOST), max_size=8)


def tables(units: list[list[int]], *, order: str) -> UnitTables:
    """Units by the codes of their parts; some may have none."""
    sizes = Levels(tuple(map(str, range(MOST + 1))))
    attributes = [Attribute(SIZE, SIZE, "drop", cells=sizes)]
    levels = Levels(tuple(map(str, range(LEVELS))))
    attributes.append(Attribute("age", "age", "drop", cells=levels, nullable=True))
    domain = Domain(tuple(attributes), parts=Parts("persons", ("age",), MOST, order, key="home"))
    missing = domain["age"].missing_code
    rows = [(len(unit), age) for unit in units for age in unit or [missing]]
    codes = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return UnitTables(domain, dict(zip((SIZE, "age"), codes, strict=True)))


@given(units=UNITS)
@pytest.mark.parametrize("order", ["", "age"], ids=["a set", "in order"])
def test_pairs_are_counted_as_a_loop_over_units_does(order: str, units: list[list[int]]) -> None:
    counts = tables(units, order=order).pair_counts("age")
    pairs = Counter(
        (len(unit), *(pair if order else sorted(pair)))
        for unit in units
        for pair in (pairwise(unit) if order else combinations(unit, 2))
    )
    places = np.argwhere(counts).tolist()
    assert {tuple(place): int(counts[tuple(place)]) for place in places} == pairs


@given(units=UNITS)
def test_units_and_parts_are_each_counted_once(units: list[list[int]]) -> None:
    both = tables(units, order="")
    assert both.units[SIZE].tolist() == [len(unit) for unit in units]
    assert both.parts["age"].tolist() == [age for unit in units for age in unit]
    assert both.weights.sum() == pytest.approx(len(units))
