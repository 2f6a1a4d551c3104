"""Bought numbers of centres say what the exact metrics say."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.gate import quality
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.quality import private_quality
from dp_pipeline.metrics.auc import adjusted_rand, f_measure
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.populations import AWKWARD, NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row

CENTRES = np.array([[1.0, -0.75], [4.0, 0.0], [7.0, 0.75]])
CORNER = np.array([[0.0, -1.0]])


def clusters_at(centres: np.ndarray) -> Clusters:
    box = TOWN.box(("x", "y"))
    return Clusters(("x", "y"), centres, Synopsis.of_grid(np.ones((1, 1)), ("x", "y"), box))


def exact_nicv(rows: tuple[Row, ...], centres: np.ndarray, most: float) -> float:
    """Mean squared distance to the nearest centre, at most ``most`` a row, by a loop."""
    distances = [min(((np.array(row[:2]) - c) ** 2).sum() for c in centres) for row in rows]
    return float(np.mean([min(distance, most) for distance in distances]))


# One box with its middle at (4, 0) and half its diagonal squared 4² + 1² = 17.
CLIPPED = {"three": (CENTRES, 0.0 + 17.0), "a corner": (CORNER, 17.0 + 17.0)}


@pytest.mark.parametrize("people", [name for name in AWKWARD if AWKWARD[name]])
@pytest.mark.parametrize("name", CLIPPED)
def test_without_noise_the_nicv_is_that_of_a_loop_over_rows(people: str, name: str) -> None:
    (centres, most), rows = CLIPPED[name], AWKWARD[people]
    bought = private_quality(curator_over(rows), clusters_at(centres), epsilon=SILENT)["nicv"]
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
def test_rows_farther_than_the_synopsis_are_clipped(near: float, far: float, most: float) -> None:
    table = np.full((4, 4), -2.0)
    table[0, 0], table[3, 3] = near, far
    box = TOWN.box(("x", "y"))
    centre = np.array([[1.0, -0.75]])
    clusters = Clusters(("x", "y"), centre, Synopsis.of_grid(table, ("x", "y"), box))
    bought = private_quality(curator_over(TEN_PEOPLE), clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(exact_nicv(TEN_PEOPLE, centre, most), abs=1e-4)


class Remembering(LoopCounter):
    """Counts once what is asked many times."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        super().__init__(rows)
        for name in ("count", "distance_total", "classify", "mistakes"):
            answers: dict[str, object] = {}
            object.__setattr__(self, name, partial(self._first, getattr(super(), name), answers))

    @staticmethod
    def _first(ask: Callable[..., object], answers: dict[str, object], *of: object, **more: object):
        question = repr((of, more))
        if question not in answers:
            answers[question] = ask(*of, **more)
        return answers[question]


@pytest.mark.parametrize("label", [None, "colour"])
def test_the_scale_of_a_mean_holds_the_noise_of_sum_and_rows(label, monkeypatch):
    # The deviation of 400 draws is known to within 6 %: four times that is passed by chance
    # once in 10,000. Without the noise of the rows the statement would be too small by half.
    monkeypatch.setattr(quality, "redraw_error", lambda *_, **__: 0.0)
    exact = exact_nicv(TEN_PEOPLE, CORNER, 34.0)
    counter, noise, epsilon = Remembering(TEN_PEOPLE * 20), SeededNoise(3), Fraction(2)
    numbers = []
    for _ in range(400):
        curator = curator_over(counter, epsilon=epsilon, noise=noise)
        bought = private_quality(curator, clusters_at(CORNER), epsilon=epsilon, label=label)
        numbers.append(bought["nicv"])
    deviation = np.sqrt(np.mean([(number.value - exact) ** 2 for number in numbers]))
    stated = np.sqrt(2) * np.mean([number.scale for number in numbers])
    assert stated == pytest.approx(deviation, rel=0.24)


@pytest.mark.parametrize("people", [name for name in AWKWARD if AWKWARD[name]])
def test_without_noise_the_agreement_is_that_of_a_loop_over_rows(people: str) -> None:
    rows = AWKWARD[people]
    bought = private_quality(
        curator_over(rows), clusters_at(CENTRES), epsilon=SILENT, label="colour"
    )
    table = np.zeros((3, 3))
    for x, y, colour, _ in rows:
        nearest = int(((CENTRES - (x, y)) ** 2).sum(axis=1).argmin())
        table[("red", "green", "blue").index(colour), nearest] += 1
    assert bought["f_label"].value == pytest.approx(f_measure(table))
    assert bought["ari_label"].value == pytest.approx(adjusted_rand(table))
    assert bought["nicv"].value == pytest.approx(exact_nicv(rows, CENTRES, 17.0), abs=1e-4)
    assert {name: one.unit for name, one in bought.items()} == {
        "nicv": "squared data units",
        "f_label": "share",
        "ari_label": "share",
    }


TABLES = {
    "equal sets": np.diag([200, 200, 300]),
    "nothing in common": np.full((3, 3), 70),
    "half of it": np.array([[150, 50, 0], [50, 150, 0], [0, 0, 300]]),
}


@pytest.mark.parametrize("metric", [f_measure, adjusted_rand])
@pytest.mark.parametrize("name", TABLES)
def test_the_scale_of_an_agreement_is_within_twice_its_error(name: str, metric) -> None:
    # 200 draws know the error to within 15 % (three deviations), its statement is a mean of 20.
    table, scale, noise = TABLES[name], 10.0, np.random.default_rng(5)
    draws = [table + np.rint(noise.laplace(0, scale, (3, 3))).astype(int) for _ in range(200)]
    values = np.array([metric(quality._nearest_counts(draw)) for draw in draws])
    error = np.sqrt(np.mean((values - metric(table)) ** 2))
    stated = [quality._agreement(metric, draw, scale).scale for draw in draws[:20]]
    assert error / 2 < np.sqrt(2) * np.mean(stated) < error * 2


def test_projection_halves_the_error_of_clipping_cells_at_zero() -> None:
    table, noise = np.diag([200] * 8), np.random.default_rng(5)
    errors = {"off": 0.0, "zero": 0.0}
    for _ in range(100):
        noisy = table + np.rint(noise.laplace(0, 10.0, table.shape)).astype(int)
        errors["off"] += 1 - f_measure(quality._nearest_counts(noisy))
        errors["zero"] += 1 - f_measure(noisy.clip(min=0))
    assert errors["off"] < errors["zero"] / 2


@pytest.mark.parametrize(
    ("centres", "most"),
    [
        (CENTRES, 3.0**2 + 0.75**2),
        (np.array([[0.0, 0.0], [1.0, 0.0], [7.0, 0.0]]), 6.0**2),
        (CORNER, 4.0**2 + 1.0**2),
        (np.array([[2.0, 0.0], [2.0, 0.0]]), 4.0**2 + 1.0**2),
        (np.array([[2.0, 0.0], [2.0, 0.0], [2.0, 1.0]]), 1.0),
    ],
    ids=["three", "one far off", "one", "two at one place", "three at two places"],
)
def test_without_a_synopsis_rows_are_clipped_at_the_widest_gap(centres, most):
    clusters = Clusters(("x", "y"), centres)
    bought = private_quality(curator_over(TEN_PEOPLE), clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(exact_nicv(TEN_PEOPLE, centres, most), abs=1e-4)


def test_without_persons_there_is_no_error() -> None:
    (number,) = private_quality(curator_over(NOBODY), clusters_at(CENTRES), epsilon=SILENT).values()
    assert number.value == 0


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
    bought = private_quality(curator, clusters, epsilon=SILENT)["nicv"]
    assert bought.value == pytest.approx(width**2 / 64, rel=1e-3)
