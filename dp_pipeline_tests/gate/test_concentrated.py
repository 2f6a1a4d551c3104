"""Questions of a release that pays in ρ: Gaussian noise and the exponential mechanism."""

from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.scores import Independence
from dp_pipeline.results.accountant import EXPONENTIAL, GAUSSIAN, LAPLACE, Accountant
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import IN_RHO, ONE, PAIRS, ZCDP, example_questions
from dp_pipeline_tests.instruments import RecordingNoise, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE, LoopCounter

CHOICES = ("choose", "choose among")
EXAMPLES = example_questions()


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


def test_a_release_knows_its_currency() -> None:
    assert curator_over(TEN_PEOPLE, currency=ZCDP).currency == ZCDP
    assert curator_over(TEN_PEOPLE).currency.name == "pure"


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
