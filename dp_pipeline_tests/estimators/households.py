"""Households of a village and twelve patients, with estimators of both."""

from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from dp_pipeline.estimators import InvalidParameter, KAnonymousSelector, PrivateSynthesizer
from dp_pipeline.models import MODELS
from dp_pipeline.models.tables.base import TableModel

METHODS = [name for name, model in MODELS.items() if issubclass(model, TableModel)]
CONCENTRATED = [name for name in METHODS if MODELS[name].accounts_in_rho]
NAN, INF = float("nan"), float("inf")

refusal = partial(pytest.raises, InvalidParameter)

DECLARED: dict[str, Any] = {
    "tenure": ["owner", "tenant"],
    "heating": {"levels": ["gas", "wood", "else"], "other": "else", "nullable": True},
    "children": 4,
    "garden": pd.CategoricalDtype([False, True]),
    "rent": {"bounds": [0, 2000], "bins": 4},
    "built": {"edges": [1900, 1950, 1980, 2020], "integer": True, "nullable": True},
}
VILLAGE = pd.DataFrame(
    {
        "tenure": ["owner", "tenant", "tenant", "owner", "tenant", "owner"],
        "heating": ["gas", "wood", None, "sun", "gas", "wood"],
        "children": [0, 1, 3, 2, 0, 1],
        "garden": [True, False, False, True, False, True],
        "rent": [0.0, 700.0, 950.5, 0.0, 1200.0, 99.0],
        "built": [1910, 1960, None, 2000, 1979, 1980],
    }
)
OPEN = {
    "zone": {"levels": "discover", "at_most": 20},
    "fare": {"bounds": "discover", "unit": 0.5, "bins": {"quantiles": 8}},
    "age": {"bounds": [0, 80], "bins": {"quantiles": 4}, "integer": True},
    "sex": ["f", "m"],
}


class Hostile:
    """A value that no library knows, and that is no good at anything."""

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise RuntimeError("row 271828")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("row 271828")


class NoClass:
    """An object whose class cannot be asked for."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("a row")


def village(**columns: Any) -> pd.DataFrame:
    """The village with other values in some columns; a list is kept as it is, of any values."""
    remaining = {
        name: pd.Series(values, VILLAGE.index, dtype=object) if isinstance(values, list) else values
        for name, values in columns.items()
    }
    return VILLAGE.assign(**remaining)


def filled(value: Any, *, rows: int = 6) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([value] * rows, dtype=object) for name in DECLARED})


ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**53 - 2, 2**53 + 2),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.sampled_from(["1e3", " 7 ", "1.0", "-0", "nan", "inf", "1_0", [1], pd.NaT, pd.NA]),
    st.sampled_from([1 + 0j, 1j, Decimal("1.50"), Decimal(7), np.float32(0.1)]),
)
ODD = [Hostile(), [1], {}, b"gas", 1j, 10**5000, -(10**400), Decimal("sNaN"), "\ud800", "\0"]

AWKWARD: dict[str, pd.DataFrame] = {
    "nobody": VILLAGE[:0],
    "nobody, without types": pd.DataFrame({name: [] for name in DECLARED}),
    "one household": VILLAGE[:1],
    "one household a thousand times": VILLAGE[:1].loc[[0] * 1000],
    "one level": village(tenure="owner", children=0, garden=True),
    "nothing known": filled(None),
    "nothing but NaN": filled(NAN),
    "nothing but NA": filled(pd.NA),
    "levels never seen": village(tenure="squatter", children=77),
    "endless numbers": village(rent=[INF, -INF, 1e300, -5.0, NAN, 0.0]),
    "texts for numbers": village(rent="a lot", children="three", built="long ago"),
    "numbers for texts": village(tenure=1.5, heating=7),
    "dates": filled(pd.Timestamp("2020-01-01")),
    "odd values": village(**dict.fromkeys(DECLARED, ODD[:6])),
    "more odd values": village(**dict.fromkeys(DECLARED, ODD[4:])),
    "the village": VILLAGE,
}


def awkward_for(method: str) -> list[str]:
    """All of them for one method, a few for others: codes of rows do not depend on the method."""
    few = ["nobody", "one household a thousand times", "odd values", "the village"]
    return [*AWKWARD] if method == "independent" else few


def copier(**parameters: Any) -> PrivateSynthesizer:
    """Of the village at ε = 1, reproducible unless said otherwise."""
    standard: dict[str, Any] = {
        "domain": DECLARED,
        "epsilon": 1,
        "noise": "seeded:7",
        "random_state": 0,
        "on_unknown": "drop",
    }
    return PrivateSynthesizer(**{**standard, **parameters})


def require_valid(frame: pd.DataFrame) -> None:
    """The declared columns in order, with declared values alone."""
    assert list(frame.columns) == list(DECLARED)
    assert frame["garden"].dtype == DECLARED["garden"]
    plain = frame.drop(columns=["heating", "built"])
    assert not plain.isna().to_numpy().any()
    assert set(frame["tenure"]) <= {"owner", "tenant"}
    assert set(frame["heating"].dropna()) <= {"gas", "wood", "else"}
    assert set(frame["children"]) <= {0, 1, 2, 3}
    assert frame["rent"].between(0, 2000).all()
    assert frame["built"].dropna().between(1900, 2020).all()
    assert frame.index.equals(pd.RangeIndex(len(frame)))


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
