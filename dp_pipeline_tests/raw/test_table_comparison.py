import math
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, NotPrepared
from dp_pipeline.metrics.classification import misclassification, split_rows, train
from dp_pipeline.raw import comparison
from dp_pipeline.raw.evaluate import SAMPLING_ERROR, class_quality, table_quality
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.results.bit_classes import BitClasses, declared_bits
from dp_pipeline.results.class_table import ClassPromise, ClassTable
from dp_pipeline_tests.raw.written import ingested, prepared_snapshot, written_spec

PEOPLE = "{age: {bounds: [0, 16], bins: 2}, sex: {levels: [f, m]}, job: {levels: [a, b, c]}}"
FOUR = {"age": [0, 2, 14, 99], "sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "c"]}
TARGETS = "targets: {sex: {positive: [m]}, job: {positive: [b, c], without: [age]}}"
TRUE = {"age": [0, 0, 1, 1], "sex": [0, 0, 1, 1], "job": [0, 1, 1, 2]}


def ready(folder: Path, columns=None, *, more: str = "") -> tuple[DatasetSpec, Snapshot]:
    spec = written_spec(folder, PEOPLE, more=more)
    return spec, prepared_snapshot(spec, folder, FOUR if columns is None else columns)


def codes(**columns: list[int]) -> dict[str, np.ndarray]:
    return {name: np.array(values, dtype=np.int64) for name, values in columns.items()}


def test_the_true_table_is_no_distance_away(tmp_path):
    quality = table_quality(*ready(tmp_path), codes(**TRUE))
    assert quality == {"avd_2": 0.0, "avd_3": 0.0, "dcr": 0.0}


def test_distances_are_those_counted_by_hand(tmp_path):
    # Pairs: age × sex (0,0) (1,1) by halves against all at (0,0); each other pair has one real
    # row of four at the released cell.
    released = codes(age=[0, 0], sex=[0, 0], job=[0, 0])
    quality = table_quality(*ready(tmp_path), released)
    assert quality["avd_2"] == pytest.approx((1 / 2 + 3 / 4 + 3 / 4) / 3)
    assert quality["avd_3"] == pytest.approx(3 / 4)
    assert quality["dcr"] == 0


def test_the_distance_of_one_attribute_is_its_own(tmp_path):
    assert table_quality(*ready(tmp_path), codes(sex=[0])) == {"avd_2": 0.5, "dcr": 0.0}


def test_classifiers_learn_from_released_rows(tmp_path):
    spec, snapshot = ready(tmp_path, more=TARGETS)
    quality = table_quality(spec, snapshot, codes(**{k: v * 20 for k, v in TRUE.items()}))
    for method in ("svm", "logistic"):
        # Age says the sex; sex alone says b or c of the men, and one of two of the women.
        assert quality[f"misclassified_{method}/sex"] == 0
        assert quality[f"misclassified_{method}/job"] == 0.25
    backwards = codes(age=[1, 0] * 20, sex=[0, 1] * 20, job=[1, 1] * 20)
    assert table_quality(spec, snapshot, backwards)["misclassified_svm/sex"] == 1


def test_only_released_targets_are_predicted(tmp_path):
    quality = table_quality(*ready(tmp_path, more=TARGETS), codes(age=[0], sex=[1]))
    predicted = {"misclassified_logistic/sex", "misclassified_svm/sex"}
    assert quality.keys() == {"avd_2", "dcr"} | predicted


ODD = {
    "no rows": codes(age=[], sex=[], job=[]),
    "one row": codes(age=[1], sex=[1], job=[2]),
    "one row many times": codes(age=[0] * 9, sex=[0] * 9, job=[1] * 9),
    "one class": codes(age=[0, 1], sex=[1, 1], job=[0, 0]),
}


@pytest.mark.parametrize("released", ODD.values(), ids=ODD.keys())
def test_whatever_was_released_has_numbers(tmp_path, released):
    quality = table_quality(*ready(tmp_path, more=TARGETS), released)
    assert len(quality) == 7
    dcr = quality.pop("dcr")
    assert math.isnan(dcr) == (len(released["age"]) == 0)
    assert all(0 <= value <= 1 for value in quality.values())


def test_no_true_rows_have_no_quality(tmp_path):
    empty = pa.table({name: pa.array([], pa.string()) for name in FOUR})
    spec, snapshot = ready(tmp_path, empty, more=TARGETS)
    quality = table_quality(spec, snapshot, codes(**TRUE))
    assert len(quality) == 7
    assert all(math.isnan(value) for value in quality.values())
    rates = class_quality(spec, snapshot, released(spec, [[9, 1], [1, 9]]))
    assert all(math.isnan(value) for value in rates.values())


def test_undeclared_codes_are_refused(tmp_path):
    spec, snapshot = ready(tmp_path)
    for columns, words in (
        ({"sex": [2]}, "the codes of attribute sex in a released table must be from 0 to 1"),
        ({"sex": [0, -1]}, "the codes of attribute sex in a released table must be from 0 to 1"),
        ({}, "must have one or more attributes, but it has none: release"),
        ({"shoe": [0]}, "The data set has no attribute"),
    ):
        with pytest.raises(DeclarationError, match=words):
            table_quality(spec, snapshot, codes(**columns))
    other = written_spec(tmp_path, PEOPLE.replace("16", "17"))
    with pytest.raises(NotPrepared):
        table_quality(other, snapshot, codes(sex=[0]))


@pytest.mark.study
@pytest.mark.skipif("DP_PIPELINE_DATA" not in os.environ, reason="needs DP_PIPELINE_DATA")
def test_svm_without_privacy_gets_15_percent_wrong():
    import pandas as pd

    table = pd.read_csv(Path(os.environ["DP_PIPELINE_DATA"], "adult_discretised.csv.gz"))
    adults = {name: table[name].to_numpy() for name in table}
    sizes = {name: int(column.max()) + 1 for name, column in adults.items()}
    learn, test = split_rows(len(table), seed=0)
    errors = []
    for target, positive in ADULT.items():
        hidden = {target, "education_num"} if target == "education" else {target}
        answers = np.isin(adults[target], positive)
        seen = {name: column for name, column in adults.items() if name not in hidden}
        model = train("svm", {name: c[learn] for name, c in seen.items()}, answers[learn], sizes)
        rest = {name: c[test] for name, c in seen.items()}
        errors.append(misclassification(model, rest, answers[test]))
    assert np.mean(errors) == pytest.approx(0.154, abs=0.005)


ADULT = {"sex": [1], "education": [7, 8, 9, 10, 12, 14], "income": [1], "marital_status": [4]}
"""Men; degrees after school (levels are in alphabetical order); above 50K; never married."""


def test_distances_of_many_rows_have_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "MOST_COMPARED", 2)
    quality = table_quality(*ready(tmp_path), codes(**TRUE))
    assert quality["dcr"] == 0, "all real rows are looked at"
    # The two rows of a sample differ at least in one pair of attributes: so do its halves.
    for k in (2, 3):
        assert 0 < quality[f"{SAMPLING_ERROR}avd_{k}"] <= 2
        assert quality[f"avd_{k}"] <= quality[f"{SAMPLING_ERROR}avd_{k}"]
    assert len(quality) == 5


def released(spec: DatasetSpec, noisy: list[list[int]]) -> ClassTable:
    """Of sex, by age, from a noisy size of 5 on."""
    classes = BitClasses(declared_bits(spec.domain, ("age",)), spec.domain)
    promise = ClassPromise(5, 1, Fraction(1, 20), 2, 2, Fraction(1, 100))
    return ClassTable.of_noisy("sex", classes, np.array(noisy), promise)


def test_class_rates_cover_every_true_row(tmp_path):
    # Both women are young, both men are old.
    spec, snapshot = ready(tmp_path)
    right, wrong, blind = (
        class_quality(spec, snapshot, released(spec, noisy))
        for noisy in ([[9, 1], [1, 9]], [[1, 9], [9, 1]], [[2, 2], [2, 2]])
    )
    assert right == {"auc_class_rate/sex": 1.0, "withheld": 0.0}
    assert wrong == {"auc_class_rate/sex": 0.0, "withheld": 0.0}
    assert blind == {"auc_class_rate/sex": 0.5, "withheld": 1.0}


def test_withheld_rows_have_the_published_rate(tmp_path):
    spec, snapshot = ready(tmp_path)
    for withheld in ([0, 0], [0, 4]):
        quality = class_quality(spec, snapshot, released(spec, [[9, 1], withheld]))
        # One of ten is a man in the only class that is published, whatever the others are.
        assert quality == {"auc_class_rate/sex": 0.5, "withheld": 0.5}
    unprepared = ingested(tmp_path, FOUR, "unprepared")
    with pytest.raises(NotPrepared):
        class_quality(spec, unprepared, released(spec, [[9, 1], [1, 9]]))


HOMES = {
    "home": ["1", "1", "2", "3", "3", "4"],
    "area": ["n", "n", "n", "s", "s", "s"],
    "sex": ["f", "m", "f", "f", "m", "m"],
}
PARTS = "parts: {persons: {at_most: 2, attributes: {sex: {levels: [f, m]}}}}"


@pytest.mark.parametrize(
    ("changed", "distances"),
    [
        ({}, {}),
        # A man of home 1 and a woman of home 3 exchanged: two parts of six have another area.
        ({"sex": [0, 0, 0, 1, 1, 1]}, {"avd_pairs": 1.0, "avd_unit_part": (2 / 6) / 2}),
        # Another area of home 2: one unit of four, and one part of six.
        ({"area": [0, 0, 1, 1, 1, 1]}, {"avd_units": 1 / 4, "avd_unit_part": (1 / 6) / 2}),
    ],
    ids=["alike", "paired otherwise", "elsewhere"],
)
def test_units_and_parts_are_compared_by_themselves(tmp_path, changed, distances):
    protection = "{unit: group, key: home}"
    attributes = "{area: {levels: [n, s], nullable: true}}"
    spec = written_spec(tmp_path, attributes, protection=protection, more=PARTS)
    snapshot = prepared_snapshot(spec, tmp_path, HOMES)
    rows = {"area": [0, 0, 0, 1, 1, 1], "size": [1, 1, 0, 1, 1, 0], "sex": [0, 1, 0, 0, 1, 1]}
    quality = table_quality(spec, snapshot, codes(**rows | changed))
    kinds = ("avd_units", "avd_parts", "avd_pairs", "avd_unit_part", "avd_size")
    assert {name: quality[name] for name in kinds} == pytest.approx(
        dict.fromkeys(kinds, 0.0) | distances
    )
