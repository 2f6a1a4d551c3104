"""Law of every kind of release: killed at any point, it is paid once and its answers stay, and the
next run goes on under its charge.
"""

from __future__ import annotations

import random
import signal
import time
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger import DeadRelease
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.orchestration.faults import POINTS, edit_document, stopped
from dp_pipeline_tests.orchestration.kinds import KINDS, Case, publish_and_die
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import command, ended, start

pytestmark = pytest.mark.chain

COST = Fraction("0.55")
DEEP = {"dpqt_kmeans": {"k": "3", "nominal_rows": "1000"}}
ANSWERS = 7
"""The rows without a place, three heights of the tree, its leaves, and two of the evaluation."""

NO_ANSWERS, NO_TABLES = ("k-anonymous", "after one answer"), ("domain", "half a bundle")
KILLED = [
    (name, point)
    for name in KINDS
    for point in POINTS
    if (name, point) not in (NO_ANSWERS, NO_TABLES)
]


def transcripts(project: Project) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in project.home.released.rglob("transcript.jsonl")}


def whole_bundles(project: Project) -> dict[Path, int]:
    """When each bundle was written that has its name."""
    texts = project.home.released.rglob("bundle-*/bundle.json")
    return {path: path.stat().st_mtime_ns for path in texts if not path.parent.name.startswith(".")}


@pytest.mark.parametrize(("case", "point"), KILLED, indirect=["case"])
def test_killed_release_goes_on_under_its_charge(point: str, case: Case):
    project, before, earlier = case.project, case.spent, whole_bundles(case.project)
    words = project.folder / "words"
    words.mkdir()
    result = ended(start(words, publish_and_die, project.folder, case.name, point), words)
    assert result.code == -signal.SIGKILL, result.err
    project.ledger.verify()
    is_charged, is_settled = point != "before the charge", point == "settled"
    recorded = ["reserve", "settled"] if is_settled else ["reserve"] * is_charged
    key, stored, bundles = case.key, transcripts(project), whole_bundles(project)
    assert case.events(key) == recorded
    assert case.spent == before + case.cost * is_charged
    is_stored = point in ("bundle not settled", "settled")
    assert len(bundles) == len(earlier) + is_stored
    again = case.publish()
    state = "replayed" if is_settled else "resumed" if is_charged else "charged"
    assert (again.state, again.nano) == (state, 0 if is_charged else case.cost * 10**9)
    after = transcripts(project)
    assert all(after[path].startswith(answers) for path, answers in stored.items())
    if point in ("half a bundle", "bundle not settled", "settled"):
        assert after == stored, "an answer was drawn although all were there"
    assert {path: whole_bundles(project)[path] for path in bundles} == bundles
    events = case.events(key)
    assert events.count("reserve") == events.count("settled") == 1
    assert case.spent == before + case.cost
    assert case.publish().state == "replayed"
    project.ledger.verify()


def test_bundle_changed_before_it_was_settled_is_not_settled(case: Case):
    with stopped("bundle not settled"):
        case.publish()
    folder = max(
        case.project.home.released.rglob("bundle-*"), key=lambda path: path.stat().st_mtime
    )
    edit_document(folder, lambda document: document["facts"].update(dataset="another"))
    with pytest.raises(Damaged, match="not as it was stored"):
        case.publish()
    folder.rename(case.project.folder / "away")
    again = case.publish()
    assert (again.state, again.nano, again.bundle.facts["dataset"]) == (
        "resumed",
        0,
        case.spec.name,
    )


# Answers of one release.


@pytest.fixture
def spec(rides: Project) -> DatasetSpec:
    return rides.declare("rides", RIDES, models=DEEP)


def stopped_after(answers: int, project: Project, spec: DatasetSpec) -> Path:
    """The transcript of a first try."""
    with stopped(answers):
        project.publish(spec)
    (transcript,) = transcripts(project)
    assert len(Transcript(transcript)) == 1 + answers
    return transcript


def require_finished(project: Project, spec: DatasetSpec, transcript: Path) -> None:
    stored = transcript.read_bytes()
    again = project.publish(spec)
    assert (again.state, again.nano) == ("resumed", 0)
    assert transcript.read_bytes().startswith(stored)
    assert len(Transcript(transcript)) == 1 + ANSWERS, "the header and every answer"
    assert again.bundle.transcript == Transcript(transcript).chain
    assert again.bundle.spent == project.spent(spec) == COST


@pytest.mark.parametrize("answers", range(ANSWERS))
def test_only_the_missing_answers_are_drawn(answers: int, rides: Project, spec: DatasetSpec):
    require_finished(rides, spec, stopped_after(answers, rides, spec))


@pytest.mark.parametrize("torn", [b"{", b'{"chain": "0', "half"], ids=["a byte", "a start", "half"])
def test_torn_line_is_dropped(torn: bytes | str, rides: Project, spec: DatasetSpec):
    transcript = stopped_after(3, rides, spec)
    stored = transcript.read_bytes()
    last = stored.splitlines(keepends=True)[-1]
    transcript.write_bytes(stored + (torn if isinstance(torn, bytes) else last[: len(last) // 2]))
    assert rides.publish(spec).state == "resumed"
    assert transcript.read_bytes().startswith(stored)
    assert len(Transcript(transcript)) == 1 + ANSWERS
    assert rides.spent(spec) == COST


def test_unfinished_release_is_resumed_by_a_run(rides: Project, spec: DatasetSpec):
    stopped_after(2, rides, spec)
    # Anew or not: what was paid for is finished first.
    options = {"epsilons": ["0.5"], "new_draw": True}
    planned = plan_run(rides.request(spec, **options))
    assert [(release.state, release.cost) for release in planned.releases] == [("unfinished", 0)]
    (outcome,) = rides.run(spec, **options)
    assert (outcome.state, outcome.cost, rides.spent(spec)) == ("resumed", 0, COST)


def test_unfinished_release_needs_its_own_parameters(rides: Project, spec: DatasetSpec):
    """Its evaluation asks about its own centres: of others it would be another question."""
    transcript = stopped_after(5, rides, spec)
    other = rides.declare("rides", RIDES, models={"dpqt_kmeans": {**DEEP["dpqt_kmeans"], "k": "2"}})
    with pytest.raises(DeclarationError, match=r"was started with.*\"k\": \"3\".*: finish it with"):
        rides.publish(other)
    require_finished(rides, spec, transcript)
    changed = rides.publish(other)
    assert (changed.state, changed.nano, changed.bundle.quality) == ("replayed", 0, {})


@pytest.mark.parametrize("damage", ["emptied", "a middle line changed"])
def test_release_with_damaged_answers_is_dead(damage: str, rides: Project, spec: DatasetSpec):
    transcript = stopped_after(3, rides, spec)
    lines = transcript.read_bytes().splitlines(keepends=True)
    changed = [lines[0], lines[1].replace(b'"shape"', b'"shale"'), *lines[2:]]
    transcript.write_bytes(b"" if damage == "emptied" else b"".join(changed))
    with pytest.raises(Damaged):
        rides.publish(spec)
    for _ in range(2):
        with pytest.raises(DeadRelease):
            rides.publish(spec)
    assert rides.spent(spec) == COST


def test_release_that_lost_its_transcript_needs_a_new_draw(rides: Project, spec: DatasetSpec):
    stopped_after(3, rides, spec).unlink()
    run = ["run", "rides", "--epsilon", "0.5"]
    for words in ("transcript", "its noisy answers were lost and its ε is spent"):
        dead = rides.cli_here(*run)
        assert (dead.code, dead.out, dead.err.count("\n")) == (1, "", 1)
        assert words in dead.err
        assert rides.spent(spec) == COST
    assert "dead" in rides.cli_here("plan", "rides").out
    fresh = rides.cli_here(*run, "--new-draw")
    assert fresh.code == 0, fresh.err
    assert "charged by this run: 0.55" in fresh.out
    assert rides.spent(spec) == 2 * COST
    assert rides.publish(spec).state == "replayed"


def never_undercounts(project: Project, spec: DatasetSpec) -> None:
    """Every transcript with an answer belongs to a charge, and every charge counts."""
    project.ledger.verify()
    entries = project.ledger.entries()
    charged = {entry.key: entry.nano_epsilon for entry in entries if entry.event == "reserve"}
    assert project.spent(spec) == Fraction(sum(charged.values()), 10**9)
    assert project.spent(spec) <= spec.cost_of_everything
    for content in transcripts(project).values():
        header, *answers = content.splitlines(keepends=True)
        key = header.split(b'"release ')[1].split(b'"')[0].decode()
        assert key in charged or not answers


@pytest.mark.stack
def test_command_killed_five_times_pays_every_release_once(project: Project):
    spec = project.declare("rides", RIDES)
    moments = random.Random(3)
    words = project.folder / "words"
    words.mkdir()
    for _ in range(5):
        child = start(words, command, ["run", "rides"], project.environment, project.folder)
        # A whole run takes some two seconds.
        time.sleep(moments.uniform(0.2, 2.5))
        child.kill()
        ended(child, words)
        never_undercounts(project, spec)
    result = project.cli("run", "rides")
    assert result.code == 0, result.err
    assert project.spent(spec) == spec.cost_of_everything
    events = [entry.event for entry in project.ledger.entries() if entry.key is not None]
    assert events.count("reserve") == events.count("settled") == len(spec.partitions)
    assert "dead" not in events
    never_undercounts(project, spec)
