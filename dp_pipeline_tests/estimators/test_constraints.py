"""PrivateSynthesizer with constraints: rows left out, rows made, and what is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.estimators.parameters import InvalidParameter
from dp_pipeline_tests.estimators import households

DOMAIN = {
    "age": {"bounds": [0, 80], "bins": 8, "integer": True},
    "state": ["single", "married"],
    "town": ["Graz", "Linz"],
    "land": ["Styria", "Upper"],
}
SAID = {
    "never": [{"age": "[0, 20)", "state": "married"}],
    "depends": {"town": {"land": {"Graz": "Styria", "Linz": "Upper"}}},
}


def people(rows: int = 4000) -> pd.DataFrame:
    """A tenth of them breaks what is said."""
    rng = np.random.default_rng(1)
    age = rng.integers(0, 80, rows)
    place_name = rng.choice(["Graz", "Linz"], rows)
    land = np.where(place_name == "Graz", "Styria", "Upper")
    state = np.where((age >= 20) & (rng.random(rows) < 0.7), "married", "single")
    odd = rng.random(rows) < 0.1
    return pd.DataFrame(
        {
            "age": age,
            "state": np.where(odd, "married", state),
            "town": place_name,
            "land": np.where(odd, "Styria", land),
        }
    )


copier = partial(households.copier, domain=DOMAIN, constraints=SAID)


def keeps(frame: pd.DataFrame) -> pd.Series:
    young = (frame["age"] < 20) & (frame["state"] == "married")
    return ~young & ((frame["town"] == "Graz") == (frame["land"] == "Styria"))


@pytest.mark.parametrize("method", ["one_shot", "mst", "independent"])
def test_no_synthetic_row_breaks_a_constraint(method: str):
    fitted = copier(method=method).fit(people())
    for frame in fitted.sample(), fitted.sample(3000):
        assert keeps(frame).all()
    assert list(fitted.sample(5).columns) == list(DOMAIN)
    assert fitted.marginal("age", "state").loc[("[0, 10)", "married"), "probability"] == 0


def test_rows_that_break_a_constraint_are_dropped():
    remaining = people()[keeps(people())]
    once, again = copier().fit(people()), copier().fit(remaining)
    pd.testing.assert_frame_equal(once.sample(), again.sample())
    with pytest.raises(InvalidParameter, match="but some break them: correct the constraints"):
        copier(on_unknown="error").fit(people())
    copier(on_unknown="error").fit(remaining)
