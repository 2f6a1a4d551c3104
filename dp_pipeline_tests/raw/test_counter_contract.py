"""What every counting engine must answer. A new engine is one more line in ENGINES."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.gate.counts import MOST_GRID_CELLS, Counter, Sealed
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.schema.errors import BoundaryViolation, DeclarationError
from dp_pipeline_tests.raw.population import DOMAIN, EDGE, POPULATIONS, Population, drawn

Engine = Callable[[Population], Counter]


def memory(population: Population, kind: type[MemoryCounter] = MemoryCounter) -> Counter:
    return kind(
        DOMAIN,
        coordinates=population.coordinates,
        codes=population.codes,
        rows=population.rows,
    )


ENGINES: dict[str, Engine] = {"memory": memory}

NAMES = DOMAIN.discrete[:6]
PAIRS = list(combinations(NAMES, 2))
QUESTIONS = {
    "nothing": [],
    "the number of rows": [()],
    "one attribute": [("c",)],
    "one cell": [("y",)],
    "a pair": [("x", "d")],
    "a pair both ways": [("c", "wide"), ("wide", "c")],
    "the same twice": [("c", "d"), (), ("c", "d"), ()],
    "overlapping": [("c",), ("c", "d"), ("x", "c", "d"), ("d",)],
    "three ways, permuted": list(permutations(("d", "x", "c"))),
    "all but the wide": [("z", "c", "x", "d", "y")],
    "all pairs and all singles": [*PAIRS, *((name,) for name in NAMES), ()],
    "more cells than rows": [("huge", "c", "x"), ("huge",)],
    "all pairs backwards": [pair[::-1] for pair in reversed(PAIRS)],
}
GRIDS = [(("x",), 1), (("x",), 3), (("z", "x"), 2), (("x", "y"), 7), (("y", "z", "x"), 4)]
TIED = ((-EDGE, 0), (EDGE, 0), (0, EDGE), (0, -EDGE), (0, EDGE))
CORNER = ((EDGE, EDGE, EDGE), (EDGE, EDGE - 1, EDGE - 3))
DISTANCES = [
    (NearestCentre(("x",), ((0,),), (1,)), {"clip": 1 << 40, "shift": 3}),
    (NearestCentre(("z", "x"), TIED, (1, 1)), {"clip": 1 << 31, "shift": 0}),
    (NearestCentre(("x", "y"), TIED, (1024, 1024)), {"clip": 1 << 60, "shift": 30}),
    (NearestCentre(("x", "y"), TIED, (1024, 1023)), {"clip": 1 << 54, "shift": 25}),
    (NearestCentre(("x", "y", "z"), CORNER, (1023, 1021, 1019)), {"clip": 1 << 31, "shift": 0}),
    (NearestCentre(("x", "y"), TIED, (0, 6)), {"clip": 1 << 40, "shift": 9}),
    (NearestCentre(("x", "y", "z"), ((1, 2, 3),), (0, 0, 0)), {"clip": 5, "shift": 0}),
    (NearestCentre(("x",), ((7,),), (3,)), {"clip": 0, "shift": 62}),
]


def assert_answer(sealed: Sealed, expected: np.ndarray) -> None:
    """Sealed, whole numbers, in memory order, and right."""
    assert isinstance(sealed, Sealed)
    got = sealed.open_at_the_gate()
    assert got.dtype == np.int64
    assert got.shape == expected.shape
    assert got.flags.c_contiguous
    assert np.array_equal(got, expected)


def assert_counts(engine: Engine, population: Population) -> None:
    for marginals in QUESTIONS.values():
        answers = engine(population).count(marginals)
        assert len(answers) == len(marginals)
        for sealed, names in zip(answers, marginals, strict=True):
            assert_answer(sealed, population.counted(names))


def assert_grids(engine: Engine, population: Population) -> None:
    for columns, cells in GRIDS:
        answer = engine(population).grid(columns, cells)
        assert_answer(answer, population.gridded(columns, cells))


def assert_distances(engine: Engine, population: Population) -> None:
    for rule, limits in DISTANCES:
        answer = engine(population).distance_total(rule, **limits)
        assert_answer(answer, np.array(population.distance(rule, **limits)))


CHECKS = (assert_counts, assert_grids, assert_distances)


@pytest.fixture(params=ENGINES.values(), ids=ENGINES.keys(), scope="module")
def engine(request) -> Engine:
    return request.param


@pytest.fixture(params=POPULATIONS.values(), ids=POPULATIONS.keys(), scope="module")
def population(request) -> Population:
    return request.param


@pytest.mark.parametrize("check", CHECKS)
def test_an_engine_agrees_with_a_loop_over_the_rows(check, engine, population):
    check(engine, population)


def all_answers(engine: Engine, population: Population) -> list[np.ndarray]:
    counter = engine(population)
    answers = counter.count([*PAIRS, ()])
    answers += [counter.grid(columns, cells) for columns, cells in GRIDS]
    answers += [counter.distance_total(rule, **limits) for rule, limits in DISTANCES]
    return [answer.open_at_the_gate() for answer in answers]


def assert_same(some: list[np.ndarray], others: list[np.ndarray]) -> None:
    assert all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))


def test_rotating_the_rows_changes_nothing_even_with_tied_centres(engine, population):
    whole = all_answers(engine, population)
    for by in range(1, min(4, population.rows)):
        assert_same(all_answers(engine, population.at(np.roll(range(population.rows), by))), whole)


def test_removing_one_row_takes_away_that_row_alone(engine):
    population = POPULATIONS["few rows"]
    whole = all_answers(engine, population)
    for row in (0, 17, population.rows - 1):
        one = all_answers(engine, population.at([row]))
        rest = all_answers(engine, population.at(np.delete(range(population.rows), row)))
        assert_same([r + o for r, o in zip(rest, one, strict=True)], whole)


@pytest.mark.parametrize("cuts", [[1], [20], [0, 13, 13, 39], list(range(40))])
def test_any_partitioning_of_the_rows_adds_up_to_the_whole(engine, cuts):
    population = POPULATIONS["few rows"]
    parts = [all_answers(engine, population.at(p)) for p in np.split(np.arange(40), cuts)]
    assert_same(
        [sum(answers) for answers in zip(*parts, strict=True)], all_answers(engine, population)
    )


def test_many_rows_are_counted_once_each(engine):
    population = drawn(140_003)
    counter = engine(population)
    *pairs, wide, rows = counter.count([*PAIRS, ("wide",), ()])
    assert {int(table.open_at_the_gate().sum()) for table in (*pairs, rows)} == {140_003}
    assert_answer(wide, np.bincount(population.cells[:, 5], minlength=300))
    x, _, z = population.points.T
    assert_answer(counter.grid(("x",), 2), np.bincount((x >= 0).astype(int)))
    rule = NearestCentre(("x", "z"), ((0, 0),), (1, 1))
    total = ((x * x + z * z) >> 8).sum()
    assert_answer(counter.distance_total(rule, clip=1 << 40, shift=8), total)


marginal_lists = st.lists(
    st.lists(st.sampled_from(DOMAIN.discrete[:5]), unique=True, max_size=4).map(tuple), max_size=12
)
fixed_point = st.one_of(st.integers(-EDGE, EDGE), st.sampled_from([-EDGE, -1, 0, 1, EDGE]))
rows_of_points = st.lists(st.tuples(fixed_point, fixed_point, fixed_point), max_size=8)


@st.composite
def populations(draw) -> Population:
    points = np.array(draw(rows_of_points), dtype=np.int64).reshape(-1, 3)
    sizes = [DOMAIN[name].size for name in DOMAIN.discrete]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return Population(points, rng.integers(0, sizes, size=(len(points), len(sizes))))


@settings(max_examples=60, deadline=None)
@given(population=populations(), marginals=marginal_lists)
def test_any_list_of_marginals_is_answered_like_a_loop(engine, population, marginals):
    answers = engine(population).count(marginals)
    for sealed, names in zip(answers, marginals, strict=True):
        assert_answer(sealed, population.counted(names))


@settings(max_examples=60, deadline=None)
@given(
    population=populations(),
    columns=st.lists(st.sampled_from(DOMAIN.numeric), unique=True, min_size=1).map(tuple),
    cells=st.integers(1, 33),
)
def test_any_grid_is_answered_like_a_loop(engine, population, columns, cells):
    assert_answer(engine(population).grid(columns, cells), population.gridded(columns, cells))


@settings(max_examples=80, deadline=None)
@given(
    population=populations(),
    centres=st.lists(st.tuples(fixed_point, fixed_point), min_size=1, max_size=5).map(tuple),
    weights=st.tuples(st.integers(0, 1024), st.integers(0, 1024)),
    shift=st.integers(0, 40),
    room=st.integers(0, 31),
)
def test_any_distance_is_answered_like_a_loop(engine, population, centres, weights, shift, room):
    rule = NearestCentre(("z", "x"), centres, weights)
    limits = {"clip": 1 << (shift + room), "shift": shift}
    answer = engine(population).distance_total(rule, **limits)
    assert_answer(answer, np.array(population.distance(rule, **limits)))


def test_an_answer_is_nobody_elses_memory(engine):
    counter = engine(POPULATIONS["few rows"])
    first, second = counter.count([("c", "d"), ("c", "d")])
    first.open_at_the_gate()[:] = -1
    assert_answer(second, POPULATIONS["few rows"].counted(("c", "d")))
    assert_counts(lambda _: counter, POPULATIONS["few rows"])


REFUSED = {
    "an attribute twice": lambda c: c.count([("d",), ("c", "c")]),
    "a table above the cap": lambda c: c.count([("c",), ("wide", "huge")]),
    "a grid column twice": lambda c: c.grid(("x", "x"), 2),
    "a grid of no column": lambda c: c.grid((), 2),
    "a grid of no cells": lambda c: c.grid(("x",), 0),
    "a grid above the cap": lambda c: c.grid(("x",), MOST_GRID_CELLS + 1),
    "a grid above the cap in three dimensions": lambda c: c.grid(("x", "y", "z"), 257),
}
BAD_RULES = {
    "no column": (NearestCentre((), (), ()), 1, 0),
    "a column twice": (NearestCentre(("x", "x"), ((0, 0),), (1, 1)), 1, 0),
    "no centre": (NearestCentre(("x",), (), (1,)), 1, 0),
    "a short centre": (NearestCentre(("x", "y"), ((0,),), (1, 1)), 1, 0),
    "a centre outside the box": (NearestCentre(("x",), ((EDGE + 1,),), (1,)), 1, 0),
    "a weight too large": (NearestCentre(("x",), ((0,),), (1025,)), 1, 0),
    "a weight below zero": (NearestCentre(("x",), ((0,),), (-1,)), 1, 0),
    "a clip below zero": (NearestCentre(("x",), ((0,),), (1,)), -1, 0),
    "a shift below zero": (NearestCentre(("x",), ((0,),), (1,)), 1, -1),
    "rows that may overflow": (NearestCentre(("x",), ((0,),), (1,)), 1 << 40, 1),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED.keys())
def test_a_question_at_the_boundary_is_refused_whatever_the_rows(engine, ask):
    for rows in (0, 3):
        with pytest.raises(BoundaryViolation):
            ask(engine(drawn(rows)))


@pytest.mark.parametrize(("rule", "clip", "shift"), BAD_RULES.values(), ids=BAD_RULES.keys())
def test_a_rule_that_is_not_exact_is_refused_whatever_the_rows(engine, rule, clip, shift):
    for rows in (0, 3):
        with pytest.raises(BoundaryViolation):
            engine(drawn(rows)).distance_total(rule, clip=clip, shift=shift)


def test_undeclared_and_unbounded_attributes_are_refused_by_the_declaration(engine):
    counter = engine(drawn(2))
    with pytest.raises(DeclarationError, match="got a name not declared"):
        counter.count([("age",)])
    with pytest.raises(DeclarationError, match="expected bounds, got levels"):
        counter.grid(("c",), 2)
    with pytest.raises(DeclarationError, match="expected bounds, got levels"):
        counter.distance_total(NearestCentre(("c",), ((0,),), (1,)), clip=1, shift=0)


def test_an_engine_and_its_answers_show_no_number(engine):
    counter = engine(drawn(37))
    (rows,) = counter.count([()])
    assert "37" not in repr(counter) + repr(rows)
    with pytest.raises(TypeError):
        pickle.dumps(rows)


# Mutants: engines with one fault each, which the contract must catch.


class DropsEmptyCells(MemoryCounter):
    def count(self, marginals):
        tables = self.exact_tables(marginals)
        return [Sealed(table[table > 0] if table.ndim else table) for table in tables]


class CountsInFloats(MemoryCounter):
    def count(self, marginals):
        return [Sealed(table.astype(np.float64)) for table in self.exact_tables(marginals)]


class ForgetsTheOrderOfAxes(MemoryCounter):
    def count(self, marginals):
        return super().count([tuple(sorted(names)) for names in marginals])


class LosesTheUpperEdge(MemoryCounter):
    def grid(self, columns, cells):
        inside = np.ones(self._rows, dtype=bool)
        for name in columns:
            inside &= self._coordinates[name] < EDGE
        kept = {name: q[inside] for name, q in self._coordinates.items()}
        codes = {name: code[inside] for name, code in self._codes.items()}
        rows = int(inside.sum())
        return MemoryCounter(DOMAIN, coordinates=kept, codes=codes, rows=rows).grid(columns, cells)


class MeasuresInFloats(MemoryCounter):
    def distance_total(self, rule, *, clip, shift):
        weights = np.array(rule.weights, dtype=np.float64)
        x = np.stack([self._coordinates[name] for name in rule.columns], axis=1) * weights
        c = np.array(rule.centres) * weights
        squares = (x * x).sum(axis=1)[:, None] - 2 * x @ c.T + (c * c).sum(axis=1)
        nearest = np.minimum(squares.min(axis=1), clip).astype(np.int64)
        return Sealed(np.array((nearest >> shift).sum(), dtype=np.int64))


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (DropsEmptyCells, assert_counts),
        (CountsInFloats, assert_counts),
        (ForgetsTheOrderOfAxes, assert_counts),
        (LosesTheUpperEdge, assert_grids),
        (MeasuresInFloats, assert_distances),
    ],
)
def test_the_contract_catches_an_engine_with_one_fault(mutant, check):
    def caught(population: Population) -> bool:
        try:
            check(lambda rows: memory(rows, mutant), population)
        except AssertionError:
            return True
        return False

    assert any(caught(population) for population in POPULATIONS.values())
