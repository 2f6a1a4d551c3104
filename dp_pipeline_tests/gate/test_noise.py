"""The three noise sources: right distribution, right edges, right refusals."""

import dataclasses
import math
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate import samplers
from dp_pipeline.gate.noise import (
    MIN_EXACT_CELLS,
    ExactNoise,
    NoiseSource,
    OpenDPNoise,
    SeededNoise,
    float_at_least,
    parse_noise,
    root_at_least,
)
from dp_pipeline.gate.samplers import (
    UniformIntegers,
    bernoulli_exp_of_any,
    geometric_noise,
    saturating_sum,
)
from dp_pipeline_tests.gate.distributions import (
    ALARM,
    SCALES,
    SOURCES,
    by_source,
    exponential_probabilities,
    fit,
    fit_of_choices,
    gaussian_cdf,
    geometric_cdf,
    laplace_cdf,
    noisy_max_probabilities,
    permute_and_flip_probabilities,
    same,
)

OURS = SOURCES[1:]
INT64 = np.iinfo(np.int64)

by_our_source = pytest.mark.parametrize("source", OURS, ids=lambda source: source.name)
by_scale = pytest.mark.parametrize("scale", SCALES, ids=str)

VARIANCES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(100), Fraction(1000**2)]
CDFS = {"discrete_laplace": laplace_cdf, "discrete_gaussian": gaussian_cdf}
"""Both kinds of noise that are added to counts, of a scale and of a variance."""

ADDED = tuple(CDFS)
by_kind = pytest.mark.parametrize("kind", ADDED)
by_size = pytest.mark.parametrize(
    ("kind", "size"),
    [(ADDED[0], size) for size in SCALES] + [(ADDED[1], size) for size in VARIANCES],
)


def draws(source: NoiseSource, many: int, size: Fraction, kind: str = ADDED[0]) -> IntArray:
    return getattr(source, kind)(np.zeros(many, np.int64), size)


@by_size
@by_our_source
def test_our_noise_has_its_distribution(source: NoiseSource, kind: str, size: Fraction) -> None:
    assert fit(draws(source, 200_000, size, kind), size, CDFS[kind]) > ALARM


@by_size
def test_our_noise_is_the_noise_of_opendp(kind: str, size: Fraction) -> None:
    theirs = draws(OpenDPNoise(), 30_000, size, kind)
    assert fit(theirs, size, CDFS[kind]) > ALARM
    assert same(draws(ExactNoise(), 100_000, size, kind), theirs, size, CDFS[kind]) > ALARM
    assert same(draws(SeededNoise(2), 100_000, size, kind), theirs, size, CDFS[kind]) > ALARM


ABOVE, BELOW = Fraction(7, 3) + Fraction(1, 10**30), Fraction(1, 2) - Fraction(1, 10**30)
"""Python integers."""


@pytest.mark.parametrize(
    ("kind", "size", "nearly"),
    [
        (ADDED[0], Fraction(10**7 + 1, 10**6), Fraction(10)),  # 32-bit words
        (ADDED[0], Fraction(10**16 + 1, 10**15), Fraction(10)),  # 64-bit words
        (ADDED[1], Fraction(5 * 10**8, 123_457), Fraction(5 * 10**8, 123_457)),  # squares pass them
        *((kind, Fraction(2**61 + 1, 2**58), Fraction(8)) for kind in ADDED),  # U + n·V passes them
        *((kind, ABOVE, Fraction(7, 3)) for kind in ADDED),
        *((kind, BELOW, Fraction(1, 2)) for kind in ADDED),
    ],
    ids=str,
)
def test_sizes_of_many_digits_give_the_same_distribution(kind, size, nearly):
    assert fit(draws(SeededNoise(3), 40_000, size, kind), nearly, CDFS[kind]) > ALARM


@by_scale
def test_the_noise_of_noisy_max_is_the_one_sided_geometric(scale: Fraction) -> None:
    uniform = UniformIntegers(np.random.default_rng(5).bytes)
    assert fit(geometric_noise(200_000, scale, uniform), scale, geometric_cdf) > ALARM


Mutant = Callable[[int, pytest.MonkeyPatch], IntArray]


def minus_zero_kept(many: int, patch: pytest.MonkeyPatch) -> IntArray:
    patch.setattr(samplers, "_signed", lambda m, negative: np.where(negative, -m, m))
    return draws(SeededNoise(6), many, Fraction(1))


def even_rounds_say_yes(many: int, patch: pytest.MonkeyPatch) -> IntArray:
    right = samplers.bernoulli_exp

    def swapped(part, whole, uniform):
        return right(part, whole, uniform) ^ (part > 0)

    patch.setattr(samplers, "bernoulli_exp", swapped)
    return draws(SeededNoise(6), many, Fraction(1))


def every_proposal_kept(many: int, patch: pytest.MonkeyPatch) -> IntArray:
    patch.setattr(samplers, "_accepted_gaussian", lambda proposed, *_: proposed)
    return draws(SeededNoise(6), many, Fraction(1), ADDED[1])


def exponent_doubled(many: int, patch: pytest.MonkeyPatch) -> IntArray:
    right = samplers.bernoulli_exp_of_any
    patch.setattr(samplers, right.__name__, lambda part, *given: right(2 * part, *given))
    return draws(SeededNoise(6), many, Fraction(1), ADDED[1])


GENERATOR = np.random.default_rng(6)
OF_LAPLACE: dict[str, Mutant] = {
    "minus zero kept": minus_zero_kept,
    "ten percent too little": lambda many, _: draws(SeededNoise(6), many, Fraction(9, 10)),
    "rounded floats": lambda many, _: np.rint(GENERATOR.laplace(size=many)).astype(np.int64),
    "even rounds say yes": even_rounds_say_yes,
}
OF_GAUSSIAN: dict[str, Mutant] = {
    "a deviation one percent too small": lambda many, _: draws(
        SeededNoise(6), many, Fraction(98, 100), ADDED[1]
    ),
    "rounded floats": lambda many, _: np.rint(GENERATOR.normal(size=many)).astype(np.int64),
    "every proposal kept": every_proposal_kept,
    "exponent doubled": exponent_doubled,
}
WRONG = [(mutant, laplace_cdf) for mutant in OF_LAPLACE.values()]
WRONG += [(mutant, gaussian_cdf) for mutant in OF_GAUSSIAN.values()]


@pytest.mark.parametrize(("mutant", "cdf"), WRONG, ids=[*OF_LAPLACE, *OF_GAUSSIAN])
def test_a_wrong_sampler_is_caught(mutant, cdf, monkeypatch) -> None:
    assert fit(mutant(400_000, monkeypatch), Fraction(1), cdf) < ALARM


@pytest.mark.parametrize("bound", [2, 3, 6, 7, 255, 256])
def test_every_integer_below_a_bound_has_equally_many_words(bound: int) -> None:
    every_word = np.arange(2**16, dtype=np.uint16).tobytes()
    drawn = UniformIntegers(lambda _: every_word)._attempt(bound, 2**16)
    assert set(np.bincount(drawn, minlength=bound)) == {2**16 // bound}


@settings(max_examples=100)
@given(bound=st.integers(1, 2**80), size=st.integers(0, 40), seed=st.integers(0, 99))
def test_uniform_integers_stay_below_any_bound(bound: int, size: int, seed: int) -> None:
    drawn = UniformIntegers(np.random.default_rng(seed).bytes).below(bound, size)
    assert drawn.shape == (size,)
    assert all(0 <= int(number) < bound for number in drawn)


CANDIDATES = (5, 7, 7, 4)


def chosen(source, scores, scale, kind="noisy_max") -> NDArray[np.int64]:
    """How often each candidate is chosen in 3000 calls."""
    picks = [getattr(source, kind)(np.array(scores), scale) for _ in range(3000)]
    return np.bincount(picks, minlength=len(scores))


@by_source
def test_noisy_max_chooses_with_the_enumerated_probabilities(source: NoiseSource) -> None:
    law = noisy_max_probabilities if source in OURS else permute_and_flip_probabilities
    chances = law(CANDIDATES, 3.0)
    assert math.isclose(sum(chances), 1.0, abs_tol=1e-12)
    assert fit_of_choices(chosen(source, CANDIDATES, Fraction(3)), chances) > ALARM


def test_a_noisy_max_with_half_the_noise_is_caught() -> None:
    counts = chosen(SeededNoise(7), CANDIDATES, Fraction(3, 2))
    assert fit_of_choices(counts, noisy_max_probabilities(CANDIDATES, 3.0)) < ALARM


EXPONENTIAL = "exponential_choice"
LAST_BITS = ((INT64.min, INT64.max, INT64.max - 5), Fraction(10))
SCORED = [
    (CANDIDATES, Fraction(3)),
    (CANDIDATES, Fraction(1)),
    ((-3, 0), Fraction(7, 3)),
    (CANDIDATES, Fraction(3) + Fraction(1, 10**30)),  # Python integers
    ((7 * 10**12, 5 * 10**12), Fraction(3 * 10**12 + 1, 1)),
    LAST_BITS,
    ((0, 2**56), Fraction(2**55)),
]
# Our two sources share a sampler, and OpenDP tests its own: what it is handed is asked below.
CASES = [(SOURCES[2], *choice) for choice in SCORED]
CASES += [(source, *choice) for source in SOURCES[:2] for choice in (SCORED[1], LAST_BITS)]


@pytest.mark.parametrize(
    ("source", "scores", "scale"), CASES, ids=lambda value: getattr(value, "name", str(value))
)
def test_a_choice_has_the_exact_probabilities(source, scores, scale):
    chances = np.array(exponential_probabilities(tuple(map(int, scores)), float(scale)))
    counts = chosen(source, scores, scale, EXPONENTIAL)
    possible = chances * counts.sum() > 1e-6
    assert counts[~possible].sum() == 0
    assert fit_of_choices(counts[possible], list(chances[possible])) > ALARM


def test_another_mechanism_than_the_exponential_is_caught(monkeypatch) -> None:
    scores, expected = (0, 1), exponential_probabilities((0, 1), 1.0)
    half_the_noise = chosen(SeededNoise(7), scores, Fraction(1, 2), EXPONENTIAL)
    permute_and_flip = chosen(OpenDPNoise(), scores, Fraction(1))
    for counts in (half_the_noise, permute_and_flip):
        assert fit_of_choices(counts, expected) < ALARM
    monkeypatch.setattr(samplers, "_gaps", lambda scores, _: scores * 0)
    counts = chosen(SeededNoise(7), CANDIDATES, Fraction(1), EXPONENTIAL)
    assert fit_of_choices(counts, exponential_probabilities(CANDIDATES, 1.0)) < ALARM


@by_our_source
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


CHOICES = ("noisy_max", EXPONENTIAL)
by_choice = pytest.mark.parametrize("kind", CHOICES)


@by_choice
@by_source
def test_a_choice_keeps_the_last_bit_of_large_scores(source: NoiseSource, kind: str) -> None:
    scores = np.array([2**60, 2**60 + 1, 2**60])
    choose = getattr(source, kind)
    assert {choose(scores, Fraction(1, 1000)) for _ in range(20)} == {1}


@by_source
def test_noisy_max_holds_at_the_ends_of_int64(source: NoiseSource) -> None:
    scores = np.array([INT64.min, INT64.max, INT64.max - 2000])
    assert {source.noisy_max(scores, Fraction(10)) for _ in range(20)} == {1}


@by_kind
@by_source
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (5,), (2, 3, 4)], ids=str)
def test_noise_keeps_the_shape_and_its_input(source, kind, shape):
    counts = np.full(shape, 1000)
    noisy = getattr(source, kind)(counts, Fraction(3))
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert not np.shares_memory(noisy, counts)
    assert (counts == 1000).all()


@by_kind
@by_source
def test_noise_is_added_in_place_in_any_memory_layout(source: NoiseSource, kind: str) -> None:
    counts = np.arange(24).reshape(2, 3, 4) * 10**6
    for view in (counts.T, counts[:, ::-1, ::2], np.asfortranarray(counts)):
        assert np.abs(getattr(source, kind)(view, Fraction(2)) - view).max() < 1000


@by_kind
@settings(max_examples=75)
@given(
    counts=st.lists(st.integers(int(INT64.min), int(INT64.max)), min_size=1, max_size=6),
    power=st.sampled_from([Fraction(1, 3), Fraction(10), Fraction(2**40), Fraction(2**55)]),
    seed=st.integers(0, 10),
)
def test_sums_saturate_at_the_ends_of_int64_and_never_wrap(kind, counts, power, seed):
    size = power if kind == "discrete_laplace" else power**2
    noise = getattr(SeededNoise(seed), kind)(np.zeros(len(counts), np.int64), size)
    noisy = getattr(SeededNoise(seed), kind)(np.array(counts, np.int64), size)
    pairs = zip(counts, noise.tolist(), strict=True)
    assert noisy.tolist() == [min(max(c + x, int(INT64.min)), int(INT64.max)) for c, x in pairs]


def test_noise_too_large_for_int64_is_cut_only_after_the_sum() -> None:
    noise = np.array([2**63 + 5, -(2**70), 2**70], object)
    counts = np.array([-10, 0, 0])
    assert saturating_sum(counts, noise).tolist() == [2**63 - 5, INT64.min, INT64.max]


@pytest.mark.parametrize(
    ("draw", "size", "dtype", "unit", "law"),
    [
        (samplers.laplace_noise, 2**70, object, 2**60, (Fraction(2**10), laplace_cdf)),
        (samplers.gaussian_noise, 2**100, np.int64, 2**40, (Fraction(2**20), gaussian_cdf)),
        (samplers.gaussian_noise, 2**140, object, 2**60, (Fraction(2**20), gaussian_cdf)),
    ],
)
def test_draws_of_any_size_stay_exact(draw, size: int, dtype: type, unit: int, law) -> None:
    drawn = draw(4000, Fraction(size), UniformIntegers(np.random.default_rng(8).bytes))
    assert drawn.dtype == dtype
    assert fit((drawn // unit).astype(np.int64), *law) > ALARM


@pytest.mark.parametrize(("kind", "size"), [(ADDED[0], 10), (ADDED[1], 100)])
def test_opendp_saturates_as_we_do(kind: str, size: int) -> None:
    ends = np.array([INT64.max] * 50 + [INT64.min] * 50)
    noisy = getattr(OpenDPNoise(), kind)(ends, Fraction(size))
    assert noisy[:50].min() > INT64.max - 10**4
    assert noisy[50:].max() < INT64.min + 10**4


NAMES = {ADDED[0]: "scale", ADDED[1]: "σ²", **dict.fromkeys(CHOICES, "scale")}
NO_SIZES = (Fraction(0), Fraction(-1), 1.0, 1, None, Fraction(10**400))
REFUSED = [(kind, size, name) for kind, name in NAMES.items() for size in NO_SIZES]
REFUSED += [(ADDED[0], 2**55 + Fraction(1, 9), "scale"), (ADDED[1], 2**110 + Fraction(1, 9), "σ²")]


@by_source
@pytest.mark.parametrize(("kind", "size", "name"), REFUSED)
def test_a_size_of_noise_is_refused_by_its_public_value(source, kind, size, name):
    for counts in (np.array([4321]), np.array([]).astype(int)):
        if counts.size or kind in ADDED:
            with pytest.raises(BoundaryViolation, match=name) as refusal:
                getattr(source, kind)(counts, size)
            assert "4321" not in str(refusal.value)


@by_source
def test_the_smallest_sizes_add_nothing(source: NoiseSource) -> None:
    for tiny in (Fraction(1, 10**6), Fraction(1, 10**400)):
        for kind in ADDED:
            size = tiny if kind == "discrete_gaussian" else tiny / 10**4
            assert getattr(source, kind)(np.array([3, -5]), size).tolist() == [3, -5]
        for kind in CHOICES:
            assert getattr(source, kind)(np.array([3, 5, 4]), tiny) == 1


@pytest.mark.parametrize("kind", [*ADDED, *CHOICES])
@by_source
def test_a_source_refuses_what_is_not_an_integer_array(source: NoiseSource, kind: str) -> None:
    for counts in (np.array([1.0]), np.array([True]), np.array([1], object), [1]):
        with pytest.raises(BoundaryViolation, match="must hold integers"):
            getattr(source, kind)(counts, Fraction(1))  # type: ignore[arg-type]


@by_choice
@by_source
def test_nothing_is_chosen_among_no_candidates(source: NoiseSource, kind: str) -> None:
    with pytest.raises(BoundaryViolation, match="one or more candidates"):
        getattr(source, kind)(np.zeros(0, np.int64), Fraction(1))
    assert getattr(source, kind)(np.array([-7]), Fraction(1, 3)) == 0


@settings(max_examples=150)
@given(st.fractions(min_value=Fraction(1, 10**30), max_value=2**55))
def test_opendp_gets_the_smallest_float_above_the_scale(scale: Fraction) -> None:
    at_least = float_at_least(scale)
    assert Fraction(math.nextafter(at_least, 0)) < scale <= Fraction(at_least)


def handed_to_opendp(makers: Sequence[str], patch: pytest.MonkeyPatch) -> list[float]:
    """Return the scales that are handed to these functions of OpenDP, in time."""
    from opendp import measurements

    handed: list[float] = []

    def watch(name: str, make: Callable[..., object]) -> None:
        def watched(*given: object, scale: float) -> object:
            handed.append(scale)
            return make(*given, scale=scale)

        patch.setattr(measurements, name, watched)

    for name in makers:
        watch(name, getattr(measurements, name))
    return handed


@pytest.mark.parametrize("scale", [Fraction(1, 10**400), Fraction(1, 3), Fraction(7, 3)], ids=str)
def test_opendp_is_handed_no_less_noise_than_was_paid_for(scale, monkeypatch):
    handed = handed_to_opendp(["make_laplace", "make_noisy_max"], monkeypatch)
    for kind in ("discrete_laplace", *CHOICES):
        getattr(OpenDPNoise(), kind)(np.array([1]), scale)
    assert handed == [float_at_least(scale)] * 3
    assert min(handed) > 0


@settings(max_examples=30)
@given(st.fractions(min_value=Fraction(1, 10**30), max_value=2**110))
def test_opendp_is_handed_no_less_than_the_variance(sigma2: Fraction) -> None:
    with pytest.MonkeyPatch.context() as patch:
        handed = handed_to_opendp(["make_gaussian"], patch)
        OpenDPNoise().discrete_gaussian(np.array([1]), sigma2)
    assert sigma2 <= Fraction(handed[0]) ** 2 < sigma2 * (1 + Fraction(3, 10**9))


@pytest.mark.parametrize("before", [True, False])
def test_opendp_features_are_left_as_they_were(before, monkeypatch):
    from opendp import mod

    monkeypatch.setattr(mod, "GLOBAL_FEATURES", {"contrib"} if before else set())
    OpenDPNoise().discrete_laplace(np.array([1]), Fraction(1))
    OpenDPNoise().noisy_max(np.array([1]), Fraction(1))
    assert ("contrib" in mod.GLOBAL_FEATURES) is before


def test_opendp_is_not_imported_before_the_first_draw() -> None:
    code = (
        "import sys; from dp_pipeline.gate.noise import OpenDPNoise; OpenDPNoise();"
        "sys.exit('opendp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@by_kind
def test_a_seed_gives_the_same_sequence_of_different_draws(kind: str) -> None:
    def two_draws(source: NoiseSource) -> list[list[int]]:
        zeros = np.zeros(1000, np.int64)
        return [getattr(source, kind)(zeros, SCALES[3]).tolist() for _ in range(2)]

    first, second = two_draws(SeededNoise(9))
    assert [first, second] == two_draws(SeededNoise(9))
    assert first != second
    assert first not in two_draws(SeededNoise(10))


@by_kind
@pytest.mark.parametrize("source", SOURCES[:2], ids=lambda source: source.name)
def test_noise_for_releases_never_repeats(source: NoiseSource, kind: str) -> None:
    zeros = np.zeros(1000, np.int64)
    first, second = (getattr(type(source)(), kind)(zeros, Fraction(100)) for _ in range(2))
    assert (first != second).any()  # equal by chance: below 1e-1000


def test_exact_noise_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    # A generator that was seeded once by the system repeats nothing either, and is no such source.
    monkeypatch.setattr("dp_pipeline.gate.noise.os.urandom", random.Random(3).randbytes)
    expected = SeededNoise(0)
    object.__setattr__(expected, "_uniform", UniformIntegers(random.Random(3).randbytes))
    scale = Fraction(10)
    assert (draws(ExactNoise(), 1000, scale) == draws(expected, 1000, scale)).all()


def test_only_the_seeded_source_is_unfit_for_release() -> None:
    releasable = {source.name: source.is_releasable for source in SOURCES}
    assert releasable == {"opendp": True, "exact": True, "seeded": False}


@by_source
def test_a_source_cannot_be_changed_or_declare_itself_fit(source: NoiseSource) -> None:
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        source.is_releasable = True
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        source._uniform = None


def test_what_is_printed_of_a_source_shows_no_state() -> None:
    shown = [repr(source) for source in (*SOURCES, SeededNoise(987654321))]
    assert shown == ["OpenDPNoise()", "ExactNoise()", "SeededNoise()", "SeededNoise()"]
    assert repr(SeededNoise(987654321)._uniform) == "UniformIntegers()"


def test_sources_are_built_by_name() -> None:
    built = [parse_noise(name) for name in ("opendp", "exact", "seeded:9")]
    assert [type(source) for source in built] == [OpenDPNoise, ExactNoise, SeededNoise]
    assert (draws(built[2], 99, SCALES[3]) == draws(SeededNoise(9), 99, SCALES[3])).all()


@pytest.mark.parametrize(
    "name",
    ["gaussian", "Exact", "", "seeded", "seeded:", "seeded:-1", "seeded:01", "exact:1", "opendp:0"],
)
def test_a_wrong_declaration_of_noise_is_one_line(name: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        parse_noise(name)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("seed", [-1, True, 1.5])
def test_a_seed_is_a_whole_number_from_0(seed: int) -> None:
    with pytest.raises(DeclarationError, match="The seed of noise must be an integer"):
        SeededNoise(seed)


@pytest.mark.parametrize("ask", ["discrete_laplace", "discrete_gaussian"])
def test_many_counts_are_answered_by_the_exact_sampler(ask, monkeypatch):
    sizes: list[tuple[int, Fraction]] = []

    def exact(self: ExactNoise, counts: IntArray, scale: Fraction) -> IntArray:  # noqa: ARG001
        sizes.append((counts.size, scale))
        return counts

    monkeypatch.setattr(ExactNoise, ask, exact)
    for cells in (1, MIN_EXACT_CELLS - 1, MIN_EXACT_CELLS, MIN_EXACT_CELLS + 1):
        getattr(OpenDPNoise(), ask)(np.zeros(cells, dtype=np.int64), Fraction(7, 3))
    assert sizes == [(cells, Fraction(7, 3)) for cells in (MIN_EXACT_CELLS, MIN_EXACT_CELLS + 1)]


SIZE = 100_000
EXPONENTS = [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(5), ABOVE]


def p_of_coins(x: Fraction) -> float:
    """The p-value of SIZE coins against exp(−x)."""
    uniform = UniformIntegers(np.random.default_rng(1).bytes)
    small = max(x.numerator, x.denominator) < 2**63
    part = np.full(SIZE, x.numerator, np.int64 if small else object)
    came_true = int(bernoulli_exp_of_any(part, x.denominator, uniform).sum())
    return float(stats.binomtest(came_true, SIZE, math.exp(-x)).pvalue)


@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_a_coin_falls_true_with_probability_exp_of_minus_x(x: Fraction) -> None:
    assert p_of_coins(x) > ALARM


def test_a_coin_without_whole_units_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = samplers.bernoulli_exp

    def always_for_a_unit(part, whole, uniform):
        return right(part, whole, uniform) | (whole == 1)

    monkeypatch.setattr(samplers, "bernoulli_exp", always_for_a_unit)
    assert p_of_coins(Fraction(7, 3)) < ALARM


def test_each_coin_has_its_own_exponent() -> None:
    uniform = UniformIntegers(np.random.default_rng(2).bytes)
    part = np.arange(10**5) % 5
    came_true = bernoulli_exp_of_any(part, 2, uniform)
    for place in range(5):
        mine = came_true[part == place]
        expected = math.exp(-place / 2)
        assert stats.binomtest(int(mine.sum()), mine.size, expected).pvalue > ALARM


@pytest.mark.parametrize("part", [np.full(1000, 2**62), np.full(1000, 10**400, object)])
def test_an_astronomical_exponent_is_false_at_once(part) -> None:
    uniform = UniformIntegers(np.random.default_rng(3).bytes)
    assert not bernoulli_exp_of_any(part, 1, uniform).any()
    assert bernoulli_exp_of_any(part[:0], 1, uniform).shape == (0,)


@settings(max_examples=150)
@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**40))
def test_a_root_is_never_too_small_and_hardly_too_large(square: Fraction) -> None:
    root = root_at_least(square)
    assert square <= root**2 < square * (1 + Fraction(1, 10**9)) ** 2
    assert Fraction(float(root)) == root


@pytest.mark.parametrize("square", [Fraction(1, 10**700), Fraction(2**110), Fraction(10**700)])
def test_integer_roots_are_right_at_any_size(square: Fraction) -> None:
    assert square <= root_at_least(square) ** 2 < square * (1 + Fraction(1, 10**9)) ** 2


def test_whole_roots_are_exact() -> None:
    roots = [root_at_least(Fraction(n * n, 16)) for n in (1, 3, 10**6)]
    assert roots == [Fraction(n, 4) for n in (1, 3, 10**6)]
