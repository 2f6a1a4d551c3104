import json
import math
import os
import stat
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info, threadpool_limits

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, Damaged, DeclarationError, NotPrepared
from dp_pipeline.metrics.classification import misclassification, split_rows, train
from dp_pipeline.raw import comparison, evaluate
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.evaluate import (
    SAMPLING_ERROR,
    class_quality,
    clustering_quality,
    custodian_facts,
    table_quality,
)
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, mark_validated
from dp_pipeline.results.bit_classes import BitClasses, declared_bits
from dp_pipeline.results.class_table import ClassPromise, ClassTable
from dp_pipeline_tests.instruments import exact_tables
from dp_pipeline_tests.raw.written import ingested, prepared_snapshot, written_spec

PLACES = "{x: {bounds: [0, 16], bins: 2}, y: {bounds: [-8, 8]}, sex: {levels: [f, m]}}"
PLACED = {"x": [0, 2, 14, 99], "y": [0, 0, 0, 0], "sex": ["f", "f", "m", "m"]}
XY = ("x", "y")


@pytest.fixture
def spec(tmp_path):
    return written_spec(tmp_path, PLACES)


def test_quality_is_measured_on_clipped_rows_in_data_units(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, PLACED)
    quality = clustering_quality(spec, snapshot, XY, np.array([[0.0, 0.0], [16.0, 0.0]]))
    agreement = {"f_kmeans": 1.0, "ari_kmeans": 1.0}
    assert quality == {"nicv": 2.0, "nicv_floor": 1.0, "nicv_ratio": 2.0} | agreement


def test_clusters_are_compared_with_kmeans_and_label(tmp_path):
    spec = written_spec(tmp_path, PLACES, more="label: sex")
    snapshot = prepared_snapshot(spec, tmp_path, PLACED | {"sex": ["f", "m", "m", "m"]})
    # KMeans: {0, 2} and {14, 16}; released: {0} and the rest, which are the sexes.
    quality = clustering_quality(spec, snapshot, XY, np.array([[0.0, 0.0], [3.0, 0.0]]))
    assert quality["f_kmeans"] == pytest.approx((2 * (2 / 3) + 2 * (4 / 5)) / 4)
    assert quality["ari_kmeans"] == pytest.approx(0.0)
    assert (quality["f_label"], quality["ari_label"]) == (1.0, 1.0)


def test_kmeans_centres_are_computed_once_and_private(spec, tmp_path, monkeypatch):
    snapshot = prepared_snapshot(spec, tmp_path, PLACED)
    centres = np.array([[1.0, 0.0], [15.0, 0.0]])
    first = clustering_quality(spec, snapshot, XY, centres)
    (file,) = (snapshot.folder / "kmeans").iterdir()
    file.write_bytes(b"{")
    assert clustering_quality(spec, snapshot, XY, centres) == first, "they are computed again"
    monkeypatch.setattr(evaluate, "reference_kmeans", None)
    assert clustering_quality(spec, snapshot, XY, centres) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(TypeError):  # another k has other centres
        clustering_quality(spec, snapshot, XY, centres[:1])
    with pytest.raises(TypeError):  # and so have other columns
        clustering_quality(spec, snapshot, ("x",), np.array([[1.0], [2.0]]))


def test_kmeans_starts_on_a_sample_and_goes_on_over_all_rows(monkeypatch):
    rng = np.random.default_rng(0)
    middles = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    points = np.repeat(middles, 400, axis=0) + rng.normal(0, 1, size=(1200, 2))
    centres = evaluate.reference_kmeans(points, 3)
    monkeypatch.setattr(evaluate, "STARTED_ROWS", 60)
    sampled = evaluate.reference_kmeans(points, 3)
    # Every middle is the mean of all of its rows again, as it would not be of 20 of them.
    assert np.allclose(sorted(sampled.tolist()), sorted(centres.tolist()), atol=1e-9)
    assert sampled.tolist() == evaluate.reference_kmeans(points, 3).tolist(), "the seed is fixed"
    monkeypatch.setattr(evaluate, "MAX_REFINED_ROWS", 300)
    refined = evaluate.reference_kmeans(points, 3)
    # The mean of about 100 rows is off by 0.1 in each direction: 0.5 is five of those.
    assert 0 < np.abs(np.sort(refined, axis=0) - np.sort(centres, axis=0)).max() < 0.5


def test_kmeans_uses_one_thread(monkeypatch):
    threads, fit = set[int](), KMeans.fit

    def counting(*asked):
        threads.update(library["num_threads"] for library in threadpool_info())
        return fit(*asked)

    monkeypatch.setattr(KMeans, "fit", counting)
    with threadpool_limits(2):
        evaluate.reference_kmeans(np.array([[0.0], [1.0], [9.0], [10.0]]), 2)
    assert threads == {1}


def test_fewer_rows_than_centres_have_no_ratio(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, PLACED)
    quality = clustering_quality(spec, snapshot, XY, np.zeros((5, 2)))
    assert quality["nicv_floor"] == 0.0
    assert math.isnan(quality["nicv_ratio"])
    # Four classes of one row each in one cluster: precision 1/4, recall 1.
    assert quality["f_kmeans"] == pytest.approx(2 / 5)
    rows = {"x": [1] * 5, "y": [1] * 5, "sex": ["f"] * 5}
    equal = prepared_snapshot(spec, tmp_path / "equal", rows)
    with warnings.catch_warnings():
        # Nor do they warn, with how many different ones there are.
        warnings.simplefilter("error")
        assert clustering_quality(spec, equal, XY, np.zeros((3, 2)))["nicv_floor"] == 0.0


EMPTY = pa.array([], pa.string())


@pytest.mark.parametrize("more", ["", "label: sex"], ids=["no label", "label"])
def test_no_rows_have_no_quality(more, tmp_path):
    spec = written_spec(tmp_path, PLACES, more=more)
    snapshot = prepared_snapshot(spec, tmp_path, dict.fromkeys(PLACED, EMPTY))
    quality = clustering_quality(spec, snapshot, XY, np.zeros((2, 2)))
    assert len(quality) == (7 if more else 5)
    assert all(math.isnan(value) for value in quality.values())


def test_snapshot_not_prepared_as_declared_is_refused(spec, tmp_path):
    snapshot = ingested(tmp_path, PLACED)
    with pytest.raises(NotPrepared):
        open_counter(spec, snapshot)
    mark_validated(spec, snapshot, structural=True, refused=False)
    with pytest.raises(NotPrepared, match="prepared as people is declared now"):
        open_counter(spec, snapshot)
    prepare(spec, snapshot)
    open_counter(spec, snapshot)
    mark_validated(spec, snapshot, structural=True, refused=True)
    with pytest.raises(NotPrepared, match="its checks refused the snapshot: mend what"):
        clustering_quality(spec, snapshot, XY, np.zeros((1, 2)))
    other = written_spec(tmp_path, "{x: {bounds: [0, 17]}}")
    with pytest.raises(NotPrepared):
        open_counter(other, snapshot)


def test_the_counter_opens_what_preparation_stored(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, PLACED)
    counter = open_counter(spec, snapshot)
    rows, pair = exact_tables(counter, [(), ("x", "sex")])
    assert rows == 4
    assert pair.tolist() == [[2, 0], [0, 2]]
    assert counter.grid(("y",), 2).open_at_the_gate().tolist() == [0, 4]
    with pytest.raises(BoundaryViolation):
        counter.count([("x", "x")])
    # Its fingerprint covers the tables and their reading.
    prepare(spec, snapshot)
    assert open_counter(spec, snapshot).fingerprint == counter.fingerprint, "prepared again"
    snapshot.record(read_at="2026-11-22T10:00:00.000001+00:00")
    read_again = open_counter(spec, snapshot).fingerprint
    three = {name: column[1:] for name, column in PLACED.items()}
    fewer = prepared_snapshot(spec, tmp_path / "fewer", three)
    assert len({counter.fingerprint, read_again, open_counter(spec, fewer).fingerprint}) == 3


@pytest.mark.parametrize(
    "columns",
    [
        *({"codes": codes} for codes in ({"x": [0], "sex": [2]}, {"x": [0, 0], "sex": [1]})),
        *({"coordinates": {"x": x, "y": [0]}} for x in ([65537], [0.0])),
        {"rows": -1},
    ],
)
def test_columns_that_preparation_does_not_write_are_damaged(spec, columns):
    sound = {"coordinates": {"x": [0], "y": [0]}, "codes": {"x": [0], "sex": [1]}, "rows": 1}
    given = sound | columns
    for kind in ("coordinates", "codes"):
        given[kind] = {name: np.array(values) for name, values in given[kind].items()}
    with pytest.raises(Damaged, match="must have a whole number from"):
        MemoryCounter(spec.domain, **given)


def test_exact_facts_go_to_a_private_file(spec, tmp_path):
    snapshot = prepared_snapshot(spec, tmp_path, PLACED)
    before = snapshot.manifest
    assert custodian_facts(snapshot, "manifest", lambda: {"nicv": 1.5}) == {"nicv": 1.5}
    path = snapshot.folder / "custodian" / "manifest.json"
    assert json.loads(path.read_text())["facts"] == {"nicv": 1.5}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert snapshot.manifest == before
    with pytest.raises(DeclarationError, match="file of facts"):
        custodian_facts(snapshot, "../manifest", dict)
    # They are computed once for one population.
    assert custodian_facts(snapshot, "manifest", lambda: {"nicv": 2.5}) == {"nicv": 1.5}
    path.write_bytes(b"{")
    assert custodian_facts(snapshot, "manifest", lambda: {"nicv": 1.5}) == {"nicv": 1.5}
    other = Snapshot(snapshot.folder, b"another population's key")
    assert custodian_facts(other, "manifest", lambda: {"nicv": 2.5}) == {"nicv": 2.5}


PEOPLE = "{age: {bounds: [0, 16], bins: 2}, sex: {levels: [f, m]}, job: {levels: [a, b, c]}}"
FOUR = {"age": [0, 2, 14, 99], "sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "c"]}
TARGETS = "targets: {sex: {positive: [m]}, job: {positive: [b, c], without: [age]}}"
TRUE = {"age": [0, 0, 1, 1], "sex": [0, 0, 1, 1], "job": [0, 1, 1, 2]}


def ready(folder: Path, columns=None, *, more: str = "") -> tuple[DatasetSpec, Snapshot]:
    spec = written_spec(folder, PEOPLE, more=more)
    return spec, prepared_snapshot(spec, folder, FOUR if columns is None else columns)


def codes(**columns: list[int]) -> dict[str, np.ndarray]:
    return {name: np.array(values, dtype=np.int64) for name, values in columns.items()}


def test_distances_are_those_counted_by_hand(tmp_path):
    spec, snapshot = ready(tmp_path)
    true = table_quality(spec, snapshot, codes(**TRUE))
    assert true == {"avd_2": 0.0, "avd_3": 0.0, "dcr": 0.0}
    # Pairs: age × sex (0,0) (1,1) by halves against all at (0,0); each other pair has one real
    # row of four at the released cell.
    quality = table_quality(spec, snapshot, codes(age=[0, 0], sex=[0, 0], job=[0, 0]))
    assert quality["avd_2"] == pytest.approx((1 / 2 + 3 / 4 + 3 / 4) / 3)
    assert quality["avd_3"] == pytest.approx(3 / 4)
    assert quality["dcr"] == 0
    # The distance of one attribute is its own.
    assert table_quality(spec, snapshot, codes(sex=[0])) == {"avd_2": 0.5, "dcr": 0.0}


def test_classifiers_learn_from_released_rows(tmp_path):
    spec, snapshot = ready(tmp_path, more=TARGETS)
    quality = table_quality(spec, snapshot, codes(**{k: v * 20 for k, v in TRUE.items()}))
    for method in ("svm", "logistic"):
        # Age says the sex; sex alone says b or c of the men, and one of two of the women.
        assert quality[f"misclassified_{method}/sex"] == 0
        assert quality[f"misclassified_{method}/job"] == 0.25
    backwards = codes(age=[1, 0] * 20, sex=[0, 1] * 20, job=[1, 1] * 20)
    assert table_quality(spec, snapshot, backwards)["misclassified_svm/sex"] == 1
    # Only released targets are predicted.
    predicted = {"misclassified_logistic/sex", "misclassified_svm/sex"}
    quality = table_quality(spec, snapshot, codes(age=[0], sex=[1]))
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
    spec, snapshot = ready(tmp_path, dict.fromkeys(FOUR, EMPTY), more=TARGETS)
    quality = table_quality(spec, snapshot, codes(**TRUE))
    assert len(quality) == 7
    rates = class_quality(spec, snapshot, released(spec, [[9, 1], [1, 9]]))
    assert all(math.isnan(value) for value in (*quality.values(), *rates.values()))


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
    # Both women are young, both men are old; then one of ten is a man in the only class that is
    # published, whatever the others are.
    spec, snapshot = ready(tmp_path)
    for noisy, rate, withheld in (
        ([[9, 1], [1, 9]], 1.0, 0.0),
        ([[1, 9], [9, 1]], 0.0, 0.0),
        ([[2, 2], [2, 2]], 0.5, 1.0),
        ([[9, 1], [0, 0]], 0.5, 0.5),
        ([[9, 1], [0, 4]], 0.5, 0.5),
    ):
        quality = class_quality(spec, snapshot, released(spec, noisy))
        assert quality == {"auc_class_rate/sex": rate, "withheld": withheld}


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
