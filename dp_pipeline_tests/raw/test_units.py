"""Rows of units are made of each unit's own parts, and give them back."""

from __future__ import annotations

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.constraints import Constraint
from dp_pipeline.config.domain import SIZE, Attribute, Domain, Parts
from dp_pipeline.config.encoding import Levels
from dp_pipeline.raw.units import parts_of_units, units_of_parts


def attribute(name: str, size: int, *, nullable: bool = False) -> Attribute:
    cells = Levels(tuple(map(str, range(size))))
    return Attribute(name, name, "keep", cells=cells, nullable=nullable)


DOMAIN = Domain(
    (
        attribute("region", 2, nullable=True),
        attribute(SIZE, 3),
        attribute("age", 3),
        attribute("sex", 2),
    ),
    parts=Parts("persons", ("age", "sex"), 3),
)
rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)),
    max_size=9,
)


def folded(rows: list[tuple[int, int, int, int]], domain: Domain = DOMAIN, order=None):
    units, *columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    codes = dict(zip(("region", "age", "sex"), columns, strict=True))
    columns = units_of_parts(domain, codes, units, order)
    return {name: column.tolist() for name, (column, _) in columns.items()}


def few(rows):
    return [row for i, row in enumerate(rows) if sum(r[0] == row[0] for r in rows[:i]) < 3]


@given(rows, st.randoms())
def test_units_depend_on_their_own_parts_alone(rows, random) -> None:
    rows = few(rows)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert folded(rows) == folded(shuffled)
    units = sorted({row[0] for row in rows})
    alone = [folded([row for row in rows if row[0] == unit]) for unit in units]
    for name, column in folded(rows).items():
        assert column == list(chain.from_iterable(each[name] for each in alone))


@given(rows)
def test_parts_come_back_from_their_units(rows) -> None:
    rows = few(rows)
    units = {name: np.array(column, dtype=np.int64) for name, column in folded(rows).items()}
    parts = parts_of_units(DOMAIN, units)
    back = sorted(zip(parts["age"].tolist(), parts["sex"].tolist(), strict=True))
    assert back == sorted(row[2:] for row in rows)
    assert parts[SIZE].sum() == sum((units[SIZE] + 1) ** 2 - (units[SIZE] + 1))


def test_a_value_that_varies_within_a_unit_is_missing() -> None:
    assert folded([(7, 0, 1, 1), (7, 1, 1, 0), (8, 1, 2, 0)])["region"] == [2, 1]


def test_parts_in_order_keep_it_and_a_missing_place_is_last() -> None:
    order = np.array([np.nan, 5.0, 2.0])
    units = folded([(1, 0, 0, 0), (1, 0, 1, 0), (1, 0, 2, 0)], order=order)
    assert [units[f"age {i}"] for i in (1, 2, 3)] == [[2], [1], [0]]


def test_a_unit_with_a_part_that_breaks_a_constraint_is_left_out() -> None:
    never = Constraint("no child alone", (SIZE, "age"), (((0,), (0,)),), is_only=False)
    domain = Domain(DOMAIN.attributes, (never,), DOMAIN.parts)
    assert folded([(1, 0, 0, 0), (2, 0, 0, 0), (2, 0, 1, 0)], domain)[SIZE] == [1]
