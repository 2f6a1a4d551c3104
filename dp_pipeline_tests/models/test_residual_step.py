"""Centres that move by the clipped residuals of their rows: where to, how far, and who can tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.clustering.moved_centres import (
    fill_up,
    move_as_many_as_can,
    move_by_residuals,
)
from dp_pipeline.results.clusters import Synopsis
from dp_pipeline_tests.instruments import SILENT, RecordingNoise, curator_over
from dp_pipeline_tests.models.tables import SIDES, in_memory, place_in, space

ONE = Fraction(1)
CUBE = space(3)
"""Three sides of 0..8."""


def cubes(weights: Sequence[float], domain: Domain = CUBE) -> Synopsis:
    """Eighths of the box."""
    table = np.reshape(np.array(weights, dtype=float), (2, 2, 2))
    return Synopsis.of_grid(table, domain.names, domain.box(domain.names))


TWO_CORNERS = cubes([100, 0, 0, 0, 0, 0, 0, 100])
TWO_CENTRES = np.array([[2.0, 2.0, 2.0], [6.0, 6.0, 6.0]])


def moved(people, *, noise=None, epsilon=SILENT, distance=1, domain=CUBE, **of) -> np.ndarray:
    """Centres after the step, which is one draw."""
    recorder, rows = RecordingNoise(noise or SeededNoise(1)), in_memory(people, domain)
    how = {"epsilon": epsilon, "distance": distance, "domain": domain}
    curator = curator_over(rows, noise=recorder, **how)
    given = {"centres": TWO_CENTRES, "synopsis": TWO_CORNERS, **of}
    result = move_by_residuals(curator, **given, epsilon=epsilon)
    curator.accountant.require_all_spent()
    assert len(recorder.draws) == 1
    return result


def one_box(domain: Domain) -> Synopsis:
    """A hundred people somewhere in the box."""
    table = np.full((1,) * len(domain.names), 100.0)
    return Synopsis.of_grid(table, domain.names, domain.box(domain.names))


STAYS = (6.0, 6.0, 6.0)


@pytest.mark.parametrize(
    ("people", "beside", "expected"),
    [
        # The synopsis says a hundred people for each centre; that is how many there are.
        (
            [(2.5, 1.5, 2.25), (2.0, 2.0, 2.75)] * 50 + [(6.5, 6.0, 5.5)] * 100,
            0,
            [(2.25, 1.75, 2.5), (6.5, 6.0, 5.5)],
        ),
        # Fifty people, where a hundred are released: half the way.
        ([(3.0, 2.0, 2.0)] * 50, 0, [(2.5, 2.0, 2.0), STAYS]),
        # A box's middle is 0 away and its rows a quarter of three sides of 4: a radius of 3 in L1.
        ([(2.0, 2.0, 2.0)] * 99 + [(2.0, 2.0, 7.9)], 0, [(2.0, 2.0, 2.03), STAYS]),
        # 1.9 down and 2.9 up are 4.8 in L1, of which 3 count.
        ([(0.1, 4.9, 2.0)] * 100, 0, [(2 - 1.9 * 3 / 4.8, 2 + 2.9 * 3 / 4.8, 2.0), STAYS]),
        # Negative weights are no people.
        ([(2.5, 2.0, 2.0)] * 100, -900, [(2.5, 2.0, 2.0), STAYS]),
    ],
)
def test_without_noise_centres_go_to_clipped_means(people, beside, expected) -> None:
    synopsis = cubes([100, beside, 0, 0, 0, 0, 0, 100])
    assert moved(people, synopsis=synopsis) == pytest.approx(np.array(expected), abs=1e-3)


def test_the_radius_holds_four_fifths_of_the_weight() -> None:
    # One centre in the middle of a box of weight 85, or 75, and 15, or 25, in the next: 4 more.
    first, far = TWO_CENTRES[:1], [(2.0, 2.0, 7.9)] * 100
    for weight, radius in ((85, 3), (75, 7)):
        synopsis = cubes([weight, 100 - weight, 0, 0, 0, 0, 0, 0])
        reached = min(5.9, radius)
        actual = moved(far, centres=first, synopsis=synopsis)
        assert actual[0] == pytest.approx([2.0, 2.0, 2.0 + reached], abs=1e-3)


def test_the_noise_is_one_radius_whatever_the_dimension() -> None:
    for d in (3, 8, 16):
        domain, noise = space(d), RecordingNoise()
        given = {"centres": np.full((1, d), 4.0), "synopsis": one_box(domain), "domain": domain}
        moved((place_in(domain, 0.5),), epsilon=Fraction(1, 4), distance=3, noise=noise, **given)
        (draw,) = noise.draws
        assert (draw.exact.shape, draw.scale) == ((1, d), 3 * 4 * (1 << 16))


@pytest.mark.parametrize("d", [3, 8, 16])
def test_nobody_moves_the_totals_by_more_than_a_radius(d: int) -> None:
    # In whole numbers, rounded towards zero, so that it holds exactly; and is nearly reached.
    domain, rng = space(d, "bounds that are no binary fractions"), np.random.default_rng(d)
    low, high = (np.array(place_in(domain, share)) for share in (0.0, 1.0))
    centres, people = (rng.uniform(low, high, size=(many, d)) for many in (3, 40))
    noise, given = RecordingNoise(), {"synopsis": one_box(domain), "domain": domain}
    for person in (*people, low, high):
        moved((tuple(person),), noise=noise, centres=centres, **given)
    reached = max(np.abs(draw.exact).sum() for draw in noise.draws)
    assert (1 << 16) - d <= reached <= 1 << 16


@dataclass(frozen=True)
class Answer:
    """The same released totals for everybody, in radii."""

    radii: tuple[tuple[float, ...], ...]
    name: str = "answer"
    is_releasable: bool = False

    def discrete_laplace(self, counts: IntArray, _: Fraction) -> IntArray:
        assert counts.shape == np.shape(self.radii)
        return (np.array(self.radii) * (1 << 16)).astype(np.int64)


ONE_WAY = Answer(((20.0, 20.0, 20.0), (20.0, 20.0, 20.0)))


def test_a_centre_whose_mean_is_mostly_noise_stays() -> None:
    # √2/(ε·n) of a radius is half a radius at ε·n = 2.83: at ε = 1 two people stay, three move.
    for people, moves in ((2.0, False), (3.0, True)):
        synopsis = cubes([people, 0, 0, 0, 0, 0, 0, 1000])
        actual = moved((), synopsis=synopsis, epsilon=ONE, noise=ONE_WAY)
        assert (actual[0] != TWO_CENTRES[0]).any() == moves
        assert (actual[1] != TWO_CENTRES[1]).all()


def test_a_centre_of_less_than_one_released_row_stays() -> None:
    synopsis = cubes([0, 0, 0, 0, 0, 0, 0, 100])
    actual = moved([(2.5, 2.0, 2.0)] * 100, synopsis=synopsis)
    assert actual[0].tolist() == TWO_CENTRES[0].tolist()


def test_a_move_is_shrunk_by_the_part_that_noise_explains() -> None:
    # By hand, in radii: both means are 0.2 and their deviation is √2/(ε·n) = 0.1414, so the
    # signal's variance is 0.04 − 0.02 and half of the move is kept. A radius is 3.
    synopsis = cubes([100, 0, 0, 0, 0, 0, 0, 100])
    for distance, epsilon in ((1, Fraction(1, 10)), (3, Fraction(3, 10))):
        how = {"epsilon": epsilon, "distance": distance, "noise": ONE_WAY}
        actual = moved((), synopsis=synopsis, **how)
        assert actual - TWO_CENTRES == pytest.approx(np.full((2, 3), 0.3), abs=1e-4)


def test_moves_no_larger_than_noise_are_none() -> None:
    little = Answer(((5.0, -5.0, 5.0), (-5.0, 5.0, 5.0)))
    actual = moved((), epsilon=Fraction(1, 10), noise=little)
    assert actual.tolist() == TWO_CENTRES.tolist()


def test_a_centre_never_leaves_the_box() -> None:
    actual = moved((), noise=Answer(((-9e6,) * 3, (9e6,) * 3)))
    assert actual.tolist() == [[0.0] * 3, [8.0] * 3]


@pytest.mark.parametrize("sides", SIDES)
def test_in_any_box_a_centre_goes_to_the_mean_in_data_units(sides: str) -> None:
    domain = space(3, sides)
    low, high = (np.array(place_in(domain, share)) for share in (0.0, 1.0))
    start, goal = low + 0.5 * (high - low), low + np.array([0.53, 0.48, 0.5]) * (high - low)
    given = {"centres": start[None], "synopsis": one_box(domain), "domain": domain}
    actual = moved([tuple(goal)] * 100, **given)
    # Rounding towards zero takes up to 1/128 of a side that is far shorter than another.
    shares = [(place - start) / (high - low) for place in (actual[0], goal)]
    assert shares[0] == pytest.approx(shares[1], abs=1 / 128)


def corners(*weights: float) -> Synopsis:
    """Boxes of side 2 on a line of 0..8."""
    lower = np.arange(0.0, 8, 2)[:, None]
    return Synopsis(("x",), lower, lower + 2, np.array(weights))


@pytest.mark.parametrize(
    ("rows", "epsilon", "distance", "moving"),
    [
        # Twelve rows a centre and column at ε = 1: 36 in three columns.
        (35, 1, 1, 1),
        (72, 1, 1, 2),
        (107, 1, 1, 2),
        (72, 2, 1, 4),
        (72, 2, 2, 2),
        (10**6, 1, 1, 8),
        (-5, 1, 1, 1),
    ],
)
def test_as_many_are_moved_as_the_noise_of_all_columns_allows(rows, epsilon, distance, moving):
    requested: list[int] = []

    def fewer(number: int) -> np.ndarray:
        requested.append(number)
        return np.linspace(1.0, 7.0, number)[:, None].repeat(3, axis=1)

    how = {"epsilon": Fraction(epsilon), "distance": distance, "domain": CUBE}
    curator = curator_over(in_memory((), CUBE), **how)
    eight = np.linspace(0.5, 7.5, 8)[:, None].repeat(3, axis=1)
    synopsis = cubes([rows, 0, 0, 0, 0, 0, 0, 0])
    centres = move_as_many_as_can(curator, eight, synopsis, fewer=fewer, epsilon=Fraction(epsilon))
    assert centres.shape == (8, 3)
    # All eight are those of the tree: nobody is asked for fewer.
    assert requested == ([] if moving == 8 else [moving])
    curator.accountant.require_all_spent()


def test_centres_beside_moved_ones_go_as_far_as_these_tell() -> None:
    """Three centres kept half of their distance from the middle of all: so do the others."""
    synopsis = corners(10, 10, 10, 10)
    begun = np.array([[1.0], [4.0], [7.0]])
    centres = np.array([[1.0], [3.0], [5.0], [7.0]])
    # By weight 13.3 rows each, near enough alike: the middle of all is 4 before and after.
    for share in (0.5, 0.25, 1.0):
        moved = 4 + share * (begun - 4)
        (last,) = fill_up(moved, begun, centres, synopsis)[3:]
        nearest = np.argmin(np.abs(centres[0] - begun))
        assert last == pytest.approx(moved[nearest] + share * (centres[0] - begun[nearest]))


def test_too_few_moved_centres_go_half_of_the_way() -> None:
    synopsis = corners(1, 5, 0, 4)
    begun, moved = np.array([[2.0], [6.0]]), np.array([[2.0], [7.0]])
    centres = np.array([[1.0], [3.0], [7.0]])
    # The largest that is left is at 3, a half nearer to where 2 stayed.
    assert fill_up(moved, begun, centres, synopsis).tolist() == [[2.0], [7.0], [2.5]]


def test_no_centre_leaves_the_box() -> None:
    synopsis = corners(9, 0, 0, 1)
    begun, moved, centres = np.array([[4.0]]), np.array([[0.2]]), np.array([[1.0], [7.0]])
    assert fill_up(moved, begun, centres, synopsis).min() >= 0
