"""What is wrong with an estimator is said in fit, in one line, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.estimators import InvalidParameter
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline_tests.estimators.households import VILLAGE, copier
from dp_pipeline_tests.estimators.people import VILLAGES, private
from dp_pipeline_tests.instruments import RecordingNoise

Make = Callable[..., Any]
Cases = list[tuple[dict[str, Any], str]]


def changed(make: Make, **standard: Any) -> Make:
    return lambda **parameters: make(**{**standard, **parameters})


CENTRES: Cases = [
    ({"epsilon": None}, "epsilon: expected"),
    ({"n_clusters": 0}, "n_clusters: expected an integer in 1..10000, got 0"),
    ({"n_clusters": 2.5}, "n_clusters"),
    ({"n_clusters": True}, "n_clusters"),
    ({"n_clusters": 10**6}, "n_clusters: expected an integer"),
    ({"method": "lloyd"}, "method: expected one of"),
    ({"method": None}, "method: expected one of"),
    ({"method": "independent"}, "method: expected one of"),
    ({"method_params": {"k": 3}}, "parameter k must not be among them"),
    ({"method_params": {"columns": "x0"}}, "parameter columns must not be among"),
    ({"method_params": {"nominal_rows": 3}}, "parameter nominal_rows must not be"),
    ({"method_params": {"starts": 0}}, "starts: expected"),
    ({"method_params": {"speed": 1}}, "a parameter must be one of"),
    ({"method_params": [1]}, "method_params: expected a mapping, got list"),
    ({"nominal_rows": "many", "method": "dpqt_kmeans"}, "nominal_rows: expected"),
    ({"noise": "loud"}, "The source of noise must be"),
    ({"noise": 7}, "noise: expected"),
    ({"noise": SeededNoise}, "noise: expected"),
]
BOXES: list[Any] = [
    None,
    "0 8",
    ("0", "8"),
    8,
    (1, 1),
    (8, 0),
    [(0, 8), (0, float("nan"))],
    [(0, 8), (float("nan"), 0)],
    (0, float("inf")),
    (1e15, 1e15 + 1),
    [(0, 8)],
    [(0, 8)] * 3,
    [(0, 4, 8)] * 2,
    [(0, 8), (0,)],
    {"x0": (0, 8)},
    {"x0": (0, 8), "x1": (0, 8), "x2": (0, 8)},
    {"x0": (0, 8), "x1": "08"},
]
TABLES: Cases = [
    ({"epsilon": None}, "epsilon: expected"),
    ({"delta": -1e-9}, "delta: expected"),
    ({"delta": "0.5"}, "delta: expected"),
    ({"delta": True}, "delta: expected"),
    ({"method": "magic"}, "method: expected one of"),
    ({"method": "dp_kmeans"}, "method: expected one of"),
    ({"method_params": {"attributes": "rent"}}, "parameter attributes must not be"),
    ({"method_params": {"speed": 1}}, "a parameter must be one of"),
    (
        {"domain": {"tenure": 9}, "method_params": {"clique_cells": 4}},
        "choose coarser levels or bins, or leave it out",
    ),
    (
        {"method": "privhd", "method_params": {"variant": "published"}},
        "the method must fulfil the requested ε, but with these",
    ),
    ({"method": "privbayes", "method_params": {"score": "I"}}, "needs a public number of rows"),
    ({"noise": "loud"}, "The source of noise must be"),
    ({"on_unknown": "guess"}, "on_unknown: expected drop, keep or error"),
    (
        {"on_unknown": "error", "population": "riders"},
        "on_unknown: the value error would reveal a row, so with",
    ),
]
COLUMNS: list[Any] = [
    [],
    "owner",
    {"a", "b"},
    None,
    2.5,
    0,
    True,
    10**6,
    ["a", "a"],
    [1, "1"],
    ["a", None],
    ["a", ("b",)],
    pd.CategoricalDtype(),
    {},
    {"levels": [1], "size": 1},
    {"levels": [1], "bounds": [0, 1], "bins": 2},
    {"bounds": [0, 1]},
    {"bins": 4},
    {"bounds": [0, 1], "bins": 2, "edges": [0.5]},
    {"bounds": ["0", "1"], "bins": 2},
    {"edges": [1]},
    {"bounds": [0, 1], "edges": [2]},
    {"edges": [0, [1, 2]]},
]
DOMAINS: list[tuple[Any, str]] = [
    ({}, "a mapping of column names to levels, bins or sizes, got no columns"),
    (None, "a mapping of column names to levels, bins or sizes, got NoneType"),
    (["tenure"], "a mapping of column names to levels, bins or sizes, got list"),
    ({1: 2, "1": 2}, "domain: the names of columns must differ as texts, but two are '1': rename"),
]
DATES: list[tuple[dict[str, Any], str]] = [
    ({"bounds": ["2026-01-01", "2026-12-31"]}, "every, bins or edges"),
    ({"bounds": ["2026-12-31", "2026-01-01"], "every": "day"}, "bounds"),
    ({"bounds": ["2026-01-01", "2026-12-31"], "every": "fortnight"}, "every"),
    ({"bounds": ["2026-01-01", "2026-12-31"], "bins": 4, "zone": "Zurich"}, "zone"),
    ({"bounds": ["2026-01-01", "2026-12-31"], "bins": 4, "integer": True}, "integer"),
    ({"type": "date", "every": "day"}, "bounds"),
]

OPEN = {
    "zone": {"levels": "discover", "at_most": 20},
    "fare": {"bounds": "discover", "unit": 0.5, "bins": {"quantiles": 8}},
    "age": {"bounds": [0, 80], "bins": {"quantiles": 4}, "integer": True},
    "sex": ["f", "m"],
}
DISCOVERED: Cases = [
    ({"discover": None, "epsilon": "big"}, "epsilon: expected a decimal number"),
    ({"discover": None, "delta": "small"}, "delta: expected a decimal number"),
    ({"discover": {"epsilon": "big", "delta": 1e-9}}, "discover.epsilon: expected a decimal"),
    ({"discover": {"epsilon": 1, "delta": 2}}, "discover.delta: expected a decimal number"),
    ({"discover": {"delta": 1e-9}}, "discover: expected {"),
    ({"discover": {"epsilon": 3, "delta": 1e-9}}, "an ε below that of the fit, 3, got 3"),
    ({"domain": {"sex": ["f", "m"]}}, "no column is left to be discovered"),
    ({"domain": {"age": {"bounds": "discover"}}}, "expected bins with the bounds"),
    ({"domain": {"zone": {"levels": "discover", "size": 3}}}, "column 'zone'"),
    ({"domain": {"age": {"bounds": "discover", "bins": {"many": 3}}}}, "column 'age'"),
    ({"domain": "find"}, "expected a mapping of column names"),
]
BOUNDS: Cases = [
    ({"discover": None, "epsilon": "big"}, "epsilon: expected a decimal number"),
    ({"discover": {"epsilon": 2}}, "an ε below that of the fit, 2, got 2"),
    ({"bounds": (0, 1)}, "no column is left to be discovered"),
    ({"bounds": {"x": "discover"}}, "needs a pair of bounds, but 'y' has none: add it"),
    (
        {"bounds": {"x": "discover", "y": (0, 1), "z": (0, 1)}},
        "needs a pair of bounds, but 'z' is no column of X",
    ),
    ({"bounds": "find"}, "bounds: the value must be"),
]
KNOWN = {"age": {"bounds": [0, 80], "bins": 8}, "state": ["single", "married"]}
CONSTRAINTS: Cases = [
    ({"constraints": {"never": [{"age": "[0, 15)", "state": "married"}]}}, "ends where bins"),
    ({"constraints": {"never": [{"job": "a", "state": "married"}]}}, "attributes with"),
    ({"constraints": "none of them"}, "constraints: expected a mapping"),
    ({"method": "privbayes"}, "PrivBayes does not keep `constraints`"),
]


def empty_frame(*columns: str) -> pd.DataFrame:
    return pd.DataFrame({name: np.zeros(0) for name in columns})


LAWS: dict[str, tuple[Make, Any, Cases]] = {
    "centres": (private, VILLAGES, CENTRES),
    "boxes": (private, VILLAGES, [({"bounds": item}, "bounds: ") for item in BOXES]),
    "tables": (copier, VILLAGE, TABLES),
    "columns": (
        copier,
        VILLAGE,
        [({"domain": {"tenure": item}}, "domain: column 'tenure': expected ") for item in COLUMNS],
    ),
    "domains": (copier, VILLAGE, [({"domain": item}, words) for item, words in DOMAINS]),
    "dates": (
        copier,
        empty_frame("day"),
        [({"domain": {"day": item}}, words) for item, words in DATES],
    ),
    "discovered": (
        changed(copier, domain=OPEN, epsilon=3, discover={"epsilon": "1", "delta": 1e-6}),
        empty_frame(*OPEN),
        DISCOVERED,
    ),
    "bounds": (
        changed(private, epsilon=2, bounds="discover", discover={"epsilon": "0.5"}),
        empty_frame("x", "y"),
        BOUNDS,
    ),
    "constraints": (
        changed(
            copier, domain=KNOWN, constraints={"never": [{"age": "[0, 20)", "state": "married"}]}
        ),
        empty_frame(*KNOWN),
        CONSTRAINTS,
    ),
}
EVERY = [
    pytest.param(make, X, parameters, words, id=f"{of} {index}")
    for of, (make, X, cases) in LAWS.items()
    for index, (parameters, words) in enumerate(cases)
]


@pytest.mark.parametrize(("make", "X", "parameters", "words"), EVERY)
def test_invalid_parameter_is_refused_before_any_noise(
    make: Make, X: Any, parameters: dict[str, Any], words: str
):
    noise = RecordingNoise()
    estimator = make(**{"noise": noise, **parameters})
    with pytest.raises(InvalidParameter) as caught:
        estimator.fit(X)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert not noise.draws
    assert not [name for name in vars(estimator) if name in ("spends_", "_promise_text")]
