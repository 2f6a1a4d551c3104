"""PrivateSynthesizer over a domain that nobody declared: what is found, and what it costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.config.errors import NotDiscovered
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline.estimators.discovery import KINDS_SHARE
from dp_pipeline.estimators.parameters import InvalidParameter

SECRET = "hapaxlegomenon"
COST = {"epsilon": "1", "delta": 1e-6}
OPEN = {
    "zone": {"levels": "discover", "at_most": 20},
    "fare": {"bounds": "discover", "unit": 0.5, "bins": {"quantiles": 8}},
    "age": {"bounds": [0, 80], "bins": {"quantiles": 4}, "integer": True},
    "sex": ["f", "m"],
}


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


def copier(**parameters: Any) -> PrivateSynthesizer:
    standard = {"domain": OPEN, "epsilon": 3, "noise": "seeded:7", "random_state": 0}
    return PrivateSynthesizer(**{**standard, "discover": COST, **parameters})


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


def test_what_discovery_costs_is_a_part_of_epsilon():
    fitted = copier().fit(people())
    assert sum(spend.epsilon for spend in fitted.spends_) == 3
    assert sum(spend.delta for spend in fitted.spends_) == Fraction(1, 10**6)
    measurements = [
        spend for spend in fitted.spends_ if spend.what.startswith(("levels", "bounds", "quantil"))
    ]
    assert sum(spend.epsilon for spend in measurements) == 1


def test_noisy_count_separates_numbers_from_texts():
    fitted = copier(domain="discover").fit(people())
    assert set(fitted.discovered_) == {"zone", "fare", "age", "sex"}
    assert fitted.discovered_["sex"]["levels"] == ("f", "m", "other")
    assert "bounds" in fitted.discovered_["fare"]
    assert fitted.sample(10)["age"].dtype == "int64"
    assert fitted.sample(10)["fare"].dtype == "float64"
    kinds, *_ = fitted.spends_
    assert kinds.what == "kinds of 4 columns"
    assert kinds.epsilon == KINDS_SHARE
    assert kinds.sensitivity == 4
    assert sum(spend.epsilon for spend in fitted.spends_) == 3


def test_text_among_numbers_changes_only_the_frame_type():
    """Types are made from values: pandas has another one as soon as one person says something."""
    rows = people()
    odd = rows.astype({"age": object})
    odd.loc[5, "age"] = "unknown"
    item, other = (copier(domain="discover").fit(frame) for frame in (rows.drop(index=5), odd))
    assert item.discovered_.keys() == other.discovered_.keys()
    assert "bounds" in other.discovered_["age"]
    assert other.sample(5)["age"].dtype == "int64"


def test_where_every_column_holds_numbers_no_delta_is_spent():
    rows = people()[["fare", "age"]]
    fitted = copier(domain="discover").fit(rows)
    assert sum(spend.delta for spend in fitted.spends_) == 0
    assert sum(spend.epsilon for spend in fitted.spends_) == 3


def test_domain_of_an_array_is_discovered():
    rows = people()[["fare", "age"]].to_numpy()
    fitted = copier(domain="discover").fit(rows)
    assert set(fitted.discovered_) == {"x0", "x1"}


def test_what_is_promised_has_the_price_of_the_discovery_in_it():
    line = repr(copier().fit(people()))
    assert "fitted: ε=3, δ=1e-6, protects one row" in line


def test_sampling_repeats_over_discovered_domain():
    fitted = copier().fit(people())
    first, again = fitted.sample(50), fitted.sample(50)
    pd.testing.assert_frame_equal(first, again)
    assert set(fitted.sample(50)["zone"]) <= set(fitted.discovered_["zone"]["levels"])
    assert fitted.marginal("zone")["probability"].sum() == pytest.approx(1)


def test_too_few_rows_are_not_discovered():
    with pytest.raises(NotDiscovered, match="levels of zone: expected two levels"):
        copier().fit(people(40))


def test_undeclared_dates_are_refused_with_advice():
    days = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=400)})
    with pytest.raises(NotDiscovered, match="and declare dates by their bounds"):
        copier(domain="discover", epsilon=4, discover=COST).fit(days)


def test_constraints_hold_with_a_discovered_domain():
    message = {"never": [{"sex": "f", "walks": "no"}]}
    rows = people().assign(walks=np.where(people()["sex"] == "f", "yes", "no"))
    domain = {**OPEN, "walks": ["yes", "no"]}
    table = copier(domain=domain, constraints=message).fit(rows).sample()
    assert not ((table["sex"] == "f") & (table["walks"] == "no")).any()
    with pytest.raises(InvalidParameter, match="attributes with declared levels or bins"):
        copier(constraints={"never": [{"sex": "f", "zone": "Ried"}]}).fit(people())
