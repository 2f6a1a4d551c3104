"""k-anonymous releases as Dagster and `dp-pipeline anonymize` show them: no value of a row."""

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.orchestration import release_assets
from dp_pipeline.orchestration.checks import KEEPS_K, k_anonymity_check
from dp_pipeline.releases.evaluate import evaluate
from dp_pipeline.releases.publish import PublishedBundle
from dp_pipeline.results.bundle import Bundle
from dp_pipeline_tests.orchestration import patients
from dp_pipeline_tests.orchestration.events import check_results, entries, metadata_of
from dp_pipeline_tests.orchestration.patients import ROWS, WARD, anonymized, declare, ready
from dp_pipeline_tests.orchestration.projects import Project, definitions_of
from dp_pipeline_tests.orchestration.warm import Result, assert_refused

SECRET = "1902107770713359"
KJIG = "k_anonymous/kjig"
EVALUATION = "k_anonymous/evaluation"


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return ready(project)


@pytest.fixture
def ward(project: Project) -> DatasetSpec:
    return ready(project, WARD, rows=ROWS * 3)


def logged(project: Project) -> str:
    return "".join(dg.serialize_value(entry) for entry in entries(project.instance))


def with_released(bundle: Bundle, **columns: np.ndarray) -> Bundle:
    released = {**bundle.tables["released"], **columns}
    return replace(bundle, tables={**bundle.tables, "released": released})


def tampered(bundle: Bundle) -> Bundle:
    """One row less in the class of the first row than the promise needs."""
    released = bundle.tables["released"]
    other = {name: np.append(values, values[:1]) for name, values in released.items()}
    name = next(iter(other))
    other[name] = np.append(released[name], "elsewhere")
    return with_released(bundle, **other)


def test_free_reports_are_requested_once_one_k_was_released(project: Project, spec: DatasetSpec):
    definitions = definitions_of(spec, project.home)
    free = {"k_anonymous/comparison", "budget"}

    def asked_for(cursor: Any) -> tuple[set[str], Any]:
        options = {"instance": project.instance, "cursor": cursor}
        result = dg.evaluate_automation_conditions(definitions, **options)
        keys = {name: dg.AssetKey(["patients", *name.split("/")]) for name in free}
        return {n for n, key in keys.items() if result.get_num_requested(key)}, result.cursor

    before, cursor = asked_for(None)
    assert before == set()
    assert project.launch(spec, KJIG, EVALUATION, partition="2").success
    assert asked_for(cursor)[0] == free


def test_a_release_shows_its_kind_and_no_exact_figure(project: Project, spec: DatasetSpec):
    graph = definitions_of(spec, project.home).resolve_asset_graph()
    asset = graph.get(dg.AssetKey(["patients", *KJIG.split("/")]))
    assert asset.metadata["privacy/kind"] == "not-dp"
    assert "Not differentially private" in (asset.description or "")
    assert project.launch(spec, KJIG, EVALUATION, partition="2").success
    metadata = metadata_of(project, spec, KJIG, "2")
    assert (metadata["privacy/kind"].value, metadata["k_anonymity/K"].value) == ("not-dp", 2)
    assert metadata["k_anonymity/smallest class"].value >= 2
    assert isinstance(metadata["release card"], dg.MarkdownMetadataValue)
    assert "NOT DIFFERENTIALLY PRIVATE" in metadata["release card"].value
    assert "privacy/other non-DP releases" not in metadata, "it is not beside itself"
    (check,) = [result for result in check_results(project, spec) if result.check_name == KEEPS_K]
    assert check.passed
    assert check.metadata["smallest class"].value >= 2
    assert project.launch(spec, "k_anonymous/comparison").success
    (file,) = (project.snapshot(spec).folder / "custodian").glob("k-anonymous-*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    facts = json.loads(file.read_text())["facts"]
    assert set(facts) == {"auc", "auc_paper", "kept"}, "a run time depends on the rows"
    metadata = metadata_of(project, spec, EVALUATION, "2")
    assert not [name for name in metadata if name.startswith("kjig/")]
    evaluated = project.home.internal / "patients" / "k_anonymous" / "evaluation" / "2.json"
    assert '"rows": []' in evaluated.read_text(encoding="utf-8")
    page = (project.home.reports / "patients.k_anonymous.html").read_text(encoding="utf-8")
    assert "No figures" in page


def test_table_that_breaks_its_promise_fails(project: Project, spec: DatasetSpec, monkeypatch):
    release = anonymized(project, spec)
    broken = tampered(release.bundle)
    assert k_anonymity_check(release.bundle).passed
    assert not k_anonymity_check(broken).passed
    everybody_ill = np.full_like(release.bundle.tables["released"]["ill"], "yes")
    assert not k_anonymity_check(with_released(release.bundle, ill=everybody_ill)).passed
    published = PublishedBundle(broken, "replayed", 0, release.folder)
    monkeypatch.setattr(release_assets, "publish", lambda *_, **__: published)
    assert project.launch(spec, KJIG, partition="2").success
    (check,) = [result for result in check_results(project, spec) if result.check_name == KEEPS_K]
    assert not check.passed
    assert check.metadata["smallest class"].value == 1


def test_of_public_rows_auc_and_run_time_are_shown_over_k(project: Project, ward: DatasetSpec):
    for k in ("2", "5"):
        assert project.launch(ward, KJIG, EVALUATION, partition=k).success
    metadata = metadata_of(project, ward, EVALUATION, "2")
    assert 0.5 < metadata["kjig/auc"].value <= 1
    assert 0 <= metadata["kjig/auc_paper"].value <= 1
    assert metadata["kjig/seconds"].value > 0
    assert project.launch(ward, "k_anonymous/comparison").success
    report = metadata_of(project, ward, "k_anonymous/comparison", None)
    assert {"summary", "AUC over K", "run time over K", "report"} <= set(report)
    assert "K = 5" in report["summary"].value
    page = project.home.reports / "patients.k_anonymous.html"
    assert str(page) == str(report["report"].value)
    assert "NOT DIFFERENTIALLY PRIVATE" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("base", [patients.PATIENTS, WARD], ids=["sensitive", "public"])
def test_label_of_sensitive_row_that_was_left_out_is_nowhere(base, project: Project):
    lonely = "mutual_information"
    attributes = {**patients.PATIENTS["attributes"], "ill": {"levels": ["no", "yes", "zebra"]}}
    settings = {"methods": {lonely: {}}, "partitions": ["5"], "suppress": "0.05"}
    rows = [*patients.LONELY, "50,m,zebra"]
    spec = ready(project, base, rows=rows, attributes=attributes, k_anonymity=settings)
    assert project.launch(spec, f"k_anonymous/{lonely}", EVALUATION, partition="5").success
    assert project.launch(spec, "k_anonymous/comparison").success
    metadata = metadata_of(project, spec, f"k_anonymous/{lonely}", "5")
    assert metadata["k_anonymity/suppressed rows"].value == 1
    tables = anonymized(project, spec, method=lonely, k=5).bundle.tables
    values = [str(v.tolist()) for table in tables.values() for v in table.values()]
    stored = project.files("released", "internal", "reports").values()
    assert "zebra" not in project.cli_here("anonymize", "patients").out
    is_public = not spec.is_release
    assert any("zebra" in value for value in values) is is_public
    assert any(b"zebra" in content for content in stored) is is_public
    assert ("zebra" in logged(project)) is is_public


def test_evaluated_release_is_evaluated_again_without_a_look(project: Project, ward: DatasetSpec):
    bundle = anonymized(project, ward).bundle
    first = evaluate(ward, project.home, {"kjig": bundle})
    assert {row.model for row in first} == {"kjig"}
    project.snapshot(ward).table_path("discretized").unlink()
    assert evaluate(ward, project.home, {"kjig": bundle}) == first
    # A release of an older declaration is not evaluated.
    other = declare(project, WARD, k_anonymity={**WARD["k_anonymity"], "seed": "9"}, rows=ROWS * 3)
    assert evaluate(other, project.home, {"kjig": bundle}) == []


def test_no_value_of_a_row_is_in_a_message_an_event_or_a_release(project: Project):
    rows = [*ROWS, f"{SECRET},f,no", f"10,{SECRET},yes", f"word{SECRET},m,yes"]
    spec = declare(project, rows=rows)
    stages = ["ingested", "validated", "normalized", "discretized"]
    assert project.launch(spec, *stages).success
    for k in ("2", "5"):
        assert project.launch(spec, KJIG, EVALUATION, partition=k).success
    assert project.launch(spec, "k_anonymous/comparison", "budget").success
    assert SECRET not in logged(project)
    for name, content in project.files("released", "internal", "reports").items():
        assert SECRET.encode() not in content, name
    raw = [metadata_of(project, spec, stage, None) for stage in stages]
    assert {name for metadata in raw for name in metadata} <= {"snapshot", "source", "stage"}


def lines_of(result: Result) -> list[list[str]]:
    cells_by_line = (re.split(r"  +", line.strip()) for line in result.out.splitlines())
    return [cells for cells in cells_by_line if cells[0] in ("kjig", "mutual_information")]


def cards_of(result: Result) -> list[Path]:
    return [Path(path) for path in re.findall(r"^card of .*: (\S+)$", result.out, re.MULTILINE)]


def test_public_rows_are_released_by_the_first_method_at_every_k(project: Project):
    declare(project, WARD, rows=ROWS * 3)
    first = project.cli_here("anonymize", "patients")
    assert (first.code, first.err) == (0, "")
    rows = lines_of(first)
    assert [row[:2] for row in rows] == [["kjig", "2"], ["kjig", "5"]]
    assert {row[-1] for row in rows} == {"recorded, not-dp"}
    assert all(int(row[4]) >= int(row[1]) for row in rows), "smallest class"
    assert all(0 <= float(row[-2]) <= 1 for row in rows), "AUC"
    assert "This is not differential privacy" in first.out
    assert [path.name for path in cards_of(first)] == ["card.md", "card.md"]
    assert all("NOT DIFFERENTIALLY PRIVATE" in path.read_text() for path in cards_of(first))
    stored = project.files("released")
    again = project.cli_here("anonymize", "patients")
    assert [row[-1] for row in lines_of(again)] == ["replayed, not-dp"] * 2
    assert project.files("released") == stored
    (account,) = json.loads(project.cli_here("budget", "--json").out)["accounts"]
    assert (account["releases"], account["not_dp"], account["spent"]) == ("2", "2", "0")
    assert len(project.instance.get_runs()) == 1 + 3, "rows, two K and a comparison; nothing again"


def test_methods_and_k_are_chosen_by_name_or_all_at_once(project: Project):
    declare(project, WARD)
    chosen = project.cli_here("anonymize", "patients", "--method", "mutual_information", "--k", "5")
    assert [row[:2] for row in lines_of(chosen)] == [["mutual_information", "5"]]
    everything = project.cli_here("anonymize", "patients", "--all")
    assert [row[:2] for row in lines_of(everything)] == [
        [name, k] for name in ("kjig", "mutual_information") for k in ("2", "5")
    ]


def test_of_sensitive_rows_the_k_has_to_be_named(project: Project):
    declare(project)
    words = "as tables of sensitive rows at several K together reveal more"
    assert_refused(project.cli_here("anonymize", "patients"), 2, words)
    assert not project.home.root.exists()
    result = project.cli_here("anonymize", "patients", "--k", "2")
    assert (result.code, result.err) == (0, "")
    ((_, k, *_, auc, state),) = lines_of(result)
    assert (k, auc, state) == ("2", "–", "recorded, not-dp")
    report = (project.home.reports / "patients.html").read_text(encoding="utf-8")
    assert "ALSO RELEASED WITHOUT ε" in report
    declare(project, k_anonymity={"methods": {"kjig": {}}, "partitions": ["5"]})
    assert project.cli_here("anonymize", "patients").code == 0, "there is one K alone"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("patients --k 3", "K of a table must be one of 2, 5, not 3"),
        ("patients --k few", "K: expected an integer"),
        ("patients --method rfka", "the method must be one of kjig"),
        ("patients --all --method kjig", "cannot be used with it: leave one out"),
        ("patients --k 2 --snapshot ../x", "The name of a snapshot must have letters, digits"),
    ],
)
def test_a_wrong_argument_is_refused_with_nothing_made(arguments, word, project: Project):
    declare(project)
    assert_refused(project.cli_here("anonymize", *arguments.split()), 2, word)
    assert not project.home.root.exists()


@pytest.mark.parametrize(
    ("methods", "word"),
    [
        ({"kjigg": {}}, "the method must be one of"),
        ({"kjig": {"trees": "5"}}, "kjig: a parameter must be one of shape, not 'trees'"),
    ],
)
def test_a_wrong_method_is_named_before_anything_is_made(methods, word, project: Project):
    declare(project, k_anonymity={"methods": methods})
    check = ["data", "check", "datasets/patients.yaml"]
    for command in (["run", "patients"], ["plan", "patients"], ["anonymize", "patients"], check):
        assert_refused(project.cli_here(*command), 2, word)
    assert not project.home.root.exists()


def test_check_plan_and_list_say_what_is_declared(project: Project):
    declare(project)
    line = "k-anonymous, by `anonymize`, without any ε: kjig, mutual_information at K = 2, 5"
    assert line in project.cli_here("data", "check", "datasets/patients.yaml").out
    assert line in project.cli_here("plan", "patients").out
    listed = project.cli_here("data", "list").out.splitlines()[-1]
    assert re.search("also released k-anonymous by `anonymize`, without ε: .*patients", listed)
    assert not project.home.root.exists()
