"""The manners of scikit-learn, and docstrings that are whole and as the code is."""

import inspect
import pickle
import re
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import dp_pipeline as dp
from dp_pipeline import estimators
from dp_pipeline.estimators import KAnonymousSelector, PrivateKMeans, PrivateSynthesizer, WeakSignal
from dp_pipeline_tests.estimators.households import copier
from dp_pipeline_tests.estimators.people import VILLAGES, private, quiet_fit

FRAME = pd.DataFrame(VILLAGES, columns=["lat", "lon"])

NOT_HERE = {
    "check_estimators_empty_data_messages": "no rows are rows too: an error would tell of them",
    "check_estimators_nan_inf": "a row with NaN is dropped in fit: an error would tell of it",
    "check_dtype_object": "a column of objects is refused by its type, before a value is read",
}

NOT_WITHOUT_A_SEED = {"check_fit_idempotent": "every fit is a new draw of noise"}
OF_THE_SELECTOR = {
    "check_estimators_empty_data_messages": "without columns all rows are one class",
    "check_fit2d_1sample": "one row is fewer than k, which the error says in words of its own",
}
OF_THE_SYNTHESIZER = {name: NOT_HERE[name] for name in ["check_estimators_empty_data_messages"]}


def checks_not_passed(estimator: BaseEstimator) -> dict[str, str]:
    if isinstance(estimator, KAnonymousSelector):
        return OF_THE_SELECTOR
    if isinstance(estimator, PrivateSynthesizer):
        return OF_THE_SYNTHESIZER
    return NOT_HERE if estimator.noise == "seeded:7" else NOT_HERE | NOT_WITHOUT_A_SEED


EVERY_COLUMN = {"bounds": [-10, 10], "bins": 4}
ESTIMATORS = [
    PrivateKMeans(3, epsilon=1, bounds=(-100, 100), noise="seeded:7"),
    PrivateKMeans(3, epsilon=1, bounds=(-100, 100), noise="exact", method="dpqt_kmeans"),
    KAnonymousSelector(),
    KAnonymousSelector(2, edges=[-1, 0, 1], method="hamdist_ratio", diversity=2, suppress=0.1),
    KAnonymousSelector(2, method="cluster_k_anonymity"),
    copier(domain={...: EVERY_COLUMN}, method="independent", on_unknown="keep"),
    copier(domain={...: {**EVERY_COLUMN, "nullable": True}}, method="privbayes", noise="exact"),
]


@pytest.mark.usefixtures("two_folds")
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=checks_not_passed)
def test_the_checks_of_scikit_learn_pass(estimator: BaseEstimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NOT_HERE | NOT_WITHOUT_A_SEED)
def test_expected_failures_of_scikit_learn_fail(name: str):
    estimator = private(noise="exact", bounds=(-100, 100))
    check = getattr(estimator_checks, name)
    with pytest.raises((AssertionError, ValueError, TypeError)):
        check("PrivateKMeans", estimator)


def test_bounds_may_use_names_of_a_frame():
    estimator = quiet_fit(private(bounds={"lon": (0, 9), "lat": (0, 8)}), FRAME)
    assert estimator.feature_names_in_.tolist() == ["lat", "lon"]
    assert estimator.n_features_in_ == 2
    assert estimator.synopsis_.columns == ("lat", "lon")
    assert estimator.synopsis_.upper.max(axis=0) == pytest.approx([8, 9])


def test_a_frame_with_other_columns_is_refused_after_the_fit():
    estimator = quiet_fit(private(), FRAME)
    for frame in (FRAME.rename(columns={"lat": "north"}), FRAME.assign(height=0.0)):
        with pytest.raises(ValueError, match="feature names should match"):
            estimator.predict(frame)


def test_distances_have_names_and_can_be_a_frame():
    estimator = quiet_fit(private(), FRAME).set_output(transform="pandas")
    names = ["privatekmeans0", "privatekmeans1", "privatekmeans2"]
    assert estimator.get_feature_names_out().tolist() == names
    assert estimator.transform(FRAME).columns.tolist() == names


@pytest.fixture
def ends_by_sigterm() -> Iterator[None]:
    """Workers of a pool are ended by SIGTERM, which Dagster, once run here, makes an interrupt."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("ends_by_sigterm")
@pytest.mark.parametrize(("n_jobs", "first"), [(1, "fit 2 of it"), (2, "fit 1 of it")])
def test_grid_search_warns_once_and_ends_with_the_sum(n_jobs: int, first: str):
    grid = {"n_clusters": [1, 2, 3], "epsilon": [1, 2]}
    search = GridSearchCV(private(), grid, cv=3, n_jobs=n_jobs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Forked: a new interpreter would import everything again first.
        with parallel_config("multiprocessing"):
            search.fit(VILLAGES)
    (message,) = [str(warning.message) for warning in caught if warning.category is UserWarning]
    assert f"{first} and its clones: ε=" in message
    # Nine fits at 1, nine at 2, and the best one again; another process counts its own.
    best = search.best_params_["epsilon"]
    end = f"fit 19 of it and its clones: ε={27 + best} in all"
    if n_jobs > 1:
        end = f"fit 1 of it and its clones: ε={best} in all, without those of other processes"
    assert repr(search.best_estimator_).endswith(end)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() <= 0


def test_fits_of_separate_estimators_are_counted_separately():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", WeakSignal)
        first = private().fit(VILLAGES)
        private().fit(VILLAGES)
        assert "in all" not in repr(pickle.loads(pickle.dumps(first)))
        with pytest.raises(UserWarning, match="fit 2 of it"):
            first.fit(VILLAGES)


def test_score_is_minus_the_inertia():
    fitted = quiet_fit(private(), VILLAGES)
    nearest = fitted.transform(VILLAGES).min(axis=1)
    assert fitted.score(VILLAGES) == pytest.approx(-np.square(nearest).sum())
    assert fitted.score(VILLAGES[:1]) == pytest.approx(-(nearest[0] ** 2))
    assert make_pipeline(fitted).score(VILLAGES) == fitted.score(VILLAGES)


PEOPLE = pd.DataFrame({"age": [30, 60, 70, 20] * 50, "height": [1.5, 1.6, 1.7, 1.8] * 50})
FITS = {
    "KAnonymousSelector": lambda: dp.KAnonymousSelector(
        3, edges={"age": [40], "height": [1.6]}
    ).fit(PEOPLE, pd.Series([0, 1, 0, 1] * 50)),
    "PrivateKMeans": lambda: dp.PrivateKMeans(2, epsilon=1, bounds=(0, 100)).fit(PEOPLE),
    "PrivateSynthesizer": lambda: dp.PrivateSynthesizer(
        domain={...: {"bounds": [0, 100], "bins": 4}}, epsilon=1
    ).fit(PEOPLE),
}
CLASSES = {name: getattr(dp, name) for name in FITS}
METHODS = {
    f"{name}.{verb}": method
    for name, kind in CLASSES.items()
    for verb, method in vars(kind).items()
    if inspect.isfunction(method) and not verb.startswith("_")
}


def section(of: Any, title: str) -> str:
    """What stands below a title of a docstring, up to the next one; empty where there is none."""
    message = inspect.getdoc(of) or ""
    result = re.search(
        rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", message, re.DOTALL | re.MULTILINE
    )
    return result[1] if result else ""


def entries(of: Any, title: str) -> list[str]:
    names = re.findall(r"^(\*?\w[\w, ]*)(?= :|$)", section(of, title), re.MULTILINE)
    return [word.strip() for name in names for word in name.split(",")]


@pytest.mark.parametrize("name", CLASSES)
def test_every_parameter_is_documented(name: str) -> None:
    accepted = set(inspect.signature(CLASSES[name]).parameters) - {"self"}
    assert sorted(entries(CLASSES[name], "Parameters")) == sorted(accepted)
    assert accepted == set(CLASSES[name]._get_param_names())


@pytest.mark.parametrize("name", FITS)
def test_every_fitted_attribute_is_documented(name: str) -> None:
    result = {var for var in vars(FITS[name]()) if var.endswith("_") and not var.startswith("_")}
    assert set(entries(CLASSES[name], "Attributes")) == result


@pytest.mark.parametrize("name", METHODS)
def test_every_argument_of_a_method_is_explained(name: str) -> None:
    explained = [argument.lstrip("*") for argument in entries(METHODS[name], "Parameters")]
    assert ["self", *explained] == list(inspect.signature(METHODS[name]).parameters)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("title", ["Returns", "Raises"])
def test_methods_document_returns_and_errors(name: str, title: str) -> None:
    assert section(METHODS[name], title)


@pytest.mark.parametrize("documented", [*CLASSES.values(), *METHODS.values()])
def test_an_example_is_code_that_pytest_runs(documented: Any) -> None:
    example = section(documented, "Examples")
    assert ">>> " in example
    assert "SKIP" not in example


@pytest.mark.parametrize("name", CLASSES)
def test_an_estimator_names_the_sources_of_its_default_method(name: str) -> None:
    assert re.search(r"\b(19|20)\d\d\b", section(CLASSES[name], "References"))


@pytest.mark.parametrize("name", sorted({*dp.__all__, *estimators.__all__}))
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    result = getattr(dp, name, None) or getattr(estimators, name)
    assert result.__doc__
    bases = getattr(result, "__mro__", ())[1:]
    assert result.__doc__ not in [base.__doc__ for base in bases]


@pytest.mark.parametrize("name", ["load_dataset", "plan", "run"])
def test_every_argument_of_a_function_is_documented(name: str) -> None:
    function = getattr(dp, name)
    message = (inspect.getdoc(dp.plan) or "") + (inspect.getdoc(function) or "")
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^{argument} {{2,}}\w", message, re.MULTILINE), argument
    assert "Raises DeclarationError" in message
