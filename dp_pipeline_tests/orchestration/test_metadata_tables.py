"""Tables that Dagster shows have at most five columns, and its numbers at most four digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration.metadata import (
    MAX_COLUMNS,
    number,
    quality_metadata,
    record_table,
)
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.text import LONGEST_QUESTION
from dp_pipeline_tests.orchestration.events import check_results, materializations
from dp_pipeline_tests.orchestration.projects import HOMES, Project

pytestmark = pytest.mark.chain

MODELS: Mapping[str, Mapping[str, str]] = {
    "dpqt_kmeans": {"k": "3", "nominal_rows": "40"},
    "priview": {"synthetic_rows": "20"},
    "dp_kjig": {"bits": "2"},
}
ANONYMOUS = {"methods": {"kjig": {}}, "attributes": "rooms rent", "partitions": ["2"]}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    """Every value that a whole chain writes: centres, a table, classes and k-anonymous rows, their
    evaluations, comparisons and budget, and all checks.
    """
    project = Project(tmp_path_factory.mktemp("shown"))
    spec = project.declare(
        "homes",
        HOMES,
        models=MODELS,
        label="tenure",
        evaluation={"epsilon": "0.5"},
        ceiling={"total": "10", "per_month": "9"},
        k_anonymity=ANONYMOUS,
        allow_not_dp="true",
    )
    project.write_rows("homes.csv", ["rooms,rent,tenure", *_rows()])
    project.run(spec)
    anonymous = ("k_anonymous/kjig", "k_anonymous/evaluation")
    assert project.launch(spec, *anonymous, partition="2").success
    assert project.launch(spec, "k_anonymous/comparison", "budget").success
    return list(_values(project, spec))


def _rows() -> Iterator[str]:
    for n in range(40):
        yield f"{n % 7 + 1},{100 + n % 9 * 90},{'owner' if n % 3 else 'renter'}"


def _values(project: Project, spec: DatasetSpec) -> Iterator[tuple[str, Any]]:
    made = materializations(project, spec)
    for key, partitions in made.items():
        for entries in partitions.values():
            assert entries, key
            for metadata in entries:
                yield from ((f"{key}: {name}", value) for name, value in metadata.items())
    assert all(made.values()), [key for key, partitions in made.items() if not partitions]
    for result in check_results(project, spec):
        name = f"{result.asset_key}: {result.check_name}"
        yield from ((f"{name}: {what}", value) for what, value in result.metadata.items())


def digits(value: float) -> int:
    """Significant digits of the shortest text of a float."""
    mantissa = repr(float(value)).partition("e")[0]
    return len(mantissa.replace("-", "").replace(".", "").strip("0"))


def test_no_table_has_more_than_five_columns(shown: list[tuple[str, Any]]):
    tables = {name: one for name, one in shown if isinstance(one, dg.TableMetadataValue)}
    assert len(tables) > 10
    for name, table in tables.items():
        assert 1 <= len(table.schema.columns) <= MAX_COLUMNS, name
        for record in table.records:
            assert set(record.data) <= {column.name for column in table.schema.columns}, name


def test_a_charge_is_told_with_its_cost_first_and_in_words(shown: list[tuple[str, Any]]):
    tables = [one for name, one in shown if name.endswith("privacy/mechanisms")]
    assert len(tables) == len(MODELS)
    for table in tables:
        assert [one.name for one in table.schema.columns][:3] == ["question", "ε", "mechanism"]
    questions = [record.data["question"] for table in tables for record in table.records]
    assert "clipped squared distance to 3 released centres" in questions
    assert [one for one in questions if "shift" in one or len(one) > LONGEST_QUESTION] == []


def test_no_number_has_more_than_four_digits(shown: list[tuple[str, Any]]):
    floats = {name: one for name, one in shown if isinstance(one, dg.FloatMetadataValue)}
    assert len(floats) > 5
    assert {name: one.value for name, one in floats.items() if digits(one.value) > 4} == {}
    for name, table in shown:
        if isinstance(table, dg.TableMetadataValue):
            cells = [one for record in table.records for one in record.data.values()]
            assert [c for c in cells if isinstance(c, float) and digits(c) > 4] == [], name


def test_no_picture_is_large(shown: list[tuple[str, Any]]):
    pictures = [
        one.value
        for _, one in shown
        if isinstance(one, dg.MarkdownMetadataValue) and "base64" in (one.value or "")
    ]
    assert len(pictures) > 3
    # 200 kB of a map, in base64.
    assert max(map(len, pictures)) < 200_000 * 4 / 3 + 100


def test_a_table_of_six_columns_is_cut_and_one_of_one_line_turned():
    wide = {str(at): np.arange(3) for at in range(6)}
    cut = record_table(wide)
    assert [column.name for column in cut.schema.columns] == list("01234")
    turned = record_table({name: values[:1] for name, values in wide.items()})
    assert [record.data for record in turned.records][5] == {"name": "5", "value": "0"}


def test_what_is_no_number_is_text():
    (record,) = record_table({"x": np.array([np.nan]), "y": np.array([1 / 3])}).records
    assert record.data == {"x": "nan", "y": 0.3333}
    assert number(float("inf")).value == "not a number"
    assert number(1234567.0).value == 1235000.0


def test_digits_are_counted_as_written():
    assert [digits(one) for one in (0.1833, 1 / 3, 1235000.0, 1e-9, 0.5)] == [4, 16, 4, 1, 1]


def test_a_number_of_a_sample_has_its_error_beside_it_as_text() -> None:
    row = QualityRow("one_shot", Fraction(1), "avd_2", 0.0123, None, "share", error=0.004)
    told = quality_metadata([row, replace(row, metric="dcr", error=None)])
    assert told["one_shot/avd_2"].value == 0.0123
    expected = "0.012 ± 0.004 of a sample of 1,000,000 rows"
    assert told["one_shot/avd_2/sample"].value == expected
    assert len(told) == 3
