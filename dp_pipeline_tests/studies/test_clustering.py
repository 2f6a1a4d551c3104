"""The study of clustering: its numbers, what it marks, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import PrivacyGuarantee
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.eug_kmeans import EugKMeans
from dp_pipeline.spec.discovery import find_spec
from dp_pipeline.spec.errors import BoundaryViolation, DeclarationError, PipelineError
from dp_pipeline.studies.clustering import SYSTEMS, ClusteringCell
from dp_pipeline.studies.study import seed_of
from dp_pipeline_tests.studies.small import results, small_study

WholeOf = Callable[[str], Path]


def test_every_row_has_what_was_claimed_and_paid_and_all_its_metrics(whole_of: WholeOf) -> None:
    rows = results(whole_of("clustering"))
    assert {row["claim"] for row in rows} == {"dp"}
    assert all(row["epsilon_charged"] == row["epsilon"] for row in rows)
    for name in ("nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "f_label", "ari_label"):
        assert all(np.isfinite(float(row[name])) for row in rows), name


def test_a_system_that_refuses_leaves_the_others_their_cells(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BoundaryViolation("grid: expected fewer cells, got many")

    monkeypatch.setattr(EugKMeans, "fit", refuse)
    asked = small_study("clustering", begun_of("clustering"), repeats=1)
    report = asked.run().read_text(encoding="utf-8")
    assert "* points eug_kmeans paid 2: grid: expected fewer cells, got many" in report
    assert "| DPk-means | " in report
    assert "| EUGkM | " not in report


def test_a_study_in_which_every_system_refuses_says_why(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeclarationError("too wide")

    for system in ("dp_kmeans", "eug_kmeans"):
        model = type(SYSTEMS[system].build(find_spec("points"), "none"))
        monkeypatch.setattr(model, "fit", refuse)
    with pytest.raises(PipelineError, match="got: too wide"):
        small_study("clustering", begun_of("clustering"), repeats=1).run()


PUBLISHED = ("dpqt_kmeans", "dpqt_kmeans_published")


def test_a_variant_as_published_is_marked_and_compared_with_nothing(begun_of: WholeOf) -> None:
    begun = begun_of("clustering")
    asked = small_study("clustering", begun, *PUBLISHED, repeats=1)
    report = asked.run().read_text(encoding="utf-8")
    marked = [row for row in results(begun) if row["system"] == "dpqt_kmeans_published"]
    assert len(marked) == 4
    assert {(row["claim"], row["epsilon_charged"]) for row in marked} == {("not-dp", "none")}
    assert all("box" in row["reason"] for row in marked)
    tables, apart = report.split("## As published: not comparable")
    assert apart.count("| DPQTk-means as published | ") == 4
    assert "DPQTk-means as published" not in tables.split("## Run times")[0]


def test_a_system_that_discloses_more_than_it_claims_ends_the_study(
    begun_of: WholeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        DpqtKMeans, "guarantee", lambda _, epsilon, __=None: PrivacyGuarantee("dp", epsilon)
    )
    with pytest.raises(
        BoundaryViolation, match="expected a dp release as claimed, got a not-dp one"
    ):
        small_study("clustering", begun_of("clustering"), *PUBLISHED, repeats=1).run()


def test_no_two_cells_share_their_noise() -> None:
    cells = [
        ClusteringCell("points", system, "none", epsilon, repetition)
        for system in ("dp_kmeans", "idp_kmeans")
        for epsilon in ("0.1", "1")
        for repetition in range(3)
    ]
    seeds = {seed_of(use, cell.key) for cell in cells for use in ("noise", "post-processing")}
    assert len(seeds) == 2 * len(cells)
    zeros = np.zeros(50, dtype=np.int64)
    drawn = [
        SeededNoise(one).discrete_laplace(zeros, Fraction(10)).tolist() for one in sorted(seeds)
    ]
    assert len({tuple(one) for one in drawn}) == len(drawn)


def test_every_system_of_the_study_is_a_model_and_every_variant_as_published_is_marked() -> None:
    models = {name for name, model in MODELS.items() if issubclass(model, Clustering)}
    assert {system.algorithm for system in SYSTEMS.values()} <= models
    published = [name for name, system in SYSTEMS.items() if system.is_published]
    assert "idp_kmeans_published" in published
    assert all(name.endswith("_published") for name in published)
