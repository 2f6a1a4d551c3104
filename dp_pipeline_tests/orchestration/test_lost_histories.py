"""A budget or a promise cannot be shed by losing, copying back or renaming what stands on disk."""

from __future__ import annotations

import errno
import os
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.errors import BoundaryViolation, Damaged, PipelineError
from dp_pipeline.releases.account import find_traces
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.run_plan import plan_run
from dp_pipeline_tests.orchestration.events import refusal
from dp_pipeline_tests.orchestration.projects import HOMES, RIDES, Project

pytestmark = pytest.mark.chain

PUBLIC = {"purpose": "benchmark", "ceiling": None, "evaluation": None}


@pytest.mark.parametrize("asset", ["evaluation", "validated", "normalized", "comparison"])
def test_declaring_rows_public_shows_no_exact_number(asset: str, released_rides: Project):
    public = released_rides.declare("rides", RIDES, **PUBLIC)
    partition = "0.5" if asset == "evaluation" else None
    before = released_rides.files("reports", "internal")
    assert "opened with" in refusal(released_rides.launch(public, asset, partition=partition))
    assert released_rides.files("reports", "internal") == before


def test_ledger_that_is_gone_does_not_come_back_with_full_budget(released_rides: Project):
    spec = released_rides.declare("rides", RIDES)
    shutil.rmtree(released_rides.home.root / "ledger")
    with pytest.raises(Damaged, match="rows of it: put back a copy, or name its server in"):
        released_rides.run(spec, epsilons=["0.5"])
    (released_rides.home.root / "ledger.head").unlink()
    for options in ({}, {"snapshot": "again"}, {"new_draw": True}):
        with pytest.raises(Damaged, match="the ledger does not know population riders"):
            released_rides.run(spec, epsilons=["0.5"], **options)


def test_releases_that_cannot_be_listed_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = Home(tmp_path)
    assert list(find_traces(home)) == []
    closed = home.released / "rides"
    (closed / "grid" / "key").mkdir(parents=True)
    real = os.scandir

    def refused(path: Path | str) -> Any:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(
        PipelineError, match=r"rides cannot be used: Permission denied; let the user"
    ):
        list(find_traces(home))


def test_a_copied_transcript_does_not_stand_for_a_settled_one(rides: Project):
    spec = rides.declare("rides", RIDES)
    first = rides.publish(spec)
    lines = (first.folder.parent / "transcript.jsonl").read_bytes().splitlines(keepends=True)
    (first.folder.parent / "transcript.jsonl").write_bytes(b"".join(lines[:-1]))
    other = rides.declare("rides", RIDES, models={"dpqt_kmeans": {"k": "2", "nominal_rows": "40"}})
    with pytest.raises(
        Damaged, match=r"of rides/dpqt_kmeans at .* is not the one that was settled"
    ):
        rides.publish(other)
    (first.folder.parent / "transcript.jsonl").write_bytes(b"".join([*lines[1:], b"\n"]))
    with pytest.raises(Damaged, match=r"transcript.jsonl is damaged: restore it from a backup"):
        rides.publish(other)
    (first.folder.parent / "transcript.jsonl").unlink()
    with pytest.raises(Damaged, match=r"transcript.jsonl is missing: restore it from a backup"):
        rides.publish(other)


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


def test_pairs_too_large_to_count_are_left_out_of_a_bought_error(project: Project):
    def wide() -> dict[str, object]:
        return {"bounds": ["0", "1000"], "bins": "5000"}

    spec = project.declare(
        "homes",
        HOMES,
        attributes={**HOMES["attributes"], "rooms": wide(), "rent": wide()},
        models={"independent": {}},
        evaluation={"epsilon": "0.5"},
    )
    # Without the comparison: its picture would have ten thousand bars.
    stages = ("ingested", "validated", "normalized", "discretized")
    assert project.launch(spec, *stages).success
    bundle = project.publish(spec, model="independent", epsilon="1").bundle
    assert set(bundle.quality) == {"avd_2"}
    assert project.spent(spec) == Fraction("1.5")


def test_plan_without_an_account_uses_the_declared_ceiling(project: Project):
    planned = plan_run(project.request(project.declare("rides", RIDES)))
    assert (planned.ceiling, planned.remaining, planned.spent) == (3, 3, 0)
    assert not (project.folder / "data").exists()
