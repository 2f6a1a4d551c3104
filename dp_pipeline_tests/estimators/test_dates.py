"""Dates and times of frames: declared as texts, measured in cells, given back as they came."""

from __future__ import annotations

from datetime import date, datetime

import pandas as pd
import pyarrow as pa
import pytest

from dp_pipeline.estimators import PrivateSynthesizer

WEEKS = {"bounds": ["2026-01-01", "2026-12-31"], "every": "week"}
DAYS = pd.date_range("2026-03-02", periods=7, freq="D")

GIVEN = {
    "datetime64[ns]": pd.Series(DAYS).astype("datetime64[ns]"),
    "datetime64[us]": pd.Series(DAYS).astype("datetime64[us]"),
    "with a zone": pd.Series(DAYS.tz_localize("Europe/Zurich") + pd.Timedelta(hours=12)),
    "arrow days": pd.Series(DAYS.date, dtype=pd.ArrowDtype(pa.date32())),
    "arrow times with a zone": pd.Series(
        DAYS.tz_localize("Europe/Zurich") + pd.Timedelta(hours=12),
        dtype=pd.ArrowDtype(pa.timestamp("us", tz="Europe/Zurich")),
    ),
    "arrow times": pd.Series(DAYS, dtype=pd.ArrowDtype(pa.timestamp("us"))),
    "texts": pd.Series(DAYS.strftime("%Y-%m-%d"), dtype="str"),
}


def fitted(values: object, form: dict[str, object]) -> PrivateSynthesizer:
    frame = pd.DataFrame({"day": values})
    frame = pd.concat([frame] * 100, ignore_index=True)
    synthesizer = PrivateSynthesizer(
        domain={"day": form}, epsilon="10", method="independent", noise="seeded:7", random_state=0
    )
    return synthesizer.fit(frame)


@pytest.mark.parametrize("kind", GIVEN)
def test_dates_come_back_in_the_type_that_they_came_in(kind: str) -> None:
    """Seven hundred rows of one week: noise of scale 0.1 or 0.2 gives other weeks a row or two."""
    synthesizer = fitted(GIVEN[kind], WEEKS)
    result = synthesizer.sample(300)["day"]
    assert result.dtype == GIVEN[kind].dtype
    displayed = pd.to_datetime(result).dt.strftime("%G-W%V")
    assert (displayed == "2026-W10").mean() > 0.9
    assert synthesizer.marginal("day")["probability"].idxmax() == "2026-W10"


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
