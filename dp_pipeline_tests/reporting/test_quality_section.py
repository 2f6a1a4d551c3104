"""What a report says of each release of a table: against its own noise, and public rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.reporting.pages import write_report
from dp_pipeline.reporting.quality import ComparedTable
from dp_pipeline.reporting.releases import ReportedPrivateRelease
from dp_pipeline.results.clusters import LongColumns
from dp_pipeline_tests.reporting.samples import TEN, WRITTEN, bundle, spec

LEVELS = {"smokes": ("no", "yes"), "pet": ("cat", "dog", "none")}
PEOPLE = Domain(
    tuple(Attribute(name, name, "drop", cells=Levels(texts)) for name, texts in LEVELS.items())
)
TABLES = {
    "codes": {"smokes": np.array([0] * 60 + [1] * 40), "pet": np.array([2] * 100)},
    "measured": {
        "marginal": np.array(["smokes", "smokes, pet"]),
        "cells": np.array([2, 4]),
        "deviation": np.array([1.0, 2.0]),
    },
    "cells": {
        "marginal": np.repeat(["smokes", "smokes, pet"], [2, 4]),
        "cell": np.array([0, 1, 0, 1, 2, 3]),
        "noisy_count": np.array([61, 39, 30, 30, 20, 20]),
    },
    "groups": {
        "attribute": np.array(["pet"] * 3),
        "level": np.array(LEVELS["pet"]),
        "group": np.array([0, 1, 1]),
    },
}
"""Nobody was drawn with a pet, where the noisy answers have cats in half of the rows."""
COMPARED = (ComparedTable(("pet",), 0.5), ComparedTable(("smokes", "pet"), 0.625))


def released(**changes: Any) -> ReportedPrivateRelease:
    own = changes.pop("own", {})
    return ReportedPrivateRelease(
        spec=spec(domain=PEOPLE, **own), bundle=bundle(tables=TABLES), state="charged", **changes
    )


def page(folder: Path, *releases: ReportedPrivateRelease) -> str:
    path = write_report(
        folder / "report.html",
        level="epsilon",
        spec=releases[0].spec,
        releases=releases,
        written=WRITTEN,
    )
    return path.read_text(encoding="utf-8")


def test_tables_over_groups_of_levels_are_compared_over_groups():
    quality = released().quality
    assert quality is not None
    result = {table.attributes: table for table in quality.measured}
    assert result["smokes",].distance == pytest.approx(0.01, abs=2e-3)
    assert result["smokes", "pet"].distance == pytest.approx(0.5, abs=0.01)
    assert result["smokes", "pet"].model > 0.4
    assert result["pet",].model > 0.4
    assert quality.unmeasured == 0


def test_a_column_of_many_rows_is_read_once_for_all_tables():
    read = Counter[str]()

    def batches(name: str) -> Iterator[np.ndarray]:
        read[name] += 1
        yield TABLES["codes"][name]

    codes = LongColumns({name: partial(batches, name) for name in TABLES["codes"]})
    result = bundle(tables={**TABLES, "codes": codes})
    assert (
        ReportedPrivateRelease(spec=spec(domain=PEOPLE), bundle=result).quality
        == released().quality
    )
    assert read == {"smokes": 1, "pet": 1}


def test_a_page_blames_the_model_where_noise_explains_too_little(tmp_path: Path):
    text = page(tmp_path, released())
    assert "Quality, table by table" in text
    assert "Columns against the real rows" not in text
    assert "smokes × pet" in text
    assert "at least 0.4" in text
    assert "the model is seen in 2 of them" in text


def test_several_releases_stand_in_one_table_and_fold(tmp_path: Path):
    text = page(tmp_path, released(), released())
    assert "mean over tables of columns and pairs" in text
    assert text.count("<details><summary>eug_kmeans at ε = 0.5</summary>") == 2


def test_public_rows_are_compared_on_a_page(tmp_path: Path):
    text = page(tmp_path, released(compared=COMPARED))
    assert "Columns against the real rows, the worst first" in text
    assert "0.625" in text


def test_exact_comparison_of_sensitive_rows_is_refused(tmp_path: Path):
    own = {"purpose": "release", "ceiling": TEN}
    assert "Quality, table by table" in page(tmp_path, released(own=own))
    expected = r"The report of squares/eug_kmeans at ε = 0\.5 must not compare"
    with pytest.raises(BoundaryViolation, match=expected):
        page(tmp_path, released(own=own, compared=COMPARED))


@pytest.mark.parametrize("missing", ["codes", "measured", "cells"])
def test_release_without_stored_counts_has_no_quality(missing: str, tmp_path: Path):
    tables = {name: table for name, table in TABLES.items() if name != missing}
    reportedprivaterelease = ReportedPrivateRelease(
        spec=spec(domain=PEOPLE), bundle=bundle(tables=tables), state="charged"
    )
    assert reportedprivaterelease.quality is None
    assert "Quality, table by table" not in page(tmp_path, reportedprivaterelease)


def test_release_of_other_attributes_has_no_quality():
    other = Domain((Attribute("smokes", "smokes", "drop", cells=Levels(("no", "yes", "?"))),))
    for domain in (other, Domain(())):
        reportedprivaterelease = ReportedPrivateRelease(
            spec=spec(domain=domain), bundle=bundle(tables=TABLES)
        )
        assert reportedprivaterelease.quality is None
