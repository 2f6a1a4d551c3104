"""The whole chain, from a data set file to the report: of any rows it gives an answer."""

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import dagster as dg
import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_pipeline.cli.released import print_result
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.orchestration.checks import PLAUSIBLE
from dp_pipeline.releases.evaluate import compare_tables, evaluate, parse_compared_tables
from dp_pipeline.releases.outcome import report_path
from dp_pipeline.releases.replay import read_document
from dp_pipeline.releases.run_result import RunResult
from dp_pipeline_tests.orchestration.events import charged, check_results, materializations
from dp_pipeline_tests.orchestration.projects import FAMILIES, HOMES, PLANTS, RIDES, ROWS, Project

Ran = tuple[Project, DatasetSpec]
TARGETED = {**PLANTS, "targets": {"colour": {"positive": ["red"]}}}
DECLARED: Mapping[str, Any] = {"plants": TARGETED, "rides": RIDES, "homes": HOMES}


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
                "misclassified_svm/colour", "misclassified_logistic/colour",
            }  # fmt: skip
            assert scales == [None] * 10


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


HEADER = ROWS["homes"][0]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_benchmark_with_fewer_rows_than_centres_is_evaluated(rows: int, project: Project):
    spec = project.declare("plants", PLANTS, models={"eug_kmeans": {"k": "3"}, "independent": {}})
    project.write_rows("plants.csv", ROWS["plants"][: 1 + rows])
    clusters, table = project.run(spec, epsilons=["1"])
    exact = {row.metric: row.value for row in clusters.quality}
    assert exact["nicv_floor"] == 0
    assert np.isnan(exact["nicv_ratio"])
    assert [row.metric for row in table.quality] == ["avd_2", "avd_3", "dcr"]
    for release in (clusters, table):
        path = project.home.reports / f"{spec.name}.cards" / f"{release.release.name}.1.md"
        good = path.read_text("utf-8").partition("## How good it is")[2].partition("##")[0]
        assert "Compared with the public rows, without noise." in good
        assert all(f"| {row.text} | {row.reading} |" in good for row in release.quality)
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert "nan" not in re.sub(r"base64,[^\"]+", "", page)


DECIMALS = [f'"{at % 8},5","3{at % 10}0,0",renter' for at in range(2000)]
"""Two thousand homes with comma decimals: none of them is a number."""


def test_release_of_rows_that_are_all_invalid_says_so(project: Project, capsys):
    """Two thousand homes, each dropped; the noise reaches half of them once in 10^20 draws."""
    models = {"eug_kmeans": {"k": "3"}, "independent": {}}
    spec = project.declare("homes", HOMES, nominal_rows="2000", models=models)
    project.write_rows("homes.csv", [HEADER, *DECIMALS])
    project.run(spec)
    results = [result for result in check_results(project, spec) if result.check_name == PLAUSIBLE]
    assert [result.passed for result in results] == [False, False]
    assert {result.severity for result in results} == {dg.AssetCheckSeverity.WARN}
    for result in results:
        assert "Few rows: their noisy number is" in result.metadata["What speaks against it"].value
    for name in spec.models:
        path = project.home.reports / f"{spec.name}.cards" / f"{name}.1.md"
        card = path.read_text("utf-8")
        assert "## What speaks against it\n\n- Few rows" in card
    page = report_path(project.request(spec)).read_text(encoding="utf-8")
    assert "less than half of the 2,000 that nominal_rows declares" in page
    print_result(RunResult.of(project.request(spec), [()]))
    # By chance, so few rows may be a weak signal too.
    lines = [line for line in capsys.readouterr().out.splitlines() if ": Few rows: " in line]
    assert [line.partition(": Few rows: ")[0] for line in lines] == [
        "warning: eug_kmeans at ε=1", "warning: independent at ε=1",
    ]  # fmt: skip


CLUSTERINGS = [name for name, model in MODELS.items() if issubclass(model, Clustering)]
ANY_ROWS: Mapping[str, list[str]] = {
    "nobody": [],
    "everybody in one place": ["3,500,renter"] * 30,
    "everybody outside the box": ["99,-5,owner", "-1e308,1e308,renter"] * 10,
    "one good row": ["NaN,1,owner", "x,y,z", ",,", "2,400,owner", "inf,-inf,renter", "1,NaN,owner"],
}


@pytest.mark.parametrize("rows", ANY_ROWS.values(), ids=ANY_ROWS)
def test_every_clustering_releases_centres_of_any_rows(rows: list[str], project: Project):
    models = {name: {"k": "3"} for name in CLUSTERINGS}
    changes = {"evaluation": {"epsilon": "0.5"}, "label": "tenure", "ceiling": {"total": "20"}}
    spec = project.declare("homes", HOMES, models=models, **changes)
    project.write_rows("homes.csv", [HEADER, *rows])
    project.prepare(spec)
    for model in CLUSTERINGS:
        published = project.publish(spec, model=model, epsilon="1")
        assert published.state == "charged"
        assert set(published.bundle.quality) == {"nicv", "f_label", "ari_label"}
        centres = np.stack(list(published.bundle.tables["centres"].values()), axis=1)
        assert centres.shape == (3, 2)
        assert ((centres >= 0) & (centres <= (8, 1000))).all()
    assert project.spent(spec) == spec.cost_of_everything


PEOPLE: dict[str, Any] = {
    **HOMES,
    "ceiling": {"total": "1000"},
    "source": {"kind": "csv", "path": "p.csv", "comment": "#", "header": ["age", "job", "sex"]},
    "attributes": {
        "age": {"bounds": ["0", "90"], "edges": ["18"], "nullable": "true", "missing": ["?"]},
        "job": {"levels": ["paid", "none"], "nullable": "true", "aliases": {"Paid.": "paid"}},
        "sex": {"levels": ["f", "m"]},
    },
    "partitions": ["500"],
    "models": {"privbayes": {}},
}
LINES = ("# of one street", *["17, Paid., f", "?, none, m", "64, , f", ", paid, m"] * 50)


def declared(project: Project, **age: str) -> DatasetSpec:
    project.datasets.mkdir(parents=True, exist_ok=True)
    project.write_rows("p.csv", LINES)
    attributes = PEOPLE["attributes"]
    changed = {**attributes, "age": {**attributes["age"], **age}}
    return project.declare("people", PEOPLE, attributes=changed)


def test_synthetic_rows_miss_values_of_nullable_columns_alone(project: Project):
    project.prepare(declared(project))
    published = project.publish(declared(project), model="privbayes", epsilon="500")
    table = pq.read_table(published.folder / "synthetic.parquet")
    assert table.column_names == ["age", "job", "sex"]
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "string"]
    assert table.num_rows == 200
    # Drawn with chances 1/2, 1/4 and 0: without any of 200, a false alarm of 1e-25.
    assert table.column("age").null_count > 0
    assert table.column("job").null_count > 0
    assert table.column("sex").null_count == 0
    assert set(table.column("job").to_pylist()) == {"paid", "none", None}
    # Integers that are declared later are made of the same answers.
    spec = declared(project, integer="true")
    again = project.publish(spec, model="privbayes", epsilon="500")
    assert (published.state, again.state, again.nano) == ("charged", "replayed", 0)
    assert project.spent(spec) == 500
    ages = pq.read_schema(again.folder / "synthetic.parquet").field("age")
    assert str(ages.type) == "int64"


def test_a_release_keeps_constraints_and_its_card_says_them(project: Project):
    lands = {"owner": "low", "renter": "high", "other": "high"}
    never = {"rooms": "[0, 2)", "tenure": "owner"}
    spec = project.declare(
        "homes",
        HOMES,
        attributes=HOMES["attributes"] | {"land": {"levels": ["low", "high"]}},
        constraints={"never": never, "depends": {"tenure": {"land": lands}}},
        models={"one_shot": {"synthetic_rows": "400"}},
    )
    rows = [f"{2 + n % 6},{n},{tenure},{lands[tenure]}" for n, tenure in enumerate([*lands] * 99)]
    project.write_rows("homes.csv", [f"{HEADER},land", *rows, "1,5,owner,high"] * 2)
    (outcome,) = project.run(spec)
    table = pq.read_table(outcome.folder / "synthetic.parquet").to_pylist()
    assert len(table) == 400
    assert not [row for row in table if row["tenure"] == "owner" and (row["rooms"] or 9) < 2]
    places = [row for row in table if None not in (row["tenure"], row["land"])]
    assert all(lands[row["tenure"]] == row["land"] for row in places)
    card = (project.home.reports / "homes.cards" / "one_shot.1.md").read_text(encoding="utf-8")
    text = "Declared of every row: never rooms [0, 2) with tenure owner; tenure decides land."
    assert text in " ".join(card.replace("\\", "").split())
