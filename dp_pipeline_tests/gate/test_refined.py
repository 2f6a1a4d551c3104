"""Less noise for what is added: the right distribution given the first draw, the right price."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
import pytest
from opendp import measurements
from scipy import stats

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import IntArray, Levels
from dp_pipeline.config.errors import BoundaryViolation, BudgetExceeded, OtherQuestion
from dp_pipeline.gate import noise as sources
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.mechanisms import refinement_query
from dp_pipeline.gate.noise import ExactNoise, NoiseSource, OpenDPNoise, SeededNoise
from dp_pipeline.gate.table_curator import PaidMarginals
from dp_pipeline.raw.counters.fold import EmptyCounter
from dp_pipeline.results.accountant import LAPLACE, REFINED
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.distributions import ALARM, by_source, fit
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.populations import TEN_PEOPLE

ONE = Fraction(1)
PAIR = ("colour", "smokes")
RHO = Currency(Fraction(1, 10**9))
SCALES = [(Fraction(4), Fraction(2)), (Fraction(3), Fraction(14, 5)), (Fraction(5), Fraction(2, 3))]


def conditional(z: int, scale: Fraction, finer: Fraction, places: Iterable[int]) -> list[float]:
    """P(Z = x | Z + V = z), by the two distributions themselves, with floats."""
    q, p = exp(-1 / scale), exp(-1 / finer)
    zero = p / q * ((1 - q) / (1 - p)) ** 2
    spread = range(-400, 401)

    def weight(x: int) -> float:
        coarser = (1 - zero) * (1 - q) / (1 + q) * q ** abs(z - x) + zero * (x == z)
        return p ** abs(x) * coarser

    total = sum(map(weight, spread))
    return [weight(x) / total for x in places]


def probability_of(drawn: IntArray, z: int, scale: Fraction, finer: Fraction) -> float:
    """The p-value of Pearson's test of draws given z: a bin a number that is likely enough."""
    places = range(-60, 61)
    chances = [len(drawn) * chance for chance in conditional(z, scale, finer, places)]
    counts = Counter(drawn.tolist())
    expected = [chance for chance in chances if chance >= 50]
    counted = [counts[x] for x, chance in zip(places, chances, strict=True) if chance >= 50]
    rest = len(drawn) - sum(expected)
    return float(stats.chisquare([*counted, len(drawn) - sum(counted)], [*expected, rest]).pvalue)


def given(source: NoiseSource, z: int, scale: Fraction, finer: Fraction, times: int) -> IntArray:
    """Noise that is left, of so many cells whose noise was z."""
    empty = np.zeros(times, dtype=np.int64)
    return source.refined_laplace(empty, empty + z, scale, finer)


@by_source
@pytest.mark.parametrize(("scale", "finer"), SCALES)
@pytest.mark.parametrize("z", [0, 1, -1, 5, -12])
def test_remaining_noise_has_its_conditional_distribution(source, scale, finer, z):
    assert probability_of(given(source, z, scale, finer, 20_000), z, scale, finer) > ALARM


@pytest.mark.parametrize(("scale", "finer"), SCALES)
def test_refined_noise_is_discrete_laplace_over_all_first_draws(scale, finer):
    counts, source = np.full(60_000, 7), SeededNoise(2)
    first = source.discrete_laplace(counts, scale)
    second = source.refined_laplace(counts, first, scale, finer)
    assert fit(second - 7, finer) > ALARM
    third = source.refined_laplace(counts, second, finer, finer * 3 / 4)
    assert fit(third - 7, finer * 3 / 4) > ALARM


def test_large_numbers_are_exact() -> None:
    counts = np.array([2**62, -(2**62)])
    source, scale = SeededNoise(5), Fraction(1 << 54)
    first = source.discrete_laplace(counts, scale)
    second = source.refined_laplace(counts, first, scale, Fraction(1))
    assert np.abs(second - counts).max() < 200


def test_a_marginal_is_refined_for_what_is_added() -> None:
    noise = RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, distance=2, noise=noise)
    first = curator.measure(PAIR, epsilon=ONE / 4)
    (second,) = curator.refine({PAIR: ONE / 4})
    (third,) = curator.refine({PAIR: ONE / 2})
    assert (first.scale, second.scale, third.scale) == (8, 4, 2)
    spends = curator.accountant.spends
    assert [spend.mechanism for spend in spends] == [LAPLACE, REFINED, REFINED]
    assert [spend.epsilon for spend in spends] == [ONE / 4, ONE / 4, ONE / 2]
    assert [spend.epsilon_of_scale for spend in spends] == [ONE / 4, ONE / 4, ONE / 2]
    assert [2 / draw.scale for draw in noise.draws] == [ONE / 4, ONE / 4, ONE / 2]
    with pytest.raises(BudgetExceeded):
        curator.refine({PAIR: ONE / 4})


def test_the_gates_own_answer_is_refined() -> None:
    noise = RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, noise=noise)
    first = curator.measure(PAIR, epsilon=ONE / 4)
    answer = first.table.copy()
    first.table[:] = 10**6
    curator.refine({PAIR: ONE / 4})
    assert np.array_equal(noise.refined[0][0], answer)


def test_refined_answers_are_recalled_from_a_transcript() -> None:
    transcript = Transcript()
    curator = curator_over(TEN_PEOPLE, epsilon=ONE, transcript=transcript)
    curator.measure(PAIR, epsilon=ONE / 4)
    (second,) = curator.refine({PAIR: ONE / 4})
    again = curator_over(None, epsilon=ONE, transcript=transcript.rewind(), noise=ForcedNoise(1))
    again.measure(PAIR, epsilon=ONE / 4)
    (recalled,) = again.refine({PAIR: ONE / 4})
    assert np.array_equal(recalled.table, second.table)


def test_what_was_not_measured_is_not_refined() -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE)
    curator.measure(PAIR, epsilon=ONE / 4)
    coarse = curator.grouped({"colour": Grouping((0, 0, 1))})
    for view, names in ((curator, ("colour",)), (curator, PAIR[::-1]), (coarse, PAIR)):
        with pytest.raises(BoundaryViolation, match="was not measured"):
            view.refine({names: ONE / 4})
    assert curator.accountant.remaining == ONE * 3 / 4


def test_a_marginal_in_rho_is_the_mean_of_two_measurements() -> None:
    """The noise of 6,400 cells is as stated, up to 6 standard errors: a false alarm below 1e-8."""
    levels = Levels(tuple(map(str, range(80))))
    domain = Domain(tuple(Attribute(name, name, "drop", cells=levels) for name in ("a", "b")))
    curator = curator_over(
        EmptyCounter(domain), epsilon=ONE, domain=domain, currency=RHO, noise=SeededNoise(6)
    )
    first = curator.tabulate({("a", "b"): ONE / 400})[0]
    (second,) = curator.refine({("a", "b"): ONE / 400})
    (third,) = curator.refine({("a", "b"): ONE / 200})
    assert (first.scale, second.scale, third.scale) == (200, 100, 50)
    assert curator.accountant.remaining == ONE * 99 / 100
    for release in (first, second, third):
        actual = float((release.table**2).mean())
        assert abs(actual / release.variance - 1) < 6 * (2 / release.table.size) ** 0.5


@pytest.mark.parametrize(("first", "second"), [(PURE, RHO), (RHO, PURE)], ids=["ε", "ρ"])
def test_an_answer_in_another_currency_is_not_refined(first: Currency, second: Currency) -> None:
    given: dict[str, Any] = {"epsilon": ONE, "paid_marginals": {}}
    measured, refined = (curator_over(TEN_PEOPLE, currency=c, **given) for c in (first, second))
    measured.tabulate({PAIR: ONE / 4})
    pure = curator_over(TEN_PEOPLE, currency=RHO)
    pure.measure(PAIR, epsilon=ONE / 4)
    with pytest.raises(BoundaryViolation, match="in another currency"):
        pure.refine({PAIR: ONE / 4})
    with pytest.raises(BoundaryViolation, match="in another currency"):
        refined.refine({PAIR: ONE / 4})
    assert refined.accountant.remaining == 1


@pytest.mark.parametrize("paid", [Fraction(3, 10), Fraction(1, 2)], ids=str)
@pytest.mark.parametrize("many_cells", [1, 1 << 15])
def test_refining_starts_from_the_scale_that_was_drawn(paid, many_cells, monkeypatch):
    """OpenDP draws at a float: 10/3 is none. Another source knows it from the transcript alone."""
    drawn: list[Fraction] = []
    make, exact = measurements.make_laplace, ExactNoise.discrete_laplace

    def make_watched(*space: object, scale: float) -> object:
        drawn.append(Fraction(scale))
        return make(*space, scale=scale)

    def draw_watched(source: ExactNoise, counts: IntArray, scale: Fraction) -> IntArray:
        drawn.append(scale)
        return exact(source, counts, scale)

    monkeypatch.setattr(sources, "MIN_EXACT_CELLS", many_cells)
    monkeypatch.setattr(measurements, "make_laplace", make_watched)
    monkeypatch.setattr(ExactNoise, "discrete_laplace", draw_watched)
    transcript = Transcript()
    curator_over(
        TEN_PEOPLE, epsilon=paid, transcript=transcript, noise=OpenDPNoise(), paid_marginals={}
    ).measure(PAIR, epsilon=paid)
    assert drawn == [record.scale for record in transcript.records]
    assert (drawn[0] == 1 / paid) is (many_cells == 1 or paid == ONE / 2)
    marginals: PaidMarginals = {}
    again = curator_over(
        None, epsilon=paid, transcript=transcript.rewind(), paid_marginals=marginals
    )
    again.measure(PAIR, epsilon=paid)
    finest, noise = Transcript(), RecordingNoise()
    curator = curator_over(
        TEN_PEOPLE, epsilon=ONE - paid, noise=noise, paid_marginals=marginals, transcript=finest
    )
    curator.refine({PAIR: (ONE - paid) / 2})
    curator.refine({PAIR: (ONE - paid) / 2})
    half = 1 / ((ONE + paid) / 2)
    assert [scales for _, *scales in noise.refined] == [[drawn[0], half], [half, ONE]]
    assert [record.scale for record in finest.records] == [half, ONE]


def test_a_refined_question_names_the_answer_that_it_refines() -> None:
    """Else the stored refinement of one answer would be given as that of another one."""
    first, finer, other = Transcript(), Transcript(), Transcript()
    for transcript, seed in ((first, 1), (other, 2)):
        curator = curator_over(
            TEN_PEOPLE, epsilon=ONE / 4, noise=SeededNoise(seed), transcript=transcript
        )
        curator.measure(PAIR, epsilon=ONE / 4)

    def refined(of: Transcript, transcript: Transcript) -> Curator:
        marginals: PaidMarginals = {}
        curator_over(
            None, epsilon=ONE / 4, transcript=of.rewind(), paid_marginals=marginals
        ).measure(PAIR, epsilon=ONE / 4)
        return curator_over(
            TEN_PEOPLE, epsilon=ONE, transcript=transcript, paid_marginals=marginals
        )

    refined(first, finer).refine({PAIR: ONE / 4})
    refined(first, finer.rewind()).refine({PAIR: ONE / 4})
    with pytest.raises(OtherQuestion):
        refined(other, finer.rewind()).refine({PAIR: ONE / 4})


@pytest.mark.parametrize(
    ("first", "scale", "words"),
    [
        (np.iinfo(np.int64).max, ONE, "inside the ends of int64"),
        (7, ONE * 99 / 100, "must be at least that of the first answer"),
    ],
)
def test_noise_that_is_not_what_was_paid_for_is_not_refined(first, scale, words):
    with pytest.raises(BoundaryViolation, match=words):
        paid = {"before": ONE, "scale": scale, "epsilon": ONE}
        refinement_query("counts", l1=1, first=np.array([first]), **paid)


@pytest.mark.parametrize("drawn_at", [ONE * 6, ONE * 9], ids=["as paid", "rounded up"])
def test_refined_noise_is_that_of_both_amounts(drawn_at: Fraction) -> None:
    """Whatever a source has rounded the first scale to: 3 / (1/2 + 1/4) = 4."""
    counts, source = np.full(60_000, 7), SeededNoise(7)
    first = source.discrete_laplace(counts, drawn_at)

    amounts = {"before": ONE / 2, "scale": drawn_at, "epsilon": ONE / 4}
    refined = refinement_query("counts", l1=3, first=first, **amounts).add_noise(counts, source)
    assert fit(refined - 7, Fraction(4)) > ALARM
