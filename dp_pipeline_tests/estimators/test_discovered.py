"""A domain that nobody declared: what is found, and what it costs."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.estimators import PrivateKMeans, WeakSignal
from dp_pipeline.estimators.parameters import InvalidParameter
from dp_pipeline_tests.estimators import households
from dp_pipeline_tests.estimators.households import OPEN
from dp_pipeline_tests.estimators.people import private

SECRET = "hapaxlegomenon"
DISCOVERING = ("levels", "bounds", "quantiles")
DEFAULT = {"domain": "discover", "epsilon": 1, "discover": None}
TENTH = Fraction(1, 10)
COST = {"epsilon": "1", "delta": 1e-6}


def people(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    zones = rng.choice(["Altstadt", "Hafen", "Ried"], rows)
    zones[0] = SECRET
    return pd.DataFrame(
        {
            "zone": zones,
            "fare": rng.lognormal(2, 1, rows).round(2),
            "age": rng.integers(0, 80, rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


copier = partial(households.copier, domain=OPEN, epsilon=3, discover=COST, on_unknown="keep")


def test_levels_bounds_and_quantiles_are_discovered():
    fitted = copier().fit(people())
    assert set(fitted.discovered_) == {"zone", "fare", "age"}
    assert fitted.discovered_["zone"]["levels"] == ("Altstadt", "Hafen", "Ried", "other")
    low, high = fitted.discovered_["fare"]["bounds"]
    assert low == 0
    assert 64 <= high <= 512
    assert len(fitted.discovered_["fare"]["edges"]) <= 7
    table = fitted.sample()
    assert list(table.columns) == ["zone", "fare", "age", "sex"]
    assert table["age"].dtype == "int64"
    assert SECRET not in set(table["zone"])
    assert abs((table["fare"] < 7.4).mean() - 0.5) < 0.1
    pd.testing.assert_frame_equal(fitted.sample(50), fitted.sample(50))
    assert fitted.marginal("zone")["probability"].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("parameters", "promise", "epsilon", "delta"),
    [
        ({}, "fitted: ε=3, δ=1e-6, protects one row", 1, TENTH**6),
        (DEFAULT, "its domain is discovered for ε=0.1 and δ=1e-9 of that", TENTH, TENTH**9),
    ],
)
def test_discovery_costs_a_part_of_epsilon(parameters: Any, promise: str, epsilon: Any, delta: Any):
    fitted = copier(**parameters).fit(people())
    queries = [spend for spend in fitted.spends_ if spend.what.partition(" ")[0] in DISCOVERING]
    assert sum(spend.epsilon for spend in queries) == epsilon
    assert sum(spend.epsilon for spend in fitted.spends_) == fitted.epsilon
    assert sum(spend.delta for spend in fitted.spends_) == delta
    assert promise in repr(fitted)


def test_types_of_the_frame_decide_what_is_discovered():
    rows = people().assign(zip=np.array(["01234", "00501", "10001"])[np.arange(6000) % 3])
    fitted = copier(domain="discover").fit(rows)
    assert set(fitted.discovered_) == {"zone", "fare", "age", "sex", "zip"}
    assert fitted.discovered_["sex"]["levels"] == ("f", "m", "other")
    assert fitted.discovered_["zip"]["levels"] == ("00501", "01234", "10001", "other")
    assert "bounds" in fitted.discovered_["fare"]
    assert fitted.sample(10).dtypes.astype(str).tolist() == rows.dtypes.astype(str).tolist()
    assert sum(spend.epsilon for spend in fitted.spends_) == 3
    # Numbers have no levels to discover, and spend no δ.
    numbers = copier(domain="discover").fit(people()[["fare", "age"]].to_numpy())
    assert set(numbers.discovered_) == {"x0", "x1"}
    assert sum(spend.delta for spend in numbers.spends_) == 0
    assert sum(spend.epsilon for spend in numbers.spends_) == 3


def test_levels_that_nobody_reaches_are_other_with_a_warning():
    with pytest.warns(WeakSignal, match="levels of zone: no text has the about"):
        fitted = copier().fit(people(40))
    assert fitted.discovered_["zone"]["levels"] == ("other",)
    assert set(fitted.sample()["zone"].dropna()) == {"other"}


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_ranges_of_dates_are_discovered(zone: str | None):
    days = pd.Series(pd.date_range("2025-03-01", "2026-06-30", 4000, tz=zone))
    fitted = copier(domain="discover", discover=None).fit(pd.DataFrame({"day": days}))
    assert fitted.discovered_["day"]["bounds"] == ("2025-01-01", "2026-12-31T23:59:59")
    sample = fitted.sample(2000)["day"]
    assert sample.dtype == days.dtype
    assert abs(sample.mean() - days.mean()) < pd.Timedelta(days=9)


def test_constraints_hold_with_a_discovered_domain():
    never = {"never": [{"sex": "f", "walks": "no"}]}
    rows = people().assign(walks=np.where(people()["sex"] == "f", "yes", "no"))
    domain = {**OPEN, "walks": ["yes", "no"]}
    table = copier(domain=domain, constraints=never).fit(rows).sample()
    assert not ((table["sex"] == "f") & (table["walks"] == "no")).any()
    with pytest.raises(InvalidParameter, match="attributes with declared levels or bins"):
        copier(constraints={"never": [{"sex": "f", "zone": "Ried"}]}).fit(people())


def villages() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = np.repeat([20.0, 100.0], 2000) + rng.normal(0, 1, 4000)
    return pd.DataFrame({"x": x, "y": np.abs(rng.normal(3, 0.2, 4000))})


def open_box(**parameters: Any) -> PrivateKMeans:
    standard = {"n_clusters": 2, "epsilon": 2, "bounds": "discover", "discover": {"epsilon": "0.5"}}
    return private(**{**standard, **parameters})


def test_centres_lie_in_discovered_bounds():
    fitted = open_box().fit(villages())
    (x_lower, x_upper), (low, high) = fitted.bounds_.tolist()
    assert x_lower <= 20
    assert 100 <= x_upper <= 140
    assert low <= 3 <= high <= 9
    assert sorted(fitted.cluster_centers_[:, 0].round(-1).tolist()) == [20, 100]


@pytest.mark.parametrize(
    ("discover", "cost"), [({"epsilon": "0.5"}, Fraction(1, 2)), (None, Fraction(1, 5))]
)
def test_what_bounds_cost_is_a_part_of_epsilon(discover: Any, cost: Fraction):
    spends = open_box(discover=discover).fit(villages()).spends_
    assert sum(spend.epsilon for spend in spends) == 2
    assert [spend.what for spend in spends[:2]] == ["bounds of x", "bounds of y"]
    assert sum(spend.epsilon for spend in spends[:2]) == cost


def test_some_bounds_may_be_declared():
    fitted = open_box(bounds={"x": (0, 200), "y": "discover"}).fit(villages())
    assert fitted.bounds_[0].tolist() == [0, 200]
    assert fitted.spends_[0].what == "bounds of y"


def test_bounds_of_too_few_rows_are_a_guess_that_says_so():
    with pytest.warns(WeakSignal, match="bounds of x: no power of two has a noisy count of the"):
        fitted = open_box().fit(villages()[:3])
    assert (fitted.bounds_[:, 0] < fitted.bounds_[:, 1]).all()
