"""What an engine shows of benchmark rows without noise depends on the rows, not on their order."""

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.counter import Disclosing
from dp_pipeline.raw.counters import batch as batch_file
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline_tests.populations import AWKWARD, LoopCounter
from dp_pipeline_tests.raw.population import POPULATIONS, of_people
from dp_pipeline_tests.raw.questions import assert_answer, engines


@pytest.fixture(params=engines, scope="module")
def engine(request):
    return request.param


@pytest.mark.parametrize("people", AWKWARD)
def test_an_engine_agrees_with_the_loop_counter(engine, people):
    counter, loop = engine(of_people(AWKWARD[people])), LoopCounter(AWKWARD[people])
    assert isinstance(counter, Disclosing)
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
    asked = counter.records(columns, many, salt).open_at_the_gate()
    assert_answer(moved.records(columns, many, salt), asked)
    assert_answer(moved.bounds(columns), counter.bounds(columns).open_at_the_gate())


def test_rows_of_one_hash_lie_by_their_coordinates(monkeypatch):
    def one_hash(columns, _):
        return np.zeros(len(columns[0]), dtype=np.uint64)

    monkeypatch.setattr(batch_file, "hash_of", one_hash)
    columns = [np.array([3, 1, 1, 2]), np.array([0, 9, -9, 5])]
    assert batch_file.first_by_hash(columns, 3, 0).tolist() == [[1, -9], [1, 9], [2, 5]]


def test_columns_are_refused_whatever_the_rows(engine):
    for people in AWKWARD.values():
        counter = engine(of_people(people))
        for columns in ((), ("x", "x")):
            with pytest.raises(BoundaryViolation):
                counter.bounds(columns)
            with pytest.raises(BoundaryViolation):
                counter.records(columns, 1, 0)


ASKED = [("c",), ("d", "c"), ("c", "d"), ("huge", "x", "d"), ("y", "z", "c", "wide")]


@pytest.mark.parametrize("population", POPULATIONS.values(), ids=POPULATIONS)
def test_occupied_cells_agree_with_the_loop_counter(engine, population):
    for names in ASKED:
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
