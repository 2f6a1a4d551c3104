"""The cells with rows of a table too large for an array: what a loop over the rows says."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline_tests.populations import AWKWARD, TOWN, LoopCounter
from dp_pipeline_tests.raw.population import POPULATIONS, of_people
from dp_pipeline_tests.raw.questions import Engine, assert_answer, engines, memory

ASKED = [("c",), ("d", "c"), ("c", "d"), ("huge", "x", "d"), ("y", "z", "c", "wide")]

every_engine = pytest.mark.parametrize("engine", engines)


def check(engine: Engine) -> None:
    for population in POPULATIONS.values():
        for names in ASKED:
            table = population.counted(names).ravel()
            keys = np.flatnonzero(table)
            expected = np.stack([keys, table[keys]], axis=1)
            assert_answer(engine(population).occupied(names), expected)


@every_engine
def test_an_engine_agrees_with_the_whole_table(engine: Engine) -> None:
    check(engine)


@every_engine
@pytest.mark.parametrize("people_in", AWKWARD)
def test_an_engine_agrees_with_a_loop_over_people(engine: Engine, people_in: str) -> None:
    rows = AWKWARD[people_in]
    for names in (TOWN.discrete, TOWN.discrete[::-1], ("smokes",)):
        expected = LoopCounter(rows).occupied(names).open_at_the_gate()
        assert_answer(engine(of_people(rows)).occupied(names), expected)


class ForgetsTheOrderOfAxes(MemoryCounter):
    def occupied(self, attributes):
        return super().occupied(tuple(sorted(attributes)))


class InTheOrderOfTheRows(MemoryCounter):
    def occupied(self, attributes):
        found = super().occupied(attributes).open_at_the_gate()
        return Sealed(found[::-1].copy())


class ShowsEmptyCells(MemoryCounter):
    def occupied(self, attributes):
        (table,) = (table.ravel() for table in self.exact_tables([attributes]))
        return Sealed(np.stack([np.arange(len(table)), table], axis=1))


@pytest.mark.parametrize("mutant", [ForgetsTheOrderOfAxes, InTheOrderOfTheRows, ShowsEmptyCells])
def test_an_engine_with_a_fault_is_caught(mutant: type[MemoryCounter]) -> None:
    with pytest.raises(AssertionError):
        check(lambda population: memory(population, mutant))


def test_keys_reach_2_to_the_62_and_no_further() -> None:
    levels = Levels(("0", "1"))
    domain = Domain(tuple(Attribute(f"a{i}", f"a{i}", "drop", cells=levels) for i in range(63)))
    codes = {name: np.array([0, 1, 1], np.uint8) for name in domain.names}
    counter = MemoryCounter(domain, coordinates={}, codes=codes, rows=3)
    sealed = counter.occupied(domain.names[:62])
    assert sealed.open_at_the_gate().tolist() == [[0, 1], [(1 << 62) - 1, 2]]
    with pytest.raises(TypeError):
        pickle.dumps(sealed)
    for names in ((), domain.names, ("a0", "a0")):
        with pytest.raises(BoundaryViolation, match=r"2\^62 cells"):
            counter.occupied(names)
