"""Progress of a study: a bar with the time left on a terminal, a line every 5 % elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LINES = 20


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """On stderr; the function that is given is told each cell after it was finished."""
    show = _bar if sys.stderr.isatty() else _lines
    with show(total) as on_finished:
        yield on_finished


@contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.description}"),
    )
    # The cells differ much in length: the estimate looks back further than Rich's 30 seconds.
    bar = Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=600
    )
    with bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, description=name, advance=1)


@contextmanager
def _lines(total: int) -> Iterator[Callable[[str], None]]:
    began, finished = time.monotonic(), 0

    def on_finished(name: str) -> None:
        nonlocal finished
        finished += 1
        if finished * _LINES // total > (finished - 1) * _LINES // total:
            left = duration_text((time.monotonic() - began) / finished * (total - finished))
            sys.stderr.write(f"{finished} of {total} cells, {left} left: {name}\n")
            sys.stderr.flush()

    yield on_finished


def duration_text(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration_text(3725.2), duration_text(59.9)
    ('1:02:05', '0:00:59')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
