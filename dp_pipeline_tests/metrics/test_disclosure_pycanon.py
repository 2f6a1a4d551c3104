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

from dp_pipeline.metrics.disclosure import disclosure_report

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


def test_it_finds_the_same_measures(table: tuple[np.ndarray, np.ndarray]) -> None:
    codes, target = table
    numbers = pd.DataFrame(codes, columns=COLUMNS).assign(label=target)
    words = numbers.assign(label=[f"label {x}" for x in target])
    report = disclosure_report(codes, target, labels=int(target.max()) + 1, ordered=True, k=5)
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
