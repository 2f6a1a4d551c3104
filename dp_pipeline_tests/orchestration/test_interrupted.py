"""What an interrupted release is bound to: its rows, its answers, and a salt that nobody knows."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, Damaged, DeclarationError
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.ledger import DeadRelease, Ledger
from dp_pipeline.ledger.export import export_lines
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.noisy_release import NoisyDrawing
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline.releases.release import ROWS
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.ledger.population import raw
from dp_pipeline_tests.orchestration.faults import stopped
from dp_pipeline_tests.orchestration.projects import HOMES, RIDES, Project

COST = Fraction("0.55")
DEEP = {"dpqt_kmeans": {"k": "3", "nominal_rows": "1000"}}
ANSWERS = 7
"""The rows without a place, three heights of the tree, its leaves, and two of the evaluation."""


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    return prepared(project)


def prepared(project: Project) -> DatasetSpec:
    spec = project.declare("rides", RIDES, models=DEEP)
    project.prepare(spec)
    return spec


def require_resumed(project: Project, spec: DatasetSpec) -> PublishedBundle:
    published = project.publish(spec)
    assert (published.state, published.nano, project.spent(spec)) == ("resumed", 0, COST)
    return published


def interrupted(project: Project, spec: DatasetSpec, *, answers: int = 3) -> Path:
    """The transcript of a release that stopped after so many answers."""
    with stopped(answers):
        project.publish(spec)
    (transcript,) = project.home.released.rglob("transcript.jsonl")
    return transcript


def require_dead(project: Project, spec: DatasetSpec) -> None:
    """Nothing goes on but a new draw, at the full price."""
    with pytest.raises(DeadRelease, match="lost, or its rows were read again, and its ε is spent"):
        project.publish(spec)
    (planned,) = plan_run(project.request(spec, epsilons=["0.5"])).releases
    assert planned.state == "dead"
    assert project.spent(spec) == COST
    assert project.publish(spec, new_draw=True).nano == 550_000_000
    project.ledger.verify()


@pytest.mark.parametrize("are_others", [True, False])
def test_release_is_not_ended_over_new_rows(project, spec, are_others):
    """The same rows too: whether they have changed is a question about rows."""
    transcript = interrupted(project, spec)
    answers = transcript.read_bytes()
    shutil.rmtree(project.home.raw / "rides")
    if are_others:
        project.write_rows("rides.csv", ["rider,x,y", *[f"zoe{n},7,3" for n in range(9)]])
    project.prepare(spec)
    words = r"rides/dpqt_kmeans at .*: the rows of snapshot .* with which this"
    with pytest.raises(Damaged, match=words) as refused:
        project.publish(spec)
    assert "pay for a new draw with --new-draw" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert transcript.read_bytes() == answers, "something was asked of other rows"
    require_dead(project, spec)


def test_table_of_other_manifest_ends_no_release(project: Project, spec: DatasetSpec, monkeypatch):
    """What was damaged can be put back; the ε of a release that has ended can not."""
    monkeypatch.setenv("DP_PIPELINE_ENGINE", "stream")
    interrupted(project, spec)
    snapshot = project.snapshot(spec)
    before = snapshot.manifest["fingerprints"]
    snapshot.record(fingerprints={**before, "normalized": "0" * 64})
    with pytest.raises(Damaged, match="is not as it was stored: restore it"):
        project.publish(spec)
    snapshot.record(fingerprints=before)
    require_resumed(project, spec)


def test_fingerprint_of_the_rows_is_in_the_ledger_alone(project: Project, spec: DatasetSpec):
    published = project.publish(spec)
    (charge,) = [entry for entry in project.ledger.entries() if entry.event == "reserve"]
    fingerprint = charge.facts[ROWS]
    assert len(fingerprint) == 64
    assert ROWS not in published.bundle.facts
    assert fingerprint not in str(export_lines(project.ledger.entries()))
    for content in project.files("released", "internal", "reports").values():
        assert fingerprint.encode() not in content


def require_finished(project: Project, spec: DatasetSpec, path: Path, stored: bytes) -> None:
    """The next run draws the missing answers, and no other."""
    again = require_resumed(project, spec)
    assert path.read_bytes().startswith(stored)
    transcript = Transcript(path)
    assert len(transcript) == 1 + ANSWERS, "the header and every answer"
    assert again.bundle.transcript == transcript.chain


@pytest.mark.parametrize("answers", range(ANSWERS))
def test_only_the_missing_answers_are_drawn(answers: int, project: Project, spec: DatasetSpec):
    transcript = interrupted(project, spec, answers=answers)
    stored = transcript.read_bytes()
    # Over rows that were prepared again, and after the torn line of one more answer.
    project.prepare(spec)
    transcript.write_bytes(stored + stored.splitlines()[-1][:12])
    require_finished(project, spec, transcript, stored)


def test_unfinished_release_is_resumed_by_a_run(project: Project, spec: DatasetSpec):
    interrupted(project, spec, answers=2)
    # Anew or not: what was paid for is finished first.
    options = {"epsilons": ["0.5"], "new_draw": True}
    planned = plan_run(project.request(spec, **options))
    assert [(release.state, release.cost) for release in planned.releases] == [("unfinished", 0)]
    (outcome,) = project.run(spec, **options)
    assert (outcome.state, outcome.cost, project.spent(spec)) == ("resumed", 0, COST)


def test_unfinished_release_needs_its_own_parameters(project: Project, spec: DatasetSpec):
    """Its evaluation asks about its own centres: of others it would be another question."""
    transcript = interrupted(project, spec, answers=5)
    two = {"dpqt_kmeans": {**DEEP["dpqt_kmeans"], "k": "2"}}
    other = project.declare("rides", RIDES, models=two)
    with pytest.raises(DeclarationError, match=r"was started with.*\"k\": \"3\".*: put them back"):
        project.publish(other)
    require_finished(project, spec, transcript, transcript.read_bytes())
    changed = project.publish(other)
    assert (changed.state, changed.nano, changed.bundle.quality) == ("replayed", 0, {})


def first_lines(content: bytes, many: int) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:many])


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no answer": (lambda content: first_lines(content, 1), "the 3 answers .*, but it holds 0"),
    "an answer less": (lambda content: first_lines(content, 3), "the 3 answers .*, but it holds 2"),
    "nothing": (lambda _: b"", "transcript"),
    "no file": (lambda content: content, "transcript"),
    "a changed line": (lambda content: content.replace(b'"shape"', b'"shale"', 1), "transcript"),
    "no count": (lambda content: content, "so far, but it is mis"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_release_with_damaged_answers_is_dead(damage: str, project: Project, spec: DatasetSpec):
    transcript = interrupted(project, spec)
    harm, words = DAMAGES[damage]
    transcript.write_bytes(before := harm(transcript.read_bytes()))
    if damage == "no count":
        shutil.rmtree(project.home.answer_counts)
    if damage == "no file":
        transcript.unlink()
    with pytest.raises(Damaged, match=words):
        project.publish(spec)
    stored = transcript.read_bytes() if transcript.exists() else before
    assert stored == before, "something was drawn again"
    require_dead(project, spec)


def test_stored_bundle_betrays_answers_put_back(project: Project, spec: DatasetSpec):
    with stopped("bundle not settled"):
        project.publish(spec)
    (transcript,) = project.home.released.rglob("transcript.jsonl")
    transcript.write_bytes(first_lines(transcript.read_bytes(), 3))
    (count,) = project.home.answer_counts.iterdir()
    count.write_text(f"{2:020d}\n")
    with pytest.raises(Damaged, match="The stored answers of"):
        project.publish(spec)
    require_dead(project, spec)


def test_damage_of_the_account_kills_no_release(project: Project, spec: DatasetSpec, monkeypatch):
    """It can be mended, and the answers are whole."""
    interrupted(project, spec)
    raw(project.ledger.folder, "UPDATE entries SET what = 'y' WHERE sequence = 1", checks=False)
    with pytest.raises(Damaged, match="row 1") as damage:
        project.ledger.entries(spec.population)
    # Also where it is seen while the release is drawn.
    with monkeypatch.context() as patch, pytest.raises(Damaged, match="row 1"):
        patch.setattr(NoisyDrawing, "draw", Mock(side_effect=damage.value))
        project.publish(spec)
    require_resumed(project, spec)


def test_answers_of_no_charge_are_not_charged(project: Project, spec: DatasetSpec, monkeypatch):
    """Else the rest of them would be asked of rows that may be others by now."""
    forgotten = interrupted(project, spec, answers=1).parent.name
    states = Ledger.states

    def forget(ledger: Ledger, keys: list[str]) -> tuple[str | None, ...]:
        known = zip(keys, states(ledger, keys), strict=True)
        return tuple(None if key[:32] == forgotten else state for key, state in known)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "states", forget)
        patch.setattr(Ledger, "history", lambda *_: ())
        with pytest.raises(Damaged, match="the release was never charged, but"):
            project.publish(spec)
    require_resumed(project, spec)


def test_stored_bundle_is_settled_by_newer_code(project: Project, spec: DatasetSpec, monkeypatch):
    with stopped("bundle not settled"):
        project.publish(spec)
    real = EpsilonRelease.draw_bundle

    def newer(*arguments: Any, **named: Any) -> Bundle:
        bundle = real(*arguments, **named)
        return replace(bundle, facts={**bundle.facts, "title": "Otherwise"})

    with monkeypatch.context() as patch:
        patch.setattr(EpsilonRelease, "draw_bundle", newer)
        assert "title" not in require_resumed(project, spec).bundle.facts
    assert project.publish(spec).state == "replayed"


def test_count_is_there_while_a_release_is_unfinished(project, spec, tmp_path):
    interrupted(project, spec)
    (count,) = project.home.answer_counts.iterdir()
    assert count.read_text() == f"{3:020d}\n"
    assert project.home.answer_counts.parent == project.home.root
    require_resumed(project, spec)
    assert list(project.home.answer_counts.iterdir()) == []
    # As a run leaves it that is killed once it has settled.
    count.write_text(f"{6:020d}\n")
    assert project.publish(spec).state == "replayed"
    assert not count.exists()
    (tmp_path / "disk").mkdir()
    elsewhere = Home(tmp_path / "elsewhere")
    elsewhere.root.mkdir()
    (elsewhere.root / "ledger.head").symlink_to(tmp_path / "disk" / "head")
    assert elsewhere.answer_counts == tmp_path / "disk" / "head.answers"


class SeededAsReleasable(SeededNoise):
    name = "opendp"
    is_releasable = True


def test_digests_are_others_for_who_does_not_hold_the_key(project: Project):
    """Else who reads a bundle, and knows most answers, could find the others by trying."""
    drafts, fingerprints = [], set()
    for name in ("one", "two"):
        other = Project(project.folder / name)
        # Two rows a rider: who holds another key would keep another choice of more.
        other.datasets.mkdir(parents=True)
        rows = [f"r{n % 9},{n % 8},{n % 4}" for n in range(18)]
        other.write_rows("rides.csv", ["rider,x,y", *rows])
        release = other.release(prepared(other))
        vars(release)["noise"] = SeededAsReleasable(7)
        published = publish(release)
        transcript = Transcript(published.folder.parent / "transcript.jsonl")
        drafts.append((published.bundle, transcript.records))
        charges = [entry for entry in other.ledger.entries() if entry.event == "reserve"]
        fingerprints |= {charge.facts[ROWS] for charge in charges}
    (first, records), (second, same) = drafts
    assert first.key == second.key
    assert len(fingerprints) == 2, "the same rows under two keys"
    assert [record.question for record in records] == [record.question for record in same]
    for record, other_record in zip(records[1:], same[1:], strict=True):
        assert np.array_equal(record.answer, other_record.answer), "the same noise of the same rows"
    assert first.transcript != second.transcript
    assert records[0].answer.nbytes == same[0].answer.nbytes == 32
    assert not np.array_equal(records[0].answer, same[0].answer)


def test_what_cannot_be_drawn_is_not_charged(project: Project):
    bounds = {"bounds": ["0", "1000000000"], "bins": "4097"}
    beds = {"bounds": ["0", "9"], "bins": "2", "column": "rooms"}
    spec = project.declare(
        "homes",
        HOMES,
        attributes={"beds": beds, "rent": bounds},
        models={"independent": {}},
        partitions=["0.000001"],
        protection={"unit": "rows_of_person", "column": "tenure", "at_most": str(10**12)},
        ceiling={"total": "1"},
    )
    project.launch(spec, "ingested", "validated", "normalized", "discretized")
    with pytest.raises(BoundaryViolation, match="The scale of noise must"):
        project.publish(spec, model="independent", epsilon="0.000001")
    assert project.spent(spec) == 0
    assert not list(project.home.released.rglob("transcript.jsonl"))
