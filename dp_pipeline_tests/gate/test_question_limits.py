"""Which questions the gate tells apart, and which it refuses before any charge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import (
    BoundaryViolation,
    DeclarationError,
    OtherQuestion,
    PipelineError,
)
from dp_pipeline.gate.counter import MAX_GRID_CELLS
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.rules import MAX_WEIGHT, NearestCentre, PredictedLabel
from dp_pipeline.gate.scores import DependenceScore, Independence, Purity
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.gate.questions import (
    EXAMPLES,
    IN_RHO,
    ONE,
    PAIRS,
    ZCDP,
    FailingCounter,
    LookedAt,
    Question,
    along_x,
    asks,
    asks_scores,
    every_question,
)
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, Row


@dataclass(frozen=True)
class OwnScore:
    """A score that nobody has proven: it would be handed the exact table."""

    def score(self, table: IntArray) -> int:
        return int(table.sum()) << 30

    def linf(self, rows_per_unit: int) -> int:
        return rows_per_unit


class OwnKeys(Prefixes):
    """Nodes that a session would take for others."""

    @property
    def keys(self) -> IntArray:
        return np.arange(len(self))


GAP = DependenceScore(np.zeros((3, 2), np.int64))
HIGHER_GAP = DependenceScore(GAP.expected + 1)
TURNED_GAP = DependenceScore(np.zeros((2, 3), np.int64))
SCORED = dict.fromkeys(PAIRS, Independence())
RULE, MOVED, LIGHT = along_x(0), along_x(1), along_x(0, 256)
ALONG_Y = along_x(0, name="y")
OTHER_GUESSES: list[dict[str, Any]] = [{}, {"intercept": 0}, {"positive": (0,)}]
GUESS = PredictedLabel("smokes", (1,), ("colour",), ((-1, 0, 1),), 1)
TREE = BitTree(("x", "y"), (0, 1, 0, 1))
TURNED = BitTree(("x", "y"), (1, 0, 1, 0))
ROOT = Prefixes.root()
HALVES = ROOT.children(1)
EVEN = np.full(3, 1 << 14)
EVEN[0] <<= 1


distance_of, error_of = partial(asks, "measure_distance"), partial(asks, "measure_marginal_error")
nodes_of, boxes_of = partial(asks, "measure_nodes"), partial(asks, "measure_boxes")
classes_of = partial(asks, "measure_classes")
scores_of, choice_of = partial(asks_scores, "measure_all"), partial(asks_scores, "choose")


def in_clusters(*rules: NearestCentre, salt: int = 0) -> Question:
    how = {"sizes_epsilon": ONE / 2, "totals_epsilon": ONE / 2, "salt": salt}
    return lambda curator: curator.measure_clusters(list(rules), **how)


def expand_root(curator, tree, *, bits=1, shares=9, epsilon=ONE) -> object:
    session = curator.open_tree(tree, epsilon=epsilon)
    return session.expand(ROOT, bits=bits, shares=np.array([shares]))


HALF = ONE / 2
DIFFERENT: list[Question] = [
    *(asks("measure", names) for names in ((), ("y",), ("colour",), ("smokes",))),
    partial(asks("measure", ("y",)), epsilon=HALF),
    lambda c: c.grouped({"colour": Grouping((0, 0, 1))}).measure(("smokes",), epsilon=ONE),
    lambda c: c.tabulate({("y",): HALF, ("colour",): HALF}),
    lambda c: c.tabulate({("y",): HALF, ("colour",): ONE / 3}),
    lambda c: c.tabulate({("y",): HALF, ("smokes",): HALF}),
    *(asks("measure_grid", ("x",), cells=cells) for cells in (1, 3, 4)),
    *(asks("measure_grid", columns, cells=4) for columns in (("y",), ("x", "y"), ("y", "x"))),
    *(nodes_of((name,), ROOT, depth=1) for name in "xy"),
    *(nodes_of(("x",), HALVES.where(np.array([i])), depth=1) for i in (0, 1)),
    *(asks("choose", "edge", {PAIRS[0]: score}) for score in (GAP, HIGHER_GAP, Purity())),
    scores_of({PAIRS[0]: GAP}),
    scores_of({PAIRS[0][::-1]: TURNED_GAP}),
    *(choice_of(SCORED, "edge", names) for names in (PAIRS, PAIRS[1:])),
    choice_of(SCORED, "edge", PAIRS, penalties={PAIRS[2]: 1}),
    *(asks("sparse_table", ("colour",), threshold=threshold) for threshold in (2, 3)),
    asks("sparse_table", ("smokes",), threshold=2),
    *(distance_of(RULE, clip=8 * n, shift=n) for n in (1, 2)),
    *(distance_of(RULE, clip=9, shift=shift) for shift in (0, 1)),
    *(distance_of(rule, clip=9, shift=0) for rule in (LIGHT, MOVED)),
    *(classes_of(RULE, name) for name in ("smokes", "colour")),
    *(classes_of(rule, "smokes") for rule in (MOVED, ALONG_Y)),
    *(asks("measure_mistakes", replace(GUESS, **other)) for other in OTHER_GUESSES),
    *(asks("measure_residuals", RULE, (radius,)) for radius in (8, 9)),
    asks("measure_residuals", MOVED, (9,)),
    *(in_clusters(*rules) for rules in ((RULE, MOVED), (MOVED, RULE), (RULE, RULE))),
    in_clusters(RULE, RULE, salt=1),
    *(boxes_of(TREE, HALVES.where(np.array([i]))) for i in (0, 1)),
    *(boxes_of(tree, HALVES) for tree in (TREE, TURNED)),
    lambda c: expand_root(c, TREE, shares=7),
    lambda c: expand_root(c, TREE, shares=8),
    lambda c: expand_root(c, TREE),
    lambda c: expand_root(c, TREE, bits=2),
    lambda c: expand_root(c, TREE, epsilon=HALF),
    lambda c: expand_root(c, TURNED),
    lambda c: c.open_splits(TREE, bits=1, epsilon=ONE).decide_splits(ROOT),
    lambda c: c.open_splits(TREE, bits=2, epsilon=ONE).decide_splits(ROOT),
    lambda c: c.open_splits(TURNED, bits=1, epsilon=ONE).decide_splits(ROOT),
    *(error_of({("colour",): s}) for s in (EVEN, EVEN[::-1].copy())),
]
"""Each differs from all others in one argument or more that its answer depends on."""


def questions_of(ask: Callable[[Curator], object], rows: tuple[Row, ...]) -> tuple[str, ...]:
    transcript = Transcript()
    ask(curator_over(rows, epsilon=ONE, transcript=transcript))
    return tuple(record.question for record in transcript.records)


def test_different_questions_have_different_keys() -> None:
    keys = {questions_of(ask, NOBODY) for ask in DIFFERENT}
    assert len(keys) == len(DIFFERENT)


@every_question
def test_a_stored_answer_serves_no_other_distance(kind, currency):
    paid, transcript = {"epsilon": ONE, "currency": currency}, Transcript()
    EXAMPLES[kind](curator_over(TEN_PEOPLE, transcript=transcript, **paid))
    with pytest.raises(OtherQuestion, match=r"the next stored answer"):
        EXAMPLES[kind](curator_over(None, distance=2, transcript=transcript.rewind(), **paid))


@pytest.mark.parametrize("kind", IN_RHO)
def test_a_stored_answer_serves_no_other_currency(kind):
    transcript = Transcript()
    EXAMPLES[kind](curator_over(TEN_PEOPLE, currency=ZCDP, transcript=transcript))
    with pytest.raises((OtherQuestion, BoundaryViolation)):
        EXAMPLES[kind](curator_over(None, transcript=transcript.rewind()))


@pytest.mark.parametrize("kind", sorted({*EXAMPLES} - {"rows"}))
def test_a_question_has_one_identity_whatever_the_rows(kind: str) -> None:
    crowds = (NOBODY, TEN_PEOPLE, TEN_PEOPLE * 5)
    assert len({questions_of(EXAMPLES[kind], rows) for rows in crowds}) == 1


CHANGEABLE = BitTree(("x", "y"), [0, 1])  # type: ignore[arg-type]
MANY = (1 << 24) + 1
FIRST_BITS_LOST = Prefixes(np.array([1, 20], np.int32), np.array([1, (1 << 20) - 1], np.int32))
OVERLAPPING = Prefixes.concatenate([ROOT, ROOT.children(2)])
FLAT = {pair: DependenceScore(np.zeros(TOWN.shape(pair), np.int64)) for pair in PAIRS}
OWN = {PAIRS[0]: OwnScore()}
PREDICTION = PredictedLabel("smokes", (1,), ("colour", "y"), ((-2, 1, 3), (0, 0, 1)), -1)
NOT_A_PAIR = ("colour", "y")


def predicted(**changes: object) -> Question:
    return asks("measure_mistakes", replace(PREDICTION, **changes))  # type: ignore[arg-type]


REFUSED: dict[str, Question] = {
    "overlapping nodes": nodes_of(("x", "y"), OVERLAPPING, depth=1),
    "nodes below the depth": nodes_of(("x",), ROOT.children(1), depth=0),
    "nodes outside the tree": nodes_of(("x",), Prefixes(np.array([1]), np.array([2])), depth=1),
    "nodes halved on one axis alone": nodes_of(("x", "y"), HALVES, depth=1),
    "nodes of 32 bits": nodes_of(("x", "y"), FIRST_BITS_LOST, depth=10),
    "a tree above the cap": nodes_of(("x", "y"), ROOT, depth=13),
    "a negative depth": nodes_of(("x",), ROOT, depth=-1),
    "a grid above the cap": asks("measure_grid", ("x", "y"), cells=4097),
    "no cells": asks("measure_grid", ("x",), cells=0),
    "an axis twice": asks("measure_grid", ("x", "x"), cells=2),
    "no columns": asks("measure_grid", (), cells=2),
    "a grid over levels": asks("measure_grid", ("colour",), cells=2),
    "an attribute twice": asks("measure", ("colour", "colour")),
    "an attribute twice in a choice": asks("choose", "edge", {("y", "y"): Independence()}),
    "an attribute twice in an error": error_of(
        {("smokes", "smokes"): np.array([[1 << 16, 0], [0, 0]])}
    ),
    "an attribute twice in a table": lambda c: c.tabulate({(): ONE, ("colour", "colour"): ONE}),
    "attributes without cells": asks("measure", ("x",)),
    "a sparse table without cells": asks("sparse_table", ("x",), threshold=1),
    "an unknown attribute": asks("measure", ("income",)),
    "a score that a model brings along": asks("choose", "edge", OWN),
    "no candidates": asks("choose", "edge", {}),
    "a table at no epsilon": lambda c: c.tabulate({(): ONE, ("y",): Fraction(0)}),
    "a table at a float epsilon": lambda c: c.tabulate({(): 1.0}),  # type: ignore[dict-item]
    "no epsilon": partial(asks("measure", ()), epsilon=Fraction(0)),
    "a float epsilon": partial(asks("measure", ()), epsilon=1.0),
    "no released marginals": error_of({}),
    "shares that do not add up": error_of({("colour",): EVEN + 1}),
    "negative shares": error_of({("colour",): np.array([1 << 17, -(1 << 16), 0])}),
    "shares of another shape": error_of({("smokes",): EVEN}),
    "shares of another kind of number": error_of({("colour",): EVEN.astype(np.uint64)}),
    "boxes with keys of their own": boxes_of(TREE, OwnKeys(ROOT.depths, ROOT.bits)),
    "overlapping boxes": boxes_of(TREE, Prefixes.concatenate([ROOT, HALVES])),
    "boxes below the tree": boxes_of(TREE, ROOT.children(5)),
    "boxes in 32 bits": boxes_of(BitTree(("x", "y"), (0, 1) * 17), FIRST_BITS_LOST),
    "too many boxes": boxes_of(TREE, Prefixes(np.full(MANY, 4), np.zeros(MANY, dtype=np.int64))),
    "a tree whose columns can change": asks("open_tree", BitTree(["x", "y"], (0, 1))),  # type: ignore[arg-type]
    "a tree whose axes can change": asks("open_tree", CHANGEABLE),
    "a tree over levels": asks("open_tree", BitTree(("colour",), (0,))),
    "a tree at no epsilon": partial(asks("open_tree", TREE), epsilon=Fraction(0)),
    "a tree at a float epsilon": partial(asks("open_tree", TREE), epsilon=1.0),
    "a tree whose share has too large a scale": partial(
        asks("open_tree", TREE), epsilon=Fraction(1, 1 << 44)
    ),
    "splits of a tree whose axes can change": asks("open_splits", CHANGEABLE, bits=1),
    "splits at no epsilon": partial(asks("open_splits", TREE, bits=1), epsilon=Fraction(0)),
    "splits at a float epsilon": partial(asks("open_splits", TREE, bits=1), epsilon=1.0),
    "splits of too large a scale": partial(
        asks("open_splits", TREE, bits=1), epsilon=Fraction(1, 1 << 55)
    ),
    "splits into nothing more": asks("open_splits", TREE, bits=0),
    "splits into 32": asks("open_splits", TREE, bits=5),
    "distances over levels": distance_of(along_x(0, 1, name="colour"), clip=1, shift=0),
    "a clip of nothing": distance_of(RULE, clip=7, shift=3),
    "a weight that is not whole": distance_of(along_x(0, 0.5), clip=9, shift=0),
    "clusters without rules": in_clusters(),
    "clusters of two sizes": in_clusters(RULE, NearestCentre(("x",), ((0,), (1,)), (512,))),
    "clusters over two axes": in_clusters(RULE, ALONG_Y),
    "clusters under two weights": in_clusters(RULE, along_x(0, 1)),
    "clusters over levels": in_clusters(along_x(0, 1, name="colour")),
    "a negative salt": in_clusters(RULE, salt=-1),
    "a centre that is not whole": in_clusters(along_x(0.5)),
    "a radius of nothing": asks("measure_residuals", RULE, (0,)),
    "a radius too few": asks("measure_residuals", RULE, ()),
    "a centre nowhere": classes_of(along_x(float("nan")), "colour"),
    "too many classes": classes_of(
        NearestCentre(("x",), ((0,),) * ((1 << 23) + 1), (1,)), "smokes"
    ),
    "classes without cells": classes_of(RULE, "x"),
    "a gap of another shape": scores_of({PAIRS[1]: FLAT[PAIRS[0]]}),
    "a score of the number of rows": scores_of({(): Independence()}),
    "a score of an unknown attribute": scores_of({("y", "z"): Independence()}),
    "scores at no amount": partial(scores_of(FLAT), epsilon=Fraction(0)),
    "scores at a float amount": partial(asks_scores("measure_total", FLAT), epsilon=0.5),
    "a choice among none": choice_of(FLAT, "edge", []),
    "a choice of one twice": choice_of(FLAT, "edge", [PAIRS[0]] * 2),
    "a choice of another": choice_of(FLAT, "edge", [NOT_A_PAIR]),
    "a penalty of another": choice_of(FLAT, "edge", PAIRS, penalties={NOT_A_PAIR: 1}),
    "a penalty that is not whole": choice_of(FLAT, "edge", PAIRS, penalties={PAIRS[0]: 0.5}),
    "a penalty beyond int64": choice_of(FLAT, "edge", PAIRS, penalties={PAIRS[0]: 1 << 62}),
    "a predicted column twice": predicted(columns=("y", "y"), weights=((0, 0, 0), (0, 0, 0))),
    "a predicted weight missing": predicted(weights=((-2, 1), (0, 0, 1))),
    "the weights of a predicted column missing": predicted(weights=((-2, 1, 3),)),
    "a predicted weight that is not whole": predicted(weights=((-2, 1, 3.0), (0, 0, 1))),
    "a truth for a predicted weight": predicted(weights=((-2, 1, True), (0, 0, 1))),
    "a predicted weight too large": predicted(intercept=-MAX_WEIGHT - 1),
    "predicted weights that can change": predicted(weights=([-2, 1, 3], (0, 0, 1))),
    "predicted columns that can change": predicted(columns=["colour", "y"]),
    "predicted codes that can change": predicted(positive=[1]),
    "a predicted code that is not there": predicted(positive=(2,)),
    "a predicted code below zero": predicted(positive=(-1,)),
    "a predicted target without cells": predicted(target="x"),
    "predicted by a column without cells": predicted(columns=("colour", "x")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_gate_does_not_do_is_refused_before_any_charge(name: str) -> None:
    counter = FailingCounter()
    curator = curator_over(counter)
    with pytest.raises(PipelineError) as refused:
        REFUSED[name](curator)
    assert isinstance(refused.value, BoundaryViolation | DeclarationError)
    assert len(str(refused.value).splitlines()) == 1
    assert (counter.looks, curator.accountant.spends) == (0, ())


def test_a_grid_of_exactly_the_largest_size_is_answered() -> None:
    assert MAX_GRID_CELLS == 4096**2
    counter = FailingCounter()
    with pytest.raises(LookedAt):
        curator_over(counter).measure_grid(("x", "y"), cells=4096, epsilon=ONE)
