"""Laws of every kind of release: charged once, stored, settled, replayed, however it is killed."""

import random
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.errors import Damaged, NotPrepared
from dp_pipeline.ledger import Reservation
from dp_pipeline.releases import k_anonymous_release
from dp_pipeline.releases.domain_release import DomainRelease
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.orchestration.faults import POINTS, edit_document, stopped
from dp_pipeline_tests.orchestration.kinds import KINDS, Case, publish_and_die
from dp_pipeline_tests.orchestration.projects import RIDES, Project
from dp_pipeline_tests.orchestration.warm import command, ended, start
from dp_pipeline_tests.stack.accounts import require_nothing_uncounted, require_paid_once


def test_release_is_charged_once_and_replayed_without_rows(case: Case):
    before = case.spent
    first = case.publish()
    assert (first.state, first.nano) == ("charged", case.cost * 10**9)
    assert case.spent == before + case.cost
    assert case.events(first.bundle.key) == ["reserve", "settled"]
    assert case.project.ledger.balance(case.spec.population).not_dp == (not case.is_dp)
    assert first.bundle.facts["population"] == case.spec.population
    assert require_intact(case.release, first.folder).to_json() == first.bundle.to_json()
    stored, charges = case.project.files("released"), case.charges
    case.forget_rows()
    again = case.publish()
    assert (again.state, again.nano, again.folder) == ("replayed", 0, first.folder)
    assert again.bundle.to_json() == first.bundle.to_json()
    assert case.project.files("released") == stored
    assert case.charges == charges
    case.project.ledger.verify()


def test_lost_bundle_is_rebuilt_from_its_answers(case: Case):
    first = case.publish()
    stored = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    if case.is_dp:
        transcript = Transcript(first.folder.parent / "transcript.jsonl")
        assert first.bundle.transcript == transcript.chain
        require_reproducible(case.release, first.bundle)
    shutil.rmtree(first.folder)
    case.forget_rows()
    if not case.is_dp:
        with pytest.raises(Damaged, match="put a copy"):
            case.publish()
        return
    again = case.publish()
    assert (again.state, again.nano) == ("replayed", 0)
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == stored


def test_charge_is_first_then_look_then_bundle_then_settled(case: Case, monkeypatch):
    key = case.key
    steps: list[str] = []

    def watched(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def step(*words: Any, **named: Any) -> Any:
            # The dry run keeps its answers in memory alone, and is before the charge.
            if name != "store" or words[0]._path is not None:
                bundles = any(case.release.store.root.rglob("bundle-*/seal"))
                steps.append(f"{name} after {case.events(key)}{' and a bundle' * bundles}")
            return real(*words, **named)

        monkeypatch.setattr(owner, name, step)

    watched(Transcript, "store")
    watched(k_anonymous_release, "coded_rows")
    watched(Reservation, "settle")
    # The refined release has a bundle already.
    if case.name == "refinement":
        shutil.rmtree(next(case.project.home.released.rglob("bundle-*")))
    case.publish()
    look = "store" if case.is_dp else "coded_rows"
    assert set(steps[:-1]) == {f"{look} after ['reserve']"}
    assert steps[-1] == "settle after ['reserve'] and a bundle"


@pytest.mark.parametrize("case", sorted(KINDS), indirect=True)
def test_of_several_at_once_one_draws_and_the_others_replay(case: Case):
    # There is δ for one discovery only.
    with ThreadPoolExecutor(3) as pool:
        published = list(pool.map(lambda _: case.publish(), range(3)))
    assert sorted(bundle.state for bundle in published) == ["charged", "replayed", "replayed"]
    assert len({bundle.bundle.to_json() for bundle in published}) == 1
    assert case.events(published[0].bundle.key) == ["reserve", "settled"]


@pytest.mark.parametrize("case", ["domain"], indirect=True)
def test_release_that_another_process_charged_is_replayed(case: Case, monkeypatch):
    real_open = DomainRelease.open

    def open_after_the_other(release: DomainRelease, *arguments: Any) -> Any:
        monkeypatch.undo()
        assert case.publish().state == "charged"
        return real_open(release, *arguments)

    monkeypatch.setattr(DomainRelease, "open", open_after_the_other)
    again = case.publish()
    assert (again.state, again.nano) == ("replayed", 0)


@pytest.mark.parametrize("case", ("clustering", "table", "window", "two windows"), indirect=True)
def test_new_draw_is_another_release_at_the_full_price(case: Case):
    before, first = case.spent, case.publish()
    second = case.publish(new_draw=True)
    assert (second.state, second.nano) == ("charged", first.nano)
    assert second.bundle.key != first.bundle.key
    draws = [release.bundle.facts["replicate"] for release in (first, second)]
    salts = [Transcript(release.folder.parent / "transcript.jsonl") for release in (first, second)]
    assert draws == ["0", "1"]
    assert salts[0].records[0].answer.tolist() != salts[1].records[0].answer.tolist()
    assert case.spent == before + 2 * case.cost
    # The newest draw is the one that is replayed; the older one still lies there.
    assert case.publish().bundle.key == second.bundle.key
    assert first.folder.is_dir()


def test_rows_that_are_not_prepared_are_not_looked_at(case: Case):
    before, charges = case.spent, case.charges
    for snapshot in case.snapshots:
        snapshot.record(validated={}, stages={})
    with pytest.raises(NotPrepared):
        case.publish()
    assert (case.spent, case.charges) == (before, charges)


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_damaged_rows_are_refused_before_the_charge(engine: str, case: Case, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_ENGINE", engine)
    before, files = case.spent, case.project.files("released")
    for path in case.project.home.raw.rglob("*.parquet"):
        content = path.read_bytes()
        path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    with pytest.raises(Damaged, match="not as it was stored"):
        case.publish()
    # A k-anonymous release has recorded that it looks.
    assert case.spent == before
    assert case.is_dp is (case.project.files("released") == files)


NO_ANSWERS, NO_TABLES = ("k-anonymous", "after one answer"), ("domain", "half a bundle")
KILLED = sorted({*product(KINDS, POINTS)} - {NO_ANSWERS, NO_TABLES})


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
    folders = case.project.home.released.rglob("bundle-*")
    folder = max(folders, key=lambda path: path.stat().st_mtime)
    edit_document(folder, lambda document: document["facts"].update(dataset="another"))
    with pytest.raises(Damaged, match="not as it was stored"):
        case.publish()
    folder.rename(case.project.folder / "away")
    again = case.publish()
    assert (again.state, again.nano) == ("resumed", 0)
    assert again.bundle.facts["dataset"] == case.spec.name


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
        require_nothing_uncounted(project, spec)
        assert project.spent(spec) <= spec.cost_of_everything
    result = project.cli("run", "rides")
    assert result.code == 0, result.err
    require_paid_once(project, spec, snapshots=1)
    assert "dead" not in [entry.event for entry in project.ledger.entries()]
