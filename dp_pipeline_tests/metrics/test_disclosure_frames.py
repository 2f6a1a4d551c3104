"""Frames whose index is not 0, 1, 2, …: where checkers that look rows up by label go wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.metrics.disclosure import DisclosureReport, disclosure_report

LEVELS = ["f", "m", "missing"]
DISEASES = ["cold", "flu", "hiv"]

PEOPLE = pd.DataFrame(
    {
        "sex": ["f", "m", "f", "m", "f", "m", "f", "m"],
        "disease": ["flu", "flu", "hiv", "flu", "cold", "flu", "cold", "hiv"],
    }
)
"""By place: women have three diseases, men two. Where labels are taken for places, others."""

orders = st.permutations(range(len(PEOPLE)))


def report_of(frame: pd.DataFrame) -> DisclosureReport:
    sex = frame["sex"].fillna("missing").map(LEVELS.index).to_numpy(np.int64)
    disease = frame["disease"].map(DISEASES.index).to_numpy(np.int64)
    return disclosure_report(sex[:, None], disease, labels=3, ordered=True, k=2)


def distinct_by_index_label(frame: pd.DataFrame) -> int:
    """The mutant: labels of the index are taken for places."""
    groups = frame.groupby("sex").groups.values()
    return min(frame["disease"].iloc[list(group)].nunique() for group in groups)


@settings(deadline=None)
@given(order=orders)
def test_a_permuted_frame_has_the_measures_of_the_frame(order: list[int]) -> None:
    assert report_of(PEOPLE.iloc[order]).facts() == pytest.approx(report_of(PEOPLE).facts())


@settings(deadline=None)
@given(order=orders, kept=st.sets(st.integers(0, 7), min_size=1))
def test_a_filtered_frame_has_the_measures_of_its_own_rows(
    order: list[int], kept: set[int]
) -> None:
    some = PEOPLE.iloc[[at for at in order if at in kept]]
    counted = report_of(some.reset_index(drop=True)).facts()
    assert report_of(some).facts() == pytest.approx(counted, nan_ok=True)
    assert report_of(some).rows == len(kept)


def test_a_measure_that_looks_rows_up_by_index_label_is_caught() -> None:
    order = [1, 0, 3, 2, 5, 4, 7, 6]
    assert distinct_by_index_label(PEOPLE) == report_of(PEOPLE).distinct_l == 2
    assert report_of(PEOPLE.iloc[order]).distinct_l == 2
    men_first = PEOPLE.iloc[[1, 3, 5, 0, 7, 2, 4, 6]]
    assert distinct_by_index_label(men_first) != report_of(men_first).distinct_l


def test_a_row_with_a_missing_value_is_measured_and_not_dropped() -> None:
    one_missing = PEOPLE.assign(sex=["f", "m", None, "m", "f", "m", "f", "m"])
    dropped = one_missing.groupby("sex").size().min()
    assert (report_of(one_missing).k, report_of(one_missing).rows, dropped) == (1, 8, 3)
