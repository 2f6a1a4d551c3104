"""A process killed at any point: paid once, what was answered stays, and the next run goes on."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.ledger import DeadRelease
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.orchestration.killers import publish_and_die
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import command, ended, start

pytestmark = pytest.mark.chain

COST = Fraction("0.55")
DEEP = {"dpqt_kmeans": {"k": "3", "nominal_rows": "1000"}}
ANSWERS = 6
"""Three heights of the tree, its leaves, and two of the evaluation."""

Kill = Callable[[str], Path]


@pytest.fixture
def spec(rides: Project) -> DatasetSpec:
    return rides.declare("rides", RIDES, models=DEEP)


@pytest.fixture
def killed_at(rides: Project, spec: DatasetSpec) -> Kill:
    """Kill a first try at a point; the transcript that it leaves."""

    def kill(point: str) -> Path:
        assert rides.spent(spec) == 0
        words = rides.folder / "words"
        words.mkdir()
        result = ended(start(words, publish_and_die, rides.folder, point), words)
        assert result.code == -signal.SIGKILL, result.err
        rides.ledger.verify()
        (transcript,) = rides.home.released.rglob("transcript.jsonl")
        return transcript

    return kill


def finishes(project: Project, spec: DatasetSpec, transcript: Path, *, state: str) -> None:
    """The next run ends with ``state`` at no cost, and adds to the stored answers only."""
    stored = transcript.read_bytes()
    again = project.publish(spec)
    assert (again.state, again.nano) == (state, 0)
    assert transcript.read_bytes().startswith(stored)
    whole = Transcript(transcript)
    assert len(whole) == 1 + ANSWERS, "the header and every answer"
    assert again.bundle.transcript == whole.chain
    assert again.bundle.spent == COST
    assert project.ledger.state(again.bundle.key) == "settled"
    assert project.spent(spec) == COST
    project.ledger.verify()
    assert project.publish(spec).state == "replayed"


@pytest.mark.parametrize("answers", range(ANSWERS))
def test_killed_after_some_answers_it_draws_only_the_missing_ones(
    answers: int, rides: Project, spec: DatasetSpec, killed_at: Kill
):
    transcript = killed_at(str(answers))
    assert len(Transcript(transcript)) == 1 + answers
    assert rides.spent(spec) == COST
    finishes(rides, spec, transcript, state="resumed")


@pytest.mark.parametrize("point", ["half a bundle", "bundle not settled"])
def test_killed_with_every_answer_drawn_it_draws_none(
    point: str, rides: Project, spec: DatasetSpec, killed_at: Kill
):
    transcript = killed_at(point)
    stored = transcript.read_bytes()
    bundles = {path: path.stat().st_mtime_ns for path in transcript.parent.glob("bundle-*/*")}
    assert len(bundles) == (4 if point == "bundle not settled" else 0)
    finishes(rides, spec, transcript, state="resumed")
    assert transcript.read_bytes() == stored
    assert {path: path.stat().st_mtime_ns for path in bundles} == bundles


def test_killed_after_it_was_settled_it_is_replayed(
    rides: Project, spec: DatasetSpec, killed_at: Kill
):
    finishes(rides, spec, killed_at("settled"), state="replayed")


def test_killed_before_the_charge_nothing_is_spent(
    rides: Project, spec: DatasetSpec, killed_at: Kill
):
    assert len(Transcript(killed_at("before the charge"))) == 1
    assert rides.spent(spec) == 0
    assert rides.publish(spec).state == "charged"
    assert rides.spent(spec) == COST


@pytest.mark.parametrize("torn", [b"{", b'{"chain": "0', "half"], ids=["a byte", "a start", "half"])
def test_a_line_torn_by_the_kill_is_dropped_and_drawn_for_the_first_time(
    torn: bytes | str, rides: Project, spec: DatasetSpec, killed_at: Kill
):
    transcript = killed_at("3")
    stored = transcript.read_bytes()
    last = stored.splitlines(keepends=True)[-1]
    tail = torn if isinstance(torn, bytes) else last[: len(last) // 2]
    transcript.write_bytes(stored + tail)
    assert rides.publish(spec).state == "resumed"
    assert transcript.read_bytes().startswith(stored)
    assert len(Transcript(transcript)) == 1 + ANSWERS
    assert rides.spent(spec) == COST


def test_a_run_over_a_killed_one_shows_as_resumed_at_no_cost(
    rides: Project, spec: DatasetSpec, killed_at: Kill
):
    killed_at("2")
    planned = plan_run(rides.request(spec, epsilons=["0.5"], new_draw=True))
    assert [(one.state, one.cost) for one in planned.releases] == [("unfinished", 0)]
    # Fresh or not: what was paid for is finished first.
    (outcome,) = rides.run(spec, epsilons=["0.5"], new_draw=True)
    assert (outcome.state, outcome.cost) == ("resumed", 0)
    assert rides.spent(spec) == COST


def test_a_killed_release_is_not_finished_with_another_k_and_stays_alive(
    rides: Project, spec: DatasetSpec, killed_at: Kill
):
    transcript = killed_at("5")
    other = rides.declare("rides", RIDES, models={"dpqt_kmeans": {**DEEP["dpqt_kmeans"], "k": "2"}})
    with pytest.raises(DeclarationError, match=r"was begun with.*finish it first"):
        rides.publish(other)
    finishes(rides, spec, transcript, state="resumed")
    changed = rides.publish(other)
    assert (changed.state, changed.nano, changed.bundle.quality) == ("replayed", 0, {})


@pytest.mark.parametrize("damage", ["emptied", "a middle line changed"])
def test_a_charged_release_whose_answers_were_damaged_is_dead(
    damage: str, rides: Project, spec: DatasetSpec, killed_at: Kill
):
    transcript = killed_at("3")
    lines = transcript.read_bytes().splitlines(keepends=True)
    changed = [lines[0], lines[1].replace(b'"shape"', b'"shale"'), *lines[2:]]
    transcript.write_bytes(b"" if damage == "emptied" else b"".join(changed))
    with pytest.raises(Damaged):
        rides.publish(spec)
    for _ in range(2):
        with pytest.raises(DeadRelease):
            rides.publish(spec)
    assert rides.spent(spec) == COST


def test_a_charged_release_that_lost_its_transcript_is_dead_and_only_a_new_draw_goes_on(
    rides: Project, spec: DatasetSpec, killed_at: Kill
):
    killed_at("3").unlink()
    run = ["run", "rides", "--epsilon", "0.5"]
    for words in ("transcript", "its noisy answers were lost and its ε is spent"):
        dead = rides.cli(*run)
        assert (dead.code, dead.out) == (1, "")
        assert dead.err.count("\n") == 1
        assert words in dead.err
        assert rides.spent(spec) == COST
    assert "dead" in rides.cli("plan", "rides").out
    fresh = rides.cli(*run, "--new-draw")
    assert fresh.code == 0, fresh.err
    assert "charged by this run: 0.55" in fresh.out
    assert rides.spent(spec) == 2 * COST
    assert rides.publish(spec).state == "replayed"


def never_undercounts(project: Project, spec: DatasetSpec) -> None:
    """Every transcript with an answer belongs to a charge, and every charge counts."""
    project.ledger.verify()
    charged = {
        entry.key: entry.nano_epsilon
        for entry in project.ledger.entries()
        if entry.event == "reserve"
    }
    assert project.spent(spec) == Fraction(sum(charged.values()), 10**9)
    assert project.spent(spec) <= spec.cost_of_everything
    for path in project.home.released.rglob("transcript.jsonl"):
        header, *answers = path.read_bytes().splitlines(keepends=True)
        key = header.split(b'"release ')[1].split(b'"')[0].decode()
        assert key in charged or not answers


@pytest.mark.stack
def test_a_command_killed_five_times_at_any_moment_ends_with_every_release_paid_once(
    project: Project,
):
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
