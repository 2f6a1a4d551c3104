from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.raw.evaluate import class_quality
from dp_pipeline.results.bit_classes import BitClasses, declared_bits
from dp_pipeline.results.class_table import ClassPromise, ClassTable
from dp_pipeline_tests.raw.test_table_comparison import ready
from dp_pipeline_tests.raw.written import ingested, written_spec

PEOPLE = "{age: {bounds: [0, 16], bins: 2}, sex: {levels: [f, m]}, job: {levels: [a, b, c]}}"


def released(spec: DatasetSpec, noisy: list[list[int]]) -> ClassTable:
    """Of sex, by age, from a noisy size of 5 on."""
    classes = BitClasses(declared_bits(spec.domain, ("age",)), spec.domain)
    promise = ClassPromise(5, 1, Fraction(1, 20), 2, 2, Fraction(1, 100))
    return ClassTable.of_noisy("sex", classes, np.array(noisy), promise)


def test_the_rates_of_classes_are_asked_about_every_true_row(tmp_path):
    # Both women are young, both men are old.
    spec, snapshot = ready(tmp_path)
    right, wrong, blind = (
        class_quality(spec, snapshot, released(spec, noisy))
        for noisy in ([[9, 1], [1, 9]], [[1, 9], [9, 1]], [[2, 2], [2, 2]])
    )
    assert right == {"auc_class_rate/sex": 1.0, "withheld": 0.0}
    assert wrong == {"auc_class_rate/sex": 0.0, "withheld": 0.0}
    assert blind == {"auc_class_rate/sex": 0.5, "withheld": 1.0}


def test_rows_of_a_withheld_class_have_the_rate_of_the_published_ones(tmp_path):
    spec, snapshot = ready(tmp_path)
    for withheld in ([0, 0], [0, 4]):
        quality = class_quality(spec, snapshot, released(spec, [[9, 1], withheld]))
        # One of ten is a man in the only class that is published, whatever the others are.
        assert quality == {"auc_class_rate/sex": 0.5, "withheld": 0.5}


def test_no_rows_have_no_quality(tmp_path):
    nothing = pa.table({name: pa.array([], pa.string()) for name in ("age", "sex", "job")})
    spec, snapshot = ready(tmp_path, nothing)
    quality = class_quality(spec, snapshot, released(spec, [[9, 1], [1, 9]]))
    assert all(math.isnan(value) for value in quality.values())


def test_rows_that_are_not_prepared_are_not_read(tmp_path):
    spec = written_spec(tmp_path, PEOPLE)
    snapshot = ingested(tmp_path, {"age": [1], "sex": ["f"], "job": ["a"]})
    with pytest.raises(NotPrepared):
        class_quality(spec, snapshot, released(spec, [[9, 1], [1, 9]]))
