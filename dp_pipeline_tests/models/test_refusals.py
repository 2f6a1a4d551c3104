"""Declarations and parameters are all that is refused: by every clustering model, in one line."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.models.contract import build_declared, check_valid, clustering_cases, run
from dp_pipeline_tests.models.spaces import space, two_groups

NAMES = [name for name, model in MODELS.items() if issubclass(model, Clustering)]
CASES = clustering_cases()
every_model = pytest.mark.parametrize("name", NAMES)

WRONG = {
    "no centres": ({"k": "0"}, "k: expected an integer in 1..10000, got '0'"),
    "fewer than no centres": ({"k": "-3"}, "k: expected an integer"),
    "half a centre": ({"k": "2.5"}, "k: expected an integer"),
    "more centres than anybody wants": ({"k": "10001"}, "k: expected an integer"),
    "a column that is not there": ({"columns": "x depth"}, "has no attribute 'depth'"),
    "a column of levels": ({"columns": "x colour"}, "'colour' must be a number with"),
    "a column twice": ({"columns": "x x"}, "A clustering needs each column once, but it has"),
    "an unknown parameter": ({"speed": "1"}, "a parameter must be one of .*, not 'speed'"),
    "no declared rows": ({"nominal_rows": "0"}, "nominal_rows: expected an integer"),
    "no rounds": ({"rounds": "0"}, "rounds: expected an integer"),
    "no starts": ({"starts": "0"}, "starts: expected an integer"),
    "another number of no centres": ({"recluster": "0"}, "recluster: expected an integer"),
    "no levels": ({"levels": "0"}, "levels: expected an integer"),
    "other budgets": ({"budgets": "thirds"}, "budgets: expected one of"),
    "another start": ({"start": "records"}, "start: expected one of"),
    "one subset": ({"subsets": "1"}, "subsets: expected an integer"),
    "a variant of its own": ({"variant": "improved"}, "variant: expected one of sound, published"),
}
GAMMAS = ("1.5", "0.0", "1", "1/3")
ATTRIBUTES = "attributes:\n  x: {{bounds: {0}}}\n  y: {{bounds: [0, 1]}}"


OF_ONE_MODEL = [
    ("eug_kmeans", {"k": "9" * 500}, "k: expected an integer"),
    *(("dpqt_kmeans", {"gamma": text}, "gamma: expected a decimal") for text in GAMMAS),
    ("independent", {"k": "3"}, "a parameter must be one of attributes"),
    ("independent", {"synthetic_rows": "-1"}, "synthetic_rows"),
    ("dp_kjig", {"label": "colour", "k": "0"}, "k: expected an integer in 1"),
    ("dp_kjig", {"label": "colour", "bits": "17"}, "bits: expected an integer"),
    ("dp_kjig", {"label": "colour", "beta": "1"}, "beta: expected a decimal"),
    ("dp_kjig", {"score": "entropy"}, "score: expected one of purity, indep"),
]
OF_EVERY_MODEL = [
    (name, texts, words)
    for name in NAMES
    for texts, words in WRONG.values()
    if set(texts) <= {field.name for field in fields(MODELS[name])} | {"speed"}
]


@pytest.mark.parametrize(("name", "texts", "words"), OF_ONE_MODEL + OF_EVERY_MODEL)
def test_a_wrong_parameter_is_refused_in_one_line(name, texts, words, tmp_path):
    with pytest.raises(DeclarationError, match=words) as refused:
        build_declared(tmp_path, name, texts)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("bounds", ["[1, 1]", "[8, 0]", "[.nan, 1]", "[0, nan]", "[0, .inf]"])
def test_bounds_that_are_no_interval_are_refused(bounds: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"bounds: expected .*got") as refused:
        loaded(tmp_path, attributes=ATTRIBUTES.format(bounds), models="models: {eug_kmeans: }")
    assert len(str(refused.value).splitlines()) == 1


@every_model
def test_a_domain_without_numbers_is_refused(name: str, tmp_path: Path) -> None:
    only = "attributes:\n  colour: {levels: [red, green]}"
    with pytest.raises(DeclarationError, match="A clustering needs numbers with bounds and"):
        build_declared(tmp_path, name, {}, attributes=only)


@pytest.mark.parametrize("case", CASES)
def test_fewer_columns_than_there_are_can_be_chosen(case: str) -> None:
    domain = space(50)
    model = replace(CASES[case], columns=("x7", "x3"))
    model.check(domain)
    released = run(model, two_groups(domain), domain=domain).released
    assert released.columns == ("x7", "x3")
    check_valid(model, released, domain=domain)
