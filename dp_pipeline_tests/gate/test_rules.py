"""Rules of released centres, of subsets of rows and of predicted labels: exact, or refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel, subset_of
from dp_pipeline.metrics.classification import train
from dp_pipeline_tests import loops
from dp_pipeline_tests.populations import AWKWARD, TOWN, LoopCounter

EDGE = 1 << 16
fuzz = settings(max_examples=60)
intervals = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(
    lambda pair: Coordinate(pair[0], pair[0] + pair[1])
)
boxes = st.lists(intervals, min_size=1, max_size=5)


def box_of(*half_widths: float) -> list[Coordinate]:
    return [Coordinate(0.0, 2.0 * half_width) for half_width in half_widths]


def rule_in(box: list[Coordinate], shares: np.ndarray) -> tuple[NearestCentre, np.ndarray]:
    """A rule of centres at these shares (k, d) of the box, and the centres."""
    low, high = (
        np.array([getattr(coordinate, name) for coordinate in box]) for name in ("lower", "upper")
    )
    centres = low + shares * (high - low)
    return NearestCentre.of(tuple("abcde"[: len(box)]), centres, box), centres


@pytest.mark.parametrize(
    ("half_widths", "weights"),
    [
        ([180.0, 90.0], (2, 1)),
        ([4.0, 4.0, 1e-6], (256, 256, 1)),
        ([3.0, 1.0], (512, 171)),
        ([1.0, 0.75, 0.625], (8, 6, 5)),
        ([1.0] * 40 + [0.7], (64,) * 40 + (45,)),
    ],
)
def test_weights_are_half_widths_that_keep_floats_exact(half_widths, weights):
    centres = np.zeros((1, len(half_widths)))
    columns = tuple(map(str, range(len(half_widths))))
    rule = NearestCentre.of(columns, centres, box_of(*half_widths))
    assert rule.weights == weights
    rule.require_exact()


@fuzz
@given(box=boxes, seed=st.integers(0, 99))
def test_centres_come_back_within_half_a_step(box: list[Coordinate], seed: int) -> None:
    rule, centres = rule_in(box, np.random.default_rng(seed).random((3, len(box))))
    rule.require_exact()
    assert math.gcd(*rule.weights) == 1
    step = np.array([coordinate.half_width / EDGE for coordinate in box])
    # A float's own error beside half a step: bounds up to 10^6 with widths from 10^-3.
    assert (np.abs(rule.centres_in(box) - centres) <= 0.5 * step + 1e-9).all()
    back = NearestCentre.of(rule.columns, rule.centres_in(box), box)
    assert back == rule


def test_centres_outside_the_box_are_moved_to_its_edge() -> None:
    rule = NearestCentre.of(("x", "y"), np.array([[-9.0, 99.0], [1.0, 1.0]]), box_of(1.0, 1.0))
    assert rule.centres == ((-EDGE, EDGE), (0, 0))
    assert rule.centres_in(box_of(1.0, 1.0)).tolist() == [[0.0, 2.0], [1.0, 1.0]]


@fuzz
@given(box=boxes, seed=st.integers(0, 99))
def test_an_integer_distance_is_nearly_that_in_data_units(box: list[Coordinate], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rule, _ = rule_in(box, rng.random((1, len(box))))
    row = tuple(rng.integers(-EDGE, EDGE, len(box), endpoint=True).tolist())
    exact = loops.distance(rule, row, rule.centres[0]) ** 0.5 * rule.unit_in(box)
    half_widths = np.array([coordinate.half_width for coordinate in box])
    steps = (np.array(row) - rule.centres[0]) / EDGE
    # Up to five axes are weighed in 256ths of the widest or finer, and a weight is at least 1.
    most = half_widths.max() / 256 * np.linalg.norm(steps)
    assert abs(exact - np.linalg.norm(steps * half_widths)) <= most + 1e-6


@pytest.mark.parametrize(
    ("weights", "fits"), [((512, 512), False), ((724, 0), True), ((723, 41), False), ((0, 0), True)]
)
def test_a_distance_is_refused_that_floats_would_round(weights, fits) -> None:
    rule = NearestCentre(("x", "y"), ((0, 0),), weights)
    assert fits is (4 * sum((w << 16) ** 2 for w in weights) < 1 << 53)
    if fits:
        rule.require_exact()
        return
    with pytest.raises(BoundaryViolation, match=r"below 2\^53, not 2\^53: use smaller weights"):
        rule.require_exact()


def test_a_rule_is_checked_without_a_clip_and_with_one() -> None:
    rule = NearestCentre(("x",), ((0,),), (512,))
    rule.require_exact()
    rule.require_exact(clip=(1 << 27) - 1, shift=1)
    with pytest.raises(BoundaryViolation, match=r"clipped at 134217728 and divided by 2\^1, must"):
        rule.require_exact(clip=1 << 27, shift=1)
    with pytest.raises(BoundaryViolation, match=r"must be from −2\^16 to 2\^16"):
        NearestCentre(("x",), ((EDGE + 1,),), (1,)).require_exact()


@pytest.mark.parametrize("number", [0.5, 1.0, math.nan, math.inf, np.int64(1), True, "1"])
def test_centres_and_weights_that_are_no_integers_are_refused(number) -> None:
    # 1.0 is one too: a later sum would be a float.
    for rule in [
        NearestCentre(("x", "y"), ((0, 0), (0, number)), (1, 1)),
        NearestCentre(("x", "y"), ((0, 0),), (1, number)),
    ]:
        for check in (rule.require_exact, lambda rule=rule: rule.require_radii((1,))):
            with pytest.raises(BoundaryViolation, match="centres and weights of a rule must be in"):
                check()


def test_radii_are_whole_numbers_one_a_centre() -> None:
    rule = NearestCentre(("x",), ((0,), (1,)), (1,))
    rule.require_radii((1, (1 << 47) - 1))
    for radii in [(1,), (1, 1, 1), (0, 1), (-1, 1), (1, 1 << 47), (1.0, 1), (np.float64(1), 1)]:
        with pytest.raises(BoundaryViolation, match="radi"):
            rule.require_radii(radii)
    with pytest.raises(BoundaryViolation, match="must be from −2"):
        NearestCentre(("x",), ((EDGE + 1,),), (1,)).require_radii((1,))


coordinate = st.integers(-EDGE, EDGE) | st.sampled_from([-EDGE, -1, 0, 1, EDGE])
salts = st.integers(0, (1 << 63) - 1) | st.sampled_from([0, (1 << 63) - 1])
rows_of_places = st.integers(1, 5).flatmap(
    lambda d: st.lists(st.tuples(*[coordinate] * d), min_size=1, max_size=8)
)


def columns_of(places: list[tuple[int, ...]]) -> list[np.ndarray]:
    return list(np.array(places, dtype=np.int32).T)


def lattice() -> list[np.ndarray]:
    """40,000 neighbouring places of a plane: what a weak hash would split in stripes."""
    return [axis.ravel() for axis in np.meshgrid(np.arange(-100, 100), np.arange(-100, 100))]


@fuzz
@given(places=rows_of_places, salt=salts, subsets=st.integers(1, 1000))
def test_subsets_follow_a_hash_in_python_integers(places, salt, subsets):
    expected = [loops.subset(place, salt, subsets) for place in places]
    assert subset_of(columns_of(places), salt, subsets).tolist() == expected


@pytest.mark.parametrize(
    ("place", "expected"), [((0,), 6457827717110365317), ((-5, 5), 1817691436838829790)]
)
def test_the_hash_is_the_published_one(place: tuple[int, ...], expected: int) -> None:
    # The first number of SplitMix64 from seed 1234567, as its reference code prints it; the
    # second one holds the hash of two columns still.
    most = (1 << 63) - 1
    assert loops.subset(place, 1234567, most) == expected % most
    assert subset_of(columns_of([place]), 1234567, most).tolist() == [expected % most]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_neither_the_type_of_a_column_nor_its_layout_matters(kind) -> None:
    x = np.arange(-500, 500)
    strided = np.repeat(x.astype(kind), 3)[::3]
    assert np.array_equal(subset_of([strided, strided], 9, 77), subset_of([x, x], 9, 77))
    assert subset_of([x[:0].astype(kind)], 7, 5).shape == (0,)


@pytest.mark.parametrize("subsets", [2, 10])
def test_the_subsets_of_neighbours_are_independent(subsets: int) -> None:
    split = subset_of(lattice(), 5, subsets).reshape(200, 200)
    for first, second in ((split[:, 1:], split[:, :-1]), (split[1:], split[:-1])):
        pairs = np.bincount((first * subsets + second).ravel(), minlength=subsets**2)
        assert chisquare(pairs).pvalue > 1e-6


@pytest.mark.parametrize("people", AWKWARD)
def test_a_classifier_of_any_rows_is_a_rule_that_answers_like_it(people: str):
    rows, counter = AWKWARD[people], LoopCounter(AWKWARD[people])
    columns = {
        name: np.array([counter.code(row, name) for row in rows], dtype=np.int64)
        for name in TOWN.discrete
    }
    answers = columns.pop("smokes") == 1
    sizes = {name: TOWN[name].size for name in columns}
    classifier = train("logistic", columns, answers, sizes)
    rule = PredictedLabel.of(classifier, target="smokes", positive=(1,))
    rule.require_exact(TOWN)
    right = int((classifier.answers(columns, rows=len(rows)) == answers).sum())
    assert counter.mistakes(rule).open_at_the_gate().tolist() == [right, len(rows) - right]
