"""Private folders, files that survive a loss of power and are never half written, and locks.

A file is written under a temporary name beside its own, held by a lock until it is complete. A
temporary name without a holder was left by a killed writer, and may be deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_ENDING = ".tmp"
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
MIN_LEFTOVER_SECONDS = 60.0
"""A younger name may be of a writer who has not locked it yet."""


def sync(path: Path) -> None:
    """Flush a file or a folder to disk: without the folder a new name may not survive."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter, and those above it that are missing.

    ``mkdir(parents=True)`` would open the ones above to everyone: the mode is the last one's only.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def close_folders(*folders: Path) -> None:
    """Close existing folders to all but their owner, such as those that git has opened.

    Folders of another user stay as they are.
    """
    for folder in filter(Path.is_dir, folders):
        state = folder.stat()
        if state.st_mode & 0o077 and state.st_uid == os.geteuid():
            folder.chmod(0o700)


@contextmanager
def private_files() -> Iterator[None]:
    """Let this process write files for its owner only: engines for files choose no mode."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], object], *, overwrite: bool = True
) -> None:
    """Write a 0600 file whole or not at all; it is on disk when this returns.

    content     its bytes, or a function that writes them into an open file
    overwrite   False: an existing file stays as it is
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_ENDING, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())
            if overwrite:
                temporary.replace(path)
            else:
                # A hard link appears whole or not at all, and never over another file.
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a 0700 folder beside ``path``, to be renamed when it is complete, else deleted."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_ENDING, dir=path.parent))
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


def leftovers(folder: Path, *, below: bool = False) -> Iterator[Path]:
    """Yield the temporary files and folders in a folder whose writers were killed.

    below   in every folder under it too
    """
    for path in sorted(folder.rglob(f".*{_ENDING}") if below else folder.glob(f".*{_ENDING}")):
        inside = any(map(_TEMPORARY.fullmatch, path.relative_to(folder).parts[:-1]))
        if _TEMPORARY.fullmatch(path.name) and not inside and _is_abandoned(path):
            yield path


def sweep(folder: Path, *, below: bool = False) -> list[Path]:
    """Delete the leftovers of a folder, and return their paths.

    Nothing that a living process writes, and nothing with a name of its own, is touched.
    """
    paths = list(leftovers(folder, below=below))
    for path in paths:
        # A leftover that cannot be deleted does no harm.
        with contextlib.suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return [path for path in paths if not path.exists()]


@contextmanager
def locked(path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold the flock of ``path``; wait for its holder, in any process or thread. Not reentrant.

    Every call opens a descriptor of its own, and flock belongs to the descriptor, so threads of one
    process exclude each other too.

    remove   delete the file at the end of the block; all users of a lock agree on it
    """
    descriptor = _acquire(path)
    try:
        yield
    finally:
        try:
            if remove:
                # While it is held: a waiting process sees that the name is gone or another file's.
                path.unlink(missing_ok=True)
        finally:
            _release(descriptor)


def sweep_locks(folder: Path, names: str) -> int:
    """Delete the lock files that killed runs have left, and return their number.

    A file is locked while it is deleted, so a process that has opened it meanwhile sees that it
    lost its name, and makes another.

    names   pattern of the lock files
    """
    swept = 0
    for path in folder.glob(names):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _has_name(descriptor, path):
                path.unlink(missing_ok=True)
                swept += 1
        except BlockingIOError:
            pass  # A process holds it.
        finally:
            _release(descriptor)
    return swept


def _release(descriptor: int) -> None:
    """Unlock before closing: a forked child may hold a copy of the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _acquire(path: Path) -> int:
    """Return a descriptor that holds the lock of the file that ``path`` names now."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _has_name(descriptor, path):
            return descriptor
        # Its holder has deleted it: a lock on a file without a name excludes no process.
        os.close(descriptor)


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        state = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), state)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file or folder; OSError for an absent one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_abandoned(path: Path) -> bool:
    """Return whether no process holds a path, or is about to."""
    try:
        is_old = time.time() - path.lstat().st_mtime >= MIN_LEFTOVER_SECONDS
        return is_old and not is_locked(path)
    except OSError:
        # Gone meanwhile, a link, or not ours to open.
        return False
