"""What comes back is what went in: types, levels, order, missing shares and numbers of rows."""

import pickle
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

from dp_pipeline.estimators import (
    KAnonymousSelector,
    PrivateKMeans,
    PrivateSynthesizer,
    plot_marginals,
)
from dp_pipeline.estimators import synthetic_frames as frames_module
from dp_pipeline.estimators.column_types import find_identifiers
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline_tests.estimators.households import copier, refusal

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ROWS = 3000
ORDERED = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)


def column(values: list[Any], dtype: Any = None) -> pd.Series:
    """Many rows with these values, about as often each."""
    return pd.Series(values * (ROWS // len(values)), dtype=dtype)


def nights(day: str) -> pd.DatetimeIndex:
    """Times of a month in Berlin, in which one night has an hour more or less."""
    return pd.date_range(day, periods=60, freq="11h", tz="Europe/Berlin")


COLUMNS: dict[str, pd.Series] = {
    "texts of digits": column(["01234", "00501", "10001"], "str"),
    "texts, missing": column(["a", "b", None], "str"),
    "string": column(["a", "b", pd.NA], "string"),
    "int64": column([0, 1, 2]),
    "above floats": column([2**60 + 1, 2**60 + 2]),
    "uint8": column([0, 1, 250], "uint8"),
    "Int64, missing": column([1, 2, pd.NA], "Int64"),
    "float64, missing": column([1.0, 2.0, np.nan]),
    "float16": column([0.5, 1.5, 2.0], "float16"),
    "float32": column([0.5, 1.5, 2.0], "float32"),
    "Float32, missing": column([0.1, 1.5, pd.NA], "Float32"),
    "bool": column([True, False, False]),
    "truths as texts": column([True, False, False], "bool"),
    "boolean, missing": column([True, False, pd.NA], "boolean"),
    "ordered categories": column(["low", "high", "high"], ORDERED),
    "intervals": pd.Series(pd.cut(column([1, 2, 5]), [0, 3, 6])),
    "days": column([*pd.to_datetime(["2025-02-01", "2026-03-01"])]),
    "a zone": column([*pd.to_datetime(["2025-02-01", "2026-03-01"]).tz_localize("Asia/Tokyo")]),
    "a spring's night": column([*nights("2026-03-15")]),
    "an autumn's night": column([*nights("2026-10-15")]),
    "dates": column([date(2025, 2, 1), date(2026, 3, 1), None], object),
    "times as objects": column([*nights("2026-10-15").to_pydatetime()], object),
    "durations": column([*pd.to_timedelta([1, 5, 9], "D")]),
    "durations, missing": column([*pd.to_timedelta([1, 9, None], "D")], "timedelta64[s]"),
    "decimals": column([Decimal("1.10"), Decimal("2.25")], object),
    "all missing": column([None], object),
}
DAYS = {"bounds": ["2026-10-15", "2026-11-12"], "every": "day"}
DECLARED: dict[str, Any] = {
    "texts of digits": ["01234", "00501", "10001"],
    "int64": {"bounds": [0, 3], "bins": 3},
    "above floats": [2**60 + 1, 2**60 + 2],
    "uint8": [0, 1, 250],
    "Int64, missing": {"levels": [1, 2], "nullable": True},
    "float64, missing": {"levels": [1, 2], "nullable": True},
    "float32": {"bounds": [0, 4], "edges": [0.1, 0.7]},
    "Float32, missing": {"levels": [0.1, 1.5], "nullable": True},
    "an autumn's night": {**DAYS, "zone": "Europe/Berlin"},
    "times as objects": {**DAYS, "zone": "Europe/Berlin"},
    "bool": [False, True],
    "truths as texts": ["False", "True"],
    "ordered categories": ORDERED,
    "days": {"bounds": ["2025-01-01", "2026-12-31"], "every": "month"},
    "durations": {"bounds": [pd.Timedelta(0), pd.Timedelta("10D")], "bins": 10},
    "decimals": {"bounds": [0, 4], "bins": 4},
}
CASES = [
    *(pytest.param(name, "discover", id=f"{name}, discovered") for name in COLUMNS),
    *(pytest.param(name, form, id=f"{name}, declared") for name, form in DECLARED.items()),
]


def fitted(frame: Any, domain: Any = "discover", **parameters: Any) -> PrivateSynthesizer:
    standard = {"epsilon": 8, "method": "independent", "on_unknown": "keep"}
    return copier(domain=domain, **{**standard, **parameters}).fit(frame)


def to_polars(frame: pd.DataFrame) -> Any:
    """The frame in polars, where the type that has an order is an Enum."""
    ordered = [name for name in frame if getattr(frame[name].dtype, "ordered", False)]
    enums = {name: polars.Enum(frame[name].cat.categories.to_list()) for name in ordered}
    return polars.from_pandas(frame).cast(enums)


LIBRARIES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "polars": to_polars,
}


def types_of(frame: Any) -> list[str]:
    """The type of each column, as its library writes it."""
    if isinstance(frame, pa.Table):
        return [str(field.type) for field in frame.schema]
    return [str(type_) for type_ in frame.dtypes]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_column_comes_back_as_it_went_in(name: str, form: Any, library: str) -> None:
    if library != "pandas" and name == "intervals":
        pytest.skip("intervals are a type of pandas")
    series = COLUMNS[name]
    plain = pd.DataFrame({name: series, "other column": column([0, 1])[: len(series)]})
    frame = LIBRARIES[library](plain)
    domain = form if form == "discover" else {name: form, "other column": 2}
    synthetic = fitted(frame, domain).sample()
    types = types_of(frame)
    if name == "all missing" and library != "pandas":
        # A type without values can hold no level.
        types[0] = {"Arrow": "string", "polars": "String"}[library]
    assert types_of(synthetic) == types
    synthetic = synthetic if library == "pandas" else synthetic.to_pandas()
    assert list(synthetic.columns) == [name, "other column"]
    assert abs(len(synthetic) - len(frame)) < 40
    result = synthetic[name]
    assert abs(result.isna().mean() - series.isna().mean()) < 0.02
    if series.dtype.kind in "mM":
        span = series.max() - series.min()
        assert abs(result.mean() - series.mean()) < span / 8
    elif isinstance(form, list) or name in ("texts of digits", "ordered categories", "intervals"):
        assert set(result) - {"other"} == set(series)
    if library == "pandas":
        assert set(map(type, result.dropna())) <= set(map(type, series.dropna()))


ZIPS, AGED = column(["01234", "00501", None], "str"), column([20.0, 40.0, None])
TABLE = pd.DataFrame({"zip": ZIPS, "age": AGED, "children": column([0, 1, 3])})
FORMS = {
    "zip": {"levels": ["01234", "00501"], "nullable": True},
    "age": {"bounds": [0, 100], "bins": 10, "nullable": True},
    "children": 4,
}


@pytest.mark.parametrize("domain", ["discover", FORMS], ids=["discovered", "declared"])
@pytest.mark.parametrize("library", ["Arrow", "polars"])
def test_every_library_gives_the_same_table(library: str, domain: Any) -> None:
    synthetic = fitted(LIBRARIES[library](TABLE), domain).sample().to_pandas()
    expected = fitted(TABLE, domain).sample()
    as_texts = [table.astype("string").fillna("") for table in (synthetic, expected)]
    pd.testing.assert_frame_equal(*(table.replace("<NA>", "") for table in as_texts))


ODD = {
    "texts among numbers": (["20", "30", "90+"], {"bounds": [0, 100], "bins": 10}, 1 / 3),
    "missing, discovered": (pd.array([1, 2, None], "Int64"), "discover", 1 / 3),
    "missing, declared": (["a", "b", None], ["a", "b"], 1 / 3),
    "another level": (["a", "b", "B "], ["a", "b"], 1 / 3),
    "NaN among numbers": ([np.nan, 1.0], {"bounds": [0, 2], "bins": 4}, 1 / 2),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_cell_costs_a_cell_and_is_said(name: str) -> None:
    values, form, share = ODD[name]
    series = pd.Series(values).repeat(ROWS // len(values)).reset_index(drop=True)
    fit = PrivateSynthesizer(domain={"x": form}, epsilon=8, noise="seeded:7", random_state=0)
    with pytest.warns(UserWarning, match="Missing cells: .*% of x are empty or not as declared"):
        fit.fit(pd.DataFrame({"x": series}))
    sample = fit.sample()
    assert abs(len(sample) - ROWS) < 40
    assert abs(sample["x"].isna().mean() - share) < 0.02


def test_a_masked_value_is_missing() -> None:
    array = np.ma.MaskedArray([[1, 7]] * 600 + [[2, 999]] * 300, mask=False)
    array[600:, 1] = np.ma.masked
    for typed in (array, array.astype(float)):
        synthetic = fitted(typed, {"a": [1, 2], "b": {"levels": [7], "nullable": True}}).sample()
        assert abs(synthetic["b"].isna().mean() - 1 / 3) < 0.02


LARGE = polars.DataFrame({"x": [1, 2]}, schema={"x": polars.Int128})
QUERY = polars.DataFrame({"x": [1, 2]}).lazy()
TIMES = pd.DataFrame({"x": COLUMNS["durations"]})
ROUNDED = pd.DataFrame({"x": [2.0**60]})
REFUSED: list[tuple[Any, Any, str]] = [
    (ROUNDED, [2**60 + 1, 2**60 + 2], r"integers or texts for levels from 2\*\*53 on"),
    (LARGE, "discover", "types that Arrow has, got column 'x' of Int128"),
    (QUERY, "discover", r"frame of pandas, polars or Arrow.*got LazyFrame"),
    (TIMES, {"bounds": [0, 10], "bins": 5}, r"write bounds as datetime\.timedelta"),
]


@pytest.mark.parametrize(("frame", "form", "message"), REFUSED)
def test_a_frame_that_cannot_be_read_is_refused(frame: Any, form: Any, message: str) -> None:
    with refusal(match=message):
        fitted(frame, {"x": form})


class Query:
    """A frame whose query fails on a row's value once the frame is read."""

    shape = (2, 1)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ArithmeticError("no number: 'secret'")


@pytest.mark.parametrize(
    "frame", [Query(), duckdb.sql("SELECT 'secret'[i:]::INT AS x FROM range(9) r(i)")]
)
def test_failing_query_is_refused_without_its_text(frame: Any) -> None:
    with refusal(match=r"got a (Arithmetic|Conversion)\w+ on reading it") as caught:
        PrivateKMeans(2, epsilon=1, bounds=(0, 10), noise="seeded:7").fit(frame)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_columns_keep_names_of_any_kind() -> None:
    names = [0, "", "a b, c", "ε/δ", 1.5, ("a", "b")]
    frame = pd.DataFrame(column([0, 1]).to_numpy()[:, None].repeat(len(names), axis=1))
    frame.columns = pd.Index(names, tupleize_cols=False)
    assert list(fitted(frame).sample(5).columns) == names


ENDS = {"2026-03-29": ["01:59:59+0100", "03:00:00+0200"], "2026-10-25": ["02:30+0100"]}


@pytest.mark.parametrize("day", ENDS)
def test_times_of_a_changed_clock_are_times_that_there_are(day: str) -> None:
    instants = pd.to_datetime([f"{day} {end}" for end in ENDS[day]], utc=True)
    times = column([*instants.tz_convert("Europe/Berlin")])
    form = {"bounds": [day, day], "every": "hour", "zone": "Europe/Berlin"}
    result = fitted(pd.DataFrame({"x": times}), {"x": form}, epsilon=50).sample()["x"]
    assert result.dtype == times.dtype
    assert set(result.dt.hour) == set(times.dt.hour)
    # Of an hour that is twice, the first.
    assert not (
        result.dt.hour.eq(2) & result.map(lambda time: time.utcoffset().seconds != 7200)
    ).any()


VISITS = pd.DataFrame({"patient": np.repeat(np.arange(300), 10), "ill": [0, 1] * 1500})


def test_rows_of_a_person_are_bounded_and_protected_together() -> None:
    fit = PrivateSynthesizer(epsilon=8, noise="seeded:7").fit(VISITS, person="patient", at_most=3)
    assert list(fit.sample(2).columns) == ["ill"]
    assert abs(len(fit.sample()) - 900) < 60
    assert "protects at most 3 rows of a person, column patient" in repr(fit)
    assert {spend.sensitivity for spend in fit.spends_ if "marginal" in spend.what} <= {3}


@pytest.mark.parametrize(("kind", "at_most"), [(float, 3), (int, None), (int, 10**30)])
def test_a_person_is_no_float_and_needs_a_bound(kind: type, at_most: Any) -> None:
    rows = VISITS.astype({"patient": kind})
    with refusal(match=r"must hold texts or integers|at_most: expected"):
        PrivateSynthesizer(epsilon=1).fit(rows, person="patient", at_most=at_most)


def test_a_column_that_looks_like_an_identifier_is_named_once() -> None:
    with pytest.warns(UserWarning, match="has several rows, pass `person` and `at_most`"):
        PrivateSynthesizer(epsilon=8, noise="seeded:7").fit(VISITS)
    names = ["aid", "paid", "ID", "user.id", "customer-number"]
    assert find_identifiers(names) == ("ID", "user.id", "customer-number")


def test_a_model_of_others_is_a_method_and_its_name_is_said(monkeypatch) -> None:
    fit = fitted(TABLE, FORMS, method=Independent)
    assert repr(fit).startswith("PrivateSynthesizer by Independent, fitted: ε=8")
    pd.testing.assert_frame_equal(fit.sample(), fitted(TABLE, FORMS, method="independent").sample())
    with refusal(match="or the class of such a model"):
        fitted(TABLE, FORMS, method=HTreeKMeans)
    place = "dp_pipeline.models.tables.independent:Independent"
    entry = EntryPoint("ours_too", place, "dp_pipeline.models")
    monkeypatch.setitem(MODELS.data, "ours_too", entry)
    assert "by ours_too" in repr(fitted(TABLE, FORMS, method="ours_too"))


def test_a_saved_fit_samples_the_same_rows(tmp_path: Path) -> None:
    fit = fitted(TABLE, FORMS)
    fit.save(tmp_path / "fit")
    loaded = PrivateSynthesizer.load(tmp_path / "fit")
    pd.testing.assert_frame_equal(loaded.sample(50), fit.sample(50))
    for content, message in (
        ((tmp_path / "fit").read_bytes(), r"path: the file must hold a .* by that class"),
        (pickle.dumps([]), "holds a list: name a file that `save` wrote"),
        (b"", "holds no pickle that this version reads: name a file that `save` wrote"),
        (b"name,age\n", "holds no pickle that this version reads"),
        (b"cdp_pipeline.estimators\nGoneClass\n.", "holds no pickle that this version reads"),
        (b"cgone_package\nName\n.", "holds no pickle that this version reads"),
    ):
        (tmp_path / "other").write_bytes(content)
        with refusal(match=message):
            PrivateKMeans.load(tmp_path / "other")


@pytest.mark.parametrize("domain", ["discover", FORMS], ids=["discovered", "declared"])
def test_a_rehearsal_reads_types_and_no_value(domain: Any) -> None:
    shown = []
    for rows in (TABLE, TABLE[:0]):
        fit = PrivateSynthesizer(domain=domain, epsilon=1, random_state=0)
        shown.append(fit.fit(rows, rehearse=True).sample().to_json())
        assert "a rehearsal of ε=1" in repr(fit)
        assert "nothing was spent" in repr(fit)
        assert not fit.fit_for_release_
    assert shown[0] == shown[1]


DOMAIN: dict[str, Any] = {
    "ward": ["north", "south"],
    "age": {"bounds": [0, 100], "bins": 10, "integer": True},
    "weight": {"bounds": [0, 128], "bins": 4, "nullable": True},
    "day": {"bounds": ["2026-01-01", "2026-12-31"], "every": "week"},
}
WARDS = pa.array(["north", "south", "north", "north"] * 100).dictionary_encode()
AGES = pa.array([20, 35, 35, 80] * 100, pa.int8())
WEIGHTS = pa.array([60.5, None, 75.0, 81.25] * 100, pa.float32())
DAY = pa.array([date(2026, 3, 4)] * 400)
PATIENTS = pa.table({"ward": WARDS, "age": AGES, "weight": WEIGHTS, "day": DAY})


def test_categories_return_with_declared_levels() -> None:
    levels = DOMAIN["ward"]
    kinds = pd.CategoricalDtype(["south", "secret", "north"], ordered=True)
    frame = PATIENTS.select(["ward"]).to_pandas().astype(kinds)
    of_pandas, of_polars = (fitted(X, {"ward": levels}) for X in (frame, to_polars(frame)))
    assert of_pandas.sample(50)["ward"].dtype == pd.CategoricalDtype(levels, ordered=True)
    assert of_polars.sample(50)["ward"].dtype == polars.Enum(levels)


@pytest.mark.parametrize("column", ["ward", "day"])
def test_a_pickle_of_a_fit_holds_no_category_of_the_rows(column: str) -> None:
    frame = PATIENTS.to_pandas()
    kinds = pd.CategoricalDtype([*map(str, frame[column].unique()), "very secret"])
    labelled = frame.assign(**{column: frame[column].astype(str).astype(kinds)})
    assert b"very secret" not in pickle.dumps(fitted(labelled, DOMAIN))
    assert b"very secret" in pickle.dumps(labelled)


LONG = {"bounds": [0, 1000], "bins": 10, "integer": True}
WIDE = {"bounds": [0, 1e6], "bins": 10}
RESULTS: dict[str, tuple[pa.Array, Any, pa.DataType]] = {
    "categories of numbers": (pa.array([1, 3] * 200).dictionary_encode(), "discover", pa.int64()),
    # A reader of files makes texts of a column of numbers for one text in it.
    "texts for numbers": (pa.array(["0", "1", None, "2"] * 100), [0, 1, 2], pa.int64()),
    "levels of different kinds": (pa.array([0, 1] * 200, pa.int16()), [0, "1", 2], pa.string()),
    "numbers for dates": (pa.array([7] * 400), DOMAIN["day"], pa.timestamp("s")),
    "small integers": (pa.array([20, 80] * 200, pa.int8()), LONG, pa.int64()),
    "small levels": (pa.array([0, 1] * 200, pa.int16()), [0, 1, 70_000], pa.int64()),
    "small floats": (pa.array(np.float16([60.5, 75.0] * 200)), WIDE, pa.float64()),
}


@pytest.mark.parametrize("case", RESULTS)
def test_the_declaration_decides_the_type_where_it_must(case: str) -> None:
    values, form, expected = RESULTS[case]
    domain = form if form == "discover" else {"x": form}
    assert fitted(pa.table({"x": values}), domain).sample(20).schema.field("x").type == expected


def test_a_missing_truth_value_changes_no_type_and_is_no_error():
    column = pa.array([True, None] * 100)
    places = pa.table({"x": column, "y": column})
    kmeans = PrivateKMeans(2, epsilon=1, bounds=(0, 1), noise="seeded:7", random_state=0)
    assert kmeans.fit(places).cluster_centers_.shape == (2, 2)
    assert kmeans.feature_names_in_.tolist() == ["x", "y"]


ILL = pa.chunked_array([pa.array(["ill", "well"] * 200)])
OF_POLARS = polars.Series("ill", ILL.to_pylist())


@pytest.mark.parametrize("name", ["label", "ill"], ids=["Arrow", "polars"])
def test_a_selector_takes_a_table_and_a_column_of_labels(name: str) -> None:
    of_pandas = KAnonymousSelector(k=5, edges={"age": [30, 60], "weight": [70]})
    X = PATIENTS.select(["ward", "age", "weight"])
    rows, labels = (X, ILL) if name == "label" else (polars.from_arrow(X), OF_POLARS)
    release = KAnonymousSelector(**of_pandas.get_params()).fit_release(rows, labels)
    expected = of_pandas.fit_release(X.to_pandas(), ILL.to_pandas().rename(name))
    pd.testing.assert_frame_equal(release, expected)
    assert repr(of_pandas).startswith("KAnonymousSelector, fitted: a release by fit_release has at")
    assert "at least 5 rows and 2 different labels" in repr(of_pandas)


NUMBERED = pd.DataFrame([["no", 30, 1.5], ["yes", 60, 2.5]] * 200)
YEARS, SIZES = ({"bounds": [0, most], "bins": 4} for most in (100, 4))
OF_NUMBERS: dict[Any, Any] = {0: ["no", "yes"], 1: YEARS, 2: SIZES}


@pytest.mark.parametrize("domain", [OF_NUMBERS, {0: ["no", "yes"], ...: YEARS}])
def test_columns_called_by_numbers_come_back_as_they_were(domain: Any):
    synthesizer = fitted(NUMBERED, domain, constraints={"never": {0: "no", 1: "[50, ]"}})
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
    for edges in ({1: [50], 2: [2]}, {"x1": [50], "x0": [2]}):
        selector = KAnonymousSelector(2, edges=edges, method="mondrian")
        selector.fit(swapped, NUMBERED[0])
        assert selector.candidate_names_.tolist() == ["x0>=2", "x1>=50"]
    with refusal(match="edges: its keys must be names or places"):
        KAnonymousSelector(2, edges={0: [50]}).fit(swapped, NUMBERED[0])


def test_a_fit_of_polars_outlives_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = pickle.loads(pickle.dumps(fitted(to_polars(TABLE), FORMS)))
    assert isinstance(loaded.sample(5), polars.DataFrame)
    monkeypatch.setattr(frames_module, "find_spec", lambda _: None)
    assert isinstance(loaded.sample(5), pd.DataFrame)
