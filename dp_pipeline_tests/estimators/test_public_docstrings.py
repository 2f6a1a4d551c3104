"""What editors and ``help`` show of the public names is whole, and as the code is."""

import inspect
import re
from typing import Any

import pandas as pd
import pytest

import dp_pipeline as dp
from dp_pipeline import estimators

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
