"""A release beside the public rows of another data set: which these are, and what it costs."""

import shutil
from typing import Any

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, NotPrepared
from dp_pipeline.releases.publish import publish
from dp_pipeline.releases.release_text import write_card
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline_tests.orchestration.projects import HOMES, ROWS, Project

OTHERS: dict[str, Any] = {
    **{name: HOMES[name] for name in ("attributes", "protection")},
    "description": "Homes of another town: public.",
    "population": "elsewhere",
    "purpose": "benchmark",
    "source": {"kind": "csv", "path": "others.csv"},
    "partitions": ["1"],
    "models": {"independent": {}},
}
ATTRIBUTES: dict[str, Any] = HOMES["attributes"]
PUBLIC = "the prior must be a data set with `purpose: benchmark`"
ALIKE = "but it has others there: declare it alike in both"
BESIDE = {"one_shot": {"prior": "others"}, "independent": {}}


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    """HOMES with the homes of another town beside them, both prepared."""
    prepare_others(project)
    return prepare_homes(project)


def prepare_others(project: Project, **changes: Any) -> None:
    project.datasets.mkdir(parents=True, exist_ok=True)
    project.write_rows("others.csv", [ROWS["homes"][0], *ROWS["homes"][1:] * 20])
    project.prepare(project.declare("others", OTHERS, **changes))


def prepare_homes(project: Project) -> DatasetSpec:
    declared = project.declare("homes", HOMES, models=BESIDE)
    project.prepare(declared)
    return declared


@pytest.fixture(autouse=True)
def files(project: Project, monkeypatch) -> None:
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(project.datasets))


def test_it_names_public_rows_and_is_rebuilt_by_them_alone(project: Project, spec: DatasetSpec):
    release = project.release(spec, model="one_shot", epsilon="1")
    published = publish(release)
    assert published.nano == 10**9, "what it would cost without them"
    name, digest = published.bundle.facts["prior"].split()
    assert (name, len(digest)) == ("others", 32)
    assert all(spend.what.startswith(("marg", "number")) for spend in published.bundle.spends)
    card = write_card(release, published.bundle, project.folder).read_text(encoding="utf-8")
    assert "public rows of others" in " ".join(card.split())
    require_reproducible(release, require_intact(release, published.folder))
    project.write_rows("others.csv", ROWS["homes"])
    project.prepare(project.declare("others", OTHERS), "later")
    assert project.publish(spec, model="one_shot", epsilon="1").state == "replayed"
    shutil.rmtree(published.folder)
    with pytest.raises(DeclarationError, match=r"prior: the public rows of .* are not those"):
        project.publish(spec, model="one_shot", epsilon="1")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"purpose": "release", "ceiling": {"total": "9"}}, PUBLIC),
        ({"population": HOMES["population"]}, PUBLIC),
        ({"attributes": {**ATTRIBUTES, "tenure": {"levels": ["owner", "renter"]}}}, ALIKE),
        ({"attributes": {**ATTRIBUTES, "rooms": {**ATTRIBUTES["rooms"], "bins": "2"}}}, ALIKE),
    ],
)
def test_rows_not_public_or_not_alike_are_refused_at_no_cost(changes, words, project, spec):
    project.write_declaration("others", OTHERS, **changes)
    with pytest.raises(DeclarationError, match=words):
        project.publish(spec, model="one_shot", epsilon="1")
    assert not [entry for entry in project.ledger.entries() if entry.nano_epsilon]


def test_protected_rows_stay_so_whatever_their_file_says(project: Project):
    prepare_others(project, purpose="release", ceiling={"total": "9"})
    declared = prepare_homes(project)
    project.write_declaration("others", OTHERS)
    with pytest.raises(DeclarationError, match="the account was opened with purpose 'release'"):
        project.publish(declared, model="one_shot", epsilon="1")
    assert not [entry for entry in project.ledger.entries() if entry.nano_epsilon]


def test_rows_that_are_not_there_are_requested_by_name(project: Project):
    declared = prepare_homes(project)
    project.write_declaration("others", OTHERS)
    with pytest.raises(NotPrepared, match=r"are not prepared: `dp-pipeline run others` first"):
        project.publish(declared, model="one_shot", epsilon="1")
    assert not [entry for entry in project.ledger.entries() if entry.nano_epsilon]
