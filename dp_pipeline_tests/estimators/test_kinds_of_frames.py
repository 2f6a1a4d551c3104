"""Frames of pandas, Arrow and polars are one table to the estimators, and come back in kind."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_pipeline.estimators import (
    KAnonymousSelector,
    PrivateKMeans,
    PrivateSynthesizer,
    plot_marginals,
)
from dp_pipeline.estimators import synthetic_frames as frames_module
from dp_pipeline.estimators.frames import frame_kind
from dp_pipeline.estimators.private_estimator import WeakSignal
from dp_pipeline_tests.estimators.households import copier

MANY = 100
DOMAIN: dict[str, Any] = {
    "visits": {"levels": [0, 1, 2], "nullable": True},
    "ward": ["north", "south"],
    "insured": {"levels": [False, True], "nullable": True},
    "age": {"bounds": [0, 100], "bins": 10, "integer": True},
    "weight": {"bounds": [0, 128], "bins": 4, "nullable": True},
    "day": {"bounds": ["2026-01-01", "2026-12-31"], "every": "week"},
}
TYPES = {
    "visits": pa.int16(),
    "ward": pa.dictionary(pa.int8(), pa.string()),
    "insured": pa.bool_(),
    "age": pa.int8(),
    "weight": pa.float32(),
    "day": pa.date32(),
}
DAY = pd.Timestamp("2026-03-04").date()


def patients(**types: Any) -> pa.Table:
    """Four hundred of them, with other types of some columns."""
    values = {
        "visits": [0, 1, None, 2],
        "ward": ["north", "south", "north", "north"],
        "insured": [True, None, False, False],
        "age": [20, 35, 35, 80],
        "weight": [60.5, None, 75.0, 81.25],
        "day": [DAY] * 4,
    }
    required = {**TYPES, **types}
    return pa.table({name: pa.array(values[name] * MANY, required[name]) for name in values})


def fitted(X: Any, **parameters: Any) -> PrivateSynthesizer:
    return copier(**{"domain": DOMAIN, "epsilon": 3, "method": "independent", **parameters}).fit(X)


def test_categories_return_with_declared_levels():
    frame = patients().to_pandas()
    kinds = pd.CategoricalDtype(["south", "secret", "north"], ordered=True)
    result = fitted(frame.astype({"ward": kinds})).sample(50)["ward"]
    assert result.dtype == pd.CategoricalDtype(["north", "south"], ordered=True)


@pytest.mark.parametrize("column", ["ward", "day"])
def test_a_pickle_of_a_fit_holds_no_category_of_the_rows(column: str):
    frame = patients().to_pandas()
    kinds = pd.CategoricalDtype([*map(str, frame[column].unique()), "very secret"])
    labelled = frame.assign(**{column: frame[column].astype(str).astype(kinds)})
    assert b"very secret" not in pickle.dumps(fitted(labelled))
    assert b"very secret" in pickle.dumps(labelled)


def test_what_is_declared_decides_between_numbers_and_texts():
    """A reader of files makes texts of a column of numbers for one text in it."""
    table = patients()
    visits = table["visits"].cast(pa.int64()).cast(pa.string())
    result = fitted(table.set_column(0, "visits", visits)).sample(5)
    assert result.schema.field("visits").type == pa.int64()


def test_narrow_type_widens_for_declared_values():
    domain = {
        **DOMAIN,
        "age": {"bounds": [0, 1000], "bins": 10, "integer": True},
        "weight": {"bounds": [0, 1e6], "bins": 10, "nullable": True},
        "visits": {"levels": [0, 1, 70_000], "nullable": True},
    }
    result = fitted(patients(weight=pa.float16()), domain=domain).sample(50).schema
    results = [result.field(name).type for name in ("age", "weight", "visits")]
    assert results == [pa.int64(), pa.float64(), pa.int64()]


def test_levels_of_different_kinds_are_texts_to_arrow():
    result = fitted(patients(), domain={"visits": [0, "1", 2]}).sample(20)
    assert result.schema.field("visits").type == pa.string()
    assert set(result["visits"].to_pylist()) <= {"0", "1", "2"}


def test_numbers_where_dates_are_declared_come_back_as_dates():
    frame = patients().to_pandas().assign(day=7)
    result = fitted(frame, epsilon="0.01").sample(20)["day"]
    assert result.dtype.kind == "M"


@pytest.mark.parametrize("missing", [False, True])
def test_a_missing_truth_value_changes_no_type_and_is_no_error(missing: bool):
    column = pa.array([True, None if missing else False] * MANY)
    places = pa.table({"x": column, "y": column})
    kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 1), noise="seeded:7", random_state=0)
    assert kmeans.fit(places).cluster_centers_.shape == (2, 2)
    assert kmeans.feature_names_in_.tolist() == ["x", "y"]


def test_centres_of_an_arrow_table_are_those_of_the_same_array():
    rows = np.repeat([[1.0, 1.0], [9.0, 9.0]], 300, axis=0)
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
    kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 10), noise="seeded:7", random_state=0)
    of_rows = kmeans.fit(rows).cluster_centers_.copy()
    assert (kmeans.fit(table).cluster_centers_ == of_rows).all()
    assert kmeans.predict(table).tolist() == kmeans.predict(table.to_pandas()).tolist()
    assert kmeans.transform(table).shape == (600, 2)


def test_a_selector_takes_an_arrow_table_and_a_column_of_labels():
    table = patients()
    labels = pa.chunked_array([pa.array(["ill", "well"] * (2 * MANY))])
    of_pandas = KAnonymousSelector(k=5, edges={"age": [30, 60], "weight": [70]})
    X = table.select(["ward", "age", "weight"])
    release = KAnonymousSelector(**of_pandas.get_params()).fit_release(X, labels)
    expected = of_pandas.fit_release(X.to_pandas(), labels.to_pandas())
    pd.testing.assert_frame_equal(release, expected)
    assert repr(of_pandas).startswith("KAnonymousSelector, fitted: a release by fit_release has at")
    assert "at least 5 rows and 2 different labels" in repr(of_pandas)


NUMBERED = pd.DataFrame([["no", 30, 1.5], ["yes", 60, 2.5]] * 200)
OF_NUMBERS: dict[Any, Any] = {
    0: ["no", "yes"],
    1: {"bounds": [0, 100], "bins": 4},
    2: {"bounds": [0, 4], "bins": 4},
}


@pytest.mark.parametrize("domain", [OF_NUMBERS, {0: ["no", "yes"], ...: OF_NUMBERS[1]}])
def test_columns_called_by_numbers_come_back_as_they_were(domain: Any):
    synthesizer = fitted(NUMBERED, domain=domain, constraints={"never": {0: "no", 1: "[50, ]"}})
    sample = synthesizer.sample(50)
    assert sample.columns.dtype == NUMBERED.columns.dtype
    assert sample.columns.equals(NUMBERED.columns)
    assert not ((sample[0] == "no") & (sample[1] >= 50)).any()
    assert synthesizer.marginal(1, 0).index.names == [1, 0]
    assert synthesizer.marginal(2).index.name == 2
    assert set().union(*synthesizer.graph_.nodes) == {0, 1, 2}
    assert synthesizer.n_features_in_ == 3
    assert not hasattr(synthesizer, "feature_names_in_")
    assert synthesizer.quality_report(NUMBERED, label=0).rows
    assert plot_marginals(sample, NUMBERED, columns=0).get_title(loc="left") == "0"


def test_boxes_and_cuts_of_columns_called_by_numbers_are_theirs():
    swapped = NUMBERED[[2, 1]]
    bounds = {1: (0, 100), 2: (0, 4)}
    kmeans = PrivateKMeans(2, epsilon=5, bounds=bounds, noise="seeded:7").fit(swapped)
    assert kmeans.bounds_.tolist() == [[0, 4], [0, 100]]
    assert not hasattr(kmeans, "feature_names_in_")
    with pytest.raises(ValueError, match="each column of X needs a pair of bounds, but 2 has none"):
        PrivateKMeans(2, epsilon=5, bounds={0: (0, 4), 1: (0, 9)}).fit(swapped)
    result = PrivateKMeans(2, epsilon=5, bounds={**bounds, 2: "discover"}, discover={"epsilon": 4})
    assert result.set_params(noise="seeded:7").fit(swapped).bounds_[1].tolist() == [0, 100]
    selector = KAnonymousSelector(2, edges={1: [50], 2: [2]}, method="mondrian")
    selector.fit(swapped, NUMBERED[0])
    assert selector.candidate_names_.tolist() == ["x0>=2", "x1>=50"]
    with pytest.raises(ValueError, match="edges: its keys must be names or places"):
        KAnonymousSelector(2, edges={0: [50]}).fit(swapped, NUMBERED[0])


def test_a_look_at_the_kind_of_a_frame_is_a_look_at_its_type():
    assert frame_kind(patients()) == "arrow"
    assert frame_kind(patients().to_pandas()) == "pandas"
    assert frame_kind(pd.Series([1])) == frame_kind([[1]]) == frame_kind(np.eye(2)) == "pandas"


@pytest.fixture
def polars() -> Any:
    return pytest.importorskip("polars", reason="polars is not installed: it is in the extra test")


def test_a_closed_list_of_polars_comes_back_as_the_declared_one(polars: Any):
    frame = polars.from_arrow(patients())
    closed = frame.with_columns(
        polars.col("ward").cast(polars.String).cast(polars.Enum(["south", "secret", "north"]))
    )
    assert fitted(closed).sample(5).schema["ward"] == polars.Enum(["north", "south"])


def test_a_fit_of_polars_outlives_polars(polars: Any, monkeypatch: pytest.MonkeyPatch):
    loaded = pickle.loads(pickle.dumps(fitted(polars.from_arrow(patients()))))
    assert isinstance(loaded.sample(5), polars.DataFrame)
    monkeypatch.setattr(frames_module, "find_spec", lambda _: None)
    assert isinstance(loaded.sample(5), pd.DataFrame)


def test_centres_of_a_polars_frame_and_labels_of_a_polars_column(polars: Any):
    frame = polars.from_arrow(patients()).select("age", "ward")
    kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 100), noise="seeded:7")
    with pytest.warns(WeakSignal):
        kmeans.fit(frame.select("age").head(20))
    labels = polars.Series("ill", [0, 1] * (2 * MANY))
    release = KAnonymousSelector(k=5, edges={"age": [30]}).fit_release(frame, labels)
    assert release.columns[-1] == "ill"


def test_a_polars_query_that_was_not_collected_is_refused(polars: Any):
    with pytest.raises(ValueError, match=r"frame of pandas, polars or Arrow.*got LazyFrame"):
        fitted(polars.from_arrow(patients()).lazy())
