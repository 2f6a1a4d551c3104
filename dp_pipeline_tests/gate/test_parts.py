"""Questions about the parts of units: counted as by loops, and a unit weighs no more than one."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Attribute, Domain, Parts
from dp_pipeline.config.encoding import IntArray, Levels, Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.gate.scores import DependenceScore, Independence
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline_tests.instruments import Draw, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import Run, privacy_loss

MOST = 12
Unit = tuple[int, tuple[tuple[int, int], ...]]
"""Code of the region, then age and sex of every part."""


def attribute(name: str, size: int) -> Attribute:
    return Attribute(name, name, "drop", cells=Levels(tuple(map(str, range(size)))))


def domain(order: str = "") -> Domain:
    sizes = {"region": 2, SIZE: MOST, "age": 3, "sex": 2}
    attributes = tuple(attribute(name, size) for name, size in sizes.items())
    return Domain(attributes, parts=Parts("persons", ("age", "sex"), MOST, order))


def counter(units: Sequence[Unit], order: str = "") -> PartsCounter:
    """The counter of units that have a part; one without is no row."""
    declared = domain(order)
    wide = declared.parts.of_units(declared)
    rows = [unit for unit in units if unit[1]]
    codes = {"region": [region for region, _ in rows], SIZE: [len(p) - 1 for _, p in rows]}
    for i in range(MOST):
        for k, (name, absent) in enumerate((("age", 3), ("sex", 2))):
            place = declared.parts.name_in_unit(name, i)
            codes[place] = [p[i][k] if i < len(p) else absent for _, p in rows]
    arrays = {name: np.array(column, dtype=np.int64) for name, column in codes.items()}
    return PartsCounter(MemoryCounter(wide, coordinates={}, codes=arrays, rows=len(rows)), declared)


def loop_table(units: Sequence[Unit], names: Names) -> IntArray:
    table = np.zeros(domain().shape(names), dtype=np.int64)
    for region, members in units:
        values = [
            {"region": region, SIZE: len(members) - 1, "age": a, "sex": s} for a, s in members
        ]
        if not {*names} & {"age", "sex"}:
            weight, values = UNIT_WEIGHT, values[:1]
        else:
            weight = UNIT_WEIGHT // max(1, len(members))
        for each in values:
            table[tuple(each[name] for name in names)] += weight
    return table


def loop_pairs(units: Sequence[Unit], axis: int, order: str) -> IntArray:
    size = (3, 2)[axis]
    table = np.zeros((MOST, size, size), dtype=np.int64)
    for _, members in units:
        codes = [member[axis] for member in members]
        pairs = list(pairwise(codes)) if order else [sorted(p) for p in combinations(codes, 2)]
        if len(codes) == 1 and not order:
            pairs = [codes * 2]
        for first, second in pairs:
            table[len(members) - 1, first, second] += UNIT_WEIGHT // len(pairs)
    return table


members = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=MOST).map(tuple)
one_unit = st.tuples(st.integers(0, 1), members)
units = st.lists(one_unit, max_size=4)
orders = st.sampled_from(["", "day"])
MARGINALS = [(), ("region",), (SIZE, "region"), ("age",), ("sex", SIZE, "region"), ("age", "sex")]


@given(units, orders)
def test_tables_of_parts_are_counted_as_by_loops(units: list[Unit], order: str) -> None:
    rows = counter(units, order)
    for names, table in zip(MARGINALS, rows.count(MARGINALS), strict=True):
        assert np.array_equal(table.open_at_the_gate(), loop_table(units, names)), names
    for axis, pairs in enumerate(rows.pairs(["age", "sex"])):
        assert np.array_equal(pairs.open_at_the_gate(), loop_pairs(units, axis, order))


@given(units)
def test_groups_of_levels_are_sums_of_their_levels(units: list[Unit]) -> None:
    groups = {"age": Grouping((0, 0, 1)), SIZE: Grouping((0,) * 3 + (1,) * (MOST - 3))}
    derived = {name: DerivedAttribute((name,), each.groups) for name, each in groups.items()}
    (table,) = counter(units).recoded(derived, domain()).count([("age", SIZE)])
    exact = loop_table(units, ("age", SIZE))
    sums = np.add.reduceat(np.add.reduceat(exact, [0, 2], axis=0), [0, 3], axis=1)
    assert np.array_equal(table.open_at_the_gate(), sums)


Question = Callable[[Curator], object]
HALF = Fraction(1, 2)
GROUPS = {"age": Grouping((0, 1, 1))}
SCORES = {
    ("age", "sex"): DependenceScore(np.full((3, 2), UNIT_WEIGHT)),
    ("region", "age"): Independence(),
}
QUESTIONS: dict[str, Question] = {
    "unit table": lambda curator: curator.tabulate({("region", SIZE): HALF}),
    "unit by part": lambda curator: curator.measure(("region", "age", "sex"), epsilon=HALF),
    "groups": lambda curator: curator.grouped(GROUPS).tabulate({("age", "sex"): HALF}),
    "pairs": lambda curator: curator.measure_pairs({"age": HALF / 2, "sex": HALF / 2}),
    "scores": lambda curator: curator.open_scores(SCORES).measure_together(epsilon=HALF),
}


def draws(units, question, order) -> tuple[Draw, ...]:
    noise, rows = RecordingNoise(), counter(units, order)
    given = {"domain": domain(order), "distance": UNIT_WEIGHT, "epsilon": HALF}
    question(curator_over(rows, noise=noise, **given))
    return tuple(noise.draws)


def exact_loss(units, unit, question, order) -> Fraction | float:
    """The most that an answer's probability changes with one unit more, in log, by its noise."""
    both = [draws(rows, question, order) for rows in (units, [*units, unit])]
    return privacy_loss(*(Run(None, drawn, ()) for drawn in both))


@pytest.mark.parametrize("name", QUESTIONS)
@given(units=units, unit=one_unit, order=orders)
def test_a_unit_more_costs_at_most_what_was_paid(name, units, unit, order):
    assert exact_loss(units, unit, QUESTIONS[name], order) <= HALF


TWINS: Unit = (0, ((1, 1), (1, 1)))
LARGE: Unit = (1, tuple((i % 3, i % 2) for i in range(MOST)))


@pytest.mark.parametrize("name", ["unit table", "unit by part", "groups", "pairs"])
def test_a_unit_of_two_equal_parts_costs_all_of_it(name: str) -> None:
    assert exact_loss([], TWINS, QUESTIONS[name], "") == HALF
    assert exact_loss([TWINS], LARGE, QUESTIONS[name], "") <= HALF


def test_pairs_are_of_attributes_of_parts_alone() -> None:
    with pytest.raises(BoundaryViolation, match="can be measured of"):
        draws([], lambda curator: curator.measure_pairs({"region": HALF}), "")


def test_pairs_of_rows_without_parts_are_refused_before_a_charge() -> None:
    curator = curator_over([], domain=domain(), distance=UNIT_WEIGHT, epsilon=HALF)
    with pytest.raises(BoundaryViolation, match="by a PartsCounter, not by LoopCounter"):
        curator.measure_pairs({"age": HALF})
    assert curator.accountant.spent == 0


def test_questions_without_a_proof_for_parts_are_refused() -> None:
    with pytest.raises(BoundaryViolation, match="not of derived ones"):
        counter([]).recoded({"child": DerivedAttribute(("age",), (1, 0, 0))}, domain())
    with pytest.raises(BoundaryViolation, match="in tables alone, not by `occupied`"):
        counter([]).occupied(("age",))
