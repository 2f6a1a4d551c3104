"""Declared columns are read exactly or refused in one line; what nobody declared is discovered."""

from contextlib import suppress
from datetime import date, datetime
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.attribute_parser import Category, Moment, Numeric
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators import InvalidParameter, PrivateKMeans, PrivateSynthesizer, WeakSignal
from dp_pipeline.estimators.declared import declared_columns
from dp_pipeline.estimators.frames import UNKNOWN, text_of
from dp_pipeline_tests.estimators import households
from dp_pipeline_tests.estimators.households import OPEN, VILLAGE, copier
from dp_pipeline_tests.estimators.people import private

SAME_LEVELS: list[Any] = [
    [0, 1, 2], (0, 1, 2), 3, np.int8(3), range(3), np.arange(3), pd.Index([0, 1, 2]),
    pd.CategoricalDtype([0, 1, 2]), {"levels": [0, 1, 2]}, {"size": 3},
]  # fmt: skip


@pytest.mark.parametrize("declared", SAME_LEVELS, ids=repr)
def test_equivalent_forms_of_levels(declared: object):
    (column,) = declared_columns({"rooms": declared})
    assert column.levels == (0, 1, 2)
    assert column.attribute.labels() == ("0", "1", "2")


SAME_BINS: list[dict[str, Any]] = [
    {"bounds": [0, 4], "bins": 4},
    {"bounds": (0, 4), "edges": [1, 2, 3]},
    {"bounds": (0, 4), "edges": [0, 1, 2, 3, 4]},
    {"bounds": (0, 4), "edges": [1, 2, 3, 4]},
    {"edges": np.arange(5)},
]


@pytest.mark.parametrize("declared", SAME_BINS, ids=repr)
def test_equivalent_forms_of_bins(declared: object):
    (column,) = declared_columns({"rent": declared})
    assert column.attribute.cells.edges == (0.0, 1.0, 2.0, 3.0, 4.0)  # type: ignore[union-attr]
    assert column.levels is None


NAN = float("nan")
TEXTS: dict[str | None, list[object]] = {
    "owner": [" owner ", np.str_(" owner ")],
    "1": [1, 1.0],
    "2": [2 + 0j],
    "0.5": [np.float32(0.5), np.complex64(0.5)],
    "True": [True],
    "False": [np.False_],
    "inf": [float("inf"), 10**400],
    "-inf": [-(10**400)],
    None: [NAN, None, pd.NA, pd.NaT, complex(NAN, 0)],
    UNKNOWN: [1j, complex(NAN, 1), [1], b"owner"],
}


ANY = st.recursive(
    st.sampled_from([None, True, 0, 1, -2.5, NAN, "a", "discover", "2026-01-01", 1j, b"a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
FIELDS = sorted({*Category.model_fields, *Numeric.model_fields, *Moment.model_fields, "size"})


@given(ANY | st.dictionaries(st.sampled_from(FIELDS), ANY, min_size=1, max_size=4))
@settings(max_examples=300)
def test_no_form_of_a_column_is_another_error_than_a_refusal(form: Any):
    with suppress(DeclarationError):
        declared_columns({"x": form})


def test_column_takes_every_field_of_a_file():
    forms: dict[str, Any] = {
        "sex": {"levels": ["f", "m"], "aliases": {"female": "f"}},
        "age": {"bounds": [0, 9], "bins": 3, "on_invalid": "drop", "decimal": ","},
        "born": {"bounds": ["2026-01-01", "2026-12-31"], "every": "month", "format": "%d.%m.%Y"},
    }
    sex, age, born = (column.attribute for column in declared_columns(forms))
    assert sex.aliases == (("female", "f"),)
    assert (age.on_invalid, age.signs.decimal) == ("drop", ",")
    assert born.clock is not None
    assert born.clock.format == "%d.%m.%Y"
    with pytest.raises(DeclarationError, match="expected the name of its column in X as key"):
        declared_columns({"sex": {"levels": ["f", "m"], "column": "gender"}})


@pytest.mark.parametrize("written", [(0, 20000), (0.5, 1), (np.int64(0), np.float64(9.5))])
def test_tuple_of_two_numbers_is_refused(written: Any):
    low, high = written
    with pytest.raises(InvalidParameter) as refused:
        copier(domain={"rent": written}).fit(VILLAGE)
    message = str(refused.value)
    assert message.startswith("domain: column 'rent': expected bounds as {\"bounds\": [")
    assert f"or two levels as [{low}, {high}], got ({low}, {high})" in message
    assert declared_columns({"rent": list(written)})[0].attribute.size == 2


# The last are no numbers that a float rounds.
LARGE = (2**53 - 1, 1 - 2**53, "0" + str(2**60), str(2**60) + ".0", "inf", 0.5)


@pytest.mark.parametrize("levels", [("f", "m"), (False, True), (0, 1, 2), (3,), LARGE])
def test_other_tuples_are_levels(levels: tuple[Any, ...]):
    assert declared_columns({"one": levels})[0].levels == levels


@pytest.mark.parametrize(("text", "values"), TEXTS.items())
def test_a_value_is_read_as_text(text: str | None, values: list[object]):
    assert [text_of(value) for value in values] == [text] * len(values)


TOWNS = ["Graz", "Linz"]
DOMAIN = {
    "age": {"bounds": [0, 80], "bins": 8, "integer": True},
    "state": ["single", "married"],
    "town": TOWNS,
    "land": ["Styria", "Upper"],
}
SAID = {
    "never": [{"age": "[0, 20)", "state": "married"}],
    "depends": {"town": {"land": {"Graz": "Styria", "Linz": "Upper"}}},
}


def people(rows: int = 4000) -> pd.DataFrame:
    """A tenth of them breaks what is said."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(0, 80, rows), "town": rng.choice(TOWNS, rows)})
    is_odd, is_married = rng.random(rows) < 0.1, rng.random(rows) < 0.7
    is_married = is_odd | (is_married & (frame["age"] >= 20))
    frame["state"] = np.where(is_married, "married", "single")
    frame["land"] = np.where(is_odd | (frame["town"] == "Graz"), "Styria", "Upper")
    return frame


constrained = partial(copier, domain=DOMAIN, constraints=SAID)


def keeps(frame: pd.DataFrame) -> pd.Series:
    young = (frame["age"] < 20) & (frame["state"] == "married")
    return ~young & ((frame["town"] == "Graz") == (frame["land"] == "Styria"))


@pytest.mark.parametrize("method", ["one_shot", "mst", "independent"])
def test_no_synthetic_row_breaks_a_constraint(method: str):
    fitted = constrained(method=method).fit(people())
    for frame in fitted.sample(), fitted.sample(3000):
        assert keeps(frame).all()
    assert list(fitted.sample(5).columns) == list(DOMAIN)
    assert fitted.marginal("age", "state").loc[("[0, 10)", "married"), "probability"] == 0


def test_rows_that_break_a_constraint_are_dropped():
    remaining = people()[keeps(people())]
    of_all, of_remaining = constrained().fit(people()), constrained().fit(remaining)
    pd.testing.assert_frame_equal(of_all.sample(), of_remaining.sample())
    with pytest.raises(InvalidParameter, match="but some break them: correct the constraints"):
        constrained(on_unknown="error").fit(people())
    constrained(on_unknown="error").fit(remaining)


WEEKS = {"bounds": ["2026-01-01", "2026-12-31"], "every": "week"}
DAYS = pd.date_range("2026-03-02", periods=7, freq="D")

NOON_OF_ZURICH = DAYS.tz_localize("Europe/Zurich") + pd.Timedelta(hours=12)
ARROW_NOON = pd.ArrowDtype(pa.timestamp("us", tz="Europe/Zurich"))
DATES = {
    "datetime64[ns]": pd.Series(DAYS).astype("datetime64[ns]"),
    "datetime64[us]": pd.Series(DAYS).astype("datetime64[us]"),
    "with a zone": pd.Series(NOON_OF_ZURICH),
    "arrow days": pd.Series(DAYS.date, dtype=pd.ArrowDtype(pa.date32())),
    "arrow times with a zone": pd.Series(NOON_OF_ZURICH, dtype=ARROW_NOON),
    "arrow times": pd.Series(DAYS, dtype=pd.ArrowDtype(pa.timestamp("us"))),
    "texts": pd.Series(DAYS.strftime("%Y-%m-%d"), dtype="str"),
}


def fitted(values: object, form: dict[str, object]) -> PrivateSynthesizer:
    frame = pd.concat([pd.DataFrame({"day": values})] * 100, ignore_index=True)
    standard = {"epsilon": 10, "method": "independent", "on_unknown": "keep"}
    return copier(domain={"day": form}, **standard).fit(frame)


@pytest.mark.parametrize("kind", DATES)
def test_dates_come_back_in_the_type_that_they_came_in(kind: str) -> None:
    """Seven hundred rows of one week: noise of scale 0.1 or 0.2 gives other weeks a row or two."""
    synthesizer = fitted(DATES[kind], WEEKS)
    sampled = synthesizer.sample(300)["day"]
    assert sampled.dtype == DATES[kind].dtype
    weeks = pd.to_datetime(sampled).dt.strftime("%G-W%V")
    assert (weeks == "2026-W10").mean() > 0.9
    assert synthesizer.marginal("day")["probability"].idxmax() == "2026-W10"


GERMAN = pd.Series(DAYS.strftime("%d.%m.%Y"), dtype="str")
DIGITS = pd.Series(DAYS.strftime("%Y%m%d").astype("int64"))
FORMATS = {
    "texts": (GERMAN, "%d.%m.%Y"),
    "objects": (GERMAN.astype(object), "%d.%m.%Y"),
    "arrow texts": (GERMAN.astype(pd.ArrowDtype(pa.string())), "%d.%m.%Y"),
    "iso texts": (DATES["texts"], "%Y-%m-%d"),
    "digits": (DIGITS.astype("str"), "%Y%m%d"),
    "integers": (DIGITS, "%Y%m%d"),
    "short integers": (DIGITS.astype("int32"), "%Y%m%d"),
    "integers with NA": (DIGITS.astype("Int64"), "%Y%m%d"),
    "times": (DATES["datetime64[us]"], "%d.%m.%Y"),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("nullable", [False, True])
def test_dates_come_back_in_the_format_that_they_came_in(kind: str, nullable: bool) -> None:
    values, format_ = FORMATS[kind]
    form = {**WEEKS, "format": format_, "nullable": nullable}
    sampled = fitted(values, form).sample(300)["day"]
    assert sampled.dtype == values.dtype
    assert {*map(type, sampled.dropna())} == {*map(type, values)}
    texts = sampled if kind == "times" else sampled.dropna().astype("str")
    days = pd.to_datetime(texts, format=None if kind == "times" else format_)
    assert (days.dt.strftime("%G-W%V") == "2026-W10").mean() > 0.9


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("nullable", [False, True])
def test_dates_in_a_format_are_asked_for_as_dates(kind: str, nullable: bool) -> None:
    """Seven hundred rows of one week; noise adds a row or two to others."""
    values, format_ = FORMATS[kind]
    fit = fitted(values, {**WEEKS, "format": format_, "nullable": nullable})
    for where in (
        "day >= '2026-03-02' and day < '2026-03-09'",
        "day = '2026-W10'",
        "day in ('2026-W10',)",
        "not day != '2026-W10'",
    ):
        count = fit.count(where)
        assert (count.value, count.basis) == (pytest.approx(700, abs=30), "measured")
    middle = (DAYS[3] - pd.Timestamp(0)).days
    assert fit.quantile("day", 0.5).value == pytest.approx(middle, abs=1)
    for text in "05.03.2026", "2026-03", "99":
        with pytest.raises(InvalidParameter, match=r"compares \w+, a column of dates, with"):
            fit.count(f"day >= '{text}'")


@pytest.mark.parametrize("format_", ["%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S %z", "%Y-%j %H%M%S"])
def test_times_in_a_format_are_on_the_clock_of_their_zone(format_: str) -> None:
    noon = pd.Series(NOON_OF_ZURICH.strftime(format_), dtype="str")
    form = {"type": "timestamp", "bounds": ["2026-03-02", "2026-03-08"], "every": "hour"}
    fit = fitted(noon, {**form, "zone": "Europe/Zurich", "format": format_})
    assert fit.count("day >= '2026-03-04 12:00' and day < '2026-03-04 13:00'").value > 80
    assert fit.count("day = '2026-03-04T12'").value > 80


def test_a_mean_of_dates_by_year_has_two_ends() -> None:
    """Years are numbers too, but no bounds of days since 1970."""
    form = {"bounds": ["2020-01-01", "2026-12-31"], "every": "year"}
    days = (pd.Timestamp("2026-07-02") - pd.Timestamp(0)).days
    mean = fitted(DATES["texts"], form).mean("day")
    assert mean.value == pytest.approx(days, abs=60)
    assert mean.low < mean.value < mean.high


@pytest.mark.parametrize(("type_", "format_"), [("int64", "%d.%m.%Y"), ("int16", "%Y%m%d")])
def test_integers_that_no_format_fits_are_no_error(type_: str, format_: str) -> None:
    """Noise alone has rows of them."""
    form = {**WEEKS, "format": format_, "nullable": False}
    sampled = fitted(pd.Series([1], dtype=type_), form).sample(9)["day"]
    assert sampled.astype("str").str.fullmatch("2026(....|-..-..)").all()


def test_missing_date_of_an_array_of_texts_is_no_text() -> None:
    rows = np.array([["2026-03-04"], ["never"]] * 300)
    sampled = copier(domain={"x": {**WEEKS, "nullable": True}}, epsilon=9).fit(rows).sample(400)
    assert 0.4 < sampled["x"].isna().mean() < 0.6
    assert sampled["x"].dropna().str.fullmatch("2026-..-..").all()


@pytest.mark.parametrize("kind", ["datetime64[ns]", "arrow"])
def test_declared_years_may_be_beyond_nanoseconds(kind: str) -> None:
    form = {"bounds": ["2026-01-01", "9999-12-31"], "every": "year", "nullable": False}
    arrow = pd.ArrowDtype(pa.timestamp("ns"))
    values = DATES["datetime64[ns]"].astype(arrow if kind == "arrow" else kind)
    years = fitted(values, form).sample(3000)["day"].map(lambda day: day.year)
    assert years.eq(2026).mean() > 0.1
    assert years.max() > 2262


@pytest.mark.parametrize(
    "values",
    [[date(2026, 3, 4), datetime(2026, 3, 5, 12), "2026-03-06"], [pd.NaT, "2026-02-30", 7.5]],
)
def test_objects_are_read_one_by_one_and_none_is_an_error(values: list[object]) -> None:
    synthesizer = fitted(pd.Series(values, dtype=object), WEEKS)
    is_known = isinstance(values[0], date) and values[0] is not pd.NaT
    known = synthesizer.sample()["day"].notna()
    assert (known.sum() > 200) == is_known
    assert len(known) > 200


def test_missing_dates_are_a_cell_and_come_back_as_nothing() -> None:
    values = pd.Series([pd.Timestamp("2026-03-04"), pd.NaT])
    result = fitted(values, {**WEEKS, "nullable": True}).sample(400)["day"]
    assert result.dtype == values.dtype
    assert 0.4 < result.isna().mean() < 0.6


def test_times_of_a_clock_are_cut_by_the_hours_of_its_zone() -> None:
    form = {"bounds": ["2026-03-04", "2026-03-04"], "every": "hour", "zone": "Europe/Zurich"}
    values = pd.Series(pd.to_datetime(["2026-03-04T11:30Z"]))
    assert fitted(values, form).marginal("day")["probability"].idxmax() == "2026-03-04T12"


SECRET = "hapaxlegomenon"
DISCOVERING = ("levels", "bounds", "quantiles")
STANDARD = {"domain": "discover", "epsilon": 1, "discover": None}
TENTH = Fraction(1, 10)
COST = {"epsilon": "1", "delta": 1e-6}


def city(rows: int = 6000) -> pd.DataFrame:
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


finder = partial(households.copier, domain=OPEN, epsilon=3, discover=COST, on_unknown="keep")


def test_levels_bounds_and_quantiles_are_discovered():
    fitted = finder().fit(city())
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
        (STANDARD, "its domain is discovered for ε=0.1 and δ=1e-9 of that", TENTH, TENTH**9),
    ],
)
def test_discovery_costs_a_part_of_epsilon(parameters: Any, promise: str, epsilon: Any, delta: Any):
    fitted = finder(**parameters).fit(city())
    queries = [spend for spend in fitted.spends_ if spend.what.partition(" ")[0] in DISCOVERING]
    assert sum(spend.epsilon for spend in queries) == epsilon
    assert sum(spend.epsilon for spend in fitted.spends_) == fitted.epsilon
    assert sum(spend.delta for spend in fitted.spends_) == delta
    assert promise in repr(fitted)


def test_types_of_the_frame_decide_what_is_discovered():
    rows = city().assign(zip=np.array(["01234", "00501", "10001"])[np.arange(6000) % 3])
    fitted = finder(domain="discover").fit(rows)
    assert set(fitted.discovered_) == {"zone", "fare", "age", "sex", "zip"}
    assert fitted.discovered_["sex"]["levels"] == ("f", "m", "other")
    assert fitted.discovered_["zip"]["levels"] == ("00501", "01234", "10001", "other")
    assert "bounds" in fitted.discovered_["fare"]
    assert fitted.sample(10).dtypes.astype(str).tolist() == rows.dtypes.astype(str).tolist()
    assert sum(spend.epsilon for spend in fitted.spends_) == 3
    # Numbers have no levels to discover, and spend no δ.
    numbers = finder(domain="discover").fit(city()[["fare", "age"]].to_numpy())
    assert set(numbers.discovered_) == {"x0", "x1"}
    assert sum(spend.delta for spend in numbers.spends_) == 0
    assert sum(spend.epsilon for spend in numbers.spends_) == 3


def test_levels_that_nobody_reaches_are_other_with_a_warning():
    with pytest.warns(WeakSignal, match="levels of zone: no text has the about"):
        fitted = finder().fit(city(40))
    assert fitted.discovered_["zone"]["levels"] == ("other",)
    assert set(fitted.sample()["zone"].dropna()) == {"other"}


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_ranges_of_dates_are_discovered(zone: str | None):
    days = pd.Series(pd.date_range("2025-03-01", "2026-06-30", 4000, tz=zone))
    fitted = finder(domain="discover", discover=None).fit(pd.DataFrame({"day": days}))
    assert fitted.discovered_["day"]["bounds"] == ("2025-01-01", "2026-12-31T23:59:59")
    sample = fitted.sample(2000)["day"]
    assert sample.dtype == days.dtype
    assert abs(sample.mean() - days.mean()) < pd.Timedelta(days=9)


def test_constraints_hold_with_a_discovered_domain():
    never = {"never": [{"sex": "f", "walks": "no"}]}
    rows = city().assign(walks=np.where(city()["sex"] == "f", "yes", "no"))
    domain = {**OPEN, "walks": ["yes", "no"]}
    table = finder(domain=domain, constraints=never).fit(rows).sample()
    assert not ((table["sex"] == "f") & (table["walks"] == "no")).any()
    with pytest.raises(InvalidParameter, match="attributes with declared levels or bins"):
        finder(constraints={"never": [{"sex": "f", "zone": "Ried"}]}).fit(city())


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
    some = open_box(bounds={"x": (0, 200), "y": "discover"}).fit(villages())
    assert some.bounds_[0].tolist() == [0, 200]
    assert some.spends_[0].what == "bounds of y"


@pytest.mark.parametrize(
    ("discover", "cost"), [({"epsilon": "0.5"}, Fraction(1, 2)), (None, Fraction(1, 5))]
)
def test_what_bounds_cost_is_a_part_of_epsilon(discover: Any, cost: Fraction):
    spends = open_box(discover=discover).fit(villages()).spends_
    assert sum(spend.epsilon for spend in spends) == 2
    assert [spend.what for spend in spends[:2]] == ["bounds of x", "bounds of y"]
    assert sum(spend.epsilon for spend in spends[:2]) == cost


def test_bounds_of_too_few_rows_are_a_guess_that_says_so():
    with pytest.warns(WeakSignal, match="bounds of x: no power of two has a noisy count of the"):
        fitted = open_box().fit(villages()[:3])
    assert (fitted.bounds_[:, 0] < fitted.bounds_[:, 1]).all()
