"""Progress on stderr: a line a step in a log, a bar on a terminal, nothing for who is quiet."""

from __future__ import annotations

import sys

import pytest

from dp_pipeline.reporting.text import progress

STEPS = ("rides: rows", "rides: ε=0.1")


def step_lines(capsys: pytest.CaptureFixture[str], *, quiet: bool = False) -> str:
    """What two steps leave on stderr."""
    with progress(len(STEPS), quiet=quiet) as on_step:
        for step in STEPS:
            on_step(step)
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_a_log_gets_one_plain_line_a_step(capsys: pytest.CaptureFixture[str]):
    assert step_lines(capsys) == "rides: rows …\nrides: ε=0.1 …\n"


def test_a_line_is_there_before_its_step_ends(capsys: pytest.CaptureFixture[str]):
    with progress(1) as on_step:
        on_step("rides: rows")
        assert capsys.readouterr().err == "rides: rows …\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_who_is_quiet_sees_nothing(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert step_lines(capsys, quiet=True) == ""


def test_a_terminal_gets_no_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert " …\n" not in step_lines(capsys)
