"""Engines with one fault each, which the contract must catch."""

from dataclasses import replace

import numpy as np
import pytest

from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.raw.counters.batch import Batch
from dp_pipeline.raw.counters.geometry import Assignment
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline_tests.raw import questions
from dp_pipeline_tests.raw.population import EDGE, POPULATIONS
from dp_pipeline_tests.raw.questions import ASKED, assert_agrees, memory


class Mutant(MemoryCounter):
    """An engine that a subclass makes wrong in one place."""

    def children(self, tree, queries):
        return [self.boxes(tree, nodes, bits) for nodes, bits in queries]

    def boxes(self, tree, nodes, bits):
        return super().children(tree, [(nodes, bits)])[0]

    def with_attributes(self, derived):
        self._batch._derived = self.derived_codes
        return super().with_attributes(derived)

    def derived_codes(self, derived, codes, sizes):
        return Batch._derived(self._batch, derived, codes, sizes)


def with_answer(method, change):
    """The engine whose answers ``change`` turns into others."""

    def faulty(self, *arguments, **options):
        answers = getattr(super(mutant, self), method)(*arguments, **options)
        if isinstance(answers, list):
            return [Sealed(change(answer.open_at_the_gate())) for answer in answers]
        return Sealed(np.ascontiguousarray(change(answers.open_at_the_gate())))

    mutant = type("Mutated", (Mutant,), {method: faulty})
    return mutant


def with_arguments(method, change):
    """The engine that answers another query."""

    def faulty(self, *arguments, **options):
        arguments, options = change(*arguments, **options)
        return getattr(super(mutant, self), method)(*arguments, **options)

    mutant = type("Mutated", (Mutant,), {method: faulty})
    return mutant


def of_rows(counter, rows):
    """The counter of some of the rows, a mask or positions."""
    batch = counter._batch
    return MemoryCounter(
        counter.domain,
        coordinates={name: q[rows] for name, q in batch.coordinates.items()},
        codes={name: codes[rows] for name, codes in batch.codes.items()},
        rows=len(np.arange(batch.rows)[rows]),
    )


class CountsAGroupTwice(Mutant):
    def grouped(self, groupings):
        return self.doubled(super().grouped(groupings), groupings)

    def doubled(self, counter, names):
        first = [np.flatnonzero(counter._batch.codes[name] == 0) for name in names]
        return of_rows(counter, np.concatenate([np.arange(self._batch.rows), *first]))


class CountsTheFirstGroupTwice(CountsAGroupTwice):
    def grouped(self, groupings):
        return MemoryCounter.grouped(self, groupings)

    def with_attributes(self, derived):
        return self.doubled(super().with_attributes(derived), derived)


class LosesALastGroup(Mutant):
    def grouped(self, groupings):
        coarse = super().grouped(groupings)
        kept = [coarse._batch.codes[name] < g.size - 1 for name, g in groupings.items()]
        return of_rows(coarse, np.logical_and.reduce([np.ones(self._batch.rows, bool), *kept]))


class GroupsTheMostFrequentFirst(Mutant):
    """Groups levels by their exact counts, which were never released."""

    def grouped(self, groupings):
        codes = dict(self._batch.codes)
        for name in groupings:
            order = np.argsort(-np.bincount(codes[name], minlength=self._batch.sizes[name]))
            codes[name] = np.argsort(order)[codes[name]]
        sorted_ = MemoryCounter(
            self.domain, coordinates=self._batch.coordinates, codes=codes, rows=self._batch.rows
        )
        return sorted_.grouped(groupings)


class GroupsInPlace(Mutant):
    def grouped(self, groupings):
        for name, grouping in groupings.items():
            self._batch.codes[name] = grouping.labels[self._batch.codes[name]]
        return self


class ReadsTheFirstAttributeFastest(Mutant):
    def derived_codes(self, derived, codes, sizes):
        shape = self.domain.shape(derived.attributes)
        groups = tuple(np.reshape(derived.groups, shape).T.ravel().tolist())
        return super().derived_codes(replace(derived, groups=groups), codes, sizes)


class DerivesInOneByte(Mutant):
    def derived_codes(self, derived, codes, sizes):
        return super().derived_codes(derived, codes, sizes).astype(np.uint8)


class NumbersGroupsByTheirRows(Mutant):
    """Groups by what was never released."""

    def derived_codes(self, derived, codes, sizes):
        codes = super().derived_codes(derived, codes, sizes)
        order = np.argsort(-np.bincount(codes, minlength=derived.size), kind="stable")
        return np.argsort(order)[codes]


class LosesTheUpperEdge(Mutant):
    def inside(self, columns):
        edges = [self._batch.coordinates[name] < EDGE for name in columns]
        return of_rows(self, np.logical_and.reduce(edges))

    def grid(self, columns, cells):
        return self.inside(columns).grid(columns, cells)

    def boxes(self, tree, nodes, bits):
        return self.inside(tree.columns).children(tree, [(nodes, bits)])[0]


class MeasuresInFloats(Mutant):
    def distance_total(self, rule, *, clip, shift):
        weights = np.array(rule.weights, dtype=np.float64)
        x = np.stack(self._batch._columns(rule.columns), axis=1) * weights
        c = np.array(rule.centres) * weights
        squares = (x * x).sum(axis=1)[:, None] - 2 * x @ c.T + (c * c).sum(axis=1)
        nearest = np.minimum(squares.min(axis=1), clip).astype(np.int64)
        return Sealed(np.array((nearest >> shift).sum(), dtype=np.int64))


class PutsTheUpperEdgeAtTheLower(Mutant):
    def boxes(self, tree, nodes, bits):
        batch = self._batch
        moved = {name: np.where(q == EDGE, -EDGE, q) for name, q in batch.coordinates.items()}
        counter = MemoryCounter(self.domain, coordinates=moved, codes=batch.codes, rows=batch.rows)
        return counter.children(tree, [(nodes, bits)])[0]


class KeepsTheKeysOfAnotherTree(Mutant):
    def boxes(self, tree, nodes, bits):
        self._batch._tree_keys = self._batch._tree_keys and (tree, self._batch._tree_keys[1])
        return super().boxes(tree, nodes, bits)


class CountsANodeOnce(Mutant):
    def boxes(self, tree, nodes, bits):
        _, places = np.unique(nodes.keys, return_index=True)
        counts = super().boxes(tree, nodes, bits).open_at_the_gate()
        once = np.zeros_like(counts)
        once[places] = counts[places]
        return Sealed(once)


def from_the_last_bit(counts):
    bits = counts.shape[1].bit_length() - 1
    order = [int(format(i, f"0{bits}b")[::-1], 2) if bits else 0 for i in range(1 << bits)]
    return counts[:, order]


class TakesTheLastOfTiedCentres(Mutant):
    @staticmethod
    def backwards(rule):
        return NearestCentre(rule.columns, rule.centres[::-1], rule.weights)

    def sum_by_centre(self, rules, *, salt):
        sums = super().sum_by_centre([self.backwards(rule) for rule in rules], salt=salt)
        return Sealed(sums.open_at_the_gate()[:, ::-1].copy())

    def residuals(self, rule, radii):
        sums = super().residuals(self.backwards(rule), radii[::-1])
        return Sealed(sums.open_at_the_gate()[::-1].copy())

    def classify(self, rule, attribute):
        table = super().classify(self.backwards(rule), attribute)
        return Sealed(table.open_at_the_gate()[:, ::-1].copy())


class SplitsRowsByPosition(Mutant):
    def sum_by_centre(self, rules, *, salt):
        subset = np.arange(self._batch.rows) % len(rules)
        sums = [
            of_rows(self, subset == i).sum_by_centre([rule], salt=salt).open_at_the_gate()
            for i, rule in enumerate(rules)
        ]
        return Sealed(np.concatenate(sums))


class HashesColumnsInTheirDeclaredOrder(Mutant):
    def sum_by_centre(self, rules, *, salt):
        names = [name for name in self.domain.numeric if name in rules[0].columns]
        order = [rules[0].columns.index(name) for name in names]
        reordered = [
            NearestCentre(
                tuple(names),
                tuple(tuple(centre[i] for i in order) for centre in rule.centres),
                tuple(rule.weights[i] for i in order),
            )
            for rule in rules
        ]
        sums = super().sum_by_centre(reordered, salt=salt).open_at_the_gate()
        back = [0, *(1 + i for i in np.argsort(order))]
        return Sealed(np.ascontiguousarray(sums[:, :, back]))


def unweighted(rule):
    return NearestCentre(rule.columns, rule.centres, (1,) * len(rule.columns))


class AssignsInDoubles(Mutant):
    kind: type[np.floating] = np.float64

    def sum_by_centre(self, rules, *, salt):
        if len(rules) > 1:
            return super().sum_by_centre(rules, salt=salt)
        columns = self._batch._columns(rules[0].columns)
        weights = np.array(rules[0].weights, dtype=self.kind)
        x = np.stack(columns, axis=1).astype(self.kind) * weights
        c = np.array(rules[0].centres, dtype=self.kind) * weights
        labels = ((c * c).sum(axis=1) - 2 * x @ c.T).argmin(axis=1)
        rows = np.stack([np.ones(len(x), int), *columns], axis=1)
        sums = np.zeros((1, len(c), rows.shape[1]), dtype=np.int64)
        np.add.at(sums[0], labels, rows)
        return Sealed(sums)


class AssignsInSinglePrecision(AssignsInDoubles):
    kind = np.float32

    def sum_by_centre(self, rules, *, salt):
        # Doubles are too short for other rules, which are left to the engine without a fault.
        faulty = AssignsInDoubles if rules[0].fits_floats else MemoryCounter
        return faulty.sum_by_centre(self, rules, salt=salt)


def clips_by(formula):
    """The engine that clips residuals y (d, rows) to radii (rows,) by a formula of its own."""

    class Clips(Mutant):
        def residuals(self, rule, radii):
            assignment, columns = Assignment(rule), self._batch._columns(rule.columns)
            labels = assignment.labels(columns)
            parts = formula(assignment.differences(columns, labels), np.array(radii)[labels])
            sums = np.zeros((len(radii), len(columns)), dtype=np.int64)
            np.add.at(sums, labels, parts.T)
            return Sealed(sums)

    return Clips


def lengths(y, radii):
    return np.maximum(np.abs(y).sum(axis=0), radii)


def towards_zero(y, lengths):
    return np.sign(y) * ((np.abs(y) << 16) // lengths)


clips_rightly = clips_by(lambda y, radii: towards_zero(y, lengths(y, radii)))

MUTANTS = {
    "counts a group twice": (CountsAGroupTwice, questions.groups),
    "loses a last group": (LosesALastGroup, questions.groups),
    "groups the most frequent first": (GroupsTheMostFrequentFirst, questions.groups),
    "groups in place": (GroupsInPlace, questions.groups),
    "reads the first attribute fastest": (ReadsTheFirstAttributeFastest, questions.derived),
    "derives in one byte": (DerivesInOneByte, questions.derived),
    "numbers groups by their rows": (NumbersGroupsByTheirRows, questions.derived),
    "counts the first derived group twice": (CountsTheFirstGroupTwice, questions.derived),
    "drops empty cells": (
        with_answer("count", lambda table: table[table > 0] if table.ndim else table),
        questions.counts,
    ),
    "counts in floats": (
        with_answer("count", lambda table: table.astype(np.float64)),
        questions.counts,
    ),
    "forgets the order of axes": (
        with_arguments("count", lambda tables: (([tuple(sorted(t)) for t in tables],), {})),
        questions.counts,
    ),
    "grids lose the upper edge": (LosesTheUpperEdge, questions.grids),
    "measures in floats": (MeasuresInFloats, questions.distances),
    "trees lose the upper edge": (LosesTheUpperEdge, questions.trees),
    "puts the upper edge at the lower": (PutsTheUpperEdgeAtTheLower, questions.trees),
    "keeps the keys of another tree": (KeepsTheKeysOfAnotherTree, questions.trees),
    "leaves out empty boxes": (
        with_answer("boxes", lambda counts: counts[:, counts.any(axis=0)]),
        questions.trees,
    ),
    "counts a node once": (CountsANodeOnce, questions.trees),
    "reads bits from the last": (with_answer("boxes", from_the_last_bit), questions.trees),
    "sums at the last tied centre": (TakesTheLastOfTiedCentres, questions.subsets),
    "residuals of the last tied centre": (TakesTheLastOfTiedCentres, questions.residuals),
    "classes at the last tied centre": (TakesTheLastOfTiedCentres, questions.classes),
    "splits rows by position": (SplitsRowsByPosition, questions.subsets),
    "forgets the salt": (
        with_arguments("sum_by_centre", lambda rules, salt: ((rules,), {"salt": 0 * salt})),
        questions.subsets,
    ),
    "hashes columns in declared order": (HashesColumnsInTheirDeclaredOrder, questions.subsets),
    "sums without weights": (
        with_arguments(
            "sum_by_centre", lambda rules, salt: (([*map(unweighted, rules)],), {"salt": salt})
        ),
        questions.subsets,
    ),
    "classes without weights": (
        with_arguments("classify", lambda rule, name: ((unweighted(rule), name), {})),
        questions.classes,
    ),
    "assigns in doubles": (AssignsInDoubles, questions.subsets),
    "assigns in single precision": (AssignsInSinglePrecision, questions.subsets),
    "rounds to the nearest": (
        clips_by(lambda y, radii: np.rint(y * 65536.0 / lengths(y, radii)).astype(np.int64)),
        questions.residuals,
    ),
    "rounds down": (clips_by(lambda y, radii: (y << 16) // lengths(y, radii)), questions.residuals),
    "clips in the largest axis": (
        clips_by(lambda y, radii: towards_zero(y, np.maximum(np.abs(y).max(axis=0), radii))),
        questions.residuals,
    ),
    "scales without clipping": (clips_by(towards_zero), questions.residuals),
    "forgets a level": (with_answer("classify", lambda table: table[1:]), questions.classes),
    "takes a tie for positive": (
        with_arguments("mistakes", lambda r: ((replace(r, intercept=r.intercept + 1),), {})),
        questions.predictions,
    ),
    "counts a wrong row twice": (
        with_answer("mistakes", lambda n: n * [1, 2]),
        questions.predictions,
    ),
    "swaps right and wrong": (with_answer("mistakes", lambda n: n[::-1]), questions.predictions),
    "reads the first level only": (
        with_arguments("mistakes", lambda r: ((replace(r, positive=r.positive[:1]),), {})),
        questions.predictions,
    ),
}


def is_caught(mutant, ask):
    def fails(population):
        try:
            assert_agrees(lambda rows: memory(rows, mutant), population, ask)
        except AssertionError:
            return True
        return False

    return any(map(fails, POPULATIONS.values()))


@pytest.mark.parametrize(("mutant", "ask"), MUTANTS.values(), ids=MUTANTS)
def test_the_contract_catches_an_engine_with_one_fault(mutant, ask):
    assert is_caught(mutant, ask)


@pytest.mark.chain
def test_every_question_has_a_mutant_and_passes_sound_engines():
    assert {ask for _, ask in MUTANTS.values()} == set(ASKED)
    assert not is_caught(clips_rightly, questions.residuals)
    assert not any(is_caught(MemoryCounter, ask) for ask in ASKED)
    # The helpers that make mutants change nothing of their own accord.
    assert not is_caught(with_answer("mistakes", lambda n: n), questions.predictions)
    assert not is_caught(with_answer("boxes", lambda counts: counts), questions.trees)
