"""Rows that are held out are a fifth, are seen by no model, and are what classifiers are asked."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.study import Benchmark
from benchmarks.papers.tables import SplitTable
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import mark_validated
from dp_pipeline_tests.raw.written import ingested, written_spec

PEOPLE = "{age: {bounds: [0, 16], bins: 2}, sex: {levels: [f, m]}, job: {levels: [a, b, c]}}"
TARGETS = "targets: {sex: {positive: [m]}, job: {positive: [b, c], without: [age]}}"
MANY = {"age": [0, 14] * 10, "sex": ["f", "m"] * 10, "job": ["a", "b"] * 9 + ["a", "c"]}


def split_table(folder: Path, columns=MANY, *, seed: int = 0) -> SplitTable:
    """Young people are f and a, old ones m and b or c."""
    spec = written_spec(folder, PEOPLE, more=TARGETS)
    snapshot = ingested(folder, columns)
    mark_validated(spec, snapshot, structural=True, refused=False)
    prepare(spec, snapshot)
    return SplitTable(Benchmark(spec, snapshot), seed)


def sexes(rows: SplitTable, part: int) -> np.ndarray:
    return rows._codes.column("sex").to_numpy()[rows._rows[part]]


def test_engine_counts_four_fifths(tmp_path: Path) -> None:
    half = split_table(tmp_path)
    counted = half.counter().count([("age", "sex")])[0].open_at_the_gate()
    remaining, tested = half._fitted["sex"], sexes(half, 1)
    assert counted.tolist() == [[(remaining == 0).sum(), 0], [0, (remaining == 1).sum()]]
    assert (len(remaining), len(tested)) == (16, 4)
    assert remaining.sum() + tested.sum() == 10


def test_another_seed_holds_other_rows_out(tmp_path: Path) -> None:
    item = split_table(tmp_path)
    other = SplitTable(item.benchmark, 1)
    assert item._rows[1].tolist() != other._rows[1].tolist()
    assert sorted([*item._rows[0], *item._rows[1]]) == list(range(20))


def test_easy_target_is_learned_without_privacy(tmp_path: Path) -> None:
    names = [f"misclassified_{m}{t}" for m in ("svm", "logistic") for t in ("/sex", "/job", "")]
    assert split_table(tmp_path).misclassified_without_privacy() == dict.fromkeys(names, 0.0)


def test_opposite_table_teaches_the_opposite(tmp_path: Path) -> None:
    item = split_table(tmp_path)
    young = np.arange(40) % 2
    released = {"age": young, "sex": 1 - young, "job": young}
    result = item.misclassified(released)
    assert result["misclassified_svm/sex"] == 1.0
    assert result["misclassified_svm"] == (1.0 + result["misclassified_svm/job"]) / 2


def test_the_majority_answers_alike_for_all(tmp_path: Path) -> None:
    item = split_table(tmp_path)
    tested = int(sexes(item, 1).sum())
    most = int(item._fitted["sex"].sum()) > 8
    wrong = item.misclassified_by_majority()["misclassified_svm/sex"]
    assert wrong == ((4 - tested) if most else tested) / 4


def test_without_rows_to_test_on_there_is_no_number(tmp_path: Path) -> None:
    few = split_table(tmp_path, {"age": [1], "sex": ["f"], "job": ["a"]})
    result = few.misclassified_without_privacy()
    assert all(math.isnan(value) for value in result.values())


def test_rows_that_were_not_prepared_are_not_read(tmp_path: Path) -> None:
    spec = written_spec(tmp_path, PEOPLE, more=TARGETS)
    with pytest.raises(NotPrepared):
        SplitTable(Benchmark(spec, ingested(tmp_path, MANY)), 0).counter()
