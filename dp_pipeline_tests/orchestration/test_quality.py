from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.releases.evaluate import compared_tables, evaluate, from_compared
from dp_pipeline.results.bundle import Bundle
from dp_pipeline_tests.orchestration.projects import FAMILIES, HOMES, PLANTS, Project

pytestmark = pytest.mark.chain

CODES = {"height": [0, 3, 3], "width": [1, 1, 0], "colour": [0, 1, 1]}


@pytest.fixture
def judged(project: Project):
    """What the exact numbers of a release are, had it released these tables."""
    targets = {"colour": {"positive": ["red"]}}
    changes = {"models": {"independent": {}}, "partitions": ["1"], "publish": None}
    spec = project.declare("plants", PLANTS, targets=targets, **changes)
    (release,) = project.run(spec)

    def quality(tables: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, float]:
        bundle: Bundle = replace(release.bundle, tables=dict(tables))
        rows = evaluate(spec, project.home, {"independent": bundle})
        return {row.metric: row.value for row in rows}

    return spec, quality


def test_a_table_has_the_quality_of_its_codes(judged):
    _, quality = judged
    codes = {name: np.array(values) for name, values in CODES.items()}
    assert list(quality({"codes": codes})) == [
        "avd_2", "avd_3", "misclassified_svm/colour", "misclassified_logistic/colour", "dcr",
    ]  # fmt: skip


def test_release_of_sensitive_rows_is_never_judged_exactly(project: Project):
    spec = project.declare("plants", PLANTS, models={"independent": {}}, publish=None)
    (release, *_) = project.run(spec)
    of_persons = replace(release.bundle, facts={**release.bundle.facts, "purpose": "release"})
    expected = (
        "plants: purpose: the release was made with 'release', but the file declares 'benchmark'"
    )
    with pytest.raises(DeclarationError, match=expected):
        evaluate(spec, project.home, {"independent": of_persons})


def test_a_benchmark_is_compared_with_its_rows_table_by_table(project: Project):
    spec = project.declare("plants", PLANTS, models={"independent": {}}, publish=None)
    (release, *_) = project.run(spec)
    documents = compared_tables(spec, project.home, {"independent": release.bundle})
    tables = {table.attributes: table for table in from_compared(documents["independent"])}
    names = spec.domain.discrete
    assert len(tables) == len(names) + len(names) * (len(names) - 1) // 2
    exact = {row.metric: row.value for row in evaluate(spec, project.home, {"": release.bundle})}
    pairs = [table.distance for table in tables.values() if len(table.attributes) == 2]
    assert np.mean(pairs) == pytest.approx(exact["avd_2"])
    page = (project.home.reports / "plants.html").read_text(encoding="utf-8")
    assert "Columns against the real rows, the worst first" in page


def test_sensitive_rows_are_never_compared_table_by_table(project: Project):
    loud = {"partitions": ["50"], "ceiling": {"total": "100"}}
    spec = project.declare("homes", HOMES, models={"independent": {}}, **loud)
    (release, *_) = project.run(spec)
    assert compared_tables(spec, project.home, {"independent": release.bundle}) == {}
    page = (project.home.reports / "homes.html").read_text(encoding="utf-8")
    assert "own noisy answers" in page
    assert "against the real rows" not in page


PERSONS = ("home,age", "1,30", "1,31", "2,70", "9,20")


@pytest.mark.parametrize("purpose", ["benchmark", "release"])
def test_units_of_two_files_are_judged_as_purpose_allows(project: Project, purpose: str):
    spec = project.declare("families", FAMILIES, purpose=purpose)
    project.write_rows("persons.csv", PERSONS)
    (release,) = project.run(spec)
    rows = evaluate(spec, project.home, {"one_shot": release.bundle})
    documents = compared_tables(spec, project.home, {"one_shot": release.bundle})
    (exact,) = project.home.raw.rglob("exact-quality-*.json")
    assert exact.stat().st_mode & 0o077 == 0
    kinds = {"avd_units", "avd_parts", "avd_pairs", "avd_unit_part", "avd_size", "dcr"}
    assert {row.metric for row in rows} == (kinds if purpose == "benchmark" else set())
    tables = {table.attributes for table in from_compared(documents.get("one_shot", []))}
    assert (("age", "age") in tables) == (purpose == "benchmark")
