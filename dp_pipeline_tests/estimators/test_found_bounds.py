"""PrivateKMeans in a box that nobody declared: bounds that are found, and what they cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.estimators import PrivateKMeans, WeakSignal
from dp_pipeline_tests.estimators.people import private

COST = {"epsilon": "0.5"}


def villages() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = np.repeat([20.0, 100.0], 2000) + rng.normal(0, 1, 4000)
    return pd.DataFrame({"x": x, "y": np.abs(rng.normal(3, 0.2, 4000))})


def open_box(**parameters: Any) -> PrivateKMeans:
    standard = {"n_clusters": 2, "epsilon": 2, "bounds": "discover", "discover": COST}
    return private(**{**standard, **parameters})


def test_centres_lie_in_discovered_bounds():
    fitted = open_box().fit(villages())
    (x_lower, x_upper), (low, high) = fitted.bounds_.tolist()
    assert x_lower <= 20
    assert 100 <= x_upper <= 140
    assert low <= 3 <= high <= 9
    assert sorted(fitted.cluster_centers_[:, 0].round(-1).tolist()) == [20, 100]


def test_what_bounds_cost_is_a_part_of_epsilon():
    fitted = open_box().fit(villages())
    assert sum(spend.epsilon for spend in fitted.spends_) == 2
    first, second = fitted.spends_[:2]
    assert (first.what, second.what) == ("bounds of x", "bounds of y")
    assert first.epsilon + second.epsilon == Fraction(1, 2)


def test_some_bounds_may_be_declared():
    fitted = open_box(bounds={"x": (0, 200), "y": "discover"}).fit(villages())
    assert fitted.bounds_[0].tolist() == [0, 200]
    assert fitted.spends_[0].what == "bounds of y"


def test_declared_bounds_are_unchanged():
    assert private().fit(villages() / 20).bounds_.tolist() == [[0, 8], [0, 8]]


def test_bounds_of_too_few_rows_are_a_guess_that_says_so():
    with pytest.warns(WeakSignal, match="bounds of x: no power of two has a noisy count of the"):
        fitted = open_box().fit(villages()[:3])
    assert (fitted.bounds_[:, 0] < fitted.bounds_[:, 1]).all()


def test_a_tenth_of_epsilon_finds_bounds_by_default():
    fitted = open_box(discover=None).fit(villages())
    assert sum(spend.epsilon for spend in fitted.spends_[:2]) == Fraction(2, 10)
    assert sum(spend.epsilon for spend in fitted.spends_) == 2
