"""What editors and ``help`` show of the public names is whole, in NumPy's form, and as the code is.

Examples are run by pytest as doctests.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pandas as pd
import pytest

import dp_pipeline as dp
from dp_pipeline import estimators

PEOPLE = pd.DataFrame({"age": [30, 60, 70, 20] * 50, "height": [1.5, 1.6, 1.7, 1.8] * 50})
LABELS = pd.Series([0, 1, 0, 1] * 50)
FITS = {
    "KAnonymousSelector": lambda: dp.KAnonymousSelector(
        3, edges={"age": [40], "height": [1.6]}
    ).fit(PEOPLE, LABELS),
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
FROM_SCIKIT_LEARN = {"n_features_in_", "feature_names_in_"}


def section(of: Any, title: str) -> str:
    """What stands below a title of a docstring, up to the next one; empty where there is none."""
    said = inspect.getdoc(of) or ""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", said, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def entries(of: Any, title: str) -> list[str]:
    """The names that a section explains."""
    names = re.findall(r"^(\*?\w[\w, ]*)(?= :|$)", section(of, title), re.MULTILINE)
    return [one.strip() for name in names for one in name.split(",")]


@pytest.mark.parametrize("name", CLASSES)
def test_every_parameter_of_an_estimator_is_explained_in_its_order(name: str) -> None:
    taken = [one for one in inspect.signature(CLASSES[name]).parameters if one != "self"]
    assert sorted(entries(CLASSES[name], "Parameters")) == sorted(taken)
    assert set(taken) == set(CLASSES[name]._get_param_names())


@pytest.mark.parametrize("name", FITS)
def test_every_attribute_that_a_fit_sets_is_explained_and_no_other(name: str) -> None:
    found = {one for one in vars(FITS[name]()) if one.endswith("_") and not one.startswith("_")}
    assert set(entries(CLASSES[name], "Attributes")) == found


@pytest.mark.parametrize("name", METHODS)
def test_every_argument_of_a_method_is_explained(name: str) -> None:
    taken = [one for one in inspect.signature(METHODS[name]).parameters if one != "self"]
    explained = [one.lstrip("*") for one in entries(METHODS[name], "Parameters")]
    assert explained == taken


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("title", ["Returns", "Raises", "Examples"])
def test_a_method_says_what_it_gives_what_it_refuses_and_how_it_is_called(
    name: str, title: str
) -> None:
    assert section(METHODS[name], title)


@pytest.mark.parametrize("name", [*CLASSES, *METHODS])
def test_an_example_is_code_that_pytest_runs(name: str) -> None:
    of = {**CLASSES, **METHODS}[name]
    said = section(of, "Examples")
    assert ">>> " in said
    assert "SKIP" not in said


@pytest.mark.parametrize("name", CLASSES)
def test_an_estimator_names_the_sources_of_its_default_method(name: str) -> None:
    assert re.search(r"\b(19|20)\d\d\b", section(CLASSES[name], "References"))


@pytest.mark.parametrize("name", sorted({*dp.__all__, *estimators.__all__}))
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    found = getattr(dp, name, None) or getattr(estimators, name)
    assert found.__doc__
    assert not [base for base in getattr(found, "__mro__", ())[1:] if base.__doc__ == found.__doc__]


@pytest.mark.parametrize("name", ["load_dataset", "plan", "run"])
def test_every_argument_of_a_function_is_named_in_its_docstring(name: str) -> None:
    function = getattr(dp, name)
    said = (inspect.getdoc(dp.plan) or "") + (inspect.getdoc(function) or "")
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^{argument} {{2,}}\w", said, re.MULTILINE), argument
    assert "Raises DeclarationError" in said
