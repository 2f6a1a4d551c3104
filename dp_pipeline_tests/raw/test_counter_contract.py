"""What every counting engine must answer, whatever the rows and however they are laid out."""

import pickle
import tracemalloc
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate.counter import MAX_GRID_CELLS
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.raw.counters import batch as batch_file
from dp_pipeline.raw.counters.geometry import sorted_keys, sums_by_centre
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.populations import AWKWARD, LoopCounter
from dp_pipeline_tests.raw.population import DOMAIN, EDGE, POPULATIONS, Population, drawn, of_people
from dp_pipeline_tests.raw.questions import (
    ASKED,
    PAIRS,
    ROOT,
    TREES,
    assert_agrees,
    assert_answer,
    counts,
    engines,
    grouped,
    nodes_of,
    tree_of,
)


@pytest.fixture(params=engines, scope="module")
def engine(request):
    return request.param


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("population", POPULATIONS.values(), ids=POPULATIONS)
def test_an_engine_agrees_with_a_loop_over_the_rows(ask, engine, population):
    assert_agrees(engine, population, ask)


SPREAD_OUT = NearestCentre(
    ("x", "y"), tuple((a, -a // 2) for a in range(-60_000, 60_000, 999)), (1, 1)
)


def morton(points: np.ndarray, bits: int) -> np.ndarray:
    """Rows in the cells of a grid of x and y, in the order of their interleaved bits."""
    cells = 1 << bits
    x, y = np.minimum((points[:, :2] + EDGE) * cells >> 17, cells - 1).T
    keys = sum(((x >> i & 1) << 2 * i + 1) | ((y >> i & 1) << 2 * i) for i in range(bits))
    return np.bincount(keys, minlength=cells * cells)


def test_many_rows_are_counted_once_each(engine):
    rows = 140_003
    population = drawn(rows)
    counter, points = engine(population), population.points
    *pairs, wide, total = counter.count([*PAIRS, ("wide",), ()])
    assert {int(table.open_at_the_gate().sum()) for table in (*pairs, total)} == {rows}
    assert_answer(wide, np.bincount(population.cells[:, 5], minlength=300))
    x, _, z, _ = points.T
    assert_answer(counter.grid(("x",), 2), np.bincount((x >= 0).astype(int)))
    rule = NearestCentre(("x", "z"), ((0, 0),), (1, 1))
    squares = ((x * x + z * z) >> 14).sum()
    assert_answer(counter.distance_total(rule, clip=1 << 40, shift=14), squares)
    c, d = population.cells[:, 3:5].T
    right = int(((c >= 2) == (d == 1)).sum())
    label = PredictedLabel("d", (1,), ("c",), ((-1, 0, 1, 2),), 0)
    assert_answer(counter.mistakes(label), np.array([right, rows - right]))
    # And are in one box and cluster each.
    boxes = counter.children(tree_of("x", "y"), [(ROOT.children(8), 8)])[0].open_at_the_gate()
    assert np.array_equal(boxes.ravel(), morton(points, 8))
    sums = counter.sum_by_centre([SPREAD_OUT] * 3, salt=3).open_at_the_gate()
    assert_answer(counter.sum_by_centre([SPREAD_OUT], salt=4), sums.sum(axis=0, keepdims=True))
    assert sums.sum(axis=(0, 1)).tolist() == [rows, *points[:, :2].sum(axis=0)]
    levels = counter.classify(SPREAD_OUT, "c").open_at_the_gate()
    assert levels.sum(axis=0).tolist() == sums.sum(axis=0)[:, 0].tolist()
    assert levels.sum(axis=1).tolist() == np.bincount(c).tolist()


def test_more_groups_than_two_bytes_hold(engine):
    names = tuple(map(str, range((1 << 16) + 9)))
    domain = Domain((Attribute("a", "a", "drop", cells=Levels(names)),))
    codes = np.array([[0], [7], [1 << 16], [(1 << 16) + 8]])
    counter = engine(Population(np.zeros((4, 0), int), codes, domain))
    alone = Grouping((0, *range((1 << 16) + 8)))
    (table,) = grouped(counter, {"a": alone}).count([("a",)])
    assert np.flatnonzero(table.open_at_the_gate()).tolist() == [0, 6, (1 << 16) - 1, (1 << 16) + 7]


@pytest.mark.parametrize("subsets", [1, 3])
def test_sums_by_centre_take_no_more_memory_for_more_rows(subsets):
    rng = np.random.default_rng(0)
    peaks = []
    for rows in (1 << 18, 1 << 20):
        columns = list(rng.integers(-EDGE, EDGE, size=(2, rows)).astype(np.int32))
        tracemalloc.start()
        sums_by_centre([SPREAD_OUT] * subsets, columns, rows=rows, salt=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 50e6


@pytest.mark.parametrize(("most", "bytes_a_row"), [(30, 4), (34, 8)])
def test_only_tree_keys_grow_with_the_rows(most, bytes_a_row):
    rows = 1 << 20
    columns = list(np.zeros((2, rows), dtype=np.int32))
    tracemalloc.start()
    sorted_keys(tree_of("x", "y", most=most), columns, rows=rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < bytes_a_row * rows + 4e6


marginal_lists = st.lists(
    st.lists(st.sampled_from(DOMAIN.discrete[:5]), unique=True, max_size=4).map(tuple), max_size=12
)
fixed_point = st.one_of(st.integers(-EDGE, EDGE), st.sampled_from([-EDGE, -1, 0, 1, EDGE]))
rows_of_points = st.lists(st.tuples(*[fixed_point] * 4), max_size=8)
column_lists = st.lists(st.sampled_from(DOMAIN.numeric), unique=True, min_size=1).map(tuple)
salts = st.integers(0, (1 << 63) - 1)


@st.composite
def populations(draw) -> Population:
    points = np.array(draw(rows_of_points), dtype=np.int64).reshape(-1, 4)
    sizes = [DOMAIN[name].size for name in DOMAIN.discrete]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return Population(points, rng.integers(0, sizes, size=(len(points), len(sizes))))


@st.composite
def trees(draw) -> tuple[BitTree, Prefixes, int]:
    """A tree whose bits halve any axes, nodes of it that may overlap, and bits below them."""
    columns = draw(column_lists)
    halvings = [axis for axis in range(len(columns)) for _ in range(17)]
    axes = tuple(draw(st.permutations(halvings))[: draw(st.integers(0, min(40, len(halvings))))])
    bits = draw(st.integers(0, min(6, len(axes))))
    depths = draw(st.lists(st.integers(0, len(axes) - bits), max_size=5))
    nodes = [(depth, draw(st.integers(0, (1 << depth) - 1))) for depth in depths]
    return BitTree(columns, axes), nodes_of(*nodes), bits


@st.composite
def labels(draw) -> PredictedLabel:
    """Any positive levels of an attribute, predicted by any weights of others."""
    target, *columns = draw(st.permutations(["x", "y", "z", "c", "d"]))
    columns = tuple(columns[: draw(st.integers(0, 4))])
    numbers = st.integers(-3, 3) | st.integers(-(1 << 40), 1 << 40)
    weights = tuple(tuple(draw(numbers) for _ in range(DOMAIN[name].size)) for name in columns)
    positive = tuple(draw(st.sets(st.integers(0, DOMAIN[target].size - 1))))
    return PredictedLabel(target, positive, columns, weights, draw(numbers))


@settings(max_examples=25)
@given(population=populations(), data=st.data())
def test_any_questions_are_answered_like_a_loop(engine, population, data):
    marginals, label, tree = (data.draw(each) for each in (marginal_lists, labels(), trees()))
    ends = ((1, 17), (1, 5), (0, 40), (0, 25))
    cells, k, shift, room = (data.draw(st.integers(*pair)) for pair in ends)
    grid, columns, salt = data.draw(column_lists), data.draw(column_lists), data.draw(salts)
    weights = data.draw(st.tuples(*[st.integers(0, 361)] * len(columns)))
    centres = st.tuples(*[st.tuples(*[fixed_point] * len(columns))] * k)
    subsets = data.draw(st.lists(centres, min_size=1, max_size=4))
    rules = [NearestCentre(columns, subset, weights) for subset in subsets]
    radii = data.draw(st.tuples(*[st.integers(1, (1 << 47) - 1)] * k))

    def ask(counter):
        yield from counter.count(marginals)
        yield counter.grid(grid, cells)
        yield from counter.children(tree[0], [tree[1:]])
        yield counter.distance_total(rules[0], clip=1 << (shift + room), shift=shift)
        yield counter.sum_by_centre(rules, salt=salt)
        yield counter.residuals(rules[0], radii)
        yield counter.classify(rules[-1], "c")
        yield counter.mistakes(label)

    assert_agrees(engine, population, ask)


@settings(max_examples=15)
@given(row=populations(), radius=st.integers(1, 1 << 30), weight=st.integers(0, 723))
def test_one_row_adds_at_most_one_radius_to_the_residuals(engine, row, radius, weight):
    rule = NearestCentre(("x", "z", "w"), ((0, 7, -9), (1, 1, 1)), (weight, 1, 3))
    for row_index in range(row.rows):
        added = engine(row.at([row_index])).residuals(rule, (radius, radius)).open_at_the_gate()
        assert np.abs(added).sum() <= EDGE


def test_an_answer_shares_no_memory(engine):
    population = POPULATIONS["few rows"]
    counter = engine(population)
    first, second = counter.count([("c", "d"), ("c", "d")])
    first.open_at_the_gate()[:] = -1
    assert_answer(second, population.loop.count([("c", "d")])[0].open_at_the_gate())
    assert_agrees(lambda _: counter, population, counts)
    for tree, nodes, bits in TREES:
        requests = [(nodes, bits)]
        counter.children(tree, requests)[0].open_at_the_gate()[:] = -1
        (expected,) = population.loop.children(tree, requests)
        assert_answer(counter.children(tree, requests)[0], expected.open_at_the_gate())


X = NearestCentre(("x",), ((0,),), (1,))
XY = tree_of("x", "y")
FLAT, TWICE = BitTree((), ()), BitTree(("x", "x"), (0, 1))
DEEP = BitTree(("x", "y", "z"), (0, 1, 2) * 13 + (0, 1))
NARROW = Prefixes(np.zeros(1, np.int32), np.zeros(1, np.int32))


def deriving(*attributes, groups, name="a"):
    return lambda c: c.recoded({name: DerivedAttribute(attributes, groups)}, c.domain)


def summing(*rule):
    return lambda c: c.sum_by_centre([X, NearestCentre(*rule)], salt=0)


def predicting(positive, columns, weights):
    return lambda c: c.mistakes(PredictedLabel("c", positive, columns, weights, 0))


def descending(tree, nodes, bits):
    return lambda c: c.children(tree, [(nodes, bits)])


REFUSED = {
    "an attribute twice": lambda c: c.count([("d",), ("c", "c")]),
    "a table above the cap": lambda c: c.count([("c",), ("wide", "huge")]),
    "a level without a group": deriving("c", groups=(0, 1, 1), name="c"),
    "a group left out": deriving("d", groups=(0, 2), name="d"),
    "an attribute that is there": deriving("d", groups=(0, 1), name="c"),
    "an attribute of none": deriving(groups=(0,)),
    "an attribute of one twice": deriving("d", "d", groups=(0, 1, 1, 0)),
    "a cell without a group": deriving("c", groups=(0, 1)),
    "a derived group left out": deriving("d", groups=(0, 2)),
    "a group below zero": deriving("d", groups=(-1, 0)),
    "half a group": deriving("d", groups=(0, 0.5)),
    "groups that could change": deriving("d", groups=[0, 1]),
    "an attribute of too many cells": deriving("huge", "c", groups=(0,) * 240_000),
    "a grid column twice": lambda c: c.grid(("x", "x"), 2),
    "a grid of no column": lambda c: c.grid((), 2),
    "a grid of no cells": lambda c: c.grid(("x",), 0),
    "a grid above the cap": lambda c: c.grid(("x",), MAX_GRID_CELLS + 1),
    "a grid above the cap in three dimensions": lambda c: c.grid(("x", "y", "z"), 257),
    "a tree of no column": descending(FLAT, ROOT, 0),
    "a tree with a column twice": descending(TWICE, ROOT, 1),
    "a tree of an axis that is not there": descending(BitTree(("x",), (1,)), ROOT, 1),
    "a tree of an axis below zero": descending(BitTree(("x",), (-1,)), ROOT, 1),
    "an axis halved too often": descending(BitTree(("x",), (0,) * 18), ROOT, 1),
    "a tree too deep": descending(DEEP, ROOT, 1),
    "boxes below the tree": descending(XY, nodes_of((30, 0)), 5),
    "bits below zero": descending(XY, ROOT, -1),
    "too many bits": descending(XY, ROOT, 17),
    "a node at a depth below zero": descending(XY, nodes_of((-1, 0)), 1),
    "a node with more bits than its depth": descending(XY, nodes_of((3, 8)), 1),
    "a node with bits below zero": descending(XY, nodes_of((3, -1)), 1),
    "nodes in too few bits": descending(XY, NARROW, 1),
    "more boxes than the cap": descending(XY, ROOT.children(9), 16),
    "no rule": lambda c: c.sum_by_centre([], salt=0),
    "a salt below zero": lambda c: c.sum_by_centre([X], salt=-1),
    "a salt too large": lambda c: c.sum_by_centre([X], salt=1 << 63),
    "rules of other columns": summing(("y",), ((0,),), (1,)),
    "rules of other weights": summing(("x",), ((0,),), (2,)),
    "rules of other numbers of centres": summing(("x",), ((0,), (1,)), (1,)),
    "a centre that is not whole": lambda c: c.classify(NearestCentre(("x",), ((0.5,),), (1,)), "c"),
    **{
        f"radii {radii}": lambda c, radii=radii: c.residuals(X, radii)
        for radii in ((), (1, 1), (0,), (-1,), (1 << 47,), (1.5,))
    },
    "bounds of no column": lambda c: c.bounds(()),
    "bounds of a column twice": lambda c: c.bounds(("x", "x")),
    "records of no column": lambda c: c.records((), 1, 0),
    "records of a column twice": lambda c: c.records(("x", "x"), 1, 0),
    "predictions by a weight that is not whole": predicting((0,), ("d",), ((0.5, 1),)),
    "predictions with a weight missing": predicting((0,), ("d",), ((1,),)),
    "predictions of a level that is not there": predicting((4,), (), ()),
    "classes above the cap": lambda c: c.classify(replace(X, centres=((0,),) * 300), "huge"),
}
BAD_RULES = {
    "no column": (NearestCentre((), (), ()), 1, 0),
    "a column twice": (NearestCentre(("x", "x"), ((0, 0),), (1, 1)), 1, 0),
    "no centre": (NearestCentre(("x",), (), (1,)), 1, 0),
    "a short centre": (NearestCentre(("x", "y"), ((0,),), (1, 1)), 1, 0),
    "a centre outside the box": (NearestCentre(("x",), ((EDGE + 1,),), (1,)), 1, 0),
    "a weight too large": (NearestCentre(("x",), ((0,),), (725,)), 1, 0),
    "a weight below zero": (NearestCentre(("x",), ((0,),), (-1,)), 1, 0),
    "a clip below zero": (X, -1, 0),
    "a shift below zero": (X, 1, -1),
    "rows that may overflow": (X, 1 << 40, 1),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED.keys())
def test_a_question_at_the_boundary_is_refused_whatever_the_rows(engine, ask):
    for rows in (0, 3):
        with pytest.raises(BoundaryViolation):
            ask(engine(drawn(rows)))


@pytest.mark.parametrize(("rule", "clip", "shift"), BAD_RULES.values(), ids=BAD_RULES.keys())
def test_a_rule_that_is_not_exact_is_refused_by_every_query(engine, rule, clip, shift):
    queries = [lambda c: c.distance_total(rule, clip=clip, shift=shift)]
    if (clip, shift) == (1, 0):
        queries.append(lambda c: c.sum_by_centre([rule], salt=0))
        queries.append(lambda c: c.residuals(rule, (1,) * len(rule.centres)))
        queries.append(lambda c: c.classify(rule, "c"))
    for rows, ask in product((0, 3), queries):
        with pytest.raises(BoundaryViolation):
            ask(engine(drawn(rows)))


OF_LEVELS = NearestCentre(("c",), ((0,),), (1,))
OF_NOTHING = NearestCentre(("age",), ((0,),), (1,))
UNDECLARED = {
    "The data set has no attribute": [
        lambda c: c.count([("age",)]),
        lambda c: c.residuals(OF_NOTHING, (1,)),
    ],
    "must be a number with bounds to be used here": [
        lambda c: c.grid(("c",), 2),
        lambda c: c.distance_total(OF_LEVELS, clip=1, shift=0),
        lambda c: c.children(BitTree(("c",), (0,)), [(ROOT, 1)]),
        lambda c: c.sum_by_centre([OF_LEVELS], salt=0),
    ],
    "has bounds but no cells: declare bins or edges for it": [
        lambda c: c.classify(X, "w"),
        lambda c: c.mistakes(PredictedLabel("c", (0,), ("w",), ((0,),), 0)),
    ],
}


def test_undeclared_and_unbounded_attributes_are_refused(engine):
    counter = engine(drawn(2))
    for message, queries in UNDECLARED.items():
        for query in queries:
            with pytest.raises(DeclarationError, match=message):
                query(counter)


def test_an_engine_and_its_answers_show_no_number(engine):
    counter = engine(drawn(37))
    (rows,) = counter.count([()])
    assert "37" not in repr(counter) + repr(rows)
    with pytest.raises(TypeError):
        pickle.dumps(rows)


@pytest.mark.parametrize("people", AWKWARD)
def test_an_engine_agrees_with_the_loop_counter(engine, people):
    counter, loop = engine(of_people(AWKWARD[people])), LoopCounter(AWKWARD[people])
    for columns in [("x",), ("x", "y"), ("y", "x")]:
        assert_answer(counter.bounds(columns), loop.bounds(columns).open_at_the_gate())
        for limit, salt in product([1, 3, 9, 12], [0, 7, (1 << 63) - 1]):
            expected = loop.records(columns, limit, salt).open_at_the_gate()
            assert_answer(counter.records(columns, limit, salt), expected)


@settings(max_examples=30)
@given(order=st.permutations(range(10)), many=st.integers(1, 12), salt=st.integers(0, 2**63 - 1))
def test_the_order_of_the_rows_changes_nothing(engine, order, many, salt):
    population = of_people(AWKWARD["ten people"])
    counter, moved, columns = engine(population), engine(population.at(order)), ("x", "y")
    records = counter.records(columns, many, salt).open_at_the_gate()
    assert_answer(moved.records(columns, many, salt), records)
    assert_answer(moved.bounds(columns), counter.bounds(columns).open_at_the_gate())


def test_rows_of_one_hash_lie_by_their_coordinates(monkeypatch):
    one_hash = np.zeros(4, dtype=np.uint64)
    monkeypatch.setattr(batch_file, "hash_of", lambda *_: one_hash)
    columns = [np.array([3, 1, 1, 2]), np.array([0, 9, -9, 5])]
    assert batch_file.first_by_hash(columns, 3, 0).tolist() == [[1, -9], [1, 9], [2, 5]]


OCCUPIED = [("c",), ("d", "c"), ("c", "d"), ("huge", "x", "d"), ("y", "z", "c", "wide")]


@pytest.mark.parametrize("population", POPULATIONS.values(), ids=POPULATIONS)
def test_occupied_cells_agree_with_the_loop_counter(engine, population):
    for names in OCCUPIED:
        expected = population.loop.occupied(names).open_at_the_gate()
        assert_answer(engine(population).occupied(names), expected)


def test_keys_reach_2_to_the_62_and_no_further():
    levels = Levels(("0", "1"))
    domain = Domain(tuple(Attribute(f"a{i}", f"a{i}", "drop", cells=levels) for i in range(63)))
    codes = {name: np.array([0, 1, 1], np.uint8) for name in domain.names}
    counter = MemoryCounter(domain, coordinates={}, codes=codes, rows=3)
    sealed = counter.occupied(domain.names[:62])
    assert sealed.open_at_the_gate().tolist() == [[0, 1], [(1 << 62) - 1, 2]]
    with pytest.raises(TypeError):
        pickle.dumps(sealed)
    wrong = {(): "it has none", domain.names: "at most", ("a0", "a0"): "different"}
    for names, fault in wrong.items():
        with pytest.raises(BoundaryViolation, match=fault):
            counter.occupied(names)
