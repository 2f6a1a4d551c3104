"""Dagster's settings: written once, quiet, and at one with the environment."""

import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._daemon.monitoring import run_monitoring

from dp_pipeline.config.errors import DeclarationError, PipelineError
from dp_pipeline.orchestration import instance as making
from dp_pipeline.orchestration.instance import dagster_instance, make_dagster_home
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.orchestration.warm import ended, start

STORED = {"postgres": {"postgres_url": {"env": "DP_PIPELINE_DAGSTER"}}}
URL = "postgresql://ana:secret@127.0.0.1:1/history"


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Home:
    # Set first, so that what is set on the way is taken back.
    for name in ("DAGSTER_HOME", "DP_PIPELINE_DAGSTER"):
        monkeypatch.setenv(name, "")
    return Home(tmp_path / "data")


@pytest.fixture
def declared(home: Home) -> Path:
    return home.root.parent / "dagster.yaml"


def settings(folder: Path) -> dict[str, object]:
    return yaml.safe_load((folder / "dagster.yaml").read_text(encoding="utf-8"))


def test_default_history_is_a_quiet_folder_beside_the_home(home: Home):
    folder = make_dagster_home(home)
    assert folder == home.root.parent / ".dagster_home"
    assert settings(folder) == {"telemetry": {"enabled": False}, "nux": {"enabled": False}}


@pytest.mark.parametrize("text", ["", "# Nothing is to be another one.\n", "nux: {}\n"])
def test_settings_of_project_are_taken_once_and_then_left_alone(home: Home, declared: Path, text):
    own = {"retention": {}, "storage": {"sqlite": {"base_dir": "/srv/history"}}}
    declared.write_text(yaml.safe_dump(own), encoding="utf-8")
    folder = make_dagster_home(home)
    assert settings(folder) == own
    (folder / "dagster.yaml").write_text(text, encoding="utf-8")
    make_dagster_home(home)
    assert (folder / "dagster.yaml").read_text(encoding="utf-8") == text


def test_server_is_named_without_a_password(home: Home, declared: Path, monkeypatch):
    declared.write_text("nux:\n  enabled: false", encoding="utf-8")
    monkeypatch.setenv("DP_PIPELINE_DAGSTER", URL)
    folder = make_dagster_home(home)
    assert settings(folder) == {"nux": {"enabled": False}, "storage": STORED}
    assert "secret" not in (folder / "dagster.yaml").read_text(encoding="utf-8")
    make_dagster_home(home)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            "",
            URL,
            "names postgresql://127.0.0.1:1/history, but .* keeps the run history",
        ),
        (URL, "", "DP_PIPELINE_DAGSTER must hold an address"),
    ],
)
def test_home_is_not_carried_on_elsewhere(first, second, words, home: Home, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DAGSTER", first)
    make_dagster_home(home)
    monkeypatch.setenv("DP_PIPELINE_DAGSTER", second)
    with pytest.raises(DeclarationError, match=words) as refusal:
        make_dagster_home(home)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"- a list\n", "it is not a mapping of fields"),
        (b"quiet\n", "it is not a mapping of fields"),
        (b"storage:\n  [\n", "line 2 is not valid YAML"),
        (b"a: 'x\nb: 2\n", "line 1 is not valid YAML"),
        (b"a: 1\nb: !other 2\n", "line 2 is not valid YAML"),
        (b"quiet: \x00\n", "line 1 is not valid YAML"),
        (b"quiet: 2020-13-45\n", "one of its values, such as a date, is not valid"),
        (b"[" * 10_000, "its lists and mappings are nested too deeply"),
        (b"\xff\xfe", "it is not UTF-8 text"),
    ],
)
def test_what_is_no_settings_is_refused_in_one_line(home: Home, content: bytes, fault: str):
    file = home.root.parent / ".dagster_home/dagster.yaml"
    file.parent.mkdir()
    file.write_bytes(content)
    expected = f"^{file} must hold Dagster's settings in YAML, but {fault}.*: correct it$"
    with pytest.raises(DeclarationError, match=expected) as refusal:
        make_dagster_home(home)
    assert "\n" not in str(refusal.value)


def test_settings_may_be_written_as_dagster_reads_them(home: Home, declared: Path):
    text = "x-off: &off {enabled: false}\ntelemetry: *off\nnux: {<<: *off}\n"
    declared.write_text(text, encoding="utf-8")
    assert settings(make_dagster_home(home))["nux"] == {"enabled": False}


@pytest.mark.parametrize("content", [b"\xff\xfe", b"storage: [\n"])
def test_a_project_file_that_is_no_settings_is_named_itself(home, declared: Path, content: bytes):
    declared.write_bytes(content)
    with pytest.raises(DeclarationError, match=f"^{declared} must "):
        make_dagster_home(home)
    assert not (home.root.parent / ".dagster_home/dagster.yaml").exists()


def test_silent_server_is_one_line_without_its_password(home: Home, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DAGSTER", URL)
    wrong = "DP_PIPELINE_DAGSTER: the server postgresql://127"
    with pytest.raises(PipelineError, match=wrong) as refusal:
        dagster_instance(home)
    assert not [word for word in ("secret", "\n") if word in str(refusal.value)]


def test_history_of_run_is_on_server_and_not_in_folder(home: Home, postgres_url: str, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DAGSTER", postgres_url)

    @dg.asset
    def grown() -> None: ...

    with dagster_instance(home) as instance:
        ran = dg.materialize([grown], instance=instance)
    with dagster_instance(home) as instance:
        assert [run.run_id for run in instance.get_runs()] == [ran.run_id]
        assert len(instance.all_logs(ran.run_id)) > 3
    assert not list(home.root.parent.rglob("*.db"))


def make_history(folder: Path) -> None:
    """Begin as any command; fail when another process marks the tables as made at the same time."""
    os.environ.update(DAGSTER_HOME="", DP_PIPELINE_DAGSTER="")
    mark, inside = sqlite_run_storage.stamp_alembic_rev, folder / "inside"

    def mark_slowly(*arguments: Any, **named: Any) -> None:
        inside.touch(exist_ok=False)
        time.sleep(1.5)
        mark(*arguments, **named)
        inside.unlink()

    sqlite_run_storage.stamp_alembic_rev = mark_slowly
    dagster_instance(Home(folder / "data")).dispose()


def make_history_without_a_lock(folder: Path) -> None:
    making.locked = nullcontext  # type: ignore[assignment]
    make_history(folder)


def codes_of_three(folder: Path, work: Callable[[Path], None]) -> list[int]:
    words = [folder / str(number) for number in range(3)]
    for text in words:
        text.mkdir()
    children = [start(text, work, folder) for text in words]
    return [ended(child, arguments).code for child, arguments in zip(children, words, strict=True)]


@pytest.mark.stack
def test_commands_that_start_at_once_make_the_history_once(tmp_path: Path):
    assert codes_of_three(tmp_path, make_history) == [0, 0, 0]


@pytest.mark.stack
def test_without_a_lock_they_make_it_all_at_once(tmp_path: Path):
    assert any(codes_of_three(tmp_path, make_history_without_a_lock))


@pytest.mark.parametrize(
    ("last", "hours", "state"),
    [
        (dg.DagsterEventType.RUN_START, (23, 25), dg.DagsterRunStatus.STARTED),
        (dg.DagsterEventType.PIPELINE_STARTING, (0.15, 0.18), dg.DagsterRunStatus.STARTING),
    ],
    ids=["said to go on for a day", "imports for minutes"],
)
def test_a_silent_run_is_waited_for_and_then_ended(last, hours, state, home: Home, monkeypatch):
    shutil.copy(Path(__file__).parents[2] / "dagster.yaml", home.root.parent)
    with dagster_instance(home) as instance:
        run = a_silent_run(instance, last)
        seen = [looked_at(instance, run, hour, monkeypatch) for hour in hours]
    assert seen == [state, dg.DagsterRunStatus.FAILURE]


def a_silent_run(instance: dg.DagsterInstance, last: dg.DagsterEventType) -> str:
    """The id of a run of which nothing was heard since this event."""

    @dg.job
    def silent() -> None: ...

    run = instance.create_run_for_job(silent)
    instance.report_dagster_event(dg.DagsterEvent(last.value, silent.name), run.run_id)
    return run.run_id


def looked_at(
    instance: dg.DagsterInstance, run: str, hours: float, monkeypatch
) -> dg.DagsterRunStatus:
    """What the daemon makes of a run so long after its start."""
    later = time.time() + 3600 * hours
    monkeypatch.setattr(run_monitoring, "get_current_timestamp", lambda: later)
    record: Any = instance.get_run_record_by_id(run)
    workspace: Any = None
    daemon = logging.getLogger("daemon")
    if record.dagster_run.status is dg.DagsterRunStatus.STARTING:
        run_monitoring.monitor_starting_run(instance, record, daemon)
    else:
        run_monitoring.monitor_started_run(instance, workspace, record, daemon)
    return instance.get_run_by_id(run).status  # type: ignore[union-attr]
