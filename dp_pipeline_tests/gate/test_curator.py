"""The only door to the rows: charge, look, noise, store, and only then an answer."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import PURE
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import (
    BoundaryViolation,
    BudgetExceeded,
    Damaged,
    DeclarationError,
    OtherQuestion,
    PipelineError,
)
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.counter import MAX_GRID_CELLS, Counter, Sealed
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.rules import MAX_WEIGHT, NearestCentre, PredictedLabel
from dp_pipeline.gate.scores import DependenceScore, FScore, Independence, MutualInformation, Purity
from dp_pipeline.results.accountant import EXPONENTIAL, GAUSSIAN, LAPLACE, LINF, REFINED, Accountant
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import BitTree, Nodes, Prefixes
from dp_pipeline_tests.gate.questions import (
    IN_RHO,
    ONE,
    PAIRS,
    QUESTIONS,
    ZCDP,
    Question,
    asks,
    asks_scores,
    example_questions,
    fuzz_sensitivity,
    moved,
)
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row

EXAMPLES = example_questions()
NO_QUESTIONS = ("grouped", "with_attributes")
"""What answers nothing: the same rows under other codes."""

ENGINE = [name for name in vars(Counter) if not name.startswith("_") and name not in NO_QUESTIONS]
"""Every question of the port."""


def in_currencies(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Return the mark of a test of each kind in ε, and in ρ where it costs that."""
    paid = [(kind, PURE) for kind in kinds] + [(kind, ZCDP) for kind in IN_RHO]
    ids = [f"{kind} in rho" if currency is ZCDP else kind for kind, currency in paid]
    return pytest.mark.parametrize(("kind", "currency"), paid, ids=ids)


every_question, every_strategy = in_currencies(EXAMPLES), in_currencies(QUESTIONS)


class LookedAt(Exception):
    """A counter was asked."""


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


@dataclass
class FailingCounter:
    """Says that it was looked at, and fails."""

    domain: Domain = TOWN
    looks: int = 0

    def _look(self, *_: object, **__: object) -> list[Sealed]:
        self.looks += 1
        raise LookedAt

    def grouped(self, _: object) -> FailingCounter:
        return self

    with_attributes = grouped
    count = occupied = grid = distance_total = _look
    children = sum_by_centre = residuals = classify = mistakes = _look


@dataclass
class Logged:
    """An object whose calls are written into a common log under its own word."""

    inner: object
    words: dict[str, str]
    log: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        attribute = getattr(self.inner, name)
        if name in self.words and callable(attribute):

            def logged(*arguments: object, **named: object) -> object:
                self.log.append(self.words[name])
                return attribute(*arguments, **named)

            return logged
        if name in ("grouped", "with_attributes"):
            return lambda recoding: replace(self, inner=attribute(recoding))
        return attribute


def test_what_a_person_is_cannot_be_changed_from_outside() -> None:
    curator = curator_over(TEN_PEOPLE, distance=20)
    for name, value in {"distance": 1, "accountant": Accountant(ONE), "domain": TOWN}.items():
        with pytest.raises(AttributeError):
            setattr(curator, name, value)


@every_question
def test_every_question_is_charged_counted_and_stored_in_order(kind, currency):
    log: list[str] = []
    drawn = dict.fromkeys((name for name in dir(SeededNoise) if name[0] != "_"), "noise")
    curator = curator_over(
        Logged(LoopCounter(TEN_PEOPLE), dict.fromkeys(ENGINE, "look"), log),
        accountant=Logged(Accountant(ONE, currency), {"charge": "charge"}, log),
        transcript=Logged(Transcript(), {"recall": "recall", "store": "store"}, log),
        noise=Logged(SeededNoise(1), drawn, log),
    )
    EXAMPLES[kind](curator)
    # Sizes and totals of clusters, and two tables: one look for two answers, charged before.
    more = ["recall", "noise", "store"] if kind in ("clusters", "tabulate") else []
    assert log == ["charge", "recall", "look", "noise", "store", *more]


@every_question
def test_a_refused_charge_counts_draws_and_stores_nothing(kind, currency):
    counter, noise, transcript = FailingCounter(), RecordingNoise(), Transcript()
    curator = curator_over(
        counter,
        epsilon=ONE - Fraction(1, 10**9),
        currency=currency,
        noise=noise,
        transcript=transcript,
    )
    with pytest.raises(
        BudgetExceeded, match="requested ρ=" if currency is ZCDP else "requested ε="
    ):
        EXAMPLES[kind](curator)
    assert (counter.looks, noise.draws, len(transcript)) == (0, [], 0)
    assert curator.accountant.spends == ()


@every_question
def test_a_charge_stays_recorded_when_the_look_fails(kind, currency):
    counter, transcript = FailingCounter(), Transcript()
    curator = curator_over(counter, epsilon=ONE, currency=currency, transcript=transcript)
    with pytest.raises(LookedAt):
        EXAMPLES[kind](curator)
    assert (counter.looks, len(transcript)) == (1, 0)
    assert curator.accountant.remaining == 0
    with pytest.raises(BudgetExceeded):
        EXAMPLES[kind](curator)
    assert counter.looks == 1


@every_question
def test_an_answer_that_could_not_be_stored_is_not_returned(kind, currency, tmp_path):
    transcript = Transcript(tmp_path / "never begun")
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, currency=currency, transcript=transcript)
    with pytest.raises(FileNotFoundError):
        EXAMPLES[kind](curator)
    assert curator.accountant.remaining == 0


@every_question
def test_what_is_returned_is_what_was_stored(kind, currency):
    transcript = Transcript()
    returned = EXAMPLES[kind](
        curator_over(TEN_PEOPLE, epsilon=ONE, currency=currency, transcript=transcript)
    )
    stored = [record.answer for record in transcript.records]
    if kind in ("choose", "choose among"):
        among = PAIRS[-3 if kind == "choose" else -2 :]
        assert [returned] == [among[int(answer)] for answer in stored]
    elif kind == "tabulate":
        assert [one.table.tolist() for one in returned] == [one.tolist() for one in stored]
    elif kind == "clusters":
        assert [returned.sizes.tolist(), returned.totals.tolist()] == [
            answer.tolist() for answer in stored
        ]
    else:
        (answer,) = stored
        assert np.array_equal(getattr(returned, "table", returned), answer)


@every_question
def test_a_replay_charges_its_own_release_and_needs_no_rows(kind, currency):
    transcript = Transcript()
    first = EXAMPLES[kind](
        curator_over(TEN_PEOPLE, epsilon=ONE, currency=currency, transcript=transcript)
    )
    noise = RecordingNoise()
    replay = curator_over(
        None, epsilon=ONE, currency=currency, transcript=transcript.rewind(), noise=noise
    )
    again = EXAMPLES[kind](replay)
    assert repr(again) == repr(first)
    assert noise.draws == []
    assert replay.accountant.remaining == 0


@every_question
def test_a_curator_without_rows_refuses_what_was_never_stored(kind, currency):
    with pytest.raises(Damaged, match="needs a stored answer"):
        EXAMPLES[kind](curator_over(None, epsilon=ONE, currency=currency))


GAP = DependenceScore(np.zeros((3, 2), np.int64))
TURNED_GAP = DependenceScore(np.zeros((2, 3), np.int64))
TIED = tuple(PAIRS)
SCORED = dict.fromkeys(PAIRS, Independence())
RULE = NearestCentre(("x",), ((0,),), (1024,))
MOVED = NearestCentre(("x",), ((1,),), (1024,))
LIGHT = NearestCentre(("x",), ((0,),), (512,))
ALONG_Y = NearestCentre(("y",), ((0,),), (1024,))
GUESS = PredictedLabel("smokes", (1,), ("colour",), ((-1, 0, 1),), 1)
TREE = BitTree(("x", "y"), (0, 1, 0, 1))
TURNED = BitTree(("x", "y"), (1, 0, 1, 0))
ROOT = Prefixes.root()
HALVES = ROOT.children(1)
EVEN = np.full(3, 1 << 14)
EVEN[0] <<= 1


def ask_clusters(curator: Curator, rules: list[NearestCentre], *, salt: int = 0) -> object:
    return curator.measure_clusters(rules, sizes_epsilon=ONE / 2, totals_epsilon=ONE / 2, salt=salt)


def expand_root(curator, tree, *, bits=1, shares=9, epsilon=ONE) -> object:
    session = curator.open_tree(tree, epsilon=epsilon)
    return session.expand(ROOT, bits=bits, shares=np.array([shares]))


HALF = ONE / 2
TWO_NODES = Nodes.root().children(1)
DIFFERENT: list[Callable[[Curator], object]] = [
    lambda c: c.measure((), epsilon=ONE),
    lambda c: c.measure(("y",), epsilon=ONE),
    lambda c: c.measure(("y",), epsilon=HALF),
    lambda c: c.measure(("colour",), epsilon=ONE),
    lambda c: c.measure(("smokes",), epsilon=ONE),
    lambda c: c.grouped({"colour": Grouping((0, 0, 1))}).measure(("smokes",), epsilon=ONE),
    lambda c: c.tabulate({("y",): HALF, ("colour",): HALF}),
    lambda c: c.tabulate({("y",): HALF, ("colour",): ONE / 3}),
    lambda c: c.tabulate({("y",): HALF, ("smokes",): HALF}),
    lambda c: c.measure_grid(("x",), cells=1, epsilon=ONE),
    lambda c: c.measure_grid(("x",), cells=3, epsilon=ONE),
    lambda c: c.measure_grid(("x",), cells=4, epsilon=ONE),
    lambda c: c.measure_grid(("y",), cells=4, epsilon=ONE),
    lambda c: c.measure_grid(("x", "y"), cells=4, epsilon=ONE),
    lambda c: c.measure_grid(("y", "x"), cells=4, epsilon=ONE),
    lambda c: c.measure_nodes(("x",), Nodes.root(), depth=1, epsilon=ONE),
    lambda c: c.measure_nodes(("y",), Nodes.root(), depth=1, epsilon=ONE),
    lambda c: c.measure_nodes(("x",), TWO_NODES.where(np.array([0])), depth=1, epsilon=ONE),
    lambda c: c.measure_nodes(("x",), TWO_NODES.where(np.array([1])), depth=1, epsilon=ONE),
    lambda c: c.choose("edge", {("colour", "smokes"): GAP}, epsilon=ONE),
    asks("choose", "edge", {("colour", "smokes"): DependenceScore(GAP.expected + 1)}),
    lambda c: c.choose("edge", {("colour", "smokes"): Purity()}, epsilon=ONE),
    lambda c: c.open_scores({("colour", "smokes"): GAP}).measure_all(amount=ONE),
    lambda c: c.open_scores({("smokes", "colour"): TURNED_GAP}).measure_all(amount=ONE),
    asks_scores("choose", SCORED, "edge", TIED),
    asks_scores("choose", SCORED, "edge", TIED[1:]),
    asks_scores("choose", SCORED, "edge", TIED, penalties={TIED[2]: 1}),
    lambda c: c.sparse_table(("colour",), threshold=2, epsilon=ONE),
    lambda c: c.sparse_table(("colour",), threshold=3, epsilon=ONE),
    lambda c: c.sparse_table(("smokes",), threshold=2, epsilon=ONE),
    lambda c: c.measure_distance(RULE, clip=8, shift=1, epsilon=ONE),
    lambda c: c.measure_distance(RULE, clip=9, shift=1, epsilon=ONE),
    lambda c: c.measure_distance(RULE, clip=16, shift=2, epsilon=ONE),
    lambda c: c.measure_distance(RULE, clip=9, shift=0, epsilon=ONE),
    lambda c: c.measure_distance(LIGHT, clip=9, shift=0, epsilon=ONE),
    lambda c: c.measure_distance(MOVED, clip=9, shift=0, epsilon=ONE),
    lambda c: c.measure_classes(RULE, "smokes", epsilon=ONE),
    lambda c: c.measure_classes(RULE, "colour", epsilon=ONE),
    lambda c: c.measure_classes(MOVED, "smokes", epsilon=ONE),
    lambda c: c.measure_classes(ALONG_Y, "smokes", epsilon=ONE),
    lambda c: c.measure_mistakes(GUESS, epsilon=ONE),
    lambda c: c.measure_mistakes(replace(GUESS, intercept=0), epsilon=ONE),
    lambda c: c.measure_mistakes(replace(GUESS, positive=(0,)), epsilon=ONE),
    lambda c: c.measure_residuals(RULE, (9,), epsilon=ONE),
    lambda c: c.measure_residuals(RULE, (8,), epsilon=ONE),
    lambda c: c.measure_residuals(MOVED, (9,), epsilon=ONE),
    lambda c: ask_clusters(c, [RULE, MOVED]),
    lambda c: ask_clusters(c, [MOVED, RULE]),
    lambda c: ask_clusters(c, [RULE, RULE]),
    lambda c: ask_clusters(c, [RULE, RULE], salt=1),
    lambda c: c.measure_boxes(TREE, HALVES.where(np.array([0])), epsilon=ONE),
    lambda c: c.measure_boxes(TREE, HALVES.where(np.array([1])), epsilon=ONE),
    lambda c: c.measure_boxes(TREE, HALVES, epsilon=ONE),
    lambda c: c.measure_boxes(TURNED, HALVES, epsilon=ONE),
    lambda c: expand_root(c, TREE, shares=7),
    lambda c: expand_root(c, TREE, shares=8),
    lambda c: expand_root(c, TREE),
    lambda c: expand_root(c, TREE, bits=2),
    lambda c: expand_root(c, TREE, epsilon=HALF),
    lambda c: expand_root(c, TURNED),
    lambda c: c.open_splits(TREE, bits=1, epsilon=ONE).decide_splits(ROOT),
    lambda c: c.open_splits(TREE, bits=2, epsilon=ONE).decide_splits(ROOT),
    lambda c: c.open_splits(TURNED, bits=1, epsilon=ONE).decide_splits(ROOT),
    lambda c: c.measure_marginal_error({("colour",): EVEN}, epsilon=ONE),
    lambda c: c.measure_marginal_error({("colour",): EVEN[::-1].copy()}, epsilon=ONE),
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


def test_the_nodes_of_one_height_are_the_cells_of_a_grid() -> None:
    leaves = Nodes.root().children(2).children(2)
    curator = curator_over(TEN_PEOPLE)
    measured = curator.measure_nodes(("x", "y"), leaves, depth=3, epsilon=SILENT)
    grid = LoopCounter(TEN_PEOPLE).grid(("x", "y"), 4).open_at_the_gate()
    assert measured.table.tolist() == grid.ravel()[leaves.cells].tolist()


def test_measures_are_near_exact_answers_and_carry_their_scale() -> None:
    curator = curator_over(TEN_PEOPLE, distance=3)
    half = SILENT / 2
    marginal = curator.measure(("colour", "smokes"), epsilon=half)
    assert marginal.table.tolist() == [[2, 2], [2, 1], [2, 1]]
    assert (marginal.attributes, marginal.scale) == (("colour", "smokes"), 3 / half)
    grid = curator.measure_grid(("x",), cells=2, epsilon=half)
    assert (grid.table.tolist(), grid.scale) == ([5, 5], 3 / half)


def test_no_nodes_at_all_are_charged_recorded_and_empty() -> None:
    transcript, noise = Transcript(), RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, transcript=transcript, noise=noise)
    empty = Nodes.root().where(np.array([False]))
    assert curator.measure_nodes(("x",), empty, depth=2, epsilon=ONE).table.tolist() == []
    assert curator.accountant.remaining == 0
    assert (len(transcript), noise.draws[0].scale) == (1, 1)


def test_one_scan_serves_all_levels_of_a_tree() -> None:
    looks: list[str] = []
    counter = Logged(LoopCounter(TEN_PEOPLE), {"grid": "look"}, looks)
    curator = curator_over(counter)
    for nodes in (Nodes.root(), Nodes.root().children(2)):
        curator.measure_nodes(("x", "y"), nodes, depth=2, epsilon=ONE)
    assert looks == ["look"]


CHANGEABLE = BitTree(("x", "y"), [0, 1])  # type: ignore[arg-type]
MANY = (1 << 24) + 1
FIRST_BITS_LOST = Prefixes(np.array([1, 20], np.int32), np.array([1, (1 << 20) - 1], np.int32))
ROOT_NODE = Nodes.root()
OVERLAPPING = Nodes.concatenate([ROOT_NODE, ROOT_NODE.children(2)])
FLAT = {pair: DependenceScore(np.zeros(TOWN.shape(pair), np.int64)) for pair in PAIRS}
OWN = {PAIRS[0]: OwnScore()}
PREDICTION = PredictedLabel("smokes", (1,), ("colour", "y"), ((-2, 1, 3), (0, 0, 1)), -1)
NOT_A_PAIR = ("colour", "y")


def along_x(centre: object, weight: object = 1024, *, name: str = "x") -> NearestCentre:
    return NearestCentre((name,), ((centre,),), (weight,))  # type: ignore[arg-type]


def in_clusters(*rules: NearestCentre, salt: int = 0) -> Question:
    return lambda curator: ask_clusters(curator, list(rules), salt=salt)


def predicted(**changes: object) -> Question:
    return asks("measure_mistakes", replace(PREDICTION, **changes))  # type: ignore[arg-type]


REFUSED: dict[str, Question] = {
    "overlapping nodes": asks("measure_nodes", ("x", "y"), OVERLAPPING, depth=1),
    "a node twice": asks("measure_nodes", ("x",), Nodes.concatenate([ROOT_NODE] * 2), depth=1),
    "nodes below the depth": asks("measure_nodes", ("x",), ROOT_NODE.children(1), depth=0),
    "cells outside the tree": asks(
        "measure_nodes", ("x",), Nodes(np.array([1]), np.array([2])), depth=1
    ),
    "a tree above the cap": asks("measure_nodes", ("x", "y"), ROOT_NODE, depth=13),
    "a negative depth": asks("measure_nodes", ("x",), ROOT_NODE, depth=-1),
    "a grid above the cap": asks("measure_grid", ("x", "y"), cells=4097),
    "no cells": asks("measure_grid", ("x",), cells=0),
    "an axis twice": asks("measure_grid", ("x", "x"), cells=2),
    "no columns": asks("measure_grid", (), cells=2),
    "a grid over levels": asks("measure_grid", ("colour",), cells=2),
    "an attribute twice": asks("measure", ("colour", "colour")),
    "an attribute twice in a choice": asks("choose", "edge", {("y", "y"): Independence()}),
    "an attribute twice in an error": asks(
        "measure_marginal_error", {("smokes", "smokes"): np.array([[1 << 16, 0], [0, 0]])}
    ),
    "an attribute twice in a table": lambda c: c.tabulate({(): ONE, ("colour", "colour"): ONE}),
    "attributes without cells": asks("measure", ("x",)),
    "an unknown attribute": asks("measure", ("income",)),
    "a score that a model brings along": asks("choose", "edge", OWN),
    "no candidates": asks("choose", "edge", {}),
    "a table at no epsilon": lambda c: c.tabulate({(): ONE, ("y",): Fraction(0)}),
    "a table at a float epsilon": lambda c: c.tabulate({(): 1.0}),  # type: ignore[dict-item]
    "no epsilon": partial(asks("measure", ()), epsilon=Fraction(0)),
    "negative epsilon": partial(asks("measure", ()), epsilon=-ONE),
    "a float epsilon": partial(asks("measure", ()), epsilon=1.0),
    "no released marginals": asks("measure_marginal_error", {}),
    "shares that do not add up": asks("measure_marginal_error", {("colour",): EVEN + 1}),
    "negative shares": asks(
        "measure_marginal_error", {("colour",): np.array([1 << 17, -(1 << 16), 0])}
    ),
    "shares of another shape": asks("measure_marginal_error", {("smokes",): EVEN}),
    "shares of another kind of number": asks(
        "measure_marginal_error", {("colour",): EVEN.astype(np.uint64)}
    ),
    "boxes with keys of their own": asks("measure_boxes", TREE, OwnKeys(ROOT.depths, ROOT.bits)),
    "overlapping boxes": asks("measure_boxes", TREE, Prefixes.concatenate([ROOT, HALVES])),
    "boxes below the tree": asks("measure_boxes", TREE, ROOT.children(5)),
    "boxes in 32 bits": asks("measure_boxes", BitTree(("x", "y"), (0, 1) * 17), FIRST_BITS_LOST),
    "too many boxes": asks(
        "measure_boxes", TREE, Prefixes(np.full(MANY, 4), np.zeros(MANY, dtype=np.int64))
    ),
    "a tree whose columns can change": asks("open_tree", BitTree(["x", "y"], (0, 1))),  # type: ignore[arg-type]
    "a tree whose axes can change": asks("open_tree", CHANGEABLE),
    "a tree over levels": asks("open_tree", BitTree(("colour",), (0,))),
    "a tree over an axis twice": asks("open_tree", BitTree(("x", "x"), (0,))),
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
    "distances over levels": asks(
        "measure_distance", along_x(0, 1, name="colour"), clip=1, shift=0
    ),
    "distances over an axis twice": asks(
        "measure_distance", NearestCentre(("x", "x"), ((0, 0),), (1, 1)), clip=1, shift=0
    ),
    "a clip of nothing": asks("measure_distance", RULE, clip=7, shift=3),
    "a weight that is not whole": asks("measure_distance", along_x(0, 0.5), clip=9, shift=0),
    "clusters without rules": in_clusters(),
    "clusters of two sizes": in_clusters(RULE, NearestCentre(("x",), ((0,), (1,)), (1024,))),
    "clusters over two axes": in_clusters(RULE, ALONG_Y),
    "clusters under two weights": in_clusters(RULE, along_x(0, 1)),
    "clusters over levels": in_clusters(along_x(0, 1, name="colour")),
    "a negative salt": in_clusters(RULE, salt=-1),
    "a centre that is not whole": in_clusters(along_x(0.5)),
    "a radius of nothing": asks("measure_residuals", RULE, (0,)),
    "a radius too few": asks("measure_residuals", RULE, ()),
    "a centre nowhere": asks("measure_classes", along_x(float("nan")), "colour"),
    "too many classes": asks(
        "measure_classes", NearestCentre(("x",), ((0,),) * ((1 << 23) + 1), (1,)), "smokes"
    ),
    "classes without cells": asks("measure_classes", RULE, "x"),
    "no scores": asks_scores("measure_all", {}),
    "a score of one's own": asks_scores("measure_all", OWN),
    "a gap of another shape": asks_scores("measure_all", {PAIRS[1]: FLAT[PAIRS[0]]}),
    "an attribute twice in scores": asks_scores("measure_all", {("y", "y"): Independence()}),
    "a score of the number of rows": asks_scores("measure_all", {(): Independence()}),
    "a score of an unknown attribute": asks_scores("measure_all", {("y", "z"): Independence()}),
    "mutual information of private rows": asks_scores(
        "measure_all", {PAIRS[0]: MutualInformation(10)}
    ),
    "F of private rows": asks_scores("measure_all", {PAIRS[1]: FScore()}),
    "scores at no amount": partial(asks_scores("measure_all", FLAT), epsilon=Fraction(0)),
    "scores at a float amount": partial(asks_scores("measure_total", FLAT), epsilon=0.5),
    "a choice among none": asks_scores("choose", FLAT, "edge", []),
    "a choice of one twice": asks_scores("choose", FLAT, "edge", [PAIRS[0]] * 2),
    "a choice of another": asks_scores("choose", FLAT, "edge", [NOT_A_PAIR]),
    "a penalty of another": asks_scores("choose", FLAT, "edge", PAIRS, penalties={NOT_A_PAIR: 1}),
    "a penalty that is not whole": asks_scores(
        "choose", FLAT, "edge", PAIRS, penalties={PAIRS[0]: 0.5}
    ),
    "a penalty beyond int64": asks_scores(
        "choose", FLAT, "edge", PAIRS, penalties={PAIRS[0]: 1 << 62}
    ),
    "a predicted column twice": predicted(columns=("y", "y"), weights=((0, 0, 0), (0, 0, 0))),
    "a predicted weight missing": predicted(weights=((-2, 1), (0, 0, 1))),
    "the weights of a predicted column missing": predicted(weights=((-2, 1, 3),)),
    "a predicted weight that is not whole": predicted(weights=((-2, 1, 3.0), (0, 0, 1))),
    "a truth for a predicted weight": predicted(weights=((-2, 1, True), (0, 0, 1))),
    "a predicted number of NumPy": predicted(intercept=np.int64(1)),
    "a predicted weight too large": predicted(intercept=-MAX_WEIGHT - 1),
    "predicted weights that can change": predicted(weights=([-2, 1, 3], (0, 0, 1))),
    "predicted columns that can change": predicted(columns=["colour", "y"]),
    "predicted codes that can change": predicted(positive=[1]),
    "a predicted code that is not there": predicted(positive=(2,)),
    "a predicted code below zero": predicted(positive=(-1,)),
    "a predicted target that is not there": predicted(target="age"),
    "a predicted target without cells": predicted(target="x"),
    "predicted by a column without cells": predicted(columns=("colour", "x")),
    "predicted by a column that is not there": predicted(columns=("colour", "age")),
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


MARRIED: tuple[Row, ...] = tuple(
    (1.0, 0.5, colour, smokes)
    for colour, smokes in [("red", "no"), ("green", "yes")]
    for _ in range(50)
)


@pytest.mark.parametrize("first", range(3))
def test_the_obvious_winner_is_chosen_at_large_epsilon(first: int) -> None:
    names = (*TIED[first:], *TIED[:first])
    candidates = {name: Independence() for name in names}
    chosen = curator_over(MARRIED).choose("edge", candidates, epsilon=SILENT)
    assert chosen == ("colour", "smokes")


def test_a_choice_costs_twice_its_largest_reach_over_its_scale() -> None:
    noise = RecordingNoise()
    curator = curator_over(MARRIED, epsilon=ONE, distance=3, noise=noise)
    candidates = {("colour", "smokes"): GAP, ("smokes", "y"): Independence()}
    curator.choose("edge", candidates, epsilon=ONE)
    (spend,) = curator.accountant.spends
    assert spend.sensitivity == 2 * 3 * (1 << 16) + 1 == Independence().linf(3)
    assert spend.epsilon == Fraction(2 * spend.sensitivity) / noise.draws[0].scale == 1


@every_strategy
def test_no_person_moves_an_answer_by_more_than_what_is_paid_for(kind, currency):
    fuzz_sensitivity(QUESTIONS[kind], currency=currency)


@every_strategy
def test_half_the_sensitivity_is_caught(kind, currency):
    with pytest.raises(AssertionError):
        fuzz_sensitivity(QUESTIONS[kind], currency=currency, share=Fraction(1, 2))


NONE_RED = np.array([0, 1 << 15, 1 << 15])
OUTSIDE = (7.0, 0.0, "red", "no")
NEAR, FAR = (asks("measure_residuals", along_x(0, 3), (radius,)) for radius in (1, 1 << 30))
CLIPPED = asks("measure_distance", RULE, clip=1 << 20, shift=8)
AT_REACH: dict[str, tuple[Question, list[Row], list[int]]] = {
    "marginal error": (
        asks("measure_marginal_error", {("colour",): NONE_RED}),
        [TEN_PEOPLE[0]],
        [1 << 17],
    ),
    "a clipped distance": (CLIPPED, [TEN_PEOPLE[0]] * 3, [3 << 12]),
    "totals in a corner": (EXAMPLES["clusters"], [(8.0, 1.0, "red", "no")] * 2, [2, 2 * 2 << 16]),
    "residuals outside radii": (NEAR, [OUTSIDE], [1 << 16]),
}


@pytest.mark.parametrize("name", AT_REACH)
def test_the_sensitivity_is_reached(name: str) -> None:
    question, person, moves = AT_REACH[name]
    assert moved(question, [], person) == [(move, move) for move in moves]
    assert moved(FAR, [], [OUTSIDE])[0][0] < 1 << 16


SEALED = Sealed(np.array([4321, 17]))


@pytest.mark.parametrize("show", [repr, str, "{}".format, lambda one: f"{[one]!r}"])
def test_exact_counts_are_not_printed(show: Callable[[Sealed], str]) -> None:
    assert "4321" not in show(SEALED)
    assert "exact counts" in show(SEALED)


@pytest.mark.parametrize(
    "take",
    [
        *(lambda one, p=p: pickle.dumps(one, protocol=p) for p in range(6)),
        copy.copy,
        copy.deepcopy,
        lambda one: copy.deepcopy({"inside": [one]}),
        lambda one: one == Sealed(np.array([4321, 17])),
        lambda one: one != 1,
        lambda one: one in [Sealed(np.array([1]))],
        hash,
        vars,
    ],
)
def test_exact_counts_are_not_stored_copied_or_compared(take: Callable[[Sealed], object]) -> None:
    with pytest.raises(TypeError):
        take(SEALED)


def test_a_curator_shows_no_counts_and_is_not_pickled() -> None:
    curator = curator_over(TEN_PEOPLE, noise=ForcedNoise(1))
    EXAMPLES["nodes"](curator)
    assert repr(curator) == "Curator(4 attributes, distance 1)"
    with pytest.raises(TypeError, match="must not be stored or copied"):
        pickle.dumps(curator)


@st.composite
def budgets(draw: st.DrawFn) -> list[Fraction]:
    parts = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=6))
    return [Fraction(part, sum(parts)) for part in parts]


@pytest.mark.parametrize("kind", QUESTIONS)
@settings(max_examples=5)
@given(shares=budgets(), data=st.data())
def test_the_noise_scales_prove_the_spent_epsilon(kind, shares, data):
    noise = RecordingNoise(ForcedNoise(2))
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, distance=2, noise=noise)
    for share in shares:
        data.draw(QUESTIONS[kind])(curator, epsilon=share)
    spends = curator.accountant.spends
    factors = [1 if spend.mechanism in (LAPLACE, LINF, REFINED) else 2 for spend in spends]
    proven = [
        Fraction(factor * spend.sensitivity) / draw.scale
        for factor, spend, draw in zip(factors, spends, noise.draws, strict=True)
    ]
    assert proven == [spend.epsilon for spend in spends]
    assert sum(proven) == 1
    curator.accountant.require_all_spent()


CHOICES = ("choose", "choose among")


@pytest.mark.parametrize("kind", IN_RHO)
def test_noise_in_rho_is_gaussian_or_exponential_and_costs_rho(kind: str) -> None:
    noise = RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, currency=ZCDP, distance=3, noise=noise)
    EXAMPLES[kind](curator)
    curator.accountant.require_all_spent()
    for spend, draw in zip(curator.accountant.spends, noise.draws, strict=True):
        expected = EXPONENTIAL if kind in CHOICES else GAUSSIAN
        assert (spend.mechanism, draw.mechanism, spend.currency) == (expected, expected, "zcdp")
        assert draw.scale == spend.scale
        if kind in CHOICES:
            proven = Fraction(spend.sensitivity) ** 2 / (2 * draw.scale**2)
            assert spend.epsilon * (1 - Fraction(1, 10**6)) <= proven <= spend.epsilon
        else:
            assert spend.sensitivity / (2 * draw.scale) == spend.epsilon


def test_a_table_of_many_has_gaussian_noise_of_the_reach_squared() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, currency=ZCDP, distance=3)
    rows, colours = curator.tabulate({(): ONE / 4, ("colour",): ONE * 3 / 4})
    assert (rows.scale, colours.scale) == (Fraction(9 * 4, 2), Fraction(9 * 4, 6))
    assert rows.gaussian
    assert rows.variance == pytest.approx(18)
    assert rows.mean_noise == pytest.approx(np.sqrt(36 / np.pi), rel=0.01)


@pytest.mark.parametrize("kind", sorted({*EXAMPLES} - {*IN_RHO}))
def test_a_pure_question_costs_half_its_epsilon_squared(kind: str) -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, currency=ZCDP)
    EXAMPLES[kind](curator)
    spends = curator.accountant.spends
    assert curator.accountant.spent == sum(spend.epsilon**2 / 2 for spend in spends) <= ONE / 2
    assert {spend.currency for spend in spends} == {"pure"}
    assert sum(spend.epsilon for spend in spends) == 1


def test_a_pure_release_answers_no_gaussian_question() -> None:
    transcript, noise = Transcript(), RecordingNoise()
    executor = QueryExecutor(LoopCounter(TEN_PEOPLE), Accountant(ONE), transcript, noise)
    paid = executor.gaussian_query("number of rows", l2_squared=1, rho=ONE)
    with pytest.raises(BoundaryViolation, match="the data set declares no `delta`"):
        executor.charge_and_answer(paid, ("rows",), lambda counter: counter.count([()])[0])
    assert (executor.accountant.spends, noise.draws, len(transcript)) == ((), [], 0)


def test_pure_and_concentrated_questions_spend_one_budget_of_rho() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, currency=ZCDP, noise=SeededNoise(3))
    curator.measure(("colour",), epsilon=ONE / 2)
    session = curator.open_scores(dict.fromkeys(PAIRS, Independence()))
    session.choose("edge", PAIRS, amount=ONE / 8)
    curator.tabulate({PAIRS[0]: ONE / 4, PAIRS[1]: curator.accountant.remaining / 2 - ONE / 8})
    curator.tabulate({PAIRS[2]: curator.accountant.remaining})
    curator.accountant.require_all_spent()
    mechanisms = [spend.mechanism for spend in curator.accountant.spends]
    assert mechanisms == [LAPLACE, EXPONENTIAL, *[GAUSSIAN] * 3]
