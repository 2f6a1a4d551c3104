"""Windows when something went wrong: given up, lost, failed, swept, or copied by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.errors import Damaged
from dp_pipeline.ledger import Account, Charge, Ledger, Reservation
from dp_pipeline.orchestration.automation import MAX_WINDOWS_PER_TICK, due_windows
from dp_pipeline.orchestration.checks import NOT_NEAR, WITHIN, budget_checks
from dp_pipeline.orchestration.runner import RunFailed
from dp_pipeline.releases.outcome import published_windows
from dp_pipeline.releases.publish import give_up
from dp_pipeline_tests.orchestration.projects import Project
from dp_pipeline_tests.orchestration.streams import EACH, STREAM, run_weeks, stream

pytestmark = pytest.mark.chain


def test_release_of_a_window_is_given_up_and_drawn_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    spec = stream(project)

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reservation, "settle", dies)
        with pytest.raises((KeyboardInterrupt, RunFailed)):
            run_weeks(project, spec, "2026-W01")
    (key,) = project.ledger.unfinished()
    reserved = give_up(project.home, key[:12], reason="begun by other code", by="ana")
    assert reserved.facts["blocks"] == "2026-W01"
    assert (project.ledger.state(key), project.ledger.unfinished()) == ("dead", ())
    spent = Fraction(reserved.nano_epsilon, 10**9)
    assert project.ledger.blocks(spec.population) == {"2026-W01": spent}
    run_weeks(project, spec, "2026-W01", new_draw=True)
    assert project.ledger.blocks(spec.population) == {"2026-W01": EACH + spent}
    project.ledger.verify()


@pytest.mark.parametrize("is_edited", [False, True], ids=["as it was", "its word edited"])
@pytest.mark.parametrize("take", [shutil.copytree, shutil.move], ids=["copied", "moved"])
def test_rows_of_one_window_are_not_read_under_another_name(
    project: Project, take: Callable[[Path, Path], object], *, is_edited: bool
):
    """They would be paid for by the other window, beyond the limit of their own."""
    spec = stream(project)
    run_weeks(project, spec, "2026-W01")
    raw = project.home.raw / "stream"
    take(raw / "2026-W01", raw / "2026-W02")
    (raw / "current.2026-W02").write_text("2026-W02")
    manifest = raw / "2026-W02" / "manifest.json"
    if is_edited:
        manifest.write_text(manifest.read_text().replace("2026-W01", "2026-W02"))
    words = "not as it was stored" if is_edited else "the folder holds the manifest of snapshot"
    with pytest.raises((Damaged, RunFailed), match=words):
        run_weeks(project, spec, "2026-W02")
    assert project.ledger.blocks(spec.population) == {"2026-W01": EACH}


def test_failed_window_is_requested_after_a_later_one(project: Project):
    spec = stream(project)
    run_weeks(project, spec, "2026-W01", "2026-W03")
    moment = spec.cut.closing_time("2026-W04")
    assert due_windows(spec, project.home, moment) == ("2026-W02", "2026-W04")
    much_later = spec.cut.closing_time("2027-W30")
    # Nothing says that later ones have rows, so three are requested at a time.
    due = due_windows(spec, project.home, much_later)
    assert due == ("2026-W02", "2026-W04", "2026-W05", "2026-W06")
    ends = stream(project, windows={**STREAM["windows"], "last": "2027-W30"})
    due = due_windows(ends, project.home, much_later)
    assert (due[0], due[-1], len(due)) == ("2026-W04", "2027-W10", MAX_WINDOWS_PER_TICK)


def test_windows_before_first_published_are_not_requested(project: Project):
    """They are public and charged only when somebody publishes them by a backfill."""
    spec = stream(project)
    run_weeks(project, spec, "2026-W03")
    moment = spec.cut.closing_time("2026-W04")
    assert due_windows(spec, project.home, moment) == ("2026-W04",)
    run_weeks(project, spec, "2026-W01")
    assert due_windows(spec, project.home, moment) == ("2026-W02", "2026-W04")


def test_a_gap_of_long_ago_is_not_requested_for_ever(project: Project):
    spec = stream(project)
    run_weeks(project, spec, "2026-W01")
    for model, epsilon in (("htree_kmeans", "0.5"), ("independent", "0.1")):
        folder = project.home.released / "stream" / model
        name = "partition-{}." + f"{epsilon}.json"
        text = (folder / name.format("2026-W01")).read_text()
        (folder / name.format("2028-W01")).write_text(text)
    due = due_windows(spec, project.home, spec.cut.closing_time("2028-W02"))
    assert (due[0], due[-1]) == ("2026-W47", "2028-W02")
    assert "2028-W01" not in due
    assert len(due) == MAX_WINDOWS_PER_TICK
    later = due_windows(spec, project.home, spec.cut.closing_time("2028-W30"))
    assert (later[0], later[56], later[57]) == ("2026-W49", "2027-W52", "2028-W02")


def test_sweep_over_epsilon_publishes_no_window_of_another_name(project: Project):
    """The ε of 0.5 ends like one of 5."""
    spec = stream(
        project,
        partitions=["0.5", "5"],
        publish=[{"model": "independent", "epsilon": "5"}],
        ceiling={"each_window": "9"},
    )
    run_weeks(project, spec, "2026-W01", epsilon="0.5")
    assert published_windows(spec, project.home) == ()
    assert due_windows(spec, project.home, spec.cut.closing_time("2026-W02")) == ("2026-W02",)


def test_the_check_of_a_budget_asks_the_window_too(project: Project):
    ledger, blocks = project.home.ledger, ("2026-W01", "2026-W02")
    ledger.open_account(weekly())
    for number, window in enumerate(blocks):
        charge(ledger, number, window, 900_000_000)
    balance = ledger.balance("rides", blocks)
    verdicts = {check.check_name: check.passed for check in budget_checks(balance)}
    assert verdicts == {WITHIN: True, NOT_NEAR: True}
    over = budget_checks(balance.__class__(**{**vars(balance), "window_spent": Fraction(2)}))
    assert {one.check_name: one.passed for one in over} == {WITHIN: False, NOT_NEAR: True}


def weekly() -> Account:
    cut = {"windows": "every week, UTC", "within": "window", "each_window": Fraction(1)}
    return Account("rides", "one row", "add_remove", "release", None, **cut)  # type: ignore[arg-type]


def charge(ledger: Ledger, number: int, window: str, nano: int) -> None:
    new_charge = Charge(f"{number:064x}", "rides", "dp", nano, "rides/grid", {}, blocks=(window,))
    with ledger.reserve(new_charge):
        pass
