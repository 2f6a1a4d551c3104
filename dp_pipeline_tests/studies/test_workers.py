"""Workers give every result once, whether in this process or in others."""

from __future__ import annotations

import os

import pytest

from dp_pipeline.spec.errors import PipelineError
from dp_pipeline.studies import study
from dp_pipeline.studies.study import each, progress


def test_results_of_this_process_come_in_the_order_of_the_items() -> None:
    assert list(each(abs, [-2, 1, -3], jobs=1)) == [(-2, 2), (1, 1), (-3, 3)]


def test_whoever_stops_listening_stops_the_work() -> None:
    begun: list[int] = []
    for item, _ in each(begun.append, range(9), jobs=1):
        if item == 2:
            break
    assert begun == [0, 1, 2]


def test_a_process_that_was_killed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # The process has nothing to compute: it need not import numerical libraries.
    monkeypatch.setattr(study, "_use_one_thread", os.getpid)
    with pytest.raises(PipelineError, match="got one that was killed; run again to go on"):
        list(each(os._exit, [9], jobs=2))


@pytest.mark.parametrize(("total", "lines"), [(3, 3), (20, 20), (1000, 20)])
def test_where_there_is_no_terminal_progress_is_a_line_every_twentieth(
    total: int, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress(total) as on_finished:
        for number in range(total):
            on_finished(f"cell {number}")
    written = capsys.readouterr().err.splitlines()
    assert len(written) == lines
    assert written[-1] == f"{total} of {total} cells, 0:00:00 left: cell {total - 1}"
