"""What counts more is measured better, and nothing else of a release changes by its words."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import from_text, texts_of
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import build_model
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.models.tables.one_shot.workload import Workload
from dp_pipeline_tests.config.declarations import loaded, with_attribute
from dp_pipeline_tests.models.contract import run
from dp_pipeline_tests.models.discrete import counter_of, dependent_rows, domain_of
from dp_pipeline_tests.models.tables import table_of

SIZES = (6,) * 10


@pytest.mark.parametrize(
    ("said", "kept"),
    [("", ""), ("a 2", "a 2"), (" a  b 0.5 ,c 3.0,", "a b 0.5, c 3"), ("a b c 1000", "a b c 1000")],
)
def test_a_workload_is_read_into_one_spelling(said: str, kept: str) -> None:
    model = from_text(OneShot, {"workload": said}, of="town")
    assert model.workload == kept


@pytest.mark.parametrize(
    "said", ["a", "2", "a a 2", "a b c d 2", "a 0", "a -1", "a 1001", "a 1e3", "a two", "a b, c 2"]
)
def test_any_other_text_is_refused_in_one_line(said: str) -> None:
    with pytest.raises(DeclarationError, match="workload: expected entries of one to three"):
        from_text(OneShot, {"workload": said}, of="town")


def test_a_name_that_is_not_modelled_is_refused() -> None:
    with pytest.raises(DeclarationError, match="the workload must name modelled attributes, but"):
        OneShot(workload="x9 2").check(domain_of((2, 2)))
    OneShot(workload="x1 2").check(domain_of((2, 2)))


def test_a_workload_is_a_measuring_parameter() -> None:
    assert texts_of(OneShot(), measuring=True)["workload"] == ""
    assert texts_of(OneShot(workload="x0 2"), measuring=True)["workload"] == "x0 2"


def test_weights_of_a_pair_multiply() -> None:
    weights = Workload.of("a 2, a b 3, b c d 5").weights("abcd")
    assert weights[0].tolist() == [1, 6, 2, 2]
    assert (weights == weights.T).all()
    assert weights[1, 2] == weights[2, 3] == 5
    assert Workload().weights("ab") is None


def test_a_declared_label_and_targets_are_a_workload(tmp_path) -> None:
    declared = "label: odd\ntargets: {colour: {positive: [red]}}"
    attributes = with_attribute("{levels: [a, b]}")
    models = "models: {one_shot: , independent: }"
    spec = loaded(tmp_path, attributes=attributes, models=models, extra=declared)
    assert build_model(spec, "one_shot").workload == "odd 4, colour 4"
    own = OneShot(workload="age 2")
    assert own.for_targets(("colour",), spec.domain) is own
    few = OneShot(attributes=("age",)).for_targets(("colour", "age"), spec.domain)
    assert few.workload == "age 4"


def dependent(rows: int) -> np.ndarray:
    """Every pair depends on each other through something that is no attribute."""
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 6, (rows, 1))
    return np.where(rng.random((rows, 10)) < 0.5, hidden, rng.integers(0, 6, (rows, 10)))


def distance_of_last(model: OneShot, epsilon: Fraction, delta: Fraction | None) -> float:
    """Of the pairs with the last attribute; mean of two releases."""
    domain, codes = domain_of(SIZES), dependent(20_000)
    matches = []
    for seed in range(2):
        rows, noise = counter_of(domain, codes), SeededNoise(seed)
        done = run(model, rows, epsilon=epsilon, domain=domain, delta=delta, noise=noise)
        for one in range(9):
            both = [
                np.bincount(6 * table[:, one] + table[:, 9], minlength=36) / len(table)
                for table in (codes, done.released.codes)
            ]
            matches.append(np.abs(both[0] - both[1]).sum() / 2)
    return float(np.mean(matches))


@pytest.mark.chain
@pytest.mark.parametrize("delta", [None, Fraction(1, 10**6)], ids=["epsilon", "rho"])
def test_pairs_that_count_more_are_nearer(delta: Fraction | None) -> None:
    epsilon = Fraction(1, 2) if delta is None else Fraction(1, 4)
    counted = distance_of_last(OneShot(workload="x9 20"), epsilon, delta)
    alike = distance_of_last(OneShot(), epsilon, delta)
    assert counted < 0.9 * alike


@pytest.mark.chain
@pytest.mark.parametrize("rows", [300, 3_000, 60_000])
def test_every_plan_obeys_a_workload(rows: int) -> None:
    """Packed tables, a covering design and tables by scores: shares or tables are others."""
    for sizes in ((2,) * 12, SIZES):
        domain, codes = domain_of(sizes), dependent_rows(sizes, rows)
        plans = [
            [
                (one.attributes, one.scale)
                for one in table_of(
                    run(model, counter_of(domain, codes), epsilon=Fraction(1, 5), domain=domain)
                ).measured[1:]
            ]
            for model in (OneShot(), OneShot(workload="x1 30"))
        ]
        assert plans[0] != plans[1]


def test_the_estimator_takes_it_as_a_parameter_of_its_method() -> None:
    frame = pd.DataFrame({"a": ["x", "y"] * 500, "b": ["x", "y"] * 500, "c": ["x", "x"] * 500})
    domain = {name: ["x", "y"] for name in "abc"}
    fitted = PrivateSynthesizer(
        domain=domain, epsilon=1, method_params={"workload": "a b 3"}, random_state=0
    ).fit(frame)
    assert len(fitted.sample(10)) == 10
    with pytest.raises(ValueError, match="has no workload that could use a label: leave label out"):
        PrivateSynthesizer(domain=domain, epsilon=1, method="mst", delta=1e-9, label="a").fit(frame)
    with pytest.raises(ValueError, match="label: the column must be one of a, b, c, not 'z'"):
        PrivateSynthesizer(domain=domain, epsilon=1, label="z").fit(frame)
    with pytest.raises(ValueError, match="workload"):
        PrivateSynthesizer(domain=domain, epsilon=1, method_params={"workload": "z 3"}).fit(frame)
