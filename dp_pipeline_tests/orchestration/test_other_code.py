"""Other code charges nothing twice and kills no whole release; what stands is not run again."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, OtherQuestion, UnknownFormat
from dp_pipeline.gate import charge, curator, mechanisms
from dp_pipeline.ledger import Account, Charge, DeadRelease
from dp_pipeline.ledger.view import View
from dp_pipeline.orchestration import runner
from dp_pipeline.releases import outcome
from dp_pipeline.releases import release as releasing
from dp_pipeline.releases.epsilon_release import EpsilonRelease
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.outcome import is_level_complete, is_report_current
from dp_pipeline.releases.publish import give_up
from dp_pipeline.releases.replay import require_intact, require_reproducible
from dp_pipeline.results.accountant import Spend
from dp_pipeline_tests.orchestration.faults import stopped
from dp_pipeline_tests.orchestration.kinds import Case
from dp_pipeline_tests.orchestration.projects import RIDES, Project


@contextmanager
def reworded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (mechanisms, curator):
            patch.setattr(module, "Spend", lambda what, *of: Spend(f"{what}, in other words", *of))
        yield


@contextmanager
def other_answers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charge, "DIGEST_VERSION", charge.DIGEST_VERSION + 1)
        yield


def test_reworded_questions_take_stored_answers(rides, spec, transcript):
    stored, spent = transcript.read_bytes(), rides.spent(spec)
    with reworded():
        finished = rides.publish(spec)
    assert (finished.state, finished.nano) == ("resumed", 0)
    assert transcript.read_bytes().startswith(stored)
    assert b"in other words" in transcript.read_bytes()
    assert rides.spent(spec) == spent
    assert "dead" not in [entry.event for entry in rides.ledger.entries()]


def test_settled_release_keeps_words_that_it_was_settled_with(rides: Project, spec: DatasetSpec):
    first = rides.publish(spec)
    release, settled_text = rides.release(spec), first.bundle.to_json()
    key = release.key(rides.snapshot(spec))
    with reworded():
        assert rides.publish(spec).state == "replayed"
        assert release.rebuild(key).to_json() == settled_text
        with (
            other_answers(),
            pytest.raises(OtherQuestion, match=r"at ε=0\.5: .*; rebuild it with "),
        ):
            release.rebuild(key)
        require_reproducible(release, require_intact(release, first.folder))
        shutil.rmtree(first.folder)
        again = rides.publish(spec)
    assert (again.state, again.bundle.to_json()) == ("replayed", settled_text)


def test_release_of_other_questions_stays_alive(rides, spec, transcript):
    stored, spent = transcript.read_bytes(), rides.spent(spec)
    (key,) = rides.ledger.unfinished()
    words = "rides/dpqt_kmeans at ε=0.5: the next stored answer of the transcript is to '"
    # A new draw does not give up what it cannot finish.
    for new_draw in (False, False, True):
        with other_answers(), pytest.raises(OtherQuestion) as refused:
            rides.publish(spec, new_draw=new_draw)
        line = str(refused.value)
        assert line.startswith(words)
        assert f"finish it with {releasing.code_version()}, or give it up by" in line
        assert f"budget give-up {key[:12]} " in line
        assert "\n" not in line
        assert transcript.read_bytes() == stored
    assert rides.ledger.state(key) == "interrupted"
    assert rides.publish(spec).state == "resumed"
    assert rides.spent(spec) == spent


@pytest.mark.parametrize("case", ["clustering", "window"], indirect=True)
def test_giving_up_a_release_loses_its_cost(case: Case):
    home, spec, before = case.project.home, case.release.spec, case.spent
    weeks = (spec.window,) if spec.window else ()
    with stopped(2):
        case.publish()
    key = case.key
    entry = give_up(home, key[:12], reason="begun by other code", by="ana")
    assert entry.what == case.release.what
    assert entry.facts.get("blocks", "") == spec.window
    assert (home.ledger.state(key), key in home.ledger.unfinished()) == ("dead", False)
    last = home.ledger.entries(spec.population)[-1]
    assert (last.event, last.facts) == ("dead", {"reason": "given up by ana: begun by other code"})
    assert list(home.answer_counts.iterdir()) == []
    assert len(list(home.released.rglob("transcript.jsonl"))) == 1
    ended = r"it was given up by ana: begun by other code, and its ε is spent: pay for a new"
    with pytest.raises(DeadRelease, match=ended):
        case.publish()
    assert case.spent == before + case.cost
    spent_of_week = home.ledger.balance(spec.population, weeks).window_spent
    with other_answers():
        assert case.publish(new_draw=True).state == "charged"
    assert case.spent == before + 2 * case.cost
    if weeks:
        balance = home.ledger.balance(spec.population, weeks)
        assert balance.window_spent == spent_of_week + case.cost
    home.ledger.verify()


def test_only_an_unfinished_release_is_given_up(rides, spec, transcript):
    (key,) = rides.ledger.unfinished()

    def refuse(given: str, words: str, reason: str = "old") -> None:
        with pytest.raises(DeclarationError, match=words):
            give_up(rides.home, given, reason=reason, by="ana")

    for short in ("", key[:7]):
        refuse(short, "digits or more, as `dp-pipeline check` shows it")
    # The whole key: twelve of its digits have no letter once in 280 days.
    for unknown in ("0" * 12, key.upper()):
        refuse(unknown, "no unfinished release has such a key")
    refuse(key, "reason", " ")
    rides.publish(spec)
    refuse(key, "no unfinished release has such a key")
    assert transcript.is_file()
    assert "dead" not in [entry.event for entry in rides.ledger.entries()]


def test_digits_that_begin_two_keys_give_neither_up(tmp_path: Path, monkeypatch):
    home = Home(tmp_path)
    home.ledger.open_account(Account("trips", "one row", "add_remove", "release", Fraction(1)))
    for key in ("ab" * 8 + "01", "ab" * 8 + "02"):
        with home.ledger.reserve(Charge(key, "trips", "dp", 10**8, f"trips/grid {key}", {})):
            pass
    monkeypatch.setattr(View, "entries", None)
    monkeypatch.setattr(View, "of_population", None)
    with pytest.raises(DeclarationError, match="unfinished releases, such as"):
        give_up(home, "ab" * 8, reason="old", by="ana")
    assert give_up(home, "ab" * 8 + "01", reason="old", by="ana").key == "ab" * 8 + "01"
    assert home.ledger.unfinished() == ("ab" * 8 + "02",)


def test_transcript_of_other_format_ends_nothing(rides, spec, transcript):
    stored = transcript.read_bytes()
    newer = json.loads(stored.splitlines()[0])
    newer["record"] = {"format": 7, "sealed": "otherwise"}
    transcript.write_bytes(json.dumps(newer).encode() + b"\n\x00" + stored)
    for _ in range(2):
        with pytest.raises(UnknownFormat, match="expected format 1, got 7: use the dp_pipeline"):
            rides.publish(spec)
    assert rides.ledger.state(*rides.ledger.unfinished()) == "interrupted"
    transcript.write_bytes(stored)
    assert rides.publish(spec).state == "resumed"


def asks(project: Project, spec: DatasetSpec, **options: object) -> bool:
    request = project.request(spec, epsilons=["0.5"], **options)
    return not (is_level_complete(request, "0.5") and is_report_current(request))


def test_whole_partition_starts_no_run(
    released_rides: Project, released_spec: DatasetSpec, monkeypatch
):
    def started(*_: object) -> None:
        raise AssertionError("a run was started")

    monkeypatch.setattr(runner, "_run_levels", started)
    (again,) = released_rides.run(released_spec, epsilons=["0.5"])
    assert (again.state, again.cost) == ("replayed", 0)
    assert "nicv" in {row.metric for row in again.quality}


FILES = (
    "internal/rides/evaluation/0.5.json",
    "released/rides/dpqt_kmeans/partition-0.5.json",
    "released/rides/dpqt_kmeans/*/transcript.jsonl",
    "released/rides/dpqt_kmeans/*/bundle-*/centres.parquet",
    "reports/rides.html",
)


@pytest.mark.parametrize("path", FILES)
def test_file_that_is_lost_starts_a_run(
    path: str, released_rides: Project, released_spec: DatasetSpec
):
    assert not asks(released_rides, released_spec)
    (file,) = released_rides.home.root.glob(path)
    file.unlink()
    assert asks(released_rides, released_spec)


CHANGES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda value: value["pointers"]["dpqt_kmeans"].update(folder="x"),
    lambda value: value.update(by="f" * 64),
)


@pytest.mark.parametrize("change", CHANGES, ids=["another bundle", "other code"])
def test_evaluation_of_another_bundle_or_code_starts_a_run(change, released_rides, released_spec):
    path = released_rides.home.root / FILES[0]
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document["value"])
    path.write_text(json.dumps(document), encoding="utf-8")
    # By itself, whatever the report says: it is a digest of evaluations too.
    assert not is_level_complete(released_rides.request(released_spec, epsilons=["0.5"]), "0.5")


def test_other_code_title_or_draw_starts_a_run(released_rides, released_spec, monkeypatch):
    assert asks(released_rides, released_spec, new_draw=True)
    assert asks(released_rides, released_spec, snapshot="tuesday")
    assert asks(released_rides, released_rides.declare("rides", RIDES, title="Otherwise"))
    assert not asks(released_rides, released_spec)
    for owner, name in ((EpsilonRelease, "version"), (outcome, "program_version")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, staticmethod(lambda: "dp_pipeline 0"))
            assert asks(released_rides, released_spec)
    released_rides.publish(released_spec, epsilon="0.1")
    assert asks(released_rides, released_spec), "the report says nothing of another release"
    request = released_rides.request(released_spec, epsilons=["0.5"])
    assert is_level_complete(request, "0.5")
    centres = released_rides.publish(released_spec).folder / "centres.parquet"
    centres.write_bytes(centres.read_bytes() + b" ")
    assert not is_level_complete(request, "0.5")
