"""Two villages on a map, estimators that cluster them, and noise that does not depend on them."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.estimators import PrivateKMeans
from dp_pipeline.estimators.rows import PreparedRows, prepare_rows, table_to_arrow
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.base import Clustering

METHODS = [name for name, model in MODELS.items() if issubclass(model, Clustering)]
BOX = (0.0, 8.0)
VILLAGES = np.array([[1.0, 1.0], [1.5, 1.0], [1.0, 1.5], [6.0, 6.5], [6.5, 6.0], [6.0, 6.0]])
NAN, INF = float("nan"), float("inf")
AWKWARD: dict[str, np.ndarray] = {
    "nobody": np.zeros((0, 2)),
    "one person": np.array([[1.0, 2.0]]),
    "one person less than centres": VILLAGES[:2],
    "one place for all": np.full((50, 2), 3.0),
    "a constant column": np.column_stack([np.full(6, 2.0), VILLAGES[:, 1]]),
    "everybody outside the box": VILLAGES + 100,
    "a corner a hundred times": np.tile([8.0, 0.0], (100, 1)),
    "a missing number in every row": np.array([[NAN, 1.0], [1.0, NAN]]),
    "endless numbers": np.array([[INF, -INF], [1.0, INF], [-INF, NAN]]),
    "two villages": VILLAGES,
}
"""Name → rows; three centres are asked of them."""


def rows_of(domain: Domain, values: Sequence[Any]) -> PreparedRows:
    """The rows of some columns as an estimator counts them, a row a person."""
    return prepare_rows(DatasetSpec.of_domain("rows", domain), table_to_arrow(domain, values))


def in_columns(rows: np.ndarray, d: int) -> np.ndarray:
    """The same people in d columns: the two they have, again and again."""
    return rows[:, np.arange(d) % 2]


def private(**parameters: Any) -> PrivateKMeans:
    """Three centres in the box of the villages at ε = 1, reproducible unless said otherwise."""
    standard: dict[str, Any] = {
        "n_clusters": 3,
        "epsilon": 1,
        "bounds": BOX,
        "noise": "seeded:7",
        "random_state": 0,
    }
    return PrivateKMeans(**{**standard, **parameters})


def quiet_fit(estimator: PrivateKMeans, rows: Any) -> PrivateKMeans:
    """Fitted; few rows are no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimator.fit(rows)


def require_centres_in_the_box(estimator: PrivateKMeans, *, k: int = 3, d: int = 2) -> None:
    centres = estimator.cluster_centers_
    assert centres.shape == (k, d)
    assert np.isfinite(centres).all()
    assert ((centres >= BOX[0]) & (centres <= BOX[1])).all()
