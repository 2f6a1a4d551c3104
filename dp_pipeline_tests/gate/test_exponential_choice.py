"""The exponential mechanism of the three sources: right probabilities, edges and refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dp_pipeline.gate import samplers as sampler
from dp_pipeline.gate.noise import ExactNoise, NoiseSource, OpenDPNoise, SeededNoise
from dp_pipeline_tests.gate.distributions import ALARM, exponential_probabilities, fit_of_choices

SOURCES = [OpenDPNoise(), ExactNoise(), SeededNoise(1)]
CANDIDATES = (5, 7, 7, 4)
INT64 = np.iinfo(np.int64)


def chosen(source, scores, scale, calls=3000) -> NDArray[np.int64]:
    """How often each candidate is chosen."""
    picks = [source.exponential_choice(np.array(scores), scale) for _ in range(calls)]
    return np.bincount(picks, minlength=len(scores))


LAST_BITS = ((INT64.min, INT64.max, INT64.max - 5), Fraction(10))
CHOICES = [
    (CANDIDATES, Fraction(3)),
    (CANDIDATES, Fraction(1)),
    ((-3, 0), Fraction(7, 3)),
    (CANDIDATES, Fraction(3) + Fraction(1, 10**30)),  # Python integers
    ((7 * 10**12, 5 * 10**12), Fraction(3 * 10**12 + 1, 1)),
    LAST_BITS,
    ((0, 2**56), Fraction(2**55)),
]
# Our two sources share a sampler, and OpenDP tests its own: what it is handed is asked below.
CASES = [(SOURCES[2], *choice) for choice in CHOICES]
CASES += [(source, *one) for source in SOURCES[:2] for one in (CHOICES[1], LAST_BITS)]


@pytest.mark.parametrize(
    ("source", "scores", "scale"), CASES, ids=lambda one: getattr(one, "name", str(one))
)
def test_a_choice_has_the_exact_probabilities(source, scores, scale):
    chances = np.array(exponential_probabilities(tuple(map(int, scores)), float(scale)))
    counts = chosen(source, scores, scale)
    possible = chances * counts.sum() > 1e-6
    assert counts[~possible].sum() == 0
    assert fit_of_choices(counts[possible], list(chances[possible])) > ALARM


def half_the_noise(scores: tuple[int, ...]) -> NDArray[np.int64]:
    return chosen(SeededNoise(7), scores, Fraction(1, 2))


def permute_and_flip(scores: tuple[int, ...]) -> NDArray[np.int64]:
    picks = [OpenDPNoise().noisy_max(np.array(scores), Fraction(1)) for _ in range(3000)]
    return np.bincount(picks, minlength=len(scores))


@pytest.mark.parametrize(
    "mutant", [half_the_noise, permute_and_flip], ids=lambda mutant: mutant.__name__
)
def test_another_mechanism_is_caught(mutant) -> None:
    assert fit_of_choices(mutant((0, 1)), exponential_probabilities((0, 1), 1.0)) < ALARM


def test_an_acceptance_that_forgets_the_gaps_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_gaps", lambda scores, _: scores * 0)
    counts = chosen(SeededNoise(7), CANDIDATES, Fraction(1))
    assert fit_of_choices(counts, exponential_probabilities(CANDIDATES, 1.0)) < ALARM


@pytest.mark.parametrize("source", SOURCES[1:], ids=lambda source: source.name)
def test_a_candidate_of_more_than_a_batch_has_its_probability(source: NoiseSource) -> None:
    scores = np.zeros(6001, np.int64)
    scores[4321] = 8700  # about as likely as the other 6,000 together
    picks = np.array([source.exponential_choice(scores, Fraction(1000)) for _ in range(400)])
    odds = math.exp(8.7) / 6000
    the_one, others = int((picks == 4321).sum()), picks[picks != 4321]
    assert stats.binomtest(the_one, 400, odds / (1 + odds)).pvalue > ALARM
    assert stats.binomtest(int((others < 3000).sum()), others.size, 0.5).pvalue > ALARM


def test_a_choice_among_100_000_candidates_is_fast() -> None:
    scores = np.arange(10**5) * 10**9
    assert SeededNoise(1).exponential_choice(scores, Fraction(10**12 + 39, 10**7 + 19)) == 99_999
