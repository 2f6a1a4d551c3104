"""No value of a row is in an error, a warning or a fitted estimator, whatever its type."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_pipeline.estimators import PrivateKMeans, PrivateSynthesizer
from dp_pipeline_tests.estimators.households import copier, refusal

DAYS = {"bounds": ["2026-01-01", "2026-12-31"], "every": "month"}
FORMS: dict[str, Any] = {
    "texts": ["a", "b"],
    "numbers": {"bounds": [0, 9], "bins": 3},
    "days": DAYS,
}
FAR_SECONDS = pa.array([2**60, 5], pa.timestamp("s"))
COLUMNS: dict[str, pa.Array] = {
    "days beyond Python": pa.array([2**31 - 1, 5], pa.date32()),
    "times beyond Python": FAR_SECONDS,
    "categories of times": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), FAR_SECONDS),
    "nulls": pa.nulls(2),
}
REFUSED: dict[str, Any] = {
    "bytes": pa.array([b"\xffsecret", b"a"]),
    "lists": pa.array([["secret"], ["a"]]),
    "mappings": pa.array([{"secret": 1}]),
    "lists of objects": pd.Series([["secret"], ["a"]]),
    "periods": pd.Series(pd.period_range("2718", periods=2, freq="D")),
    "complex numbers": pd.Series([271828 + 1j]),
}


def synthesizer(domain: Any, rows: Any, **options: Any) -> PrivateSynthesizer:
    return copier(domain=domain, on_unknown="keep", **options).fit(rows)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_any_type_are_fitted_and_sampled(name: str, form: str) -> None:
    rows = pa.table({"c": COLUMNS[name]})
    assert synthesizer({"c": FORMS[form]}, rows, method="independent").sample(3).num_rows == 3


@pytest.mark.parametrize("domain", ["discover", {"c": ["a", "b"]}])
@pytest.mark.parametrize("name", REFUSED)
def test_type_without_a_reading_is_refused_before_a_charge(name: str, domain: Any) -> None:
    column = REFUSED[name]
    rows = pa.table({"c": column}) if isinstance(column, pa.Array) else pd.DataFrame({"c": column})
    with refusal(match="column 'c': expected texts, truth values") as error:
        synthesizer(domain, rows)
    assert "secret" not in str(error.value)


def test_longest_text_is_not_in_a_fitted_estimator() -> None:
    plain = np.array([["2026-02-01"]] * 9)
    long = np.array([["2026-02-01"]] * 9 + [["a secret that is long"]])
    fits = [synthesizer({"x": DAYS}, rows) for rows in (plain, long)]
    assert [fit._columns for fit in fits[:1]] == [fit._columns for fit in fits[1:]]
    assert b"<U2" not in pickle.dumps(fits[1]._columns)


def test_large_number_warns_of_nothing() -> None:
    rows = np.array([[1.0]] * 200 + [[np.longdouble("1e4000")]], dtype=np.longdouble)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        synthesizer({"a": "discover"}, rows, discover={"epsilon": 0.5, "delta": 1e-6})


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_text_is_not_in_an_error_of_kmeans(method: str) -> None:
    kmeans = PrivateKMeans(1, epsilon=1, bounds=(0, 1), noise="seeded:1").fit([[1.0]] * 9)
    with refusal(match=r"X: the columns must be numbers, but column \S+ has type"):
        getattr(kmeans, method)([["secret"]])


def test_refused_fit_leaves_kmeans_as_it_was() -> None:
    kmeans = PrivateKMeans(1, epsilon=1, bounds=(0, 1), noise="seeded:1").fit([[1.0]] * 9)
    with refusal():
        kmeans.set_params(method="none").fit(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    assert kmeans.n_features_in_ == 1
    assert kmeans.predict([[1.0]]).tolist() == [0]


def test_protected_fit_plans_only_from_protected_fits() -> None:
    rows = pd.DataFrame({"a": ["x", "y"] * 50})
    seeded = synthesizer({"a": ["x", "y"]}, rows)
    with refusal(match="plan_from: the noise of the other fit is from neither"):
        synthesizer({"a": ["x", "y"]}, rows, noise=None, plan_from=seeded)
