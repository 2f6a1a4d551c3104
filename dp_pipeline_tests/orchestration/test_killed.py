"""Law of every kind of release: killed at any point, it is paid once and its answers stay, and the
next run goes on under its charge.
"""

import random
import signal
import time
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged
from dp_pipeline_tests.orchestration.faults import POINTS, edit_document, stopped
from dp_pipeline_tests.orchestration.kinds import KINDS, Case, publish_and_die
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import command, ended, start

pytestmark = pytest.mark.chain


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
    assert (again.state, again.nano) == ("resumed", 0)
    assert again.bundle.facts["dataset"] == case.spec.name


# A command.


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
