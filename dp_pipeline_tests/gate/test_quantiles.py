"""Cuts of bins with about as many rows each, and which boxes are asked again for them."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.results.accountant import LAPLACE
from dp_pipeline_tests.gate.test_discovery import Same, run, spec_of
from dp_pipeline_tests.instruments import RecordingNoise

SIXTEEN = [(index + 0.5, "a", "p") for index in range(16)] * 100
"""A hundred rows in the middle of each unit."""


def quantiles(unit: float = 1.0, *, many: int = 4) -> str:
    return f"{{x: {{bounds: [0, 16], bins: {{quantiles: {many}}}, unit: {unit}}}}}"


def test_without_noise_every_bin_has_as_many_rows(tmp_path: Path) -> None:
    for many, edges in ((4, (4.0, 8.0, 12.0)), (2, (8.0,))):
        spec = spec_of(tmp_path, quantiles(many=many), "{epsilon: 1000}")
        assert run(spec, SIXTEEN)["x"].edges == edges


def test_inside_of_a_box_a_cut_lies_where_its_rows_say(tmp_path: Path) -> None:
    """The rows of a box that is not divided are taken to lie evenly."""
    spec = spec_of(tmp_path, quantiles(0.25, many=2), "{epsilon: 1000}")
    rows = [(8.0 + index / 400, "a", "p") for index in range(400)]
    assert run(spec, rows)["x"].edges == (8.5,)


def test_three_steps_of_a_tenth_are_three_tenths(tmp_path: Path) -> None:
    text = "{x: {bounds: [0, 1.6], bins: {quantiles: 2}, unit: 0.1}}"
    rows = [(index / 10 + 0.05, "a", "p") for index in range(6)] * 100
    assert run(spec_of(tmp_path, text, "{epsilon: 1000}"), rows)["x"].edges == (0.3,)


@pytest.mark.parametrize(
    ("unit", "answer", "steps"),
    [
        pytest.param(1.0, 10_000, 1, id="boxes of one unit"),
        pytest.param(0.5, 10_000, 2, id="boxes of two units"),
        pytest.param(0.001, 10, 1, id="boxes of less rows than noise"),
        pytest.param(0.05, 10_000, 3, id="boxes of many units and rows"),
    ],
)
def test_a_box_is_divided_while_it_is_wide_and_heavy(tmp_path, unit, answer, steps):
    noise = RecordingNoise(Same(1, answer))
    run(spec_of(tmp_path, quantiles(unit), "{epsilon: 1}"), [], noise)
    sizes = [draw.exact.shape for draw in noise.draws if draw.mechanism == LAPLACE]
    assert [shape[1] for shape in sizes].count(16) == steps


def test_of_two_measures_the_one_with_more_shares_counts_more(tmp_path: Path) -> None:
    """A box that is not divided is measured with a quarter of the shares, then with the rest."""

    class Twice(Same):
        def discrete_laplace(self, counts: np.ndarray, _: Fraction) -> np.ndarray:
            wanted = np.zeros(counts.shape, dtype=np.int64)
            first = counts.shape[1] == 16
            wanted.ravel()[0 if first else -1] = 1000
            return wanted

    (cut,) = (
        run(spec_of(tmp_path, quantiles(many=2), "{epsilon: 1}"), [], Twice(1))["x"].edges or ()
    )
    assert cut == 15.0
