"""Files that only their owner may open, and that are either absent or complete."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dp_pipeline.release.durable import make_private, sync
from dp_pipeline.schema.errors import PipelineError
from dp_pipeline.schema.system_errors import system_line


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """An operating system's refusal as one line."""
    try:
        yield
    except OSError as error:
        raise PipelineError(f"ledger: {system_line(error, path)}") from None


def private_folder(folder: Path) -> None:
    """Make ``folder`` if it is absent, for its owner only; also survives a loss of power."""
    if folder.is_dir():
        return
    make_private(folder)
    sync(folder.parent)


def publish(finished: Path, path: Path) -> None:
    """Give a finished file its name unless that is taken; ``finished`` itself goes away.

    A link is atomic and never overwrites: of many processes one wins, and
    nobody ever sees a half-written file.
    """
    sync(finished)
    try:
        path.hardlink_to(finished)
    except FileExistsError:
        pass  # Another process was first; its file is as good as ours.
    finally:
        finished.unlink()
    sync(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the flock of ``path``; waits for whoever holds it, in any process or thread.

    Every call opens a descriptor of its own, and flock belongs to the
    descriptor, so threads of one process exclude each other too. The file is
    never removed: a waiter would then hold the lock of a file without a name.
    """
    with file_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with file_errors(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Unlock before closing: a forked child may hold a copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
