"""The three noise sources: shapes, edges, refusals, and where their randomness comes from."""

import dataclasses
import math
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
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
from dp_pipeline.gate.samplers import UniformIntegers
from dp_pipeline_tests.gate.distributions import ADDED, CHOICES, INT64, SOURCES, by_source, draws

by_kind = pytest.mark.parametrize("kind", ADDED)
by_choice = pytest.mark.parametrize("kind", CHOICES)


@by_choice
@by_source
@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        ([2**60, 2**60 + 1, 2**60], Fraction(1, 1000)),
        ([INT64.min, INT64.max, INT64.max - 2000], Fraction(10)),
        ([3, 5, 4], Fraction(1, 10**6)),
        ([3, 5, 4], Fraction(1, 10**400)),
    ],
    ids=["last bit", "ends of int64", "small scale", "scale below all floats"],
)
def test_a_score_that_leads_by_far_is_chosen(source, kind, scores, scale):
    choose = getattr(source, kind)
    assert {choose(np.array(scores), scale) for _ in range(20)} == {1}


@by_choice
@by_source
def test_nothing_is_chosen_among_no_candidates(source: NoiseSource, kind: str) -> None:
    with pytest.raises(BoundaryViolation, match="one or more numbers"):
        getattr(source, kind)(np.zeros(0, np.int64), Fraction(1))
    assert getattr(source, kind)(np.array([-7]), Fraction(1, 3)) == 0


GRID = np.arange(24).reshape(2, 3, 4) * 10**6
LAYOUTS = {
    **{str(shape): np.full(shape, 1000) for shape in ((), (0,), (3, 0), (1,), (5,))},
    "C": GRID,
    "turned": GRID.T,
    "strided": GRID[:, ::-1, ::2],
    "F": np.asfortranarray(GRID),
}


@by_kind
@by_source
@pytest.mark.parametrize("layout", LAYOUTS)
def test_noise_is_added_in_place_in_any_memory_layout(source, kind, layout):
    counts = LAYOUTS[layout]
    before = counts.copy()
    noisy = getattr(source, kind)(counts, Fraction(3))
    assert (noisy.shape, noisy.dtype) == (counts.shape, np.int64)
    assert not np.shares_memory(noisy, counts)
    assert (counts == before).all()
    assert np.abs(noisy - counts).max(initial=0) < 1000


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


@pytest.mark.parametrize(("kind", "size"), [(ADDED[0], 10), (ADDED[1], 100)])
def test_opendp_saturates_as_we_do(kind: str, size: int) -> None:
    ends = np.array([INT64.max] * 50 + [INT64.min] * 50)
    noisy = getattr(OpenDPNoise(), kind)(ends, Fraction(size))
    assert noisy[:50].min() > INT64.max - 10**4
    assert noisy[50:].max() < INT64.min + 10**4


NAMES = {ADDED[0]: "scale", ADDED[1]: "σ²", **dict.fromkeys(CHOICES, "scale")}
NO_SIZES = (Fraction(0), Fraction(-1), 1.0, 1, None, Fraction(10**400))
REFUSED = [(kind, size, name) for kind, name in NAMES.items() for size in NO_SIZES]
REFUSED += [(ADDED[1], 2**110 + Fraction(1, 9), "σ² .*at most 2.110")]
REFUSED += [(kind, 2**55 + Fraction(1, 9), "scale .*at most 2.55") for kind in (ADDED[0], *CHOICES)]


@by_source
@pytest.mark.parametrize(("kind", "size", "name"), REFUSED)
def test_a_size_of_noise_is_refused_by_its_public_value(source, kind, size, name):
    for counts in (np.array([4321]), np.array([]).astype(int)):
        if counts.size or kind in ADDED:
            with pytest.raises(BoundaryViolation, match=name) as refusal:
                getattr(source, kind)(counts, size)
            assert "4321" not in str(refusal.value)


@by_kind
@by_source
@pytest.mark.parametrize("size", [Fraction(1, 10**10), Fraction(1, 10**404)], ids=["float", "none"])
def test_the_smallest_sizes_add_nothing(source, kind, size):
    assert getattr(source, kind)(np.array([3, -5]), size).tolist() == [3, -5]


@pytest.mark.parametrize("kind", [*ADDED, *CHOICES])
@by_source
def test_a_source_refuses_what_is_not_an_integer_array(source: NoiseSource, kind: str) -> None:
    for counts in (np.array([1.0]), np.array([True]), np.array([1], object), [1]):
        with pytest.raises(BoundaryViolation, match="must hold integers"):
            getattr(source, kind)(counts, Fraction(1))  # type: ignore[arg-type]


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
    assert ("contrib" in mod.GLOBAL_FEATURES) is before


def test_opendp_is_not_imported_before_the_first_draw() -> None:
    code = (
        "import sys; from dp_pipeline.gate.noise import OpenDPNoise; OpenDPNoise();"
        "sys.exit('opendp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@by_kind
def test_many_counts_are_answered_by_the_exact_sampler(kind, monkeypatch):
    sizes: list[tuple[int, Fraction]] = []

    def exact(self: ExactNoise, counts: IntArray, scale: Fraction) -> IntArray:  # noqa: ARG001
        sizes.append((counts.size, scale))
        return counts

    monkeypatch.setattr(ExactNoise, kind, exact)
    for cells in (1, MIN_EXACT_CELLS - 1, MIN_EXACT_CELLS, MIN_EXACT_CELLS + 1):
        draws(OpenDPNoise(), cells, Fraction(7, 3), kind)
    assert sizes == [(cells, Fraction(7, 3)) for cells in (MIN_EXACT_CELLS, MIN_EXACT_CELLS + 1)]


@by_kind
def test_a_seed_gives_the_same_sequence_of_different_draws(kind: str) -> None:
    def two_draws(source: NoiseSource) -> list[list[int]]:
        return [draws(source, 1000, Fraction(10), kind).tolist() for _ in range(2)]

    first, second = two_draws(SeededNoise(9))
    assert [first, second] == two_draws(SeededNoise(9)) == two_draws(parse_noise("seeded:9"))
    assert first != second
    assert first not in two_draws(SeededNoise(10))


@by_kind
@pytest.mark.parametrize("source", SOURCES[:2], ids=lambda source: source.name)
def test_noise_for_releases_never_repeats(source: NoiseSource, kind: str) -> None:
    first, second = (draws(type(source)(), 1000, Fraction(100), kind) for _ in range(2))
    assert (first != second).any()  # equal by chance: below 1e-1000


def test_exact_noise_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    # A generator that was seeded once by the system repeats nothing either, and is no such source.
    monkeypatch.setattr("dp_pipeline.gate.noise.os.urandom", random.Random(3).randbytes)
    expected = SeededNoise(0)
    object.__setattr__(expected, "_uniform", UniformIntegers(random.Random(3).randbytes))
    scale = Fraction(10)
    assert (draws(ExactNoise(), 1000, scale) == draws(expected, 1000, scale)).all()


def test_only_the_seeded_source_is_unfit_for_release() -> None:
    built = [parse_noise(name) for name in ("opendp", "exact", "seeded:9")]
    assert [type(source) for source in built] == [OpenDPNoise, ExactNoise, SeededNoise]
    releasable = {source.name: source.is_releasable for source in built}
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


@settings(max_examples=150)
@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**40))
@example(Fraction(1, 10**700))
@example(Fraction(2**110))
@example(Fraction(10**700))
def test_a_root_is_never_too_small_and_hardly_too_large(square: Fraction) -> None:
    root = root_at_least(square)
    assert square <= root**2 < square * (1 + Fraction(1, 10**9)) ** 2
    assert not 10**-40 <= square <= 10**40 or Fraction(float(root)) == root


def test_whole_roots_are_exact() -> None:
    roots = [root_at_least(Fraction(n * n, 16)) for n in (1, 3, 10**6)]
    assert roots == [Fraction(n, 4) for n in (1, 3, 10**6)]
