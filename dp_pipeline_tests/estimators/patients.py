"""Twelve patients, and selectors of what is k-anonymous about them."""

from typing import Any

import pandas as pd

from dp_pipeline.estimators import KAnonymousSelector

WITHOUT_A_FOREST = (
    "hamdist_backward",
    "hamdist_forward",
    "hamdist_ratio",
    "kjig",
    "mutual_information",
)
PATIENTS = pd.DataFrame(
    {
        "age": [21.0, 25, 28, 33, 38, 39, 44, 47, 52, 55, 61, None],
        "sex": list("ffmmfmfmfmff"),
        "smokes": [False, True, True, False, True, False, True, True, False, True, False, True],
        "children": [0, 0, 1, 2, 1, 3, 2, 2, 0, 1, 4, 3],
    }
)
ILL = pd.Series(list("nnnnynyynyyy"), name="ill")
EDGES = {"age": [30, 40, 50]}


def selector(k: int = 3, **parameters: Any) -> KAnonymousSelector:
    """Reproducible unless said otherwise."""
    return KAnonymousSelector(k, **{"edges": EDGES, "random_state": 0, **parameters})


def class_sizes(release: pd.DataFrame) -> pd.DataFrame:
    """Rows, and different labels, of every class of a released frame, counted by pandas."""
    *columns, label = release.columns
    if not columns:
        return pd.DataFrame({"rows": [len(release)], "labels": [release[label].nunique()]})
    grouped = release.groupby(columns)[label]
    return pd.DataFrame({"rows": grouped.size(), "labels": grouped.nunique()})
