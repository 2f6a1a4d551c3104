"""The whole chain, from a data set file to the report, in one process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration.checks import PLAUSIBLE
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.replay import read_document
from dp_pipeline_tests.orchestration.events import charged, check_results, materializations
from dp_pipeline_tests.orchestration.projects import HOMES, PLANTS, RIDES, Project

pytestmark = pytest.mark.chain

Ran = tuple[Project, DatasetSpec]
DECLARED: Mapping[str, Mapping[str, Any]] = {"plants": PLANTS, "rides": RIDES, "homes": HOMES}


@pytest.fixture(scope="module", params=DECLARED)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A data set whose whole chain was run once."""
    project = Project(tmp_path_factory.mktemp(request.param))
    spec = project.declare(request.param, DECLARED[request.param])
    states = {outcome.state for outcome in project.run(spec)}
    assert states == {"charged"}
    return project, spec


def test_every_asset_but_the_published_copy_is_materialized(ran: Ran):
    project, spec = ran
    materialized = {
        key.path[1]: partitions for key, partitions in materializations(project, spec).items()
    }
    # A run on the command line puts nothing where others look: `export` does, and Dagster.
    assert materialized.pop("published", {}) == {}
    for name, partitions in materialized.items():
        is_partitioned = name in spec.models or name == "evaluation"
        assert set(partitions) == (set(spec.partition_keys) if is_partitioned else {None}), name
    assert {"ingested", "validated", "normalized", "comparison", "budget"} <= set(materialized)


def test_every_blocking_check_and_every_check_of_release_passes(ran: Ran):
    project, spec = ran
    results = check_results(project, spec)
    assert len(results) > 2 * len(spec.models) * len(spec.partitions)
    failed = [result for result in results if not result.passed]
    assert [check for check in failed if check.severity is dg.AssetCheckSeverity.ERROR] == []
    if not spec.is_release:
        # So few rows are a weak signal, which is a warning.
        assert {check.check_name for check in failed} <= {PLAUSIBLE}


def test_ledger_and_dagster_agree_to_the_last_nano(ran: Ran):
    project, spec = ran
    assert project.spent(spec) == spec.cost_of_everything
    assert charged(project, spec) == project.spent(spec)
    project.ledger.verify()


def test_evaluation_is_exact_of_public_and_bought_of_sensitive(ran: Ran):
    project, spec = ran
    for text in spec.partition_keys:
        path = project.home.internal / spec.name / "evaluation" / f"{text}.json"
        rows = read_document(path)["rows"]
        scales = [row["scale"] for row in rows]
        if spec.is_release:
            bought = len(spec.models) if spec.evaluation else 0
            assert len(scales) == bought
            assert all(scale > 0 for scale in scales)
        else:
            assert {row["metric"] for row in rows} == {
                "nicv", "nicv_floor", "nicv_ratio", "f_kmeans", "ari_kmeans",
                "avd_2", "avd_3", "dcr",
            }  # fmt: skip
            assert scales == [None] * 8


def test_the_report_is_written_and_names_every_model(ran: Ran):
    project, spec = ran
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert all(model in page for model in spec.models)


def test_comparison_shows_small_table_then_pictures_then_report(ran: Ran):
    project, spec = ran
    (metadata, *_) = materializations(project, spec)[dg.AssetKey([spec.name, "comparison"])][None]
    first, *pictures, last = metadata
    assert (first, last) == ("summary", "report")
    lines = metadata["summary"].value.splitlines()
    # Of homes no quality is paid for, and the exact numbers are nobody's to see.
    bought = spec.evaluation is not None or not spec.is_release
    largest = spec.partitions[-1]
    price = largest + (spec.evaluation or 0)
    paid = "" if price == largest else f", price ε = {epsilon_text(price)}"
    caption = f"Every model at ε = {epsilon_text(largest)}{paid}, the best first"
    assert lines[0] == (caption if bought else "No quality numbers yet.")
    assert max(line.count("|") - 1 for line in lines) <= 5
    assert len(pictures) >= 1
    assert all(
        metadata[picture].value.startswith("![") and "](data:image/png" in metadata[picture].value
        for picture in pictures
    )


def test_agreement_with_a_label_is_bought_with_the_same_epsilon(project: Project):
    changes = {"label": "tenure", "evaluation": {"epsilon": "0.1"}, "partitions": ["1"]}
    spec = project.declare("homes", HOMES, **changes)
    release_by_name = {outcome.release.name: outcome for outcome in project.run(spec)}
    for name in ("dpqt_kmeans", "eug_kmeans"):
        bundle = release_by_name[name].bundle
        assert set(bundle.quality) == {"nicv", "f_label", "ari_label"}
        assert bundle.spent == Fraction("1.1")
        assert any(spend.what.startswith("levels of tenure") for spend in bundle.spends)
    assert set(release_by_name["independent"].bundle.quality) == {"avd_2", "avd_3"}
    assert project.spent(spec) == Fraction("3.3")


def test_classifier_errors_are_bought_for_every_target(project: Project):
    spec = project.declare(
        "homes",
        HOMES,
        models={"independent": {}},
        targets={"tenure": {"positive": ["owner"], "without": ["rent"]}},
        evaluation={"epsilon": "0.1"},
    )
    (release,) = project.run(spec)
    bought = {"avd_2", "avd_3", "misclassified_logistic/tenure"}
    assert set(release.bundle.quality) == bought == {row.metric for row in release.quality}
    assert release.bundle.spent == project.spent(spec) == Fraction("1.1")
    assert release.bundle.spends[-1].what == "right and wrong predictions of tenure"


def test_mistakes_of_classifiers_are_exact_where_rows_are_public(project: Project):
    spec = project.declare(
        "plants",
        PLANTS,
        models={"independent": {}},
        partitions=["1"],
        publish=None,
        targets={"colour": {"positive": ["red"]}},
    )
    (release,) = project.run(spec)
    exact = {row.metric: row.value for row in release.quality}
    assert set(exact) == {
        "avd_2", "avd_3", "misclassified_svm/colour", "misclassified_logistic/colour", "dcr",
    }  # fmt: skip
    assert all(0 <= value <= 1 for value in exact.values() if not np.isnan(value))


def test_a_run_shows_at_most_three_metrics(project: Project):
    project.declare("plants", PLANTS, label="colour", partitions=["1"], publish=None)
    result = project.cli("run", "plants")
    assert (result.code, result.err) == (0, "")
    (head,) = [line for line in result.out.splitlines() if line.startswith(" model")]
    names = [name.strip() for name in re.split(r"\s{2,}", head.strip())]
    assert names == [
        "model", "ε", "NICV ratio", "NICV", "F (label)", "ε spent", "charged now", "state",
    ]  # fmt: skip
