"""Backfills over ε through real servers: what half failed, the shell, what is refused."""

import os
import signal
import subprocess
import sys
from fractions import Fraction

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parser import load_spec
from dp_pipeline_tests.stack.accounts import require_paid_once, unfinished
from dp_pipeline_tests.stack.dagster_stack import CODE, DagsterStack
from dp_pipeline_tests.stack.processes import wait_for
from dp_pipeline_tests.stack.steward import Steward

pytestmark = pytest.mark.stack

ASSETS = [["rides", "dpqt_kmeans"], ["rides", "evaluation"]]
CHECKS = ("spent_equals_claim", "within_the_ceiling")


@pytest.fixture
def spec(stack: DagsterStack) -> DatasetSpec:
    return load_spec(stack.project.datasets / "rides.yaml")


def launched(stack: DagsterStack, spec: DatasetSpec) -> str:
    backfill = stack.client.launch_backfill(ASSETS, spec.partition_keys)
    wait_for(lambda: stack.client.runs(backfill), what="runs of the backfill")
    return backfill


def test_half_failed_backfill_pays_only_what_is_missing(stack: DagsterStack, spec: DatasetSpec):
    assert stack.project.spent(spec) == 0
    backfill = launched(stack, spec)
    (first, *_) = wait_for(stack.workers, what="a run that is executed")
    os.kill(first, signal.SIGKILL)
    assert stack.wait_backfill(backfill).status == "COMPLETED_FAILED"
    runs = {run.partition: run.status for run in stack.client.runs(backfill)}
    assert sorted(runs.values()) == ["FAILURE", "SUCCESS"]
    (missing,) = [partition for partition, status in runs.items() if status == "FAILURE"]
    before = stack.project.spent(spec)
    # Killed before it had paid or after: the other one is paid in any case.
    assert before in (spec.cost_of_everything, price(spec, set(runs) - {missing}))

    again = stack.client.retry_backfill(backfill)
    assert stack.wait_backfill(again).status == "COMPLETED_SUCCESS"
    assert [run.partition for run in stack.client.runs(again)] == [missing]
    require_paid_once(stack.project, spec, snapshots=1)


def price(spec: DatasetSpec, partitions: set[str]) -> Fraction:
    return len(spec.models) * sum((Fraction(e) + spec.evaluation for e in partitions), Fraction(0))


def test_run_of_a_lost_container_is_terminated_and_resumed(stack: DagsterStack, monkeypatch):
    monkeypatch.setattr("dp_pipeline_tests.stack.processes.POLL_SECONDS", 0.02)
    spec = load_spec(stack.project.datasets / "city.yaml")
    steward = Steward(stack, spec)
    steward.begin(["0.5"])
    wait_for(lambda: unfinished(stack.project, spec), what="a release that is not finished")
    stack.kill_with_children(CODE)
    left = unfinished(stack.project, spec)
    assert left, "a kill that met nothing would prove nothing"
    stack.restart(CODE)
    steward.finish()
    assert len(steward.lost) == 1
    entries = stack.project.ledger.entries(spec.population)
    assert left == {entry.key for entry in entries if entry.event == "interrupted"}
    assert stack.project.spent(spec) == price(spec, {"0.5"})


def words_of_dagster(stack: DagsterStack, spec: DatasetSpec) -> list[str]:
    reads = ["--workspace", str(stack.workspace), "--job", "rides_epsilon_backfill"]
    chosen = ["--partitions", ",".join(spec.partition_keys), "--noprompt"]
    return ["dagster", "job", "backfill", *reads, *chosen]


def words_of_ours(_: DagsterStack, spec: DatasetSpec) -> list[str]:
    return ["dp_pipeline.cli", "backfill", spec.name]


@pytest.mark.parametrize("words", [words_of_dagster, words_of_ours], ids=["dagster", "dp-pipeline"])
def test_same_backfill_from_shell_replays_everything_at_no_cost(words, stack, spec):
    for epsilon in spec.partition_keys:
        stack.project.publish(spec, epsilon=epsilon)
    spent = stack.project.spent(spec)
    known = set(stack.client.backfills())
    command = [sys.executable, "-m", *words(stack, spec)]
    folder = stack.project.folder
    subprocess.run(command, env=stack.shell, cwd=folder, check=True, timeout=300)
    (backfill,) = set(stack.client.backfills()) - known
    stack.wait_backfill(backfill)
    runs = stack.client.runs(backfill)
    assert {run.partition for run in runs} == set(spec.partition_keys)
    assert {run.status for run in runs} == {"SUCCESS"}
    assert stack.project.spent(spec) == spent
    for check in CHECKS:
        newest = stack.client.check_results(["rides", "dpqt_kmeans"], check)[: len(runs)]
        assert newest == ["SUCCEEDED"] * len(runs), check


def test_the_report_follows_a_backfill_without_a_click(stack: DagsterStack, spec: DatasetSpec):
    report = stack.project.home.reports / "rides.html"
    report.unlink(missing_ok=True)
    began = {run.id for run in stack.client.renewals()}
    stack.wait_backfill(launched(stack, spec))
    wait_for(report.exists, what="the report", seconds=240)
    own = [run for run in stack.client.renewals() if run.id not in began]
    assert len(own) == 1, "one report, and not one a run"
    assert stack.wait_run(own[0].id).status == "SUCCESS"
