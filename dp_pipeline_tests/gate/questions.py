"""Every question that a curator answers, as strategies: people, and questions of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Domain
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.quality import fixed_point_shares
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.gate.scores import DependenceScore, Independence, Purity, Score
from dp_pipeline.results.accountant import GAUSSIAN, LAPLACE, REFINED
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.measurement import SHARES
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import TOWN, Row

Question = Callable[..., object]
"""``question(curator, epsilon=…)``"""

ONE = Fraction(1)
MOST = 1 << 20
ZCDP = Currency(Fraction(1, 10**9))
IN_RHO = ("choose", "tabulate", "scores", "total", "choose among")
"""Kinds of questions whose amount is in the release's currency; the others cost a pure ε."""

people = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.1, 3.9, 4.0, 8.0]) | st.floats(0, 8),
        st.sampled_from([-1.0, -0.5, 0.0, 1.0]) | st.floats(-1, 1),
        st.sampled_from(["red", "green", "blue"]),
        st.sampled_from(["no", "yes"]),
    ),
    max_size=6,
)
"""Rows: nobody, duplicates, people on the edges of cells and of the box."""

axes = st.sampled_from([("x",), ("y",), ("x", "y"), ("y", "x")])
PAIRS = [("colour", "smokes"), ("smokes", "y"), ("y", "colour")]


@st.composite
def trees(draw: st.DrawFn, *, dimensions: int, depth: int) -> Prefixes:
    """Some leaves of a tree whose splits are drawn."""
    live, leaves = Prefixes.root(), []
    for _ in range(draw(st.integers(0, depth))):
        splits = np.array(draw(st.lists(st.booleans(), min_size=len(live), max_size=len(live))))
        leaves.append(live.where(~splits.astype(bool)))
        live = live.where(splits.astype(bool)).children(dimensions)
    grown = Prefixes.concatenate([*leaves, live])
    is_chosen = draw(st.lists(st.booleans(), min_size=len(grown), max_size=len(grown)))
    return grown.where(np.array(is_chosen, dtype=bool))


def asks(method: str, *given: object, **more: object) -> Question:
    """Return the question of this method of a curator."""
    return lambda curator, epsilon=ONE: getattr(curator, method)(*given, **more, epsilon=epsilon)


def asks_scores(method: str, candidates: object, *given: object, **more: object) -> Question:
    """Return the question of this method of a session of scores."""
    paid = "epsilon" if method == "measure_together" else "amount"
    return lambda curator, epsilon=ONE: getattr(curator.open_scores(candidates), method)(
        *given, **more, **{paid: epsilon}
    )


def asks_recoded(recode: str, recoding: Mapping[str, object], names: tuple[str, ...]) -> Question:
    """Return the question about a table of recoded rows."""
    return lambda curator, epsilon=ONE: getattr(curator, recode)(recoding).measure(
        names, epsilon=epsilon
    )


tables = st.sampled_from([(), ("colour",), ("y", "colour"), ("smokes", "colour", "y")])


@st.composite
def groupings(draw: st.DrawFn) -> dict[str, Grouping]:
    """Groups of the levels of some attributes."""
    chosen = draw(st.lists(st.sampled_from(TOWN.discrete), unique=True))
    groups = {}
    for name in chosen:
        levels = TOWN[name].size - 1
        steps = draw(st.lists(st.integers(0, 1), min_size=levels, max_size=levels))
        groups[name] = Grouping((0, *np.cumsum(steps).tolist()))
    return groups


@st.composite
def derivations(draw: st.DrawFn) -> dict[str, DerivedAttribute]:
    """Attributes that others decide."""
    derived = {}
    for index in range(draw(st.integers(0, 2))):
        names = tuple(draw(st.lists(st.sampled_from(TOWN.discrete), min_size=1, unique=True)))
        cells = TOWN.cell_count(names)
        groups = draw(st.lists(st.integers(0, 3), min_size=cells, max_size=cells))
        numbers = {group: index for index, group in enumerate(sorted(set(groups)))}
        groups = tuple(numbers[group] for group in groups)
        derived[f"derived {index}"] = DerivedAttribute(names, groups)
    return derived


@st.composite
def nodes(draw: st.DrawFn) -> Question:
    columns, depth = draw(axes), draw(st.integers(0, 2))
    grown = draw(trees(dimensions=len(columns), depth=depth))
    return asks("measure_nodes", columns, grown, depth=depth)


@st.composite
def scores(draw: st.DrawFn, pair: tuple[str, ...]) -> Score:
    proven = draw(st.sampled_from([Independence(), Purity(), None]))
    if proven is not None:
        return proven
    size = TOWN.cell_count(pair)
    expected = draw(st.lists(st.integers(0, 1 << 18), min_size=size, max_size=size))
    return DependenceScore(np.array(expected).reshape(TOWN.shape(pair)))


def tabulation(shares: Mapping[tuple[str, ...], int]) -> Question:
    parts = {names: Fraction(share, sum(shares.values())) for names, share in shares.items()}
    return lambda curator, epsilon=ONE: curator.tabulate(
        {names: epsilon * part for names, part in parts.items()}
    )


pairs = st.lists(st.sampled_from(PAIRS), min_size=1, unique=True)
candidates = pairs.flatmap(lambda names: st.fixed_dictionaries({n: scores(n) for n in names}))


@st.composite
def refinements(draw: st.DrawFn) -> Question:
    names = draw(pairs)

    def ask(curator: Curator, epsilon: Fraction = ONE) -> object:
        part = epsilon / (2 * len(names))
        curator.tabulate(dict.fromkeys(names, part))
        return curator.refine(dict.fromkeys(names, part))

    return ask


@st.composite
def choices_among(draw: st.DrawFn) -> Question:
    scored = draw(candidates)
    names = st.lists(st.sampled_from(list(scored)), min_size=1, unique=True)
    penalties = draw(st.dictionaries(st.sampled_from(list(scored)), st.integers(-MOST, MOST)))
    return asks_scores("choose", scored, "edge", draw(names), penalties=penalties)


@st.composite
def rules(draw: st.DrawFn, columns: tuple[str, ...], *, k: int | None = None) -> NearestCentre:
    places = st.tuples(*[st.integers(-(1 << 16), 1 << 16) for _ in columns])
    centres = draw(st.lists(places, min_size=k or 1, max_size=k or 3))
    weights = tuple(draw(st.integers(1, 500)) for _ in columns)
    return NearestCentre(columns, tuple(centres), weights)


@st.composite
def distances(draw: st.DrawFn) -> Question:
    rule = draw(axes.flatmap(rules))
    clip = draw(st.integers(1, 1 << 53) | st.integers(1, 1 << 20))
    bits = clip.bit_length()
    shift = draw(st.integers(max(0, bits - 26), bits - 1))
    return asks("measure_distance", rule, clip=clip, shift=shift)


@st.composite
def clusters(draw: st.DrawFn) -> Question:
    columns, k, weights = draw(axes), draw(st.integers(1, 3)), draw(st.integers(1, 500))
    subsets = draw(st.lists(rules(columns, k=k), min_size=1, max_size=3))
    subsets = [replace(rule, weights=(weights,) * len(columns)) for rule in subsets]
    salt = draw(st.integers(0, (1 << 63) - 1))
    return lambda curator, epsilon=ONE: curator.measure_clusters(
        subsets, sizes_epsilon=epsilon / 3, totals_epsilon=epsilon * 2 / 3, salt=salt
    )


@st.composite
def residuals(draw: st.DrawFn) -> Question:
    rule = draw(axes.flatmap(rules))
    radius = st.integers(1, 1 << 20) | st.integers(1, (1 << 47) - 1)
    radii = tuple(draw(radius) for _ in rule.centres)
    return asks("measure_residuals", rule, radii)


@st.composite
def bit_trees(draw: st.DrawFn) -> BitTree:
    columns = draw(axes)
    halved = st.integers(0, len(columns) - 1)
    # No axis can be halved more often than 17 times.
    return BitTree(columns, tuple(draw(st.lists(halved, max_size=16))))


@st.composite
def boxes(draw: st.DrawFn) -> Question:
    tree = draw(bit_trees())
    live, leaves = Prefixes.root(), []
    for _ in range(draw(st.integers(0, min(3, tree.depth)))):
        splits = np.array(draw(st.lists(st.booleans(), min_size=len(live), max_size=len(live))))
        leaves.append(live.where(~splits.astype(bool)))
        live = live.where(splits.astype(bool)).children(1)
    grown = Prefixes.concatenate([*leaves, live])
    return asks("measure_boxes", tree, grown)


@st.composite
def errors(draw: st.DrawFn) -> Question:
    released = {}
    for pair in draw(pairs):
        size = TOWN.cell_count(pair)
        weights = np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), float)
        shares = weights / weights.sum() if weights.any() else np.eye(1, size)[0]
        released[pair] = fixed_point_shares(shares).reshape(TOWN.shape(pair))
    return asks("measure_marginal_error", released)


@st.composite
def predictions(draw: st.DrawFn) -> Question:
    target, *columns = draw(st.permutations(TOWN.discrete))
    columns = tuple(columns[: draw(st.integers(0, 2))])
    numbers = st.integers(-9, 9)
    weights = tuple(tuple(draw(numbers) for _ in range(TOWN[name].size)) for name in columns)
    positive = tuple(draw(st.lists(st.integers(0, TOWN[target].size - 1), unique=True)))
    rule = PredictedLabel(target, positive, columns, weights, draw(numbers))
    return asks("measure_mistakes", rule)


QUESTIONS: dict[str, st.SearchStrategy[Question]] = {
    "measure": tables.map(partial(asks, "measure")),
    "grouped table": st.builds(partial(asks_recoded, "grouped"), groupings(), tables),
    "derived table": derivations().map(
        lambda derived: asks_recoded("with_attributes", derived, (*derived, "smokes"))
    ),
    "grid": st.builds(partial(asks, "measure_grid"), axes, cells=st.integers(1, 5)),
    "nodes": nodes(),
    "choose": candidates.map(partial(asks, "choose", "edge")),
    "tabulate": st.dictionaries(tables, st.integers(1, 9), min_size=1).map(tabulation),
    "sparse table": st.builds(
        partial(asks, "sparse_table"), tables.filter(bool), threshold=st.integers(1, 9)
    ),
    "scores": candidates.map(partial(asks_scores, "measure_all")),
    "refined": refinements(),
    "scores together": candidates.map(partial(asks_scores, "measure_together")),
    "total": candidates.map(partial(asks_scores, "measure_total")),
    "choose among": choices_among(),
    "boxes": boxes(),
    "distance": distances(),
    "clusters": clusters(),
    "residuals": residuals(),
    "classes": st.builds(
        partial(asks, "measure_classes"),
        axes.flatmap(rules),
        st.sampled_from(["colour", "smokes", "y"]),
    ),
    "marginal error": errors(),
    "mistakes": predictions(),
}
"""Kind → questions with one noise a charge. Sessions: ``test_tree_session``,
``test_split_session``.
"""

GROUPS = {"colour": Grouping((0, 1, 1)), "y": Grouping((0, 0, 1))}
DERIVED = {"ill": DerivedAttribute(("colour", "smokes"), (0, 1, 1, 0, 2, 1))}
TREE = BitTree(("x", "y"), (0, 1, 0, 1, 0, 1))
RULE = NearestCentre(("x", "y"), ((0, 0), (1 << 15, -(1 << 16))), (512, 128))
PREDICTION = PredictedLabel("smokes", (1,), ("colour",), ((-2, 1, 3),), 0)


def example_questions() -> dict[str, Question]:
    """One written question of every kind, at ε = 1."""
    even = fixed_point_shares(np.full((3, 2), 1 / 6))
    scored = {pair: Independence() for pair in PAIRS}
    root, pair = Prefixes.root(), PAIRS[0]
    penalties = {PAIRS[1]: 1 << 16}
    return {
        "rows": asks("measure", ()),
        "measure": asks("measure", pair),
        "grouped table": asks_recoded("grouped", GROUPS, pair),
        "derived table": asks_recoded("with_attributes", DERIVED, ("ill", "smokes")),
        "grid": asks("measure_grid", ("x", "y"), cells=3),
        "nodes": asks("measure_nodes", ("x", "y"), Prefixes.root().children(2), depth=1),
        "choose": asks("choose", "edge", scored),
        "sparse table": asks("sparse_table", pair, threshold=2),
        "tabulate": tabulation({("colour",): 1, (): 2}),
        "scores": asks_scores("measure_all", scored),
        "scores together": asks_scores("measure_together", scored),
        "total": asks_scores("measure_total", scored),
        "choose among": asks_scores("choose", scored, "edge", PAIRS[1:], penalties=penalties),
        "boxes": asks("measure_boxes", TREE, root.children(2)),
        "tree": lambda curator: curator.open_tree(TREE, epsilon=ONE).expand(
            root, bits=2, shares=np.array([SHARES])
        ),
        "splits": lambda curator: curator.open_splits(TREE, bits=2, epsilon=ONE).decide_splits(
            root
        ),
        "distance": asks("measure_distance", RULE, clip=1 << 40, shift=20),
        "clusters": lambda curator: curator.measure_clusters(
            [RULE, RULE], sizes_epsilon=ONE / 3, totals_epsilon=ONE * 2 / 3
        ),
        "residuals": asks("measure_residuals", RULE, (1, 1 << 20)),
        "classes": asks("measure_classes", RULE, "colour"),
        "mistakes": asks("measure_mistakes", PREDICTION),
        "marginal error": asks("measure_marginal_error", {pair: even}),
    }


EXAMPLES = example_questions()


def in_currencies(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Return the mark of a test of each kind in ε, and in ρ where it costs that."""
    paid = [(kind, PURE) for kind in kinds] + [(kind, ZCDP) for kind in IN_RHO]
    ids = [f"{kind} in rho" if currency is ZCDP else kind for kind, currency in paid]
    return pytest.mark.parametrize(("kind", "currency"), paid, ids=ids)


every_question, every_strategy = in_currencies(EXAMPLES), in_currencies(QUESTIONS)


def along_x(centre: object, weight: object = 512, *, name: str = "x") -> NearestCentre:
    return NearestCentre((name,), ((centre,),), (weight,))  # type: ignore[arg-type]


class LookedAt(Exception):
    """A counter was asked."""


@dataclass
class FailingCounter:
    """Says that it was looked at, and fails."""

    domain: Domain = TOWN
    looks: int = 0

    def recoded(self, *_: object) -> FailingCounter:
        return self

    def __getattr__(self, _: str) -> Any:
        return self._look

    def _look(self, *_: object, **__: object) -> None:
        self.looks += 1
        raise LookedAt


def moved(question, rows, person, *, currency=PURE) -> list[tuple[int, int]]:
    """What the person moves each answer by, and the sensitivity that was paid for it: squared L2
    of Gaussian answers, L1 of Laplace ones, one score of a choice.
    """
    runs = []
    for population in (rows, rows + person):
        noise = RecordingNoise(ForcedNoise(1))
        curator = curator_over(population, distance=len(person), noise=noise, currency=currency)
        question(curator)
        runs.append((noise.draws, curator.accountant.spends))
    (here, spends), (there, again) = runs
    assert spends == again
    moves = []
    for spend, first, second in zip(spends, here, there, strict=True):
        assert spend.scale == first.scale == second.scale
        difference = np.abs(first.exact.astype(object) - second.exact.astype(object))
        if spend.mechanism == GAUSSIAN:
            most = (difference**2).sum()
        elif spend.mechanism in (LAPLACE, REFINED):
            most = difference.sum()
        else:
            most = difference.max(initial=0)
        moves.append((int(most), spend.sensitivity))
    return moves


def fuzz_sensitivity(question_of, *, share=ONE, currency=PURE):
    """Fail if a person is found who moves an answer by more than this share of what was paid."""

    # Without the shrinking of failures: a mutant needs to be caught, not to be explained.
    @settings(max_examples=150, database=None, phases=[Phase.explicit, Phase.generate])
    @given(
        question=question_of,
        rows=people,
        person=people.filter(bool) | people.filter(bool).map(lambda rows: rows[:1] * len(rows)),
    )
    def moves_by_at_most_the_sensitivity(
        question: Question, rows: list[Row], person: list[Row]
    ) -> None:
        moves = moved(question, rows, person, currency=currency)
        assert all(move <= share * sensitivity for move, sensitivity in moves)

    moves_by_at_most_the_sensitivity()
