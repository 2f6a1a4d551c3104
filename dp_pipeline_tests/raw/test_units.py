"""Rows of units are made of each unit's own parts, and give them back."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.constraints import Constraint
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Attribute, Domain, Parts, UnitOfParts
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.reading import Derived
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.prepare import normalized
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
SIZED = Attribute(
    SIZE, SIZE, "drop", cells=Levels(("1", "2", "3")), derived=Derived("size", ("home",))
)
DOMAIN_OF_ROWS = Domain((DOMAIN["region"], SIZED, DOMAIN["age"], DOMAIN["sex"]), parts=DOMAIN.parts)
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


SPEC = DatasetSpec.of_domain(
    "homes", DOMAIN_OF_ROWS, protection=UnitOfParts("home", 3), purpose="release"
)
ids = st.sampled_from([7, 2**53, 2**53 + 1]) | st.none()
QUESTIONS = [(), ("region", SIZE), ("region", "age", "sex"), ("sex",)]


def prepared(rows: list[tuple[int | None, str, str, str]], *, as_text: bool) -> PartsCounter:
    """The counter of the parts of rows of (home, region, age, sex), as a release prepares them."""
    homes = [None if row[0] is None else str(row[0]) if as_text else row[0] for row in rows]
    table = pa.table(
        {
            "home": pa.array(homes, pa.string() if as_text else pa.int64()),
            **{
                name: pa.array([row[i] for row in rows], pa.string())
                for i, name in enumerate(("region", "age", "sex"), 1)
            },
        }
    )
    units = normalized(SPEC, table, b"k" * 32)
    codes = {name: units.column(name).to_numpy() for name in units.column_names}
    counter = MemoryCounter(SPEC.counted_domain, coordinates={}, codes=codes, rows=units.num_rows)
    return PartsCounter(counter, SPEC.domain)


cells = st.tuples(
    st.sampled_from(["0", "1", "?"]), st.sampled_from(["0", "1", "2"]), st.sampled_from("01")
)


@given(st.lists(st.tuples(ids, cells), max_size=8), st.lists(cells, max_size=12), st.booleans())
def test_a_unit_of_any_size_weighs_at_most_one(others, parts, as_text) -> None:
    rows = [(home, *row) for home, row in others]
    more = [*rows, *((99, *row) for row in parts)]
    before, after = (prepared(each, as_text=as_text) for each in (rows, more))
    for one, other in zip(
        [*before.count(QUESTIONS), *before.pairs(["age", "sex"])],
        [*after.count(QUESTIONS), *after.pairs(["age", "sex"])],
        strict=True,
    ):
        added = other.open_at_the_gate() - one.open_at_the_gate()
        assert added.min() >= 0 and added.sum() <= UNIT_WEIGHT
