"""Parameters are read exactly, and refused in fit, in one line, as a ValueError."""

from __future__ import annotations

from fractions import Fraction
from typing import get_type_hints

import numpy as np
import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators import InvalidParameter
from dp_pipeline.estimators.declared import box_columns, domain_of
from dp_pipeline.estimators.parameters import exact_delta, exact_epsilon
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.results.clusters import Clusters
from dp_pipeline_tests.estimators.people import METHODS, VILLAGES, private, quiet_fit
from dp_pipeline_tests.instruments import RecordingNoise

EPSILONS = [
    *((value, Fraction(1, 10)) for value in ("0.1", "1e-1", " .10 ", 0.1, np.float64(0.1))),
    *((value, 2) for value in (2, "2", 2.0, np.int64(2), Fraction(2))),
    (Fraction(1, 10), Fraction(1, 10)),
    # A float is rounded down to nine decimals.
    (1 / 3, Fraction(333_333_333, 10**9)),
    (0.9999999999, Fraction(999_999_999, 10**9)),
    (np.float32(0.1), Fraction(100_000_001, 10**9)),
    (1e-6, Fraction(1, 10**6)),
    (1e6, 10**6),
]


@pytest.mark.parametrize(("value", "epsilon"), EPSILONS, ids=repr)
def test_epsilon_is_read_exactly(value: object, epsilon: Fraction):
    assert exact_epsilon(value) == epsilon


NO_EPSILON = [None, True, "", "one", 0, -1, float("nan"), float("inf"), 1j, [1], Fraction(1, 3)]


@pytest.mark.parametrize("value", [*NO_EPSILON, "0.1234567891", 10**7, 1e-9, 1e300], ids=repr)
def test_what_is_no_decimal_epsilon_is_refused(value: object):
    with pytest.raises(DeclarationError, match="epsilon"):
        exact_epsilon(value)


DELTAS = [
    *((value, Fraction(1, 10**9)) for value in ("1e-9", "0.000000001", 1e-9, np.float64(1e-9))),
    (Fraction(1, 10**9), Fraction(1, 10**9)),
    *((value, None) for value in (None, 0, 0.0, "0", " 0.0 ", Fraction(0), np.int64(0))),
]


@pytest.mark.parametrize(("value", "delta"), DELTAS, ids=repr)
def test_delta_is_read_exactly_and_0_is_none(value: object, delta: Fraction | None):
    assert exact_delta(value) == delta


NO_DELTA = [False, "", "none", -1, 1, 0.5, float("nan"), [0], np.zeros(2), Fraction(1, 3000)]


@pytest.mark.parametrize("value", NO_DELTA, ids=repr)
def test_what_is_no_delta_is_refused(value: object):
    with pytest.raises(DeclarationError, match="delta: expected"):
        exact_delta(value)


SAME_BOX = [[(0, 8), (-1, 1)], np.array([[0.0, 8.0], [-1.0, 1.0]]), {"y": (-1, 1), "x": (0, 8)}]


@pytest.mark.parametrize("bounds", SAME_BOX, ids=["pairs", "array", "mapping"])
def test_bounds_are_pairs_an_array_or_a_mapping(bounds: object):
    box = domain_of(box_columns(bounds, ("x", "y"))).box(("x", "y"))
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
    paid = quiet_fit(private(method="dpqt_kmeans"), VILLAGES)
    declared = quiet_fit(private(method="dpqt_kmeans", nominal_rows=1000), VILLAGES)
    shared = quiet_fit(
        private(method="dpqt_kmeans", nominal_rows=1000, method_params={"gamma": "0.5"}), VILLAGES
    )
    assert paid.spends_[0].what == "number of rows"
    assert "number of rows" not in [spend.what for spend in declared.spends_]
    assert shared.spends_[-1].epsilon == Fraction(1, 2)
