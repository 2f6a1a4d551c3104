"""What is wrong with an estimator or its parameters is said in fit, in one line."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators import InvalidParameter
from dp_pipeline.estimators.declared import box_domain
from dp_pipeline.estimators.parameters import exact_delta, exact_epsilon
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.results.clusters import Clusters
from dp_pipeline_tests.estimators.households import ILL, OPEN, PATIENTS, VILLAGE, copier, selector
from dp_pipeline_tests.estimators.people import METHODS, VILLAGES, private, quiet_fit
from dp_pipeline_tests.instruments import RecordingNoise

Make = Callable[..., Any]
Cases = list[tuple[dict[str, Any], str]]


def changed(make: Make, **standard: Any) -> Make:
    return lambda **parameters: make(**{**standard, **parameters})


CENTRES: Cases = [
    ({"epsilon": None}, "epsilon: expected"),
    *(
        ({"n_clusters": k}, f"n_clusters: expected an integer in 1..10000, got {k}")
        for k in (0, 2.5, True, 10**6)
    ),
    *(({"method": name}, "method: expected one of") for name in ("lloyd", None, "independent")),
    ({"method_params": {"k": 3}}, "parameter k must not be among them"),
    ({"method_params": {"columns": "x0"}}, "parameter columns must not be among"),
    ({"method_params": {"nominal_rows": 3}}, "parameter nominal_rows must not be"),
    ({"method_params": {"starts": 0}}, "starts: expected"),
    ({"method_params": {"speed": 1}}, "a parameter must be one of"),
    ({"method_params": [1]}, "method_params: expected a mapping, got list"),
    ({"nominal_rows": "many", "method": "dpqt_kmeans"}, "nominal_rows: expected"),
    # htree_kmeans plans without it; only a warning after the charge reads it.
    *(({"nominal_rows": n}, "nominal_rows: expected an integer in 1..") for n in ("many", 0)),
    ({"noise": "loud"}, "The source of noise must be"),
    *(({"noise": source}, "noise: expected") for source in (7, SeededNoise)),
]
BOXES: list[Any] = [
    None, "0 8", ("0", "8"), 8, (1, 1), (8, 0), (0, float("inf")), (1e15, 1e15 + 1),
    [(0, 8), (0, float("nan"))], [(0, 8), (float("nan"), 0)], [(0, 8)], [(0, 8)] * 3,
    [(0, 4, 8)] * 2, [(0, 8), (0,)], {"x0": (0, 8)}, {"x0": (0, 8), "x1": "08"},
    {"x0": (0, 8), "x1": (0, 8), "x2": (0, 8)},
]  # fmt: skip
TABLES: Cases = [
    ({"epsilon": None}, "epsilon: expected"),
    *(({"delta": delta}, "delta: expected") for delta in (-1e-9, "0.5", True)),
    *(({"method": name}, "method: expected one of") for name in ("magic", "dp_kmeans")),
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
    ({"nominal_rows": 2.5}, "nominal_rows: expected an integer in 1.."),
    ({"on_unknown": "guess"}, "on_unknown: expected drop, keep or error"),
    ({"on_unknown": pd.NA}, "on_unknown: expected drop"),
    (
        {"on_unknown": "error", "population": "riders"},
        "the value error would reveal a row, so with",
    ),
]
FORMS: list[Any] = [
    [], "owner", {"a", "b"}, None, 2.5, 0, True, 10**6, ["a", "a"], [1, "1"], ["a", None],
    ["a", ("b",)], pd.CategoricalDtype(), {}, {"levels": [1], "size": 1},
    {"levels": [1], "bounds": [0, 1], "bins": 2}, {"bounds": [0, 1]}, {"bins": 4},
    {"bounds": [0, 1], "bins": 2, "edges": [0.5]}, {"bounds": ["0", "1"], "bins": 2},
    {"edges": [1]}, {"bounds": [0, 1], "edges": [2]}, {"edges": [0, [1, 2]]},
]  # fmt: skip
COLUMNS = [({"domain": {"tenure": form}}, "domain: column 'tenure': expected ") for form in FORMS]
MAPPING = "a mapping of column names to levels, bins or sizes, got "
DOMAINS: Cases = [
    ({"domain": {}}, f"{MAPPING}no columns"),
    ({"domain": None}, f"{MAPPING}NoneType"),
    ({"domain": ["tenure"]}, f"{MAPPING}list"),
    ({"domain": {1: 2, "1": 2}}, "the names of columns must differ as texts, but two are '1'"),
]
YEAR = {"bounds": ["2026-01-01", "2026-12-31"]}
DATES: Cases = [
    ({"domain": {"day": form}}, words)
    for form, words in (
        (YEAR, "every, bins or edges"),
        ({"bounds": YEAR["bounds"][::-1], "every": "day"}, "bounds"),
        ({**YEAR, "every": "fortnight"}, "every"),
        ({**YEAR, "bins": 4, "zone": "Zurich"}, "zone"),
        ({**YEAR, "bins": 4, "integer": True}, "integer"),
        ({"type": "date", "every": "day"}, "bounds"),
    )
]

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
    ({"bounds": {"x": "discover", "y": (0, 1), "z": (0, 1)}}, "but 'z' is no column of X"),
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
    "boxes": (private, VILLAGES, [({"bounds": box}, "bounds: ") for box in BOXES]),
    "tables": (copier, VILLAGE, TABLES),
    "columns": (copier, VILLAGE, COLUMNS),
    "domains": (copier, VILLAGE, DOMAINS),
    "dates": (copier, empty_frame("day"), DATES),
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
def test_invalid_parameter_is_refused_before_noise(make: Make, X: Any, parameters: Any, words: str):
    noise = RecordingNoise()
    estimator = make(**{"noise": noise, **parameters})
    with pytest.raises(InvalidParameter) as caught:
        estimator.fit(X)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert not noise.draws
    assert not [name for name in vars(estimator) if name in ("spends_", "_promise_text")]


NANO = Fraction(1, 10**9)
AMOUNTS: list[tuple[Any, Any, Any]] = [
    *((exact_epsilon, value, Fraction("0.1")) for value in ("0.1", "1e-1", " .10 ", 0.1)),
    *((exact_epsilon, value, Fraction("0.1")) for value in (np.float64(0.1), Fraction(1, 10))),
    *((exact_epsilon, value, 2) for value in (2, "2", 2.0, np.int64(2), Fraction(2))),
    # A float is rounded down to nine decimals.
    (exact_epsilon, 1 / 3, 333_333_333 * NANO),
    (exact_epsilon, 0.9999999999, 999_999_999 * NANO),
    (exact_epsilon, np.float32(0.1), 100_000_001 * NANO),
    (exact_epsilon, 1e-6, 1000 * NANO),
    (exact_epsilon, 1e6, 10**6),
    *((exact_delta, value, NANO) for value in ("1e-9", "0.000000001", 1e-9, np.float64(1e-9))),
    (exact_delta, NANO, NANO),
    *((exact_delta, value, None) for value in (None, 0, 0.0, "0", " 0.0 ", NANO * 0, np.int64(0))),
]


@pytest.mark.parametrize(("read", "value", "amount"), AMOUNTS)
def test_epsilon_and_delta_are_read_exactly(read: Any, value: object, amount: Fraction | None):
    assert read(value) == amount


NAN, INF = float("nan"), float("inf")
NO_EPSILON = [None, True, "", "one", 0, -1, NAN, INF, 1j, [1], Fraction(1, 3), 10**7, 1e-9, 1e300]
NO_DELTA = [False, "", "none", -1, 1, 0.5, NAN, [0], np.zeros(2), Fraction(1, 3000)]
NO_AMOUNTS = [
    *((exact_epsilon, value, "epsilon") for value in (*NO_EPSILON, "0.1234567891")),
    *((exact_delta, value, "delta: expected") for value in NO_DELTA),
    # A fraction is quoted as it is.
    (exact_epsilon, Fraction("-1.5"), "got '-1.5'$"),
    *((exact_delta, Fraction(x), f"got '{x}'$") for x in ("1.5", "-0.001", "-1.5", "1", "1e-2")),
]


@pytest.mark.parametrize(("read", "value", "words"), NO_AMOUNTS)
def test_what_is_no_amount_is_refused(read: Any, value: object, words: str):
    with pytest.raises(DeclarationError, match=words):
        read(value)


SAME_BOX = [[(0, 8), (-1, 1)], np.array([[0.0, 8.0], [-1.0, 1.0]]), {"y": (-1, 1), "x": (0, 8)}]


@pytest.mark.parametrize("bounds", SAME_BOX, ids=["pairs", "array", "mapping"])
def test_bounds_are_pairs_an_array_or_a_mapping(bounds: object):
    box = box_domain(bounds, ("x", "y")).box(("x", "y"))
    assert [(side.lower, side.upper) for side in box] == [(0.0, 8.0), (-1.0, 1.0)]


def test_invalid_parameter_is_a_value_error():
    assert issubclass(InvalidParameter, DeclarationError)
    assert issubclass(InvalidParameter, ValueError)


def test_the_methods_are_the_models_that_release_centres():
    releasing = {n for n, m in MODELS.items() if get_type_hints(m.fit)["return"] is Clusters}
    assert set(METHODS) == releasing


def test_variant_that_costs_more_is_refused(monkeypatch: pytest.MonkeyPatch):
    def promise(_: object, epsilon: Fraction, __: object = None) -> PrivacyGuarantee:
        return PrivacyGuarantee("dp", 2 * epsilon, "an unpaid round")

    monkeypatch.setattr(MODELS["dpqt_kmeans"], "guarantee", promise)
    noise = RecordingNoise()
    with pytest.raises(InvalidParameter, match="an unpaid round"):
        private(method="dpqt_kmeans", noise=noise).fit(VILLAGES)
    assert not noise.draws


def test_parameters_of_the_method_and_declared_rows_reach_it():
    declared = {"nominal_rows": 1000}
    paid, public, shared = (
        quiet_fit(private(method="dpqt_kmeans", **parameters), VILLAGES).spends_
        for parameters in ({}, declared, {**declared, "method_params": {"gamma": "0.5"}})
    )
    assert paid[0].what == "number of rows"
    assert "number of rows" not in [spend.what for spend in public]
    assert shared[-1].epsilon == Fraction(1, 2)


NO_ROWS = "X: the table must have at least one"
ROWS = "^[^0-9]*(in 1[.]{2}10*, got )?a value of type (Series|list)$"
WRONG_TYPES: dict[str, tuple[str, Callable[[], Any]]] = {
    "marginal of a set": ("marginal: exp", lambda: copier().fit(VILLAGE).marginal({"rent"})),
    "marginal of NA": ("marginal: exp", lambda: copier().fit(VILLAGE).marginal("rent", pd.NA)),
    "person": ("person: the value must be a", lambda: copier().fit(VILLAGE, person=pd.NA)),
    "rows as person": (ROWS, lambda: copier().fit(VILLAGE, person=VILLAGE["rent"], at_most=2)),
    "rows as names": (ROWS, lambda: copier().fit(VILLAGE, person=[*VILLAGE["rent"]], at_most=2)),
    "rows as bound": (
        ROWS,
        lambda: copier().fit(VILLAGE.assign(id="a"), person="id", at_most=VILLAGE["rent"]),
    ),
    "rows as word": (ROWS, lambda: copier(on_unknown=VILLAGE["rent"]).fit(VILLAGE)),
    "transform": (NO_ROWS, lambda: selector().fit(PATIENTS, ILL).transform([])),
    "score": (NO_ROWS, lambda: selector().fit(PATIENTS, ILL).score([], [])),
}


@pytest.mark.parametrize("call", WRONG_TYPES)
def test_value_of_a_wrong_type_is_refused_in_one_line(call: str):
    message, run = WRONG_TYPES[call]
    with pytest.raises(InvalidParameter, match=message) as refused:
        run()
    assert "\n" not in str(refused.value)
