"""After a k-anonymous release of sensitive rows, every later card of the same persons says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.releases import k_anonymous_release
from dp_pipeline.releases.release import OTHER_NON_DP, other_non_dp_releases
from dp_pipeline.releases.report import compare
from dp_pipeline_tests.orchestration.events import materializations
from dp_pipeline_tests.orchestration.patients import PATIENTS, WARD, anonymized, ready
from dp_pipeline_tests.orchestration.projects import Project

pytestmark = pytest.mark.chain

TOLD = "patients/k_anonymous/kjig at K=2, snapshot 2026-11-22"


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return ready(project)


def page_of(project: Project, spec: DatasetSpec) -> str:
    path: Path = compare(spec, project.home, {}).path
    return path.read_text(encoding="utf-8")


def test_private_release_names_earlier_non_dp_releases(project: Project, spec: DatasetSpec):
    before = project.publish(spec, model="independent", epsilon="0.5").bundle
    assert OTHER_NON_DP not in before.facts
    anonymized(project, spec)
    after = project.publish(spec, model="independent", epsilon="1").bundle
    assert after.facts[OTHER_NON_DP] == TOLD
    entries = [e for e in project.ledger.entries("ward") if e.key == after.key]
    assert entries[0].facts[OTHER_NON_DP] == TOLD
    anonymized(project, spec, k=5)
    assert (
        project.publish(spec, model="independent", epsilon="1").bundle.facts[OTHER_NON_DP] == TOLD
    )


def test_a_bundle_that_is_rebuilt_says_what_it_said(project: Project, spec: DatasetSpec):
    first = project.publish(spec, model="independent", epsilon="0.5")
    stored = first.bundle.to_json()
    anonymized(project, spec)
    for path in first.folder.iterdir():
        path.unlink()
    first.folder.rmdir()
    assert project.publish(spec, model="independent", epsilon="0.5").bundle.to_json() == stored


def test_card_names_earlier_releases_and_no_later_one(project: Project, spec: DatasetSpec):
    first = anonymized(project, spec)
    second = anonymized(project, spec, k=5)
    assert OTHER_NON_DP not in first.bundle.facts
    assert second.bundle.facts[OTHER_NON_DP] == TOLD
    assert "kjig at K=2" in (second.folder / "card.md").read_text(encoding="utf-8").replace(
        "\\", ""
    )
    assert "K=5" not in (anonymized(project, spec).folder / "card.md").read_text(encoding="utf-8")


def test_the_report_has_an_alarm_box_from_then_on(project: Project, spec: DatasetSpec):
    assert "k_anonymous" not in page_of(project, spec)
    anonymized(project, spec)
    page = page_of(project, spec)
    assert "ALSO RELEASED WITHOUT ε" in page
    assert TOLD in page


def test_dagster_says_it_of_private_releases_replayed_ones_too(project: Project, spec: DatasetSpec):
    assert project.launch(spec, "independent", partition="0.5").success
    anonymized(project, spec)
    assert project.launch(spec, "independent", partition="0.5").success
    (partitions,) = (
        materialized
        for key, materialized in materializations(project, spec).items()
        if key.path[1:] == ["independent"]
    )
    now, then = partitions["0.5"]
    assert now["privacy/state"].value == "replayed"
    assert TOLD in now["privacy/other non-DP releases"].value
    assert "privacy/other non-DP releases" not in then


def test_another_data_set_of_the_same_persons_says_it_too(project: Project, spec: DatasetSpec):
    anonymized(project, spec)
    other = project.declare("visits", PATIENTS, k_anonymity=None, allow_not_dp=None)
    project.prepare(other)
    release = project.publish(other, model="independent", epsilon="1").bundle
    assert release.facts[OTHER_NON_DP] == TOLD


def test_what_was_started_and_never_finished_is_reported_as_well(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(k_anonymous_release, "coded_rows", broken)
    with pytest.raises(OSError, match="no disk"):
        anonymized(project, spec)
    assert other_non_dp_releases(spec, project.ledger) == [TOLD]


def test_on_public_rows_nothing_is_said(project: Project):
    spec = ready(project, WARD)
    anonymized(project, spec)
    assert project.ledger.balance("ward").not_dp == 1
    assert other_non_dp_releases(spec, project.ledger) == []
    assert OTHER_NON_DP not in project.publish(spec, model="independent", epsilon="1").bundle.facts
    assert "ALSO RELEASED" not in page_of(project, spec)
