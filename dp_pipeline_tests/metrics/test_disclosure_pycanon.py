"""Measures against ``pycanon``, the best-known checker of k-anonymous tables.

It needs ``pip install 'dp-pipeline[anonymity]'``; without it, loops over the rows are what they
are compared with (``test_disclosure``). Frames are given to it with an index 0, 1, 2, … and
without missing values: it takes labels of the index for places, and it drops rows with NaN.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.metrics.disclosure import DisclosureReport, disclosure_report, recursive_c
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses

checker: Any = pytest.importorskip("pycanon.anonymity", reason="expected the extra anonymity")

COLUMNS = ["a", "b"]


@pytest.fixture(params=range(12))
def table(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    """Codes of two columns and a label of up to seven values, each of which occurs."""
    rng = np.random.default_rng(request.param)
    rows = int(rng.integers(40, 400))
    codes = rng.integers(0, [3, 1 + request.param // 3], (rows, 2))
    skewed = (codes[:, 0] + rng.geometric(0.4, rows)) % (2 + request.param % 6)
    return codes, np.unique(skewed, return_inverse=True)[1]


def frame_of(codes: np.ndarray, labels: Any) -> pd.DataFrame:
    return pd.DataFrame(codes, columns=COLUMNS).assign(label=labels)


def report_of(codes: np.ndarray, target: np.ndarray) -> DisclosureReport:
    return disclosure_report(codes, target, labels=int(target.max()) + 1, ordered=True, k=5)


def test_it_finds_the_same_measures(table: tuple[np.ndarray, np.ndarray]) -> None:
    codes, target = table
    numbers, words = frame_of(codes, target), frame_of(codes, [f"label {x}" for x in target])
    report = report_of(codes, target)
    theirs = (words, COLUMNS, ["label"])
    assert checker.k_anonymity(words, COLUMNS) == report.k
    assert checker.alpha_k_anonymity(*theirs) == pytest.approx((report.alpha, report.k))
    assert checker.l_diversity(*theirs) == report.distinct_l
    assert checker.t_closeness(*theirs) == pytest.approx(report.t_closeness)
    ordered = checker.t_closeness(numbers, COLUMNS, ["label"])
    assert ordered == pytest.approx(report.ordered_t_closeness)
    # It looks at labels that a class has, and says nothing of those that it lacks.
    assert checker.delta_disclosure(*theirs) == pytest.approx(report.present_delta_disclosure)
    assert checker.basic_beta_likeness(*theirs) == pytest.approx(report.beta_likeness)
    # It rounds down, and what is a whole number but for its last digit may go either way.
    total = {math.floor(report.entropy_l + step) for step in (-1e-9, 1e-9)}
    assert checker.entropy_l_diversity(*theirs) in total


def test_pycanon_rounds_c_up_for_equal_labels() -> None:
    codes, target = np.repeat([[0, 0], [1, 0]], 6, axis=0), np.tile([0, 1, 2], 4)
    classes = EquivalenceClasses.of(codes, target, labels=3)
    theirs = checker.recursive_c_l_diversity(frame_of(codes, target), COLUMNS, ["label"])
    assert theirs == (math.floor(recursive_c(classes, diversity=3)) + 1, 3)


def test_its_c_of_other_labels_is_not_that_of_the_definition() -> None:
    """It puts the rarest label over the rest: three rows of four with one label pass as c = 1."""
    codes, target = np.zeros((4, 2), dtype=np.int64), np.array([0, 0, 0, 1])
    classes = EquivalenceClasses.of(codes, target, labels=2)
    assert recursive_c(classes, diversity=2) == 3
    theirs = checker.recursive_c_l_diversity(frame_of(codes, target), COLUMNS, ["label"])
    assert theirs == (1, 2)
