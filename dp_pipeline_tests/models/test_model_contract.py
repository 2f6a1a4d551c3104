"""The guarantee, for every model: exactly its budget, and nothing but its transcript."""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from itertools import product

import pytest

from dp_pipeline.config.errors import Damaged, OtherQuestion
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model
from dp_pipeline.models.clustering import htree_kmeans
from dp_pipeline.results.accountant import NOISY_MAX
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.instruments import NoiseOfContent
from dp_pipeline_tests.models import mutants
from dp_pipeline_tests.models.contract import (
    Constant,
    LargeAnswers,
    built,
    check_budget,
    check_loss,
    check_replay,
    check_valid,
    claimed,
    clustering_cases,
    fuzz_loss,
    model_cases,
    privacy_loss,
    run,
)
from dp_pipeline_tests.populations import AWKWARD, TEN_PEOPLE, LoopCounter

CASES = model_cases()
EPSILONS = [Fraction(text) for text in ("0.1", "1", "2.5")]

BOUNDED = ("privtree_kmeans", "privhd, published")
"""Cases whose proof bounds what a person loses without reaching it."""

every_case = pytest.mark.parametrize("case", CASES)
every_strength = pytest.mark.parametrize(
    ("epsilon", "rows_reached"), list(zip(EPSILONS, (3, 3, 1), strict=True))
)
"""The most noise that any of these has, the least, and some between them."""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_frozen_and_has_a_summary_and_a_proof(name: str) -> None:
    model_type = MODELS[name]
    assert is_dataclass(model_type)
    assert model_type.__dataclass_params__.frozen
    assert model_type.summary.strip()
    assert len(model_type.summary.splitlines()) == 1
    assert "Proof" in (model_type.__doc__ or "")
    # What a model has from its base is described there.
    described = "\n".join(base.__doc__ or "" for base in model_type.__mro__)
    for field in fields(model_type):
        assert {"parse", "expected", "measuring"} <= set(field.metadata)
        assert re.search(rf"^    {field.name}  +\S", described, re.MULTILINE)


@every_case
@every_strength
def test_the_scales_drawn_prove_the_epsilon_that_was_asked(case, epsilon, rows_reached):
    done = check_budget(CASES[case], epsilon=epsilon, distance=rows_reached)
    # The accountant agrees that all is spent.
    assert all(type(spend.epsilon) is Fraction for spend in done.spends)
    assert sum(spend.epsilon for spend in done.spends) == claimed(CASES[case], epsilon).epsilon


WRONG_BUDGETS = {
    "UnpaidRound": 1,
    "UnpaidLevels": 1,
    "UnpaidStart": 1,
    "HalfTheNoise": 1,
    "Refund": 1,
    "OwnReach": 3,
    "UnspentRest": 1,
    "StopsEarly": 1,
}
"""Mutant → a distance at which it is wrong."""


def mutant(name: str) -> Model:
    return built(getattr(mutants, name), nominal_rows=1000)


@pytest.mark.parametrize("name", WRONG_BUDGETS)
def test_a_model_that_spends_another_budget_is_caught(name: str) -> None:
    distance = WRONG_BUDGETS[name]
    how = {"epsilon": Fraction(1), "distance": distance}
    with pytest.raises(AssertionError):
        check_budget(mutant(name), **how)
        check_loss(mutant(name), (), TEN_PEOPLE[:1] * distance, **how)


@every_case
@pytest.mark.parametrize("rows_reached", [1, 3])
def test_along_any_answers_a_person_loses_at_most_epsilon(case: str, rows_reached: int) -> None:
    fuzz_loss(CASES[case], distance=rows_reached)


@pytest.mark.parametrize(
    "name", ["UnpaidRound", "UnpaidLevels", "UnpaidStart", "HalfTheNoise", "Refund"]
)
def test_a_model_whose_answers_lose_more_than_epsilon_is_caught(name: str) -> None:
    with pytest.raises(AssertionError):
        fuzz_loss(mutant(name), distance=1)


@pytest.mark.parametrize("case", [case for case in CASES if case not in BOUNDED])
@every_strength
def test_a_person_counted_every_time_uses_all_of_epsilon(case, epsilon, rows_reached, monkeypatch):
    # Not one share of ε is spent on noise that protects nobody. On a corner of the box a person
    # moves totals of coordinates by as much as anybody can. A tree of large answers alone would
    # grow to its cap.
    monkeypatch.setattr(htree_kmeans, "MOST_NODES", 5000)
    person = TEN_PEOPLE[-1:] * rows_reached
    alone, nobody = (
        run(CASES[case], rows, epsilon=epsilon, distance=rows_reached, noise=LargeAnswers())
        for rows in (person, ())
    )
    loss, claim = privacy_loss(alone, nobody), claimed(CASES[case], epsilon).epsilon
    # A choice is paid for in both directions, and its scores move in one. How much attributes
    # depend on each other is nothing that one person alone could move.
    chose = any(draw.mechanism == NOISY_MAX for draw in alone.draws)
    chose |= any(spend.what.startswith("total of the scores") for spend in alone.spends)
    assert loss == claim or (chose and claim / 4 < loss < claim)


@every_case
@every_strength
def test_whoever_is_behind_the_curator_a_replay_is_the_same(case, epsilon, rows_reached):
    elsewhere = [None, *AWKWARD.values()]
    check_replay(CASES[case], elsewhere=elsewhere, epsilon=epsilon, distance=rows_reached)


CHANGED_BY_ROWS = [
    "PeeksAtTheRowCount",
    "KeepsTheCentreOfAnEmptyCluster",
    "KeepsTheStartOfAnEmptyCluster",
]


@pytest.mark.parametrize(
    "name", [*CHANGED_BY_ROWS, "DrawsAsManyRows", "OwnRandomness", "RemembersTheNoise"]
)
def test_a_model_that_knows_more_than_its_transcript_is_caught(name: str) -> None:
    with pytest.raises((AssertionError, Damaged, OtherQuestion)):
        check_replay(mutant(name))


@pytest.mark.parametrize("name", CHANGED_BY_ROWS)
def test_a_model_that_a_person_changes_without_noise_is_caught(name: str) -> None:
    # The empty-cluster attack: P(the centre stays exactly at its start) goes from 1 to 0.
    with pytest.raises(AssertionError):
        check_loss(mutant(name), (), TEN_PEOPLE[:1], epsilon=Fraction(1), distance=1)


@every_case
def test_a_fit_that_was_interrupted_goes_on_to_the_same_result(case: str) -> None:
    # The noise goes on as if the answers drawn so far had been drawn now.
    whole = Transcript()
    first = run(CASES[case], transcript=whole, noise=NoiseOfContent())
    for answered in range(len(whole)):
        part = Transcript()
        for record in whole.records[:answered]:
            part.store(record.question, record.answer, words=record.words)
        again = run(CASES[case], transcript=part.rewind(), noise=NoiseOfContent())
        assert again.contents == first.contents
        rest = first.draws[len(first.draws) - len(again.draws) :]
        assert [draw.scale for draw in again.draws] == [draw.scale for draw in rest]
        exact = sum(record.words.startswith("public, not noisy") for record in part.records)
        assert len(rest) < len(first.draws) or answered == exact


@every_case
@pytest.mark.parametrize("people_in", AWKWARD)
def test_any_population_gives_a_valid_answer(case: str, people_in: str) -> None:
    model = CASES[case]
    for epsilon in (EPSILONS[0], EPSILONS[-1]):
        check_valid(model, run(model, AWKWARD[people_in], epsilon=epsilon).released)


@pytest.mark.parametrize("case", clustering_cases())
@pytest.mark.parametrize("k", [1, 2, 500])
def test_any_number_of_centres_is_given(case: str, k: int) -> None:
    model = replace(CASES[case], k=k)
    check_valid(model, run(model).released)


@every_case
@pytest.mark.parametrize("noise_of", [SeededNoise, Constant])
def test_any_noise_gives_a_valid_answer(case: str, noise_of: Callable[[int], NoiseSource]) -> None:
    model, numbers = CASES[case], (-1000, 0, 1) if noise_of is Constant else range(3)
    for number, epsilon in product(numbers, (Fraction(1, 1000), Fraction(1))):
        check_valid(model, run(model, epsilon=epsilon, noise=noise_of(number)).released)


@every_case
def test_seeds_decide_the_bytes(case: str) -> None:
    first = run(CASES[case]).contents
    assert run(CASES[case]).contents == first
    assert run(CASES[case], noise=SeededNoise(2)).contents != first


@every_case
def test_at_large_epsilon_the_release_is_that_of_the_true_counts(case: str) -> None:
    # ε so large that all noise is 0 with probability above 1 − 10^(−1000).
    done = run(CASES[case], epsilon=Fraction(10**4), noise=SeededNoise(3))
    tables = done.released.tables()
    if "synopsis" in tables:
        counts = tables["synopsis"]["weight"]
        assert (counts.min(), round(counts.sum(), 9)) == (0, 10)
    if "sizes" in tables:
        assert tables["sizes"]["size"].sum() == 10
    if isinstance(done.released, SyntheticTable):
        assert done.released.measured
        for marginal in done.released.measured:
            (exact,) = LoopCounter(TEN_PEOPLE).count([marginal.attributes])
            assert marginal.table.tolist() == exact.open_at_the_gate().tolist()
