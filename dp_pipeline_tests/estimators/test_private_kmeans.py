"""Any rows give k private centres in the box; nothing but the noisy answers depends on rows."""

import tracemalloc
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dp_pipeline.estimators import PrivateKMeans
from dp_pipeline.estimators.declared import box_domain
from dp_pipeline.estimators.frames import numeric_features
from dp_pipeline.estimators.private_estimator import WeakSignal
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.results.clusters import Clusters
from dp_pipeline_tests.estimators.households import refusal
from dp_pipeline_tests.estimators.people import (
    AWKWARD,
    BOX,
    INF,
    METHODS,
    NAN,
    VILLAGES,
    private,
    quiet_fit,
    require_centres_in_the_box,
    rows_of,
)
from dp_pipeline_tests.instruments import RecordingNoise

ANY_NUMBER = st.floats(allow_nan=True, allow_infinity=True, width=64)
ANY_ROWS = st.integers(0, 8).flatmap(lambda n: arrays(np.float64, (n, 2), elements=ANY_NUMBER))


@given(ANY_ROWS)
@settings(max_examples=40)
def test_no_value_of_a_row_is_an_error_or_a_warning(rows: np.ndarray):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", WeakSignal)
        require_centres_in_the_box(private(method="dpqt_kmeans").fit(rows))


def exact_rows(rows: Any, **parameters: Any) -> int:
    """How many rows the gate was asked about: the exact count that the noise was put on."""
    noise = RecordingNoise()
    quiet_fit(private(method="dpqt_kmeans", noise=noise, **parameters), rows)
    return int(noise.draws[0].exact.sum())


def test_numbers_of_every_type_are_read_without_rows_with_nan():
    rows = [[NAN, 1.0], [1.0, NAN], [NAN, NAN], [INF, -INF], [1.0, INF], [99.0, 1.0], [1.0, 1.0]]
    assert exact_rows(rows) == 4
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, NAN]})
    assert exact_rows(frame) == 1
    for dtype in ("bool", "int8", "uint64", "float16", "float32", "float64", "longdouble"):
        assert exact_rows(np.ones((5, 2), dtype=dtype)) == 5, dtype


def test_containers_of_the_same_rows_give_the_same_centres():
    forms: list[Any] = [
        VILLAGES,
        np.asfortranarray(VILLAGES),
        VILLAGES.tolist(),
        np.repeat(VILLAGES, 2, axis=1)[:, ::2],
        pd.DataFrame(VILLAGES, columns=["a", "b"]),
        pd.DataFrame(VILLAGES.astype("float32"), columns=["a", "b"]).convert_dtypes(),
        pa.table({"a": VILLAGES[:, 0], "b": VILLAGES[:, 1]}),
        polars.DataFrame(VILLAGES, schema=["a", "b"]),
    ]
    fits = [quiet_fit(private(), form) for form in forms]
    assert all(np.array_equal(fits[0].cluster_centers_, each.cluster_centers_) for each in fits)
    labels = [each.predict(form).tolist() for each, form in zip(fits, forms, strict=True)]
    assert labels == [labels[0]] * len(forms)


def test_there_are_no_exact_labels_and_no_exact_inertia():
    estimator = quiet_fit(private(), VILLAGES)
    assert not {"labels_", "inertia_", "fit_predict"} & set(dir(estimator))


def test_a_fit_keeps_what_it_warned_of():
    with pytest.warns(
        WeakSignal, match=r"N·ε/k must be at least 20, but .* by a noisy count"
    ) as caught:
        weak = private(nominal_rows=5_000).fit(VILLAGES)
    assert [f"PrivateKMeans: {text}" for text in weak.warnings_] == [
        str(warning.message) for warning in caught
    ]
    assert [text.partition(":")[0] for text in weak.warnings_] == ["Few rows", "Weak signal"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strong = private(nominal_rows=1_200).fit(np.repeat(VILLAGES, 200, axis=0))
    assert strong.warnings_ == ()


@pytest.mark.parametrize(("noise", "is_new"), [(SeededNoise(7), True), ("seeded:7", False)])
def test_a_fit_costs_epsilon_again_and_noise_by_name_restarts(noise: Any, is_new: bool):
    estimator = private(noise=noise, epsilon="0.3")
    first = quiet_fit(estimator, VILLAGES).cluster_centers_
    spends = estimator.spends_
    assert np.array_equal(first, quiet_fit(estimator, VILLAGES).cluster_centers_) != is_new
    assert sum(spend.epsilon for spend in (*spends, *estimator.spends_)) == Fraction(6, 10)


def test_default_noise_is_secure():
    parameters = PrivateKMeans(3, epsilon=1, bounds=BOX).get_params()
    assert parameters["noise"] is None
    first, second = (quiet_fit(private(noise=None), VILLAGES) for _ in range(2))
    # Two equal trees of 16 first counts at scale 5: below 10^(−12).
    assert not np.array_equal(first.synopsis_.weights, second.synopsis_.weights)


def test_predict_and_transform_give_nearest_and_distances():
    estimator = quiet_fit(private(), VILLAGES)
    rows = np.random.default_rng(3).uniform(*BOX, size=(50, 2))
    distances = np.linalg.norm(rows[:, None] - estimator.cluster_centers_[None], axis=2)
    assert estimator.transform(rows) == pytest.approx(distances)
    assert np.array_equal(estimator.predict(rows), distances.argmin(axis=1))
    for verb in (estimator.predict, estimator.transform):
        with pytest.raises(ValueError, match="NaN"):
            verb([[NAN, 1.0]])


@pytest.mark.parametrize("rows", [AWKWARD["nobody"], VILLAGES], ids=["nobody", "two villages"])
@pytest.mark.parametrize("k", [1, 2, 40])
def test_another_number_of_centres_costs_nothing(rows: np.ndarray, k: int):
    noise = RecordingNoise()
    estimator = quiet_fit(private(noise=noise, method="dpqt_kmeans"), rows)
    spends, draws = estimator.spends_, len(noise.draws)
    centres = estimator.recluster(k)
    assert centres.shape == (k, 2)
    assert ((centres >= BOX[0]) & (centres <= BOX[1])).all()
    assert (estimator.spends_, len(noise.draws)) == (spends, draws)
    assert np.array_equal(centres, estimator.recluster(k))


def test_boxes_without_any_weight_can_be_clustered_again():
    estimator = quiet_fit(private(method="dpqt_kmeans"), AWKWARD["nobody"])
    estimator.synopsis_.weights[:] = -1.0
    assert estimator.recluster(4).shape == (4, 2)


@pytest.mark.parametrize("method", METHODS)
def test_noisy_cluster_sizes_cost_nothing_more(method: str):
    rows = np.repeat([[1.0, 1.0], [7.0, 7.0]], [900, 300], axis=0)
    fit = quiet_fit(private(method=method, n_clusters=2, epsilon=50, nominal_rows=1200), rows)
    of_rows = np.bincount(fit.predict(rows), minlength=2)
    assert fit.cluster_sizes_ == pytest.approx(of_rows, abs=10)
    assert sum(spend.epsilon for spend in fit.spends_) == 50


def test_a_release_without_counts_has_no_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Clusters, "tables", lambda released: {"centres": {"x": released.centres}})
    assert quiet_fit(private(), VILLAGES).cluster_sizes_ is None


@pytest.mark.parametrize(
    ("method", "k", "words"),
    [
        *(("htree_kmeans", k, "n_clusters") for k in (0, 2.5, None, 10_001)),
        ("dp_kmeans", 3, "recluster: the method of the fit makes no synopsis, which"),
    ],
)
def test_wrong_clustering_again_is_refused(method: str, k: Any, words: str):
    estimator = quiet_fit(private(method=method), VILLAGES)
    assert (estimator.synopsis_ is None) == (method == "dp_kmeans")
    with refusal(match=words):
        estimator.recluster(k)


@pytest.mark.parametrize("as_frame", [False, True])
def test_a_million_rows_are_not_copied_beyond_their_coordinates(as_frame: bool):
    rows = np.full((1_000_000, 2), 3.0)
    given_rows = pd.DataFrame(rows, columns=["x", "y"]) if as_frame else rows
    domain = box_domain(BOX, ("x", "y"))
    tracemalloc.start()
    rows_of(domain, numeric_features(given_rows).columns).counter()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 8 MB of coordinates and one block of rows; a float copy alone would be 16 MB.
    assert peak < 14_000_000
