"""Engines with one fault each, which the contract must catch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.raw.counters.batch import Batch
from dp_pipeline.raw.counters.geometry import Assignment
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline_tests.raw.population import EDGE, POPULATIONS, Population
from dp_pipeline_tests.raw.questions import (
    CHECKS,
    assert_classes,
    assert_counts,
    assert_derived,
    assert_distances,
    assert_grids,
    assert_groups,
    assert_predictions,
    assert_residuals,
    assert_subsets,
    assert_trees,
    memory,
)


class Mutant(MemoryCounter):
    """An engine that a subclass makes wrong in one place."""

    @property
    def _codes(self):
        return self._batch.codes

    @property
    def _coordinates(self):
        return self._batch.coordinates

    @property
    def _rows(self):
        return self._batch.rows

    @property
    def _sizes(self):
        return self._batch.sizes

    def _columns(self, names):
        return self._batch._columns(names)

    def children(self, tree, asked):
        return [self.boxes(tree, nodes, bits) for nodes, bits in asked]

    def boxes(self, tree, nodes, bits):
        return super().children(tree, [(nodes, bits)])[0]

    def with_attributes(self, derived):
        self._batch._derived = self._derived
        return super().with_attributes(derived)

    def _derived(self, one, codes, sizes):
        return Batch._derived(self._batch, one, codes, sizes)


class CountsAGroupTwice(Mutant):
    def grouped(self, groupings):
        coarse = super().grouped(groupings)
        first = [np.flatnonzero(coarse._batch.codes[name] == 0) for name in groupings]
        return of_rows(coarse, np.concatenate([np.arange(self._rows), *first]))


class LosesALastGroup(Mutant):
    def grouped(self, groupings):
        coarse = super().grouped(groupings)
        kept = [coarse._batch.codes[name] < one.size - 1 for name, one in groupings.items()]
        return of_rows(coarse, np.logical_and.reduce([np.ones(self._rows, bool), *kept]))


class GroupsTheMostFrequentFirst(Mutant):
    """Groups levels by their exact counts, which nobody has released."""

    def grouped(self, groupings):
        codes = dict(self._codes)
        for name in groupings:
            order = np.argsort(-np.bincount(codes[name], minlength=self._sizes[name]))
            codes[name] = np.argsort(order)[codes[name]]
        sorted_ = MemoryCounter(
            self.domain, coordinates=self._coordinates, codes=codes, rows=self._rows
        )
        return sorted_.grouped(groupings)


class GroupsInPlace(Mutant):
    def grouped(self, groupings):
        for name, one in groupings.items():
            self._codes[name] = one.labels[self._codes[name]]
        return self


class ReadsTheFirstAttributeFastest(Mutant):
    def _derived(self, one, codes, sizes):
        shape = self.domain.shape(one.attributes)
        groups = np.reshape(one.groups, shape).T.ravel().tolist()
        turned = replace(one, attributes=one.attributes[::-1], groups=tuple(groups))
        return super()._derived(replace(turned, attributes=one.attributes), codes, sizes)


class DerivesInOneByte(Mutant):
    def _derived(self, one, codes, sizes):
        return super()._derived(one, codes, sizes).astype(np.uint8)


class NumbersGroupsByTheirRows(Mutant):
    """Groups by what nobody has released."""

    def _derived(self, one, codes, sizes):
        codes = super()._derived(one, codes, sizes)
        order = np.argsort(-np.bincount(codes, minlength=one.size), kind="stable")
        return np.argsort(order)[codes]


class CountsTheFirstGroupTwice(Mutant):
    def with_attributes(self, derived):
        finer = super().with_attributes(derived)
        first = [np.flatnonzero(finer._batch.codes[name] == 0) for name in derived]
        return of_rows(finer, np.concatenate([np.arange(self._rows), *first]))


class DropsEmptyCells(Mutant):
    def count(self, marginals):
        tables = self.exact_tables(marginals)
        return [Sealed(table[table > 0] if table.ndim else table) for table in tables]


class CountsInFloats(Mutant):
    def count(self, marginals):
        return [Sealed(table.astype(np.float64)) for table in self.exact_tables(marginals)]


class ForgetsTheOrderOfAxes(Mutant):
    def count(self, marginals):
        return super().count([tuple(sorted(names)) for names in marginals])


def of_rows(counter: MemoryCounter, rows: np.ndarray) -> MemoryCounter:
    """The counter of some of the rows, a mask or positions."""
    kept = {name: q[rows] for name, q in counter._batch.coordinates.items()}
    codes = {name: code[rows] for name, code in counter._batch.codes.items()}
    number = len(np.arange(counter._batch.rows)[rows])
    return MemoryCounter(counter.domain, coordinates=kept, codes=codes, rows=number)


class LosesTheUpperEdge(Mutant):
    def _inside(self, columns):
        edges = [self._coordinates[name] < EDGE for name in columns]
        return of_rows(self, np.logical_and.reduce(edges))

    def grid(self, columns, cells):
        return self._inside(columns).grid(columns, cells)

    def boxes(self, tree, nodes, bits):
        return self._inside(tree.columns).children(tree, [(nodes, bits)])[0]


class MeasuresInFloats(Mutant):
    def distance_total(self, rule, *, clip, shift):
        weights = np.array(rule.weights, dtype=np.float64)
        x = np.stack([self._coordinates[name] for name in rule.columns], axis=1) * weights
        c = np.array(rule.centres) * weights
        squares = (x * x).sum(axis=1)[:, None] - 2 * x @ c.T + (c * c).sum(axis=1)
        nearest = np.minimum(squares.min(axis=1), clip).astype(np.int64)
        return Sealed(np.array((nearest >> shift).sum(), dtype=np.int64))


class PutsTheUpperEdgeAtTheLower(Mutant):
    def boxes(self, tree, nodes, bits):
        moved = {name: np.where(q == EDGE, -EDGE, q) for name, q in self._coordinates.items()}
        counter = MemoryCounter(self.domain, coordinates=moved, codes=self._codes, rows=self._rows)
        return counter.children(tree, [(nodes, bits)])[0]


class KeepsTheKeysOfAnotherTree(Mutant):
    def boxes(self, tree, nodes, bits):
        self._batch._tree_keys = self._batch._tree_keys and (tree, self._batch._tree_keys[1])
        return super().boxes(tree, nodes, bits)


class LeavesOutEmptyBoxes(Mutant):
    def boxes(self, tree, nodes, bits):
        counts = super().boxes(tree, nodes, bits).open_at_the_gate()
        return Sealed(counts[:, counts.any(axis=0)])


class CountsANodeOnce(Mutant):
    def boxes(self, tree, nodes, bits):
        _, places = np.unique(nodes.keys, return_index=True)
        counts = super().boxes(tree, nodes, bits).open_at_the_gate()
        once = np.zeros_like(counts)
        once[places] = counts[places]
        return Sealed(once)


class ReadsBitsFromTheLast(Mutant):
    def boxes(self, tree, nodes, bits):
        counts = super().boxes(tree, nodes, bits).open_at_the_gate()
        order = [int(format(at, f"0{bits}b")[::-1], 2) if bits else 0 for at in range(1 << bits)]
        return Sealed(np.ascontiguousarray(counts[:, order]))


class TakesTheLastOfTiedCentres(Mutant):
    @staticmethod
    def _backwards(rule):
        return NearestCentre(rule.columns, rule.centres[::-1], rule.weights)

    def sum_by_centre(self, rules, *, salt):
        sums = super().sum_by_centre([self._backwards(rule) for rule in rules], salt=salt)
        return Sealed(sums.open_at_the_gate()[:, ::-1].copy())

    def residuals(self, rule, radii):
        sums = super().residuals(self._backwards(rule), radii[::-1])
        return Sealed(sums.open_at_the_gate()[::-1].copy())

    def classify(self, rule, attribute):
        table = super().classify(self._backwards(rule), attribute)
        return Sealed(table.open_at_the_gate()[:, ::-1].copy())


class SplitsRowsByPosition(Mutant):
    def sum_by_centre(self, rules, *, salt):
        parts = [
            of_rows(self, np.arange(self._rows) % len(rules) == at) for at in range(len(rules))
        ]
        sums = [
            part.sum_by_centre([rule], salt=salt).open_at_the_gate()
            for part, rule in zip(parts, rules, strict=True)
        ]
        return Sealed(np.concatenate(sums))


class ForgetsTheSalt(Mutant):
    def sum_by_centre(self, rules, *, salt):
        return super().sum_by_centre(rules, salt=0 * salt)


class HashesColumnsInTheirDeclaredOrder(Mutant):
    def sum_by_centre(self, rules, *, salt):
        names = [name for name in self.domain.numeric if name in rules[0].columns]
        order = [rules[0].columns.index(name) for name in names]
        turned = [
            NearestCentre(
                tuple(names),
                tuple(tuple(centre[at] for at in order) for centre in rule.centres),
                tuple(rule.weights[at] for at in order),
            )
            for rule in rules
        ]
        sums = super().sum_by_centre(turned, salt=salt).open_at_the_gate()
        back = [0, *(1 + at for at in np.argsort(order))]
        return Sealed(np.ascontiguousarray(sums[:, :, back]))


class ForgetsTheWeights(Mutant):
    def sum_by_centre(self, rules, *, salt):
        ones = [NearestCentre(r.columns, r.centres, (1,) * len(r.columns)) for r in rules]
        return super().sum_by_centre(ones, salt=salt)

    def classify(self, rule, attribute):
        one = NearestCentre(rule.columns, rule.centres, (1,) * len(rule.columns))
        return super().classify(one, attribute)


class AssignsInDoubles(Mutant):
    kind: type[np.floating] = np.float64

    def sum_by_centre(self, rules, *, salt):
        if len(rules) > 1:
            return super().sum_by_centre(rules, salt=salt)
        weights = np.array(rules[0].weights, dtype=self.kind)
        x = np.stack(self._columns(rules[0].columns), axis=1).astype(self.kind) * weights
        c = np.array(rules[0].centres, dtype=self.kind) * weights
        labels = ((c * c).sum(axis=1) - 2 * x @ c.T).argmin(axis=1)
        whole = np.stack([np.ones(len(x), int), *self._columns(rules[0].columns)], axis=1)
        sums = np.zeros((1, len(c), whole.shape[1]), dtype=np.int64)
        np.add.at(sums[0], labels, whole)
        return Sealed(sums)


class AssignsInSinglePrecision(AssignsInDoubles):
    kind = np.float32

    def sum_by_centre(self, rules, *, salt):
        # Doubles are too short for other rules, which are left to the engine without a fault.
        faulty = AssignsInDoubles if rules[0].fits_floats else MemoryCounter
        return faulty.sum_by_centre(self, rules, salt=salt)


class ClipsResidualsAnotherWay(Mutant):
    """Residuals by a formula of its own; here it is the right one."""

    def clipped(self, y, least):
        lengths = np.maximum(np.abs(y).sum(axis=0), least)
        return np.sign(y) * ((np.abs(y) << 16) // lengths)

    def residuals(self, rule, radii):
        assignment, columns = Assignment(rule), self._columns(rule.columns)
        labels = assignment.labels(columns)
        y = assignment.differences(columns, labels)
        parts = self.clipped(y, np.array(radii)[labels])
        sums = np.zeros((len(radii), len(columns)), dtype=np.int64)
        np.add.at(sums, labels, parts.T)
        return Sealed(sums)


class RoundsToTheNearest(ClipsResidualsAnotherWay):
    def clipped(self, y, least):
        lengths = np.maximum(np.abs(y).sum(axis=0), least)
        return np.rint(y * 65536.0 / lengths).astype(np.int64)


class RoundsDown(ClipsResidualsAnotherWay):
    def clipped(self, y, least):
        return (y << 16) // np.maximum(np.abs(y).sum(axis=0), least)


class ClipsInTheLargestAxis(ClipsResidualsAnotherWay):
    def clipped(self, y, least):
        lengths = np.maximum(np.abs(y).max(axis=0), least)
        return np.sign(y) * ((np.abs(y) << 16) // lengths)


class ScalesWithoutClipping(ClipsResidualsAnotherWay):
    def clipped(self, y, least):
        return np.sign(y) * ((np.abs(y) << 16) // least)


class ForgetsALevel(Mutant):
    def classify(self, rule, attribute):
        return Sealed(super().classify(rule, attribute).open_at_the_gate()[1:])


class TakesATieForPositive(Mutant):
    def mistakes(self, rule):
        return super().mistakes(replace(rule, intercept=rule.intercept + 1))


class CountsAWrongRowTwice(Mutant):
    def mistakes(self, rule):
        return Sealed(super().mistakes(rule).open_at_the_gate() * [1, 2])


class SwapsRightAndWrong(Mutant):
    def mistakes(self, rule):
        return Sealed(super().mistakes(rule).open_at_the_gate()[::-1].copy())


class LooksAtTheFirstLevelOnly(Mutant):
    def mistakes(self, rule):
        return super().mistakes(replace(rule, positive=rule.positive[:1]))


MUTANTS = [
    (CountsAGroupTwice, assert_groups),
    (LosesALastGroup, assert_groups),
    (GroupsTheMostFrequentFirst, assert_groups),
    (GroupsInPlace, assert_groups),
    (ReadsTheFirstAttributeFastest, assert_derived),
    (DerivesInOneByte, assert_derived),
    (NumbersGroupsByTheirRows, assert_derived),
    (CountsTheFirstGroupTwice, assert_derived),
    (DropsEmptyCells, assert_counts),
    (CountsInFloats, assert_counts),
    (ForgetsTheOrderOfAxes, assert_counts),
    (LosesTheUpperEdge, assert_grids),
    (MeasuresInFloats, assert_distances),
    (LosesTheUpperEdge, assert_trees),
    (PutsTheUpperEdgeAtTheLower, assert_trees),
    (KeepsTheKeysOfAnotherTree, assert_trees),
    (LeavesOutEmptyBoxes, assert_trees),
    (CountsANodeOnce, assert_trees),
    (ReadsBitsFromTheLast, assert_trees),
    (TakesTheLastOfTiedCentres, assert_subsets),
    (TakesTheLastOfTiedCentres, assert_residuals),
    (TakesTheLastOfTiedCentres, assert_classes),
    (SplitsRowsByPosition, assert_subsets),
    (ForgetsTheSalt, assert_subsets),
    (HashesColumnsInTheirDeclaredOrder, assert_subsets),
    (ForgetsTheWeights, assert_subsets),
    (ForgetsTheWeights, assert_classes),
    (AssignsInDoubles, assert_subsets),
    (AssignsInSinglePrecision, assert_subsets),
    (RoundsToTheNearest, assert_residuals),
    (RoundsDown, assert_residuals),
    (ClipsInTheLargestAxis, assert_residuals),
    (ScalesWithoutClipping, assert_residuals),
    (ForgetsALevel, assert_classes),
    (TakesATieForPositive, assert_predictions),
    (CountsAWrongRowTwice, assert_predictions),
    (SwapsRightAndWrong, assert_predictions),
    (LooksAtTheFirstLevelOnly, assert_predictions),
]


def is_caught(mutant, check) -> bool:
    def caught(population: Population) -> bool:
        try:
            check(lambda rows: memory(rows, mutant), population)
        except AssertionError:
            return True
        return False

    return any(caught(population) for population in POPULATIONS.values())


@pytest.mark.parametrize(("mutant", "check"), MUTANTS)
def test_the_contract_catches_an_engine_with_one_fault(mutant, check):
    assert is_caught(mutant, check)


def test_every_check_of_the_contract_has_a_mutant_and_passes_what_has_no_fault():
    assert {check for _, check in MUTANTS} == set(CHECKS)
    assert not is_caught(ClipsResidualsAnotherWay, assert_residuals)
    assert not any(is_caught(MemoryCounter, check) for check in CHECKS)
