"""The only door to the rows: charge, look, noise, store, and only then an answer."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import (
    BoundaryViolation,
    BudgetExceeded,
    Damaged,
)
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.counter import Counter, Sealed
from dp_pipeline.gate.mechanisms import gaussian_query
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.scores import DependenceScore, Independence
from dp_pipeline.results.accountant import EXPONENTIAL, GAUSSIAN, LAPLACE, LINF, REFINED, Accountant
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import Prefixes
from dp_pipeline_tests.gate.questions import (
    EXAMPLES,
    IN_RHO,
    ONE,
    PAIRS,
    QUESTIONS,
    ZCDP,
    FailingCounter,
    LookedAt,
    Question,
    along_x,
    asks,
    every_question,
    every_strategy,
    fuzz_sensitivity,
    moved,
)
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, LoopCounter, Row

ENGINE = [name for name in vars(Counter) if not name.startswith("_") and name != "recoded"]
"""Every question of the port; ``recoded`` answers nothing: the same rows under other codes."""


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
        if name == "recoded":
            return lambda *recoding: replace(self, inner=attribute(*recoding))
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
    given = {"epsilon": ONE - Fraction(1, 10**9), "currency": currency, "transcript": transcript}
    curator = curator_over(counter, noise=noise, **given)
    with pytest.raises(BudgetExceeded, match=f"requested {'ρ' if currency is ZCDP else 'ε'}="):
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
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, currency=currency, transcript=transcript)
    returned = EXAMPLES[kind](curator)
    stored = [record.answer for record in transcript.records]
    if kind in ("choose", "choose among"):
        among = PAIRS[-3 if kind == "choose" else -2 :]
        assert [returned] == [among[int(answer)] for answer in stored]
    elif kind == "tabulate":
        assert [table.table.tolist() for table in returned] == [cells.tolist() for cells in stored]
    elif kind == "clusters":
        assert all(map(np.array_equal, (returned.sizes, returned.totals), stored))
        assert len(stored) == 2
    else:
        (answer,) = stored
        assert np.array_equal(getattr(returned, "table", returned), answer)


@every_question
def test_a_replay_charges_its_own_release_and_needs_no_rows(kind, currency):
    given, transcript, noise = (
        {"epsilon": ONE, "currency": currency},
        Transcript(),
        RecordingNoise(),
    )
    first = EXAMPLES[kind](curator_over(TEN_PEOPLE, transcript=transcript, **given))
    replay = curator_over(None, transcript=transcript.rewind(), noise=noise, **given)
    assert repr(EXAMPLES[kind](replay)) == repr(first)
    assert (noise.draws, replay.accountant.remaining) == ([], 0)


@every_question
def test_a_curator_without_rows_refuses_what_was_never_stored(kind, currency):
    with pytest.raises(Damaged, match="needs a stored answer"):
        EXAMPLES[kind](curator_over(None, epsilon=ONE, currency=currency))


def test_the_nodes_of_one_height_are_the_cells_of_a_grid() -> None:
    leaves = Prefixes.root().children(2).children(2)
    curator = curator_over(TEN_PEOPLE)
    measured = curator.measure_nodes(("x", "y"), leaves, depth=3, epsilon=SILENT)
    grid = LoopCounter(TEN_PEOPLE).grid(("x", "y"), 4).open_at_the_gate()
    assert measured.table.tolist() == grid.ravel()[leaves.grid_cells(2)[1]].tolist()


def test_measures_are_near_exact_answers_and_carry_their_scale() -> None:
    curator, half = curator_over(TEN_PEOPLE, distance=3), SILENT / 2
    marginal = curator.measure(PAIRS[0], epsilon=half)
    assert marginal.table.tolist() == [[2, 2], [2, 1], [2, 1]]
    grid = curator.measure_grid(("x",), cells=2, epsilon=half)
    assert (marginal.attributes, grid.table.tolist()) == (PAIRS[0], [5, 5])
    assert marginal.scale == grid.scale == 3 / half


def test_no_nodes_at_all_are_charged_recorded_and_empty() -> None:
    transcript, noise = Transcript(), RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, transcript=transcript, noise=noise)
    empty = Prefixes.root().where(np.array([False]))
    assert curator.measure_nodes(("x",), empty, depth=2, epsilon=ONE).table.tolist() == []
    assert curator.accountant.remaining == 0
    assert (len(transcript), noise.draws[0].scale) == (1, 1)


def test_one_scan_serves_all_levels_of_a_tree() -> None:
    looks: list[str] = []
    counter = Logged(LoopCounter(TEN_PEOPLE), {"grid": "look"}, looks)
    curator = curator_over(counter)
    for nodes in (Prefixes.root(), Prefixes.root().children(2)):
        curator.measure_nodes(("x", "y"), nodes, depth=2, epsilon=ONE)
    assert looks == ["look"]


def test_a_choice_costs_twice_its_largest_reach_over_its_scale() -> None:
    noise = RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, distance=3, noise=noise)
    gap = DependenceScore(np.zeros((3, 2), np.int64))
    candidates = {("colour", "smokes"): gap, ("smokes", "y"): Independence()}
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
CLIPPED = asks("measure_distance", along_x(0), clip=1 << 20, shift=8)
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


@pytest.mark.parametrize("show", [repr, str, "{}".format, lambda sealed: f"{[sealed]!r}"])
def test_exact_counts_are_not_printed(show: Callable[[Sealed], str]) -> None:
    assert "4321" not in show(SEALED)
    assert "exact counts" in show(SEALED)


@pytest.mark.parametrize(
    "take",
    [
        *(lambda sealed, p=p: pickle.dumps(sealed, protocol=p) for p in range(6)),
        copy.copy,
        copy.deepcopy,
        lambda sealed: copy.deepcopy({"inside": [sealed]}),
        lambda sealed: sealed == Sealed(np.array([4321, 17])),
        lambda sealed: sealed != 1,
        lambda sealed: sealed in [Sealed(np.array([1]))],
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
    paid = gaussian_query("number of rows", l2_squared=1, rho=ONE)
    with pytest.raises(BoundaryViolation, match="the data set declares no `delta`"):
        executor.charge_and_answer(paid, ("rows",), lambda counter: counter.count([()])[0])
    assert (executor.accountant.spends, noise.draws, len(transcript)) == ((), [], 0)
