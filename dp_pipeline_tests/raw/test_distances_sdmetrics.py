"""Distances of columns and pairs against ``sdmetrics``, which many compare synthetic rows with.

Its TVComplement and ContingencySimilarity are one less our distances. It is in the extra ``test``;
without it, numbers that it has given (0.25.0) stand for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.raw.comparison import distances

SIZES = {"smokes": 2, "pet": 4, "age": 6}
PAIRS = [("smokes", "pet"), ("smokes", "age"), ("pet", "age")]
WAYS = [("smokes",), ("pet",), ("age",), *PAIRS]


def people(seed: int, rows: int) -> dict[str, np.ndarray]:
    """Codes that depend on each other, the last pet in the first table alone."""
    rng = np.random.default_rng(seed)
    smokes = rng.integers(0, 2, rows)
    pet = (smokes + rng.integers(0, 2 + (seed == 0), rows)) % 4
    return {"smokes": smokes, "pet": pet, "age": rng.binomial(5, 0.3 + 0.1 * seed, rows)}


REAL, OTHER = people(0, 500), people(1, 300)
SAID = {
    ("smokes",): 0.036666666667,
    ("pet",): 0.270666666667,
    ("age",): 0.201333333333,
    ("smokes", "pet"): 0.334,
    ("smokes", "age"): 0.201333333333,
    ("pet", "age"): 0.336666666667,
}
"""One less what sdmetrics 0.25.0 said of these two tables."""


def test_distances_are_one_less_what_sdmetrics_has_said():
    assert distances(REAL, OTHER, SIZES, WAYS) == pytest.approx(SAID, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_distances_are_one_less_what_sdmetrics_says(seed: int):
    columns: Any = pytest.importorskip(
        "sdmetrics.single_column", reason="sdmetrics is not installed: it is in the extra test"
    )
    pairs: Any = pytest.importorskip("sdmetrics.column_pairs")
    tables = [people(at, 200 + 50 * at) for at in (seed, seed + 1)]
    real, other = (pd.DataFrame(one).astype(str) for one in tables)
    told = {
        **{(n,): 1 - columns.TVComplement.compute(real[n], other[n]) for n in SIZES},
        **{
            way: 1 - pairs.ContingencySimilarity.compute(real[list(way)], other[list(way)])
            for way in PAIRS
        },
    }
    assert distances(*tables, SIZES, WAYS) == pytest.approx(told, abs=1e-8)
