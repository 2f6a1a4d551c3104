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

_SHORTEST_KEY = 16
"""In hex digits: how the lock of a release is told from that of all writers."""


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
def locked(path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold the flock of ``path``; waits for whoever holds it, in any process or thread.

    Every call opens a descriptor of its own, and flock belongs to the
    descriptor, so threads of one process exclude each other too.

    remove   the file goes when the block ends; all who lock it have to say so, or none
    """
    descriptor = _acquired(path)
    try:
        yield
    finally:
        try:
            if remove:
                # While it is held: whoever waits sees that the name is another file's, or none.
                with file_errors(path):
                    path.unlink(missing_ok=True)
        finally:
            _let_go(descriptor)


def sweep_locks(folder: Path) -> int:
    """Remove the lock files of releases that nobody holds, which killed runs leave; their number.

    A file that is swept is held for that moment, so a process that opened it meanwhile sees that
    it lost its name, and makes another.
    """
    swept = 0
    for path in folder.glob(f"{'[0-9a-f]' * _SHORTEST_KEY}*.lock"):
        with file_errors(path):
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(descriptor, path):
                with file_errors(path):
                    path.unlink(missing_ok=True)
                swept += 1
        except BlockingIOError:
            pass  # Somebody is at work under it.
        finally:
            _let_go(descriptor)
    return swept


def _let_go(descriptor: int) -> None:
    """Unlock before closing: a forked child may hold a copy of the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _acquired(path: Path) -> int:
    """A descriptor that holds the lock of the file that ``path`` names now."""
    while True:
        with file_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_named(descriptor, path):
                return descriptor
        # Whoever held it has removed it: a lock on a file without a name excludes nobody.
        os.close(descriptor)


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), named)
