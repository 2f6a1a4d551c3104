"""What an interrupted release is bound to: its rows, its answers, and a salt that nobody knows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, Damaged, DeclarationError
from dp_pipeline.ledger import DeadRelease, Ledger
from dp_pipeline.ledger.export import exported
from dp_pipeline.releases.model_questions import ModelQuestions
from dp_pipeline.releases.noisy_drawing import NoisyDrawing
from dp_pipeline.releases.release import ROWS
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.ledger.population import raw
from dp_pipeline_tests.orchestration.interrupting import (
    Crash,
    StoppingNoise,
    interrupted,
    prepared,
    publish_with,
)
from dp_pipeline_tests.orchestration.projects import RIDES, Project

pytestmark = pytest.mark.chain

COST = Fraction("0.55")
DEEP = {"dpqt_kmeans": {"k": "3", "nominal_rows": "1000"}}
"""Four answers of the model, and two of the evaluation."""


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    spec = project.declare("rides", RIDES, models=DEEP)
    prepared(project, spec)
    return spec


def is_dead(project: Project, spec: DatasetSpec) -> None:
    """Nothing goes on but a new draw, at the full price."""
    with pytest.raises(DeadRelease):
        project.publish(spec)
    assert project.spent(spec) == COST
    assert project.publish(spec, new_draw=True).nano == 550_000_000
    project.ledger.verify()


# The rows.


def other_rows(project: Project) -> None:
    shutil.rmtree(project.home.raw / "rides")
    project.write_rows("rides.csv", ["rider,x,y", *[f"zoe{n},7,3" for n in range(9)]])


def the_same_rows_read_again(project: Project) -> None:
    shutil.rmtree(project.home.raw / "rides")


@pytest.mark.parametrize("change", [other_rows, the_same_rows_read_again])
def test_a_release_is_not_finished_over_rows_that_were_read_again(
    change: Callable[[Project], None], project: Project, spec: DatasetSpec
) -> None:
    """The same rows too: whether they have changed is a question about rows."""
    transcript = interrupted(project, spec)
    answers = transcript.read_bytes()
    change(project)
    prepared(project, spec)
    words = r"rides/dpqt_kmeans at .*: expected the rows of snapshot .* that this release was begun"
    with pytest.raises(Damaged, match=words) as refused:
        project.publish(spec)
    assert "only --new-draw goes on" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert transcript.read_bytes() == answers, "something was asked of other rows"
    is_dead(project, spec)


def test_a_release_is_finished_over_the_same_rows_prepared_again(
    project: Project, spec: DatasetSpec
) -> None:
    interrupted(project, spec)
    prepared(project, spec)
    again = project.publish(spec)
    assert (again.state, again.nano, project.spent(spec)) == ("resumed", 0, COST)


def test_a_table_that_is_none_of_the_manifest_ends_no_interrupted_release(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was damaged can be put back; the ε of a release that has ended can not."""
    monkeypatch.setenv("DP_PIPELINE_ENGINE", "stream")
    interrupted(project, spec)
    snapshot = project.snapshot(spec)
    before = snapshot.manifest["fingerprints"]
    snapshot.record(fingerprints={**before, "normalized": "0" * 64})
    with pytest.raises(Damaged, match="the table 'normalized' as it was stored, got another"):
        project.publish(spec)
    snapshot.record(fingerprints=before)
    assert project.publish(spec).state == "resumed"


def test_the_fingerprint_of_the_rows_is_in_the_ledger_and_nowhere_else(
    project: Project, spec: DatasetSpec
) -> None:
    published = project.publish(spec)
    (begun,) = [one for one in project.ledger.entries() if one.event == "reserve"]
    fingerprint = begun.facts[ROWS]
    assert len(fingerprint) == 64
    assert ROWS not in published.bundle.facts
    assert fingerprint not in str(exported(project.ledger.entries()))
    for content in project.files("released", "internal", "reports").values():
        assert fingerprint.encode() not in content


def test_the_fingerprint_tells_nothing_to_who_does_not_hold_the_key(project: Project) -> None:
    prints = set()
    for name in ("one", "two"):
        other = Project(project.folder / name)
        declared = other.declare("rides", RIDES, models=DEEP)
        prepared(other, declared)
        other.publish(declared)
        prints |= {one.facts[ROWS] for one in other.ledger.entries() if one.event == "reserve"}
    assert len(prints) == 2, "the same rows under two keys"


# The answers.


@pytest.mark.parametrize("kept", range(3))
def test_a_release_whose_answers_were_cut_off_at_a_line_end_is_dead(
    kept: int, project: Project, spec: DatasetSpec
) -> None:
    transcript = interrupted(project, spec)
    lines = transcript.read_bytes().splitlines(keepends=True)
    transcript.write_bytes(b"".join(lines[: 1 + kept]))
    with pytest.raises(Damaged, match=f"the 3 answers that were counted .*, got {kept}"):
        project.publish(spec)
    is_dead(project, spec)


def test_an_older_copy_of_all_that_was_released_does_not_bring_answers_back(
    project: Project, spec: DatasetSpec
) -> None:
    interrupted(project, spec, answers=1)
    backup = project.folder / "backup"
    shutil.copytree(project.home.released, backup)
    with pytest.raises(Crash):
        publish_with(project, spec, StoppingNoise(2, answers=2))
    shutil.rmtree(project.home.released)
    shutil.copytree(backup, project.home.released)
    with pytest.raises(Damaged, match=r"the 3 answers that were counted .*, got 1"):
        project.publish(spec)
    is_dead(project, spec)


def test_a_stored_bundle_tells_of_answers_that_were_put_back_together_with_their_count(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr("dp_pipeline.ledger.Reservation.settle", settle)
        project.publish(spec)
    (transcript,) = project.home.released.rglob("transcript.jsonl")
    transcript.write_bytes(b"".join(transcript.read_bytes().splitlines(keepends=True)[:3]))
    (count,) = project.home.answer_counts.iterdir()
    count.write_text(f"{2:020d}\n")
    with pytest.raises(Damaged, match="expected that of the stored bundle"):
        project.publish(spec)
    is_dead(project, spec)


def test_a_damaged_row_of_the_account_kills_no_release(project: Project, spec: DatasetSpec) -> None:
    """It can be mended, and the answers are whole."""
    interrupted(project, spec)
    raw(project.ledger.folder, "UPDATE entries SET what = 'y' WHERE sequence = 1", checks=False)
    with pytest.raises(Damaged, match="row 1"):
        project.ledger.entries(spec.population)
    assert (project.publish(spec).state, project.spent(spec)) == ("resumed", COST)


def test_damage_that_is_found_while_the_bundle_is_made_kills_no_release(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(project, spec)

    def damaged(*_: object, **__: object) -> None:
        raise Damaged("ledger row 7 does not match its hash: it was changed")

    with monkeypatch.context() as patch, pytest.raises(Damaged, match="row 7"):
        patch.setattr(NoisyDrawing, "draw", damaged)
        project.publish(spec)
    assert (project.publish(spec).state, project.spent(spec)) == ("resumed", COST)


def test_what_cannot_be_drawn_is_refused_before_it_is_charged(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(*_: object, **__: object) -> None:
        raise BoundaryViolation("a table of too many cells")

    with monkeypatch.context() as patch, pytest.raises(BoundaryViolation, match="too many cells"):
        patch.setattr(ModelQuestions, "bundle", impossible)
        project.publish(spec)
    assert (project.spent(spec), project.ledger.unfinished()) == (0, ())


def test_an_evaluated_release_is_finished_with_the_parameters_that_it_was_begun_with(
    project: Project, spec: DatasetSpec
) -> None:
    """Its evaluation asks about its own centres: of others it would be another question."""
    interrupted(project, spec)
    other = project.declare(
        "rides", RIDES, models={"dpqt_kmeans": {**DEEP["dpqt_kmeans"], "k": "4"}}
    )
    with pytest.raises(DeclarationError, match="finish it first"):
        project.publish(other)
    assert project.publish(spec).state == "resumed"


def test_what_lies_there_is_settled_whatever_newer_code_makes_of_the_answers(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr("dp_pipeline.ledger.Reservation.settle", settle)
        project.publish(spec)
    real = ModelQuestions.bundle

    def newer(*arguments: Any, **named: Any) -> Bundle:
        made = real(*arguments, **named)
        return replace(made, facts={**made.facts, "title": "Otherwise"})

    with monkeypatch.context() as patch:
        patch.setattr(ModelQuestions, "bundle", newer)
        resumed = project.publish(spec)
    assert (resumed.state, "title" in resumed.bundle.facts) == ("resumed", False)
    assert project.publish(spec).state == "replayed"


def test_a_release_that_lost_its_count_is_dead(project: Project, spec: DatasetSpec) -> None:
    interrupted(project, spec)
    shutil.rmtree(project.home.answer_counts)
    with pytest.raises(Damaged, match="nobody knows how many of them were seen"):
        project.publish(spec)
    is_dead(project, spec)


def test_a_count_lies_beside_the_head_while_a_release_is_unfinished_and_no_longer(
    project: Project, spec: DatasetSpec
) -> None:
    interrupted(project, spec)
    (count,) = project.home.answer_counts.iterdir()
    assert count.read_text() == f"{3:020d}\n"
    assert project.home.answer_counts.parent == project.home.root
    assert project.publish(spec).state == "resumed"
    assert list(project.home.answer_counts.iterdir()) == []
    # As a run leaves it that is killed once it has settled.
    count.write_text(f"{6:020d}\n")
    assert project.publish(spec).state == "replayed"
    assert not count.exists()


def test_a_head_on_another_disk_has_the_counts_beside_it(project: Project, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (project.home.root).mkdir(parents=True)
    (project.home.root / "ledger.head").symlink_to(tmp_path / "disk" / "head")
    assert project.home.answer_counts == tmp_path / "disk" / "head.answers"


def test_answers_that_no_charge_is_known_of_are_not_charged_again(
    project: Project, spec: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the rest of them would be asked of rows that may be others by now."""
    transcript = interrupted(project, spec, answers=1)
    states = Ledger.states
    forgotten = transcript.parent.name

    def forget(ledger: Ledger, keys: list[str]) -> tuple[str | None, ...]:
        known = zip(keys, states(ledger, keys), strict=True)
        return tuple(None if key[:32] == forgotten else state for key, state in known)

    monkeypatch.setattr(Ledger, "states", forget)
    monkeypatch.setattr(Ledger, "history", lambda *_: ())
    with pytest.raises(Damaged, match=r"a release that was never charged, got 1: move .* away"):
        project.publish(spec)
    monkeypatch.undo()
    assert (project.publish(spec).state, project.spent(spec)) == ("resumed", COST)


# The salt.


def test_the_digest_of_the_answers_is_another_for_who_does_not_hold_the_key(
    project: Project,
) -> None:
    """Else who reads a bundle, and knows most answers, could find the others by trying."""
    found = []
    for name in ("one", "two"):
        other = Project(project.folder / name)
        declared = other.declare("rides", RIDES, models=DEEP)
        # Two rows a rider: who holds another key would keep another choice of more.
        other.write_rows(
            "rides.csv", ["rider,x,y", *[f"r{n % 9},{n % 8},{n % 4}" for n in range(18)]]
        )
        prepared(other, declared)
        published = publish_with(other, declared, StoppingNoise(7))
        transcript = Transcript(published.folder.parent / "transcript.jsonl")
        found.append((published.bundle, transcript.records))
    (one, records), (two, same) = found
    assert one.key == two.key
    assert [record.question for record in records] == [record.question for record in same]
    for record, other_record in zip(records[1:], same[1:], strict=True):
        assert np.array_equal(record.answer, other_record.answer), "the same noise of the same rows"
    assert one.transcript != two.transcript
    assert records[0].answer.nbytes == same[0].answer.nbytes == 32
    assert not np.array_equal(records[0].answer, same[0].answer)


def test_every_release_has_a_salt_of_its_own(project: Project, spec: DatasetSpec) -> None:
    salts = []
    for fresh in (False, True):
        folder = project.publish(spec, new_draw=fresh).folder
        salts.append(Transcript(folder.parent / "transcript.jsonl").records[0].answer.tolist())
    assert salts[0] != salts[1]
