"""The whole chain, from a data set file to the report, in one process."""

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.cli.released import centre_lines
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.orchestration.checks import PLAUSIBLE
from dp_pipeline.releases.evaluate import compare_tables, evaluate, parse_compared_tables
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.replay import read_document
from dp_pipeline_tests.orchestration.events import charged, check_results, materializations
from dp_pipeline_tests.orchestration.projects import FAMILIES, HOMES, PLANTS, RIDES, Project

pytestmark = pytest.mark.chain

Ran = tuple[Project, DatasetSpec]
DECLARED: Mapping[str, Mapping[str, Any]] = {"plants": PLANTS, "rides": RIDES, "homes": HOMES}


@pytest.fixture(scope="module", params=DECLARED)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    project = Project(tmp_path_factory.mktemp(request.param))
    spec = project.declare(request.param, DECLARED[request.param])
    states = {outcome.state for outcome in project.run(spec)}
    assert states == {"charged"}
    return project, spec


def test_every_asset_but_the_published_copy_is_materialized(ran: Ran):
    project, spec = ran
    by_key = materializations(project, spec)
    materialized = {key.path[1]: partitions for key, partitions in by_key.items()}
    # A run on the command line puts nothing where others look: `export` does, and Dagster.
    assert materialized.pop("published", {}) == {}
    for name, partitions in materialized.items():
        is_partitioned = name in spec.models or name == "evaluation"
        assert set(partitions) == (set(spec.partition_keys) if is_partitioned else {None}), name
    assert {"ingested", "validated", "normalized", "comparison", "budget"} <= set(materialized)


def test_checks_pass_and_ledger_and_dagster_agree(ran: Ran):
    project, spec = ran
    results = check_results(project, spec)
    assert len(results) > 2 * len(spec.models) * len(spec.partitions)
    failed = [result for result in results if not result.passed]
    assert [check for check in failed if check.severity is dg.AssetCheckSeverity.ERROR] == []
    if not spec.is_release:
        # So few rows are a weak signal, which is a warning.
        assert {check.check_name for check in failed} <= {PLAUSIBLE}
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


def test_comparison_shows_small_table_then_pictures_then_report(ran: Ran):
    project, spec = ran
    (metadata, *_) = materializations(project, spec)[dg.AssetKey([spec.name, "comparison"])][None]
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert all(model in page for model in spec.models)
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


LABELLED = {"nicv", "f_label", "ari_label"}
OWNERS = {"tenure": {"positive": ["owner"], "without": ["rent"]}}


@pytest.mark.parametrize(
    ("changes", "bought", "last"),
    [
        (
            {"label": "tenure"},
            {"dpqt_kmeans": LABELLED, "eug_kmeans": LABELLED, "independent": {"avd_2", "avd_3"}},
            "levels of tenure",
        ),
        (
            {"targets": OWNERS, "models": {"independent": {}}},
            {"independent": {"avd_2", "avd_3", "misclassified_logistic/tenure"}},
            "right and wrong predictions of tenure",
        ),
    ],
    ids=["a label", "a target"],
)
def test_quality_of_sensitive_rows_is_bought_with_one_epsilon(changes, bought, last, project):
    spec = project.declare("homes", HOMES, evaluation={"epsilon": "0.1"}, **changes)
    bundles = {outcome.release.name: outcome.bundle for outcome in project.run(spec)}
    assert {name: set(bundle.quality) for name, bundle in bundles.items()} == bought
    assert {bundle.spent for bundle in bundles.values()} == {Fraction("1.1")}
    assert project.spent(spec) == len(bought) * Fraction("1.1")
    (first, *_) = bundles.values()
    assert first.spends[-1].what.startswith(last)


def test_mistakes_of_classifiers_are_exact_where_rows_are_public(project: Project):
    sections = {"models": {"independent": {}}, "partitions": ["1"], "publish": None}
    spec = project.declare("plants", PLANTS, targets={"colour": {"positive": ["red"]}}, **sections)
    (release,) = project.run(spec)
    exact = {row.metric: row.value for row in release.quality}
    mistakes = {f"misclassified_{model}/colour" for model in ("svm", "logistic")}
    assert set(exact) == {"avd_2", "avd_3", "dcr"} | mistakes
    assert all(0 <= value <= 1 for value in exact.values() if not np.isnan(value))


def test_a_run_shows_at_most_three_metrics(project: Project):
    project.declare("plants", PLANTS, label="colour", partitions=["1"], publish=None)
    result = project.command("run", "plants")
    (head,) = [line for line in result.splitlines() if line.startswith(" model")]
    names = [name.strip() for name in re.split(r"\s{2,}", head.strip())]
    assert names == [
        "model", "ε", "NICV ratio", "NICV", "F (label)", "ε spent", "charged now", "state",
    ]  # fmt: skip


def test_a_benchmark_is_compared_with_its_rows_table_by_table(project: Project):
    spec = project.declare("plants", PLANTS, models={"independent": {}}, publish=None)
    (release, *_) = project.run(spec)
    of_persons = replace(release.bundle, facts={**release.bundle.facts, "purpose": "release"})
    expected = "plants: purpose: the release was made with 'release', but the file declares 'bench"
    with pytest.raises(DeclarationError, match=expected):
        evaluate(spec, project.home, {"independent": of_persons})
    documents = compare_tables(spec, project.home, {"independent": release.bundle})
    tables = {table.attributes: table for table in parse_compared_tables(documents["independent"])}
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
    assert compare_tables(spec, project.home, {"independent": release.bundle}) == {}
    page = (project.home.reports / "homes.html").read_text(encoding="utf-8")
    assert "own noisy answers" in page
    assert "against the real rows" not in page


@pytest.mark.parametrize("purpose", ["benchmark", "release"])
def test_units_of_two_files_are_judged_as_purpose_allows(project: Project, purpose: str):
    spec = project.declare("families", FAMILIES, purpose=purpose)
    project.write_rows("persons.csv", ["home,age", "1,30", "1,31", "2,70", "9,20"])
    (release,) = project.run(spec)
    rows = evaluate(spec, project.home, {"one_shot": release.bundle})
    documents = compare_tables(spec, project.home, {"one_shot": release.bundle})
    (exact,) = project.home.raw.rglob("exact-quality-*.json")
    assert exact.stat().st_mode & 0o077 == 0
    kinds = {"avd_units", "avd_parts", "avd_pairs", "avd_unit_part", "avd_size", "dcr"}
    assert {row.metric for row in rows} == (kinds if purpose == "benchmark" else set())
    tables = {table.attributes for table in parse_compared_tables(documents.get("one_shot", []))}
    assert (("age", "age") in tables) == (purpose == "benchmark")


@pytest.mark.parametrize(
    ("other", "labels"),
    [
        ({"k": "3"}, ["eug_kmeans, k=2", "dpqt_kmeans, k=3"]),
        ({"k": "2", "columns": "height"}, ["dpqt_kmeans, k=2 of height"]),
        ({"k": "2"}, []),
    ],
    ids=["another k", "another column", "alike"],
)
def test_models_are_compared_where_k_and_columns_are_the_same(other, labels, project: Project):
    models = {"eug_kmeans": {"k": "2"}, "dpqt_kmeans": other}
    spec = project.declare("plants", PLANTS, models=models, publish=None)
    project.run(spec, epsilons=["1"])
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    # Without its pictures, whose letters are any.
    words = re.sub(r"base64,[^\"]+", "", page)
    assert all(label in words for label in labels)
    assert ("RCP" in words, ", k=" in words) == (not labels, bool(labels))


def test_of_many_columns_the_first_are_printed_whole(project: Project):
    names = [f"column_{index}" for index in range(16)]
    attributes = {name: {"bounds": ["-1000000", "1000000"]} for name in names}
    models = {"htree_kmeans": {"k": "2"}}
    changes = {"models": models, "attributes": attributes, "one_hot": "false", "publish": None}
    spec = project.declare("plants", PLANTS, **changes)
    lines = [",".join("-123456" for _ in names)] * 50
    project.write_rows("plants.csv", [",".join(names), *lines])
    (done,) = project.run(spec, epsilons=["1"])
    shown, centres = centre_lines(done)
    assert shown == [*names[:7], "+ 9 columns", "noisy rows"]
    assert all(len(line) == 9 and line[7] == "…" for line in centres)


def test_pairs_too_large_to_count_are_left_out_of_a_bought_error(project: Project):
    wide = {name: {"bounds": ["0", "1000"], "bins": "5000"} for name in ("rooms", "rent")}
    changes = {"models": {"independent": {}}, "evaluation": {"epsilon": "0.5"}}
    attributes = {**HOMES["attributes"], **wide}
    spec = project.declare("homes", HOMES, attributes=attributes, **changes)
    # Without the comparison: its picture would have ten thousand bars.
    project.prepare(spec)
    bundle = project.publish(spec, model="independent", epsilon="1").bundle
    assert set(bundle.quality) == {"avd_2"}
    assert project.spent(spec) == Fraction("1.5")
