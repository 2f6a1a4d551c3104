"""Any rows give a valid release, and nothing but the noisy answers depends on them.

No value of a row is in an error, a warning or a fitted estimator, whatever its type.
"""

import pickle
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import time
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.estimators import InvalidParameter, PrivateKMeans, PrivateSynthesizer, WeakSignal
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline_tests.estimators import households, people
from dp_pipeline_tests.estimators.households import PATIENTS, VILLAGE, copier, refusal, selector
from dp_pipeline_tests.estimators.people import BOX, VILLAGES, in_columns, private
from dp_pipeline_tests.instruments import ForcedNoise

SECRET = "patient Q7"


class FadingNoise(ForcedNoise):
    """Forced answers that get smaller: trees grow, and stop."""

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        self.most = max(1, self.most // 2)
        return super().discrete_laplace(counts, scale)


@dataclass(frozen=True)
class Kind:
    """A kind of private fit.

    of        the names of the rows that a method is tried with
    forced    noise that makes answers which no row decides
    forms     name → what is no table of rows
    """

    make: Callable[..., Any]
    estimator: type
    fits: list[dict[str, Any]]
    rows: Mapping[str, Any]
    of: Callable[[str], Iterable[str]]
    many: Any
    forced: Callable[[], Any]
    require_valid: Callable[[Any], None]
    answers: Callable[[Any], Any]
    forms: Mapping[str, Any]


CENTRES = Kind(
    make=private,
    estimator=PrivateKMeans,
    fits=[{"method": name} for name in people.METHODS],
    rows={
        f"{name}, in {d}": in_columns(rows, d)
        for d in (2, 1, 8)
        for name, rows in people.AWKWARD.items()
    },
    of=lambda _: CENTRES.rows,
    many=pd.DataFrame(np.random.default_rng(1).uniform(*BOX, size=(300, 2)), columns=["a", "b"]),
    forced=lambda: FadingNoise(5, 60),
    require_valid=lambda fit: people.require_centres_in_the_box(fit, d=fit.n_features_in_),
    answers=lambda fit: [fit.predict(VILLAGES).tolist(), fit.recluster(2).tolist()],
    forms={
        "texts": [[SECRET, "a"], ["b", "c"]],
        "a text among numbers": np.array([[1.0, SECRET]], dtype=object),
        "a text column": pd.DataFrame({"a": [1.0], "b": [SECRET]}),
        "a category": pd.DataFrame({"a": [1.0], "b": pd.Categorical([SECRET])}),
        "complex numbers": np.array([[271828.0 + 1j, 1.0]]),
        "dates": pd.DataFrame({"a": [1.0], "b": np.array(["2718-02-08"], "datetime64[s]")}),
        "one dimension": [271828.0, 2.0],
        "three dimensions": np.full((2, 2, 2), 271828.0),
        "one column of a frame": pd.DataFrame({"a": [271828.0]})["a"],
        "no columns": np.zeros((3, 0)),
        "ragged rows": [[271828.0, 1.0], [3.0]],
        "a name twice": pd.DataFrame([[271828.0, 1.0]], columns=["a", "a"]),
        "sparse rows": csr_array(VILLAGES),
        "nothing": None,
    },
)
TABLES = Kind(
    make=copier,
    estimator=PrivateSynthesizer,
    fits=[
        *({"method": name} for name in households.METHODS),
        *({"method": name, "delta": 1e-9} for name in households.CONCENTRATED),
    ],
    rows=households.AWKWARD,
    of=households.awkward_for,
    many=VILLAGE.sample(300, replace=True, random_state=1),
    forced=lambda: ForcedNoise(5),
    require_valid=lambda fit: households.require_valid(fit.sample()),
    answers=lambda fit: [fit.sample().to_json(), fit.sample(7).to_json()],
    forms={
        "an array": np.array([[271828.0]]),
        "a series": pd.Series(["271828"], name="tenure"),
        "a mapping": {"tenure": [SECRET]},
        "nothing": None,
        "a column missing": VILLAGE.drop(columns="rent").assign(other=SECRET),
        "a name twice": pd.concat([VILLAGE, VILLAGE[["rent"]]], axis=1),
        "columns of two levels": pd.concat({"a": VILLAGE}, axis=1),
    },
)
KINDS = {"centres": CENTRES, "tables": TABLES}
FITS = [
    pytest.param(kind, fit, id=" ".join(map(str, fit.values())))
    for kind in KINDS.values()
    for fit in kind.fits
]
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
every_fit = pytest.mark.parametrize(("kind", "parameters"), FITS)


@pytest.mark.chain
@every_fit
def test_any_rows_give_a_valid_release_without_a_warning(kind: Kind, parameters: dict[str, Any]):
    for rows in kind.of(parameters["method"]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # What noisy counts say is no row's.
            warnings.simplefilter("ignore", WeakSignal)
            fitted = kind.make(**parameters).fit(kind.rows[rows])
        kind.require_valid(fitted)
        if "delta" not in parameters:
            assert sum(spend.epsilon for spend in fitted.spends_) == 1


def outcome(estimator: Any, rows: Any) -> tuple[object, ...]:
    """All that a fit shows: the fitted state to the last byte, and every warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(rows)
    state = estimator.set_params(noise=None).__getstate__()
    return pickle.dumps(state), [str(item.message) for item in caught]


def differ(estimators: Iterable[Any], populations: Iterable[Any]) -> bool:
    """Whether fits of some populations show anything by which they can be told apart."""
    first, *alternatives = map(outcome, estimators, populations)
    return any(each != first for each in alternatives)


def depends_on_the_order(kind: Kind, estimator: type, **parameters: Any) -> bool:
    """Whether the same rows in another order give another release under the same noise."""
    orders = kind.many, kind.many.sample(frac=1, random_state=2), kind.many[::-1]
    argument = kind.make(**parameters).get_params()
    return differ((estimator(**argument) for _ in orders), orders)


def shows_the_rows(kind: Kind, estimator: type, **parameters: Any) -> bool:
    """Whether the outcome differs between populations of the same types, which are public, when
    the noisy answers do not.
    """
    populations = [kind.rows[name] for name in kind.of(parameters.get("method", "independent"))]
    argument = kind.make(**parameters).get_params()
    types: dict[object, list[Any]] = {}
    for rows in populations:
        types.setdefault((rows.shape[1], str(getattr(rows, "dtypes", ""))), []).append(rows)
    return any(
        differ((estimator(**{**argument, "noise": kind.forced()}) for _ in alike), alike)
        for alike in types.values()
    )


@pytest.mark.chain
@every_fit
def test_rows_in_another_order_give_the_same_release(kind: Kind, parameters: dict[str, Any]):
    assert not depends_on_the_order(kind, kind.estimator, **parameters)


@every_fit
def test_a_fit_shows_the_noisy_answers_and_nothing_else(kind: Kind, parameters: dict[str, Any]):
    assert not shows_the_rows(kind, kind.estimator, **parameters)


@pytest.mark.parametrize(("most", "last"), [(60, "tree"), (1000, "residuals")])
def test_so_do_centres_of_a_weak_and_a_strong_signal(most: int, last: str):
    populations = [in_columns(rows, 3) for rows in people.AWKWARD.values()]
    assert not differ((private(noise=FadingNoise(5, most)) for _ in populations), populations)
    forced = private(noise=FadingNoise(5, most))
    assert people.quiet_fit(forced, populations[-1]).spends_[-1].what.startswith(last)


class ReadsTheFirstRows:
    """A mutant, as all below."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(X[:50], y)  # type: ignore[misc]


class KeepsTheRows:
    def fit(self, X: Any, y: Any = None) -> Any:
        self.rows_ = X
        return super().fit(X, y)  # type: ignore[misc]


class WarnsOfFewRows:
    def fit(self, X: Any, y: Any = None) -> Any:
        if len(X) < 2:
            warnings.warn("few rows", stacklevel=2)
        return super().fit(X, y)  # type: ignore[misc]


@every_kind
def test_an_estimator_that_depends_on_the_order_is_caught(kind: Kind):
    mutant = type("Mutant", (ReadsTheFirstRows, kind.estimator), {})
    assert depends_on_the_order(kind, mutant)


@pytest.mark.parametrize(
    ("kind", "shows"),
    [(CENTRES, KeepsTheRows), (CENTRES, WarnsOfFewRows), (TABLES, WarnsOfFewRows)],
)
def test_an_estimator_that_shows_the_rows_is_caught(kind: Kind, shows: type):
    assert shows_the_rows(kind, type("Mutant", (shows, kind.estimator), {}))


WRONG_FORMS = [
    pytest.param(kind, rows, id=name)
    for kind in KINDS.values()
    for name, rows in kind.forms.items()
]


@pytest.mark.parametrize(("kind", "rows"), WRONG_FORMS)
def test_a_wrong_form_is_refused_in_one_line_without_a_value(kind: Kind, rows: Any):
    with pytest.raises(InvalidParameter, match=r"^X: ") as caught:
        kind.make().fit(rows)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value) and "2718" not in str(caught.value)


@every_kind
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("noise", "fit"), [(None, True), ("exact", True), ("seeded:7", False), (SeededNoise(7), False)]
)
def test_fit_survives_a_pickle(kind: Kind, noise: Any, fit: bool):
    fitted = kind.make(noise=noise).fit(kind.many)
    # A source of one's own need not survive.
    loaded = pickle.loads(pickle.dumps(fitted.set_params(noise=None)))
    assert loaded.fit_for_release_ is fitted.fit_for_release_ is fit
    assert loaded.spends_ == fitted.spends_
    assert kind.answers(loaded) == kind.answers(fitted)


@every_kind
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_clone_with_a_source_goes_on_with_its_noise(kind: Kind):
    first = kind.make(noise=SeededNoise(7))
    released = [kind.answers(item.fit(kind.many)) for item in (first, clone(first))]
    assert released[0] != released[1]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: private().predict(VILLAGES),
        lambda: private().transform(VILLAGES),
        lambda: private().recluster(3),
        lambda: selector().transform(PATIENTS),
        lambda: copier().sample(),
        lambda: copier().marginal("rent"),
    ],
)
def test_before_a_fit_there_is_nothing_to_answer_with(ask: Callable[[], Any]):
    with pytest.raises(NotFittedError):
        ask()


DAYS = {"bounds": ["2026-01-01", "2026-12-31"], "every": "month"}
FORMS: dict[str, Any] = {
    "texts": ["a", "b"],
    "numbers": {"bounds": [0, 9], "bins": 3},
    "days": DAYS,
}
FAR_SECONDS = pa.array([2**60, 5], pa.timestamp("s"))
COLUMNS: dict[str, pa.Array] = {
    "days beyond Python": pa.array([2**31 - 1, 5], pa.date32()),
    "times beyond Python": FAR_SECONDS,
    "categories of times": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), FAR_SECONDS),
    "nulls": pa.nulls(2),
}
REFUSED: dict[str, Any] = {
    "bytes": pa.array([b"\xffsecret", b"a"]),
    "lists": pa.array([["secret"], ["a"]]),
    "mappings": pa.array([{"secret": 1}]),
    "times": pa.array([time(1)]),
    "lists of objects": pd.Series([["secret"], ["a"]]),
    "periods": pd.Series(pd.period_range("2718", periods=2, freq="D")),
    "complex numbers": pd.Series([271828 + 1j]),
}


def synthesizer(domain: Any, rows: Any, **options: Any) -> PrivateSynthesizer:
    return copier(domain=domain, on_unknown="keep", **options).fit(rows)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_any_type_are_fitted_and_sampled(name: str, form: str) -> None:
    rows = pa.table({"c": COLUMNS[name]})
    assert synthesizer({"c": FORMS[form]}, rows, method="independent").sample(3).num_rows == 3


@pytest.mark.parametrize("domain", ["discover", {"c": ["a", "b"]}])
@pytest.mark.parametrize("name", REFUSED)
def test_type_without_a_reading_is_refused_before_a_charge(name: str, domain: Any) -> None:
    column = REFUSED[name]
    rows = pa.table({"c": column}) if isinstance(column, pa.Array) else pd.DataFrame({"c": column})
    with refusal(match="column 'c': expected texts, truth values") as error:
        synthesizer(domain, rows)
    assert "secret" not in str(error.value)


def test_longest_text_is_not_in_a_fitted_estimator() -> None:
    plain = np.array([["2026-02-01"]] * 9)
    long = np.array([["2026-02-01"]] * 9 + [["a secret that is long"]])
    fits = [synthesizer({"x": DAYS}, rows) for rows in (plain, long)]
    assert [fit._columns for fit in fits[:1]] == [fit._columns for fit in fits[1:]]
    assert b"<U2" not in pickle.dumps(fits[1]._columns)


def test_large_number_warns_of_nothing() -> None:
    rows = np.array([[1.0]] * 200 + [[np.longdouble("1e4000")]], dtype=np.longdouble)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        synthesizer({"a": "discover"}, rows, discover={"epsilon": 0.5, "delta": 1e-6})


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_text_is_not_in_an_error_of_kmeans(method: str) -> None:
    kmeans = PrivateKMeans(1, epsilon=1, bounds=(0, 1), noise="seeded:1").fit([[1.0]] * 9)
    with refusal(match=r"X: the columns must be real numbers, but column \S+ has type"):
        getattr(kmeans, method)([["secret"]])


def test_refused_fit_leaves_kmeans_as_it_was() -> None:
    kmeans = PrivateKMeans(1, epsilon=1, bounds=(0, 1), noise="seeded:1").fit([[1.0]] * 9)
    with refusal():
        kmeans.set_params(method="none").fit(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    assert kmeans.n_features_in_ == 1
    assert kmeans.predict([[1.0]]).tolist() == [0]


def test_protected_fit_plans_only_from_protected_fits() -> None:
    rows = pd.DataFrame({"a": ["x", "y"] * 50})
    seeded = synthesizer({"a": ["x", "y"]}, rows)
    with refusal(match="plan_from: the noise of the other fit is from neither"):
        synthesizer({"a": ["x", "y"]}, rows, noise=None, plan_from=seeded)
