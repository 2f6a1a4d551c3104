"""Bought quality numbers: they cost exactly their ε, and say what the exact metric says."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.evaluation import buy_quality, nearest_centre, whole_parts
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.measurement import NoisyMarginal, NoisyNumber
from dp_pipeline.release.product import ProductTable
from dp_pipeline.release.quadtree import Synopsis
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.domain import Attribute, Domain
from dp_pipeline.schema.encoding import Coordinate
from dp_pipeline_tests.instruments import SILENT, RecordingNoise, curator_over
from dp_pipeline_tests.populations import AWKWARD, NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row

CENTRES = np.array([[1.0, -0.75], [4.0, 0.0], [7.0, 0.75]])
CORNER = np.array([[0.0, -1.0]])
EPSILONS = [Fraction(text) for text in ("0.05", "1", "2.5")]


def clusters_at(centres: np.ndarray) -> Clusters:
    box = TOWN.box(("x", "y"))
    return Clusters(("x", "y"), centres, Synopsis.of_grid(np.ones((1, 1)), ("x", "y"), box))


def product_of(*names: str) -> ProductTable:
    """Released tables that are some way off the true ones."""
    tables = {"y": [4, 1, 5], "colour": [5, 2, 3], "smokes": [5, 5]}
    marginals = tuple(NoisyMarginal((n,), np.array(tables[n]), Fraction(1)) for n in names)
    return ProductTable(marginals, np.zeros((0, len(names)), np.int64), TOWN)


RELEASED = {"clusters": clusters_at(CENTRES), "table": product_of("y", "colour", "smokes")}
each_release = pytest.mark.parametrize("kind", RELEASED)


def quality_of(kind: str, curator: Curator, epsilon: Fraction) -> NoisyNumber:
    (number,) = buy_quality(curator, RELEASED[kind], epsilon=epsilon).values()
    return number


# What it costs.


@each_release
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("reach", [1, 3])
def test_an_evaluation_spends_exactly_its_epsilon_by_the_scales_drawn(
    kind: str, epsilon: Fraction, reach: int
) -> None:
    noise = RecordingNoise()
    curator = curator_over(TEN_PEOPLE, epsilon=epsilon, reach=reach, noise=noise)
    quality_of(kind, curator, epsilon)
    curator.accountant.require_all_spent()
    spends = zip(curator.accountant.spends, noise.draws, strict=True)
    assert sum(Fraction(spend.sensitivity) / draw.scale for spend, draw in spends) == epsilon


@each_release
def test_an_evaluation_is_replayed_without_rows(kind: str) -> None:
    transcript = Transcript()
    paid = quality_of(kind, curator_over(TEN_PEOPLE, transcript=transcript), Fraction(1))
    again = quality_of(kind, curator_over(None, transcript=transcript.rewind()), Fraction(1))
    assert again == paid


@each_release
@pytest.mark.parametrize("people", AWKWARD)
def test_an_evaluation_of_any_population_is_a_finite_number(kind: str, people: str) -> None:
    for epsilon in EPSILONS:
        number = quality_of(kind, curator_over(AWKWARD[people]), epsilon)
        assert np.isfinite(number.value)
        assert number.value >= 0
        assert np.isfinite(number.scale)
        assert number.scale > 0


# What it says.


def exact_nicv(rows: tuple[Row, ...], centres: np.ndarray, most: float) -> float:
    """Mean squared distance to the nearest centre, at most ``most`` a row, by a loop."""
    distances = [min(((np.array(row[:2]) - c) ** 2).sum() for c in centres) for row in rows]
    return float(np.mean([min(one, most) for one in distances]))


# One box with its middle at (4, 0) and half its diagonal squared 4² + 1² = 17.
CLIPPED = {"three": (CENTRES, 0.0 + 17.0), "a corner": (CORNER, 17.0 + 17.0)}


@pytest.mark.parametrize("people", [name for name in AWKWARD if AWKWARD[name]])
@pytest.mark.parametrize("name", CLIPPED)
def test_without_noise_the_nicv_is_that_of_a_loop_over_rows(people: str, name: str) -> None:
    (centres, most), rows = CLIPPED[name], AWKWARD[people]
    bought = buy_quality(curator_over(rows), clusters_at(centres), epsilon=SILENT)["nicv"]
    # 20 bits a row of the clip, weights in 1024ths, coordinates in 2^-16 of the half-width.
    assert bought.value == pytest.approx(exact_nicv(rows, centres, most), abs=1e-4)
    assert bought.unit == "squared data units"


@pytest.mark.parametrize(
    ("near", "far", "most"),
    [
        # Cells are 2 wide and 0.5 high, so half the diagonal squared is 1.0625.
        (99.0, 1.0, 1.0625),
        (97.0, 3.0, 6.0**2 + 1.5**2 + 1.0625),
        (5.0, 0.0, 1.0625),
        (-1.0, -1.0, 1.0625),
    ],
)
def test_rows_farther_than_nearly_all_of_the_synopsis_count_as_that_far(
    near: float, far: float, most: float
) -> None:
    table = np.full((4, 4), -2.0)
    table[0, 0], table[3, 3] = near, far
    box = TOWN.box(("x", "y"))
    centre = np.array([[1.0, -0.75]])
    clusters = Clusters(("x", "y"), centre, Synopsis.of_grid(table, ("x", "y"), box))
    bought = buy_quality(curator_over(TEN_PEOPLE), clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(exact_nicv(TEN_PEOPLE, centre, most), abs=1e-4)


def exact_tvd(rows: tuple[Row, ...], product: ProductTable) -> float:
    """Total variation distance, averaged over pairs of attributes, by a loop over rows."""
    names = [marginal.attributes[0] for marginal in product.marginals]
    pairs = list(combinations(names, 2)) or [(names[0],)]
    counter, distances = LoopCounter(rows), []
    for pair in pairs:
        counts = counter.count([pair])[0].open_at_the_gate()
        distances.append(np.abs(counts / len(rows) - product.probabilities(pair)).sum() / 2)
    return float(np.mean(distances))


@pytest.mark.parametrize("names", [("y", "colour", "smokes"), ("colour", "smokes"), ("colour",)])
def test_without_noise_the_error_of_a_table_is_that_of_a_loop_over_rows(
    names: tuple[str, ...],
) -> None:
    product = product_of(*names)
    bought = buy_quality(curator_over(TEN_PEOPLE), product, epsilon=SILENT)["mean_tvd"]
    assert bought.value == pytest.approx(exact_tvd(TEN_PEOPLE, product), abs=1e-4)


def test_a_table_of_the_true_marginals_of_independent_attributes_has_no_error() -> None:
    people = tuple((0.0, 0.5, c, s) for c in ("red", "red", "green", "blue") for s in ("no", "yes"))
    marginals = tuple(
        NoisyMarginal((name,), np.array(table), Fraction(1))
        for name, table in {"colour": [4, 2, 2], "smokes": [4, 4]}.items()
    )
    product = ProductTable(marginals, np.zeros((0, 2), np.int64), TOWN)
    assert buy_quality(curator_over(people), product, epsilon=SILENT)["mean_tvd"].value == 0


@each_release
def test_the_scale_that_is_stated_is_the_scale_of_the_number(kind: str) -> None:
    # The first measure is the sum; its unit is value / noisy sum.
    transcript, noise = Transcript(), RecordingNoise()
    curator = curator_over(TEN_PEOPLE * 20, reach=2, noise=noise, transcript=transcript)
    number = quality_of(kind, curator, Fraction(10))
    unit = number.value / int(transcript.records[0].answer)
    assert number.scale == pytest.approx(float(noise.draws[0].scale) * unit)


def test_nobody_has_no_error() -> None:
    for kind in RELEASED:
        assert quality_of(kind, curator_over(NOBODY), SILENT).value == 0


# Centres as whole numbers.


def test_axes_are_weighed_by_their_half_widths_and_centres_are_fixed_point() -> None:
    rule, unit = nearest_centre(clusters_at(CENTRES), curator_over(NOBODY))
    assert rule.columns == ("x", "y")
    assert rule.weights == (1024, 1024 // 4)
    assert rule.centres == ((-49152, -49152), (0, 0), (49152, 49152))
    assert unit * (1024 << 17) ** 2 == pytest.approx(8.0**2)


@pytest.mark.parametrize("width", [1e-100, 1e-3, 1e15])
def test_a_box_of_any_declared_width_has_a_nicv(width: float) -> None:
    thin = Domain(
        (
            Attribute("x", "x", "clip", coordinate=Coordinate(0.0, width)),
            Attribute("y", "y", "clip", coordinate=Coordinate(0.0, width / 1e6)),
        )
    )
    clusters = Clusters(
        ("x", "y"),
        np.array([[0.0, 0.0]]),
        Synopsis.of_grid(np.ones((1, 1)), ("x", "y"), thin.box(("x", "y"))),
    )
    curator = curator_over(LoopCounter(((width / 8, 0.0),), thin), domain=thin)  # type: ignore[arg-type]
    bought = buy_quality(curator, clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(width**2 / 64, rel=1e-3)


# Probabilities as whole numbers.


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=300).filter(lambda w: sum(w) > 1e-3)
)
def test_whole_parts_add_up_and_are_within_one_of_the_probabilities(weights: list[float]) -> None:
    shares = np.array(weights) / np.sum(weights)
    parts = whole_parts(shares)
    assert parts.sum() == 1 << 16
    assert (parts >= 0).all()
    assert (np.abs(parts - shares * (1 << 16)) < 1 + 1e-9).all()


def test_whole_parts_keep_the_shape_whatever_the_memory_layout() -> None:
    shares = (np.arange(12.0) / 66).reshape(3, 4)
    assert whole_parts(shares).shape == (3, 4)
    assert (whole_parts(shares.T) == whole_parts(np.ascontiguousarray(shares.T))).all()


def test_the_largest_remainders_get_what_rounding_left() -> None:
    thirds = whole_parts(np.full(3, 1 / 3))
    assert Counter(thirds.tolist()) == {21845: 2, 21846: 1}
