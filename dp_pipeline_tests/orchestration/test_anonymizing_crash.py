"""A k-anonymous release killed at any point: recorded once, and the next run goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.releases import k_anonymous_release
from dp_pipeline_tests.orchestration.anonymizing_killers import anonymize_and_die
from dp_pipeline_tests.orchestration.patients import anonymized, declare, prepared
from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.orchestration.warm import ended, start

pytestmark = pytest.mark.chain


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    spec = declare(project)
    prepared(project, spec)
    return spec


def kill(project: Project, point: str) -> None:
    words = project.folder / "words"
    words.mkdir()
    result = ended(start(words, anonymize_and_die, project.folder, point), words)
    assert result.code == -signal.SIGKILL, result.err
    project.ledger.verify()


def bundles(project: Project) -> list[Path]:
    """Whole ones."""
    folders = project.home.released.rglob("bundle.json")
    return [path.parent for path in folders if not path.parent.name.startswith(".")]


@pytest.mark.parametrize(
    ("point", "recorded", "whole", "state"),
    [
        ("before the row", [], 0, "charged"),
        ("before the look", ["reserve"], 0, "resumed"),
        ("half a bundle", ["reserve"], 0, "resumed"),
        ("bundle not settled", ["reserve"], 1, "resumed"),
        ("settled", ["reserve", "settled"], 1, "replayed"),
    ],
)
def test_the_next_run_goes_on_where_the_killed_one_was(
    point: str, recorded: list[str], whole: int, state: str, project: Project, spec: DatasetSpec
):
    def rows() -> list[str]:
        return [entry.event for entry in project.ledger.entries() if entry.kind == "not-dp"]

    kill(project, point)
    assert rows() == recorded
    assert len(bundles(project)) == whole
    again = anonymized(project, spec)
    assert again.state == state
    assert bundles(project) == [again.folder]
    assert (again.folder / "card.md").is_file()
    assert rows().count("reserve") == rows().count("settled") == 1
    assert anonymized(project, spec).state == "replayed"
    project.ledger.verify()


def test_a_stored_bundle_is_settled_without_a_second_look(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    kill(project, "bundle not settled")
    stored = project.files("released")

    def unread(*_: object) -> None:
        raise AssertionError("somebody looked at the rows")

    monkeypatch.setattr(k_anonymous_release, "coded_rows", unread)
    assert anonymized(project, spec).state == "resumed"
    assert project.files("released") == stored
